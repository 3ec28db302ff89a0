//! Protocols that carry several exchanges at a time on a connection: what they are told, and what
//! they may ask for.
//!
//! Which speaks on a connection is agreed on in its handshake (ALPN, RFC 7301). A protocol turns
//! bytes into exchanges and back: it knows no handler, and no handler knows it. What handlers answer
//! waits in the [table](crate::CarriedTable); the protocol looks what there is
//! ([`Io::unsent`]) where its connection takes more, and chooses whose bytes are next.

use crate::carried::{CarriedHead, QueuedHead, Unsent};
use crate::counters::Counters;
use crate::limits::HeadTerms;
use crate::room::Standing;
use app::Body;
use core::fmt::Debug;
use core::time::Duration;
use exchange::{CommonFields, ConnectionFault, ExchangeId, Http2Terms, Priority, Ready, RequestBody};
use semantics::{Request, Status};
use wire::Time;

/// What of a connection is its protocol's.
#[derive(Debug)]
pub struct CarryingConnection {
    /// None while it is at work.
    pub(crate) protocol: Option<Box<dyn Multiplexed>>,
    /// Its exchanges, in the order in which they began.
    pub(crate) exchanges: Vec<ExchangeId>,
    /// When some of a body was passed on last.
    pub(crate) passed: Option<Time>,
    /// Bytes that their handlers have queued in pieces, all together.
    pub(crate) held: usize,
    /// Bytes that it holds beyond what any may.
    pub(crate) lent: usize,
    /// It is among those that are to look.
    pub(crate) stirred: bool,
    /// It was told that the connection is to end.
    pub(crate) drained: bool,
    /// So many of its requests, and no more are asked for: what one of them says, whatever others have.
    pub(crate) ends_at: u32,
    /// It is HTTP/2.
    pub(crate) http2: bool,
    /// Writes its heads.
    pub(crate) write_head: WriteHead,
}

/// How a protocol writes a head, on whatever connection.
pub type WriteHead = fn(head: &CarriedHead<'_>) -> QueuedHead;

impl CarryingConnection {
    /// One that this protocol has.
    #[must_use]
    pub fn new(protocol: Box<dyn Multiplexed>) -> Self {
        let (http2, write_head) = (protocol.is_http2(), protocol.head_writer());
        let protocol = Some(protocol);
        Self {
            protocol,
            exchanges: Vec::new(),
            passed: None,
            held: 0,
            lent: 0,
            stirred: false,
            drained: false,
            ends_at: u32::MAX,
            http2,
            write_head,
        }
    }
}

/// What a protocol begins with.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CarriedTerms {
    /// What is taken of heads, and waited for them.
    pub head: HeadTerms,
    /// What HTTP/2 has by its listener.
    pub http2: Http2Terms,
}

/// A protocol that carries several exchanges at a time, and what it knows of one connection.
pub trait Multiplexed: Debug {
    /// Whether it is HTTP/2.
    fn is_http2(&self) -> bool {
        false
    }

    /// What writes heads, as soon as they are answered: how long they are, their handlers are told.
    fn head_writer(&self) -> WriteHead;

    /// The connection is its own from now on.
    fn on_open(&mut self, io: &mut dyn Io) {
        let _ = io;
    }

    /// Bytes arrived, in order. Returns how many were taken, from the front; the rest is offered
    /// again with what follows.
    fn on_bytes(&mut self, io: &mut dyn Io, bytes: &[u8]) -> usize;

    /// There may be something to be sent, and room for it ([`Io::room`]): among several exchanges, what is sent next is
    /// chosen here, and nowhere else.
    fn on_room(&mut self, io: &mut dyn Io);

    /// Its client sends no more, and `held` bytes of what it sent were not taken.
    fn on_end(&mut self, io: &mut dyn Io, held: usize);

    /// Exchanges that took too long were ended; what else has a time limit is looked at.
    fn on_timer(&mut self, io: &mut dyn Io) {
        let _ = io;
    }

    /// Its connection is gone; its exchanges are given up behind this.
    fn on_gone(&mut self, io: &mut dyn Io) {
        let _ = io;
    }

    /// No exchange is to begin any more: its client is told. The connection is closed
    /// ([`Io::close`]) once those that have begun are over. Told again where it is closed at once.
    fn drain(&mut self, io: &mut dyn Io);
}

/// What a protocol may ask for, while it is told of a connection.
pub trait Io {
    /// The time of this turn.
    fn now(&self) -> Time;

    /// What all heads have.
    fn common(&self) -> CommonFields;

    /// Bytes that the connection takes now.
    fn room(&self) -> usize;

    /// Queues bytes of the protocol's own: heads of frames, whole frames.
    fn send(&mut self, bytes: &[u8]);

    /// Queues some of a shared body: of what was [prepared](Io::prepared).
    fn send_body(&mut self, body: &Body, range: (u32, u32));

    /// Nothing follows what is queued; exchanges that are not over are given up.
    fn close(&mut self);

    /// Its client breaks the protocol: behind what is queued nothing follows, and that is counted and told.
    fn fail(&mut self, why: ConnectionFault<'_>);

    /// One more of what is counted here.
    fn count(&mut self, which: fn(&mut Counters) -> &mut u64);

    /// What its client sent is no request: an exchange that is answered with this status. `line` is
    /// its first line, as far as there is one. None where there are too many.
    fn refuse(&mut self, status: Status, line: &[u8]) -> Option<ExchangeId>;

    /// A request that its client sent, as its next exchange: its handler is told. It has a priority, and
    /// its client takes so many bytes of the answer's body now ([`Io::look`]); of a protocol that does
    /// not tell, [`exchange::ReplyFlow::UNBOUNDED`]. None where there are too many.
    fn begin(&mut self, of: (Priority, usize), request: &Request<'_>, body: RequestBody) -> Option<ExchangeId>;

    /// So many bytes of its answer's body would be taken now if they were queued, and so it stands among
    /// the others: its handler queues no more than that, and is told where there was no room and is
    /// some. What [was freed](Io::freed) of its request's body, and what of it waits to be sent: all in one, for each
    /// stream of a connection is looked at so.
    fn look(&mut self, id: ExchangeId, bytes: usize, standing: Standing) -> (usize, Unsent);

    /// What is ready for this request, which begins no exchange then: `write` makes its head of it, and
    /// says how long that is; its content is told. Nothing where the log or the handler is told of each
    /// request.
    fn prepared(&mut self, request: &Request<'_>, write: &mut dyn FnMut(&Ready) -> usize)
    -> Option<(Body, (u32, u32))>;

    /// Bytes of a request's body came.
    fn body(&mut self, id: ExchangeId, bytes: &[u8]);

    /// It is complete, and these fields came behind it, as [`exchange::FieldLines`] writes them.
    fn body_end(&mut self, id: ExchangeId, trailers: &[u8]);

    /// It is not as long as was told, or what came behind it may not be: nothing more of it is told.
    fn body_malformed(&mut self, id: ExchangeId);

    /// Bytes of a body that are not held any more since this was asked last: its client may send as
    /// many.
    fn freed(&mut self, id: ExchangeId) -> usize;

    /// Its client wants no more of it.
    fn reset(&mut self, id: ExchangeId);

    /// Its client sends no more, and its window has so many bytes: whether its answer comes all the same. It does not
    /// where somebody else is asked for that, more of the request is waited for, or the window would have to open.
    fn outlives_client(&self, id: ExchangeId, window: usize) -> bool;

    /// Its client wants no more of a request that has not begun for so long, or of whose head not all has
    /// come: the log is told, and nobody answered.
    fn note_left(&mut self, what: (Status, Duration), request: &Request<'_>);

    /// Bytes that the silo would lend the connection now: connections may hold what they need beyond what
    /// each of them may, as long as all of these together hold no more than the silo has for that.
    fn lendable(&self) -> usize;

    /// So many are lent to it, all together.
    fn lend(&mut self, bytes: usize);

    /// Its client finds it as urgent as this now.
    fn set_priority(&mut self, id: ExchangeId, priority: Priority);

    /// What of it waits to be sent.
    fn unsent(&self, id: ExchangeId) -> Unsent;

    /// The head that is to be sent next.
    fn take_head(&mut self, id: ExchangeId) -> Option<QueuedHead>;

    /// Has at most `most` bytes of its body sent; how many that is. Its handler may queue more then.
    fn pass(&mut self, id: ExchangeId, most: usize) -> usize;

    /// What follows its body, which was all sent, as that was told: it is over for the protocol. Its
    /// handler may end it later.
    fn end(&mut self, id: ExchangeId) -> Vec<u8>;
}
