//! How a silo hears that its rings have news, also in its sleep.

use core::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use rustix::event::EventfdFlags;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// News for one silo: which rings to look at, and whether it must be woken.
///
/// Sender and sleeper each write one flag and then read the other's, all
/// sequentially consistent: at least one of them sees the other's, so nothing
/// is slept over, and a sender makes a system call only where somebody sleeps.
#[derive(Debug)]
#[repr(align(128))]
pub(crate) struct Doorbell {
    /// Bit `silo % 64`: frames to receive from that silo.
    arrived: AtomicU64,
    /// Bit `silo % 64`: frames to send for that silo.
    to_send: AtomicU64,
    asleep: AtomicBool,
    event: OwnedFd,
}

impl Doorbell {
    pub fn new() -> io::Result<Self> {
        Ok(Self {
            arrived: AtomicU64::new(0),
            to_send: AtomicU64::new(0),
            asleep: AtomicBool::new(false),
            event: rustix::event::eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?,
        })
    }

    /// Tells that `from` published frames to receive.
    #[inline]
    pub fn ring_arrived(&self, from: usize) {
        self.ring(&self.arrived, from);
    }

    /// Tells that `from` published frames to send.
    #[inline]
    pub fn ring_to_send(&self, from: usize) {
        self.ring(&self.to_send, from);
    }

    #[inline]
    fn ring(&self, word: &AtomicU64, from: usize) {
        word.fetch_or(1 << (from % 64), Ordering::SeqCst);
        if self.asleep.load(Ordering::SeqCst) {
            self.wake();
        }
    }

    #[cold]
    fn wake(&self) {
        // Fails only when the counter is full, and then it is readable anyway.
        let _ = rustix::io::write(&self.event, &1_u64.to_ne_bytes());
    }

    /// Whether a silo published frames to receive since they were taken: one
    /// load of a line that nobody writes as a rule.
    #[inline]
    pub fn has_arrived(&self) -> bool {
        self.arrived.load(Ordering::Relaxed) != 0
    }

    /// Whether a silo published frames to send since they were taken.
    #[inline]
    pub fn has_to_send(&self) -> bool {
        self.to_send.load(Ordering::Relaxed) != 0
    }

    /// The silos that published frames to receive since the last call, as bits.
    #[inline]
    pub fn take_arrived(&self) -> u64 {
        Self::take(&self.arrived)
    }

    /// The silos that published frames to send since the last call, as bits.
    #[inline]
    pub fn take_to_send(&self) -> u64 {
        Self::take(&self.to_send)
    }

    #[inline]
    fn take(word: &AtomicU64) -> u64 {
        if word.load(Ordering::Relaxed) == 0 { 0 } else { word.swap(0, Ordering::Acquire) }
    }

    /// Lies down: from here on whoever publishes raises the event. Returns
    /// whether there is news already, and then it stays up.
    pub fn lie_down(&self) -> bool {
        self.asleep.store(true, Ordering::SeqCst);
        let news = self.arrived.load(Ordering::SeqCst) | self.to_send.load(Ordering::SeqCst) != 0;
        if news {
            self.get_up();
        }
        news
    }

    /// Wakes up, and takes what the event counted.
    pub fn get_up(&self) {
        self.asleep.store(false, Ordering::Relaxed);
        let mut count = [0; 8];
        // Fails where nobody raised it.
        let _ = rustix::io::read(&self.event, &mut count);
    }

    /// Readable once the bell was rung for a sleeper.
    pub fn event(&self) -> BorrowedFd<'_> {
        self.event.as_fd()
    }
}
