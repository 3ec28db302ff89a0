//! Requests, on their way to handlers.

use crate::answering::{H1Replies, ending};
use crate::protocol::H1;
use app::{ConnId, Net};
use connections::{BodyPace, Connections, ENDED, FIRST, PARTIAL, State, TAKES_BODY, Tick, trace};
use core::time::Duration;
use exchange::{Bodies, BodyCut, Ending, Gone, Handler, Intake, Page, Refused, Replies, RequestBody};
use h1::server::{RequestEvent, RequestLimits, RequestReader, Transfer};
use h1::{Framing, RefusedHead, Version};
use semantics::{Request, Status};

/// Requests behind one that waits, of which its handler is told.
const AHEAD: usize = 16;

impl<H: Handler> H1<H> {
    /// One event that is not a ready request. Returns the bytes consumed, or
    /// `None` if no more are to be offered now.
    #[inline(always)]
    pub(crate) fn on_event<N: Net>(
        &mut self,
        net: &mut N,
        id: ConnId,
        event: RequestEvent<'_>,
        rest: &[u8],
    ) -> Option<usize> {
        let conn = &mut self.connections.conns[id.index()];
        match event {
            RequestEvent::NeedMore => None,
            RequestEvent::Request { request, transfer, consumed } => {
                if conn.flags & (PARTIAL | FIRST) != 0 {
                    conn.flags &= !(PARTIAL | FIRST);
                    self.connections.reading.remove(id.index());
                    let span = self.connections.terms.soonest(conn.terms);
                    self.connections.arm(net, id, span);
                }
                self.on_request(net, id, &request, &transfer, rest.get(consumed..).unwrap_or_default());
                Some(consumed)
            }
            RequestEvent::LineFeeds { consumed } => self.on_line_feeds(net, id, rest, consumed),
            RequestEvent::Body { bytes, consumed } => {
                let unread = conn.last.passed(net.now());
                conn.last = Tick::of(net.now());
                if conn.flags & TAKES_BODY == 0 {
                    if let Some(pace) = conn.more.as_mut().and_then(|more| more.exchange.pace.as_mut()) {
                        pace.came(consumed as u64, Duration::ZERO, net.now());
                    }
                    return Some(consumed);
                }
                self.on_body(net, id, bytes, (consumed, unread))
            }
            RequestEvent::EndOfBody { consumed } => {
                if let Some(more) = &mut conn.more {
                    more.exchange.received += consumed as u64;
                }
                self.on_body_end(net, id);
                Some(consumed)
            }
            RequestEvent::Reject { status, consumed } => {
                self.connections.counters.parse_errors += 1;
                if status == Status::CONTENT_TOO_LARGE {
                    self.connections.counters.bodies_refused += 1;
                }
                self.on_reject(net, id, status, rest);
                Some(consumed)
            }
            RequestEvent::Ignored { consumed } => Some(consumed),
        }
    }

    /// A head of lines that end in LF alone, `length` bytes of `rest`: handlers, and
    /// whoever they ask, are told of a copy with CR LF at the end of each.
    #[cold]
    #[inline(never)]
    fn on_line_feeds<N: Net>(&mut self, net: &mut N, id: ConnId, rest: &[u8], length: usize) -> Option<usize> {
        let head = h1::canonical(rest.get(..length).unwrap_or_default());
        let limits = self.connections.head_limits(id);
        let (event, taken) = match self.connections.conns[id.index()].engine.on_bytes(&head, &limits) {
            event @ RequestEvent::Request { .. } => (event, length),
            RequestEvent::Reject { status, .. } => (RequestEvent::Reject { status, consumed: rest.len() }, rest.len()),
            // It became another since, where the peer still writes to.
            _ => {
                self.connections.counters.parse_errors += 1;
                self.on_reject(net, id, Status::BAD_REQUEST, b"");
                return Some(rest.len());
            }
        };
        self.on_event(net, id, event, &head).map(|_| taken)
    }

    /// What came is no request, or no body of one, or did not come in time.
    pub fn on_reject<N: Net>(&mut self, net: &mut N, id: ConnId, status: Status, rest: &[u8]) {
        let conn = &self.connections.conns[id.index()];
        let (replying, discarding) = (conn.state == State::Replying, conn.discards());
        if conn.is_asked() {
            if self.is_cut_by_handler(net, id, status) {
                return;
            }
            // The handler takes a body that will never be whole.
            self.gone(net, id, Gone::Cut);
        }
        if replying {
            // Part of another answer is out: nothing but a reset says so.
            self.connections.conns[id.index()].state = State::Closing;
            net.abort(id);
        } else if discarding {
            // Its answer is out.
            self.connections.close_after_queue(net, id);
        } else {
            let is_cut = status == Status::REQUEST_TIMEOUT;
            if !self.is_refused_by_handler(net, id, (status, is_cut), rest) {
                self.replies(net, id).reject(id, &Page::new(status, b""), rest);
            }
        }
    }

    /// Whether a handler that reads a body sees to an exchange whose body will not be
    /// whole.
    #[cold]
    pub(crate) fn is_cut_by_handler<N: Net>(&mut self, net: &mut N, id: ConnId, status: Status) -> bool {
        let conn = &mut self.connections.conns[id.index()];
        let is_told = conn.more.as_ref().is_some_and(|more| more.exchange.reads) || conn.leaves_body();
        if conn.state != State::Waiting || !is_told {
            return false;
        }
        // Nothing after it can be understood.
        conn.flags &= !TAKES_BODY;
        conn.ending = conn.ending.and(false);
        conn.last = Tick::of(net.now());
        let why = match status {
            Status::CONTENT_TOO_LARGE => BodyCut::TooLong,
            Status::REQUEST_TIMEOUT => BodyCut::Late,
            _ if conn.flags & ENDED != 0 => BodyCut::Ended,
            _ => BodyCut::Malformed,
        };
        let mut sees = false;
        self.tell(net, id, Some(id), |handler, replies, exchange| sees = handler.on_body_cut(replies, exchange, why));
        sees
    }

    /// The client sends no more, and a request's body is not whole. Where nobody has asked for that, it
    /// ends no exchange by itself.
    #[cold]
    pub(crate) fn on_cut<N: Net>(&mut self, net: &mut N, id: ConnId) {
        let conn = &mut self.connections.conns[id.index()];
        let (replying, is_left) = (conn.state == State::Replying, conn.leaves_body());
        let goes_on = if replying && is_left {
            conn.flags &= !TAKES_BODY;
            conn.ending = conn.ending.and(false);
            true
        } else {
            self.is_cut_by_handler(net, id, Status::BAD_REQUEST)
        };
        if goes_on {
            if is_left {
                self.tell(net, id, None, |handler, replies, exchange| handler.on_client_end(replies, exchange, 0));
            }
            return;
        }
        if replying {
            self.left(net, id);
            self.connections.conns[id.index()].state = State::Closing;
            net.abort(id);
        } else {
            self.gone(net, id, Gone::Cut);
            self.connections.conns[id.index()].state = State::Ready;
            self.connections.close_after_queue(net, id);
        }
    }

    /// What came of a head, `rest`, is not all of it. Where no more of it will come, or
    /// not in time, its exchange is ended.
    #[cold]
    #[inline(never)]
    pub(crate) fn on_part_of_head<N: Net>(&mut self, net: &mut N, id: ConnId, rest: &[u8]) {
        let conn = &self.connections.conns[id.index()];
        if conn.flags & ENDED != 0 {
            if !self.is_refused_by_handler(net, id, (Status::BAD_REQUEST, true), rest) {
                self.connections.close_after_queue(net, id);
            }
        } else if conn.flags & PARTIAL != 0
            && self.connections.is_head_late(id, net.now())
            && self.connections.is_request_late(net, id)
        {
            // RFC 9110 §15.5.9
            self.on_reject(net, id, Status::REQUEST_TIMEOUT, rest);
        }
    }

    /// Whether the handler ends an exchange of no request, of whose head `rest` came.
    #[cold]
    fn is_refused_by_handler<N: Net>(
        &mut self,
        net: &mut N,
        id: ConnId,
        (status, is_cut): (Status, bool),
        rest: &[u8],
    ) -> bool {
        let head = RefusedHead::new(rest, is_cut);
        let now = Tick::of(net.now());
        self.connections.reading.remove(id.index());
        let conn = &mut self.connections.conns[id.index()];
        let waited = if conn.flags & PARTIAL == 0 { Duration::ZERO } else { conn.last.passed(net.now()) };
        let refused = Refused { status, request: &head.request(), is_cut, waited };
        conn.clear_more();
        conn.flags &= !TAKES_BODY;
        (conn.state, conn.last, conn.ending) = (State::Waiting, now, Ending::LAST_OF_11);
        let exchange = conn.exchange(id.index());
        let mut replies = H1Replies { net, connections: &mut self.connections, within: Some(id), series: None };
        let ends = self.handler.on_refused(&mut replies, exchange, refused);
        if !ends {
            self.connections.conns[id.index()].state = State::Ready;
        }
        ends
    }

    /// A request's head was read, perhaps where the peer still writes to (the
    /// slots of a memif link that copies nothing). What is decided by it more
    /// than once, or remembered of it, is read from a copy, so that it is one
    /// and the same each time; a head that became another since is no request.
    #[inline(always)]
    fn on_request<N: Net>(&mut self, net: &mut N, id: ConnId, seen: &Request<'_>, transfer: &Transfer, behind: &[u8]) {
        self.connections.conns[id.index()].ending = ending(transfer, self.connections.common.persistence);
        if !net.shares_frames() {
            self.on_own_request(net, id, seen, transfer, behind);
            return;
        }
        let mut head = core::mem::take(&mut self.head);
        head.clear();
        head.extend_from_slice(seen.head());
        let limits = self.connections.head_limits(id);
        match RequestReader::new().on_bytes(&head, &limits) {
            RequestEvent::Request { request, transfer: again, consumed }
                if consumed == head.len() && ends_alike(&again, transfer) =>
            {
                // What stands behind it may become another, too.
                self.on_own_request(net, id, &request, transfer, b"");
            }
            _ => {
                self.connections.counters.parse_errors += 1;
                self.on_reject(net, id, Status::BAD_REQUEST, b"");
            }
        }
        self.head = head;
    }

    /// As [`H1::on_request`], from memory that is ours alone; `behind` came with it.
    fn on_own_request<N: Net>(
        &mut self,
        net: &mut N,
        id: ConnId,
        request: &Request<'_>,
        transfer: &Transfer,
        behind: &[u8],
    ) {
        if transfer.framing() == Framing::None {
            self.respond(net, id, request, RequestBody::None);
        } else {
            self.begin_body(net, id, request, (transfer, behind));
        }
    }

    /// A body follows. It is read to its end, and discarded, before the
    /// request is answered (RFC 9112 §9.3: all of it, or close), unless its
    /// handler takes it.
    fn begin_body<N: Net>(
        &mut self,
        net: &mut N,
        id: ConnId,
        request: &Request<'_>,
        (transfer, behind): (&Transfer, &[u8]),
    ) {
        let Intake { methods, bodies } = self.handler.rules().intake;
        let (takes, judges) = (bodies != Bodies::Dropped, bodies == Bodies::Asked);
        let most = if judges { u64::MAX } else { self.connections.limits.http.body };
        let too_long = matches!(transfer.framing(), Framing::Length(length) if length > most);
        let awaits = transfer.expect_continue() && transfer.version() == Version::Http11;
        // RFC 9110 §10.1.1: an HTTP/1.0 client's expectation is ignored.
        let refused = if awaits { methods.refuse(request.method()) } else { None };
        let refused = if too_long { Some((Status::CONTENT_TOO_LARGE, &b""[..])) } else { refused };
        if let Some((status, fields)) = refused {
            // Answered at once. Whether the body follows all the same is not
            // known, so nothing after it can be understood.
            self.connections.counters.bodies_refused += u64::from(too_long);
            let conn = &mut self.connections.conns[id.index()];
            conn.ending = conn.ending.and(false);
            conn.state = State::Waiting;
            let (net, connections) = (&mut *net, &mut self.connections);
            let exchange = connections.exchange_of(id);
            let mut replies = H1Replies { net, connections, within: Some(id), series: None };
            let page = Page::new(status, fields);
            replies.reply(exchange, request, &page.reply(), &page.body());
            return;
        }
        if awaits && !judges {
            self.replies(net, id).go_ahead(id);
        }
        let now = Tick::of(net.now());
        let conn = &mut self.connections.conns[id.index()];
        conn.last = now;
        if !judges {
            conn.engine.limit_body(most);
        }
        let exchange = &mut conn.more().exchange;
        (exchange.began, exchange.expects) = (Some(net.now()), awaits && judges);
        // A handler that asks for bodies says when it reads one.
        exchange.pace = (!judges).then(|| BodyPace::begin(net.now()));
        if takes {
            let body = match transfer.framing() {
                Framing::Length(length) => RequestBody::Length(length),
                _ if judges => {
                    body_at_hand(self.connections.conns[id.index()].engine, behind, &self.connections.head_limits(id))
                }
                _ => RequestBody::Unknown,
            };
            let conn = &mut self.connections.conns[id.index()];
            if body == RequestBody::Malformed {
                // There is nothing to take, and nothing after it can be understood.
                self.connections.counters.parse_errors += 1;
                conn.ending = conn.ending.and(false);
            } else {
                conn.flags |= TAKES_BODY;
            }
            self.respond(net, id, request, body);
            return;
        }
        conn.more().request = Some((*request).into());
        conn.state = State::Body;
        let span = self.connections.terms_of(id).body;
        self.connections.arm(net, id, span);
    }

    /// Some of a body that is the handler's, so long after the last of it.
    fn on_body<N: Net>(
        &mut self,
        net: &mut N,
        id: ConnId,
        bytes: &[u8],
        (consumed, unread): (usize, Duration),
    ) -> Option<usize> {
        let mut taken = 0;
        self.tell(net, id, Some(id), |handler, replies, exchange| {
            taken = handler.on_body(replies, exchange, bytes).min(bytes.len());
        });
        let left = bytes.len() - taken;
        let conn = &mut self.connections.conns[id.index()];
        if let Some(exchange) = conn.more.as_mut().map(|more| &mut more.exchange) {
            // What its handler left until now was not its client's to send.
            let unread = if exchange.left { unread } else { Duration::ZERO };
            exchange.left = left > 0;
            exchange.received += (consumed - left) as u64;
            if let Some(pace) = &mut exchange.pace {
                pace.came((consumed - left) as u64, unread, net.now());
            }
        }
        if left > 0 && conn.flags & TAKES_BODY != 0 {
            conn.engine.put_back(left as u64);
            self.full = true;
            return Some(consumed - left);
        }
        Some(consumed)
    }

    /// The body is over: the request it came with is answered, unless its
    /// handler has been told of it.
    fn on_body_end<N: Net>(&mut self, net: &mut N, id: ConnId) {
        let now = Tick::of(net.now());
        let conn = &mut self.connections.conns[id.index()];
        conn.last = now;
        if conn.flags & TAKES_BODY != 0 {
            conn.flags &= !TAKES_BODY;
            self.tell(net, id, Some(id), |handler, replies, exchange| handler.on_body_end(replies, exchange, b""));
            return;
        }
        conn.state = State::Ready;
        let request = conn.more.as_mut().and_then(|more| more.request.take());
        let span = self.connections.terms_of(id).keep_alive;
        self.connections.arm(net, id, span);
        if let Some(request) = request {
            // The site may have become another meanwhile.
            let request = request.get();
            self.respond(net, id, &request, RequestBody::None);
        }
    }

    /// Hands a request to the handler.
    fn respond<N: Net>(&mut self, net: &mut N, id: ConnId, request: &Request<'_>, body: RequestBody) {
        self.connections.conns[id.index()].state = State::Waiting;
        if self.connections.tells_all {
            let Connections { beginnings, conns, .. } = &mut self.connections;
            trace::begin(beginnings, &mut conns[id.index()].more().exchange, id, request, net.now());
        }
        self.connections.looks_ahead = false;
        let exchange = self.connections.exchange_of(id);
        let mut replies =
            H1Replies { net: &mut *net, connections: &mut self.connections, within: Some(id), series: None };
        self.handler.on_request(&mut replies, exchange, request, body);
        let conn = &mut self.connections.conns[id.index()];
        if conn.state == State::Waiting {
            conn.last = Tick::of(net.now());
            conn.more().exchange.began.get_or_insert(net.now());
        } else {
            self.connections.looks_ahead = false;
        }
    }

    /// Tells the handler of what the requests behind a waiting one ask for,
    /// `rest`. They are read again when it is their turn.
    pub(crate) fn look_ahead<N: Net>(&mut self, net: &N, id: ConnId, mut rest: &[u8]) {
        let conn = &self.connections.conns[id.index()];
        if conn.state != State::Waiting {
            return;
        }
        let mut engine = conn.engine;
        let limits = self.connections.head_limits(id);
        for _ in 0..AHEAD {
            let RequestEvent::Request { request, transfer, consumed } = engine.on_bytes(rest, &limits) else { return };
            if transfer.framing() != Framing::None {
                return;
            }
            rest = rest.get(consumed..).unwrap_or_default();
            if !self.handler.look_ahead(&request, net.now()) {
                return;
            }
        }
    }
}

/// What there is of a body in chunks, of which these bytes came along with its head. They are
/// read again as the body is taken.
fn body_at_hand(mut engine: RequestReader, mut bytes: &[u8], limits: &RequestLimits) -> RequestBody {
    let mut length = 0;
    while !bytes.is_empty() {
        match engine.on_bytes(bytes, limits) {
            RequestEvent::Body { bytes: some, consumed } => {
                length += some.len() as u64;
                bytes = bytes.get(consumed..).unwrap_or_default();
            }
            RequestEvent::EndOfBody { .. } => return RequestBody::AtHand(length),
            RequestEvent::Reject { status: Status::BAD_REQUEST, .. } => return RequestBody::Malformed,
            _ => break,
        }
    }
    RequestBody::Unknown
}

/// Whether the connection's engine stands where it would after either.
fn ends_alike(one: &Transfer, other: &Transfer) -> bool {
    one.framing() == other.framing() && one.keep_alive() == other.keep_alive()
}
