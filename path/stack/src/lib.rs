//! From frames to connections and back: neighbours, IP, demultiplexing,
//! listeners, handshakes, TIME-WAIT, timers.
//!
//! The stack takes borrowed frames and writes frames into slots that it is
//! lent ([`Egress`]); it owns no packet buffers. It calls nobody: what a frame
//! means for an application is the return value, and what else happened is
//! asked for. Call order of a turn:
//!
//! ```text
//! begin_turn
//!   ─► on_frame for each frame of the burst          ─► Arrived
//!   ─► (the application takes it), settle if it was Data  a frame into a slot
//!   ─► on_timers, then poll_app_timer until None     ─► ConnId
//!   ─► (the application acts, through app::Net)
//!   ─► poll_resumed until None                       ─► ConnId
//!   ─► poll_transmit                                   frames into slots
//!   ─► poll_closed until None                        ─► ConnId, reason
//! ```
#![forbid(unsafe_code)]

/// What TCP is told on each call, of a connection with this flow. A macro,
/// because the connection is borrowed at the same time.
macro_rules! context {
    ($stack:ident, $flow:expr) => {
        tcp::Context {
            now: $stack.now,
            now_ms: $stack.now_ms,
            ts_offset: $stack.hasher.timestamp_offset($flow),
            receive_full: $stack.budget.total >= $stack.budget.much,
            config: &$stack.config.tcp,
            counters: &mut $stack.tcp_counters,
        }
    };
}

mod addresses;
mod budget;
mod config;
mod counters;
mod crowd;
mod egress;
mod flow;
mod fragments;
mod host;
mod icmp;
mod icmp_limit;
mod ingress;
mod link_layer;
mod listen;
mod memory;
mod neighbour;
mod net;
mod ports;
mod presence;
mod replies;
mod route;
mod secret;
pub mod shadow;
mod slots;
mod stray;
mod syn;
mod time_wait;
mod timers;
mod unreachable;
mod wheel;

pub use config::{Address, Config, Detection, MAX_ADDRESSES, Route, Seeds};
pub use counters::Counters;
pub use ingress::{Arrival, Arrived};
pub use ports::ReturnPath;
pub use presence::Conflict;
pub use slots::Slot;

use addresses::Addresses;
use app::{Closed, ConnId};
use core::net::IpAddr;
use flow::{FlowHasher, FlowTable};
use fragments::Reassembly;
use icmp_limit::{RateLimit, SecretLimit, SourceLimit};
use neighbour::NeighbourTable;
use route::Routes;
use secret::Secret;
use shadow::Watched;
use slots::Slots;
use std::collections::VecDeque;
use syn::SynQueue;
use tcp::{Context, Path, SocketOptions};
use time_wait::TimeWait;
use wheel::{Due, Wheel};
use wire::{Offload, Time};

/// Where frames to send are built: the link's transmit half, as the stack
/// sees it.
pub trait Egress {
    /// Slots that are free now; may understate.
    fn room(&self) -> usize;
    /// The next free slot, the same until it is committed.
    fn slot(&mut self) -> Option<&mut [u8]>;
    /// Completes the slot.
    fn commit(&mut self, len: usize, offload: Offload);
    /// Who holds the short ways of what goes through here against the general
    /// ones: nobody but the simulator.
    #[inline(always)]
    fn watched(&mut self) -> Watched<'_> {
        Watched::No
    }
}

/// What the link does for the frames that the stack hands it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct LinkOffload {
    /// It completes transport checksums.
    pub checksum: bool,
    /// It cuts payloads into segments, of packets up to this many bytes.
    pub segmentation: Option<u32>,
}

/// Transmit slots that data leaves for control packets, so that handshakes,
/// acknowledgements and neighbour discovery get through when bulk transfers
/// fill the ring.
pub(crate) const CONTROL_RESERVE: usize = 8;

/// A whole TCP/IP stack: one silo's.
#[derive(Debug)]
pub struct Stack {
    pub(crate) config: Config,
    pub(crate) offload: LinkOffload,
    /// The largest packet that the link was made for.
    pub(crate) link_mtu: u16,
    pub(crate) now: Time,
    pub(crate) now_ms: u32,
    /// The millisecond whose deadlines are all worked off.
    pub(crate) timed_ms: u32,
    pub(crate) addresses: Addresses,
    pub(crate) presence: presence::Presence,
    pub(crate) routes: Routes,
    pub(crate) neighbours: NeighbourTable,
    /// Neighbours that the host is to resolve.
    pub(crate) neighbours_wanted: VecDeque<IpAddr>,
    pub(crate) reassembly: Reassembly,
    pub(crate) hasher: FlowHasher,
    pub(crate) secret: Secret,
    pub(crate) table: FlowTable,
    pub(crate) slots: Slots,
    pub(crate) syns: SynQueue,
    /// Whose SYN was taken last: an address that may be a host's. They come in
    /// rows.
    pub(crate) last_source: IpAddr,
    /// When a cookie was last sent: only for a while after are they looked
    /// for.
    pub(crate) last_cookie: Option<Time>,
    pub(crate) waits: TimeWait,
    pub(crate) wheel: Wheel,
    pub(crate) due: Vec<Due>,
    pub(crate) delayed_acks: VecDeque<timers::DelayedAck>,
    /// Connections with something to send, each once.
    pub(crate) ready: Vec<u32>,
    /// Those whose turn it is; empty between turns.
    pub(crate) turn: Vec<u32>,
    /// Connections that wait for a neighbour whose queue is full.
    pub(crate) unresolved: Vec<ConnId>,
    pub(crate) app_timers: VecDeque<ConnId>,
    pub(crate) resumed: VecDeque<ConnId>,
    pub(crate) over: VecDeque<(ConnId, Closed)>,
    /// Resets for connections that the application aborted.
    pub(crate) resets: VecDeque<egress::PendingReset>,
    /// Sending stopped for want of transmit slots.
    pub(crate) blocked: bool,
    /// The segment of an unknown flow that [`Stack::refuse`] would answer.
    pub(crate) stray: Option<stray::Stray>,
    /// The frame at hand is that segment.
    pub(crate) strayed: bool,
    /// Replies without a connection that wait for a transmit slot.
    pub(crate) pending: VecDeque<replies::Pending>,
    pub(crate) crowd: crowd::Crowd,
    pub(crate) sources: app::Sources,
    pub(crate) challenges: SecretLimit,
    /// When the connection in each slot was last challenged, in milliseconds;
    /// 0 is never.
    pub(crate) challenged: Vec<u32>,
    pub(crate) errors: SourceLimit,
    pub(crate) resets_unknown: SourceLimit,
    pub(crate) echoes: RateLimit,
    pub(crate) path_mtus: route::PathMtus,
    /// Packets that left in fragments.
    pub(crate) identifications: u32,
    pub(crate) budget: budget::Budget,
    pub(crate) ports: ports::Ports,
    /// Ports whose listeners hand options on, few if any.
    pub(crate) listener_options: Vec<(u16, SocketOptions)>,
    pub(crate) counters: Counters,
    pub(crate) tcp_counters: tcp::Counters,
}

impl Stack {
    /// A stack at `now`, over a link with these capabilities.
    #[must_use]
    pub fn new(config: Config, offload: LinkOffload, seeds: &Seeds, now: Time) -> Self {
        let now_ms = now.as_millis() as u32;
        let entries = config.max_connections + config.max_half_open + config.max_time_wait;
        let routes = Routes::of(&config);
        let (presence, addresses) = presence::Presence::new(&config, seeds.table[0] ^ seeds.secret[1]);
        Self {
            offload,
            link_mtu: config.mtu,
            now,
            now_ms,
            timed_ms: now_ms.wrapping_sub(1),
            addresses,
            presence,
            routes,
            neighbours: NeighbourTable::new(now),
            neighbours_wanted: VecDeque::new(),
            reassembly: Reassembly::new(),
            hasher: FlowHasher::new(&seeds.table, &seeds.timestamps),
            secret: Secret::new(&seeds.secret),
            table: FlowTable::with_capacity(entries),
            slots: Slots::new(config.max_connections.min(flow::MAX_INDEX as usize)),
            syns: SynQueue::new(config.max_half_open, config.syn_ack_retries),
            last_source: IpAddr::V4(core::net::Ipv4Addr::UNSPECIFIED),
            last_cookie: None,
            waits: TimeWait::new(config.max_time_wait),
            wheel: Wheel::new(now_ms, config.max_connections),
            due: Vec::with_capacity(wheel::BOUND),
            delayed_acks: VecDeque::new(),
            ready: Vec::with_capacity(1024),
            turn: Vec::with_capacity(1024),
            unresolved: Vec::new(),
            app_timers: VecDeque::new(),
            resumed: VecDeque::new(),
            over: VecDeque::new(),
            resets: VecDeque::new(),
            blocked: false,
            stray: None,
            strayed: false,
            pending: VecDeque::new(),
            crowd: crowd::Crowd::new(now),
            sources: app::Sources::new(config.per_source.clone()),
            challenges: SecretLimit::per_second(config.challenge_acks_per_second, seeds.secret[0] ^ seeds.table[3]),
            challenged: vec![0; config.max_connections.min(flow::MAX_INDEX as usize)],
            errors: answers(&config, [seeds.secret[1], seeds.table[2]]),
            resets_unknown: answers(&config, [seeds.secret[2], seeds.table[1]]),
            echoes: RateLimit::per_second(config.echo_per_second, now),
            path_mtus: route::PathMtus::new(),
            identifications: 0,
            budget: budget::Budget::new(config.receive_memory),
            ports: ports::Ports::default(),
            listener_options: Vec::new(),
            counters: Counters::default(),
            tcp_counters: tcp::Counters::default(),
            config,
        }
    }

    /// A turn begins. Time never moves back: an earlier `now` is ignored.
    #[inline]
    pub fn begin_turn(&mut self, now: Time) {
        if now > self.now {
            self.now = now;
            self.now_ms = now.as_millis() as u32;
        }
    }

    /// The stack's counters.
    #[must_use]
    pub const fn counters(&self) -> &Counters {
        &self.counters
    }

    /// TCP's counters.
    #[must_use]
    pub const fn tcp_counters(&self) -> &tcp::Counters {
        &self.tcp_counters
    }

    /// Neighbour resolution's counters, with their names.
    pub fn neighbour_counters(&self) -> impl Iterator<Item = (&'static str, u64)> {
        self.neighbours.counters().iter()
    }

    /// Reassembly's counters, with their names.
    pub fn fragment_counters(&self) -> impl Iterator<Item = (&'static str, u64)> {
        self.reassembly.counters().iter()
    }

    /// The settings.
    #[must_use]
    pub const fn config(&self) -> &Config {
        &self.config
    }

    /// Established connections, closing ones included.
    #[must_use]
    pub fn connections(&self) -> usize {
        self.slots.len()
    }

    /// Half-open handshakes.
    #[must_use]
    pub fn half_open(&self) -> usize {
        self.syns.len()
    }

    /// TIME-WAIT records.
    #[must_use]
    pub const fn time_wait(&self) -> usize {
        self.waits.len()
    }

    /// Bytes held for applications and gaps.
    #[must_use]
    pub const fn receive_memory(&self) -> usize {
        self.budget.total
    }

    /// A connection's figures.
    #[must_use]
    pub fn info(&self, id: ConnId) -> Option<tcp::Info> {
        self.slots.get(id).map(|slot| slot.tcp.info())
    }

    /// At most so many connections from now on, and never more than
    /// [`Config::max_connections`] was: the tables are made for that. Those
    /// beyond that are there stay.
    pub fn set_max_connections(&mut self, connections: usize) {
        self.slots.set_limit(connections);
    }

    /// Congestion control of new connections from now on, and of those that
    /// had no use for it yet: they only ever grew their first window.
    pub const fn set_congestion(&mut self, algorithm: tcp::congestion::Algorithm) {
        self.config.tcp.congestion = algorithm;
    }

    /// Stops accepting: further SYNs are answered as on a closed port.
    pub fn stop_listening(&mut self) {
        self.config.listen.clear();
        self.listener_options.clear();
    }

    /// Accepts connections on a further port.
    pub fn listen(&mut self, port: u16) {
        if !self.config.listen.contains(&port) {
            self.config.listen.push(port);
        }
    }

    /// The ids of all connections, for a view of the whole.
    pub fn connection_ids(&self) -> impl Iterator<Item = ConnId> {
        self.slots.ids()
    }

    /// Puts a connection on the ready list.
    #[inline]
    pub(crate) fn make_ready(&mut self, slot: u32) {
        let connection = &mut self.slots.at_mut(slot).tcp;
        if !connection.is_ready() {
            connection.set_ready(true);
            self.ready.push(slot);
        }
    }

    /// Notes that a connection is over; the application hears of it at the
    /// end of the turn.
    pub(crate) fn note_over(&mut self, id: ConnId, why: Closed) {
        let slot = self.slots.at_mut(id.index() as u32);
        if slot.set_over() {
            self.over.push_back((id, why));
        }
    }

    /// Enters the connection's earliest deadline into the wheel.
    #[inline]
    pub(crate) fn schedule(&mut self, index: u32) {
        Self::enter_deadline(&mut self.wheel, index, self.slots.at_mut(index));
    }

    #[inline]
    pub(crate) fn enter_deadline(wheel: &mut Wheel, index: u32, slot: &mut Slot) {
        let deadline = match (slot.tcp.timer(), slot.app_timer()) {
            (None, None) => return,
            (Some(at), None) | (None, Some(at)) => at,
            (Some(a), Some(b)) => {
                if (a.wrapping_sub(b) as i32) < 0 {
                    a
                } else {
                    b
                }
            }
        };
        wheel.schedule(index, &mut slot.tcp.wheel, deadline);
    }

    /// Runs `with` on a connection, with the context that TCP takes.
    #[inline]
    pub(crate) fn with<R>(
        &mut self,
        index: u32,
        with: impl FnOnce(&mut tcp::Connection, &mut Context<'_>, Path) -> R,
    ) -> R {
        let slot = self.slots.at_mut(index);
        let flow = slot.flow();
        let path = Path { mtu: self.config.mtu, v6: !flow.is_v4() };
        let mut cx = context!(self, &flow);
        with(&mut slot.tcp, &mut cx, path)
    }
}

/// The limit of answers to what belongs to nobody, of one kind.
fn answers(config: &Config, seed: [u64; 2]) -> SourceLimit {
    SourceLimit::per_second(config.errors_per_source, config.errors_per_second, seed)
}

#[cfg(test)]
mod tests;
