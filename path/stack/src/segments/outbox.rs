//! What waits to be sent: connections for their turn or for a neighbour,
//! replies and resets for a transmit slot.

use super::build::Reply;
use crate::flow::Flow;
use crate::ip::NeighbourId;
use app::ConnId;
use std::collections::VecDeque;
use tcp::Info;
use wire::Mac;
use wire::tcp::Timestamps;

/// Replies that wait for a slot; more are dropped and counted. As many as fit
/// into a large transmit ring.
pub(crate) const MAX_PENDING: usize = 1024;

/// Resets waiting for transmit slots; more are not sent, and the peer finds
/// out by its own next segment.
const MAX_RESETS: usize = 1024;

/// A reply that found no slot. What it belongs to says whether it is still
/// owed.
#[derive(Clone, Copy, Debug)]
pub(super) enum Pending {
    /// The SYN,ACK of a SYN queue entry.
    SynAck(u32),
    /// The acknowledgement of a TIME-WAIT record, to this address.
    TimeWait(u32, Mac),
}

/// A reset for a connection that the application aborted, waiting for a slot.
#[derive(Clone, Copy, Debug)]
pub(super) struct PendingReset {
    pub flow: Flow,
    pub neighbour: NeighbourId,
    reply: Reply,
    /// TS.Recent, if timestamps were agreed on.
    echo: Option<u32>,
    pub traffic_class: u8,
}

impl PendingReset {
    /// For a connection that stood so.
    pub fn new(flow: Flow, neighbour: NeighbourId, info: &Info, traffic_class: u8) -> Self {
        let reply = Reply::reset(info.nxt, Some(info.rcv_nxt));
        // RFC 7323 section 3.2: a reset too should carry the timestamps that
        // were agreed on.
        Self { flow, neighbour, reply, echo: info.timestamps.then_some(info.ts_recent), traffic_class }
    }

    /// What is sent, at this time of the flow's timestamp clock.
    pub fn reply(&self, value: u32) -> Reply {
        let mut reply = self.reply;
        reply.options.timestamps = self.echo.map(|echo| Timestamps { value, echo });
        reply
    }
}

/// What waits to be sent.
#[derive(Debug)]
pub(super) struct Outbox {
    /// Connections with something to send, each once.
    pub ready: Vec<u32>,
    /// Those whose turn it is; empty between turns.
    turn: Vec<u32>,
    /// Connections that wait for a neighbour whose queue is full.
    unresolved: Vec<ConnId>,
    /// Resets for connections that the application aborted.
    resets: VecDeque<PendingReset>,
    /// Replies without a connection that wait for a transmit slot.
    pending: VecDeque<Pending>,
}

impl Outbox {
    pub fn new() -> Self {
        Self {
            ready: Vec::with_capacity(1024),
            turn: Vec::with_capacity(1024),
            unresolved: Vec::new(),
            resets: VecDeque::new(),
            pending: VecDeque::new(),
        }
    }

    /// Where the lists are.
    pub fn memory(&self, each: &mut dyn FnMut(core::ops::Range<usize>)) {
        each(crate::memory::reserved(&self.ready));
        each(crate::memory::reserved(&self.turn));
    }

    /// Whether nothing waits that a slot would help.
    #[inline(always)]
    pub fn is_empty(&self) -> bool {
        self.ready.is_empty() && self.pending.is_empty() && self.resets.is_empty()
    }

    /// Takes those that are ready: it is their turn. They come back by
    /// [`Outbox::end_turn`].
    #[inline(always)]
    pub fn begin_turn(&mut self) -> Vec<u32> {
        let mut turn = core::mem::take(&mut self.turn);
        core::mem::swap(&mut turn, &mut self.ready);
        turn
    }

    /// So many of them had their turn. Those that want more than their share
    /// stand behind those that wait.
    #[inline(always)]
    pub fn end_turn(&mut self, mut turn: Vec<u32>, done: usize) {
        if done < turn.len() {
            turn.drain(..done);
            turn.append(&mut self.ready);
            core::mem::swap(&mut turn, &mut self.ready);
        }
        turn.clear();
        self.turn = turn;
    }

    /// A connection waits for its neighbour's queue.
    pub fn await_neighbour(&mut self, id: ConnId) {
        self.unresolved.push(id);
    }

    /// Whether it does.
    pub fn awaits_neighbour(&self, id: ConnId) -> bool {
        self.unresolved.contains(&id)
    }

    /// The next of those; some neighbour has answered, or will not.
    pub fn pop_unresolved(&mut self) -> Option<ConnId> {
        self.unresolved.pop()
    }

    /// Whether resets wait.
    #[inline(always)]
    pub fn has_resets(&self) -> bool {
        !self.resets.is_empty()
    }

    /// Has a reset sent, if not too many wait.
    pub fn push_reset(&mut self, reset: PendingReset) {
        if self.resets.len() < MAX_RESETS {
            self.resets.push_back(reset);
        }
    }

    /// The next reset.
    pub fn pop_reset(&mut self) -> Option<PendingReset> {
        self.resets.pop_front()
    }

    /// Replies that wait.
    #[inline(always)]
    pub fn pending(&self) -> usize {
        self.pending.len()
    }

    /// Whether one more reply may wait.
    pub fn has_room(&self) -> bool {
        self.pending.len() < MAX_PENDING
    }

    /// Has a reply wait.
    pub fn push_pending(&mut self, reply: Pending) {
        self.pending.push_back(reply);
    }

    /// The next reply.
    pub fn pop_pending(&mut self) -> Option<Pending> {
        self.pending.pop_front()
    }
}
