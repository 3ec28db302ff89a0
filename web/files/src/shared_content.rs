//! Content that the silos of a process share: a copy for each NUMA domain
//! where it is hot, one for all where it is not.
//!
//! ```text
//!  silo 0  silo 1 (domain 0)   silo 2 (domain 1)      each: its index, its bodies
//!      │      │                    │                  (pointers into the shelves)
//!  ────┼──────┼────────────────────┼───────────────── helper threads only:
//!    shelf of domain 0         shelf of domain 1      one lock round both
//!      a  b  c                   b′ (a copy)
//! ```
//!
//! A silo's thread never takes the lock: it sends bodies that it was given by
//! its helper thread, and holds them by reference count. The helper, which
//! runs in the silo's domain and whose memory therefore is there, looks here
//! before it reads a file. What another domain has is sent from there at
//! first; if it is still asked for at the next check (after
//! [`crate::Directory::revalidate`]) it is hot, and copied, as far as the limit
//! on copies goes. What no silo asks for any longer makes room for what one
//! does.
//!
//! Content is found by its path and the file's identity, so that a changed
//! file is never served from here; the old content goes as soon as nobody
//! sends it.

use crate::identity::Identity;
use core::ops::{Deref, DerefMut};
use core::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Content kept for a silo that is in none of the domains told goes to the
/// first; there is always one.
const FIRST: usize = 0;

/// Seconds beyond the time that content is not checked for, after which it is
/// no longer asked for by anyone.
const COLD_SECONDS: u64 = 2;

/// What the silos of a process share.
#[derive(Debug)]
pub struct SharedContent {
    state: Mutex<State>,
    /// How often content was taken off a shelf: silos look for theirs when
    /// this moves.
    taken_off: AtomicU64,
    /// What is held, for whoever may not wait for the lock.
    bytes: AtomicU64,
    copies: AtomicU64,
    /// A member that tells for all what is held is there.
    reported: AtomicBool,
}

/// One silo's place in it.
#[derive(Clone, Debug)]
pub struct Member {
    /// What it shares.
    pub shared_content: Arc<SharedContent>,
    /// The domain that it is in.
    pub domain: u16,
    /// Whether it tells what all hold.
    reports: bool,
}

/// Content that is shared.
#[derive(Clone, Debug)]
pub struct Shared {
    pub bytes: Arc<Vec<u8>>,
    /// Where it is.
    pub domain: u16,
    pub etag: Arc<str>,
    kept: Arc<AtomicBool>,
}

/// Bytes in memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Held {
    /// All, those on their way out included.
    pub bytes: usize,
    /// Of these second and further copies.
    pub copies: usize,
}

#[derive(Debug)]
struct State {
    domains: Vec<u16>,
    /// By domain, in the order of `domains`.
    shelves: Vec<HashMap<Box<[u8]>, Item>>,
    /// Off the shelf, and still held by someone.
    leaving: Vec<Item>,
    held: Held,
    bytes_max: usize,
    copies_max: usize,
    cold_after: u64,
}

#[derive(Debug)]
struct Item {
    shared: Shared,
    identity: Identity,
    /// Counts for the limit on copies.
    copy: bool,
    /// The last unix second in which a silo asked for it.
    touched: u64,
}

impl SharedContent {
    /// For silos in `domains`: at most `bytes` in all, of which `copies` for
    /// second and further copies. `revalidate` as in [`crate::Directory`].
    #[must_use]
    pub fn new(domains: &[u16], bytes: usize, copies: usize, revalidate: core::time::Duration) -> Arc<Self> {
        let mut domains = domains.to_vec();
        domains.sort_unstable();
        domains.dedup();
        if domains.is_empty() {
            domains.push(0);
        }
        let state = State {
            shelves: domains.iter().map(|_| HashMap::new()).collect(),
            domains,
            leaving: Vec::new(),
            held: Held::default(),
            bytes_max: bytes,
            copies_max: copies.min(bytes),
            cold_after: revalidate.as_secs() + COLD_SECONDS,
        };
        Arc::new(Self {
            state: Mutex::new(state),
            taken_off: AtomicU64::new(0),
            bytes: AtomicU64::new(0),
            copies: AtomicU64::new(0),
            reported: AtomicBool::new(false),
        })
    }

    /// At most so much from now on, as [`SharedContent::new`] takes it. What is more
    /// goes as room is made for what is asked for.
    pub fn set_limits(&self, bytes: usize, copies: usize) {
        let mut state = self.state();
        state.bytes_max = bytes;
        state.copies_max = copies.min(bytes);
    }

    /// The place of a silo in `domain`.
    #[must_use]
    pub fn member(self: &Arc<Self>, domain: u16) -> Member {
        let reports = !self.reported.swap(true, Ordering::Relaxed);
        Member { shared_content: Arc::clone(self), domain, reports }
    }

    /// The domains, ascending.
    #[must_use]
    pub fn domains(&self) -> Vec<u16> {
        self.state().domains.clone()
    }

    /// What is in memory.
    #[must_use]
    pub fn held(&self) -> Held {
        let mut state = self.state();
        state.reap();
        state.held
    }

    /// Takes everything off the shelves: for content that is to be loaded
    /// again, whatever its files say.
    pub fn clear(&self) {
        let mut state = self.state();
        let items: Vec<Item> = state.shelves.iter_mut().flat_map(|shelf| shelf.drain().map(|(_, item)| item)).collect();
        self.take_off(&mut state, items);
        state.reap();
    }

    /// How often content was taken off a shelf.
    pub fn taken_off(&self) -> u64 {
        self.taken_off.load(Ordering::Acquire)
    }

    /// The content of `path` in the state of `identity`: near, or else far.
    pub fn find(&self, domain: u16, path: &[u8], identity: &Identity, now: u64) -> Option<Shared> {
        let mut state = self.state();
        let own = state.place(domain);
        let others = (0..state.shelves.len()).filter(|place| *place != own);
        for place in core::iter::once(own).chain(others) {
            let item = state.shelves[place].get_mut(path).filter(|item| item.identity == *identity);
            if let Some(item) = item {
                item.touched = item.touched.max(now);
                return Some(item.shared.clone());
            }
        }
        None
    }

    /// Has room made for `size` bytes, and counts them. The caller gives them
    /// to [`SharedContent::put`] or [`SharedContent::give_up`].
    #[must_use]
    pub fn reserve(&self, size: usize, copy: bool, now: u64) -> bool {
        let mut state = self.state();
        state.reap();
        if !state.has_room(size, copy) {
            let items = state.coldest(size, copy, now);
            self.take_off(&mut state, items);
            state.reap();
        }
        let room = state.has_room(size, copy);
        if room {
            state.held.bytes += size;
            state.held.copies += if copy { size } else { 0 };
        }
        room
    }

    /// What was reserved is not needed.
    pub fn give_up(&self, size: usize, copy: bool) {
        self.state().release(size, copy);
    }

    /// Puts content on the shelf of `domain`, for which room was reserved; in
    /// its place nothing, if another put the same there meanwhile. `settled`
    /// is false for a file that may yet change without its identity's
    /// changing: that is for its asker alone.
    pub fn put(
        &self,
        domain: u16,
        path: &[u8],
        identity: Identity,
        (bytes, etag): (Vec<u8>, &str),
        (copy, settled): (bool, bool),
        now: u64,
    ) -> Shared {
        let size = bytes.len();
        let mut state = self.state();
        let place = state.place(domain);
        if settled && let Some(item) = state.shelves[place].get_mut(path).filter(|item| item.identity == identity) {
            item.touched = item.touched.max(now);
            let shared = item.shared.clone();
            state.release(size, copy);
            return shared;
        }
        let kept = Arc::new(AtomicBool::new(true));
        let shared = Shared { bytes: Arc::new(bytes), domain: state.domains[place], etag: etag.into(), kept };
        let item = Item { shared: shared.clone(), identity, copy, touched: now };
        if settled {
            let old = state.shelves[place].insert(path.into(), item);
            self.take_off(&mut state, old.into_iter().collect());
        } else {
            state.leaving.push(item);
        }
        shared
    }

    /// Items that are no longer on a shelf leave when nobody sends them.
    fn take_off(&self, state: &mut State, items: Vec<Item>) {
        for item in &items {
            item.shared.kept.store(false, Ordering::Release);
        }
        self.taken_off.fetch_add(items.len() as u64, Ordering::Release);
        state.leaving.extend(items);
    }

    fn state(&self) -> Guard<'_> {
        // Whole at every moment: nothing in here panics between two changes
        // that belong together.
        Guard { state: self.state.lock().unwrap_or_else(PoisonError::into_inner), shared_content: self }
    }
}

/// The state under its lock; what is held is told when it is let go.
struct Guard<'a> {
    state: MutexGuard<'a, State>,
    shared_content: &'a SharedContent,
}

impl Deref for Guard<'_> {
    type Target = State;

    fn deref(&self) -> &State {
        &self.state
    }
}

impl DerefMut for Guard<'_> {
    fn deref_mut(&mut self) -> &mut State {
        &mut self.state
    }
}

impl Drop for Guard<'_> {
    fn drop(&mut self) {
        self.shared_content.bytes.store(self.state.held.bytes as u64, Ordering::Relaxed);
        self.shared_content.copies.store(self.state.held.copies as u64, Ordering::Relaxed);
    }
}

impl Member {
    /// Bytes in memory and those of copies, as last changed: of all silos, as
    /// told by the first of them, and nothing by the others.
    pub fn held(&self) -> (u64, u64) {
        let load = |value: &AtomicU64| if self.reports { value.load(Ordering::Relaxed) } else { 0 };
        (load(&self.shared_content.bytes), load(&self.shared_content.copies))
    }
}

impl Shared {
    /// Content that nobody else has.
    pub fn alone(bytes: Vec<u8>, etag: &str) -> Self {
        Self { bytes: Arc::new(bytes), domain: 0, etag: etag.into(), kept: Arc::new(AtomicBool::new(true)) }
    }

    /// Whether it is to be sent further, as against let go of.
    pub fn is_kept(&self) -> bool {
        self.kept.load(Ordering::Acquire)
    }
}

impl State {
    fn place(&self, domain: u16) -> usize {
        self.domains.binary_search(&domain).unwrap_or(FIRST)
    }

    fn has_room(&self, size: usize, copy: bool) -> bool {
        let fits = |held: usize, most: usize| held.checked_add(size).is_some_and(|bytes| bytes <= most);
        fits(self.held.bytes, self.bytes_max) && (!copy || fits(self.held.copies, self.copies_max))
    }

    /// What was not asked for the longest, until `size` and a little more are
    /// free. What is asked for stays: a newcomer waits until it is not.
    fn coldest(&mut self, size: usize, copy: bool, now: u64) -> Vec<Item> {
        let short = |held: usize, most: usize| (held + size + most / 16).saturating_sub(most);
        let mut missing = short(self.held.bytes, self.bytes_max);
        if copy {
            missing = missing.max(short(self.held.copies, self.copies_max));
        }
        // For room among the copies only copies help.
        let only_copies = copy && self.held.copies + size > self.copies_max;
        let cold_after = self.cold_after;
        let mut cold: Vec<(u64, usize, Box<[u8]>)> = Vec::new();
        for (place, shelf) in self.shelves.iter().enumerate() {
            let those = shelf.iter().filter(|(_, item)| !only_copies || item.copy);
            let those = those.filter(|(_, item)| now.saturating_sub(item.touched) > cold_after);
            cold.extend(those.map(|(path, item)| (item.touched, place, path.clone())));
        }
        cold.sort_unstable();
        let mut taken = Vec::new();
        for (_, place, path) in cold {
            if missing == 0 {
                break;
            }
            if let Some(item) = self.shelves[place].remove(&path) {
                missing = missing.saturating_sub(item.shared.bytes.len());
                taken.push(item);
            }
        }
        taken
    }

    /// Lets go of what nobody holds any more.
    fn reap(&mut self) {
        let mut freed = Held::default();
        self.leaving.retain(|item| {
            let held = Arc::strong_count(&item.shared.bytes) > 1;
            if !held {
                let size = item.shared.bytes.len();
                freed.bytes += size;
                freed.copies += if item.copy { size } else { 0 };
            }
            held
        });
        self.held.bytes -= freed.bytes;
        self.held.copies -= freed.copies;
    }

    fn release(&mut self, size: usize, copy: bool) {
        self.held.bytes -= size;
        self.held.copies -= if copy { size } else { 0 };
    }
}

#[cfg(test)]
mod tests;
