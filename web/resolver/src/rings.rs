//! What goes between a silo and its thread.

use crate::lookups::{Addresses, ResolveError, ResolverRules};
use core::sync::atomic::{AtomicBool, AtomicU32};
use std::os::fd::OwnedFd;
use std::sync::Arc;

pub(crate) struct NameJob {
    pub ticket: u64,
    pub rules: Arc<ResolverRules>,
    pub name: Box<[u8]>,
}

pub(crate) type NameDone = (u64, Result<Addresses, ResolveError>);

#[derive(Debug)]
pub(crate) struct ResolverShared {
    /// Counts answers; raised after the answer is in the ring.
    pub posted: AtomicU32,
    pub stop: AtomicBool,
    /// Wakes the thread.
    pub wake: OwnedFd,
}
