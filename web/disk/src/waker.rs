//! What ends the wait of a thread that reads.

use core::sync::atomic::{AtomicBool, Ordering, fence};
use rustix::event::EventfdFlags;
use rustix::fd::OwnedFd;

/// Wakes a thread out of [`Reads::wait`](crate::Reads::wait). Without a system call while it
/// is awake.
#[derive(Debug)]
pub struct Waker {
    pub(crate) event: OwnedFd,
    /// The thread waits, or is about to.
    waits: AtomicBool,
}

impl Waker {
    pub(crate) fn new() -> std::io::Result<Self> {
        let event = rustix::event::eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        Ok(Self { event, waits: AtomicBool::new(false) })
    }

    /// Has the thread look again. What was written before is seen by its look.
    pub fn wake(&self) {
        // Either this sees that it waits, or it sees what was written: both have a fence between
        // what they write and what they look at.
        fence(Ordering::SeqCst);
        if self.waits.swap(false, Ordering::Relaxed) {
            // A counter that is full has woken it.
            let _ = rustix::io::write(&self.event, &1_u64.to_ne_bytes());
        }
    }

    /// The thread is about to wait: what it waits for is looked at after this.
    pub(crate) fn announce(&self) {
        self.waits.store(true, Ordering::Relaxed);
        fence(Ordering::SeqCst);
    }

    /// It waits no more.
    pub(crate) fn withdraw(&self) {
        self.waits.store(false, Ordering::Relaxed);
    }

    /// What woke it is over.
    pub(crate) fn clear(&self) {
        let _ = rustix::io::read(&self.event, &mut [0_u8; 8]);
    }
}
