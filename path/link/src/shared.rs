//! A link that both halves of a wrapper reach.

use crate::Link;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The wrapped link. [`Link::split`] lends a link's halves and a wrapper's own
/// halves must be values that it can lend in turn, so each of them reaches the
/// inner link through here, for the length of one call.
///
/// The lock is never contended: a link belongs to one thread. It is here so
/// that a wrapped link can move to that thread, and its cost is paid by those
/// who wrap a link only.
pub(crate) struct Shared<L>(Arc<Mutex<L>>);

impl<L: Link> Shared<L> {
    pub(crate) fn new(link: L) -> Self {
        Self(Arc::new(Mutex::new(link)))
    }

    /// A link is in order after a panic elsewhere: poison means nothing here.
    pub(crate) fn lock(&self) -> MutexGuard<'_, L> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<L> Clone for Shared<L> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}
