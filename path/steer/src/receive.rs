//! The receive half: the own queue's burst, and what other silos pass on.

use crate::classify::{Kind, Tuple, is_plain, kind, plain};
use crate::counters::Counters;
use crate::mesh::{Common, Rule, owner};
use crate::ring::{Consumer, Producer, Record};
use core::hint::cold_path;
use core::sync::atomic::Ordering;
use core::time::Duration;
use link::Receive;
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

/// The receive half of a [`crate::Steered`], around that of its link.
#[derive(Debug)]
pub struct SteeredRx<'a, R> {
    pub(crate) link: R,
    pub(crate) state: &'a mut RxState,
}

/// What receiving remembers.
#[derive(Debug)]
pub(crate) struct RxState {
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

impl RxState {
    pub fn new(
        own: usize,
        common: Arc<Common>,
        to: Vec<Option<Producer>>,
        from: Vec<Option<Consumer>>,
        candidates: Vec<usize>,
    ) -> Self {
        let silos = from.len();
        Self {
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

    pub fn waiting(&self) -> bool {
        self.from.iter().flatten().any(Consumer::has_more)
    }
}

impl<R: Receive> SteeredRx<'_, R> {
    /// Takes up to `max` frames from the other silos' rings, by turns.
    #[cold]
    fn take_others(&mut self, news: u64, max: usize) {
        self.state.left |= news;
        let silos = self.state.from.len();
        let each = max.div_ceil(self.state.left.count_ones().max(1) as usize);
        let mut still = 0;
        for step in 0..silos {
            let silo = (self.state.turn + step) % silos;
            let bit = 1 << (silo % 64);
            let Some(ring) = self.state.from[silo].as_mut().filter(|_| self.state.left & bit != 0) else { continue };
            let room = max.saturating_sub(self.state.others.len()).min(each);
            for _ in 0..room {
                let Some(record) = ring.take() else { break };
                self.state.others.push(Other::From(silo as u32, record));
                let counter = match record.head.kind {
                    SHARED => &mut self.state.counters.messages_in,
                    _ => &mut self.state.counters.forwarded_in,
                };
                *counter += 1;
                self.state.counters.forwarded_in_bytes += u64::from(record.head.len);
            }
            if ring.has_more() {
                still |= bit;
            }
        }
        self.state.turn = (self.state.turn + 1) % silos;
        self.state.left = still;
        self.state.borrowed = true;
    }

    /// Passes on what is others', and notes what stays.
    #[inline]
    fn sort(&mut self, now: Time, count: usize) {
        let mut index = 0;
        // Nearly always, all frames stay: no list is made.
        while index < count && self.keeps(now, index) {
            index += 1;
        }
        self.state.straight = index;
        if index < count {
            cold_path();
            for index in index + 1..count {
                if self.keeps(now, index) {
                    self.state.others.push(Other::Own(index as u32));
                }
            }
        }
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
        if !self.state.software {
            return true;
        }
        let Some((tuple, _)) = plain(frame) else { return true };
        let owner = self.owner(&tuple);
        if owner == self.state.own {
            return true;
        }
        self.forward(index, owner, FRAME);
        false
    }

    /// The silo that the hash gives a flow to.
    #[inline]
    fn owner(&self, tuple: &Tuple) -> usize {
        owner(&self.state.candidates, self.state.common.hasher.hash(tuple))
    }

    /// As [`Self::keeps`], for frames that are not plain.
    #[inline(never)]
    fn keeps_other(&mut self, now: Time, index: usize) -> bool {
        let to = match kind(self.link.frame(index)) {
            Kind::Segment(tuple, _) | Kind::Piece(tuple) if self.state.software => self.owner(&tuple),
            // An error's flow has its answers' hash.
            Kind::Error(tuple) if self.state.software => self.owner(&tuple),
            Kind::Error(_) | Kind::Neighbour | Kind::Fragment => {
                self.share(now, index);
                return true;
            }
            Kind::Segment(..) | Kind::Piece(_) | Kind::Other => return true,
        };
        if to != self.state.own {
            self.forward(index, to, FRAME);
        }
        to == self.state.own
    }

    /// Gives everybody a copy of a frame.
    fn share(&mut self, now: Time, index: usize) {
        for to in 0..self.state.to.len() {
            if to != self.state.own && self.may_message(now) {
                self.forward(index, to, SHARED);
            }
        }
    }

    /// Whether one more message may be sent now.
    fn may_message(&mut self, now: Time) -> bool {
        if now.since(self.state.messages_at) >= MESSAGES_EVERY {
            self.state.messages_at = now;
            self.state.messages = MESSAGES.max(self.state.to.len() as u32);
        }
        if self.state.messages == 0 {
            self.state.counters.messages_limited += 1;
            return false;
        }
        self.state.messages -= 1;
        true
    }

    /// Copies frame `index` of the own queue's burst into the ring to `to`.
    fn forward(&mut self, index: usize, to: usize, kind: u8) {
        let (Some(ring), seat) = (&mut self.state.to[to], &self.state.common.seats[to]) else { return };
        if !seat.present.load(Ordering::Acquire) {
            self.state.counters.absent += 1;
            return;
        }
        let (rx, counters) = (&self.link, &mut self.state.counters);
        let frame = rx.frame(index);
        let flags = if rx.verified(index) { VERIFIED } else { 0 };
        if !ring.push(frame, kind, flags, 0) {
            counters.ring_full += 1;
            return;
        }
        if !self.state.unshown.contains(&to) {
            self.state.unshown.push(to);
        }
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
    }

    /// Shows other silos what was passed on to them.
    #[inline]
    fn show(&mut self) {
        if self.state.unshown.is_empty() {
            return;
        }
        cold_path();
        for to in self.state.unshown.drain(..) {
            if let Some(ring) = &mut self.state.to[to]
                && ring.publish()
            {
                self.state.common.seats[to].bell.ring_arrived(self.state.own);
            }
        }
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
        for to in 0..self.state.to.len() {
            let common = &self.state.common;
            let elsewhere = common.seats[to].domain != common.seats[self.state.own].domain;
            let may = match common.rule {
                Rule::Software => elsewhere && common.owner(common.seats[to].domain, &tuple) == Some(to),
                Rule::Queue => to != self.state.own,
            };
            any |= may;
            if may && self.may_message(self.state.messages_at) {
                self.forward(index, to, STRAY);
            }
        }
        any
    }
}

impl<R: Receive> Receive for SteeredRx<'_, R> {
    #[inline]
    fn receive(&mut self, now: Time, max: usize) -> usize {
        let max = max.min(BURST_LIMIT);
        self.state.others.clear();
        let news = self.state.common.seats[self.state.own].bell.take_arrived();
        if news | self.state.left != 0 {
            cold_path();
            // Half of a burst each, where both have so many.
            self.take_others(news, max.div_ceil(2));
        }
        let own = self.link.receive(now, max - self.state.others.len());
        self.sort(now, own);
        self.show();
        self.state.straight + self.state.others.len()
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
        match self.other(index).0 {
            Other::From(_, record) => record.head.flags & VERIFIED != 0,
            Other::Own(index) => self.link.verified(index as usize),
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
                Other::From(..) => return false,
            }
        };
        self.state.common.failover.load(Ordering::Relaxed) && self.pass_stray(own)
    }

    #[inline]
    fn release(&mut self) {
        self.link.release();
        self.state.straight = 0;
        if self.state.borrowed {
            cold_path();
            self.state.borrowed = false;
            self.state.others.clear();
            self.state.from.iter_mut().flatten().for_each(Consumer::release);
        }
        self.show();
    }
}
