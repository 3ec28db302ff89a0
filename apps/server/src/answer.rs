//! From a request to a response: everything but the short way.

use crate::conn::{DRY, Ending, State, Tick};
use crate::files::ReadOutcome;
use crate::files::reader::{EntryId, Job};
use crate::files::store::{Freshness, Kind, NoEntry, Prepared};
use crate::files::{Found, target};
use crate::head::{self, Meta};
use crate::log::Line;
use crate::{Server, line};
use app::{ConnId, Net};
use core::ops::Range;
use h1::server::{Engine, Event, Transfer};
use h1::{Framing, Version, response};
use semantics::OwnedRequest;
use semantics::conditional::{Validators, Verdict, evaluate};
use semantics::date::HttpDate;
use semantics::range::{Parts, Ranges};
use semantics::{Method, Request, Status};
use std::collections::VecDeque;

/// Requests behind one that waits for the reader, for which it looks as well.
const AHEAD: usize = 16;

/// What is served of a file, to anyone.
const ALLOW_FILES: &[u8] = b"GET, HEAD, OPTIONS";

/// What every head begins with.
#[derive(Clone, Copy)]
struct Begin {
    server_header: bool,
    date: HttpDate,
    ending: Ending,
}

impl Begin {
    fn head(self, out: &mut Vec<u8>, status: Status) -> response::Head<'_, Vec<u8>> {
        head::start(out, status, self.server_header, self.date)
            .connection(self.ending.version(), self.ending.keep_alive())
    }
}

/// Where the bytes of a response body come from, in order.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Part {
    /// Delimiters between ranges.
    Bytes(Vec<u8>),
    /// Some of the content.
    Content(Range<u64>),
}

/// Which response a request for existing content gets.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[allow(clippy::large_enum_variant, reason = "boxing would allocate; it lives on the stack of one call")]
enum Selected {
    Whole,
    Partial(Parts),
    NotModified,
    PreconditionFailed,
    Unsatisfiable,
}

impl Server {
    /// A request's head was read, perhaps where the peer still writes to (the
    /// slots of a memif link that copies nothing). What is decided by it more
    /// than once, or remembered of it, is read from a copy, so that it is one
    /// and the same each time; a head that became another since is no request.
    pub(crate) fn on_request<N: Net>(&mut self, net: &mut N, id: ConnId, seen: &Request<'_>, transfer: &Transfer) {
        self.conns[id.index()].ending = Ending::of(transfer);
        if !net.shares_frames() {
            self.on_own_request(net, id, seen, transfer);
            return;
        }
        let mut head = core::mem::take(&mut self.head);
        head.clear();
        head.extend_from_slice(seen.head());
        match Engine::new().on_bytes(&head, &self.http_limits) {
            Event::Request { request, transfer: again, consumed }
                if consumed == head.len() && ends_alike(&again, transfer) =>
            {
                self.on_own_request(net, id, &request, transfer);
            }
            _ => {
                self.counters.parse_errors += 1;
                self.reject(net, id, Status::BAD_REQUEST, b"");
            }
        }
        self.head = head;
    }

    /// As [`Server::on_request`], from memory that is ours alone.
    fn on_own_request<N: Net>(&mut self, net: &mut N, id: ConnId, request: &Request<'_>, transfer: &Transfer) {
        if !matches!(transfer.framing(), Framing::None) {
            self.begin_body(net, id, request, transfer);
        } else if !self.respond(net, id, request) {
            self.conns[id.index()].more().request = Some((*request).into());
        }
    }

    /// A body follows. It is read to its end, and discarded, before the
    /// request is answered (RFC 9112 §9.3: all of it, or close).
    fn begin_body<N: Net>(&mut self, net: &mut N, id: ConnId, request: &Request<'_>, transfer: &Transfer) {
        // RFC 9110 §10.1.1: an HTTP/1.0 client's expectation is ignored.
        if transfer.expect_continue() && transfer.version() == Version::Http11 {
            if let Some(status) = self.refused(request.method()) {
                // Answered at once. Whether the body follows all the same is
                // not known, so nothing after it can be understood.
                self.error(net, id, Some(request), status, false);
                return;
            }
            self.send(net, id, response::CONTINUE);
            self.counters.responses_1xx += 1;
        }
        let conn = &mut self.conns[id.index()];
        conn.more().request = Some((*request).into());
        conn.state = State::Body;
        conn.last = Tick::of(net.now());
        self.arm(net, id, self.timeouts.http.body);
    }

    /// The body is over: the request it came with is answered.
    pub(crate) fn on_body_end<N: Net>(&mut self, net: &mut N, id: ConnId) {
        let conn = &mut self.conns[id.index()];
        conn.state = State::Ready;
        conn.last = Tick::of(net.now());
        let request = conn.more.as_mut().and_then(|more| more.request.take());
        self.arm(net, id, self.timeouts.http.keep_alive);
        if let Some(request) = request {
            self.respond_to(net, id, request);
        }
    }

    /// Answers a request that was kept.
    fn respond_to<N: Net>(&mut self, net: &mut N, id: ConnId, request: OwnedRequest) {
        if !self.respond(net, id, &request.get()) {
            self.conns[id.index()].more().request = Some(request);
        }
    }

    /// Answers a request whose body, if any, was read. Returns false if it
    /// waits for the reader: its head is then to be kept.
    fn respond<N: Net>(&mut self, net: &mut N, id: ConnId, request: &Request<'_>) -> bool {
        if let Some(status) = self.refused(request.method()) {
            self.error(net, id, Some(request), status, true);
            return true;
        }
        if let Some(entry) = self.fixed {
            self.respond_content(net, id, request, entry);
            return true;
        }
        if request.method() == Method::Options {
            self.respond_options(net, id, request);
            return true;
        }
        if let Some(entry) = self.store.hot.get(request.path())
            && self.store.ready(entry, self.second).is_some()
        {
            self.counters.cache_hits += 1;
            self.respond_content(net, id, request, entry);
            return true;
        }
        let entry = match self.store.find(request.path()) {
            Ok(entry) => entry,
            Err(NoEntry::Refused(_)) => {
                self.error(net, id, Some(request), Status::BAD_REQUEST, true);
                return true;
            }
            Err(NoEntry::Full(_)) => return self.overloaded(net, id, request),
        };
        let more = self.conns[id.index()].more.as_mut();
        let waited = more.is_some_and(|more| more.wait.take() == Some(entry));
        match self.store.freshness(entry, net.now()) {
            // However long the look took: its answer is for those who waited.
            _ if waited => {}
            Freshness::Fresh => {}
            // If the reader has too much to do, the next request asks again.
            Freshness::Check => _ = self.ask(net, entry),
            // Old, but there is nothing newer to be had.
            Freshness::Wait if self.hangs && self.store.entry(entry).is_in_memory() => {
                self.counters.stale += 1;
                _ = self.ask(net, entry);
            }
            Freshness::Wait => return self.park(net, id, request, entry),
        }
        if !waited {
            self.counters.cache_hits += 1;
            self.store.mark_used(entry);
        }
        match &self.store.entry(entry).kind {
            Kind::Content(_) => {
                self.store.refresh(entry, self.second, &self.date);
                self.store.hot.insert(request.path(), entry);
                self.respond_content(net, id, request, entry);
            }
            Kind::Large { .. } => self.respond_large(net, id, request, entry),
            Kind::Directory => self.redirect(net, id, request, entry),
            Kind::Missing => self.error(net, id, Some(request), Status::NOT_FOUND, true),
            Kind::Forbidden => self.error(net, id, Some(request), Status::FORBIDDEN, true),
            // `Unknown` always waits.
            Kind::Failed | Kind::Unknown => {
                self.error(net, id, Some(request), Status::INTERNAL_SERVER_ERROR, true);
            }
        }
        true
    }

    /// The status for a method that is not served.
    fn refused(&self, method: Method) -> Option<Status> {
        match method {
            Method::Get | Method::Head => None,
            // RFC 9110 §9.1: unknown anywhere, as against not allowed here.
            Method::Other => Some(Status::NOT_IMPLEMENTED),
            Method::Connect | Method::Trace => Some(Status::METHOD_NOT_ALLOWED),
            _ if self.fixed.is_some() => None,
            Method::Options => None,
            _ => Some(Status::METHOD_NOT_ALLOWED),
        }
    }

    /// The request waits until the reader knows more of `entry`.
    fn park<N: Net>(&mut self, net: &mut N, id: ConnId, request: &Request<'_>, entry: EntryId) -> bool {
        let found = self.store.entry(entry);
        if found.waiters.len() >= self.limits.waiting {
            let mut waiters = core::mem::take(&mut found.waiters);
            waiters.retain(|&waiter| self.conn(waiter).is_some_and(|conn| conn.state == State::Waiting));
            self.store.entry(entry).waiters = waiters;
        }
        let full = self.store.entry(entry).waiters.len() >= self.limits.waiting;
        self.looks_ahead = !self.store.entry(entry).is_asked();
        if full || self.store.is_clogged() || !self.ask(net, entry) {
            return self.overloaded(net, id, request);
        }
        self.store.entry(entry).waiters.push(id);
        self.counters.cache_misses += 1;
        self.working += 1;
        let conn = &mut self.conns[id.index()];
        conn.state = State::Waiting;
        conn.last = Tick::of(net.now());
        conn.more().wait = Some(entry);
        false
    }

    /// Has the reader look for what the requests behind a waiting one ask for,
    /// `rest`: with one look at a time, each would wait for the reader's thread
    /// and for ours. They are read again when it is their turn.
    pub(crate) fn look_ahead<N: Net>(&mut self, net: &N, id: ConnId, mut rest: &[u8]) {
        let conn = &self.conns[id.index()];
        if conn.state != State::Waiting {
            return;
        }
        let mut engine = conn.engine;
        for _ in 0..AHEAD {
            let Event::Request { request, transfer, consumed } = engine.on_bytes(rest, &self.http_limits) else {
                return;
            };
            let reads = matches!(request.method(), Method::Get | Method::Head);
            if !reads || !matches!(transfer.framing(), Framing::None) {
                return;
            }
            rest = rest.get(consumed..).unwrap_or_default();
            // One that is refused needs no look.
            let Ok(entry) = self.store.find(request.path()) else { continue };
            if self.store.freshness(entry, net.now()) == Freshness::Wait && !self.ask(net, entry) {
                return;
            }
        }
    }

    /// Has the reader look at `entry`, unless it does. False if it has enough
    /// to do.
    fn ask<N: Net>(&mut self, net: &N, entry: EntryId) -> bool {
        if self.store.entry(entry).is_asked() {
            return true;
        }
        let Some(reader) = &mut self.reader else { return false };
        if self.store.asked >= self.limits.waiting {
            return false;
        }
        let Some((key, known)) = self.store.ask(entry, net.now()) else { return false };
        reader.submit(Job::LookUp { entry, key, known, now: self.second });
        true
    }

    /// The reader found where `entry` leads: those who waited go on.
    pub(crate) fn on_found<N: Net>(&mut self, net: &mut N, entry: EntryId, found: Found) {
        self.counters.file_errors += u64::from(matches!(found, Found::Failed));
        let (waiters, changed) = self.store.on_found(entry, found);
        self.counters.cache_refreshes += u64::from(changed);
        // Those who waited may have come after a reload, which is not what was
        // looked at.
        if self.store.take_early(entry) && !waiters.is_empty() && self.ask(net, entry) {
            self.store.entry(entry).waiters = waiters;
            return;
        }
        for id in waiters {
            self.go_on(net, id, entry);
        }
    }

    /// The file system hangs, or does no longer. Those who wait for a look at
    /// what is in memory get it as it is.
    #[cold]
    pub(crate) fn on_hang<N: Net>(&mut self, net: &mut N) {
        self.hangs = !self.hangs;
        if !self.hangs {
            return;
        }
        self.counters.file_hangs += 1;
        for (entry, waiters) in self.store.take_waiters() {
            self.counters.stale += waiters.len() as u64;
            for id in waiters {
                self.go_on(net, id, entry);
            }
        }
    }

    fn go_on<N: Net>(&mut self, net: &mut N, id: ConnId, entry: EntryId) {
        let Some(conn) = self.conn(id) else { return };
        let waits = conn.state == State::Waiting && conn.more.as_ref().is_some_and(|more| more.wait == Some(entry));
        if !waits {
            return;
        }
        conn.state = State::Ready;
        conn.last = Tick::of(net.now());
        let request = conn.more.as_mut().and_then(|more| more.request.take());
        self.working -= 1;
        if let Some(request) = request {
            self.respond_to(net, id, request);
        }
        self.offer_again(net, id);
    }

    /// The reader does not answer: a disk or a server behind it hangs.
    pub(crate) fn give_up_waiting<N: Net>(&mut self, net: &mut N, id: ConnId) {
        self.counters.timeouts_file += 1;
        self.working -= 1;
        let conn = &mut self.conns[id.index()];
        conn.state = State::Ready;
        if let Some(request) = conn.more.take().and_then(|more| more.request) {
            self.error(net, id, Some(&request.get()), Status::SERVICE_UNAVAILABLE, true);
        }
        self.offer_again(net, id);
    }

    /// A response is done: the next request, if it came already, is next.
    pub(crate) fn offer_again<N: Net>(&mut self, net: &mut N, id: ConnId) {
        if self.conns[id.index()].state == State::Ready {
            net.resume(id);
        }
    }

    /// A file that has to be read was not what it was when it was found, and
    /// nothing was sent yet: looked up once more.
    pub(crate) fn respond_anew<N: Net>(&mut self, net: &mut N, id: ConnId, outcome: ReadOutcome) {
        let conn = &mut self.conns[id.index()];
        conn.state = State::Ready;
        let Some(more) = &mut conn.more else { return };
        let again = outcome == ReadOutcome::Changed && !core::mem::replace(&mut more.again, true);
        let Some(request) = more.request.take() else { return };
        if again {
            self.store.forget(request.get().path());
            self.respond_to(net, id, request);
        } else {
            self.counters.file_errors += 1;
            self.error(net, id, Some(&request.get()), Status::SERVICE_UNAVAILABLE, true);
        }
        self.offer_again(net, id);
    }

    /// Content in memory.
    fn respond_content<N: Net>(&mut self, net: &mut N, id: ConnId, request: &Request<'_>, entry: EntryId) {
        let ending = self.ending(id);
        let Kind::Content(meta) = &self.store.entry(entry).kind else { return };
        let selected = select(meta, request, self.second);
        if let Selected::Whole = selected {
            self.respond_whole(net, id, request, entry, ending);
            return;
        }
        let mut head = core::mem::take(&mut self.scratch);
        let Kind::Content(meta) = &self.store.entry(entry).kind else { return };
        let (size, boundary) = (meta.size, self.serial);
        self.serial = self.serial.wrapping_add(1);
        let begin = Begin { server_header: self.server_header, date: self.date, ending };
        let composed = compose(&mut head, meta, selected, boundary, begin);
        match composed {
            Ok((status, parts)) => {
                net.send_bytes(id, &head);
                let mut sent = 0;
                if let Some(prepared) = self.store.entry(entry).prepared() {
                    sent = send_parts(net, id, prepared, &parts);
                }
                self.answered(net, id, Some(request), status, head.len(), sent, ending.keep_alive());
            }
            Err(status) => self.error_of(net, id, Some(request), status, ending.keep_alive(), size),
        }
        head.clear();
        self.scratch = head;
    }

    /// The prepared response, or its head, with what it says of the connection.
    fn respond_whole<N: Net>(
        &mut self,
        net: &mut N,
        id: ConnId,
        request: &Request<'_>,
        entry: EntryId,
        ending: Ending,
    ) {
        let Some(prepared) = self.store.entry(entry).prepared() else { return };
        let head_len = prepared.head_len;
        let body = request.method() != Method::Head;
        let mut bytes = head_len as usize;
        let mut sent = 0;
        match connection_line(ending) {
            b"" => {
                let end = if body { prepared.message_len } else { head_len };
                net.send_body(id, &prepared.message, 0..end);
                sent += (end - head_len) as usize;
            }
            line => {
                // In front of the empty line.
                let fields = prepared.message.as_slice().get(..head_len as usize - 2).unwrap_or_default();
                self.scratch.clear();
                self.scratch.extend_from_slice(fields);
                self.scratch.extend_from_slice(line);
                self.scratch.extend_from_slice(b"\r\n");
                net.send_bytes(id, &self.scratch);
                bytes = self.scratch.len();
                let Some(prepared) = self.store.entry(entry).prepared() else { return };
                if body {
                    net.send_body(id, &prepared.message, head_len..prepared.message_len);
                    sent += (prepared.message_len - head_len) as usize;
                }
            }
        }
        if let Some(content) = self.store.entry(entry).prepared().and_then(|prepared| prepared.content.as_ref())
            && body
        {
            net.send_body(id, content, 0..content.len());
            sent += content.len() as usize;
        }
        self.answered(net, id, Some(request), Status::OK, bytes, sent as u64, ending.keep_alive());
    }

    /// A file that is streamed.
    fn respond_large<N: Net>(&mut self, net: &mut N, id: ConnId, request: &Request<'_>, entry: EntryId) {
        let ending = self.ending(id);
        let Kind::Large { meta, .. } = &self.store.entry(entry).kind else { return };
        let (size, selected) = (meta.size, select(meta, request, self.second));
        let boundary = self.serial;
        self.serial = self.serial.wrapping_add(1);
        let mut head = Vec::with_capacity(512);
        let Kind::Large { meta, .. } = &self.store.entry(entry).kind else { return };
        let begin = Begin { server_header: self.server_header, date: self.date, ending };
        let composed = compose(&mut head, meta, selected, boundary, begin);
        match composed {
            Ok((status, parts)) if request.method() == Method::Head || parts.is_empty() => {
                net.send_bytes(id, &head);
                self.answered(net, id, Some(request), status, head.len(), 0, ending.keep_alive());
            }
            Ok(_) if self.counters.streams_open >= self.limits.streams as u64 => {
                self.overloaded(net, id, request);
            }
            Ok((status, parts)) => {
                self.begin_stream(net, id, request, entry, (status, head, parts), ending.keep_alive())
            }
            Err(status) => self.error_of(net, id, Some(request), status, ending.keep_alive(), size),
        }
    }

    /// RFC 9110 §9.3.7.
    fn respond_options<N: Net>(&mut self, net: &mut N, id: ConnId, request: &Request<'_>) {
        let ending = self.ending(id);
        let mut head = core::mem::take(&mut self.scratch);
        head.clear();
        head::start(&mut head, Status::NO_CONTENT, self.server_header, self.date)
            .field("Allow", ALLOW_FILES)
            .connection(ending.version(), ending.keep_alive())
            .end();
        net.send_bytes(id, &head);
        self.answered(net, id, Some(request), Status::NO_CONTENT, head.len(), 0, ending.keep_alive());
        self.scratch = head;
    }

    /// A directory was asked for without its slash: relative links in its
    /// index file would lead to its parent.
    fn redirect<N: Net>(&mut self, net: &mut N, id: ConnId, request: &Request<'_>, entry: EntryId) {
        let mut location = Vec::new();
        target::encode_directory(self.store.entry(entry).path(), &mut location);
        if let Some(query) = request.query() {
            location.push(b'?');
            location.extend_from_slice(query);
        }
        self.short(net, id, Some(request), Status::MOVED_PERMANENTLY, true, |head| head.field("Location", &location));
    }

    /// At a limit of ours: 503, and a moment's rest. Always true: answered.
    pub(crate) fn overloaded<N: Net>(&mut self, net: &mut N, id: ConnId, request: &Request<'_>) -> bool {
        self.counters.overloads += 1;
        self.error(net, id, Some(request), Status::SERVICE_UNAVAILABLE, true);
        true
    }

    /// What came cannot be understood, or did not come: told, and closed.
    pub(crate) fn reject<N: Net>(&mut self, net: &mut N, id: ConnId, status: Status, sent: &[u8]) {
        let body = page(status).len() as u64;
        if let Some(log) = &mut self.log {
            let request = sent.split(|&byte| byte == b'\r' || byte == b'\n').next().unwrap_or_default();
            let request = if request.is_empty() { b"-" } else { request };
            let line = Line { peer: net.peer(id), request, status: status.code(), referer: None, agent: None };
            log.line(&line, body, net.now());
        }
        self.error(net, id, None, status, false);
    }

    /// A request that cannot be served.
    pub(crate) fn error<N: Net>(
        &mut self,
        net: &mut N,
        id: ConnId,
        request: Option<&Request<'_>>,
        status: Status,
        keep_alive: bool,
    ) {
        self.error_of(net, id, request, status, keep_alive, 0);
    }

    fn error_of<N: Net>(
        &mut self,
        net: &mut N,
        id: ConnId,
        request: Option<&Request<'_>>,
        status: Status,
        keep_alive: bool,
        size: u64,
    ) {
        self.short(net, id, request, status, keep_alive, |head| match status {
            // RFC 9110 §15.5.6: must say what is allowed.
            Status::METHOD_NOT_ALLOWED => head.field("Allow", ALLOW_FILES),
            // RFC 9110 §15.5.17: should say how much there is.
            Status::RANGE_NOT_SATISFIABLE => head.content_range_unsatisfied(size),
            Status::SERVICE_UNAVAILABLE => head.field("Retry-After", b"1"),
            _ => head,
        });
    }

    /// A response with a page of our own.
    fn short<N: Net>(
        &mut self,
        net: &mut N,
        id: ConnId,
        request: Option<&Request<'_>>,
        status: Status,
        keep_alive: bool,
        fields: impl for<'s> FnOnce(response::Head<'s, Vec<u8>>) -> response::Head<'s, Vec<u8>>,
    ) {
        let method = request.map_or(Method::Get, |request| request.method());
        let ending = match request {
            Some(_) => self.ending(id).and(keep_alive),
            None => Ending::GOES_ON.and(keep_alive && self.goes_on(id)),
        };
        let (version, keep_alive) = (ending.version(), ending.keep_alive());
        let page = page(status);
        let mut out = core::mem::take(&mut self.scratch);
        out.clear();
        let head = head::start(&mut out, status, self.server_header, self.date)
            .field("Content-Type", b"text/html; charset=utf-8")
            .content_length(page.len() as u64);
        fields(head).connection(version, keep_alive).end();
        let head_len = out.len();
        if method != Method::Head {
            out.extend_from_slice(page.as_bytes());
        }
        net.send_bytes(id, &out);
        self.answered(net, id, request, status, head_len, (out.len() - head_len) as u64, keep_alive);
        self.scratch = out;
    }

    /// Bytes that are no response of their own.
    pub(crate) fn send<N: Net>(&mut self, net: &mut N, id: ConnId, bytes: &[u8]) {
        net.send_bytes(id, bytes);
        let conn = &mut self.conns[id.index()];
        conn.queued = conn.queued.wrapping_add(bytes.len() as u32);
        self.counters.bytes_queued += bytes.len() as u64;
    }

    /// A response is queued, `head` and `body` bytes of it.
    #[allow(
        clippy::too_many_arguments,
        reason = "one record of what was sent; a struct for it would be built field by field"
    )]
    fn answered<N: Net>(
        &mut self,
        net: &mut N,
        id: ConnId,
        request: Option<&Request<'_>>,
        status: Status,
        head: usize,
        body: u64,
        keep_alive: bool,
    ) {
        let now = net.now();
        self.count(status, request.is_some());
        let bytes = head as u64 + body;
        self.counters.bytes_queued += bytes;
        let conn = &mut self.conns[id.index()];
        conn.queued = conn.queued.wrapping_add(bytes as u32);
        conn.requests = conn.requests.saturating_add(1);
        conn.last = Tick::of(now);
        if let (Some(log), Some(request)) = (&mut self.log, request) {
            log.line(&line(net, id, request, status), body, now);
        }
        self.response_over(net, id, keep_alive);
    }

    /// The last byte of a response is queued: on to the next, or the end.
    pub(crate) fn response_over<N: Net>(&mut self, net: &mut N, id: ConnId, keep_alive: bool) {
        let conn = &mut self.conns[id.index()];
        conn.state = State::Ready;
        conn.more = None;
        if !keep_alive || conn.flags & DRY != 0 {
            self.close_after_queue(net, id);
        } else if bytes_waiting(net, id) {
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

    /// What the response that is due says of the connection.
    fn ending(&self, id: ConnId) -> Ending {
        self.conns[id.index()].ending.and(self.goes_on(id))
    }

    /// Whether the connection serves another request after this one.
    fn goes_on(&self, id: ConnId) -> bool {
        self.conns[id.index()].requests.saturating_add(1) < self.requests_max
    }
}

/// Whether the connection's engine stands where it would after either.
fn ends_alike(one: &Transfer, other: &Transfer) -> bool {
    one.framing() == other.framing() && one.keep_alive() == other.keep_alive()
}

/// Which response `request` gets for content that exists: preconditions
/// first, then ranges (RFC 9110 §13.2.2).
fn select(meta: &Meta, request: &Request<'_>, now: u64) -> Selected {
    if request.is_plain() {
        return Selected::Whole;
    }
    let validators = Validators {
        etag: meta.file.as_ref().map(|file| file.etag.as_bytes()),
        last_modified: meta.file.as_ref().map(|file| file.modified),
    };
    match evaluate(request.method(), &request.preconditions(), &validators, now) {
        Verdict::NotModified => Selected::NotModified,
        Verdict::PreconditionFailed => Selected::PreconditionFailed,
        Verdict::ProceedWhole => Selected::Whole,
        // RFC 9110 §14.2: a Range field is for GET only.
        Verdict::Proceed if request.method() == Method::Get && meta.file.is_some() => match request.range() {
            Some(range) => match semantics::range::parse(range, meta.size) {
                Ranges::Whole => Selected::Whole,
                Ranges::Partial(parts) => Selected::Partial(parts),
                Ranges::Unsatisfiable => Selected::Unsatisfiable,
            },
            None => Selected::Whole,
        },
        Verdict::Proceed => Selected::Whole,
    }
}

/// Writes the head of the selected response and lists its body's parts; or
/// says which error it is.
fn compose(
    out: &mut Vec<u8>,
    meta: &Meta,
    selected: Selected,
    boundary: u32,
    begin: Begin,
) -> Result<(Status, VecDeque<Part>), Status> {
    out.clear();
    match selected {
        Selected::PreconditionFailed => Err(Status::PRECONDITION_FAILED),
        Selected::Unsatisfiable => Err(Status::RANGE_NOT_SATISFIABLE),
        Selected::NotModified => {
            head::validators(begin.head(out, Status::NOT_MODIFIED), meta).end();
            Ok((Status::NOT_MODIFIED, VecDeque::new()))
        }
        Selected::Whole => {
            let head = begin
                .head(out, Status::OK)
                .field("Content-Type", meta.content_type.as_bytes())
                .content_length(meta.size)
                .field("Accept-Ranges", b"bytes");
            head::validators(head, meta).end();
            let parts = if meta.size == 0 { VecDeque::new() } else { [Part::Content(0..meta.size)].into() };
            Ok((Status::OK, parts))
        }
        Selected::Partial(ranges) => match ranges.single() {
            Some(range) => {
                let head = begin
                    .head(out, Status::PARTIAL_CONTENT)
                    .field("Content-Type", meta.content_type.as_bytes())
                    .content_length(range.end - range.start)
                    .content_range(&range, meta.size);
                head::validators(head, meta).end();
                Ok((Status::PARTIAL_CONTENT, [Part::Content(range)].into()))
            }
            None => {
                let (boundary, parts, length) = multipart(meta, &ranges, boundary);
                let head = begin
                    .head(out, Status::PARTIAL_CONTENT)
                    .field("Content-Type", &[b"multipart/byteranges; boundary=", boundary.as_slice()].concat())
                    .content_length(length);
                head::validators(head, meta).end();
                Ok((Status::PARTIAL_CONTENT, parts))
            }
        },
    }
}

/// The body of several ranges (RFC 9110 §14.6), its boundary and its length.
fn multipart(meta: &Meta, ranges: &Parts, serial: u32) -> (Vec<u8>, VecDeque<Part>, u64) {
    let boundary = format!("{serial:020}").into_bytes();
    let mut parts = VecDeque::with_capacity(2 * ranges.len() + 1);
    let mut length = 0;
    let mut bytes = |parts: &mut VecDeque<Part>, bytes: Vec<u8>, content: u64| {
        length += bytes.len() as u64 + content;
        parts.push_back(Part::Bytes(bytes));
    };
    for range in ranges.iter() {
        let delimiter = format!(
            "\r\n--{serial:020}\r\nContent-Type: {}\r\nContent-Range: bytes {}-{}/{}\r\n\r\n",
            meta.content_type,
            range.start,
            range.end - 1,
            meta.size
        );
        bytes(&mut parts, delimiter.into_bytes(), range.end - range.start);
        parts.push_back(Part::Content(range));
    }
    bytes(&mut parts, format!("\r\n--{serial:020}--\r\n").into_bytes(), 0);
    (boundary, parts, length)
}

/// Queues parts of content in memory; how many bytes.
fn send_parts<N: Net>(net: &mut N, id: ConnId, prepared: &Prepared, parts: &VecDeque<Part>) -> u64 {
    let (body, base) = match &prepared.content {
        Some(content) => (content, 0),
        None => (&prepared.message, prepared.head_len),
    };
    let mut sent = 0;
    for part in parts {
        match part {
            Part::Bytes(bytes) => {
                net.send_bytes(id, bytes);
                sent += bytes.len() as u64;
            }
            Part::Content(range) => {
                // Content in memory is below 4 GiB.
                net.send_body(id, body, base + range.start as u32..base + range.end as u32);
                sent += range.end - range.start;
            }
        }
    }
    sent
}

/// What [`response::Head::connection`] writes.
const fn connection_line(ending: Ending) -> &'static [u8] {
    match (ending.version(), ending.keep_alive()) {
        (Version::Http11, true) | (Version::Http10, false) => b"",
        (Version::Http11, false) => b"Connection: close\r\n",
        (Version::Http10, true) => b"Connection: keep-alive\r\n",
    }
}

/// Whether more is queued than a peer takes at once.
fn bytes_waiting<N: Net>(net: &N, id: ConnId) -> bool {
    net.unsent(id) > app::SEND_LOW_WATER
}

fn page(status: Status) -> String {
    let (code, reason) = (status.code(), status.reason());
    format!("<!DOCTYPE html>\n<title>{code} {reason}</title>\n<h1>{code} {reason}</h1>\n")
}
