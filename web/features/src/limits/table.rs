//! What is counted of a zone: bounded, and shared by all silos.

use std::hash::{BuildHasher, RandomState};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

/// Parts of a table that are locked apart, at most.
const SHARDS: usize = 64;

/// A shard is not made for fewer states: one that is full forgets the oldest.
const STATES_OF_SHARD: usize = 64;

/// No state: the end of a list.
const NONE: u32 = u32::MAX;

/// Keys up to this long lie in their state.
const SHORT: usize = 22;

/// Milliseconds after which a state that is empty is forgotten.
const IDLE: u64 = 60_000;

/// A table of states by their keys.
#[derive(Debug)]
pub struct Table {
    /// How much memory states may have, as nginx counts it.
    bytes: usize,
    shards: OnceLock<Box<[Mutex<Shard>]>>,
    hasher: RandomState,
}

/// How a request compares with its limit: how many it has too many, in
/// thousandths.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Excess {
    Within(u64),
    Over(u64),
}

/// A connection that counts until this is dropped.
#[derive(Debug)]
pub struct HeldCount {
    table: Arc<Table>,
    shard: u32,
    state: u32,
}

#[derive(Debug)]
struct Shard {
    states: Vec<State>,
    /// The first free state; others follow by `next_of_bucket`.
    free: u32,
    /// The first state of each bucket, and one more: of zeros, which the kernel gives and
    /// which take no memory before they are written to.
    buckets: Box<[u32]>,
    /// The state that was asked for last, and the one that was not for longest.
    newest: u32,
    oldest: u32,
    /// How much memory states may have, as nginx counts it, and how much they do.
    bytes: usize,
    used: usize,
}

#[derive(Debug)]
struct State {
    hash: u64,
    key: Key,
    next_of_bucket: u32,
    newer: u32,
    older: u32,
    /// Connections.
    count: u32,
    /// Requests too many, in thousandths.
    excess: u64,
    /// When it was counted last, in milliseconds.
    last: u64,
}

#[derive(Debug)]
enum Key {
    Short(u8, [u8; SHORT]),
    Long(Box<[u8]>),
}

impl Key {
    fn new(key: &[u8]) -> Self {
        let mut short = [0; SHORT];
        match short.get_mut(..key.len()) {
            Some(room) => {
                room.copy_from_slice(key);
                Self::Short(key.len() as u8, short)
            }
            None => Self::Long(key.into()),
        }
    }

    fn bytes(&self) -> &[u8] {
        match self {
            Self::Short(length, bytes) => &bytes[..usize::from(*length)],
            Self::Long(bytes) => bytes,
        }
    }
}

/// What a state costs, as nginx's slabs have it: its head and its key, in the next
/// power of two.
fn cost(head: usize, key: usize) -> usize {
    (head + key).next_power_of_two()
}

/// Heads of states in nginx: of requests, of connections.
const REQUEST: usize = 80;
const CONNECTION: usize = 36;

impl Table {
    /// A table of so many bytes. None of them are taken before they are needed: where
    /// they cannot be had, that is found out first ([`crate::Program::shared_memory`]).
    pub fn new(bytes: usize) -> Arc<Self> {
        Arc::new(Self { bytes, shards: OnceLock::new(), hasher: RandomState::new() })
    }

    /// Makes its parts, so that no request has to wait for that.
    pub fn make(&self) {
        let _ = self.shards();
    }

    fn shards(&self) -> &[Mutex<Shard>] {
        self.shards.get_or_init(|| {
            let states = self.bytes / cost(CONNECTION, 4);
            let shards = (states / STATES_OF_SHARD).clamp(1, SHARDS);
            // More than can be numbered are never found.
            let buckets = (states / shards).clamp(1, NONE as usize / 2).next_power_of_two();
            let shard = || Shard {
                states: Vec::new(),
                free: NONE,
                buckets: vec![0; buckets].into(),
                newest: NONE,
                oldest: NONE,
                bytes: self.bytes / shards,
                used: 0,
            };
            core::iter::repeat_with(|| Mutex::new(shard())).take(shards).collect()
        })
    }

    /// Counts a request, if there are not more than `burst` too many; without
    /// `counts` it is only looked at. `rate` is in thousandths a second.
    pub fn request(&self, key: &[u8], rate: u64, burst: u64, counts: bool, now: u64) -> Excess {
        let (hash, mut shard) = self.shard(key);
        let Some(found) = shard.find(hash, key) else {
            if counts {
                shard.forget_idle(rate, now);
                if let Some(new) = shard.insert(hash, key, REQUEST, true) {
                    shard.states[new as usize].last = now;
                }
            }
            return Excess::Within(0);
        };
        shard.touch(found);
        let state = &mut shard.states[found as usize];
        // Silos may be a little apart; a clock that was set back by a minute
        // begins anew.
        let behind = state.last.saturating_sub(now);
        let passed = if behind > IDLE { 1 } else { now.saturating_sub(state.last) };
        let leaked = rate.saturating_mul(passed) / 1_000;
        let excess = (state.excess + 1_000).saturating_sub(leaked);
        if excess > burst {
            return Excess::Over(excess);
        }
        if counts {
            state.excess = excess;
            if passed > 0 {
                state.last = now;
            }
        }
        Excess::Within(excess)
    }

    /// Counts a connection, if there are fewer than `most` and there is room.
    pub fn connection(self: &Arc<Self>, key: &[u8], most: u32) -> Option<HeldCount> {
        let (hash, mut shard) = self.shard(key);
        let state = match shard.find(hash, key) {
            Some(found) => found,
            None => shard.insert(hash, key, CONNECTION, false)?,
        };
        let count = &mut shard.states[state as usize].count;
        if *count >= most {
            return None;
        }
        *count += 1;
        drop(shard);
        Some(HeldCount { table: Arc::clone(self), shard: self.place(hash) as u32, state })
    }

    /// How many states there are.
    #[cfg(test)]
    pub fn len(&self) -> usize {
        let count = |shard: &Mutex<Shard>| {
            let shard = lock(shard);
            let mut free = 0;
            let mut at = shard.free;
            while at != NONE {
                free += 1;
                at = shard.states[at as usize].next_of_bucket;
            }
            shard.states.len() - free
        };
        self.shards().iter().map(count).sum()
    }

    fn place(&self, hash: u64) -> usize {
        (hash >> 32) as usize % self.shards().len()
    }

    fn shard(&self, key: &[u8]) -> (u64, MutexGuard<'_, Shard>) {
        let hash = self.hasher.hash_one(key);
        (hash, lock(&self.shards()[self.place(hash)]))
    }
}

/// What a thread that ended by a panic has left is whole: nothing here panics
/// between two changes.
fn lock(shard: &Mutex<Shard>) -> MutexGuard<'_, Shard> {
    shard.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Drop for HeldCount {
    fn drop(&mut self) {
        let mut shard = lock(&self.table.shards()[self.shard as usize]);
        let state = &mut shard.states[self.state as usize];
        state.count -= 1;
        if state.count == 0 {
            shard.remove(self.state, CONNECTION);
        }
    }
}

impl Shard {
    fn bucket(&self, hash: u64) -> usize {
        hash as usize & (self.buckets.len() - 1)
    }

    /// The first state of a bucket: [`NONE`] and one more is zero.
    fn first(&self, bucket: usize) -> u32 {
        self.buckets[bucket].wrapping_sub(1)
    }

    fn set_first(&mut self, bucket: usize, at: u32) {
        self.buckets[bucket] = at.wrapping_add(1);
    }

    fn find(&self, hash: u64, key: &[u8]) -> Option<u32> {
        let mut at = self.first(self.bucket(hash));
        while at != NONE {
            let state = &self.states[at as usize];
            if state.hash == hash && state.key.bytes() == key {
                return Some(at);
            }
            at = state.next_of_bucket;
        }
        None
    }

    /// Adds a state; where there is no room, the oldest ones make some, if they
    /// may.
    fn insert(&mut self, hash: u64, key: &[u8], head: usize, forget: bool) -> Option<u32> {
        let cost = cost(head, key.len());
        while self.used + cost > self.bytes {
            if !forget || self.oldest == NONE {
                return None;
            }
            self.remove(self.oldest, head);
        }
        let bucket = self.bucket(hash);
        let next_of_bucket = self.first(bucket);
        let (excess, last, count) = (0, 0, 0);
        let state = State { hash, key: Key::new(key), next_of_bucket, newer: NONE, older: NONE, count, excess, last };
        let at = match self.free {
            NONE => {
                let at = u32::try_from(self.states.len()).ok().filter(|at| *at != NONE)?;
                self.states.push(state);
                at
            }
            at => {
                self.free = self.states[at as usize].next_of_bucket;
                self.states[at as usize] = state;
                at
            }
        };
        self.set_first(bucket, at);
        self.used += cost;
        self.link(at);
        Some(at)
    }

    fn remove(&mut self, at: u32, head: usize) {
        self.unlink(at);
        let State { hash, next_of_bucket, ref key, .. } = self.states[at as usize];
        self.used -= cost(head, key.bytes().len());
        let bucket = self.bucket(hash);
        if self.first(bucket) == at {
            self.set_first(bucket, next_of_bucket);
        } else {
            let mut before = self.first(bucket);
            while before != NONE {
                let next = &mut self.states[before as usize].next_of_bucket;
                if *next == at {
                    *next = next_of_bucket;
                    break;
                }
                before = *next;
            }
        }
        let state = &mut self.states[at as usize];
        state.key = Key::Short(0, [0; SHORT]);
        state.next_of_bucket = core::mem::replace(&mut self.free, at);
    }

    /// Forgets up to two of the oldest, if they are empty and were not asked for
    /// in a minute.
    fn forget_idle(&mut self, rate: u64, now: u64) {
        for _ in 0..2 {
            let Some(state) = self.states.get(self.oldest as usize) else { return };
            let passed = now.abs_diff(state.last);
            if passed < IDLE || state.excess > rate.saturating_mul(passed) / 1_000 {
                return;
            }
            self.remove(self.oldest, REQUEST);
        }
    }

    fn touch(&mut self, at: u32) {
        if self.newest != at {
            self.unlink(at);
            self.link(at);
        }
    }

    fn link(&mut self, at: u32) {
        let before = core::mem::replace(&mut self.newest, at);
        let state = &mut self.states[at as usize];
        (state.newer, state.older) = (NONE, before);
        match self.states.get_mut(before as usize) {
            Some(before) => before.newer = at,
            None => self.oldest = at,
        }
    }

    fn unlink(&mut self, at: u32) {
        let State { newer, older, .. } = self.states[at as usize];
        match self.states.get_mut(newer as usize) {
            Some(newer) => newer.older = older,
            None => self.newest = older,
        }
        match self.states.get_mut(older as usize) {
            Some(older) => older.newer = newer,
            None => self.oldest = newer,
        }
    }
}
