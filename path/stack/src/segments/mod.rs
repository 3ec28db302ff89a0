//! TCP beside IP: whose segment it is, handshakes, connections, TIME-WAIT,
//! their timers, and their turns to send.
//!
//! A connection's own state machine is the crate `tcp`. What stands here is
//! what all of them share: each part owns its data and is asked by methods,
//! and what needs the layer below is given [`Ip`] by the caller.

mod arrive;
mod budget;
mod build;
mod calls;
mod challenge;
mod compare;
mod cookie;
mod crowd;
mod errors;
mod events;
mod flows;
mod handshake;
mod late;
mod listen;
mod migrate;
mod outbox;
mod ports;
mod refuse;
mod replies;
mod sealed;
mod slots;
mod syn;
mod time_wait;
mod timers;
mod transmit;

pub(crate) use arrive::LightArrival;
pub use arrive::{Arrival, Arrived, Glance};
pub use migrate::Migrant;
#[cfg(test)]
pub(crate) use outbox::MAX_PENDING;
pub use ports::ReturnPath;
pub use slots::Slot;

use crate::config::{Config, Seeds};
use crate::counters::SegmentCounters;
use crate::flow::Flow;
use crate::ip::Ip;
use crate::secret::Secret;
use app::{Closed, ConnId};
use budget::Budget;
use challenge::Challenges;
use crowd::Crowd;
use events::Events;
use flows::{Flows, Owner, StampOffsets};
use listen::Listeners;
use outbox::Outbox;
use ports::Ports;
use refuse::Refusals;
use sealed::Seals;
use slots::Slots;
use syn::SynQueue;
use tcp::{Context, Path};
use time_wait::TimeWait;
use timers::Timers;
use wire::Time;

/// A host's TCP.
#[derive(Debug)]
pub(crate) struct Tcp {
    common: Common,
    flows: Flows,
    slots: Slots,
    listeners: Listeners,
    syns: SynQueue,
    /// When a cookie was last sent: only for a while after are they looked for.
    last_cookie: Option<Time>,
    waits: TimeWait,
    timers: Timers,
    outbox: Outbox,
    events: Events,
    challenges: Challenges,
    refusals: Refusals,
    crowd: Crowd,
    seals: Seals,
    sources: app::Sources,
    ports: Ports,
    secret: Secret,
    counters: SegmentCounters,
}

/// What the state machines of all connections are given.
#[derive(Debug)]
struct Common {
    now: Time,
    now_ms: u32,
    config: tcp::Config,
    offsets: StampOffsets,
    budget: Budget,
    counters: tcp::Counters,
}

impl Common {
    /// For a call on the connection of this flow.
    #[inline(always)]
    fn context(&mut self, flow: &Flow) -> Context<'_> {
        Context {
            now: self.now,
            now_ms: self.now_ms,
            ts_offset: self.offsets.of(flow),
            receive_full: self.budget.is_scarce(),
            config: &self.config,
            counters: &mut self.counters,
        }
    }

    /// Our timestamp clock for a flow.
    fn stamp(&self, flow: &Flow) -> u32 {
        self.now_ms.wrapping_add(self.offsets.of(flow))
    }
}

impl Tcp {
    /// Of a stack with these settings, at `now`.
    pub fn new(config: &Config, seeds: &Seeds, now: Time) -> Self {
        let now_ms = now.as_millis() as u32;
        let entries = config.max_connections + config.max_half_open + config.max_time_wait;
        let most = config.max_connections.min(flows::MAX_INDEX as usize);
        Self {
            common: Common {
                now,
                now_ms,
                config: config.tcp.clone().settled(),
                offsets: StampOffsets::new(&seeds.timestamps),
                budget: Budget::new(config.receive_memory, config.send_memory),
                counters: tcp::Counters::default(),
            },
            flows: Flows::with_capacity(entries, &seeds.table),
            slots: Slots::new(most),
            listeners: Listeners::new(&config.listen),
            syns: SynQueue::new(config.max_half_open, config.syn_ack_retries),
            last_cookie: None,
            waits: TimeWait::new(config.max_time_wait),
            timers: Timers::new(now_ms, config.max_connections),
            outbox: Outbox::new(),
            events: Events::default(),
            challenges: Challenges::new(config, seeds, most),
            refusals: Refusals::new(config, seeds),
            crowd: Crowd::new(now),
            seals: Seals::default(),
            sources: app::Sources::new(config.per_source.clone()),
            ports: Ports::default(),
            secret: Secret::new(&seeds.secret),
            counters: SegmentCounters::default(),
        }
    }

    /// A turn begins. Time never moves back: an earlier `now` is ignored.
    /// Returns the turn's time.
    #[inline(always)]
    pub fn begin_turn(&mut self, now: Time) -> Time {
        if now > self.common.now {
            self.common.now = now;
            self.common.now_ms = now.as_millis() as u32;
        }
        self.common.now
    }

    /// The turn's time.
    #[inline(always)]
    pub const fn now(&self) -> Time {
        self.common.now
    }

    /// What was counted beside TCP's own.
    #[inline(always)]
    pub const fn counters(&self) -> &SegmentCounters {
        &self.counters
    }

    /// Counts on from there: a way that was only tried is not counted.
    pub const fn set_counters(&mut self, counters: SegmentCounters) {
        self.counters = counters;
    }

    /// What TCP itself counted.
    pub const fn tcp_counters(&self) -> &tcp::Counters {
        &self.common.counters
    }

    /// The settings of new connections.
    pub const fn set_congestion(&mut self, algorithm: tcp::congestion::Algorithm) {
        self.common.config.congestion = algorithm;
    }

    /// Handshakes that are half open.
    pub fn half_open(&self) -> usize {
        self.syns.len()
    }

    /// TIME-WAIT records.
    pub const fn time_wait(&self) -> usize {
        self.waits.len()
    }

    /// The connections.
    #[inline(always)]
    pub const fn slots(&self) -> &Slots {
        &self.slots
    }

    /// Bytes held for applications and gaps.
    pub const fn receive_memory(&self) -> usize {
        self.common.budget.total
    }

    /// Bytes under way that applications do not count as queued.
    pub const fn send_memory(&self) -> usize {
        self.common.budget.sending
    }

    /// At most so many connections from now on.
    pub fn set_max_connections(&mut self, connections: usize) {
        self.slots.set_limit(connections);
    }

    /// Replies that wait for a transmit slot.
    #[cfg(test)]
    pub fn pending_replies(&self) -> usize {
        self.outbox.pending()
    }

    /// At most so many half-open handshakes from now on.
    #[cfg(test)]
    pub fn set_max_half_open(&mut self, handshakes: usize) {
        self.syns.set_limit(handshakes);
    }

    /// Tells `each` where the tables are that segments are looked up in.
    pub fn memory(&self, each: &mut dyn FnMut(core::ops::Range<usize>)) {
        each(self.flows.memory());
        each(self.slots.memory());
        each(self.syns.memory());
        each(self.waits.memory());
        self.timers.memory(each);
        self.outbox.memory(each);
    }

    /// What `flow` belongs to.
    #[inline]
    fn find(&self, hash: u64, flow: &Flow) -> Option<Owner> {
        self.flows.find(hash, |owner| match owner {
            Owner::Connection(slot) => self.slots.at(slot).flow() == *flow,
            Owner::Syn(entry) => self.syns.get(entry).flow == *flow,
            Owner::TimeWait(record) => self.waits.get(record).flow == *flow,
        })
    }

    /// Puts a connection on the ready list.
    #[inline]
    fn make_ready(&mut self, slot: u32) {
        let connection = &mut self.slots.at_mut(slot).tcp;
        if !connection.is_ready() {
            connection.set_ready(true);
            self.outbox.ready.push(slot);
        }
    }

    /// Notes that a connection is over; the application hears of it at the
    /// end of the turn.
    fn note_over(&mut self, id: ConnId, why: Closed) {
        let slot = self.slots.at_mut(id.index() as u32);
        if slot.set_over() {
            self.events.over.push_back((id, why));
        }
    }

    /// Enters the connection's earliest deadline into the wheel.
    #[inline]
    fn schedule(&mut self, index: u32) {
        self.timers.enter_deadline(index, self.slots.at_mut(index));
    }

    /// Runs `with` on a connection, with the context that TCP takes.
    #[inline]
    fn with<R>(
        &mut self,
        ip: &Ip,
        index: u32,
        with: impl FnOnce(&mut tcp::Connection, &mut Context<'_>, Path) -> R,
    ) -> R {
        let slot = self.slots.at_mut(index);
        let flow = slot.flow();
        let path = Path { mtu: ip.mtu(), v6: !flow.is_v4() };
        let mut cx = self.common.context(&flow);
        with(&mut slot.tcp, &mut cx, path)
    }
}
