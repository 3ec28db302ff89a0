//! Exchanges of protocols that carry several at a time on a connection: a table of its own, in
//! which each has what is queued for it, its flow, its body, its times and its record.
//!
//! ```text
//!  handler ── reply, begin, body, finish ─► queue of the exchange ─► frames, when the connection
//!          ◄────────── on_room ────────────  takes more: whose is next, is the protocol's choice
//!  handler ◄─────────── on_body ─────────── what its handler left of a body ◄─ frames
//! ```
//!
//! Nothing of a body is with the connection before its protocol chose it, so that what is more
//! urgent overtakes what was queued before. An exchange is over for its handler once that has
//! ended it, and for its protocol once its end was sent; then its entry is free.

use crate::exchanges::Exchange;
use crate::room::Standing;
use app::{Body, ConnId};
use exchange::{ExchangeId, ExchangeSlots, Piece, Priority, ReplyFlow, Stop};
use semantics::Status;
use std::collections::VecDeque;
use wire::Time;

/// All of a silo, by their slots.
#[derive(Debug)]
pub struct CarriedTable {
    slots: ExchangeSlots,
    all: Vec<Option<Box<Carried>>>,
    /// Connections for which something was queued, or taken, since their protocols looked.
    pub(crate) stirred: VecDeque<ConnId>,
    /// Bytes that are lent to connections, all together.
    pub(crate) lent: usize,
}

impl Default for CarriedTable {
    fn default() -> Self {
        Self { slots: ExchangeSlots::carried(), all: Vec::new(), stirred: VecDeque::new(), lent: 0 }
    }
}

/// How far an exchange has come for its handler.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Stage {
    /// Nothing was answered.
    Waiting,
    /// Its reply was begun.
    Replying,
    /// Its handler has ended it: its id names nothing any more.
    Over,
}

/// A head that its protocol is to write.
#[derive(Clone, Copy, Debug)]
pub struct CarriedHead<'a> {
    /// The status: one of an interim reply, behind which others follow, or the final one.
    pub status: Status,
    /// Bytes of the body, if they are told.
    pub length: Option<u64>,
    /// The fields, as [`exchange::FieldLines`] writes them, but for those of all heads.
    pub fields: &'a [u8],
    /// The date of heads.
    pub date: &'a [u8],
    /// They say what answers.
    pub server: bool,
}

/// A head that waits to be sent.
#[derive(Debug)]
pub struct QueuedHead {
    /// Its status.
    pub status: Status,
    /// As its protocol wrote it.
    pub written: Vec<u8>,
    /// Bytes that it has on the wire, with what frames it.
    pub bytes: u32,
    /// What its fields say of its priority, if they do (RFC 9218 section 8).
    pub priority: Option<Box<[u8]>>,
}

#[derive(Debug)]
pub(crate) enum QueuedPiece {
    Bytes(Vec<u8>, usize),
    Body(Body, (u32, u32)),
}

impl QueuedPiece {
    fn len(&self) -> usize {
        match self {
            Self::Bytes(bytes, from) => bytes.len() - from,
            Self::Body(_, (start, end)) => (end - start) as usize,
        }
    }
}

/// How a request's body stands.
#[derive(Debug, Default)]
pub(crate) struct IncomingBody {
    /// More of it is to come.
    pub open: bool,
    /// Its handler takes it; else it is dropped as it comes.
    pub taken: bool,
    /// Its handler wants what it has left.
    pub wanted: bool,
    /// What its handler has left.
    pub held: Vec<u8>,
    /// Bytes that are not held any more, and of which its client was not told.
    pub free: usize,
    /// What came behind it, once it has ended: until its handler was told.
    pub trailers: Option<Vec<u8>>,
    /// Bytes that it may have.
    pub most: u64,
    /// Bytes that have come.
    pub came: u64,
}

/// One of several exchanges of a connection.
#[derive(Debug)]
pub(crate) struct Carried {
    pub conn: ConnId,
    pub priority: Priority,
    pub exchange: Exchange,
    pub stage: Stage,
    pub heads: VecDeque<QueuedHead>,
    pub out: VecDeque<QueuedPiece>,
    /// Bytes of these.
    pub queued: usize,
    /// Those of them that count for [`CarryingConnection::held`]: what came in pieces.
    pub held: usize,
    /// Bytes of its body that its client would take now, those that are queued included.
    pub window: usize,
    pub standing: Standing,
    /// Bytes of the body that its protocol has taken, modulo 2^32.
    pub passed: u32,
    /// All of the body is queued, and this is what follows it.
    pub trailers: Option<Vec<u8>>,
    /// Its protocol has sent its end.
    pub sent_end: bool,
    pub stop: Option<Stop>,
    /// Its client took too long.
    pub late: bool,
    pub body: IncomingBody,
    /// The number of its terms.
    pub terms: u8,
    /// Requests on its connection before it.
    pub requests: u32,
    /// When what is waited for began.
    pub since: Time,
    /// The same, of its body.
    pub body_since: Time,
}

/// What waits for a protocol.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Unsent {
    /// A head.
    pub head: bool,
    /// Bytes of the body, behind that.
    pub body: usize,
    /// Behind these nothing more comes.
    pub ends: bool,
    /// But fields, where it ends.
    pub trails: bool,
    /// In place of the rest the exchange ends so.
    pub stop: Option<Stop>,
    /// Because its client took too long.
    pub late: bool,
    /// Its handler reads the body of its request, of which more is to come.
    pub reads: bool,
}

impl CarriedTable {
    /// One that begins on this connection.
    pub(crate) fn begin(
        &mut self,
        conn: ConnId,
        (priority, requests, window): (Priority, u32, usize),
        now: Time,
    ) -> Option<ExchangeId> {
        let id = self.slots.begin()?;
        let at = self.slots.find(id)?;
        if at >= self.all.len() {
            self.all.resize_with(at + 1, || None);
        }
        self.all[at] = Some(Box::new(Carried {
            conn,
            priority,
            exchange: Exchange { began: Some(now), ..Exchange::default() },
            stage: Stage::Waiting,
            heads: VecDeque::new(),
            out: VecDeque::new(),
            queued: 0,
            held: 0,
            window,
            standing: Standing::ALONE,
            passed: 0,
            trailers: None,
            sent_end: false,
            stop: None,
            late: false,
            body: IncomingBody::default(),
            terms: 0,
            requests,
            since: now,
            body_since: now,
        }));
        Some(id)
    }

    /// The one with this name, whether or not its handler has ended it.
    pub(crate) fn get(&self, id: ExchangeId) -> Option<&Carried> {
        self.all.get(self.slots.find(id)?)?.as_deref()
    }

    /// The same, to be changed.
    pub(crate) fn get_mut(&mut self, id: ExchangeId) -> Option<&mut Carried> {
        self.all.get_mut(self.slots.find(id)?)?.as_deref_mut()
    }

    /// The one with this name, if its handler has not ended it.
    pub(crate) fn under_way(&self, id: ExchangeId) -> Option<&Carried> {
        self.get(id).filter(|one| one.stage != Stage::Over)
    }

    /// It is over on both sides: its entry is free.
    pub(crate) fn remove(&mut self, id: ExchangeId) -> Option<Box<Carried>> {
        let at = self.slots.find(id)?;
        self.slots.end(id);
        self.all.get_mut(at)?.take()
    }

    /// How many there are.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.slots.len()
    }

    /// Whether there is none.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.slots.is_empty()
    }
}

impl Carried {
    /// What waits for its protocol. `reads_all`: whether its handler reads every body.
    pub(crate) fn unsent(&self, reads_all: impl FnOnce() -> bool) -> Unsent {
        let trails = self.trailers.as_ref().is_some_and(|lines| !lines.is_empty());
        let (head, body, ends) = (!self.heads.is_empty(), self.queued, self.trailers.is_some());
        let reads = self.body.open && (self.exchange.reads || reads_all());
        Unsent { head, body, ends, trails, stop: self.stop, late: self.late, reads }
    }

    pub(crate) fn take_head(&mut self) -> Option<QueuedHead> {
        let head = self.heads.pop_front();
        if self.heads.is_empty() {
            // It may be kept for long.
            self.heads = VecDeque::new();
        }
        head
    }

    pub(crate) const fn take_trailers(&mut self) -> Option<Vec<u8>> {
        self.trailers.take()
    }

    /// Gives at most `most` bytes of the body to `send`, in pieces; how many that was.
    pub(crate) fn pass(&mut self, most: usize, mut send: impl FnMut(Piece<'_>)) -> usize {
        let mut left = most;
        while left > 0
            && let Some(piece) = self.out.front_mut()
        {
            let some = piece.len().min(left);
            match piece {
                QueuedPiece::Bytes(bytes, from) => {
                    send(Piece::Bytes(bytes.get(*from..*from + some).unwrap_or_default()));
                    *from += some;
                }
                QueuedPiece::Body(body, (start, _)) => {
                    send(Piece::Body(body, (*start, *start + some as u32)));
                    *start += some as u32;
                }
            }
            if piece.len() == 0 {
                self.out.pop_front();
            }
            left -= some;
        }
        let passed = most - left;
        self.queued -= passed;
        self.passed = self.passed.wrapping_add(passed as u32);
        if self.window != ReplyFlow::UNBOUNDED {
            self.window -= passed.min(self.window);
        }
        passed
    }

    /// Bytes that count for its connection no more since this was asked last.
    pub(crate) fn let_go(&mut self) -> usize {
        let now = self.held.min(self.queued);
        core::mem::replace(&mut self.held, now) - now
    }

    pub(crate) fn push(&mut self, piece: Piece<'_>) -> bool {
        let piece = match piece {
            Piece::Bytes(bytes) => QueuedPiece::Bytes(bytes.to_vec(), 0),
            Piece::Body(body, range) => QueuedPiece::Body(body.clone(), range),
            // It would have to stand between heads of frames.
            Piece::File(..) => return false,
        };
        let length = piece.len();
        if length > 0 {
            self.queued += length;
            self.exchange.sent += length as u64;
            self.out.push_back(piece);
        }
        true
    }

    pub(crate) fn take_back(&mut self, most: usize) -> usize {
        let mut left = most;
        while left > 0
            && let Some(piece) = self.out.back_mut()
        {
            let some = piece.len().min(left);
            match piece {
                QueuedPiece::Bytes(bytes, _) => bytes.truncate(bytes.len() - some),
                QueuedPiece::Body(_, (_, end)) => *end -= some as u32,
            }
            if piece.len() == 0 {
                self.out.pop_back();
            }
            left -= some;
        }
        let taken = most - left;
        self.queued -= taken;
        self.exchange.sent = self.exchange.sent.saturating_sub(taken as u64);
        taken
    }
}
