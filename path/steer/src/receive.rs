//! The receive half: the own queue's burst, and what other silos pass on.

use crate::classify::{Kind, Tuple, is_plain, kind, owner, plain};
use crate::mesh::Rule;
use crate::receiving::{BURST_LIMIT, FRAME, GIVEN, Other, RxState, SHARED, STRAY, VERIFIED};
use crate::ring::Consumer;
use core::hint::cold_path;
use core::sync::atomic::Ordering;
use link::Receive;
use wire::Time;
use wire::tcp::Flags;

/// The receive half of a [`crate::Steered`], around that of its link.
#[derive(Debug)]
pub struct SteeredRx<'a, R> {
    pub(crate) link: R,
    pub(crate) state: &'a mut RxState,
}

impl<R: Receive> SteeredRx<'_, R> {
    /// Takes up to `max` frames from the other silos' rings, by turns.
    #[cold]
    fn take_others(&mut self, news: u64, now: Time, max: usize) {
        let state = &mut *self.state;
        state.left |= news;
        let silos = state.from.len();
        let each = max.div_ceil(state.left.count_ones().max(1) as usize);
        let mut still = 0;
        for step in 0..silos {
            let silo = (state.turn + step) % silos;
            let bit = 1 << (silo % 64);
            if state.left & bit == 0 {
                continue;
            }
            let room = max.saturating_sub(state.others.len()).min(each);
            for _ in 0..room {
                let Some(record) = state.from[silo].as_mut().and_then(Consumer::take) else { break };
                state.take_one(silo, record, now);
            }
            if state.from[silo].as_ref().is_some_and(Consumer::has_more) {
                still |= bit;
            }
        }
        state.turn = (state.turn + 1) % silos;
        state.left = still;
        state.borrowed = true;
    }

    /// As [`Receive::receive`], where other silos have passed frames on.
    #[cold]
    fn receive_more(&mut self, now: Time, max: usize) -> usize {
        let news = self.state.seat.bell.take_arrived();
        if news | self.state.left != 0 {
            // Half of a burst each, where both have so many.
            self.take_others(news, now, max.div_ceil(2));
        }
        let own = self.link.receive(now, max - self.state.others.len());
        if !self.state.looks {
            (self.state.straight, self.state.now) = (own, now);
            return own + self.state.others.len();
        }
        self.sort(now, own)
    }

    /// Passes on what is others', and notes what stays. Returns how many
    /// frames there are in all.
    #[inline(never)]
    fn sort(&mut self, now: Time, count: usize) -> usize {
        let mut index = 0;
        // Nearly always, all frames stay: no list is made.
        while index < count && self.keeps(now, index) {
            index += 1;
        }
        self.state.straight = index;
        self.state.now = now;
        for index in index + 1..count {
            if self.keeps(now, index) {
                self.state.others.push(Other::Own(index as u32));
            }
        }
        self.state.show();
        self.state.straight + self.state.others.len()
    }

    /// Whether a frame of the own queue is for this silo; if not, it has been
    /// passed on.
    #[inline(always)]
    fn keeps(&mut self, now: Time, index: usize) -> bool {
        let frame = self.link.frame(index);
        if !is_plain(frame) {
            cold_path();
            return self.keeps_other(now, index);
        }
        let Some((tuple, flags)) = plain(frame) else { return true };
        self.keeps_segment(now, index, &tuple, flags)
    }

    /// As [`Self::keeps`], for a TCP segment.
    #[inline]
    fn keeps_segment(&mut self, now: Time, index: usize, tuple: &Tuple, flags: Flags) -> bool {
        let state = &mut *self.state;
        let hash = state.common.hasher.hash(tuple);
        let ends = flags.intersects(Flags::FIN | Flags::RST);
        let known = state.flows.as_mut().and_then(|flows| flows.find(hash, now, ends));
        let owner = match (known, state.common.rule) {
            (Some(silo), _) => silo,
            (None, Rule::Software) => owner(&state.candidates, hash),
            (None, Rule::Least) if flags.contains(Flags::SYN) && !flags.intersects(Flags::ACK | Flags::RST) => {
                return self.give(now, index, tuple, hash);
            }
            // The answer to a connection of ours: its port was chosen by the
            // hash, and all that follows is found by the table.
            (None, Rule::Least) if flags.contains(Flags::SYN | Flags::ACK) => {
                let silo = owner(&state.candidates, hash);
                let fits = state.flows.as_mut().is_some_and(|flows| flows.insert(hash, tuple, silo, now));
                let counters = &mut state.counters;
                *if fits { &mut counters.flows_steered } else { &mut counters.flows_full } += 1;
                silo
            }
            (None, Rule::Least | Rule::Queue) => return true,
        };
        if owner != state.own {
            self.forward(index, owner, FRAME, 0);
        }
        owner == self.state.own
    }

    /// Gives a new flow to the silo with the least to do. Whether it is this
    /// one.
    #[cold]
    fn give(&mut self, now: Time, index: usize, tuple: &Tuple, hash: u64) -> bool {
        let state = &mut *self.state;
        let own = state.own;
        let Some(flows) = &mut state.flows else { return true };
        // Of equals, the one whose turn it is.
        state.next = (state.next + 1) % state.candidates.len();
        let (front, back) = state.candidates.split_at(state.next);
        let common = &state.common;
        let there = |silo: &&usize| **silo == own || common.seats[**silo].present.load(Ordering::Acquire);
        let by_load = |silo: &&usize| common.seats[**silo].load.measure();
        let least = back.iter().chain(front).filter(there).min_by_key(by_load).copied().unwrap_or(own);
        if !flows.insert(hash, tuple, least, now) {
            state.counters.flows_full += 1;
            return true;
        }
        state.counters.flows_steered += 1;
        common.seats[least].load.give();
        if least == own {
            state.taken = state.taken.wrapping_add(1);
        } else if !self.forward(index, least, FRAME, GIVEN) {
            // It comes again, and is given anew.
            self.state.common.seats[least].load.take_back();
            if let Some(flows) = &mut self.state.flows {
                flows.remove(hash, least);
            }
        }
        least == own
    }

    /// As [`Self::keeps`], for frames that are not plain.
    #[inline(never)]
    fn keeps_other(&mut self, now: Time, index: usize) -> bool {
        let state = &mut *self.state;
        let software = state.looks && state.common.rule == Rule::Software;
        let owner = match kind(self.link.frame(index)) {
            Kind::Segment(tuple, flags) if state.looks => return self.keeps_segment(now, index, &tuple, flags),
            Kind::Piece(tuple) if software => owner(&state.candidates, state.common.hasher.hash(&tuple)),
            Kind::Error(tuple) => {
                // The error's flow is the one of its answers.
                let hash = state.common.hasher.hash(&tuple);
                let known = state.flows.as_mut().and_then(|flows| flows.find(hash, now, false));
                let Some(owner) = known.or_else(|| software.then(|| owner(&state.candidates, hash))) else {
                    self.share(now, index);
                    return true;
                };
                owner
            }
            Kind::Neighbour | Kind::Fragment => {
                self.share(now, index);
                return true;
            }
            Kind::Segment(..) | Kind::Piece(_) | Kind::Other => return true,
        };
        if owner != self.state.own {
            self.forward(index, owner, FRAME, 0);
        }
        owner == self.state.own
    }

    /// Gives everybody a copy of a frame.
    fn share(&mut self, now: Time, index: usize) {
        if !self.state.may_share.take(now) {
            self.state.counters.messages_limited += 1;
            return;
        }
        for to in 0..self.state.to.len() {
            if to != self.state.own {
                self.forward(index, to, SHARED, 0);
            }
        }
    }

    /// Copies frame `index` of the own queue's burst into the ring to `to`.
    /// Whether there was room.
    fn forward(&mut self, index: usize, to: usize, kind: u8, flags: u8) -> bool {
        let (Some(ring), seat) = (&mut self.state.to[to], &self.state.common.seats[to]) else { return false };
        if !seat.present.load(Ordering::Acquire) {
            self.state.counters.absent += 1;
            return false;
        }
        let (rx, counters) = (&self.link, &mut self.state.counters);
        let frame = rx.frame(index);
        let flags = flags | if rx.verified(index) { VERIFIED } else { 0 };
        if !ring.push(frame, kind, flags, 0) {
            counters.ring_full += 1;
            return false;
        }
        self.state.unshown |= 1 << (to % 64);
        let counter = match kind {
            SHARED => &mut counters.messages_out,
            STRAY => &mut counters.strays_passed,
            _ => &mut counters.forwarded_out,
        };
        *counter += 1;
        counters.forwarded_out_bytes += frame.len() as u64;
        if seat.domain != self.state.common.seats[self.state.own].domain {
            counters.crossed_bytes += frame.len() as u64;
        }
        true
    }

    /// Where a frame behind the straight ones lies.
    #[inline]
    fn other(&self, index: usize) -> (Other, Option<&Consumer>) {
        let other = self.state.others[index - self.state.straight];
        let ring = match other {
            Other::Own(_) => None,
            Other::From(silo, _) => self.state.from[silo as usize].as_ref(),
        };
        (other, ring)
    }

    #[inline(never)]
    fn other_verified(&self, index: usize) -> bool {
        match self.other(index).0 {
            Other::From(_, record) => record.head.flags & VERIFIED != 0,
            Other::Own(index) => self.link.verified(index as usize),
        }
    }

    #[inline(never)]
    fn other_frame(&self, index: usize) -> &[u8] {
        match self.other(index) {
            (Other::From(_, record), Some(ring)) => ring.bytes(&record),
            (Other::Own(index), _) => self.link.frame(index as usize),
            (Other::From(..), None) => &[],
        }
    }

    /// Passes a segment that nobody here knows to silos that may: in each
    /// other domain to the one that the hash names, or to all where the
    /// queues decide. Whether there are any.
    #[cold]
    fn pass_stray(&mut self, index: usize) -> bool {
        let Kind::Segment(tuple, _) = kind(self.link.frame(index)) else { return false };
        let mut any = false;
        let permitted = self.state.may_stray.take(self.state.now);
        self.state.counters.messages_limited += u64::from(!permitted);
        for to in 0..self.state.to.len() {
            let common = &self.state.common;
            let elsewhere = common.seats[to].domain != common.seats[self.state.own].domain;
            let may = match common.rule {
                Rule::Software => elsewhere && common.owner(common.seats[to].domain, &tuple) == Some(to),
                Rule::Queue | Rule::Least => to != self.state.own,
            };
            any |= may;
            if may && permitted {
                self.forward(index, to, STRAY, 0);
            }
        }
        any
    }
}

impl<R: Receive> Receive for SteeredRx<'_, R> {
    #[inline]
    fn receive(&mut self, now: Time, max: usize) -> usize {
        let state = &*self.state;
        if state.looks | state.seat.bell.has_arrived() | (state.left != 0) {
            cold_path();
            return self.receive_more(now, max.min(BURST_LIMIT));
        }
        let own = self.link.receive(now, max);
        self.state.straight = own;
        self.state.now = now;
        own
    }

    #[inline]
    fn frame(&self, index: usize) -> &[u8] {
        if index < self.state.straight {
            return self.link.frame(index);
        }
        self.other_frame(index)
    }

    #[inline]
    fn verified(&self, index: usize) -> bool {
        if index < self.state.straight {
            return self.link.verified(index);
        }
        self.other_verified(index)
    }

    /// Where the queues decide, nothing is passed on before the silo has seen
    /// it; what others are to see as well means nothing to an application.
    #[inline]
    fn taken(&mut self, index: usize) {
        if !self.state.looks && index < self.state.straight && !is_plain(self.link.frame(index)) {
            cold_path();
            let now = self.state.now;
            self.keeps_other(now, index);
        }
    }

    #[cold]
    fn stray(&mut self, index: usize) -> bool {
        let own = if index < self.state.straight {
            index
        } else {
            match self.other(index).0 {
                Other::Own(index) => index as usize,
                Other::From(_, record) if record.head.kind == STRAY => {
                    // Another silo may own it; whoever received it answers
                    // for none.
                    self.state.counters.strays_dropped += 1;
                    return true;
                }
                Other::From(silo, record) => {
                    let Some(ring) = &self.state.from[silo as usize] else { return false };
                    return self.link.stray_from(ring.bytes(&record));
                }
            }
        };
        // A silo may own it, or a process that had the link before.
        let passed = self.state.common.failover.load(Ordering::Relaxed) && self.pass_stray(own);
        self.link.stray(own) || passed
    }

    #[inline]
    fn release(&mut self) {
        self.link.release();
        let state = &mut *self.state;
        state.straight = 0;
        if !state.others.is_empty() || state.borrowed {
            cold_path();
            state.give_back();
        }
        state.show();
    }
}
