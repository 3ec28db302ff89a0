//! How residents end: asked by a signal they leave, which takes only so long.

use core::time::Duration;
use cpu::Clock;
use say::Failure;
use signal_hook::consts::{SIGINT, SIGTERM};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use wire::Time;

/// Whoever leaves is gone after this, at most.
const LEAVE_PATIENCE: Duration = Duration::from_secs(10);

/// Whether a resident is to end, and since when.
pub struct Leaving {
    asked: Arc<AtomicBool>,
    until: Option<Time>,
}

impl Leaving {
    /// Hears signals from now on.
    ///
    /// # Errors
    /// If they cannot be heard.
    pub fn by_signals() -> Result<Self, Failure> {
        let asked = Arc::new(AtomicBool::new(false));
        for signal in [SIGINT, SIGTERM] {
            signal_hook::flag::register(signal, Arc::clone(&asked))?;
        }
        Ok(Self { asked, until: None })
    }

    /// Whether it was asked since this was asked last: it leaves from now on.
    pub fn begins(&mut self) -> bool {
        let begins = self.until.is_none() && self.asked.load(Ordering::Relaxed);
        if begins {
            self.until = Some(Clock.now() + LEAVE_PATIENCE);
        }
        begins
    }

    /// Whether it leaves.
    pub fn is_on(&self) -> bool {
        self.until.is_some()
    }

    /// Whether it is to be gone: it leaves, and has done what that takes, or has no time left for it.
    pub fn is_over(&self, is_done: bool) -> bool {
        self.until.is_some_and(|until| is_done || Clock.now() >= until)
    }
}
