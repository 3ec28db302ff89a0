//! Helpers without threads: for simulations, in which what a helper does is to take no time that
//! a machine decides.

use crate::{Behind, spawn_behind};
use core::cell::Cell;
use core::fmt;
use core::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;
use std::thread::Thread;

thread_local! {
    static INLINE: Cell<bool> = const { Cell::new(false) };
}

/// Helpers that stay threads where others are none: nobody waits for what they do, so that no
/// time that they take decides of anything.
///
/// - The writer of logs is handed lines and gives back empty buffers. Where it is behind, lines
///   are dropped and counted; no request asks for its answer, for there is none.
/// - The stapler swaps a pointer (`handshake::Staple`). A handshake shows what is there in its
///   turn, or nothing, and is over by then.
const UNAWAITED: [&str; 2] = ["access-log", "stapler"];

/// Whether this helper has to have a twin now, and has none.
pub(crate) fn is_missing(name: &str) -> bool {
    is_inline() && !UNAWAITED.contains(&name)
}

/// What a helper does as soon as it is asked, on the thread that asks.
pub struct Twin(Box<dyn FnMut() + Send>);

impl Twin {
    /// `all` does all that was asked for so far.
    pub fn new(all: impl FnMut() + Send + 'static) -> Self {
        Self(Box::new(all))
    }

    /// Does what was asked for.
    pub fn run(&mut self) {
        (self.0)();
    }
}

impl fmt::Debug for Twin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Twin")
    }
}

/// A helper that sleeps while there is nothing to do: a thread, or its twin. Which of the two
/// is asked when it is started.
#[derive(Debug)]
pub enum Sleeper {
    /// It is woken.
    Thread(Thread),
    /// It does at once what there is.
    Twin(Twin),
}

impl Sleeper {
    /// Starts it, as [`spawn_behind`] does; `all` does all that was asked for so far, until
    /// `stop` is set, which it looks at itself. It ends where it is woken after that.
    ///
    /// # Errors
    /// As [`spawn_behind`].
    pub fn start(
        name: &str,
        cpus: &[usize],
        (behind, stop): (Behind, Arc<AtomicBool>),
        mut all: impl FnMut() + Send + 'static,
    ) -> std::io::Result<Self> {
        if is_inline() {
            return Ok(Self::Twin(Twin::new(all)));
        }
        let handle = spawn_behind(name, cpus, behind, move || {
            while !stop.load(Ordering::Acquire) {
                all();
                std::thread::park();
            }
        })?;
        Ok(Self::Thread(handle.thread().clone()))
    }

    /// There is something to do, or it is to stop.
    pub fn wake(&mut self) {
        match self {
            Self::Thread(thread) => thread.unpark(),
            Self::Twin(twin) => twin.run(),
        }
    }
}

/// Whether helpers that this thread makes now are to be no threads.
#[must_use]
pub fn is_inline() -> bool {
    INLINE.get()
}

/// Makes something whose helpers are no threads, where they can do without: each does what it is
/// asked for at once, and its answer is there in the next turn.
pub fn inline<T>(make: impl FnOnce() -> T) -> T {
    struct Restore(bool);
    impl Drop for Restore {
        fn drop(&mut self) {
            INLINE.set(self.0);
        }
    }
    let _restore = Restore(INLINE.replace(true));
    make()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::channel;

    /// Whoever adds a helper that others wait for is told that it has no twin yet.
    #[test]
    fn only_those_that_nobody_waits_for_are_threads_there() {
        let start = |name: &'static str| inline(|| crate::spawn(name, &[], || {}).map(|thread| thread.join().is_ok()));
        assert!(start("resolver").is_err() && start("access-log").is_ok_and(|ended| ended));
        assert!(crate::spawn("resolver", &[], || {}).is_ok_and(|thread| thread.join().is_ok()));
    }

    #[test]
    fn a_twin_is_there_where_it_is_asked_for_and_works_at_once() {
        let (told, tells) = channel();
        let work = move || {
            let _ = told.send(std::thread::current().id());
        };
        assert!(!is_inline(), "helpers are threads");
        let mut twin = inline(|| is_inline().then(|| Twin::new(work))).expect("they are none there");
        assert!(!is_inline(), "and again");
        twin.run();
        assert_eq!(tells.try_recv(), Ok(std::thread::current().id()));
    }
}
