//! What peers can make us hold, and how long they may take: every limit named and defaulted.

use app::Prefix;
use core::time::Duration;

/// How a silo numbers its connections: with those of others no number is twice.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ConnectionNumbers {
    /// The first one's.
    pub first: u64,
    /// From one to the next: how many silos there are.
    pub step: u64,
}

impl ConnectionNumbers {
    /// Those of the silo with this index, of so many.
    #[must_use]
    pub const fn of(index: usize, silos: usize) -> Self {
        Self { first: index as u64 + 1, step: if silos == 0 { 1 } else { silos as u64 } }
    }
}

impl Default for ConnectionNumbers {
    fn default() -> Self {
        Self::of(0, 1)
    }
}

/// What is taken of heads, and waited for them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct HeadTerms {
    /// Bounds on a request.
    pub limits: h1::server::RequestLimits,
    /// For a complete head.
    pub timeout: Duration,
}

/// How long a client may take for what belongs to an exchange, or follows it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ExchangeTerms {
    /// Between two arrivals of body bytes.
    pub body: Duration,
    /// Between two advances of its acknowledgements.
    pub send: Duration,
    /// For the next request's first byte.
    pub keep_alive: Duration,
    /// After our FIN, between two arrivals of what nobody reads any more.
    pub linger: Duration,
    /// For all of that.
    pub linger_most: Duration,
    /// Whether that is waited for at all: else what still comes meets a reset, which may take
    /// the end of an answer back.
    pub lingers: bool,
}

/// Upper bounds on what peers can make us hold.
#[derive(Clone, Debug)]
pub struct Limits {
    /// Connections with state here. Default 1,048,576, at most 2^30; 64 bytes of
    /// address space each, touched on use. One more is reset and counted.
    pub connections: usize,
    /// Of these, those that only kernel sockets beside a silo's stack can be, which has a
    /// table of its own: upstreams, mostly. Default none.
    pub beside: usize,
    /// Clients that may have any part of these: proxies, behind which there are many.
    /// Default none.
    pub exempt: Vec<Prefix>,
    /// Bounds on a request: head, fields, body (read and discarded).
    pub http: h1::server::RequestLimits,
    /// Requests answered on one connection; the last carries
    /// `Connection: close`. Default none.
    pub requests_per_connection: Option<u32>,
    /// How old a connection is whose next answer is its last, and says so. Default
    /// none.
    pub connection_age: Option<Duration>,
    /// Bytes queued towards a peer above which its next pipelined request
    /// waits. Default 256 KiB; at least one more than `app::SEND_LOW_WATER`.
    pub unsent_bytes: usize,
    /// Responses being streamed from files at once. Default 16,384.
    /// Above: 503.
    pub streams: usize,
    /// Bytes of streamed chunks held for all connections together, beside
    /// 16 KiB that each stream always has. Default 256 MiB. Half of it is
    /// shared evenly by the streams whose peers took something in the last
    /// second, half by the others, with at most [`Limits::stream_window`] for
    /// each. Where it is used up, what peers have left lying for a second is
    /// taken back; of those for whom that cannot be done, because all of it was
    /// sent, who has taken nothing for 10 s is reset.
    pub stream_bytes: usize,
    /// Bytes queued ahead for one stream. Default 2 MiB: too small caps a
    /// long fat path at window / RTT; too large takes memory.
    pub stream_window: usize,
    /// Paths waiting to be looked up or read, and requests waiting for one of
    /// them. Default 4,096. Above: 503.
    pub waiting: usize,
    /// Log bytes waiting for the writer thread. Default 16 MiB, of which half a
    /// MiB is used where it keeps up. Above, lines are dropped and counted.
    pub log_bytes: usize,
}

/// How long peers may take. Resolution about a millisecond.
#[derive(Clone, Debug)]
pub struct Timeouts {
    /// For heads, bodies, the next request (default 65 s) and the taking of a
    /// response. The last is kept to a sixteenth, and never exceeded, for
    /// responses that fill the queue; one that fits is given up at the latest a
    /// keep-alive time later.
    pub http: h1::server::Timeouts,
    /// From our FIN to the peer's. Default 5 s. Then reset.
    pub linger: Duration,
    /// From the start of a drain to the reset of what is left. Default 30 s.
    pub drain: Duration,
}

impl Limits {
    /// Connections that there may be in the table that clients are in.
    #[must_use]
    pub const fn places(&self) -> usize {
        let places = self.connections.saturating_sub(self.beside);
        if places == 0 { 1 } else { places }
    }

    /// From so many on those who take long give theirs up: seven of eight.
    #[must_use]
    pub const fn crowded_from(&self) -> usize {
        self.places() - self.places() / 8
    }

    /// Takes over what helper threads, and the handlers that they serve, were
    /// started with: all that is about streams, waiting and the log.
    pub const fn keep_helpers(&mut self, now: &Self) {
        (self.streams, self.stream_bytes, self.stream_window) = (now.streams, now.stream_bytes, now.stream_window);
        (self.waiting, self.log_bytes) = (now.waiting, now.log_bytes);
    }

    /// Requests answered on one connection, at least one and at most 2^31.
    #[must_use]
    pub fn most_requests(&self) -> u32 {
        self.requests_per_connection.unwrap_or(u32::MAX).clamp(1, 1 << 31)
    }
}

// A head that the engine accepts is held by the data path until it is whole.
const _: () = assert!(app::HELD_LIMIT > u16::MAX as usize);

impl Default for Limits {
    fn default() -> Self {
        Self {
            connections: 1 << 20,
            beside: 0,
            exempt: Vec::new(),
            http: h1::server::RequestLimits::default(),
            requests_per_connection: None,
            connection_age: None,
            unsent_bytes: 256 << 10,
            streams: 16_384,
            stream_bytes: 256 << 20,
            stream_window: 2 << 20,
            waiting: 4096,
            log_bytes: 16 << 20,
        }
    }
}

impl Default for Timeouts {
    fn default() -> Self {
        Self {
            http: h1::server::Timeouts { keep_alive: Duration::from_secs(65), ..h1::server::Timeouts::default() },
            linger: Duration::from_secs(5),
            drain: Duration::from_secs(30),
        }
    }
}
