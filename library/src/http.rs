//! An HTTP/1.1 service: requests in, replies out.

use app::{App, Closed, ConnId, Net, Opened, SEND_LOW_WATER};
use core::fmt;
use core::time::Duration;
use h1::response::Head;
use h1::server::{Engine, Event, Limits, Timeouts, Transfer, Waiting};
use h1::{Framing, Version};
use semantics::date::HttpDate;
use semantics::{Method, OwnedRequest, Request, Status};
use silo::Clock;
use wire::Time;

/// What answers requests.
pub trait Service {
    /// A request, with all of its body; the reply is sent when this returns.
    /// Whoever sends nothing but [`Reply::status`] has an empty body.
    fn on_request(&mut self, request: &Request<'_>, body: &[u8], reply: &mut Reply);
}

impl<F: FnMut(&Request<'_>, &[u8], &mut Reply)> Service for F {
    fn on_request(&mut self, request: &Request<'_>, body: &[u8], reply: &mut Reply) {
        self(request, body, reply);
    }
}

/// A reply: 200 with an empty body, until something else is said.
#[derive(Debug)]
pub struct Reply {
    status: Status,
    fields: Vec<u8>,
    body: Vec<u8>,
}

/// A field that no head may have: its name is no token, or its value has CR, LF
/// or NUL in it (RFC 9110 sections 5.1 and 5.5).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BadField;

impl fmt::Display for BadField {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the field's name is no token, or its value has CR, LF or NUL in it")
    }
}

impl core::error::Error for BadField {}

impl Reply {
    const fn new() -> Self {
        Self { status: Status::OK, fields: Vec::new(), body: Vec::new() }
    }

    fn clear(&mut self) {
        self.status = Status::OK;
        self.fields.clear();
        self.body.clear();
    }

    /// Answers with this status.
    pub const fn status(&mut self, status: Status) -> &mut Self {
        self.status = status;
        self
    }

    /// Adds a field. `Date`, `Content-Length` and `Connection` are written
    /// anyway.
    ///
    /// # Errors
    /// If no head may have it; then it is not added.
    pub fn field(&mut self, name: &str, value: &[u8]) -> Result<&mut Self, BadField> {
        let token = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
        if name.is_empty() || !name.bytes().all(token) || value.iter().any(|byte| matches!(byte, b'\r' | b'\n' | 0)) {
            return Err(BadField);
        }
        for part in [name.as_bytes(), b": ", value, b"\r\n"] {
            self.fields.extend_from_slice(part);
        }
        Ok(self)
    }

    /// Adds to the body.
    pub fn body(&mut self, bytes: &[u8]) -> &mut Self {
        self.body.extend_from_slice(bytes);
        self
    }
}

/// A service as an application, for either data path.
///
/// Requests are answered one after the other, in their order; a client that does
/// not take its replies is not read from. Bodies are kept until they are
/// complete, at most [`Limits::body`] bytes of each.
#[derive(Debug)]
pub struct Http<S> {
    /// What answers.
    pub service: S,
    limits: Limits,
    timeouts: Timeouts,
    conns: Vec<Conn>,
    open: usize,
    draining: bool,
    reply: Reply,
    out: Vec<u8>,
    date: (u64, HttpDate),
}

/// One connection's state.
#[derive(Debug, Default)]
struct Conn {
    engine: Engine,
    /// A request whose body is not complete yet, and what there is of that.
    pending: Option<(OwnedRequest, Transfer)>,
    body: Vec<u8>,
    /// What the timer is set for.
    waits: Option<Waiting>,
    /// What was unsent when the timer was set for that.
    unsent: usize,
    /// Nothing is sent after what is queued.
    finished: bool,
    /// The client sends no more.
    ended: bool,
}

impl<S: Service> Http<S> {
    /// With the limits and timeouts that are usual.
    #[must_use]
    pub fn new(service: S) -> Self {
        Self::with(service, Limits::default(), Timeouts::default())
    }

    /// With limits and timeouts of the caller's own.
    #[must_use]
    pub fn with(service: S, limits: Limits, timeouts: Timeouts) -> Self {
        Self {
            service,
            limits,
            timeouts,
            conns: Vec::new(),
            open: 0,
            draining: false,
            reply: Reply::new(),
            out: Vec::new(),
            date: (0, HttpDate::from_unix(0)),
        }
    }

    /// Answers a request.
    fn answer<N: Net>(&mut self, net: &mut N, id: ConnId, request: &Request<'_>, body: &[u8], transfer: &Transfer) {
        self.reply.clear();
        self.service.on_request(request, body, &mut self.reply);
        let keep_alive = transfer.keep_alive() && !self.draining;
        let head_only = request.method() == Method::Head;
        self.send(net, id, (transfer.version(), keep_alive), head_only);
        if !keep_alive {
            self.end(net, id);
        }
    }

    /// Answers with nothing but a status, and ends the connection.
    fn refuse<N: Net>(&mut self, net: &mut N, id: ConnId, status: Status) {
        self.reply.clear();
        self.reply.status = status;
        self.send(net, id, (Version::Http11, false), false);
        self.end(net, id);
    }

    fn send<N: Net>(&mut self, net: &mut N, id: ConnId, (version, keep_alive): (Version, bool), head_only: bool) {
        let seconds = Clock.unix().as_secs();
        if self.date.0 != seconds {
            self.date = (seconds, HttpDate::from_unix(seconds));
        }
        self.out.clear();
        let head = Head::new(&mut self.out, self.reply.status).date(&self.date.1).lines(&self.reply.fields);
        // RFC 9110 section 8.6: neither 1xx nor 204 has a length.
        let bare = self.reply.status == Status::NO_CONTENT;
        let head = if bare { head } else { head.content_length(self.reply.body.len() as u64) };
        head.connection(version, keep_alive).end();
        if !head_only && !bare && self.reply.status != Status::NOT_MODIFIED {
            self.out.extend_from_slice(&self.reply.body);
        }
        net.send_bytes(id, &self.out);
    }

    fn end<N: Net>(&mut self, net: &mut N, id: ConnId) {
        let conn = &mut self.conns[id.index()];
        conn.engine.close();
        conn.finished = true;
        net.finish(id);
    }

    /// Sets the connection's timer for what is waited for now.
    fn set_timer<N: Net>(&mut self, net: &mut N, id: ConnId, now: Time) {
        let conn = &mut self.conns[id.index()];
        let unsent = net.unsent(id);
        if unsent > 0 {
            conn.unsent = unsent;
            conn.waits = None;
            net.set_timer(id, Some(now + self.timeouts.send));
            return;
        }
        let waiting = conn.engine.waiting();
        if conn.waits == Some(waiting) && !waiting.restarts_on_progress() {
            return;
        }
        conn.waits = Some(waiting);
        // A peer that has had its last answer is to close as well.
        let after = self.timeouts.after(waiting).unwrap_or(Duration::from_secs(5));
        net.set_timer(id, Some(now + after));
    }
}

impl<S: Service> App for Http<S> {
    fn on_open<N: Net>(&mut self, net: &mut N, id: ConnId, _how: Opened) {
        if self.conns.len() <= id.index() {
            self.conns.resize_with(id.index() + 1, Conn::default);
        }
        self.conns[id.index()] = Conn::default();
        self.open += 1;
        self.set_timer(net, id, net.now());
    }

    fn on_data<N: Net>(&mut self, net: &mut N, id: ConnId, data: &[u8]) -> usize {
        let mut used = 0;
        // What it does not take is not answered: the rest is offered again when it has taken some (on_sent).
        while net.unsent(id) <= SEND_LOW_WATER {
            let rest = data.get(used..).unwrap_or_default();
            let conn = &mut self.conns[id.index()];
            match conn.engine.on_bytes(rest, &self.limits) {
                Event::NeedMore => break,
                Event::Request { request, transfer, consumed } => {
                    used += consumed;
                    if transfer.framing() == Framing::None {
                        self.answer(net, id, &request, &[], &transfer);
                        continue;
                    }
                    if transfer.expect_continue() {
                        net.send_bytes(id, b"HTTP/1.1 100 Continue\r\n\r\n");
                    }
                    conn.pending = Some((OwnedRequest::from(request), transfer));
                }
                Event::Body { bytes, consumed } => {
                    used += consumed;
                    conn.body.extend_from_slice(bytes);
                }
                Event::EndOfBody { consumed } => {
                    used += consumed;
                    let body = core::mem::take(&mut conn.body);
                    if let Some((request, transfer)) = conn.pending.take() {
                        self.answer(net, id, &request.get(), &body, &transfer);
                    }
                }
                Event::Reject { status, consumed } => {
                    used += consumed;
                    self.refuse(net, id, status);
                }
                Event::Ignored { consumed } => used += consumed,
            }
        }
        if self.conns[id.index()].ended && net.unsent(id) <= SEND_LOW_WATER {
            // What is left is no whole request, and will be none.
            self.end(net, id);
        }
        self.set_timer(net, id, net.now());
        used
    }

    fn on_end<N: Net>(&mut self, net: &mut N, id: ConnId, held: usize) {
        self.conns[id.index()].ended = true;
        if held == 0 || net.unsent(id) <= SEND_LOW_WATER {
            self.end(net, id);
        }
        self.set_timer(net, id, net.now());
    }

    fn on_sent<N: Net>(&mut self, net: &mut N, id: ConnId) {
        net.resume(id);
        self.set_timer(net, id, net.now());
    }

    fn on_timer<N: Net>(&mut self, net: &mut N, id: ConnId) {
        let conn = &mut self.conns[id.index()];
        let unsent = net.unsent(id);
        if unsent > 0 && unsent < conn.unsent {
            self.set_timer(net, id, net.now());
            return;
        }
        let waiting = conn.engine.waiting();
        match conn.finished {
            false if unsent == 0 && waiting.answers_408() => {
                self.refuse(net, id, Status::REQUEST_TIMEOUT);
                self.set_timer(net, id, net.now());
            }
            false if unsent == 0 => {
                self.end(net, id);
                self.set_timer(net, id, net.now());
            }
            _ => net.abort(id),
        }
    }

    fn on_close<N: Net>(&mut self, _net: &mut N, id: ConnId, _why: Closed) {
        // Where a connect failed there was none.
        if let Some(conn) = self.conns.get_mut(id.index()) {
            *conn = Conn::default();
            self.open = self.open.saturating_sub(1);
        }
    }

    fn drain<N: Net>(&mut self, _net: &mut N) -> bool {
        self.draining = true;
        self.open == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_field_that_would_split_the_head_is_refused() {
        let mut reply = Reply::new();
        assert!(reply.field("Location", b"/a\r\nSet-Cookie: b=c").is_err());
        assert!(reply.field("X Y", b"1").is_err() && reply.field("", b"1").is_err());
        assert!(reply.fields.is_empty());
    }
}
