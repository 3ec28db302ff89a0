//! A program that takes half of each core, in bursts: what other tenants of a
//! machine do to a test that counts on being run in time.

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Bursts are of these lengths, in ms: about the time slice of a scheduler, and
/// several of them.
const SHORTEST: u64 = 1;
const LONGEST: u64 = 100;

/// The bursts, until dropped.
#[derive(Debug)]
pub struct Busy {
    over: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

impl Busy {
    /// A thread on each core that this one may run on.
    ///
    /// # Errors
    /// If the cores are not known.
    pub fn start() -> io::Result<Self> {
        let over = Arc::new(AtomicBool::new(false));
        let threads = cores()?.into_iter().map(|core| {
            let over = Arc::clone(&over);
            std::thread::spawn(move || {
                let mut own = CpuSet::new();
                own.set(core);
                // One that is not kept on its core takes its share of another.
                let _ = sched_setaffinity(None, &own);
                bursts(core as u64, &over);
            })
        });
        let threads = threads.collect();
        Ok(Self { over, threads })
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

/// The cores that this thread may run on.
///
/// # Errors
/// If the kernel does not tell.
pub fn cores() -> io::Result<Vec<usize>> {
    let set = sched_getaffinity(None)?;
    Ok((0..CpuSet::MAX_CPU).filter(|core| set.is_set(*core)).collect())
}

/// Keeps this thread, and what it starts, on one core.
///
/// # Errors
/// If the kernel refuses.
pub fn keep_on(core: usize) -> io::Result<()> {
    let mut own = CpuSet::new();
    own.set(core);
    Ok(sched_setaffinity(None, &own)?)
}

fn bursts(seed: u64, over: &AtomicBool) {
    let mut state = seed;
    while !over.load(Ordering::Relaxed) {
        let length = length(&mut state);
        let end = now() + length;
        while now() < end {
            std::hint::spin_loop();
        }
        std::thread::sleep(length);
    }
}

/// Of one length as often as of twice that.
fn length(state: &mut u64) -> Duration {
    *state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    let uniform = (*state >> 11) as f64 / (1_u64 << 53) as f64;
    let ratio = LONGEST as f64 / SHORTEST as f64;
    Duration::from_secs_f64(SHORTEST as f64 * ratio.powf(uniform) / 1e3)
}

#[expect(clippy::disallowed_methods, reason = "a burst is a matter of wall-clock time")]
pub(crate) fn now() -> Instant {
    Instant::now()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bursts_are_short_and_long() {
        let mut state = 1;
        let lengths: Vec<_> = (0..1_000).map(|_| length(&mut state)).collect();
        let (shortest, longest) = (Duration::from_millis(SHORTEST), Duration::from_millis(LONGEST));
        assert!(lengths.iter().all(|length| (shortest..=longest).contains(length)));
        assert!(lengths.iter().any(|length| *length < 2 * shortest));
        assert!(lengths.iter().any(|length| *length > longest / 2));
    }
}
