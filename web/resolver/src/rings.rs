//! What goes between a silo and its thread.

use crate::lookups::{NameAnswer, ResolverRules};
use core::sync::atomic::{AtomicBool, AtomicU32};
use std::os::fd::OwnedFd;
use std::sync::{Arc, OnceLock};

pub(crate) struct NameJob {
    pub ticket: u64,
    pub rules: Arc<ResolverRules>,
    pub name: Box<[u8]>,
    /// The hosts of this service are asked for, not addresses.
    pub service: Option<Box<[u8]>>,
}

pub(crate) type NameDone = (u64, NameAnswer);

#[derive(Debug)]
pub(crate) struct ResolverShared {
    /// Counts answers; raised after the answer is in the ring.
    pub posted: AtomicU32,
    pub stop: AtomicBool,
    /// Wakes the silo; there before it asks for anything.
    pub event: OnceLock<Arc<OwnedFd>>,
    /// Wakes the thread.
    pub wake: OwnedFd,
}
