//! The pods of a test, looked at by a thread of their own while it runs.

use crate::cluster::drive::Driven;
use control::Gone;
use kubernetes::Fate;
use reconcile::ClusterEvent;
use say::eprintln;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::{self, JoinHandle};

/// Looks at pods while their test runs.
pub struct Pods {
    over: Arc<AtomicBool>,
    /// Whether another test has the target.
    displaced: Arc<AtomicBool>,
    fates: Receiver<Fate>,
    looker: Option<JoinHandle<()>>,
    /// What is known of each worker's end.
    words: Vec<String>,
}

impl Pods {
    /// Looks at the pods of a test from now on, until they and all that was made are to go.
    ///
    /// # Errors
    /// If there is no thread: then nothing is left.
    pub fn look(driven: Driven, workers: u32) -> std::io::Result<Self> {
        // One of each worker.
        let (sender, fates) = sync_channel(workers as usize);
        let (over, displaced) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
        let mut look = Look { driven, over: Arc::clone(&over), displaced: Arc::clone(&displaced) };
        let looker = thread::Builder::new().name("near-pods".into()).spawn(move || look.run(&sender))?;
        let words = (0..workers).map(|_| String::new()).collect();
        Ok(Self { over, displaced, fates, looker: Some(looker), words })
    }

    /// Whether another test has the target.
    pub fn is_displaced(&self) -> bool {
        self.displaced.load(Ordering::Relaxed)
    }

    /// Workers whose pod ended, or cannot begin, since the last look.
    pub fn ended(&mut self) -> Vec<(u32, Gone)> {
        let mut found = Vec::new();
        while let Ok(Fate { worker, gone, words, .. }) = self.fates.try_recv() {
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
        // It ends after the questions of the end, each of which has one in time.
        let _ = self.looker.take().map(JoinHandle::join);
        self.ended();
    }
}

impl Drop for Pods {
    fn drop(&mut self) {
        self.finish();
    }
}

struct Look {
    driven: Driven,
    over: Arc<AtomicBool>,
    displaced: Arc<AtomicBool>,
}

impl Look {
    fn run(&mut self, fates: &SyncSender<Fate>) {
        let (over, displaced) = (&self.over, &self.displaced);
        self.driven.run(|_, event| {
            match event {
                Some(ClusterEvent::Ended(fate)) => drop(fates.try_send(fate)),
                Some(ClusterEvent::Displaced) => displaced.store(true, Ordering::Relaxed),
                // The load goes on without it: workers that are gone are silent, too.
                Some(ClusterEvent::Unlisted(why)) => eprintln!("nearside: {why}; the test goes on"),
                Some(ClusterEvent::Waits { .. } | ClusterEvent::Holds { .. } | ClusterEvent::Begun) | None => {}
            }
            over.load(Ordering::Relaxed)
        });
    }
}

impl Drop for Look {
    fn drop(&mut self) {
        if let Some(why) = self.driven.end() {
            eprintln!("nearside: what the test made is not deleted: {why}");
        }
    }
}
