//! A run of which undisturbed slices alone count: a thread beside the workers
//! looks at what disturbs, takes their slices, and has the load wait until
//! backlogs are gone.

use super::collect::Source;
use super::show::Show;
use super::watch::Lookout;
use core::time::Duration;
use load::{Live, Sieve, Stage, Wish};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, TryRecvError};
use wire::Time;

/// How often it looks.
const LOOK_EVERY: Duration = Duration::from_millis(10);

/// What sifts one run.
pub struct Sifter<'a> {
    /// Where the workers introduce themselves; closed when the last has ended.
    pub sources: Receiver<Source>,
    /// What is shown.
    pub show: &'a mut Show,
    /// What sees disturbances.
    pub watch: &'a mut Lookout,
    /// What decides.
    pub sieve: Sieve,
    /// What the user sends.
    pub signals: &'a AtomicUsize,
    /// Ends the run.
    pub stop: Arc<AtomicUsize>,
}

impl Sifter<'_> {
    /// Sifts until the run is over.
    pub fn run(self) -> Sieve {
        let Self { sources, show, watch, mut sieve, signals, stop } = self;
        let mut workers: Vec<Source> = Vec::new();
        // A wait is known when it is over: slices are taken a look later.
        let mut known = Time::ZERO;
        watch.begin();
        loop {
            let closed = loop {
                match sources.try_recv() {
                    Ok(source) => {
                        workers.push(source);
                        // It comes from a thread that was not there before.
                        watch.list();
                    }
                    Err(why) => break why == TryRecvError::Disconnected,
                }
            };
            let now = watch.look(sieve.is_loaded(), |span| sieve.on_disturbance(span));
            let over = closed && workers.iter().all(|worker| worker.intervals.is_last());
            for (silo, worker) in workers.iter_mut().enumerate() {
                while worker.intervals.next_end().is_some_and(|end| over || end <= known) {
                    if let Some(slice) = worker.intervals.take()
                        && slice.stage == Stage::Measuring
                    {
                        sieve.on_slice(silo, &slice);
                    }
                }
            }
            let share = sieve.config().rate / workers.len().max(1) as f64;
            match sieve.poll_wish(now) {
                Wish::Go => {}
                Wish::Pause => workers.iter().for_each(|worker| worker.live.set_rate(0.0)),
                Wish::Resume => workers.iter().for_each(|worker| worker.live.set_rate(share)),
                Wish::Enough => stop.store(1, Ordering::Relaxed),
            }
            if signals.load(Ordering::Relaxed) > 0 {
                stop.store(1, Ordering::Relaxed);
            }
            if over {
                return sieve;
            }
            known = now;
            let lives: Vec<Live> = workers.iter().map(|worker| worker.live.clone()).collect();
            show.moment(&lives);
            show.wait(&lives, LOOK_EVERY);
        }
    }
}
