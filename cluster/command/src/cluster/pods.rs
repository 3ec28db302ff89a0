//! The pods of a test, looked at by a thread of their own while it runs.
//!
//! They are listed again and again, and not watched: a list is the whole of what there is, from which nothing can be
//! missing, too old, or come twice.

use crate::cluster::deployment::{Deployment, vanished};
use control::Gone;
use core::time::Duration;
use cpu::Clock;
use kubernetes::{Fate, fate, worker_of};
use say::eprintln;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::{self, JoinHandle};

/// Between one list and the next.
const LIST_EVERY: Duration = Duration::from_secs(1);

/// The same where there are many pods.
const LIST_SELDOM: Duration = Duration::from_secs(2);

/// More pods than these are many.
const MANY: u32 = 100;

/// How often it is said that the target's holder is here.
const RENEW_EVERY: Duration = Duration::from_secs(4);

/// How often it is looked whether the test is over.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// Looks at pods while their test runs.
pub struct Pods {
    deployment: Arc<Deployment>,
    over: Arc<AtomicBool>,
    fates: Receiver<Fate>,
    looker: Option<JoinHandle<()>>,
    /// What is known of each worker's end.
    words: Vec<String>,
}

impl Pods {
    /// Looks at the pods of a test, whose Job has this number, from now on.
    ///
    /// # Errors
    /// If there is no thread.
    pub fn look(deployment: Deployment, uid: String, workers: u32) -> std::io::Result<Self> {
        let (deployment, over) = (Arc::new(deployment), Arc::new(AtomicBool::new(false)));
        // One of each worker, and one for the target.
        let (sender, fates) = sync_channel(workers as usize + 1);
        let told = BTreeSet::new();
        let look = Look { deployment: Arc::clone(&deployment), uid, over: Arc::clone(&over), workers, told };
        let looker = thread::Builder::new().name("near-pods".into()).spawn(move || look.run(&sender))?;
        let words = (0..workers).map(|_| String::new()).collect();
        Ok(Self { deployment, over, fates, looker: Some(looker), words })
    }

    /// Workers whose pod ended, or cannot begin, since the last look.
    pub fn ended(&mut self) -> Vec<(u32, Gone)> {
        let mut found = Vec::new();
        while let Ok(Fate { worker, gone, words }) = self.fates.try_recv() {
            if let Some(place) = self.words.get_mut(worker as usize) {
                *place = messages::shown(&words);
            }
            found.push((worker, gone));
        }
        found
    }

    /// What is known of a worker's end.
    pub fn words(&self, worker: u32) -> String {
        self.words.get(worker as usize).cloned().unwrap_or_default()
    }

    /// Looks no more, and deletes what was made.
    pub fn finish(&mut self) {
        self.over.store(true, Ordering::Relaxed);
        let Some(looker) = self.looker.take() else { return };
        // It ends after the question that it asks, which has an end in time.
        let _ = looker.join();
        self.ended();
        if let Err(why) = self.deployment.delete() {
            eprintln!("nearside: what the test made is not deleted: {why}");
        }
    }
}

impl Drop for Pods {
    fn drop(&mut self) {
        self.finish();
    }
}

struct Look {
    deployment: Arc<Deployment>,
    /// The number of their Job.
    uid: String,
    over: Arc<AtomicBool>,
    workers: u32,
    /// Whose end is told.
    told: BTreeSet<u32>,
}

impl Look {
    fn run(mut self, fates: &SyncSender<Fate>) {
        let every = if self.workers > MANY { LIST_SELDOM } else { LIST_EVERY };
        let (mut seen, mut silent, mut lost) = (BTreeSet::new(), false, false);
        let mut next_list = Clock.now();
        let mut next_renewal = next_list + RENEW_EVERY;
        while !self.over.load(Ordering::Relaxed) {
            let now = Clock.now();
            if now >= next_list {
                match self.list(&mut seen) {
                    Ok(found) => found.into_iter().for_each(|fate| drop(fates.try_send(fate))),
                    // The load goes on without it: workers that are gone are silent, too.
                    Err(why) if !silent => {
                        silent = true;
                        eprintln!("nearside: {why}; the test goes on");
                    }
                    Err(_) => {}
                }
                next_list = Clock.now() + every;
            }
            if now >= next_renewal && !lost {
                // Without an answer the next one may tell.
                lost = matches!(self.deployment.renew(), Ok(false));
                if lost {
                    let words = "another test has the target now: this one's Lease was taken or deleted".to_owned();
                    let _ = fates.try_send(Fate { worker: 0, gone: Gone::Evicted, words });
                }
                next_renewal = Clock.now() + RENEW_EVERY;
            }
            thread::sleep(LOOK_EVERY);
        }
    }

    /// The ends that are not told yet.
    fn list(&mut self, seen: &mut BTreeSet<u32>) -> Result<Vec<Fate>, kubernetes::ApiError> {
        let pods = self.deployment.pods(&self.uid)?;
        let here: BTreeSet<u32> = pods.iter().filter_map(worker_of).collect();
        let gone = vanished(seen, &here);
        seen.extend(here.iter().filter(|worker| **worker < self.workers));
        let ends = pods.iter().filter_map(fate);
        let gone =
            gone.into_iter().map(|worker| Fate { worker, gone: Gone::Evicted, words: "its pod is gone".to_owned() });
        Ok(ends.chain(gone).filter(|fate| fate.worker < self.workers && self.told.insert(fate.worker)).collect())
    }
}
