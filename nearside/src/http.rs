//! An HTTP/1.1 service: requests in, replies out.

use crate::{BadReply, Reply};
use app::{App, Closed, ConnId, Net, Opened, Wake};
use core::time::Duration;
use cpu::Clock;
use h1::server::{RequestLimits, Timeouts};
#[cfg(feature = "tls")]
use handshake::ServerTls;
use semantics::{OwnedRequest, Request, Status};
use server::exchange::{
    self, Bodies, ExchangeId, ExchangeSettings, Gone, Handler, HandlerRules, Intake, Page, Piece, Prepared, Replies,
    RequestBody, UpstreamHandler,
};
#[cfg(feature = "tls")]
use server::exchange::{Listeners, Speaks};
use server::{Config, ConfigError, Respond, Server, WallClock};
use std::collections::HashMap;
use std::os::fd::BorrowedFd;
#[cfg(feature = "tls")]
use std::sync::Arc;
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

    /// A reply to this request could not be sent as it was told, and its client was answered
    /// 500: for a log. Does nothing by default.
    fn on_bad_reply(&mut self, request: &Request<'_>, why: BadReply) {
        let _ = (request, why);
    }
}

impl<F: FnMut(&Request<'_>, &[u8], &mut Reply)> Service for F {
    fn on_request(&mut self, request: &Request<'_>, body: &[u8], reply: &mut Reply) {
        self(request, body, reply);
    }
}

/// What an [`Http`] is told. The default is what is usual: see [`RequestLimits`] and
/// [`Timeouts`]; and plain text.
#[derive(Clone, Debug, Default)]
pub struct HttpConfig {
    /// Bounds on requests.
    pub limits: RequestLimits,
    /// How long clients may take.
    pub timeouts: Timeouts,
    /// What clients shake hands with: all of them speak HTTPS then.
    #[cfg(feature = "tls")]
    pub tls: Option<Arc<ServerTls>>,
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
    #[cfg(feature = "compress")]
    codings: gzip::Whole,
}

impl<S: Service> Http<S> {
    /// With the limits and timeouts that are usual.
    ///
    /// # Errors
    /// The system has no more descriptors.
    pub fn new(service: S) -> Result<Self, ConfigError> {
        Self::with(service, HttpConfig::default())
    }

    /// With settings of the caller's own.
    ///
    /// # Errors
    /// As [`Http::new`].
    pub fn with(service: S, settings: HttpConfig) -> Result<Self, ConfigError> {
        let mut config = Config::respond(Respond::Text(String::new()));
        config.server_header = false;
        config.limits.http = settings.limits;
        config.timeouts.http = settings.timeouts;
        let answers = Answers {
            service,
            bodies: HashMap::new(),
            held: 0,
            next: 0,
            reply: Reply::new(),
            #[cfg(feature = "compress")]
            codings: gzip::Whole::default(),
        };
        let clock = WallClock::new(Time::ZERO, Duration::ZERO);
        let server = Server::with_handler(config, answers, clock)?;
        #[cfg(feature = "tls")]
        let server = match settings.tls {
            Some(tls) => server.speaking(Listeners::everywhere(Speaks::https(tls))),
            None => server,
        };
        Ok(Self { server, clock: Clock, look: Time::ZERO })
    }

    /// What answers.
    pub fn service(&mut self) -> Option<&mut S> {
        Some(&mut self.server.handler().service)
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
        if let Some(why) = self.reply.mend() {
            self.service.on_bad_reply(request, why);
        }
        #[cfg(feature = "compress")]
        crate::compress::compress(request, &mut self.reply, &mut self.codings);
        let Reply { status, fields, body, .. } = &self.reply;
        // RFC 9110 section 8.6: neither 204 nor 304 has a body, and the length
        // of the former is not told.
        let bare = *status == Status::NO_CONTENT || *status == Status::NOT_MODIFIED;
        let length = if bare { None } else { Some(body.len() as u64) };
        let reply = exchange::Reply { status: *status, length, fields, reason: None };
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
    fn rules(&self) -> HandlerRules {
        let intake = Intake { bodies: Bodies::Taken, ..Intake::default() };
        HandlerRules { intake, ..HandlerRules::default() }
    }

    fn on_request<R: Replies>(&mut self, replies: &mut R, id: ExchangeId, request: &Request<'_>, body: RequestBody) {
        if body != RequestBody::None {
            self.next = self.next.wrapping_add(1);
            self.bodies.insert(self.next, ((*request).into(), Vec::new()));
            replies.set(id, &ExchangeSettings::marked(self.next));
        } else {
            self.answer(replies, id, request, &[]);
        }
    }

    fn on_body<R: Replies>(&mut self, replies: &mut R, id: ExchangeId, bytes: &[u8]) -> usize {
        let mark = replies.mark(id);
        if self.held + bytes.len() > BODIES_MAX {
            if let Some((request, _)) = self.forget(mark) {
                let page = Page::new(Status::SERVICE_UNAVAILABLE, b"");
                replies.reply(id, &request.get(), &page.reply(), &page.body());
            }
            return bytes.len();
        }
        if let Some((_, body)) = mark.and_then(|mark| self.bodies.get_mut(&mark)) {
            body.extend_from_slice(bytes);
            self.held += bytes.len();
        }
        bytes.len()
    }

    fn on_body_end<R: Replies>(&mut self, replies: &mut R, id: ExchangeId, _: &[u8]) {
        if let Some((request, body)) = self.forget(replies.mark(id)) {
            self.answer(replies, id, &request.get(), &body);
        }
    }

    fn on_late<R: Replies>(&mut self, replies: &mut R, id: ExchangeId) -> bool {
        if let Some((request, _)) = self.forget(replies.mark(id)) {
            let page = Page::new(Status::REQUEST_TIMEOUT, b"");
            replies.reply(id, &request.get(), &page.reply(), &page.body());
        }
        false
    }

    fn on_gone(&mut self, _id: ExchangeId, mark: Option<u32>, _why: Gone) {
        self.forget(mark);
    }
}

impl<S: Service> UpstreamHandler for Answers<S> {}

impl<S: Service> Prepared for Answers<S> {}

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

    fn on_turn_over(&mut self, now: Time) {
        self.server.on_turn_over(now);
    }

    fn on_worn<N: Net>(&mut self, net: &mut N, id: ConnId) {
        self.server.on_worn(net, id);
    }

    fn wake_fd(&self) -> Option<BorrowedFd<'_>> {
        self.server.wake_fd()
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
