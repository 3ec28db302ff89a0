//! The short way: a plain GET for content that is ready, on a connection that
//! goes on or with it ends. No allocation, no lock, no system call; no timer
//! but for a connection's last request.

use crate::answering::{H1Replies, ending};
use crate::protocol::{H1, MISSES_MAX};
use app::{ConnId, Net};
use connections::{Asking, Connections, FINISHED, Head, MARKED, State, Tick, page::line, record_ready, trace};
use core::cell::OnceCell;
use core::hint::cold_path;
use exchange::{Ending, Handler, Ready, ReadySent};
use h1::Framing;
use h1::server::{Plain, Transfer};
use semantics::{Form, Known, Method, Request, Status};
use wire::Time;

impl<H> H1<H> {
    /// Whether heads are parsed as a whole at once follows from who is told of requests, and from what was ready.
    #[inline(always)]
    pub(crate) fn settle_parsing(&mut self) {
        self.connections.parses_all = self.connections.tells_all || self.misses == MISSES_MAX;
    }

    /// Plain heads are looked at anew: something may be ready for them.
    pub fn forget_misses(&mut self) {
        self.misses = 0;
        self.settle_parsing();
    }

    /// Nothing was ready for a plain head.
    #[inline]
    pub(crate) fn miss(&mut self) {
        self.has_missed = true;
        self.misses = self.misses.saturating_add(1).min(MISSES_MAX);
        self.settle_parsing();
    }

    /// Something was ready, for a plain head or one that was parsed as a whole.
    #[inline(always)]
    pub(crate) fn hit(&mut self) {
        if self.misses > 0 {
            cold_path();
            self.forget_misses();
        }
    }
}

impl<H: Handler> H1<H> {
    /// Answers the plain head that `data` begins with, if its content is ready.
    /// Returns its length; 0 if it takes another way.
    #[inline(always)]
    pub fn serve_plain<N: Net>(&mut self, net: &mut N, id: ConnId, data: &[u8], now: Time) -> usize {
        let connections = &mut self.connections;
        let Some(conn) = connections.conns.get_mut(id.index()) else { return 0 };
        // A log of our own tells more of a request than its path, as a tracer does; and where nothing was ready for
        // others, heads are looked at once.
        if conn.state != State::Ready || conn.flags & !MARKED != 0 || connections.parses_all {
            return 0;
        }
        let Some(plain) = conn.engine.plain(data, &connections.terms.plain) else { return 0 };
        // What follows is `serve_known` for the most frequent of what is ready.
        let Some(ready) = self.handler.ready(plain.path(data), || plain.host_name(data), connections.second) else {
            cold_path();
            return self.serve_plain_for(net, id, (plain, data), now);
        };
        if !plain.keep_alive() || ready.content.is_some() || conn.requests.wrapping_add(1) >= connections.requests_max {
            let used = self.serve_other_plain(net, id, &PlainHead::new(plain, data), now);
            return if used { plain.len() } else { 0 };
        }
        if !net.reply(id, &ready.message, connections.unsent_max) {
            return 0;
        }
        let bytes = ready.message_len;
        conn.engine.pass(true);
        conn.last = Tick::of(now);
        conn.queued = conn.queued.wrapping_add(bytes);
        conn.requests += 1;
        connections.ready += 1;
        connections.counters.bytes_queued += u64::from(bytes);
        record_ready(&mut connections.recorder, &connections.series, ready.series, bytes, now);
        if bytes as usize > app::SEND_LOW_WATER {
            cold_path();
            connections.watch_long(net, id);
        }
        plain.len()
    }

    /// As [`H1::serve_plain`], where what is ready depends on more than the
    /// path. A function of its own, so that all that the other needs stays in
    /// registers.
    #[inline(never)]
    fn serve_plain_for<N: Net>(&mut self, net: &mut N, id: ConnId, (plain, data): (Plain, &[u8]), now: Time) -> usize {
        let head = &PlainHead::new(plain, data);
        let connections = &mut self.connections;
        let Some(ready) = self
            .handler
            .ready_for(&Asking { head, net: &*net, id, security: &connections.security }, connections.second)
        else {
            self.miss();
            return 0;
        };
        let last = connections
            .conns
            .get(id.index())
            .is_none_or(|conn| conn.requests.wrapping_add(1) >= connections.requests_max);
        if !plain.keep_alive() || ready.content.is_some() || last {
            let used = self.serve_other_plain(net, id, head, now);
            return if used { plain.len() } else { 0 };
        }
        let Some(bytes) = reply_plain(connections, net, id, ready, now) else { return 0 };
        if bytes as usize > app::SEND_LOW_WATER {
            connections.watch_long(net, id);
        }
        if connections.notes_ready {
            self.note_plain(net, id, head, None, u64::from(bytes));
        }
        plain.len()
    }

    /// [`H1::serve_plain`] for what is ready, but the connection ends with
    /// it, or it is in two pieces. Whether it was answered.
    #[inline(never)]
    fn serve_other_plain<N: Net>(&mut self, net: &mut N, id: ConnId, head: &PlainHead<'_>, now: Time) -> bool {
        let goes_on = head.plain.keep_alive();
        if net.unsent(id) >= self.connections.unsent_max {
            return false;
        }
        let ending = Ending::new(false, goes_on).saying(self.connections.common.persistence);
        let (bytes, head_len) = self.serve_known(net, id, head, ending, now);
        if bytes == 0 {
            return false;
        }
        if self.connections.notes_ready {
            self.note_plain(net, id, head, Some(head_len as u64), bytes as u64);
        }
        if let Some(conn) = self.connections.conns.get_mut(id.index()) {
            conn.engine.pass(goes_on);
        }
        true
    }

    /// Answers a plain GET for content that is ready. Returns the bytes
    /// queued; 0 if it takes the long way.
    #[inline(always)]
    pub(crate) fn serve_ready<N: Net>(
        &mut self,
        net: &mut N,
        id: ConnId,
        request: &Request<'_>,
        transfer: &Transfer,
        now: Time,
    ) -> usize {
        let ending = ending(transfer, self.connections.common.persistence);
        // Whether a host in a target is one is for the handler to say.
        let plain = request.method() == Method::Get
            && request.form() == Form::Origin
            && request.is_plain()
            && (!ending.is_http10() || !ending.goes_on())
            && matches!(transfer.framing(), Framing::None);
        if !plain {
            return 0;
        }
        let (bytes, head) = self.serve_parsed(net, id, request, ending, now);
        if bytes == 0 {
            return 0;
        }
        self.hit();
        if self.connections.notes_ready {
            self.note_ready(net, id, request, (Some(head as u64), bytes as u64));
        }
        if self.connections.tells_all {
            self.tell_of_ready(net, id, request, (head, bytes), now);
        }
        bytes
    }

    /// [`H1::serve_known`] for heads that were parsed as a whole.
    #[inline(never)]
    fn serve_parsed<N: Net>(
        &mut self,
        net: &mut N,
        id: ConnId,
        what: impl Head,
        ending: Ending,
        now: Time,
    ) -> (usize, usize) {
        self.serve_known(net, id, what, ending, now)
    }

    /// Queues what is ready for a path. Returns the bytes queued, and
    /// those of the head; 0 if it is not ready, or a connection that would go
    /// on may not.
    #[inline(always)]
    fn serve_known<N: Net>(
        &mut self,
        net: &mut N,
        id: ConnId,
        asked: impl Head,
        ending: Ending,
        now: Time,
    ) -> (usize, usize) {
        let connections = &mut self.connections;
        let Some(conn) = connections.conns.get_mut(id.index()) else { return (0, 0) };
        if ending.goes_on() && conn.requests.wrapping_add(1) >= connections.requests_max {
            return (0, 0);
        }
        let asking = Asking { head: asked, net: &*net, id, security: &connections.security };
        let Some(ready) = self.handler.ready_for(&asking, connections.second) else { return (0, 0) };
        let (message, len) = match (ending.says_close(), &ready.closing) {
            (false, _) => (&ready.message, ready.message_len),
            (true, Some(closing)) => (closing, closing.len()),
            (true, None) => return self.serve_closing(net, id, asked, ending, now),
        };
        let mut bytes = len as usize;
        let (head, series, terms) = (ready.head_len(ending), ready.series, ready.terms);
        net.send_body(id, message, 0..len);
        if let Some(content) = &ready.content {
            cold_path();
            net.send_body(id, content, 0..content.len());
            bytes += content.len() as usize;
        }
        conn.last = Tick::of(now);
        conn.queued = conn.queued.wrapping_add(bytes as u32);
        conn.requests = conn.requests.saturating_add(1);
        connections.ready += 1;
        connections.counters.bytes_queued += bytes as u64;
        let changes = conn.terms.exchange() != terms;
        record_ready(&mut connections.recorder, &connections.series, series, bytes as u32, now);
        if !ending.goes_on() {
            // The client said so: nothing follows its request.
            conn.flags |= FINISHED;
        }
        if changes {
            connections.change_terms(net, id, terms);
        }
        if !ending.goes_on() {
            cold_path();
            net.close(id);
            connections.close_after_queue(net, id);
        } else if bytes > app::SEND_LOW_WATER {
            cold_path();
            connections.watch_long(net, id);
        }
        (bytes, head)
    }

    /// The first in a long time that asks for the connection to be closed:
    /// makes the message that says so, and answers with it.
    #[cold]
    #[inline(never)]
    fn serve_closing<N: Net>(
        &mut self,
        net: &mut N,
        id: ConnId,
        asked: impl Head,
        ending: Ending,
        now: Time,
    ) -> (usize, usize) {
        let asking = Asking { head: asked, net: &*net, id, security: &self.connections.security };
        let made = self.handler.make_closing(&asking);
        if made { self.serve_parsed(net, id, asked, ending, now) } else { (0, 0) }
    }
}

/// A plain one, and where it was found.
struct PlainHead<'a> {
    plain: Plain,
    data: &'a [u8],
    /// What is in it, once that was looked for.
    request: OnceCell<Request<'a>>,
}

impl<'a> PlainHead<'a> {
    #[inline(always)]
    const fn new(plain: Plain, data: &'a [u8]) -> Self {
        Self { plain, data, request: OnceCell::new() }
    }

    #[inline]
    fn request(&self) -> &Request<'a> {
        self.request.get_or_init(|| self.plain.request(self.data))
    }
}

impl Head for &PlainHead<'_> {
    fn is_http10(&self) -> bool {
        false
    }

    #[inline(always)]
    fn path(&self) -> &[u8] {
        self.plain.path(self.data)
    }

    fn has_query(&self) -> bool {
        self.plain.has_query(self.data)
    }

    #[inline]
    fn authority(&self) -> &[u8] {
        self.plain.host(self.data)
    }

    fn known(&self, field: Known) -> Option<&[u8]> {
        (*self.request()).known(field)
    }
}

impl<H: Handler> H1<H> {
    /// As [`H1::note_ready`], of a plain head.
    #[inline(never)]
    fn note_plain<N: Net>(&mut self, net: &mut N, id: ConnId, head: &PlainHead<'_>, head_len: Option<u64>, bytes: u64) {
        self.note_ready(net, id, head.request(), (head_len, bytes));
    }

    /// Tells a handler of what it had ready.
    #[inline(never)]
    fn note_ready<N: Net>(&mut self, net: &mut N, id: ConnId, request: &Request<'_>, sent: (Option<u64>, u64)) {
        let exchange = self.connections.exchange_of(id);
        let sent = ReadySent { peer: net.peer(id), head: sent.0, bytes: sent.1 };
        let mut replies = H1Replies { net, connections: &mut self.connections, within: Some(id), series: None };
        self.handler.on_ready_sent(&mut replies, exchange, request, &sent);
    }
}

/// Answers with what is ready, as one slice, on a connection that goes on. The
/// bytes; nothing if there is no room.
#[inline(always)]
fn reply_plain<N: Net>(
    connections: &mut Connections,
    net: &mut N,
    id: ConnId,
    ready: &Ready,
    now: Time,
) -> Option<u32> {
    let conn = connections.conns.get_mut(id.index())?;
    if !net.reply(id, &ready.message, connections.unsent_max) {
        return None;
    }
    let bytes = ready.message_len;
    conn.engine.pass(true);
    conn.last = Tick::of(now);
    conn.queued = conn.queued.wrapping_add(bytes);
    conn.requests += 1;
    connections.ready += 1;
    connections.counters.bytes_queued += u64::from(bytes);
    let changes = conn.terms.exchange() != ready.terms;
    record_ready(&mut connections.recorder, &connections.series, ready.series, bytes, now);
    if changes {
        connections.change_terms(net, id, ready.terms);
    }
    Some(bytes)
}

impl<H> H1<H> {
    /// What was ready was sent: for the log, and for who traces requests.
    #[inline(never)]
    fn tell_of_ready<N: Net>(
        &mut self,
        net: &N,
        id: ConnId,
        request: &Request<'_>,
        (head, bytes): (usize, usize),
        now: Time,
    ) {
        let connections = &mut self.connections;
        if let Some(log) = &mut connections.log {
            let line = line(net, id, request, Status::OK);
            log.line(&line, bytes.saturating_sub(head) as u64, now);
        }
        trace::ready(&connections.beginnings, id, request, bytes as u64);
    }
}
