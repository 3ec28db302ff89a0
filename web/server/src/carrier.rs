//! What carries exchanges: connections, what they wait for, the log.

use crate::beginnings::Beginnings;
use crate::conn::{DRY, FINISHED, More, ServedConnection, State, Tick};
use crate::counters::Counters;
use crate::dialled::DialledTable;
use crate::head;
use crate::pace::BodyPace;
use crate::page::{Page, line};
use crate::reading::ReadingSet;
use crate::security::Security;
use crate::terms::TermTable;
use crate::trace;
use access_log::{Line, Log};
use app::{ConnId, Net, PathFigures};
use core::net::SocketAddr;
use exchange::{
    About, CommonFields, Ending, ExchangeId, ExchangePlace, LocalAddress, Opening, Piece, Ready, Replies, Reply,
    ReplyEnd, ReplyFlow, Stop, Totals,
};
use h1::response;
use latency::Recorder;
use semantics::date::HttpDate;
use semantics::{Method, Request, Status};
use site::{Limits, Timeouts, WallClock};
use wire::Time;

/// The half of a server that knows no handler.
#[derive(Debug)]
pub struct Carrier {
    // What the short way touches comes first.
    pub conns: Vec<ServedConnection>,
    /// When they began, which is seldom asked for.
    pub beginnings: Beginnings,
    /// The unix second, its date, and when it ends.
    pub second: u64,
    pub date: HttpDate,
    pub next_second: Time,
    /// Requests after which a connection is closed; 0 while draining.
    pub requests_max: u32,
    /// See [`Limits::unsent_bytes`].
    pub unsent_max: usize,
    /// Requests served the short way: each a 2xx and a cache hit, too.
    pub ready: u64,
    /// Whether a request may be logged, or somebody traces requests: looked for once a second.
    pub tells_all: bool,
    /// Whether a handler is told of what it had ready.
    pub notes_ready: bool,
    /// How connections are secured, by index; empty where none is.
    pub security: Vec<Security>,
    /// Where latencies are counted.
    pub recorder: Option<Box<Recorder>>,
    /// The series of what has none of its own.
    pub series: u16,
    pub counters: Counters,
    /// The access log; a configuration's are its handler's.
    pub log: Option<Log>,
    pub limits: Limits,
    /// How many connections there may be, as the data path has it.
    pub places: usize,
    /// From how many on nearly all are taken.
    pub crowded_from: usize,
    pub timeouts: Timeouts,
    pub terms: TermTable,
    pub clock: WallClock,
    /// Connections that handlers asked for.
    pub upstreams: DialledTable,
    /// Those of them that are to be secured.
    pub seeking: Vec<(ConnId, handshake::Sought)>,
    /// Connections of which a part of a head has come.
    pub reading: ReadingSet,
    pub common: CommonFields,
    pub draining: Option<Drain>,
    /// The next connection whose timer is to be set by shorter limits.
    pub unsettled: Option<usize>,
    /// Bytes of the head that was queued last.
    pub last_head: usize,
    /// Scratch for heads and short responses.
    pub scratch: Vec<u8>,
}

/// A drain under way.
#[derive(Clone, Copy, Debug)]
pub struct Drain {
    /// The next connection to look at.
    pub next: usize,
    /// When what is left is reset.
    pub deadline: Time,
}

/// A carrier during a call to a handler.
pub struct Answering<'a, N> {
    pub net: &'a mut N,
    pub carrier: &'a mut Carrier,
    /// The connection whose request the handler is being told of: what ends
    /// now, need not be gone on with.
    pub within: Option<ConnId>,
    /// The series of the exchange that it is told of, once that is known.
    pub series: Option<u16>,
}

impl Carrier {
    /// The connection's state, if `id` is still it.
    pub fn conn(&mut self, id: ConnId) -> Option<&mut ServedConnection> {
        let conn = self.conns.get_mut(id.index())?;
        (conn.state != State::Vacant && conn.generation == id.generation()).then_some(conn)
    }

    /// The exchange of a connection.
    pub fn exchange_of(&self, id: ConnId) -> ExchangeId {
        self.conns[id.index()].exchange(id.index())
    }

    /// The connection of an exchange that is not over.
    #[inline]
    pub fn conn_of(&self, id: ExchangeId) -> Option<(ConnId, &ServedConnection)> {
        let ExchangePlace::Connection(index) = id.place() else { return None };
        let conn = self.conns.get(index).filter(|conn| conn.state != State::Vacant && conn.exchange(index) == id)?;
        Some((ConnId::new(index as u32, conn.generation), conn))
    }

    /// Whether the connection serves another request after this one.
    fn goes_on(&self, id: ConnId) -> bool {
        self.conns[id.index()].requests.saturating_add(1) < self.requests_max
    }

    /// A response of our own to what is no request: told, and closed.
    pub fn refuse<N: Net>(&mut self, net: &mut N, id: ConnId, page: &Page) {
        let status = page.status;
        let (head, body) = self.queue(net, id, &page.reply(), &page.body(), Ending::LAST_OF_11);
        self.count(status, false);
        self.record_rejected(id, status, head as u64 + body);
        self.answered(net, id, head, body);
        self.response_over(net, id, false);
    }

    /// Queues a whole response. Returns the lengths of its head and its content.
    #[inline]
    fn queue<N: Net>(
        &mut self,
        net: &mut N,
        id: ConnId,
        reply: &Reply<'_>,
        body: &[Piece<'_>],
        ending: Ending,
    ) -> (usize, u64) {
        let mut out = core::mem::take(&mut self.scratch);
        out.clear();
        head::write(&mut out, reply, self.common.server, self.date, (ending, false));
        let head = out.len();
        self.last_head = head;
        let mut rest = body;
        // Bytes go along with the head.
        while let [Piece::Bytes(bytes), after @ ..] = rest {
            out.extend_from_slice(bytes);
            rest = after;
        }
        let mut sent = (out.len() - head) as u64;
        net.send_bytes(id, &out);
        self.scratch = out;
        for piece in rest {
            match piece {
                Piece::Bytes(bytes) => {
                    net.send_bytes(id, bytes);
                    sent += bytes.len() as u64;
                }
                Piece::Body(body, (start, end)) => {
                    net.send_body(id, body, *start..*end);
                    sent += u64::from(end - start);
                }
                // Whoever sends files sends them in pieces.
                Piece::File(..) => {}
            }
        }
        (head, sent)
    }

    /// What cannot be understood, or did not come: told, logged, and closed.
    pub fn reject<N: Net>(&mut self, net: &mut N, id: ConnId, page: &Page, sent: &[u8]) {
        if let Some(log) = &mut self.log {
            let request = sent.split(|&byte| byte == b'\r' || byte == b'\n').next().unwrap_or_default();
            let request = if request.is_empty() { b"-" } else { request };
            let line = Line { peer: net.peer(id), request, status: page.status.code(), referer: None, agent: None };
            log.line(&line, page.length(), net.now());
        }
        self.refuse(net, id, page);
    }

    /// Bytes that are no response of their own.
    pub fn send<N: Net>(&mut self, net: &mut N, id: ConnId, bytes: &[u8]) {
        net.send_bytes(id, bytes);
        self.queued(id, bytes.len() as u64);
    }

    /// So many bytes were queued.
    pub(crate) fn queued(&mut self, id: ConnId, bytes: u64) {
        let conn = &mut self.conns[id.index()];
        conn.queued = conn.queued.wrapping_add(bytes as u32);
        self.counters.bytes_queued += bytes;
    }

    /// A response is queued, or its head.
    pub(crate) fn answered<N: Net>(&mut self, net: &mut N, id: ConnId, head: usize, body: u64) {
        self.queued(id, head as u64 + body);
        let conn = &mut self.conns[id.index()];
        conn.requests = conn.requests.saturating_add(1);
        conn.last = Tick::of(net.now());
    }

    /// The last byte of a response is queued: on to the next, or the end.
    fn response_over<N: Net>(&mut self, net: &mut N, id: ConnId, goes_on: bool) {
        let conn = &mut self.conns[id.index()];
        conn.state = State::Ready;
        conn.clear_more();
        if !goes_on || conn.flags & DRY != 0 {
            self.close_after_queue(net, id);
        } else if net.unsent(id) > app::SEND_LOW_WATER {
            self.watch_progress(net, id);
        }
    }

    /// One more response with this status.
    pub(crate) fn count(&mut self, status: Status, request: bool) {
        self.counters.requests += u64::from(request);
        match status.code() {
            200..300 => self.counters.responses_2xx += 1,
            300..400 => self.counters.responses_3xx += 1,
            400..500 => self.counters.responses_4xx += 1,
            _ => self.counters.responses_5xx += 1,
        }
    }

    /// Tells of a reply that was begun, with what was sent of it: the log, and who traces.
    pub fn close_line(&mut self, id: ConnId, now: Time) {
        trace::end((&self.beginnings, &mut self.conns), id, now, None);
        let Some(more) = self.conns[id.index()].more.as_mut() else { return };
        let (line, sent) = (more.line.take(), more.sent);
        if let (Some(line), Some(log)) = (line, &mut self.log) {
            log.close_line(&line, sent, now);
        }
    }
}

impl<N: Net> Answering<'_, N> {
    /// The exchange's connection, if nothing was answered yet, and how its
    /// response ends.
    pub(crate) fn unanswered(&self, id: ExchangeId) -> Option<(ConnId, Ending)> {
        let (id, conn) = self.carrier.conn_of(id).filter(|(_, conn)| conn.state == State::Waiting)?;
        Some((id, conn.ending.and(self.carrier.goes_on(id))))
    }

    /// The exchange's connection, if its reply was begun and not ended.
    pub(crate) fn begun(&self, id: ExchangeId) -> Option<ConnId> {
        let (id, conn) = self.carrier.conn_of(id)?;
        matches!(conn.state, State::Replying | State::Tunnel).then_some(id)
    }

    /// Its connection, if it is under way.
    pub(crate) fn asked(&mut self, id: ExchangeId) -> Option<(ConnId, &mut ServedConnection)> {
        let (id, _) = self.carrier.conn_of(id).filter(|(_, conn)| conn.is_asked())?;
        Some((id, &mut self.carrier.conns[id.index()]))
    }

    /// A whole response is queued: `head` and `body` bytes of it.
    fn over(&mut self, id: ConnId, request: &Request<'_>, status: Status, (head, body): (usize, u64), ending: Ending) {
        self.carrier.count(status, true);
        self.record(id, status.code(), head as u64 + body);
        let Carrier { beginnings, conns, .. } = &mut *self.carrier;
        trace::end((beginnings, conns), id, self.net.now(), Some((status, head as u64 + body)));
        self.carrier.answered(self.net, id, head, body);
        let now = self.net.now();
        if let Some(log) = &mut self.carrier.log {
            log.line(&line(self.net, id, request, status), body, now);
        }
        self.go_on(id, ending.goes_on());
    }

    /// The exchange is over: the next request, if it came already, is next.
    fn go_on(&mut self, id: ConnId, goes_on: bool) {
        let later = self.within != Some(id);
        let conn = &mut self.carrier.conns[id.index()];
        if conn.flags & crate::conn::TAKES_BODY != 0 {
            // The rest of it is nobody's; only then the next request begins.
            conn.flags &= !crate::conn::TAKES_BODY;
            self.carrier.discard_rest(self.net, id, goes_on);
            return;
        }
        if later {
            let span = self.carrier.terms_of(id).keep_alive;
            self.carrier.arm(self.net, id, span);
        }
        self.carrier.response_over(self.net, id, goes_on);
        if later && self.carrier.conns[id.index()].state == State::Ready {
            self.net.resume(id);
        }
    }
}

impl<N: Net> Replies for Answering<'_, N> {
    fn now(&self) -> Time {
        self.net.now()
    }

    fn reply(&mut self, id: ExchangeId, request: &Request<'_>, reply: &Reply<'_>, body: &[Piece<'_>]) {
        let Some((id, ending)) = self.unanswered(id) else { return };
        let lengths = self.carrier.queue(self.net, id, reply, body, ending);
        self.over(id, request, reply.status, lengths, ending);
    }

    fn reply_ready(&mut self, id: ExchangeId, request: &Request<'_>, ready: &Ready) {
        let Some((id, ending)) = self.unanswered(id) else { return };
        let whole = request.method() != Method::Head;
        let end = if whole { ready.message_len } else { ready.head_len };
        if ready.head_len(ending) == ready.head_len as usize {
            self.net.send_body(id, &ready.message, 0..end);
        } else {
            // In front of the empty line.
            self.net.send_body(id, &ready.message, 0..ready.fields_len());
            self.net.send_bytes(id, ending.line());
            self.net.send_body(id, &ready.message, ready.head_len.saturating_sub(2)..end);
        }
        let mut sent = u64::from(end.saturating_sub(ready.head_len));
        if whole && let Some(content) = &ready.content {
            self.net.send_body(id, content, 0..content.len());
            sent += u64::from(content.len());
        }
        self.over(id, request, Status::OK, (ready.head_len(ending), sent), ending);
    }

    fn reply_status(&mut self, id: ExchangeId, request: &Request<'_>, status: Status, fields: &[u8]) {
        let page = Page::new(status, fields);
        let body = page.body();
        let body = if request.method() == Method::Head { &[][..] } else { &body };
        self.reply(id, request, &page.reply(), body);
    }

    fn interim(&mut self, id: ExchangeId, status: Status, fields: &[u8]) -> u64 {
        self.send_interim(id, status, fields)
    }

    fn begin(&mut self, id: ExchangeId, request: &Request<'_>, reply: &Reply<'_>, end: ReplyEnd) {
        self.begin_as(id, request, reply, end);
    }

    fn body(&mut self, id: ExchangeId, piece: Piece<'_>) -> bool {
        let Some(id) = self.begun(id) else { return false };
        match piece {
            Piece::Bytes(bytes) => {
                self.piece(id, piece.len(), |net| net.send_bytes(id, bytes));
                self.carrier.watch_tunnel(self.net, id);
            }
            Piece::Body(body, (start, end)) => self.piece(id, piece.len(), |net| net.send_body(id, body, start..end)),
            Piece::File(file, (start, end)) => {
                let chunked = self.carrier.conns[id.index()].is_chunked();
                if chunked || !self.net.send_file(id, file, start..end) {
                    return false;
                }
                self.note(id, piece.len());
            }
        }
        true
    }

    fn take_back(&mut self, id: ExchangeId, most: usize) -> usize {
        let Some(id) = self.begun(id) else { return 0 };
        if self.carrier.conns[id.index()].is_chunked() {
            return 0;
        }
        let taken = self.net.take_back(id, most);
        let conn = &mut self.carrier.conns[id.index()];
        conn.queued = conn.queued.wrapping_sub(taken as u32);
        let more = conn.more();
        more.sent = more.sent.saturating_sub(taken as u64);
        self.carrier.counters.bytes_queued -= taken as u64;
        taken
    }

    fn finish(&mut self, id: ExchangeId, trailers: &[u8]) {
        let Some(id) = self.begun(id) else { return };
        if core::mem::take(&mut self.carrier.conns[id.index()].more().chunked) {
            let (length, end) = response::LAST_CHUNK.split_at(3);
            self.carrier.send(self.net, id, &[length, trailers, end].concat());
        }
        let draining = self.carrier.draining.is_some();
        let conn = &mut self.carrier.conns[id.index()];
        if (!conn.ending.goes_on() || draining) && conn.flags & FINISHED == 0 {
            conn.flags |= FINISHED;
            self.net.finish(id);
        }
    }

    fn end(&mut self, id: ExchangeId) {
        let Some(id) = self.begun(id) else { return };
        let now = self.net.now();
        self.carrier.close_line(id, now);
        if let Some((status, bytes)) = self.carrier.conns[id.index()].more.as_deref().map(More::outcome) {
            self.record(id, status, bytes);
        }
        let conn = &mut self.carrier.conns[id.index()];
        conn.last = Tick::of(now);
        let goes_on = conn.ending.goes_on() && self.carrier.draining.is_none();
        self.go_on(id, goes_on);
    }

    fn stop(&mut self, id: ExchangeId, how: Stop) {
        match how {
            Stop::Reset => self.reset(id),
            Stop::Cut => self.cut_reply(id),
            Stop::HangUp => self.hang_up(id),
        }
    }

    fn be_patient(&mut self, id: ExchangeId) {
        self.set_patient(id);
    }

    fn begin_tunnel(&mut self, id: ExchangeId, request: &Request<'_>, reply: &Reply<'_>) {
        self.open_tunnel(id, request, reply);
    }

    fn read(&mut self, id: ExchangeId, most: Option<u64>) {
        let Some(most) = most else {
            if let Some((id, _)) = self.asked(id) {
                self.net.resume(id);
            }
            return;
        };
        let begins = self.net.now();
        let now = Tick::of(begins);
        let asked = self.asked(id).filter(|(_, conn)| conn.flags & crate::conn::TAKES_BODY != 0);
        let Some((id, conn)) = asked else { return };
        conn.engine.limit_body(most);
        (conn.more().reads, conn.last) = (true, now);
        conn.more().pace = Some(BodyPace::begin(begins));
        let (expects, waits) = (core::mem::take(&mut conn.more().expects), conn.state == State::Waiting);
        if expects && waits {
            self.carrier.go_ahead(self.net, id);
        }
        if waits {
            let span = self.carrier.terms_of(id).body;
            self.carrier.arm(self.net, id, span);
        }
        self.net.resume(id);
    }

    fn about(&self, id: ExchangeId) -> About {
        let Some((id, conn)) = self.carrier.conn_of(id) else { return About::default() };
        About {
            peer: self.net.peer(id),
            local: LocalAddress::of(self.net, id),
            connection: self.carrier.beginnings.number(id.index()),
            age: self.carrier.beginnings.age(id.index(), self.net.now()),
            requests: conn.answered(),
            http10: conn.ending.is_http10(),
            goes_on: conn.ending.goes_on() && self.carrier.goes_on(id),
            transport: self.carrier.transport(id),
        }
    }

    fn peer(&self, id: ExchangeId) -> Option<SocketAddr> {
        self.net.peer(self.carrier.conn_of(id)?.0)
    }

    fn path_figures(&self, id: ExchangeId) -> Option<PathFigures> {
        self.net.path_figures(self.carrier.conn_of(id)?.0)
    }

    fn opening(&self, id: ExchangeId) -> Opening<'_> {
        let Some((id, conn)) = self.carrier.conn_of(id) else { return Opening::default() };
        let proxied = conn.more.as_ref().and_then(|more| more.proxied.as_ref());
        Opening { session: self.carrier.session(id), proxied }
    }

    fn totals(&self) -> Totals {
        let counters = &self.carrier.counters;
        Totals {
            connections: counters.connections,
            open: counters.connections_open,
            requests: counters.requests + self.carrier.ready,
            reading: self.carrier.reading.count(),
        }
    }

    fn head_len(&self) -> u64 {
        self.carrier.last_head as u64
    }

    fn set_last(&mut self, id: ExchangeId) {
        if let Some((_, conn)) = self.asked(id) {
            conn.ending = conn.ending.and(false);
        }
    }

    fn refuse_body(&mut self, id: ExchangeId) {
        if let Some((_, conn)) = self.asked(id) {
            conn.ending = conn.ending.and(false);
            self.carrier.counters.bodies_refused += 1;
        }
    }

    fn set_terms(&mut self, id: ExchangeId, number: u8) {
        if let Some((id, _)) = self.asked(id).filter(|(_, conn)| conn.terms.exchange() != number) {
            self.carrier.change_terms(self.net, id, number);
        }
    }

    fn flow(&self, id: ExchangeId) -> ReplyFlow {
        let Some((id, conn)) = self.carrier.conn_of(id) else { return ReplyFlow::default() };
        let unsent = self.net.unsent(id);
        let received = conn.more.as_ref().map_or(0, |more| more.received);
        ReplyFlow { unsent, taken: conn.queued.wrapping_sub(unsent as u32), received }
    }

    fn series(&self, host: &[u8], location: &[u8]) -> Option<u16> {
        self.carrier.recorder.as_ref().map(|recorder| recorder.board().series(host, location))
    }

    fn set_series(&mut self, id: ExchangeId, series: u16) {
        self.series = Some(series);
        if let Some(more) = self.asked(id).and_then(|(_, conn)| conn.more.as_mut()) {
            more.series = Some(series);
        }
    }

    fn set_mark(&mut self, id: ExchangeId, mark: u32) {
        let series = self.series;
        if let Some((_, conn)) = self.asked(id) {
            let more = conn.more();
            more.mark = Some(mark);
            more.series = series.or(more.series);
        }
    }

    fn mark(&self, id: ExchangeId) -> Option<u32> {
        self.carrier.conn_of(id)?.1.more.as_ref()?.mark
    }
}
