//! What the control channel tells a queue, and what a queue tells back.
//! Locked, because none of it is on the packet path.

use crate::bell::Bell;
use crate::memory::RingRef;
use crate::receive::Buffers;
use crate::slots::{Reserved, Slots};
use core::sync::atomic::{AtomicU32, Ordering};
use rustix::event::EventfdFlags;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, PoisonError};

/// The rings of a queue pair, where their buffers are, and their eventfds.
#[derive(Debug)]
pub(crate) struct QueueSetup {
    pub(crate) rx: (RingRef, Buffers, Arc<OwnedFd>),
    pub(crate) tx: (RingRef, Buffers, Bell),
    /// Which peer's buffers may be written where they lie, and where frames
    /// may not be read in place.
    pub(crate) slots: Slots,
    pub(crate) reserved: Reserved,
}

// SAFETY: the pointers in Buffers lead into the memory that the RingRef beside them holds.
unsafe impl Send for QueueSetup {}

/// Between the control channel and one queue.
#[derive(Debug)]
pub(crate) struct Shared {
    /// Changes with every coming and going of a peer.
    epoch: AtomicU32,
    state: Mutex<QueueState>,
    /// Raised at every change, for a queue that sleeps.
    pub(crate) changed: OwnedFd,
}

#[derive(Debug)]
struct QueueState {
    setup: Option<QueueSetup>,
    fault: Option<(u32, &'static str)>,
}

impl Shared {
    pub(crate) fn new() -> io::Result<Self> {
        Ok(Self {
            epoch: AtomicU32::new(0),
            state: Mutex::new(QueueState { setup: None, fault: None }),
            changed: rustix::event::eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?,
        })
    }

    /// Control's side: here are rings, or no longer.
    pub(crate) fn offer(&self, epoch: u32, setup: Option<QueueSetup>) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.setup = setup;
        // Under the lock, so that a queue never pairs this epoch with another's rings.
        self.epoch.store(epoch, Ordering::Release);
        drop(state);
        // Fails only when the counter is full, and then it is readable anyway.
        let _ = rustix::io::write(&self.changed, &1_u64.to_ne_bytes());
    }

    /// Control's side: what the queue found wrong with the connection of
    /// `epoch`. What was wrong with an earlier one is past.
    pub(crate) fn fault_in(&self, epoch: u32) -> Option<&'static str> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.fault.take().filter(|(seen_in, _)| *seen_in == epoch).map(|(_, fault)| fault)
    }

    /// Queue's side: what changed since `epoch`, if anything: the new epoch,
    /// and the rings to use from now on.
    pub(crate) fn changed_since(&self, epoch: u32) -> Option<(u32, Option<QueueSetup>)> {
        if self.epoch.load(Ordering::Acquire) == epoch {
            return None;
        }
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        Some((self.epoch.load(Ordering::Relaxed), state.setup.take()))
    }

    /// Queue's side: the connection of `epoch` is of no further use.
    pub(crate) fn report(&self, epoch: u32, fault: &'static str) {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).fault = Some((epoch, fault));
    }
}
