//! Interfaces that come back, for a process that may not open them any more.

use core::fmt::Debug;
use std::os::fd::OwnedFd;

/// What a queue needs of an interface that has the place of the one it was on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Wanted {
    /// Its largest packet, in bytes.
    pub mtu: u16,
    /// The Ethernet address that it is to answer to.
    pub mac: [u8; 6],
}

/// A queue, or all queues of an interface, opened by another process.
#[derive(Debug, Default)]
pub struct Reopened {
    /// What it is, in the driver's words.
    pub text: String,
    /// What it is used by, in the driver's order.
    pub descriptors: Vec<OwnedFd>,
}

/// Who opens an interface again, for whoever may not.
pub trait Reopener: Debug + Send + Sync {
    /// Asks for queue `queue`. Never waits; to ask again is to remind.
    fn ask(&self, queue: u16, wanted: Wanted);

    /// What was opened since, once.
    fn take(&self, queue: u16) -> Option<Reopened>;
}
