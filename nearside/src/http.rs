//! An HTTP/1.1 service: requests in, replies out.

use app::{App, Closed, ConnId, Net, Opened, Wake};
use core::fmt;
use core::time::Duration;
use cpu::Clock;
use h1::server::{RequestLimits, Timeouts};
use semantics::{OwnedRequest, Request, Status};
use server::exchange::{self, ExchangeId, Handler, Piece, Replies, RequestBody};
use server::{Config, ConfigError, Respond, Server, WallClock};
use std::collections::HashMap;
use wire::Time;

/// Bytes of bodies that are not whole yet, of all clients together. What would
/// be more is answered with 503.
const BODIES_MAX: usize = 256 << 20;

/// How often the wall clock is looked at.
const CLOCK_EVERY: Duration = Duration::from_secs(10);

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
/// Requests of a connection are answered one after the other, in their order; a
/// client that does not take its replies is not read from. Bodies are kept until
/// they are complete, at most [`RequestLimits::body`] bytes of each.
#[derive(Debug)]
pub struct Http<S> {
    server: Server<Answers<S>>,
    clock: Clock,
    /// When the wall clock is to be looked at again.
    look: Time,
}

/// A service as a handler of exchanges.
#[derive(Debug)]
struct Answers<S> {
    service: S,
    /// Requests whose bodies are not complete yet, by what is left with their
    /// exchanges, and what there is of the bodies.
    bodies: HashMap<u32, (OwnedRequest, Vec<u8>)>,
    held: usize,
    next: u32,
    reply: Reply,
}

impl<S: Service> Http<S> {
    /// With the limits and timeouts that are usual.
    ///
    /// # Errors
    /// The system has no more descriptors.
    pub fn new(service: S) -> Result<Self, ConfigError> {
        Self::with(service, RequestLimits::default(), Timeouts::default())
    }

    /// With limits and timeouts of the caller's own.
    ///
    /// # Errors
    /// As [`Http::new`].
    pub fn with(service: S, limits: RequestLimits, timeouts: Timeouts) -> Result<Self, ConfigError> {
        let mut config = Config::respond(Respond::Text(String::new()));
        config.server_header = false;
        config.limits.http = limits;
        config.timeouts.http = timeouts;
        let answers = Answers { service, bodies: HashMap::new(), held: 0, next: 0, reply: Reply::new() };
        let clock = WallClock::new(Time::ZERO, Duration::ZERO);
        Ok(Self { server: Server::with_handler(config, answers, clock)?, clock: Clock, look: Time::ZERO })
    }

    /// What answers.
    pub fn service(&mut self) -> Option<&mut S> {
        self.server.handlers().first_mut().map(|answers| &mut answers.service)
    }

    /// The date of replies is that of the wall clock.
    #[cold]
    fn look_at_clock(&mut self, now: Time) {
        self.look = now + CLOCK_EVERY;
        self.server.set_wall_clock(WallClock::new(now, self.clock.unix()));
    }
}

impl<S: Service> Answers<S> {
    fn answer<R: Replies>(&mut self, replies: &mut R, id: ExchangeId, request: &Request<'_>, body: &[u8]) {
        self.reply.clear();
        self.service.on_request(request, body, &mut self.reply);
        let Reply { status, fields, body } = &self.reply;
        // RFC 9110 section 8.6: neither 204 nor 304 has a body, and the length
        // of the former is not told.
        let bare = *status == Status::NO_CONTENT || *status == Status::NOT_MODIFIED;
        let length = if bare { None } else { Some(body.len() as u64) };
        let reply = exchange::Reply { status: *status, length, fields };
        let pieces = [Piece::Bytes(body)];
        let none = bare || request.method() == semantics::Method::Head;
        replies.reply(id, request, &reply, if none { &[] } else { &pieces });
    }

    fn forget(&mut self, mark: Option<u32>) -> Option<(OwnedRequest, Vec<u8>)> {
        let (request, body) = self.bodies.remove(&mark?)?;
        self.held -= body.len();
        Some((request, body))
    }
}

impl<S: Service> Handler for Answers<S> {
    fn takes_body(&self, _request: &Request<'_>) -> bool {
        true
    }

    fn on_request<R: Replies>(&mut self, replies: &mut R, id: ExchangeId, request: &Request<'_>, body: RequestBody) {
        if body != RequestBody::None {
            self.next = self.next.wrapping_add(1);
            self.bodies.insert(self.next, ((*request).into(), Vec::new()));
            replies.set_mark(id, self.next);
        } else {
            self.answer(replies, id, request, &[]);
        }
    }

    fn on_body<R: Replies>(&mut self, replies: &mut R, id: ExchangeId, bytes: &[u8]) -> usize {
        let mark = replies.mark(id);
        if self.held + bytes.len() > BODIES_MAX {
            if let Some((request, _)) = self.forget(mark) {
                replies.reply_status(id, &request.get(), Status::SERVICE_UNAVAILABLE, b"");
            }
            return bytes.len();
        }
        if let Some((_, body)) = mark.and_then(|mark| self.bodies.get_mut(&mark)) {
            body.extend_from_slice(bytes);
            self.held += bytes.len();
        }
        bytes.len()
    }

    fn on_body_end<R: Replies>(&mut self, replies: &mut R, id: ExchangeId) {
        if let Some((request, body)) = self.forget(replies.mark(id)) {
            self.answer(replies, id, &request.get(), &body);
        }
    }

    fn on_late<R: Replies>(&mut self, replies: &mut R, id: ExchangeId) -> bool {
        if let Some((request, _)) = self.forget(replies.mark(id)) {
            replies.reply_status(id, &request.get(), Status::REQUEST_TIMEOUT, b"");
        }
        false
    }

    fn on_gone(&mut self, _id: ExchangeId, mark: Option<u32>) {
        self.forget(mark);
    }
}

impl<S: Service> App for Http<S> {
    fn on_open<N: Net>(&mut self, net: &mut N, id: ConnId, how: Opened) {
        self.server.on_open(net, id, how);
    }

    fn on_data<N: Net>(&mut self, net: &mut N, id: ConnId, data: &[u8]) -> usize {
        if net.now() >= self.look {
            self.look_at_clock(net.now());
        }
        self.server.on_data(net, id, data)
    }

    fn on_end<N: Net>(&mut self, net: &mut N, id: ConnId, held: usize) {
        self.server.on_end(net, id, held);
    }

    fn on_sent<N: Net>(&mut self, net: &mut N, id: ConnId) {
        self.server.on_sent(net, id);
    }

    fn on_timer<N: Net>(&mut self, net: &mut N, id: ConnId) {
        self.server.on_timer(net, id);
    }

    fn on_close<N: Net>(&mut self, net: &mut N, id: ConnId, why: Closed) {
        self.server.on_close(net, id, why);
    }

    fn on_turn<N: Net>(&mut self, net: &mut N) -> Wake {
        self.server.on_turn(net)
    }

    fn has_work(&self) -> bool {
        self.server.has_work()
    }

    fn warm(&self, id: ConnId) -> u64 {
        self.server.warm(id)
    }

    fn working(&self) -> u32 {
        self.server.working()
    }

    fn idle(&self, id: ConnId, now: Time) -> Option<Duration> {
        self.server.idle(id, now)
    }

    fn drain<N: Net>(&mut self, net: &mut N) -> bool {
        self.server.drain(net)
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
