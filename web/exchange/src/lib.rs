//! One request and its reply, whatever carries it.
//!
//! A *carrier* (HTTP/1.1 today) owns connections, their bytes, their time
//! limits and the access log. A *handler* (files, a fixed response, later a
//! proxy) says what a request is answered with. Neither knows the other: the
//! handler is told of exchanges by [`Handler`], and answers through
//! [`Replies`].
//!
//! ```text
//!  carrier ── on_request ──► handler           one exchange:
//!          ◄── reply ───────                   all of the answer at once, or
//!          ◄── begin, body, body …            a head and its body in pieces,
//!          ── on_room ─────►                   as the peer takes them,
//!          ◄── finish, end ─                   to the end
//!          ── on_gone ─────►                   the client left before
//! ```
//!
//! A request that is not answered within [`Handler::on_request`] waits: its
//! client's next one is not read before it is ended. What a handler has to
//! know of it, it keeps under a number that it leaves with the exchange
//! ([`ExchangeSettings::mark`]).
#![forbid(unsafe_code)]

mod about;
mod asked;
mod body;
mod content;
mod fields;
mod hot;
mod id;
mod index;
mod listeners;
mod names;
mod page;
mod piece;
mod prepared;
mod proxy_protocol;
mod ready;
mod security;
mod settings;
mod upstreams;

pub use about::{About, Gone, LocalAddress, Opening, Priority, Totals, Turn};
pub use asked::Asked;
pub use body::{Bodies, BodyCut, Intake, MethodRules, Refused, RequestBody};
pub use content::{Composed, FileMeta, Meta, Part, compose, is_selected_whole};
pub use fields::FieldLines;
pub use hot::Hot;
pub use id::{EXCHANGE_SLOTS_MAX, ExchangeId, ExchangePlace, ExchangeSlots};
pub use index::{Index, equal as equal_paths};
pub use listeners::{ChooseTls, Http2Terms, HttpOpening, Listeners, Speaks, listener_at};
pub use names::{NameError, Names, lower_name};
pub use page::Page;
pub use piece::{Piece, ReplyEnd, ReplyFlow, Stop};
pub use prepared::{Prepared, ReadySent};
pub use proxy_protocol::{BadProxyHeader, PROXY_HEADER_MAX, PROXY_SIGNATURE, ProxiedAddresses, ProxyHeader, tlv};
pub use ready::{CommonFields, Ending, HeadWriter, JOINED_MAX, Ready};
pub use security::{ChosenTls, ClientSession, ConnectionFault, HandshakeFault, Transport};
pub use settings::ExchangeSettings;
pub use upstreams::{LINGER, UpstreamAddress, UpstreamEvent, UpstreamHandler, UpstreamId, Upstreams};

use app::Wake;
use semantics::date::HttpDate;
use semantics::{Request, Status};
use wire::Time;

/// So many terms of heads there may be, by the numbers that [`HttpOpening::terms`] has.
pub const HEAD_TERMS_MAX: usize = 8;

/// So many terms of exchanges there may be, by the numbers that [`HttpOpening::terms`] and
/// [`ExchangeSettings::terms`] have.
pub const EXCHANGE_TERMS_MAX: usize = 32;

/// A reply's head, but for what is the carrier's to say: date, server, and how
/// the message ends.
#[derive(Clone, Copy, Debug)]
pub struct Reply<'a> {
    /// The status.
    pub status: Status,
    /// Bytes of the body, told as Content-Length; `None` for a status that has
    /// neither (RFC 9110 section 8.6).
    pub length: Option<u64>,
    /// The fields, as [`FieldLines`] writes them.
    pub fields: &'a [u8],
    /// The reason phrase, in place of the status's own, where the protocol has one (RFC 9112
    /// section 4): without control bytes.
    pub reason: Option<&'a [u8]>,
}

/// What a carrier offers to handlers, during a call to one of them.
///
/// Every method ignores (and getters answer with the empty value for) an
/// exchange that is over: a late call is harmless.
pub trait Replies: Upstreams {
    /// The time of this turn.
    fn now(&self) -> Time;

    /// Answers with a whole reply at once, to HEAD with its head: the exchange is over. Bytes of
    /// that head.
    fn reply(&mut self, id: ExchangeId, request: &Request<'_>, reply: &Reply<'_>, body: &[Piece<'_>]) -> u64;

    /// Answers with a 200 response that is ready, or to HEAD with its head:
    /// the exchange is over.
    fn reply_ready(&mut self, id: ExchangeId, request: &Request<'_>, ready: &Ready);

    /// Queues a head; how many bytes that is. Its status says what follows (RFC 9110 section 15):
    ///
    /// - of 101 the connection is the handler's, both ways: what arrives is told by
    ///   [`Handler::on_body`], what is sent goes as it is, until the [end](Replies::end). A carrier
    ///   whose exchanges have no connection to give stops this one;
    /// - of another interim status the next head, where the client knows of such: none is queued
    ///   for one of HTTP/1.0;
    /// - of any other its body, in pieces, which ends so: where [`Replies::finish`] says, unless it
    ///   has a length.
    fn begin(&mut self, id: ExchangeId, request: &Request<'_>, reply: &Reply<'_>, end: ReplyEnd) -> u64;

    /// Queues some of the body; whether it was queued: a file is not, where the data path
    /// does not send files by itself, nor where the reply's length is not known.
    fn body(&mut self, id: ExchangeId, piece: Piece<'_>) -> bool;

    /// Takes back at most `most` bytes from the end of what is queued, as far
    /// as they were never sent; how many that is.
    fn take_back(&mut self, id: ExchangeId, most: usize) -> usize;

    /// All of the body is queued. What ends with the reply may end behind it. A reply whose
    /// length is not known has these fields, as [`FieldLines`] writes them, behind its body, if
    /// its client can take them there.
    fn finish(&mut self, id: ExchangeId, trailers: &[u8]);

    /// Most bytes per second of its reply that leave from now on, evenly: until its end. Returns whether that
    /// begins, as [`app::Net::pace`] has it: not where several exchanges share a connection. Before the reply
    /// begins, or when all that was queued of it has been delivered.
    fn pace(&mut self, id: ExchangeId, rate: u64) -> bool;

    /// The exchange is over: the next request is read. A handler that is not
    /// to have more queued for one peer calls it when nothing is
    /// [unsent](ReplyFlow::unsent).
    fn end(&mut self, id: ExchangeId);

    /// The exchange is over without the end of its reply, and its connection with it.
    fn stop(&mut self, id: ExchangeId, how: Stop);

    /// What [`Handler::on_body`] left of a body is to be offered again.
    ///
    /// With a number the handler reads, from now on, the body of a request of which it has taken
    /// nothing so far: a client that waits for a word has it. Where the handler has left
    /// nothing, its client has so long for the next of it as its terms say. If it ends
    /// otherwise than by [`Handler::on_body_end`], or a chunk would have it longer than
    /// so many bytes, that is told by [`Handler::on_body_cut`]. Of 0 bytes none is read: the body
    /// is longer than it may be, and the reply to come is the last on its connection.
    fn read(&mut self, id: ExchangeId, most: Option<u64>);

    /// Whom the exchange is with, and over what.
    fn about(&self, id: ExchangeId) -> About;

    /// What was said before the first request of its connection.
    fn opening(&self, id: ExchangeId) -> Opening<'_> {
        let _ = id;
        Opening::default()
    }

    /// What was counted so far.
    fn totals(&self) -> Totals;

    /// How far the bytes of its reply, and of its body, have come.
    fn flow(&self, id: ExchangeId) -> ReplyFlow;

    /// Leaves this with an exchange that is not over.
    fn set(&mut self, id: ExchangeId, settings: &ExchangeSettings);

    /// The number that was left with it.
    fn mark(&self, id: ExchangeId) -> Option<u32>;
}

/// When a handler has nothing to do of itself.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Rests {
    /// It may have something at any time.
    Never,
    /// While it says so ([`Handler::is_at_rest`]).
    Sometimes,
    /// It never has: its [`Handler::on_turn`] need not be called.
    Always,
}

/// What a handler is, whatever it is asked: the same until its site is another.
#[derive(Clone, Copy, Debug)]
pub struct HandlerRules {
    /// What it takes of requests. By default no body is for it.
    pub intake: Intake,
    /// When it has nothing to do of itself. By default it may at any time.
    pub rests: Rests,
    /// It is told of what was answered the short way ([`Prepared::on_ready_sent`]). Default no.
    pub notes_ready: bool,
    /// It wants to know how TCP has found clients' paths ([`About::path`]). Default no.
    pub asks_for_paths: bool,
}

impl Default for HandlerRules {
    fn default() -> Self {
        Self { intake: Intake::default(), rests: Rests::Never, notes_ready: false, asks_for_paths: false }
    }
}

/// What answers requests. One value for each silo, which shares nothing.
pub trait Handler: Prepared + UpstreamHandler {
    /// What it is: the default, unless it says so.
    fn rules(&self) -> HandlerRules {
        HandlerRules::default()
    }

    /// A request, and whether its `body` follows: only to a handler that takes
    /// it. Any other's was read and discarded.
    fn on_request<R: Replies>(&mut self, replies: &mut R, id: ExchangeId, request: &Request<'_>, body: RequestBody);

    /// Some of a body, in order. Returns how many bytes were taken, from the
    /// front; the rest is offered again with what arrives next, or after
    /// [`Replies::read`], and closes the receive window meanwhile.
    fn on_body<R: Replies>(&mut self, replies: &mut R, id: ExchangeId, bytes: &[u8]) -> usize {
        let _ = (replies, id);
        bytes.len()
    }

    /// The body is complete. What came behind it (RFC 9110 section 6.5) is lines, as
    /// [`FieldLines`] writes them; of HTTP/1.1 there are none, for what its chunks have behind
    /// them is dropped.
    fn on_body_end<R: Replies>(&mut self, replies: &mut R, id: ExchangeId, trailers: &[u8]) {
        let _ = (replies, id, trailers);
    }

    /// A body that is [read](Replies::read), or may be yet, will not be whole; nothing is answered
    /// yet, and the answer, which may come later, is the last on its connection.
    /// Whether the handler sees to that; else it is told of the exchange's end
    /// ([`Handler::on_gone`]), which the carrier sees to.
    fn on_body_cut<R: Replies>(&mut self, replies: &mut R, id: ExchangeId, why: BodyCut) -> bool {
        let _ = (replies, id, why);
        false
    }

    /// The client of an exchange that waits, or is answered, sends no more: it may have left.
    /// What it sent behind its request is `held`, in bytes.
    fn on_client_end<R: Replies>(&mut self, replies: &mut R, id: ExchangeId, held: usize) {
        let _ = (replies, id, held);
    }

    /// The peer has taken some of what was queued.
    fn on_room<R: Replies>(&mut self, replies: &mut R, id: ExchangeId) {
        let _ = (replies, id);
    }

    /// An exchange that nothing was answered to waits for longer than clients
    /// do. Whether it goes on all the same: if it waits for something else now, it may do
    /// so for as long again. One that neither is answered nor goes on is aborted.
    fn on_late<R: Replies>(&mut self, replies: &mut R, id: ExchangeId) -> bool {
        let _ = (replies, id);
        false
    }

    /// The exchange is over before its end. `mark` was left with it.
    fn on_gone(&mut self, id: ExchangeId, mark: Option<u32>, why: Gone) {
        let _ = (id, mark, why);
    }

    /// Once per turn: take finished work from helper threads.
    fn on_turn<R: Replies>(&mut self, replies: &mut R) -> Wake {
        let _ = replies;
        Wake::Idle
    }

    /// Whether [`Handler::on_turn`] would find nothing to do now, nor anything that is waited
    /// for: it need not be called in this turn. Asked of one that has no connections to
    /// upstreams, and [may rest](Rests::Sometimes).
    #[inline]
    fn is_at_rest(&self) -> bool {
        false
    }

    /// A new unix second began.
    fn on_second(&mut self, second: u64, date: &HttpDate, now: Time) {
        let _ = (second, date, now);
    }

    /// A request behind one that waits and [looks ahead](ExchangeSettings::looks_ahead): what it
    /// will need may be fetched meanwhile. Whether a further one is worth being told.
    fn look_ahead(&mut self, request: &Request<'_>, now: Time) -> bool {
        let _ = (request, now);
        false
    }

    /// What was sent is no request, or none that is taken, or did not come in time:
    /// its exchange is the last of its connection. Whether this handler ends it; else
    /// the carrier does.
    fn on_refused<R: Replies>(&mut self, replies: &mut R, id: ExchangeId, refused: Refused<'_>) -> bool {
        let _ = (replies, id, refused);
        false
    }

    /// A connection ends for what its client said of none of its requests: for a log.
    fn on_fault<R: Replies>(&mut self, replies: &mut R, id: ExchangeId, fault: ConnectionFault<'_>) {
        let _ = (replies, id, fault);
    }

    /// Whether a call since [`Handler::on_turn`] left something that only that does: it is
    /// called once more before anything is waited for.
    fn has_work(&self) -> bool {
        false
    }

    /// Requests that a new one would have to wait behind.
    fn working(&self) -> u32 {
        0
    }
}
