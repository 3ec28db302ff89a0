//! Workers on threads: named, pinned, all joined.

use core::sync::atomic::{AtomicBool, Ordering};
use cpu::pin::{PinError, pin};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::{io, thread};

/// Tells the threads of a fleet that one of them is out, and that the others
/// are to follow: attendants look at it.
#[derive(Debug, Default)]
pub struct Stop(AtomicBool);

impl Stop {
    /// Whether to stop.
    #[inline]
    #[must_use]
    pub fn is_set(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    /// Has every thread stop.
    pub fn set(&self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Why a fleet did not run.
#[derive(Debug)]
pub enum FleetError<E> {
    /// The kernel gives no thread.
    Thread(io::Error),
    /// A thread cannot be where it is to be.
    Pin(PinError),
    /// A worker's own reason, with its index.
    Worker(usize, E),
}

impl<E: core::fmt::Display> core::fmt::Display for FleetError<E> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Self::Thread(e) => write!(f, "cannot start a worker's thread: {e}"),
            Self::Pin(e) => e.fmt(f),
            Self::Worker(index, e) => write!(f, "worker {index}: {e}"),
        }
    }
}

impl<E: core::error::Error> core::error::Error for FleetError<E> {}

/// Runs `body` once for each of `cores`, on a thread of its own (`near-w0`,
/// `near-w1`, …), pinned to the core where one is named. Returns what they
/// returned, in their order, when all have ended.
///
/// If one fails, or panics, `stop` is set, so that attendants that look at it
/// end the others.
///
/// # Errors
/// The first failure, by index. Nothing runs any more then.
///
/// # Panics
/// With the panic of the first that panicked, after all have ended.
pub fn run<R: Send, E: Send>(
    cores: &[Option<u16>],
    stop: &Stop,
    body: impl Fn(usize) -> Result<R, E> + Sync,
) -> Result<Vec<R>, FleetError<E>> {
    let one = |index: usize, core: Option<u16>| {
        let outcome = catch_unwind(AssertUnwindSafe(|| {
            core.map_or(Ok(()), pin).map_err(FleetError::Pin)?;
            body(index).map_err(|e| FleetError::Worker(index, e))
        }));
        if !matches!(outcome, Ok(Ok(_))) {
            stop.set();
        }
        outcome
    };
    let one = &one;
    thread::scope(|scope| {
        let threads: Vec<_> = cores
            .iter()
            .enumerate()
            .map(|(index, &core)| {
                let named = thread::Builder::new().name(format!("near-w{index}"));
                let started = named.spawn_scoped(scope, move || one(index, core));
                if started.is_err() {
                    stop.set();
                }
                started
            })
            .collect();
        // All are joined before any failure is told.
        let ended: Vec<_> = threads
            .into_iter()
            .map(|started| {
                let thread = started.map_err(FleetError::Thread);
                thread.map(|thread| thread.join().unwrap_or_else(|panic| resume_unwind(panic)))
            })
            .collect();
        let outcomes: Vec<_> = ended
            .into_iter()
            .map(|ended| ended.and_then(|outcome| outcome.unwrap_or_else(|panic| resume_unwind(panic))))
            .collect();
        outcomes.into_iter().collect()
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::convert::Infallible;

    fn wait_for(stop: &Stop) {
        while !stop.is_set() {
            thread::yield_now();
        }
    }

    #[test]
    fn returns_in_order_from_named_and_pinned_threads() {
        let core = cpu::pin::allowed_cores().unwrap()[0];
        let names = run::<_, Infallible>(&[Some(core), None, None], &Stop::default(), |index| {
            if index == 0 {
                assert_eq!(cpu::pin::allowed_cores().unwrap(), [core]);
            }
            Ok((index, thread::current().name().map(str::to_owned)))
        });
        let expected = [0, 1, 2].map(|index| (index, Some(format!("near-w{index}"))));
        assert_eq!(names.unwrap(), expected);
    }

    #[test]
    fn a_failure_stops_the_others() {
        let stop = Stop::default();
        let outcome = run(&[None, None], &stop, |index| {
            if index == 1 {
                return Err("no");
            }
            wait_for(&stop);
            Ok(())
        });
        assert_eq!(outcome.unwrap_err().to_string(), "worker 1: no");
    }

    #[test]
    fn a_core_that_is_not_ours_stops_the_others() {
        let stop = Stop::default();
        let outcome = run::<_, Infallible>(&[None, Some(u16::MAX)], &stop, |_| {
            wait_for(&stop);
            Ok(())
        });
        assert!(matches!(outcome, Err(FleetError::Pin(_))));
    }

    #[test]
    #[should_panic(expected = "worker 1 is out")]
    fn a_panic_stops_the_others_and_is_passed_on() {
        let stop = Stop::default();
        let _ = run::<_, Infallible>(&[None, None, None], &stop, |index| {
            assert!(index != 1, "worker {index} is out");
            wait_for(&stop);
            Ok(())
        });
    }
}
