//! The memory for received bytes that all connections share: what is charged
//! to whom, and who gives way when it is used up.
//!
//! A connection that holds much ([`tcp::HOLDS_MUCH`]) goes on only while
//! three quarters are enough for all; the last quarter is for those that hold
//! little, which is nearly every request that comes in two segments. Where
//! that does not do, bytes ahead of a gap go first, which their senders keep
//! until they are acknowledged in order (RFC 2018 section 8), and those of the
//! largest holder before others'; then connections end by a reset, from the
//! one on whose bytes its application has waited longest.

use super::{Common, Tcp};
use app::{ConnId, HELD_LIMIT};
use std::collections::VecDeque;
use tcp::{Connection, HOLDS_MUCH, HolderMark};
use wire::tcp::SeqNum;

/// The share of the memory that is for those that hold little.
const RESERVED: usize = 4;

/// Holders of early bytes are told apart by the number of binary digits of
/// what they hold.
const CLASSES: usize = 32;

/// One connection's place in a queue: good as long as the connection says
/// that this is its number.
#[derive(Clone, Copy, Debug)]
struct Entry {
    id: ConnId,
    number: u32,
}

/// Connections in the order in which they began to hold something. Nothing is
/// unlinked: what is no longer so is passed over. Two old entries are looked
/// at for each new one, so that those which are passed over are never more
/// than those which are good, and no call looks at all of them.
#[derive(Debug, Default)]
struct Queue {
    /// The older entries, looked at in this round.
    seen: VecDeque<Entry>,
    /// The younger ones, which are still to be looked at.
    rest: VecDeque<Entry>,
}

impl Queue {
    fn push(&mut self, entry: Entry, is_good: impl Fn(&Entry) -> bool) {
        for _ in 0..2 {
            self.seen.extend(self.rest.pop_front().filter(&is_good));
        }
        if self.rest.is_empty() {
            core::mem::swap(&mut self.seen, &mut self.rest);
        }
        self.rest.push_back(entry);
    }

    /// Takes the first good entry out, but not that of `except`.
    fn take(&mut self, except: Option<ConnId>, is_good: impl Fn(&Entry) -> bool) -> Option<ConnId> {
        let mut passed = None;
        let found = loop {
            match self.seen.pop_front().or_else(|| self.rest.pop_front()) {
                None => break None,
                Some(entry) if !is_good(&entry) => {}
                Some(entry) if Some(entry.id) == except => passed = Some(entry),
                Some(entry) => break Some(entry.id),
            }
        };
        if let Some(entry) = passed {
            self.seen.push_front(entry);
        }
        found
    }
}

/// What all connections together hold, and who they are.
#[derive(Debug)]
pub(super) struct Budget {
    /// Bytes charged.
    pub total: usize,
    /// What those that hold much may make of it.
    much: usize,
    /// What all may make of it.
    limit: usize,
    /// What is charged for the bytes that an application is being called with.
    lent: usize,
    /// Holders of in-order bytes, in the order in which their applications
    /// last took some.
    held: Queue,
    /// Holders of early bytes, by how much.
    early: [Queue; CLASSES],
    /// The last entry's number.
    number: u32,
    /// Room that connections have for what is under way: in all, of each slot
    /// that ever had some, and at most.
    pub sending: usize,
    rooms: Vec<u32>,
    most_sending: usize,
}

impl Budget {
    pub fn new(limit: usize, most_sending: usize) -> Self {
        Self {
            total: 0,
            much: limit - limit / RESERVED,
            limit,
            lent: 0,
            held: Queue::default(),
            early: core::array::from_fn(|_| Queue::default()),
            number: 0,
            sending: 0,
            rooms: Vec::new(),
            most_sending,
        }
    }

    /// The slot wants room for so much under way. Returns what it gets: no more
    /// than it has, once all together have what there is.
    fn give_room(&mut self, slot: u32, wanted: u32) -> u32 {
        let index = slot as usize;
        if self.rooms.len() <= index {
            if wanted == 0 {
                return 0;
            }
            self.rooms.resize(index + 1, 0);
        }
        let has = &mut self.rooms[index];
        let left = self.most_sending.saturating_sub(self.sending);
        let gets = wanted.min(has.saturating_add(u32::try_from(left).unwrap_or(u32::MAX)));
        self.sending = self.sending - *has as usize + gets as usize;
        *has = gets;
        gets
    }

    /// Whether those that hold much may take no more.
    #[inline(always)]
    pub const fn is_scarce(&self) -> bool {
        self.total >= self.much
    }

    /// Whether so many bytes are more than they may take.
    #[inline(always)]
    pub const fn is_beyond(&self, bytes: usize) -> bool {
        self.total + bytes > self.much
    }
}

/// The queue for a holder of so many early bytes; 0 is none.
fn class_of(early: usize) -> u8 {
    (usize::BITS - early.leading_zeros()).min(CLASSES as u32 - 1) as u8
}

impl Tcp {
    /// Brings the sum of held memory up to date after a call that may have
    /// changed one connection's share, and makes room where that was too much.
    #[inline]
    pub(super) fn account(&mut self, slot: u32, before: usize) {
        let after = self.slots.at(slot).tcp.buffered();
        if after | before != 0 {
            self.charge(slot, before, after);
        }
    }

    #[cold]
    fn charge(&mut self, slot: u32, before: usize, after: usize) {
        self.common.budget.total = (self.common.budget.total + after).saturating_sub(before);
        self.enlist(slot);
        if self.common.budget.total > self.common.budget.limit && after > before {
            let id = self.slots.id(slot);
            while self.common.budget.total > self.common.budget.limit
                && (self.shed_early(1, None) || self.end_oldest(id))
            {}
        }
    }

    /// Brings the room that a connection has for what is under way up to date.
    #[inline]
    pub(super) fn update_room(&mut self, index: u32) {
        let Self { common: Common { budget, config, .. }, slots, .. } = self;
        let tcp = &mut slots.at_mut(index).tcp;
        if !tcp.has_cold() && budget.sending == 0 {
            return;
        }
        let (has, wanted) = tcp.send_room(config.send_limit);
        if has != wanted || !tcp.has_cold() {
            let gets = budget.give_room(index, wanted);
            tcp.set_send_room(gets);
        }
    }

    /// The slot is free: so is what it had.
    #[inline]
    pub(super) fn free_room(&mut self, index: u32) {
        if self.common.budget.sending > 0 {
            self.common.budget.give_room(index, 0);
        }
    }

    /// Notes in which queues the connection stands from now on.
    fn enlist(&mut self, index: u32) {
        let slot = self.slots.at(index);
        let id = slot.id(index);
        let Some(mut holder) = slot.tcp.holder() else { return };
        let before = holder;
        let (held, class) = (!slot.tcp.held().is_empty(), class_of(slot.tcp.buffered_early()));
        let Self { common: Common { budget, .. }, slots, .. } = self;
        let mut number = || {
            budget.number = budget.number.wrapping_add(1).max(1);
            budget.number
        };
        if !held {
            holder.held = 0;
        } else if holder.held == 0 {
            holder.held = number();
            let entry = Entry { id, number: holder.held };
            let is_good = |entry: &Entry| slots.get(entry.id).is_some_and(|slot| holds(&slot.tcp, entry.number));
            budget.held.push(entry, is_good);
        }
        if class != holder.class {
            holder.class = class;
            holder.early = if class > 0 { number() } else { 0 };
            if let (1.., Some(queue)) = (class, budget.early.get_mut(usize::from(class))) {
                let entry = Entry { id, number: holder.early };
                queue.push(entry, |entry| slots.get(entry.id).is_some_and(|slot| holds_early(&slot.tcp, entry.number)));
            }
        }
        if holder != before {
            self.slots.at_mut(index).tcp.set_holder(holder);
        }
    }

    /// Makes room for a segment of a connection while those that hold much may
    /// take no more. What comes early takes it only from those that hold more
    /// of that.
    #[cold]
    pub(super) fn make_room(&mut self, index: u32, seq: SeqNum, len: usize) {
        let slot = self.slots.at(index);
        let id = slot.id(index);
        let ahead = slot.tcp.is_ahead(seq);
        let (all, early) = (slot.tcp.buffered(), slot.tcp.buffered_early());
        let waits = !slot.tcp.held().is_empty();
        let least = if ahead { usize::from(class_of(early + len)) + 1 } else { 1 };
        while self.common.budget.is_beyond(len) {
            if self.shed_early(least, Some(id)) {
                continue;
            }
            // What is much for a request waits until others are done.
            let ends_others = waits && !ahead && (HOLDS_MUCH..HELD_LIMIT).contains(&(all + len));
            if !ends_others || !self.end_oldest(id) {
                return;
            }
        }
    }

    /// Has the largest holder of early bytes forget them, if it is of the
    /// class `least` or above. Whether there was one.
    fn shed_early(&mut self, least: usize, except: Option<ConnId>) -> bool {
        let Self { common: Common { budget, .. }, slots, .. } = self;
        let is_good = |entry: &Entry| slots.get(entry.id).is_some_and(|slot| holds_early(&slot.tcp, entry.number));
        let larger = budget.early.iter_mut().skip(least).rev();
        let Some(id) = larger.into_iter().find_map(|queue| queue.take(except, is_good)) else { return false };
        let index = id.index() as u32;
        let before = self.slots.at(index).tcp.buffered();
        self.slots.at_mut(index).tcp.forget_early();
        self.counters.early_shed += 1;
        self.account(index, before);
        true
    }

    /// Ends the connection on whose bytes its application has waited longest,
    /// but not `except`. Whether there was one.
    fn end_oldest(&mut self, except: ConnId) -> bool {
        let Self { common: Common { budget, .. }, slots, .. } = self;
        let is_good = |entry: &Entry| slots.get(entry.id).is_some_and(|slot| holds(&slot.tcp, entry.number));
        let Some(id) = budget.held.take(Some(except), is_good) else { return false };
        self.counters.held_ended += 1;
        self.abort(id);
        true
    }

    /// The application is called with these bytes, which stay charged.
    pub(super) const fn lend(&mut self, bytes: usize) {
        self.common.budget.lent = bytes;
    }

    /// They are back. If the application took some, it waits from now on.
    pub(super) fn end_loan(&mut self, index: u32, took: bool) {
        let lent = core::mem::take(&mut self.common.budget.lent);
        let tcp = &mut self.slots.at_mut(index).tcp;
        if let Some(holder) = tcp.holder().filter(|_| took) {
            tcp.set_holder(HolderMark { held: 0, ..holder });
        }
        self.account(index, lent);
    }

    /// They are not back: their connection is gone.
    pub(super) fn write_off(&mut self) {
        let lent = core::mem::take(&mut self.common.budget.lent);
        self.common.budget.total = self.common.budget.total.saturating_sub(lent);
    }
}

fn holds(tcp: &Connection, number: u32) -> bool {
    tcp.holder().is_some_and(|holder| holder.held == number)
}

fn holds_early(tcp: &Connection, number: u32) -> bool {
    tcp.holder().is_some_and(|holder| holder.early == number)
}

#[cfg(test)]
mod tests;
