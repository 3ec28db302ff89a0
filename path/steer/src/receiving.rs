//! What receiving remembers, and what silos tell one another beside frames:
//! whose a flow is.

use crate::allowance::Allowance;
use crate::classify::{Kind, Tuple, kind};
use crate::counters::Counters;
use crate::flows::Flows;
use crate::mesh::{Common, Rule, Seated};
use crate::ring::{Consumer, Producer, Record};
use core::hint::cold_path;
use core::net::SocketAddr;
use core::sync::atomic::Ordering;
use core::time::Duration;
use std::sync::Arc;
use wire::Time;

/// Most frames of one burst, whatever is asked for.
pub(crate) const BURST_LIMIT: usize = 256;

/// Frames that a silo shares with others at once, and as many that it passes
/// on as strays, at most; more are dropped and counted. Several neighbours
/// answer all silos at once, so it is not a handful.
pub(crate) const MESSAGES: u32 = 32;
/// One more of each may be passed on so often: 4,000 in a second that are
/// shared, and 32,000 strays, for after a failover all flows begin as such.
/// A flood at one silo costs another one no more than these, and one at a
/// time.
pub(crate) const SHARED_EVERY: Duration = Duration::from_micros(250);
pub(crate) const STRAY_EVERY: Duration = Duration::from_nanos(31_250);

/// A record: a received frame.
pub(crate) const FRAME: u8 = 0;
/// A record: a frame that several silos are to see.
pub(crate) const SHARED: u8 = 1;
/// A record: a segment of a flow that the sender does not know.
pub(crate) const STRAY: u8 = 2;
/// A record: is this flow still yours?
pub(crate) const ASK: u8 = 3;
/// A record: the flow of this hash is not mine.
pub(crate) const FORGET: u8 = 4;
/// A record: this flow is mine.
pub(crate) const MINE: u8 = 5;

/// Questions of other silos that wait for [`link::Link::answer`]; more are
/// passed over, and come again.
pub(crate) const QUESTIONS: usize = 256;

/// Flag of a record: the link vouches for the transport checksum.
pub(crate) const VERIFIED: u8 = 1;
/// Flag of a record: it opens a connection that was given to the silo.
pub(crate) const GIVEN: u8 = 2;

/// What receiving remembers.
#[derive(Debug)]
pub(crate) struct RxState {
    pub own: usize,
    pub common: Arc<Common>,
    pub seat: Arc<Seated>,
    /// Frames are looked at for the silo that they belong to.
    pub looks: bool,
    pub flows: Option<Flows>,
    /// Connections given to this silo that it has seen.
    pub taken: u32,
    /// Flows that others asked after: who, what, and the flow.
    pub questions: Vec<(usize, u8, Tuple)>,
    pub to: Vec<Option<Producer>>,
    pub from: Vec<Option<Consumer>>,
    /// Rings with records that no burst had room for, as bits.
    pub left: u64,
    /// The ring to begin with.
    pub turn: usize,
    /// The candidate to begin with.
    pub next: usize,
    pub candidates: Vec<usize>,
    /// Frames at the front of the burst that are the queue's first ones.
    pub straight: usize,
    /// The frames behind them.
    pub others: Vec<Other>,
    /// Rings that records of this burst lie in.
    pub borrowed: bool,
    /// The time of this burst.
    pub now: Time,
    /// Silos whose rings hold records that are not shown yet, as bits.
    pub unshown: u64,
    /// Frames that may be shared, and passed on as strays.
    pub may_share: Allowance,
    pub may_stray: Allowance,
    pub counters: Counters,
}

/// A frame that does not lie where its index says.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Other {
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
        Self {
            own,
            looks: common.rule != Rule::Queue && candidates.len() > 1,
            flows: (common.rule == Rule::Least).then(|| Flows::new(common.flows)),
            taken: 0,
            questions: Vec::with_capacity(QUESTIONS),
            seat: Arc::clone(&common.seats[own]),
            common,
            to,
            from,
            left: 0,
            turn: 0,
            next: 0,
            candidates,
            straight: 0,
            others: Vec::with_capacity(BURST_LIMIT),
            borrowed: false,
            now: Time::ZERO,
            unshown: 0,
            may_share: Allowance::new(MESSAGES, SHARED_EVERY),
            may_stray: Allowance::new(MESSAGES, STRAY_EVERY),
            counters: Counters::default(),
        }
    }

    pub fn waiting(&self) -> bool {
        self.from.iter().flatten().any(Consumer::has_more)
    }

    /// Flows remembered.
    pub fn flows(&self) -> usize {
        self.flows.as_ref().map_or(0, Flows::len)
    }

    /// Work beside the packet path: asks after flows that were not seen for
    /// long.
    pub fn look_after(&mut self, now: Time) {
        if self.flows.is_none() && self.common.failover.load(Ordering::Relaxed) {
            self.flows = Some(Flows::new(self.common.flows));
            self.looks = true;
        }
        let Some(mut flows) = self.flows.take() else { return };
        flows.sweep(now, |hash, tuple, silo| {
            if silo == self.own {
                return self.question(silo, ASK, tuple);
            }
            // One that is gone will not answer: its flows are nobody's.
            let gone = !self.common.seats[silo].present.load(Ordering::Acquire);
            if gone { self.question(self.own, ASK, tuple) } else { self.tell(silo, ASK, tuple, hash) }
        });
        self.flows = Some(flows);
        self.show();
    }

    pub fn question(&mut self, from: usize, what: u8, tuple: &Tuple) -> bool {
        let room = self.questions.len() < QUESTIONS;
        if room {
            self.questions.push((from, what, *tuple));
        }
        room
    }

    /// Answers what was asked.
    pub fn answer(&mut self, owns: &mut dyn FnMut(SocketAddr, SocketAddr) -> bool) {
        let mut questions = core::mem::take(&mut self.questions);
        for (from, what, tuple) in questions.drain(..) {
            let (remote, local) = tuple.ends();
            let hash = self.common.hasher.hash(&tuple);
            match (what, owns(remote, local)) {
                (ASK, false) if from == self.own => self.forget(hash, None),
                // What is not heard is asked again.
                (ASK, false) => _ = self.tell(from, FORGET, &tuple, hash),
                (STRAY, true) => {
                    self.counters.strays_owned += 1;
                    self.tell(from, MINE, &tuple, hash);
                }
                _ => {}
            }
        }
        self.questions = questions;
        self.show();
    }

    /// Forgets a flow of a silo that knows it no more, or of one that is gone.
    pub fn forget(&mut self, hash: u64, silo: Option<usize>) {
        let Some(flows) = &mut self.flows else { return };
        let own = self.own;
        let gone = |silo: &usize| *silo == own || !self.common.seats[*silo].present.load(Ordering::Acquire);
        let forgotten = match silo {
            Some(silo) => flows.forget(hash, silo),
            None => (0..self.common.seats.len()).filter(gone).any(|silo| flows.forget(hash, silo)),
        };
        self.counters.flows_forgotten += u64::from(forgotten);
    }

    /// Tells another silo something about a flow. Whether there was room.
    pub fn tell(&mut self, to: usize, what: u8, tuple: &Tuple, hash: u64) -> bool {
        let Some(ring) = &mut self.to[to] else { return false };
        let told = self.common.seats[to].present.load(Ordering::Acquire) && ring.push(&tuple.to_bytes(), what, 0, hash);
        if told {
            self.unshown |= 1 << (to % 64);
        }
        told
    }

    /// A record from another silo.
    pub fn take_one(&mut self, from: usize, record: Record, now: Time) {
        let counter = match record.head.kind {
            FRAME => &mut self.counters.forwarded_in,
            SHARED => &mut self.counters.messages_in,
            STRAY => &mut self.counters.strays_in,
            _ => return self.hear(from, &record, now),
        };
        *counter += 1;
        self.counters.forwarded_in_bytes += u64::from(record.head.len);
        self.taken = self.taken.wrapping_add(u32::from(record.head.flags & GIVEN != 0));
        if record.head.kind == STRAY
            && let Some(ring) = &self.from[from]
            && let Kind::Segment(tuple, _) = kind(ring.bytes(&record))
        {
            // If it is ours, its frames need not be looked for again.
            self.question(from, STRAY, &tuple);
        }
        self.others.push(Other::From(from as u32, record));
    }

    /// Gives the rings' records back.
    #[cold]
    pub fn give_back(&mut self) {
        self.borrowed = false;
        self.others.clear();
        self.from.iter_mut().flatten().for_each(Consumer::release);
    }

    /// What another silo told.
    #[cold]
    pub fn hear(&mut self, from: usize, record: &Record, now: Time) {
        let Some(tuple) = self.from[from].as_ref().and_then(|ring| Tuple::from_bytes(ring.bytes(record))) else {
            return;
        };
        match record.head.kind {
            ASK => _ = self.question(from, ASK, &tuple),
            FORGET => self.forget(record.head.note, Some(from)),
            _ => {
                let Some(flows) = &mut self.flows else { return };
                let fits = flows.insert(record.head.note, &tuple, from, now);
                let counters = &mut self.counters;
                *if fits { &mut counters.flows_steered } else { &mut counters.flows_full } += 1;
            }
        }
    }

    /// Shows other silos what was passed on to them.
    #[inline]
    pub fn show(&mut self) {
        if self.unshown != 0 {
            cold_path();
            self.show_all();
        }
    }

    #[cold]
    pub fn show_all(&mut self) {
        let mut bits = core::mem::take(&mut self.unshown);
        while bits != 0 {
            let first = bits.trailing_zeros() as usize;
            bits &= bits - 1;
            for to in (first..self.to.len()).step_by(64) {
                if let Some(ring) = &mut self.to[to]
                    && ring.publish()
                {
                    self.common.seats[to].bell.ring_arrived(self.own);
                }
            }
        }
    }
}
