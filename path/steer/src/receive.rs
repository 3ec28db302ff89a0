//! The receive half: the own queue's burst, and what other silos pass on.

use crate::classify::{Kind, Tuple, is_plain, kind, plain};
use crate::counters::Counters;
use crate::lent::Lent;
use crate::mesh::{Common, Rule, owner};
use crate::ring::{Consumer, Producer, Record};
use core::hint::cold_path;
use core::sync::atomic::Ordering;
use core::time::Duration;
use link::{Link, Receive};
use std::sync::Arc;
use wire::Time;

/// Most frames of one burst, whatever is asked for.
const BURST_LIMIT: usize = 256;

/// Frames that a silo shares with others or passes on as strays in each
/// [`MESSAGES_EVERY`], at most; more are dropped and counted. A flood of them
/// at one silo costs another one no more than 16,000 small frames a second.
const MESSAGES: u32 = 16;
const MESSAGES_EVERY: Duration = Duration::from_millis(1);

/// A record: a received frame.
const FRAME: u8 = 0;
/// A record: a frame that several silos are to see.
const SHARED: u8 = 1;
/// A record: a segment of a flow that the sender does not know.
const STRAY: u8 = 2;

/// Flag of a record: the link vouches for the transport checksum.
const VERIFIED: u8 = 1;

/// The receive half of a [`crate::Steered`].
#[derive(Debug)]
pub struct SteeredRx<L: Link> {
    pub(crate) link: Lent<L::Rx>,
    own: usize,
    common: Arc<Common>,
    software: bool,
    to: Vec<Option<Producer>>,
    from: Vec<Option<Consumer>>,
    /// Rings with records that no burst had room for, as bits.
    left: u64,
    /// The ring to begin with.
    turn: usize,
    candidates: Vec<usize>,
    /// Frames at the front of the burst that are the queue's first ones.
    straight: usize,
    /// The frames behind them.
    others: Vec<Other>,
    /// Rings that records of this burst lie in.
    borrowed: bool,
    /// Silos whose rings hold records that are not shown yet.
    unshown: Vec<usize>,
    messages: u32,
    messages_at: Time,
    pub(crate) counters: Counters,
}

/// A frame that does not lie where its index says.
#[derive(Clone, Copy, Debug)]
enum Other {
    /// Frame of the own queue's burst.
    Own(u32),
    /// Record of the ring from a silo.
    From(u32, Record),
}

impl<L: Link> SteeredRx<L> {
    pub(crate) fn new(
        own: usize,
        common: Arc<Common>,
        to: Vec<Option<Producer>>,
        from: Vec<Option<Consumer>>,
        candidates: Vec<usize>,
    ) -> Self {
        let silos = from.len();
        Self {
            link: Lent::nothing(),
            own,
            software: common.rule == Rule::Software && candidates.len() > 1,
            common,
            to,
            from,
            left: 0,
            turn: 0,
            candidates,
            straight: 0,
            others: Vec::with_capacity(BURST_LIMIT),
            borrowed: false,
            unshown: Vec::with_capacity(silos),
            messages: MESSAGES,
            messages_at: Time::ZERO,
            counters: Counters::default(),
        }
    }

    pub(crate) fn waiting(&self) -> bool {
        self.from.iter().flatten().any(Consumer::has_more)
    }

    /// Takes up to `max` frames from the other silos' rings, by turns.
    #[cold]
    fn take_others(&mut self, news: u64, max: usize) {
        self.left |= news;
        let silos = self.from.len();
        let each = max.div_ceil(self.left.count_ones().max(1) as usize);
        let mut still = 0;
        for step in 0..silos {
            let silo = (self.turn + step) % silos;
            let bit = 1 << (silo % 64);
            let Some(ring) = self.from[silo].as_mut().filter(|_| self.left & bit != 0) else { continue };
            let room = max.saturating_sub(self.others.len()).min(each);
            for _ in 0..room {
                let Some(record) = ring.take() else { break };
                self.others.push(Other::From(silo as u32, record));
                let counter = match record.head.kind {
                    SHARED => &mut self.counters.messages_in,
                    _ => &mut self.counters.forwarded_in,
                };
                *counter += 1;
                self.counters.forwarded_in_bytes += u64::from(record.head.len);
            }
            if ring.has_more() {
                still |= bit;
            }
        }
        self.turn = (self.turn + 1) % silos;
        self.left = still;
        self.borrowed = true;
    }

    /// Passes on what is others', and notes what stays.
    #[inline]
    fn sort(&mut self, now: Time, count: usize) {
        let mut index = 0;
        // Nearly always, all frames stay: no list is made.
        while index < count && self.keeps(now, index) {
            index += 1;
        }
        self.straight = index;
        if index < count {
            cold_path();
            for index in index + 1..count {
                if self.keeps(now, index) {
                    self.others.push(Other::Own(index as u32));
                }
            }
        }
    }

    /// Whether a frame of the own queue is for this silo; if not, it has been
    /// passed on.
    #[inline(always)]
    fn keeps(&mut self, now: Time, index: usize) -> bool {
        let frame = self.link.get().frame(index);
        if !is_plain(frame) {
            cold_path();
            return self.keeps_other(now, index);
        }
        if !self.software {
            return true;
        }
        let Some((tuple, _)) = plain(frame) else { return true };
        let owner = self.owner(&tuple);
        if owner == self.own {
            return true;
        }
        self.forward(index, owner, FRAME);
        false
    }

    /// The silo that the hash gives a flow to.
    #[inline]
    fn owner(&self, tuple: &Tuple) -> usize {
        owner(&self.candidates, self.common.hasher.hash(tuple))
    }

    /// As [`Self::keeps`], for frames that are not plain.
    #[inline(never)]
    fn keeps_other(&mut self, now: Time, index: usize) -> bool {
        let to = match kind(self.link.get().frame(index)) {
            Kind::Segment(tuple, _) | Kind::Piece(tuple) if self.software => self.owner(&tuple),
            // An error's flow has its answers' hash.
            Kind::Error(tuple) if self.software => self.owner(&tuple),
            Kind::Error(_) | Kind::Neighbour | Kind::Fragment => {
                self.share(now, index);
                return true;
            }
            Kind::Segment(..) | Kind::Piece(_) | Kind::Other => return true,
        };
        if to != self.own {
            self.forward(index, to, FRAME);
        }
        to == self.own
    }

    /// Gives everybody a copy of a frame.
    fn share(&mut self, now: Time, index: usize) {
        for to in 0..self.to.len() {
            if to != self.own && self.may_message(now) {
                self.forward(index, to, SHARED);
            }
        }
    }

    /// Whether one more message may be sent now.
    fn may_message(&mut self, now: Time) -> bool {
        if now.since(self.messages_at) >= MESSAGES_EVERY {
            self.messages_at = now;
            self.messages = MESSAGES.max(self.to.len() as u32);
        }
        if self.messages == 0 {
            self.counters.messages_limited += 1;
            return false;
        }
        self.messages -= 1;
        true
    }

    /// Copies frame `index` of the own queue's burst into the ring to `to`.
    fn forward(&mut self, index: usize, to: usize, kind: u8) {
        let (Some(ring), seat) = (&mut self.to[to], &self.common.seats[to]) else { return };
        if !seat.present.load(Ordering::Acquire) {
            self.counters.absent += 1;
            return;
        }
        let (rx, counters) = (self.link.get(), &mut self.counters);
        let frame = rx.frame(index);
        let flags = if rx.verified(index) { VERIFIED } else { 0 };
        if !ring.push(frame, kind, flags, 0) {
            counters.ring_full += 1;
            return;
        }
        if !self.unshown.contains(&to) {
            self.unshown.push(to);
        }
        let counter = match kind {
            SHARED => &mut counters.messages_out,
            STRAY => &mut counters.strays_passed,
            _ => &mut counters.forwarded_out,
        };
        *counter += 1;
        counters.forwarded_out_bytes += frame.len() as u64;
        if seat.domain != self.common.seats[self.own].domain {
            counters.crossed_bytes += frame.len() as u64;
        }
    }

    /// Shows other silos what was passed on to them.
    #[inline]
    fn show(&mut self) {
        if self.unshown.is_empty() {
            return;
        }
        cold_path();
        for to in self.unshown.drain(..) {
            if let Some(ring) = &mut self.to[to]
                && ring.publish()
            {
                self.common.seats[to].bell.ring_arrived(self.own);
            }
        }
    }

    /// Where a frame behind the straight ones lies.
    #[inline]
    fn other(&self, index: usize) -> (Other, Option<&Consumer>) {
        let other = self.others[index - self.straight];
        let ring = match other {
            Other::Own(_) => None,
            Other::From(silo, _) => self.from[silo as usize].as_ref(),
        };
        (other, ring)
    }

    #[inline(never)]
    fn other_frame(&self, index: usize) -> &[u8] {
        match self.other(index) {
            (Other::From(_, record), Some(ring)) => ring.bytes(&record),
            (Other::Own(index), _) => self.link.get().frame(index as usize),
            (Other::From(..), None) => &[],
        }
    }

    /// Passes a segment that nobody here knows to silos that may: in each
    /// other domain to the one that the hash names, or to all where the
    /// queues decide. Whether there are any.
    #[cold]
    fn pass_stray(&mut self, index: usize) -> bool {
        let Kind::Segment(tuple, _) = kind(self.link.get().frame(index)) else { return false };
        let mut any = false;
        for to in 0..self.to.len() {
            let common = &self.common;
            let elsewhere = common.seats[to].domain != common.seats[self.own].domain;
            let may = match common.rule {
                Rule::Software => elsewhere && common.owner(common.seats[to].domain, &tuple) == Some(to),
                Rule::Queue => to != self.own,
            };
            any |= may;
            if may && self.may_message(self.messages_at) {
                self.forward(index, to, STRAY);
            }
        }
        any
    }
}

impl<L: Link> Receive for SteeredRx<L> {
    #[inline]
    fn receive(&mut self, now: Time, max: usize) -> usize {
        let max = max.min(BURST_LIMIT);
        self.others.clear();
        let news = self.common.seats[self.own].bell.take_arrived();
        if news | self.left != 0 {
            cold_path();
            // Half of a burst each, where both have so many.
            self.take_others(news, max.div_ceil(2));
        }
        let own = self.link.get_mut().receive(now, max - self.others.len());
        self.sort(now, own);
        self.show();
        self.straight + self.others.len()
    }

    #[inline]
    fn frame(&self, index: usize) -> &[u8] {
        if index < self.straight {
            return self.link.get().frame(index);
        }
        self.other_frame(index)
    }

    #[inline]
    fn verified(&self, index: usize) -> bool {
        if index < self.straight {
            return self.link.get().verified(index);
        }
        match self.other(index).0 {
            Other::From(_, record) => record.head.flags & VERIFIED != 0,
            Other::Own(index) => self.link.get().verified(index as usize),
        }
    }

    #[cold]
    fn stray(&mut self, index: usize) -> bool {
        let own = if index < self.straight {
            index
        } else {
            match self.other(index).0 {
                Other::Own(index) => index as usize,
                Other::From(_, record) if record.head.kind == STRAY => {
                    // Another silo may own it; whoever received it answers
                    // for none.
                    self.counters.strays_dropped += 1;
                    return true;
                }
                Other::From(..) => return false,
            }
        };
        self.common.failover.load(Ordering::Relaxed) && self.pass_stray(own)
    }

    #[inline]
    fn release(&mut self) {
        self.link.get_mut().release();
        self.straight = 0;
        if self.borrowed {
            cold_path();
            self.borrowed = false;
            self.others.clear();
            self.from.iter_mut().flatten().for_each(Consumer::release);
        }
        self.show();
    }
}
