//! Connections to peers that are kept for later requests (`keepalive`).

use crate::group::{Group, PeerId};
use core::time::Duration;
use std::collections::HashMap;
use std::sync::Arc;

/// `keepalive` and what belongs to it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct IdleRules {
    /// The most idle connections of a silo to the group.
    pub connections: u32,
    /// `keepalive_requests`: a connection ends after so many.
    pub requests: u32,
    /// `keepalive_time`: a connection ends when a request of it ends so long after it
    /// began.
    pub time: Duration,
    /// `keepalive_timeout`: how long one is kept idle.
    pub timeout: Duration,
}

impl IdleRules {
    /// Those of a `keepalive` that nothing else is said of.
    #[must_use]
    pub const fn new(connections: u32) -> Self {
        let (time, timeout) = (Duration::from_secs(3_600), Duration::from_secs(60));
        Self { connections, requests: 1_000, time, timeout }
    }
}

/// An idle connection in its pool: slot and generation.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct IdleId {
    slot: u32,
    generation: u32,
}

/// A connection that is put into the pool or was taken from it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct KeptConnection<C> {
    /// The connection.
    pub conn: C,
    /// Requests that it has carried.
    pub requests: u32,
    /// When it was opened, milliseconds.
    pub opened: u64,
}

/// What became of a connection that was to be kept.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PutBack<C> {
    /// It is kept, in the place of one that is to be closed where there is no room.
    Kept(IdleId, Option<C>),
    /// It has served long enough: it is to be closed.
    Spent,
}

/// None, in lists.
const NONE: u32 = u32::MAX;

#[derive(Clone, Copy, Debug)]
struct Links {
    newer: u32,
    older: u32,
}

#[derive(Clone, Debug)]
struct Entry<C> {
    kept: Option<KeptConnection<C>>,
    generation: u32,
    /// The group's number of the address that it leads to.
    place: u32,
    /// Milliseconds at which it was put here.
    since: u64,
    /// Among all.
    all: Links,
    /// Among those to the same address.
    same: Links,
}

/// Newest and oldest of a list.
#[derive(Clone, Copy, Debug)]
struct Ends {
    newest: u32,
    oldest: u32,
}

const EMPTY: Ends = Ends { newest: NONE, oldest: NONE };

/// Idle connections of a silo to a group. The newest is used first, and the
/// oldest gives way. Each step costs the same, however many there are.
#[derive(Clone, Debug)]
pub struct IdlePool<C> {
    rules: IdleRules,
    group: Arc<Group>,
    entries: Vec<Entry<C>>,
    free: Vec<u32>,
    all: Ends,
    by_place: Vec<Ends>,
}

impl<C: Copy> IdlePool<C> {
    /// An empty one. Memory is taken as connections come.
    #[must_use]
    pub fn new(rules: IdleRules, group: Arc<Group>) -> Self {
        let places = group.peers().iter().map(|peer| peer.place + 1).max().unwrap_or(0);
        let by_place = vec![EMPTY; places as usize];
        Self { rules, group, entries: Vec::new(), free: Vec::new(), all: EMPTY, by_place }
    }

    /// How many are idle.
    #[must_use]
    pub fn len(&self) -> usize {
        self.entries.len() - self.free.len()
    }

    /// Whether none is.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// A connection to a peer's address, the one that was put here last.
    pub fn take(&mut self, peer: PeerId) -> Option<KeptConnection<C>> {
        self.take_where(peer, |_| true)
    }

    /// The same, of those that are fit for it: looked at from the newest on.
    pub fn take_where(&mut self, peer: PeerId, is_fit: impl Fn(&C) -> bool) -> Option<KeptConnection<C>> {
        let place = self.group.peers()[peer.place()].place;
        let mut slot = self.by_place[place as usize].newest;
        while let Some(entry) = self.entries.get(slot as usize) {
            if entry.kept.as_ref().is_some_and(|kept| is_fit(&kept.conn)) {
                return self.remove_slot(slot);
            }
            slot = entry.same.older;
        }
        None
    }

    /// Keeps a connection to a peer, if it may carry more requests.
    pub fn put(&mut self, peer: PeerId, kept: KeptConnection<C>, now: u64) -> PutBack<C> {
        let old = u128::from(now.saturating_sub(kept.opened)) > self.rules.time.as_millis();
        if self.rules.connections == 0 || kept.requests >= self.rules.requests || old {
            return PutBack::Spent;
        }
        let full = self.len() >= self.rules.connections as usize;
        let gone = if full { self.remove_slot(self.all.oldest) } else { None };
        let place = self.group.peers()[peer.place()].place;
        let links = Links { newer: NONE, older: NONE };
        let slot = self.free.pop().unwrap_or_else(|| {
            self.entries.push(Entry { kept: None, generation: 0, place, since: now, all: links, same: links });
            self.entries.len() as u32 - 1
        });
        let newest = self.all.newest;
        let newest_same = self.by_place[place as usize].newest;
        let entry = &mut self.entries[slot as usize];
        (entry.kept, entry.place, entry.since) = (Some(kept), place, now);
        entry.all = Links { newer: NONE, older: newest };
        entry.same = Links { newer: NONE, older: newest_same };
        let id = IdleId { slot, generation: entry.generation };
        match newest {
            NONE => self.all.oldest = slot,
            newest => self.entries[newest as usize].all.newer = slot,
        }
        match newest_same {
            NONE => self.by_place[place as usize].oldest = slot,
            newest => self.entries[newest as usize].same.newer = slot,
        }
        self.all.newest = slot;
        self.by_place[place as usize].newest = slot;
        PutBack::Kept(id, gone.map(|gone| gone.conn))
    }

    /// Forgets a connection that ended, or said something unasked. None if it was
    /// taken since.
    pub fn remove(&mut self, id: IdleId) -> Option<C> {
        let entry = self.entries.get(id.slot as usize)?;
        let same = entry.generation == id.generation && entry.kept.is_some();
        let kept = same.then(|| self.remove_slot(id.slot)).flatten()?;
        Some(kept.conn)
    }

    /// When the first of them has been idle for too long, milliseconds.
    #[must_use]
    pub fn next_deadline(&self) -> Option<u64> {
        let oldest = self.entries.get(self.all.oldest as usize)?;
        let timeout = u64::try_from(self.rules.timeout.as_millis()).unwrap_or(u64::MAX);
        Some(oldest.since.saturating_add(timeout))
    }

    /// One that has been idle for too long, which is to be closed: asked for until
    /// there is none.
    pub fn poll_expired(&mut self, now: u64) -> Option<C> {
        let due = self.next_deadline().is_some_and(|deadline| deadline <= now);
        let kept = due.then(|| self.remove_slot(self.all.oldest)).flatten()?;
        Some(kept.conn)
    }

    /// Any of them, which is to be closed: asked for until there is none, where the
    /// pool's group is let go of.
    pub fn poll_any(&mut self) -> Option<C> {
        let any = self.all.oldest;
        let kept = (any != NONE).then(|| self.remove_slot(any)).flatten()?;
        Some(kept.conn)
    }

    /// Goes on with another group: connections to addresses that it has not are returned,
    /// which are to be closed.
    pub fn change(&mut self, group: Arc<Group>) -> Vec<C> {
        let places: HashMap<_, u32> = group.peers().iter().map(|peer| (&peer.address, peer.place)).collect();
        let mut steps: Vec<Option<u32>> = vec![None; self.by_place.len()];
        for peer in self.group.peers() {
            steps[peer.place as usize] = places.get(&peer.address).copied();
        }
        let (mut gone, mut slot) = (Vec::new(), self.all.oldest);
        while let Some(entry) = self.entries.get(slot as usize) {
            let newer = entry.all.newer;
            if steps[entry.place as usize].is_none() {
                gone.extend(self.remove_slot(slot).map(|kept| kept.conn));
            }
            slot = newer;
        }
        let count = group.peers().iter().map(|peer| peer.place + 1).max().unwrap_or(0);
        (self.group, self.by_place) = (group, vec![EMPTY; count as usize]);
        let mut slot = self.all.oldest;
        while let Some(entry) = self.entries.get_mut(slot as usize) {
            // The others are gone.
            let place = steps[entry.place as usize].unwrap_or(0);
            entry.place = place;
            let (newer, ends) = (entry.all.newer, &mut self.by_place[place as usize]);
            entry.same = Links { newer: NONE, older: ends.newest };
            let before = core::mem::replace(&mut ends.newest, slot);
            match before {
                NONE => ends.oldest = slot,
                before => self.entries[before as usize].same.newer = slot,
            }
            slot = newer;
        }
        gone
    }

    fn remove_slot(&mut self, slot: u32) -> Option<KeptConnection<C>> {
        let entry = self.entries.get_mut(slot as usize)?;
        let kept = entry.kept.take()?;
        entry.generation = entry.generation.wrapping_add(1);
        let (all, same, place) = (entry.all, entry.same, entry.place as usize);
        match all.newer {
            NONE => self.all.newest = all.older,
            newer => self.entries[newer as usize].all.older = all.older,
        }
        match all.older {
            NONE => self.all.oldest = all.newer,
            older => self.entries[older as usize].all.newer = all.newer,
        }
        match same.newer {
            NONE => self.by_place[place].newest = same.older,
            newer => self.entries[newer as usize].same.older = same.older,
        }
        match same.older {
            NONE => self.by_place[place].oldest = same.newer,
            older => self.entries[older as usize].same.newer = same.newer,
        }
        self.free.push(slot);
        Some(kept)
    }
}
