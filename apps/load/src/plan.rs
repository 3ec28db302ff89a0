//! What to load, how hard and for how long: the typed form of the command
//! line, and the bytes of the request.

mod http2;

use crate::checks::Check;
use crate::feed::Feed;
use crate::heads::Heads;
use crate::schedule::Arrival;
use crate::template::{Script, Source, TemplateError};
use core::fmt;
use core::net::{IpAddr, SocketAddr};
use core::ops::RangeInclusive;
use core::time::Duration;
use h1::client::RequestHead;
use handshake::Sought;
use serde::Serialize;
use std::sync::Arc;

pub use http2::{CONCURRENT_LIMIT, Http2};

/// Connections that one [`Plan`] may ask of one silo. 16 Mi at 48 bytes are
/// 768 MiB; the data path's own limit is usually lower.
pub const CONNECTIONS_LIMIT: u32 = 1 << 24;

/// Requests that may be under way on one connection.
pub const PIPELINE_LIMIT: u16 = 64;

/// The longest request, head and body, in bytes. It is held once and shared
/// by all connections.
pub const REQUEST_LIMIT: usize = 16 << 20;

/// Different requests of one [`Plan`].
pub const REQUESTS_LIMIT: usize = 65_536;

const _: () = assert!(REQUESTS_LIMIT <= 1 << 16, "a request under way is noted in 16 bits");

/// Redirects that a request may follow.
pub const FOLLOW_LIMIT: u8 = 20;

/// The longest [`Plan::timeout`] and [`Plan::connect_timeout`]; what is longer could not be recorded.
pub const TIMEOUT_LIMIT: Duration = Duration::from_secs(1_000);

/// What a timeout may be.
const TIMEOUTS: RangeInclusive<Duration> = Duration::from_millis(1)..=TIMEOUT_LIMIT;

const _: () = assert!(TIMEOUT_LIMIT.as_nanos() < crate::recorder::LONGEST as u128);

/// A run of the load generator, for one silo.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Where to connect to; connections take them in turn. At least one, all
    /// serving the same thing.
    pub targets: Vec<SocketAddr>,
    /// Local addresses to connect from; connections take them in turn. Empty:
    /// the data path chooses. Each gives some 64,000 ports towards each
    /// target, so a million connections to one target need 16 or more.
    pub sources: Vec<IpAddr>,
    /// Connections held open (keep-alive), or under way at a time (a new
    /// connection per request). Default 64. Memory: 48 bytes each here, and
    /// what the data path needs.
    pub connections: u32,
    /// Connections that carry requests, chosen at random; the others stand
    /// open and idle. `None`: all of them.
    pub active: Option<u32>,
    /// Whether those that are active are chosen anew for each request, so
    /// that all have their turn. Default no.
    pub mix: bool,
    /// What happens to a connection after its response. Default keep-alive.
    pub reuse: Reuse,
    /// HTTP/2 (RFC 9113) in place of HTTP/1.1: by ALPN where connections are secured, else with
    /// prior knowledge. [`Plan::pipeline`] is the number of streams then. Default: none.
    pub http2: Option<Http2>,
    /// Requests under way on each connection. Default 1. Above 1 costs 8
    /// bytes more for each, and each latency includes the wait behind the
    /// responses in front.
    pub pipeline: u16,
    /// What makes the next request due. Default: the response to the last
    /// one, a closed loop.
    pub arrival: Arrival,
    /// What is asked for: one request each time, or one of several, drawn at
    /// random by their weights. At least one, at most 65,536.
    pub requests: Vec<Weighted<Request>>,
    /// Which fields requests carry beside those that are set here, and whether
    /// each connection has values of its own. Default: none. Others than equal
    /// ones are for requests without content.
    pub heads: Heads,
    /// When the measured window ends. Default after 10 s.
    pub stop: Stop,
    /// Time under full load before the measured window. Default 1 s. Too
    /// short counts cold caches and TCP's slow start into the figures.
    pub warm_up: Duration,
    /// Requests that must have ended before the measured window, counted from
    /// the first on. Default 0: the time alone decides. Waited for at most
    /// [`Plan::ramp_limit`] longer than [`Plan::warm_up`], so that a server
    /// that vanishes cannot hold the run.
    pub warm_up_requests: u64,
    /// Time over which the opening of connections is spread evenly. Default
    /// zero: as fast as [`Plan::handshakes`] lets them.
    pub ramp: Duration,
    /// Time given to open the connections, beyond [`Plan::ramp`]; after it
    /// the run goes on with those that are open, and says so. Default 30 s.
    pub ramp_limit: Duration,
    /// A response that takes longer fails, and its connection is ended.
    /// Counted as a timeout and recorded as a latency sample. Default 10 s,
    /// resolution 1 ms.
    pub timeout: Duration,
    /// A connect that takes longer fails; counted as such, and another is
    /// tried. Default 10 s, resolution 1 ms.
    pub connect_timeout: Duration,
    /// Handshakes under way at a time, at most. Default 1,024. Many more
    /// overrun the server's SYN queue and the rings between; few slow the
    /// ramp on links with a long round trip.
    pub handshakes: u32,
    /// What a good response looks like, where the request does not say
    /// otherwise ([`Request::expect`]).
    pub expect: Expect,
    /// Seed of all that is random: the choice of connections and requests,
    /// and the gaps of a Poisson process.
    pub seed: u64,
    /// Whether the parts of each request's time are measured apart, the wait
    /// for the first byte and the whole with its connect, and the server's name
    /// is kept. Default no: it is a look at each response more.
    pub parts: bool,
    /// What connections are secured by before anything is asked on them (HTTPS, RFC 9110
    /// section 4.2.2); `None`: they are not. [`Plan::connect_timeout`] holds for both.
    pub secured: Option<Sought>,
    /// What good responses have beside length and status, where the request does
    /// not say otherwise ([`Request::checks`]).
    pub checks: Arc<[Check]>,
    /// What words in requests are filled in from ([`Request::script`]).
    pub source: Source,
    /// Whether each connection keeps the cookies that it is given, and sends them
    /// back (RFC 6265). At most 50 of 8 KiB in all for each.
    pub cookies: bool,
    /// Redirects that a request follows on the same server; others stand as its
    /// answer. Default 0. The time of a request is that of the whole way.
    pub follow: u8,
    /// Requests whose figures are kept apart, the first of them; all others share one
    /// row. `None`: no rows. Each takes 254 KB for its latencies, of which pages
    /// without samples are no memory.
    pub url_rows: Option<usize>,
    /// Which part of the run this is, of how many ([`Plan::share`]).
    pub lane: (u32, u32),
    /// Whether the load begins at a time that is set from outside, once the connections are open
    /// ([`crate::Live::start_at`]): until then they stand open, and nothing is asked. Default no. Over
    /// HTTP/1.1 alone.
    pub held: bool,
}

impl Plan {
    /// A plan with the defaults, for `request` to `target`.
    #[must_use]
    pub fn new(target: SocketAddr, request: Request) -> Self {
        Self {
            targets: vec![target],
            sources: Vec::new(),
            connections: 64,
            active: None,
            mix: false,
            reuse: Reuse::KeepAlive,
            http2: None,
            pipeline: 1,
            arrival: Arrival::Closed,
            requests: vec![Weighted { weight: 1, item: request }],
            heads: Heads::Equal,
            stop: Stop::After(Duration::from_secs(10)),
            warm_up: Duration::from_secs(1),
            warm_up_requests: 0,
            ramp: Duration::ZERO,
            ramp_limit: Duration::from_secs(30),
            timeout: Duration::from_secs(10),
            connect_timeout: Duration::from_secs(10),
            handshakes: 1_024,
            expect: Expect::default(),
            seed: 1,
            parts: false,
            secured: None,
            checks: Arc::new([]),
            source: Source::default(),
            cookies: false,
            follow: 0,
            url_rows: None,
            lane: (0, 1),
            held: false,
        }
    }

    /// The first of the requests.
    ///
    /// # Panics
    /// If there is none, which [`Plan::check`] refuses.
    #[must_use]
    pub fn first_request(&self) -> &Request {
        &self.requests[0].item
    }

    /// What good responses to a request have beside length and status.
    #[must_use]
    pub fn checks_of<'a>(&'a self, request: &'a Request) -> &'a [Check] {
        request.checks.as_deref().unwrap_or(&self.checks)
    }

    /// Whether the plan is an open loop.
    #[must_use]
    pub fn is_open(&self) -> bool {
        matches!(self.arrival, Arrival::Open(_))
    }

    /// Whether something is filled in, or looked for in answers.
    fn reads_answers(&self) -> bool {
        self.requests.iter().any(|one| one.item.script.is_some() || !self.checks_of(&one.item).is_empty())
    }

    /// Whether requests are sent before handshakes are over.
    fn sends_early(&self) -> bool {
        self.secured.as_ref().is_some_and(|sought| sought.tls.sends_early())
    }

    /// Whether there is a request for each connection while it is opened, and it is known by then.
    fn can_send_early(&self, active: u32) -> bool {
        let is_written_anew = |one: &Weighted<Request>| one.item.script.is_some();
        let talks = self.follow > 0 || self.cookies || self.requests.iter().any(is_written_anew);
        !self.is_open() && active >= self.connections && !talks
    }

    /// Whether the plan can be run.
    ///
    /// # Errors
    /// The first setting that cannot be, in words for the user.
    pub fn check(&self) -> Result<(), PlanError> {
        let active = self.active.unwrap_or(self.connections);
        let close = self.reuse.per_connection() == Some(1);
        let rules = [
            (self.targets.is_empty(), "no target address"),
            (
                self.connections == 0 || self.connections > CONNECTIONS_LIMIT,
                "connections must be between 1 and 16,777,216 for each silo",
            ),
            (
                active == 0 || active > self.connections,
                "active connections must be between 1 and the number of connections",
            ),
            (
                self.http2.is_none() && !(1..=PIPELINE_LIMIT).contains(&self.pipeline),
                "the pipeline must be between 1 and 64 requests deep",
            ),
            (close && self.pipeline > 1, "a new connection per request cannot be pipelined"),
            (close && active < self.connections, "a new connection per request leaves none idle"),
            (self.pipeline > 1 && active < self.connections, "pipelining needs all connections to be active"),
            (self.is_open() && active < self.connections, "an open loop uses all connections in turn: none stays idle"),
            (self.reuse.per_connection() == Some(0), "a connection carries 1 request or more"),
            (
                self.requests.is_empty() || self.requests.len() > REQUESTS_LIMIT,
                "there must be between 1 and 65,536 different requests",
            ),
            (self.requests.iter().all(|request| request.weight == 0), "one request must have a weight above zero"),
            (
                self.heads != Heads::Equal && self.requests.iter().any(|request| !request.item.body.is_empty()),
                "heads that differ are for requests without content",
            ),
            (self.follow > FOLLOW_LIMIT, "a request follows 20 redirects at most"),
            (
                (self.follow > 0 || self.cookies) && self.pipeline > 1,
                "cookies and redirects need the answer before the next request: they cannot be pipelined",
            ),
            (self.follow > 0 && close, "redirects are followed on the same connection: a new one per request has none"),
            (
                self.heads != Heads::Equal
                    && (self.follow > 0 || self.cookies || self.requests.iter().any(|one| one.item.script.is_some())),
                "heads that differ are for requests without templates, cookies and redirects",
            ),
            (
                self.cookies && self.requests.iter().any(|one| one.item.has_field("Cookie")),
                "cookies are kept, or are a header of the requests: not both",
            ),
            (
                self.sends_early() && !self.can_send_early(active),
                "early data is for a closed loop with all connections active, without templates, cookies and redirects",
            ),
            (self.ramp > TIMEOUT_LIMIT, "the ramp must be at most 1,000 s"),
            (
                self.sources.iter().any(|source| self.targets.iter().any(|to| to.is_ipv4() != source.is_ipv4())),
                "source and target addresses must be of one family",
            ),
            (!TIMEOUTS.contains(&self.timeout), "the timeout must be between 1 ms and 1,000 s"),
            (!TIMEOUTS.contains(&self.connect_timeout), "the connect timeout must be between 1 ms and 1,000 s"),
            (self.handshakes == 0, "handshakes at a time must be 1 or more"),
            (self.stop == Stop::After(Duration::ZERO), "the measured time must be longer than zero"),
            (matches!(self.stop, Stop::Requests { count: 0, .. }), "the number of requests must be 1 or more"),
        ];
        if let Some((_, reason)) = rules.into_iter().find(|(broken, _)| *broken) {
            return Err(PlanError(reason));
        }
        self.check_http2(active, [self.sends_early(), self.reads_answers(), self.reuse.server_closes()])?;
        if let Arrival::Open(schedule) = &self.arrival {
            schedule.check().map_err(PlanError)?;
        }
        self.requests.iter().try_for_each(|request| request.item.bytes(self.reuse).map(drop))
    }

    /// The part of the plan that silo `index` of `silos` runs: connections,
    /// handshakes, rate and requests divided, source addresses dealt out
    /// while there are enough. Silos beyond the number of connections, or of
    /// requests, have no part: `None`.
    #[must_use]
    pub fn share(&self, index: u32, silos: u32) -> Option<Self> {
        // What is divided is divided among those that have a part.
        let requests = if let Stop::Requests { count, .. } = self.stop { count } else { u64::MAX };
        let silos = silos.min(self.connections).min(u32::try_from(requests).unwrap_or(u32::MAX));
        if index >= silos {
            return None;
        }
        let part = |n: u64| {
            let (each, over) = (n / u64::from(silos), n % u64::from(silos));
            each + u64::from(u64::from(index) < over)
        };
        let part32 = |n: u32| part(u64::from(n)) as u32;
        let connections = part32(self.connections);
        let mut plan = self.clone();
        plan.connections = connections;
        plan.active = self.active.map(|n| part32(n).clamp(1, connections));
        plan.handshakes = part32(self.handshakes).max(1);
        // Parts of a part have places, and seeds, that no part of another has.
        let (lane, lanes) = self.lane;
        let ahead = lanes.saturating_mul(index);
        plan.seed = self.seed.wrapping_add(u64::from(ahead));
        plan.lane = (lane.saturating_add(ahead), lanes.saturating_mul(silos));
        plan.warm_up_requests = part(self.warm_up_requests);
        if let Arrival::Open(schedule) = &self.arrival {
            plan.arrival = Arrival::Open(schedule.share(index, silos));
        }
        if let Stop::Requests { count, within } = self.stop {
            plan.stop = Stop::Requests { count: part(count), within };
        }
        if self.sources.len() >= silos as usize {
            let mine = |(n, source): (usize, &IpAddr)| (n % silos as usize == index as usize).then_some(*source);
            plan.sources = self.sources.iter().enumerate().filter_map(mine).collect();
        }
        Some(plan)
    }
}

/// What happens to a connection after its response.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Reuse {
    /// It carries the next request.
    #[default]
    KeepAlive,
    /// A new connection per request. The request says `Connection: close`, so
    /// the server finishes first and keeps the TIME_WAIT (RFC 9293 §3.6); our
    /// port is free at once, and the number of ports does not bound the rate.
    ServerCloses,
    /// A new connection per request. We finish first, after the response, and
    /// keep the TIME_WAIT: the rate is bounded by ports ÷ TIME_WAIT length
    /// unless the data path reuses them (RFC 6191).
    ClientCloses,
    /// It carries this many requests; the last says `Connection: close`, and
    /// another connection takes its place.
    ServerClosesAfter(u32),
    /// It carries this many requests; then we finish, and another connection
    /// takes its place.
    ClientClosesAfter(u32),
}

impl Reuse {
    /// Requests that a connection carries; `None` without a bound.
    #[must_use]
    pub const fn per_connection(self) -> Option<u32> {
        match self {
            Self::KeepAlive => None,
            Self::ServerCloses | Self::ClientCloses => Some(1),
            Self::ServerClosesAfter(n) | Self::ClientClosesAfter(n) => Some(n),
        }
    }

    /// Whether the last request asks the server to close.
    #[must_use]
    pub const fn server_closes(self) -> bool {
        matches!(self, Self::ServerCloses | Self::ServerClosesAfter(_))
    }
}

/// One of several things, drawn at random: each as often as its weight says,
/// relative to the sum of all weights.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Weighted<T> {
    /// Its weight; zero is never drawn.
    pub weight: u32,
    /// The thing.
    pub item: T,
}

/// When the measured window ends.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Stop {
    /// After this time.
    After(Duration),
    /// After this many requests were answered or failed, or after `within`,
    /// so that a server that vanishes cannot hold the run.
    Requests {
        /// Requests in the window.
        count: u64,
        /// The longest time to wait for them.
        within: Duration,
    },
}

/// What a good response looks like. What differs is counted; it is still a
/// response, and its latency counts.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Expect {
    /// The length of the content, in bytes.
    pub length: Option<u64>,
    /// The status code.
    pub status: Option<u16>,
}

/// A request, as the user describes it.
#[derive(Clone, Debug)]
pub struct Request {
    /// The method, such as GET.
    pub method: String,
    /// The request target: path and query (RFC 9112 §3.2.1).
    pub path: String,
    /// The Host field (RFC 9112 §3.2).
    pub host: String,
    /// Further fields, in order. Framing and `Connection` are ours.
    pub headers: Vec<(String, String)>,
    /// The content; with one, Content-Length is sent.
    pub body: Vec<u8>,
    /// What a good response to this request looks like; `None`: as the plan
    /// says for all ([`Plan::expect`]).
    pub expect: Option<Expect>,
    /// What else a good response has; `None`: as the plan says for all
    /// ([`Plan::checks`]).
    pub checks: Option<Arc<[Check]>>,
    /// What of it is written anew each time; `None`: it is the same each time.
    pub script: Option<Arc<Script>>,
}

impl Request {
    /// A GET of `path` from `host`.
    #[must_use]
    pub fn get(host: &str, path: &str) -> Self {
        Self {
            method: "GET".into(),
            path: path.into(),
            host: host.into(),
            headers: Vec::new(),
            body: Vec::new(),
            expect: None,
            checks: None,
            script: None,
        }
    }

    /// Has the words in double braces filled in each time, from `feed` where they say so.
    /// Answers whether there are any.
    ///
    /// # Errors
    /// If a word is not known, its column is not there or has values that could not
    /// stand where they are to, or the request may become longer than it may be.
    pub fn fill(&mut self, feed: Option<&Feed>) -> Result<bool, TemplateError> {
        let script = Script::read((&self.path, &self.headers, &self.body), feed, REQUEST_LIMIT)?;
        self.script = script.map(Arc::new);
        Ok(self.script.is_some())
    }

    /// Whether it has a field of this name, of those that are asked for.
    pub(crate) fn has_field(&self, name: &str) -> bool {
        self.headers.iter().any(|(known, _)| known.eq_ignore_ascii_case(name))
    }

    /// Whether responses carry no content whatever their fields say
    /// (RFC 9110 §9.3.2).
    #[must_use]
    pub fn is_head(&self) -> bool {
        self.method == "HEAD"
    }

    /// The request on the wire, as the first on a connection.
    ///
    /// # Errors
    /// If a part would break out of its place (line breaks, blanks), or sets
    /// what the generator sets itself.
    pub fn bytes(&self, reuse: Reuse) -> Result<Vec<u8>, PlanError> {
        self.encode(reuse.server_closes() && reuse.per_connection() == Some(1))
    }

    /// The request on the wire; with `close`, the last on its connection.
    ///
    /// # Errors
    /// As [`Request::bytes`].
    pub fn encode(&self, close: bool) -> Result<Vec<u8>, PlanError> {
        self.check()?;
        let mut out = Vec::with_capacity(256 + self.body.len());
        let (path, host) = (self.path.as_bytes(), self.host.as_bytes());
        let mut head = RequestHead::new(&mut out, &self.method, path, host);
        for (name, value) in &self.headers {
            head = head.field(name, value.as_bytes());
        }
        if close {
            head = head.close();
        }
        if !self.body.is_empty() {
            head = head.content_length(self.body.len() as u64);
        }
        head.end();
        out.extend_from_slice(&self.body);
        if out.len() > REQUEST_LIMIT {
            return Err(PlanError("the request is longer than 16 MiB"));
        }
        Ok(out)
    }

    fn check(&self) -> Result<(), PlanError> {
        if !is_token(&self.method) || self.method == "CONNECT" {
            return Err(PlanError("the method is not one that can be sent"));
        }
        let visible = |text: &str| text.bytes().all(|b| b.is_ascii_graphic());
        if !self.path.starts_with('/') || !visible(&self.path) {
            return Err(PlanError("the path must start with '/' and have no blanks or bare non-ASCII characters"));
        }
        if self.host.is_empty() || !visible(&self.host) {
            return Err(PlanError("the host must not be empty or have blanks"));
        }
        for (name, value) in &self.headers {
            if !is_token(name) {
                return Err(PlanError("a header name has characters that none may have"));
            }
            if OURS.iter().any(|ours| name.eq_ignore_ascii_case(ours)) {
                return Err(PlanError(
                    "Connection, Content-Length, Transfer-Encoding and Expect are set by the generator, and Host apart",
                ));
            }
            if value.bytes().any(|b| b < b' ' && b != b'\t' || b == 0x7f) {
                return Err(PlanError("a header value has control characters"));
            }
        }
        Ok(())
    }
}

/// Fields that the generator sets itself, or whose meaning it would not heed.
const OURS: [&str; 5] = ["host", "connection", "content-length", "transfer-encoding", "expect"];

/// RFC 9110 §5.6.2.
fn is_token(text: &str) -> bool {
    let tchar = |b: u8| b.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&b);
    !text.is_empty() && text.bytes().all(tchar)
}

/// Why a plan cannot be run: the user's to mend.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PlanError(&'static str);

impl PlanError {
    pub(crate) const fn new(reason: &'static str) -> Self {
        Self(reason)
    }
}

impl fmt::Display for PlanError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }
}

impl core::error::Error for PlanError {}
