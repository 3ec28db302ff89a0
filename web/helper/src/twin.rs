//! Helpers without threads: for simulations, in which what a helper does is to take no time that
//! a machine decides.

use core::cell::Cell;
use core::fmt;

thread_local! {
    static INLINE: Cell<bool> = const { Cell::new(false) };
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
