//! What a client sends, and what becomes of its connection.

use crate::heads::{self, KnownBlocks};
use crate::scratch::{self, Scratch};
use app::Body;
use connections::{CarriedTerms, Counters, Io, Multiplexed, WriteHead};
use core::fmt;
use core::time::Duration;
use exchange::{ConnectionFault, ExchangeId, Priority, RequestBody};
use h2::frame::{self, Kind, MAX_STREAM};
use h2::{ErrorCode, Failure, Flood, HeadLimits, Offer, ServerConnection, ServerEvent, ServerSettings, StreamPriority};
use semantics::{Known, Method, Offsets, OwnedRequest, Request, Status};
use wire::Time;

/// A connection.
#[derive(Debug)]
pub(crate) struct Http2 {
    /// None before it is told that the connection is its own.
    pub connection: Option<Box<ServerConnection<Source>>>,
    pub terms: CarriedTerms,
    /// Counts frames of bodies: who is useful in parts takes turns.
    pub served: u32,
    /// Since when a head has come in part.
    head_since: Option<Time>,
    /// Bytes that are lent for stalled exchanges.
    lent: usize,
    /// Those, and bytes of heads, as their silo was told of them.
    told_lent: usize,
    drain: Draining,
    /// Its client sends no more.
    ended: bool,
    /// What its client did, for which it ends.
    broken: Option<Broken>,
}

/// How a client breaks its connection.
#[derive(Clone, Copy, Debug)]
enum Broken {
    /// By what its frames are.
    Frames(Failure),
    /// It leaves within a frame.
    Cut,
}

impl Broken {
    /// Told to a log.
    fn tell(self, io: &mut dyn Io) {
        let mut say = |why: fmt::Arguments<'_>| io.fail(ConnectionFault::Protocol("HTTP/2", why));
        match self {
            Self::Frames(Failure { flood: Some(flood), .. }) => {
                say(format_args!("http2 flood detected: {}", flood.name()));
            }
            Self::Frames(Failure { code, flood: None }) => say(format_args!("client broke HTTP/2 ({})", code.name())),
            Self::Cut => say(format_args!("client prematurely closed connection")),
        }
    }
}

/// What is lent to look at what a client sent.
struct Lent<'a> {
    out: &'a mut Vec<u8>,
    block: &'a mut Vec<u8>,
    known: &'a mut KnownBlocks,
}

/// What a stream has to send.
#[derive(Debug, Default)]
pub(crate) enum Source {
    /// Nothing yet.
    #[default]
    None,
    /// What the handler of an exchange answers.
    Exchange(ExchangeId),
    /// The same, of what is no request: behind its answer the stream is reset, and that says why.
    Refused(ExchangeId, ErrorCode),
    /// The rest of a body that was ready.
    Prepared { content: Body, left: (u32, u32) },
    /// A request without a body that begins later: its client takes nothing of what it was answered before,
    /// and nothing is lent for more of that.
    Parked(Box<(OwnedRequest, Time)>),
}

impl Source {
    pub const fn exchange(&self) -> Option<ExchangeId> {
        match self {
            Self::Exchange(id) | Self::Refused(id, _) => Some(*id),
            Self::None | Self::Prepared { .. } | Self::Parked(_) => None,
        }
    }

    const fn is_parked(&self) -> bool {
        matches!(self, Self::Parked(_))
    }

    fn is_likely_empty(&self) -> bool {
        matches!(self, Self::Parked(parked) if is_conditional(&parked.0.get()))
    }
}

/// Exchanges of a connection that are under way while their clients take nothing of their answers: those
/// beyond have what they hold lent by their silo, each so many bytes.
const STALLED_MAX: usize = 8;
const STALLED_BYTES: usize = 6 << 10;

/// A window of fewer bytes is as good as none: what it has room for is soon sent, and all that a stalled exchange holds
/// stays.
const OPEN_FROM: usize = 512;

/// What the log says of a request whose client left, as nginx has it.
const CLIENT_LEFT: Status = match Status::from_code(499) {
    Some(status) => status,
    None => Status::BAD_REQUEST,
};

/// How far the end of a connection is (RFC 9113 section 6.8).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Draining {
    No,
    /// Its client was told that an end is near, at this time, and sent a PING before that.
    Near(Time),
    /// And which stream was the last.
    Last,
}

/// So long a client may take to answer that PING.
const PONG: Duration = Duration::from_secs(1);

/// What a connection of HTTP/2 begins with.
#[must_use]
pub fn begin(terms: CarriedTerms) -> Box<dyn Multiplexed> {
    Box::new(Http2 {
        connection: None,
        terms,
        served: 0,
        head_since: None,
        lent: 0,
        told_lent: 0,
        drain: Draining::No,
        ended: false,
        broken: None,
    })
}

impl Http2 {
    fn settings(&self) -> ServerSettings {
        let limits = self.terms.head.limits;
        ServerSettings {
            streams: self.terms.http2.streams,
            window: self.terms.http2.window,
            head: HeadLimits { line: limits.request_line, bytes: limits.head, fields: limits.fields },
        }
    }

    fn on_event(&mut self, io: &mut dyn Io, event: ServerEvent<'_, Source>, rest: Lent<'_>) {
        let Lent { out, block, known } = rest;
        match event {
            ServerEvent::Nothing => {}
            ServerEvent::Request { stream, request, length, ends } => {
                self.on_request(io, stream, (&request, length, ends), Lent { out, block, known });
            }
            ServerEvent::Refused { stream, status, line } => self.on_refused(io, stream, (status, line), out),
            ServerEvent::Body { stream, bytes, ends } => {
                if let Some(id) = self.exchange(stream) {
                    if !bytes.is_empty() {
                        io.body(id, bytes);
                    }
                    if ends {
                        io.body_end(id, b"");
                    }
                } else if let Some(connection) = &mut self.connection {
                    // Nobody reads it.
                    connection.give_back(stream, bytes.len(), out);
                }
            }
            ServerEvent::Trailers { stream, lines } => {
                if let Some(id) = self.exchange(stream) {
                    io.body_end(id, lines);
                }
            }
            ServerEvent::Malformed { stream } => self.on_malformed(io, stream, out),
            ServerEvent::Reset(Source::Parked(parked)) => note_left(io, &parked),
            ServerEvent::Reset(source) => {
                if let Some(id) = source.exchange() {
                    io.reset(id);
                }
            }
            ServerEvent::Prioritized { stream } => {
                let stream = self.connection.as_deref().and_then(|connection| connection.get(stream));
                if let Some(stream) = stream
                    && let Some(id) = stream.data.exchange()
                {
                    io.set_priority(id, told(stream.priority));
                }
            }
            ServerEvent::Ponged => self.say_last(out),
            ServerEvent::Failed(failure) => {
                self.broken = Some(Broken::Frames(failure));
                if let Some(flood) = failure.flood {
                    io.count(counted(flood));
                }
            }
        }
    }

    fn exchange(&self, stream: u32) -> Option<ExchangeId> {
        self.connection.as_deref()?.get(stream)?.data.exchange()
    }

    fn on_request(
        &mut self,
        io: &mut dyn Io,
        number: u32,
        (request, length, ends): (&Request<'_>, Option<u64>, bool),
        Lent { out, block, known }: Lent<'_>,
    ) {
        if ends {
            let server = io.common().server;
            let found = io.prepared(request, &mut |ready| known.write(block, ready, server));
            if let Some((content, left)) = found {
                if self.send_at_once(io, (number, block), (&content, left), out) {
                    return;
                }
                let Some(connection) = &mut self.connection else { return };
                connection.send_block(number, block, left.0 == left.1, out);
                connection.forget_head(number);
                if let Some(stream) = connection.get_mut(number) {
                    stream.data = Source::Prepared { content, left };
                }
                return;
            }
        }
        let Some(connection) = &mut self.connection else { return };
        // No window is waited for to send a head.
        let is_shut = request.method() != Method::Head && connection.room(number) < OPEN_FROM;
        if is_shut && !self.may_stall(io, number, is_conditional(request)) {
            return self.put_off(io, number, (request, ends), out);
        }
        let body = match length {
            _ if ends => RequestBody::None,
            Some(length) => RequestBody::Length(length),
            None => RequestBody::Unknown,
        };
        self.begin(io, number, (request, body), out);
    }

    /// A request that may not begin yet waits as a head. What comes of a body would have to be kept as well: one with a
    /// body may be sent again (RFC 9113 section 8.7).
    #[cold]
    fn put_off(&mut self, io: &dyn Io, number: u32, (request, ends): (&Request<'_>, bool), out: &mut Vec<u8>) {
        let Some(connection) = &mut self.connection else { return };
        match connection.get_mut(number).filter(|_| ends) {
            Some(stream) => stream.data = Source::Parked(Box::new(((*request).into(), io.now()))),
            None => connection.reset(number, ErrorCode::REFUSED_STREAM, out),
        }
    }

    fn begin(&mut self, io: &mut dyn Io, number: u32, (request, body): (&Request<'_>, RequestBody), out: &mut Vec<u8>) {
        let Some(connection) = &mut self.connection else { return };
        let priority = connection.get(number).map_or_else(Priority::default, |stream| told(stream.priority));
        match io.begin((priority, connection.room(number)), request, body) {
            Some(id) => {
                if let Some(stream) = connection.get_mut(number) {
                    stream.data = Source::Exchange(id);
                }
            }
            None => connection.reset(number, ErrorCode::REFUSED_STREAM, out),
        }
    }

    /// Exchanges beside that of a stream whose client takes nothing of their answers.
    fn stalled(&self, number: u32) -> usize {
        let Some(connection) = self.connection.as_deref() else { return 0 };
        let streams = connection.streams().iter().enumerate().filter(|(_, one)| one.number != number);
        streams.filter(|(at, one)| one.data.exchange().is_some() && connection.window_at(*at).0 < OPEN_FROM).count()
    }

    /// Whether one more exchange may be under way whose client takes nothing of its answer: what it holds
    /// may have to be lent. One has a place beside the others that is `likely_empty`: if it is, the next has it.
    fn may_stall(&mut self, io: &mut dyn Io, number: u32, likely_empty: bool) -> bool {
        let most = STALLED_MAX + usize::from(likely_empty);
        let beyond = (self.stalled(number) + 1).saturating_sub(most) * STALLED_BYTES;
        if beyond > self.lent {
            if beyond - self.lent > io.lendable() {
                return false;
            }
            self.lent = beyond;
            self.lend(io);
        }
        true
    }

    /// Has the silo know what is lent.
    fn lend(&mut self, io: &mut dyn Io) {
        let heads = self.connection.as_deref().map_or(0, ServerConnection::heads_beyond);
        let all = self.lent + heads as usize;
        if all != self.told_lent {
            self.told_lent = all;
            io.lend(all);
        }
    }

    /// What is lent, and needed no more, is given back.
    fn give_back_lent(&mut self, io: &mut dyn Io) {
        if self.lent > 0 {
            // There is no stream 0.
            self.lent = self.lent.min(self.stalled(0).saturating_sub(STALLED_MAX) * STALLED_BYTES);
        }
        self.lend(io);
    }

    /// Requests that waited for a window begin, as far as there is one, or fewer wait so than may.
    /// Whether one did.
    fn begin_parked(&mut self, io: &mut dyn Io, out: &mut Vec<u8>) -> bool {
        let mut begun = false;
        while let Some(number) = self.next_parked(io) {
            let Some(stream) = self.connection.as_deref_mut().and_then(|connection| connection.get_mut(number)) else {
                break;
            };
            let Source::Parked(parked) = core::mem::take(&mut stream.data) else { break };
            self.begin(io, number, (&parked.0.get(), RequestBody::None), out);
            begun = true;
        }
        begun
    }

    /// Sends what there is. Where that ended a stream, a request that waited for its place begins.
    fn go_on(&mut self, io: &mut dyn Io, scratch: &mut Scratch) {
        self.begin_parked(io, &mut scratch.out);
        self.send(io, scratch);
        self.give_back_lent(io);
        if self.begin_parked(io, &mut scratch.out) {
            self.send(io, scratch);
            self.give_back_lent(io);
        }
    }

    fn next_parked(&mut self, io: &mut dyn Io) -> Option<u32> {
        let connection = self.connection.as_deref()?;
        let parked = || connection.streams().iter().filter(|one| one.data.is_parked());
        let first = parked().next()?.number;
        if let Some(open) = parked().find(|one| connection.room(one.number) >= OPEN_FROM) {
            return Some(open.number);
        }
        let likely_empty = parked().find(|one| one.data.is_likely_empty()).map(|one| one.number);
        if self.may_stall(io, first, false) {
            return Some(first);
        }
        likely_empty.filter(|number| self.may_stall(io, *number, true))
    }

    /// What is no request is answered all the same, and its stream reset behind the answer
    /// (RFC 9113 section 8.1.1).
    fn on_refused(&mut self, io: &mut dyn Io, number: u32, (status, line): (Status, &[u8]), out: &mut Vec<u8>) {
        let code = if status == Status::BAD_REQUEST { ErrorCode::PROTOCOL_ERROR } else { ErrorCode::NO_ERROR };
        let id = io.refuse(status, line);
        let Some(connection) = &mut self.connection else { return };
        match (id, connection.get_mut(number)) {
            (Some(id), Some(stream)) => stream.data = Source::Refused(id, code),
            _ => connection.reset(number, code, out),
        }
    }

    /// What came behind a head is none of a request: as where the head is none (RFC 9113 section 8.1.1).
    fn on_malformed(&mut self, io: &mut dyn Io, number: u32, out: &mut Vec<u8>) {
        let Some(connection) = &mut self.connection else { return };
        let stream = connection.get_mut(number);
        match stream.and_then(|stream| Some((stream.data.exchange()?, stream))) {
            Some((id, stream)) => {
                stream.data = Source::Refused(id, ErrorCode::PROTOCOL_ERROR);
                io.body_malformed(id);
            }
            None => connection.reset(number, ErrorCode::PROTOCOL_ERROR, out),
        }
    }

    /// Its client is told which of its streams was the last.
    fn say_last(&mut self, out: &mut Vec<u8>) {
        if let (Draining::Near(_), Some(connection)) = (self.drain, &mut self.connection) {
            self.drain = Draining::Last;
            let last = connection.close();
            frame::write_go_away(out, last, ErrorCode::NO_ERROR);
        }
    }

    /// Requests that have not begun, or whose heads are not whole, will not: the log is told.
    fn note_cut(&mut self, io: &mut dyn Io) {
        let Some(connection) = self.connection.as_deref_mut() else { return };
        let parked: Vec<u32> =
            connection.streams().iter().filter(|one| one.data.is_parked()).map(|one| one.number).collect();
        for number in parked {
            let source = connection.get_mut(number).map(|stream| core::mem::take(&mut stream.data));
            if let Some(Source::Parked(parked)) = source {
                note_left(io, &parked);
            }
        }
        if connection.is_within_head() {
            let waited = self.head_since.map_or(Duration::ZERO, |since| io.now().since(since));
            io.note_left((Status::BAD_REQUEST, waited), &Request::new(b"\r\n\r\n", Offsets::of_line(b"")));
        }
    }

    /// Its client sends no more, no window either: streams that would have to wait for that are over.
    fn give_up_idle(&mut self, io: &mut dyn Io) {
        let Some(connection) = self.connection.as_deref_mut() else { return };
        let goes_on = |stream: &h2::Stream<Source>, io: &dyn Io| match &stream.data {
            Source::Exchange(id) | Source::Refused(id, _) => io.outlives_client(*id, connection.room(stream.number)),
            Source::Prepared { .. } => connection.room(stream.number) > 0,
            Source::None | Source::Parked(_) => false,
        };
        let streams = connection.streams().iter().filter(|stream| !goes_on(stream, io));
        let over: Vec<_> = streams.map(|stream| (stream.number, stream.data.exchange())).collect();
        for (number, exchange) in over {
            if let Some(id) = exchange {
                io.reset(id);
            }
            connection.forget(number);
        }
    }

    /// Sends what was written, and ends the connection where nothing more is to come.
    fn leave(&mut self, io: &mut dyn Io, out: &mut Vec<u8>) {
        if !out.is_empty() {
            io.send(out);
            out.clear();
        }
        if let Some(broken) = self.broken {
            self.note_cut(io);
            if self.connection.take().is_some() {
                broken.tell(io);
            }
            return;
        }
        if self.ended {
            self.give_up_idle(io);
        }
        let is_empty = self.connection.as_deref().is_none_or(|connection| connection.streams().is_empty());
        if is_empty && (self.ended || self.drain == Draining::Last) {
            self.connection = None;
            io.close();
        }
    }
}

impl Multiplexed for Http2 {
    fn is_http2(&self) -> bool {
        true
    }

    fn head_writer(&self) -> WriteHead {
        heads::written
    }

    fn on_open(&mut self, io: &mut dyn Io) {
        let settings = self.settings();
        scratch::with(|Scratch { out, .. }| {
            self.connection = Some(Box::new(ServerConnection::new(settings, out)));
            io.send(out);
        });
    }

    fn on_bytes(&mut self, io: &mut dyn Io, bytes: &[u8]) -> usize {
        let second = second_of(io.now());
        scratch::with(|scratch| {
            let Scratch { memory, out, block, known, .. } = &mut *scratch;
            let mut rest = bytes;
            let beyond = self.connection.as_deref().map_or(0, ServerConnection::heads_beyond);
            let heads = beyond as usize + io.lendable();
            while let Some(connection) =
                self.connection.as_deref_mut().filter(|_| !rest.is_empty() && self.broken.is_none())
            {
                connection.lend_heads(u32::try_from(heads).unwrap_or(u32::MAX));
                let (taken, event) = connection.on_bytes(Offer { bytes: rest, second, memory }, out);
                self.on_event(io, event, Lent { out, block, known });
                if taken == 0 {
                    break;
                }
                rest = rest.get(taken..).unwrap_or_default();
            }
            let is_within = self.connection.as_deref().is_some_and(ServerConnection::is_within_head);
            self.head_since = if is_within { Some(self.head_since.unwrap_or(io.now())) } else { None };
            // What is answered at once goes along; for the rest there is a look behind this.
            self.leave(io, &mut scratch.out);
            let is_over = self.connection.is_none();
            if is_over { bytes.len() } else { bytes.len() - rest.len() }
        })
    }

    fn on_room(&mut self, io: &mut dyn Io) {
        scratch::with(|scratch| {
            self.go_on(io, scratch);
            self.leave(io, &mut scratch.out);
        });
    }

    fn on_end(&mut self, io: &mut dyn Io, held: usize) {
        self.ended = true;
        // A part of a frame never becomes whole.
        if held > 0 {
            self.broken.get_or_insert(Broken::Cut);
        }
        if self.broken.is_none() {
            self.note_cut(io);
        }
        // Whom others answer is gone, as for nginx; what is at hand, in a file perhaps, is sent as far as windows
        // let it.
        scratch::with(|scratch| {
            self.leave(io, &mut scratch.out);
            self.go_on(io, scratch);
            self.leave(io, &mut scratch.out);
        });
    }

    fn on_gone(&mut self, io: &mut dyn Io) {
        self.note_cut(io);
        self.connection = None;
    }

    fn on_timer(&mut self, io: &mut dyn Io) {
        let now = io.now();
        let mut out = Vec::new();
        if self.head_since.is_some_and(|since| now.since(since) >= self.terms.head.timeout) {
            io.count(|counters| &mut counters.timeouts_header);
            self.note_cut(io);
            frame::write_go_away(&mut out, 0, ErrorCode::NO_ERROR);
            self.ended = true;
            self.connection = None;
        }
        if let Some(connection) = &mut self.connection {
            connection.on_second(second_of(now), &mut out);
        }
        if let Draining::Near(since) = self.drain
            && now.since(since) >= PONG
        {
            self.say_last(&mut out);
        }
        self.leave(io, &mut out);
    }

    fn drain(&mut self, io: &mut dyn Io) {
        let mut out = Vec::new();
        match self.drain {
            Draining::No => {
                self.drain = Draining::Near(io.now());
                // Some clients (Python's h2) fail by a PING behind GOAWAY. Who answers one before it has asked
                // for nothing since, or is told by the second GOAWAY that this was not begun.
                frame::write(&mut out, Kind::Ping, 0, 0, &[0; 8]);
                frame::write_go_away(&mut out, MAX_STREAM, ErrorCode::NO_ERROR);
            }
            Draining::Near(_) => self.say_last(&mut out),
            Draining::Last => {}
        }
        self.leave(io, &mut out);
    }
}

/// Whether an answer may be that its client has it already, which has no body (RFC 9110 section 13.1).
fn is_conditional(request: &Request<'_>) -> bool {
    [Known::IfNoneMatch, Known::IfModifiedSince].iter().any(|field| request.known(*field).is_some())
}

/// The client of a request that waited to begin wants no more of it.
fn note_left(io: &mut dyn Io, (request, since): &(OwnedRequest, Time)) {
    let waited = io.now().since(*since);
    io.note_left((CLIENT_LEFT, waited), &request.get());
}

const fn second_of(now: Time) -> u32 {
    (now.as_nanos() / 1_000_000_000) as u32
}

pub(crate) const fn told(priority: StreamPriority) -> Priority {
    Priority { urgency: priority.urgency, incremental: priority.incremental }
}

/// What a flood is counted with.
fn counted(flood: Flood) -> fn(&mut Counters) -> &mut u64 {
    match flood {
        Flood::RapidReset => |counters| &mut counters.flood_rapid_reset,
        Flood::MadeReset => |counters| &mut counters.flood_made_reset,
        Flood::Continuation => |counters| &mut counters.flood_continuation,
        Flood::Settings => |counters| &mut counters.flood_settings,
        Flood::Ping => |counters| &mut counters.flood_ping,
        Flood::Priority => |counters| &mut counters.flood_priority,
        // Clients answer nothing.
        Flood::Empty | Flood::Interim => |counters| &mut counters.flood_empty,
        Flood::Window => |counters| &mut counters.flood_window,
        Flood::Padding => |counters| &mut counters.flood_padding,
        Flood::Table => |counters| &mut counters.flood_table,
        Flood::Heads => |counters| &mut counters.flood_heads,
        Flood::Overhead => |counters| &mut counters.flood_overhead,
    }
}
