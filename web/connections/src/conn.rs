//! What is known of a connection.

use crate::exchanges::Exchange;
use crate::pace::Traffic;
use crate::protocol::CarryingConnection;
use crate::terms::Terms;
use app::ConnId;
use core::time::Duration;
use exchange::{Ending, ExchangeId, ProxiedAddresses};
use h1::server::RequestReader;
use semantics::OwnedRequest;
use wire::Time;

/// A connection's state. One cache line; what only some connections need is
/// behind `more`.
///
/// ```text
///  open, behind a proxy ──► Proxied ──► Ready
///  open, by TLS ──► Handshake ──► Ready; behind a proxy as well
///  open, of another protocol ──► Service
///  Handshake ──► Carrying ──► Closing: what was agreed on is a protocol of many exchanges
///
///                    ┌──── body read ─────┐
///                    ▼                    │
///  open ──► Ready ──► (head) ──► Body ────┤
///            ▲  ▲       │                 ▼
///            │  │       └──────────► (handler) ──► Waiting (for the handler)
///            │  └── keep-alive ───────┘ │             │
///            └── Replying ◄─────────────┴─────────────┤
///                    │                  │             ▼
///                    └──► Closing ◄─────┴───────── Tunnel
/// ```
#[derive(Debug)]
#[repr(align(64))]
pub struct ServedConnection {
    /// Reads requests of HTTP/1.1.
    pub engine: RequestReader,
    /// What only some connections need.
    pub more: Option<Box<More>>,
    /// With the index, its name.
    pub generation: u32,
    /// When what is waited for began: the head's first byte, the last of the
    /// body, the end of the last response.
    pub last: Tick,
    /// Bytes queued so far, modulo 2^32.
    pub queued: u32,
    /// See [`ServedConnection::set_mark`].
    pub mark: u32,
    /// Requests answered, or more than any may answer: [`CLOSE_AFTER_NEXT`].
    pub requests: u32,
    /// What happens to bytes that arrive.
    pub state: State,
    /// [`PARTIAL`] and others.
    pub flags: u8,
    /// What is taken of its client, and waited for.
    pub terms: Terms,
    /// Of the request that is being answered.
    pub ending: Ending,
}

// A million idle connections are to cost the whole server 512 MB.
const _: () = assert!(size_of::<ServedConnection>() == 64);

/// What happens to bytes that arrive.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum State {
    /// There is no connection.
    Vacant,
    /// They are a header of the PROXY protocol, which stands before all requests.
    Proxied,
    /// They are a handshake of TLS, which stands before them, too.
    Handshake,
    /// They are a request's head.
    Ready,
    /// They are a request's body, which is discarded.
    Body,
    /// They wait: the request before them waits for its handler.
    Waiting,
    /// They wait: the reply before them is being sent.
    Replying,
    /// They are the handler's, as they come.
    Tunnel,
    /// They are ignored: the last response is queued, and FIN behind it.
    Closing,
    /// They are a service's, from the first on.
    Service,
    /// They are a protocol's that carries several exchanges at a time.
    Carrying,
}

impl State {
    /// For people.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Vacant => "vacant",
            Self::Proxied => "proxied",
            Self::Handshake => "handshake",
            Self::Ready => "ready",
            Self::Body => "body",
            Self::Waiting => "waiting",
            Self::Replying => "replying",
            Self::Tunnel => "tunnel",
            Self::Closing => "closing",
            Self::Service => "service",
            Self::Carrying => "carrying",
        }
    }
}

/// Some of a head arrived.
pub const PARTIAL: u8 = 1;
/// No request was answered, and the timer stands later than the keep-alive
/// time will.
pub const FIRST: u8 = 2;
/// Requests wait until the peer has taken more of its responses.
pub const PAUSED: u8 = 4;
/// The peer sends no more.
pub const ENDED: u8 = 8;
/// And nothing of what it sent is left to be offered.
pub const DRY: u8 = 32;
/// FIN is queued.
pub const FINISHED: u8 = 64;
/// The timer watches whether bytes are acknowledged; see [`ServedConnection::set_mark`].
pub const MARKED: u8 = 16;

/// Its body comes, and is for the handler.
pub const TAKES_BODY: u8 = 128;

/// Of the number of requests: as many as a connection may answer, whatever it has
/// answered. Its next answer is its last.
const CLOSE_AFTER_NEXT: u32 = 1 << 31;

/// Of a mark, what counts bytes.
const ACKNOWLEDGED: u32 = (1 << 28) - 1;

/// What only some connections need.
#[derive(Debug, Default)]
pub struct More {
    /// The exchange that is under way.
    pub exchange: Exchange,
    /// A request whose body is being discarded.
    pub request: Option<OwnedRequest>,
    /// Bytes of a tunnel's client, modulo 2^32.
    pub tunnelled: u32,
    /// What went both ways by a look at it.
    pub traffic: Option<Traffic>,
    /// What a proxy said of its client: as long as the connection is.
    pub proxied: Option<ProxiedAddresses>,
    /// Its reply is sent in chunks, and the last of them is to come.
    pub chunked: bool,
    /// Nothing but the connection's end tells that of its reply.
    pub until_close: bool,
    /// Its reply will not be whole: a reset says so, behind what is queued. Since when its
    /// client has taken none of that.
    pub cut: Option<Tick>,
    /// Where its protocol carries several exchanges: that, and which they are.
    pub carries: Option<Box<CarryingConnection>>,
}

/// Memory of exchanges that are over, for those that follow.
#[derive(Debug, Default)]
pub struct SpareMore(#[allow(clippy::vec_box, reason = "one is moved to its connection as it is")] Vec<Box<More>>);

impl SpareMore {
    /// How many are kept.
    const MAX: usize = 64;

    fn give(&mut self, mut more: Box<More>) {
        if self.0.len() < Self::MAX {
            *more = More::default();
            self.0.push(more);
        }
    }
}

impl More {
    /// Lets go of all but what a proxy said.
    #[cold]
    #[inline(never)]
    fn clear_but_proxied(&mut self) {
        *self = Self { proxied: self.proxied.take(), ..Self::default() };
    }
}

impl ServedConnection {
    /// There is none.
    #[must_use]
    pub const fn vacant() -> Self {
        Self {
            engine: RequestReader::new(),
            more: None,
            generation: 0,
            last: Tick(0),
            queued: 0,
            mark: 0,
            requests: 0,
            state: State::Vacant,
            flags: 0,
            terms: Terms::FIRST,
            ending: Ending::GOES_ON,
        }
    }

    /// What only some connections need, from now on this one, too.
    pub fn more(&mut self) -> &mut More {
        self.more.get_or_insert_default()
    }

    /// The same, in memory of another that is over, where there is some.
    pub fn more_within(&mut self, spare: &mut SpareMore) -> &mut More {
        self.more.get_or_insert_with(|| spare.0.pop().unwrap_or_default())
    }

    /// Notes bytes acknowledged when the timer was set, modulo 2^28, and how many
    /// looks in a row have found no more: less than 16.
    pub const fn set_mark(&mut self, acknowledged: u32, quiet: u8) {
        self.mark = (quiet as u32) << 28 | acknowledged & ACKNOWLEDGED;
    }

    /// Whether bytes were acknowledged since, and such looks until then; counts where
    /// the timer is [`MARKED`].
    pub const fn marked(&self, acknowledged: u32) -> (bool, u8) {
        ((self.mark ^ acknowledged) & ACKNOWLEDGED != 0, (self.mark >> 28) as u8)
    }

    /// Notes when our FIN was queued, in place of a mark.
    pub const fn set_closing(&mut self, now: Tick) {
        self.mark = now.0;
    }

    /// When that was.
    pub const fn closing(&self) -> Tick {
        Tick(self.mark)
    }

    /// Notes whose it is that speaks something else, in place of a mark.
    pub const fn set_service(&mut self, number: u8) {
        self.mark = number as u32;
    }

    /// The number of the service whose it is, if it is one's.
    pub const fn service(&self) -> Option<usize> {
        if matches!(self.state, State::Service) { Some(self.mark as usize) } else { None }
    }

    /// Lets go of what only a request needed.
    pub fn clear_more(&mut self) {
        match &mut self.more {
            None => {}
            Some(more) if more.proxied.is_some() => more.clear_but_proxied(),
            Some(_) => self.more = None,
        }
    }

    /// The same; its memory is for others.
    pub fn give_more(&mut self, spare: &mut SpareMore) {
        match self.more.take_if(|more| more.proxied.is_none()) {
            Some(more) => spare.give(more),
            None => self.clear_more(),
        }
    }

    /// Whether more of a body is awaited than has come, as far as is known.
    pub fn awaits_body(&self) -> bool {
        self.flags & TAKES_BODY != 0 && self.more.as_ref().is_none_or(|more| !more.exchange.left)
    }

    /// Whether its handler, which says when it reads a body, has not said so of this one.
    pub fn leaves_body(&self) -> bool {
        self.flags & TAKES_BODY != 0 && self.more.as_ref().is_some_and(|more| more.exchange.pace.is_none())
    }

    /// Whether nothing is waited for but more of a body.
    pub fn waits_for_body(&self) -> bool {
        self.awaits_body() && self.more.as_ref().is_some_and(|more| more.exchange.reads)
    }

    /// Whether what comes is the rest of a body whose request was answered.
    pub fn discards(&self) -> bool {
        self.state == State::Body && self.more.as_ref().is_none_or(|more| more.request.is_none())
    }

    /// Whether an exchange is under way.
    pub const fn is_asked(&self) -> bool {
        matches!(self.state, State::Waiting | State::Replying | State::Tunnel)
    }

    /// Whether its handler has time limits of its own.
    pub fn is_patient(&self) -> bool {
        self.more.as_ref().is_some_and(|more| more.exchange.patient)
    }

    /// Whether its reply is sent in chunks.
    pub fn is_chunked(&self) -> bool {
        self.more.as_ref().is_some_and(|more| more.chunked)
    }

    /// Its next answer is its last, as where it has answered as many requests as it may.
    pub const fn close_after_next(&mut self) {
        self.requests |= CLOSE_AFTER_NEXT;
    }

    /// Requests answered.
    pub const fn answered(&self) -> u32 {
        self.requests & !CLOSE_AFTER_NEXT
    }

    /// The exchange that is under way, or where none is, the next one: as the connection with
    /// this index.
    #[inline]
    pub const fn exchange(&self, index: usize) -> ExchangeId {
        // One whose answer was begun is counted.
        let begun = matches!(self.state, State::Replying | State::Tunnel) as u32;
        ExchangeId::of_connection(ConnId::new(index as u32, self.generation), self.answered().wrapping_sub(begun))
    }
}

/// A time to about a millisecond (2^20 ns), modulo 52 days.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Tick(u32);

impl Tick {
    /// Of this time.
    #[inline]
    #[must_use]
    pub const fn of(now: Time) -> Self {
        Self((now.as_nanos() >> SHIFT) as u32)
    }

    /// The time since, to about a millisecond.
    pub const fn passed(self, now: Time) -> Duration {
        Duration::from_nanos((Self::of(now).0.wrapping_sub(self.0) as u64) << SHIFT)
    }

    /// How much of `span`, begun at this tick, is left at `now`: at least one
    /// tick, so that a timer set to it moves on. Never early.
    pub fn left(self, span: Duration, now: Time) -> Option<Duration> {
        // Both ends may be up to a tick off.
        let span = (u64::try_from(span.as_nanos()).unwrap_or(u64::MAX) >> SHIFT).saturating_add(2);
        let passed = u64::from(Self::of(now).0.wrapping_sub(self.0));
        let left = span.checked_sub(passed).filter(|&left| left > 0)?;
        Some(Duration::from_nanos(left.saturating_mul(1 << SHIFT)))
    }
}

const SHIFT: u32 = 20;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_span_is_never_cut_short() {
        for start in [0, 1, 999_999, (1 << 20) - 1, 1 << 20, (1 << 52) - 5] {
            let tick = Tick::of(Time::from_nanos(start));
            let span = Duration::from_millis(100);
            let end = start + span.as_nanos() as u64;
            assert!(tick.left(span, Time::from_nanos(start)).is_some());
            assert!(tick.left(span, Time::from_nanos(end)).is_some(), "not before it is over");
            assert!(tick.left(span, Time::from_nanos(end + (3 << SHIFT))).is_none(), "soon after");
        }
    }
}
