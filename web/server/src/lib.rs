//! The web server: one application for both data paths, and what carries
//! HTTP/1.1.
//!
//! [`Server`] implements [`app::App`]: it owns the connections, their time
//! limits and the access log, and hands requests to the handler of a
//! [site](site::SiteHandler). Nothing that it does for a request waits: the file
//! system is read by a helper thread, the log written by another.
//!
//! A GET for content that is ready takes the short way (`ready`): parsed, looked
//! up by the path as it was sent, and answered with one shared body that holds
//! head and content. No allocation, no lock, no system call. Everything else
//! is an exchange (`requests`, `carrier`).
//!
//! | module | for |
//! | --- | --- |
//! | [`Counters`] | what comes out |
//! | `conn` | a connection's state, 64 bytes |
//! | `handshakes`, `handshake_helper` | TLS before a connection's first request |
//! | `security` | how connections are secured |
//! | `proxied` | what proxies say before a connection's first request |
//! | `ready` | from a request to a response that is ready |
//! | `opened` | connections of clients, as they begin |
//! | `offered` | bytes, by what is expected of their connection |
//! | `requests` | from a request to its handler |
//! | `carrier` | from a handler to a response |
//! | `page` | responses of the carrier's own |
//! | `upstreams`, `dialled`, `tunnel` | connections to upstreams; connections that are a handler's |
//! | `times` | how long requests take
//! | `trace` | what tracers are told of requests |
//! | `head` | the heads of responses: a field that all are to have |
//! | `terms` | how long clients may take, by address and location |
//! | `deadlines` | timers, draining |
//! | `service` | applications that have the silo together with the server |
//! | `endless` | connections that nothing would end: none |
//! | `crowded`, `pace` | what gives way where nearly all places are taken |
//! | `rest` | when there is nothing to do of itself |
//! | `change` | sites and settings that change meanwhile |
#![forbid(unsafe_code)]

mod allowance;
mod beginnings;
mod carrier;
mod change;
mod conn;
mod counters;
mod crowded;
mod deadlines;
mod dialled;
mod dialled_handshakes;
mod early;
mod endless;
mod handshake_helper;
mod handshakes;
mod head;
mod line;
mod offered;
mod opened;
mod pace;
mod page;
mod proxied;
mod reading;
mod ready;
mod requests;
mod rest;
mod security;
mod service;
mod streamed;
mod terms;
mod times;
mod trace;
mod tunnel;
mod upstreams;

pub use access_log::{AccessLog, LineFormat, SyslogLines, SyslogPlace};
pub use change::{Change, Replaced};
pub use counters::Counters;
pub use endless::{Endless, EndlessKind, Timers};
pub use exchange;
pub use files::{Directory, Held, Member, ReaderKind, SharedContent, Symlinks};
pub use service::Service;
pub use site::{
    Config, ConfigError, ConnectionNumbers, Content, ExchangeTerms, HeadTerms, Limits, Prefix, RESPOND_SIZE_MAX,
    RequestWork, Respond, SiteHandler, Timeouts, WallClock,
};

use access_log::Log;
use app::{App, Closed, ConnId, Net, Opened, Reads, Wake};
use beginnings::Beginnings;
use carrier::{Answering, Carrier};
use change::{new_event, start_log};
use conn::{DRY, ENDED, MARKED, PARTIAL, PAUSED, ServedConnection, State, Tick};
use core::time::Duration;
use crowded::Crowding;
use dialled::DialledTable;
use exchange::{Handler, HeadWriter, Listeners};
use h1::server::Waiting;
use handshakes::Handshakes;
use latency::Recorder;
use reading::ReadingSet;
use rest::Rest;
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use security::Security;
use semantics::date::HttpDate;
use site::Making;
use std::sync::Arc;
use terms::TermTable;
use wire::Time;

/// The server application of one silo. Not `Send`: made on the silo's thread.
///
/// `H` answers requests: [`SiteHandler`] for the program, or a handler of one's
/// own ([`Server::with_handler`]).
#[derive(Debug)]
pub struct Server<H = SiteHandler> {
    carrier: Carrier,
    handler: H,
    /// What clients speak, by where they connect.
    listeners: Listeners,
    /// Who answers to those who speak something else, by number.
    services: Vec<Box<dyn Service>>,
    may_rest: Rest,
    /// The same, but where places are scarce, which is looked at in each turn then.
    rest: Rest,
    /// What it is told, brought into its bounds.
    config: Config,
    heads: HeadWriter,
    /// Readable when a helper thread has an answer.
    event: Arc<OwnedFd>,
    /// The head of the request that takes the long way, in memory that is
    /// ours alone.
    head: Vec<u8>,
    /// A request began to wait: those behind it may be worth being told of.
    looks_ahead: bool,
    /// A handler has left some of a body.
    full: bool,
    handshakes: Handshakes,
    crowding: Crowding,
}

impl Server {
    /// A server as told by `config`. Opens root directories and access logs,
    /// and starts the helper threads.
    ///
    /// # Errors
    /// See [`ConfigError`]: all are the operator's to mend.
    pub fn new(config: Config, clock: WallClock) -> Result<Self, ConfigError> {
        let config = config.checked()?;
        let heads = head::writer(head::common(&config));
        let event = new_event()?;
        let making = Making { heads: &heads, event: &event, limits: config.limits.files(), work: config.work };
        let handler = SiteHandler::new(&config.content, &making, &config.helper_cpus)?;
        let mut server = Self::assemble(config, handler, (heads, event), clock)?;
        server.settle_listeners();
        server.start_helper();
        Ok(server)
    }

    /// Looks for roots again, which may be other directories by now, and at
    /// every file before it is next sent; opens access logs again. Nothing
    /// that is under way is touched: a response that has begun is finished
    /// from the file that it began with.
    pub fn reload(&mut self) {
        self.reopen_log();
        self.carrier.counters.reloads += 1;
        self.handler.reload();
    }

    /// Looks every path up again before it is used, whatever is known of it:
    /// for a reload. What connections are being sent they get to the end.
    pub fn forget_files(&mut self) {
        self.handler.forget();
    }

    /// What was sent of content that lies in other NUMA domains, by domain;
    /// of each in [`SharedContent::domains`], and nothing where nothing is shared.
    pub fn far_reads(&self) -> impl Iterator<Item = (u16, &Reads)> {
        self.handler.files().into_iter().flat_map(files::Files::far_reads)
    }

    /// Tells `each` the address ranges of what requests go through: the
    /// connections' state, the index, and content in memory. Content that is
    /// in another domain is not told: it is counted as it is sent.
    pub fn memory(&self, each: &mut dyn FnMut(core::ops::Range<usize>)) {
        let conns = &self.carrier.conns;
        let start = conns.as_ptr().addr();
        each(start..start + conns.capacity() * size_of::<ServedConnection>());
        each(self.carrier.beginnings.memory());
        self.handler.memory(each);
    }

    /// What was counted, by name.
    pub fn counters(&self) -> impl Iterator<Item = (&'static str, u64)> + use<> {
        self.snapshot().iter()
    }

    /// What was counted.
    #[must_use]
    pub fn snapshot(&self) -> Counters {
        let carrier = &self.carrier;
        let mut counters = Counters {
            requests: carrier.counters.requests + carrier.ready,
            responses_2xx: carrier.counters.responses_2xx + carrier.ready,
            cache_hits: carrier.counters.cache_hits + carrier.ready,
            log_drops: carrier.log.as_ref().map_or(0, Log::drops)
                + self.handler.engine().map_or(0, |engine| engine.log_drops()),
            ..carrier.counters
        };
        if let Some(files) = self.handler.files() {
            counters.add(&files.counters());
        }
        counters
    }
}

impl<H: Handler> Server<H> {
    /// A server whose requests are all answered by `handler`. Of `config`
    /// counts what is not content. Its clients speak HTTP without TLS, unless
    /// [`Server::speaking`] says something else.
    ///
    /// # Errors
    /// See [`ConfigError`].
    pub fn with_handler(config: Config, handler: H, clock: WallClock) -> Result<Self, ConfigError> {
        let config = config.checked()?;
        let heads = head::writer(head::common(&config));
        Self::assemble(config, handler, (heads, new_event()?), clock)
    }

    fn assemble(
        config: Config,
        handler: H,
        (heads, event): (HeadWriter, Arc<OwnedFd>),
        clock: WallClock,
    ) -> Result<Self, ConfigError> {
        let log = start_log(&config, &config.access_log)?;
        let limits = config.limits.clone();
        let carrier = Carrier {
            conns: Vec::with_capacity(limits.connections),
            beginnings: Beginnings::new(limits.connections, config.numbers),
            second: 0,
            date: HttpDate::from_unix(0),
            next_second: Time::ZERO,
            requests_max: limits.most_requests(),
            unsent_max: limits.unsent_bytes,
            ready: 0,
            tells_all: true,
            notes_ready: true,
            security: Vec::new(),
            recorder: config.latency.clone().map(|board| Box::new(Recorder::new(board))),
            series: latency::OTHER,
            counters: Counters::default(),
            log,
            places: limits.places(),
            crowded_from: limits.crowded_from(),
            limits,
            timeouts: config.timeouts.clone(),
            terms: TermTable::of(&config),
            clock,
            upstreams: DialledTable::default(),
            seeking: Vec::new(),
            reading: ReadingSet::new(config.limits.connections),
            common: head::common(&config),
            draining: None,
            unsettled: None,
            last_head: 0,
            scratch: Vec::with_capacity(1024),
        };
        let mut server = Self {
            carrier,
            handler,
            listeners: Listeners::default(),
            services: Vec::new(),
            may_rest: Rest::Never,
            rest: Rest::Never,
            config,
            heads,
            event,
            head: Vec::with_capacity(1024),
            looks_ahead: false,
            full: false,
            handshakes: Handshakes::new(),
            crowding: Crowding::default(),
        };
        server.settle_handler();
        Ok(server)
    }

    /// What follows from what the handler is.
    fn settle_handler(&mut self) {
        self.carrier.notes_ready = self.handler.notes_ready();
        self.carrier.tells_all = self.carrier.log.is_some() || trace::is_on();
        self.settle_rest();
        self.settle_series();
    }

    /// What answers.
    pub const fn handler(&mut self) -> &mut H {
        &mut self.handler
    }

    /// The wall clock was set, or is watched for drift.
    pub fn set_wall_clock(&mut self, clock: WallClock) {
        self.carrier.clock = clock;
        self.carrier.next_second = Time::ZERO;
    }

    /// Opens the access logs again: for log rotation.
    pub fn reopen_log(&self) {
        if let Some(log) = &self.carrier.log {
            log.reopen();
        }
        self.handler.reopen_logs();
    }

    /// From now on every response is the last on its connection and says so,
    /// as if [`Limits::requests_per_connection`] was reached; nothing else
    /// changes. For a process that hands its listeners to another: no request
    /// on its way is lost, for no connection is closed but where the client
    /// was told, or was silent for as long as ever. There is no way back.
    pub fn retire(&mut self) {
        self.carrier.requests_max = 0;
    }

    /// A new second began: `Date` changes, and what is held is looked over.
    #[cold]
    fn on_second(&mut self, now: Time) {
        let carrier = &mut self.carrier;
        carrier.second = carrier.clock.unix_seconds(now);
        carrier.next_second = carrier.clock.next_second(now);
        carrier.date = HttpDate::from_unix(carrier.second);
        carrier.tells_all = carrier.log.is_some() || trace::is_on();
        if let Some(log) = &mut carrier.log {
            log.set_time(&carrier.date);
        }
        self.handler.on_second(carrier.second, &carrier.date, now);
    }
}

impl<H: Handler> App for Server<H> {
    fn on_open<N: Net>(&mut self, net: &mut N, id: ConnId, how: Opened) {
        if how == Opened::Connected {
            return self.on_upstream_open(net, id);
        }
        self.open(net, id);
    }

    #[inline(always)]
    fn on_data<N: Net>(&mut self, net: &mut N, id: ConnId, data: &[u8]) -> usize {
        let now = net.now();
        if now >= self.carrier.next_second {
            self.on_second(now);
        }
        self.on_ready_data(net, id, data, now)
    }

    fn on_passed<N: Net>(&mut self, net: &mut N, id: ConnId, bytes: u64) {
        self.on_upstream_passed(net, id, bytes);
    }

    fn on_end<N: Net>(&mut self, net: &mut N, id: ConnId, held: usize) {
        let conn = self.carrier.conns.get_mut(id.index()).filter(|conn| conn.state != State::Vacant);
        let Some(conn) = conn else { return self.on_upstream_end(net, id, held) };
        conn.flags |= if held == 0 { ENDED | DRY } else { ENDED };
        match conn.state {
            // A request that is not whole by now never will be. One that
            // waits for back-pressure to pass is offered again.
            State::Handshake => self.on_handshake_end(net, id),
            State::Service => _ = self.tell_service(id, |service| service.on_end(net, id, held)),
            State::Ready if held > 0 && self.handshakes.early.goes_on(id) => net.resume(id),
            State::Proxied | State::Ready | State::Body if held == 0 || conn.flags & PAUSED == 0 => {
                self.carrier.close_after_queue(net, id)
            }
            // Nor will a request's body.
            State::Waiting | State::Replying if conn.awaits_body() => self.on_cut(net, id),
            State::Waiting | State::Replying if held == 0 => {
                self.tell(net, id, None, |handler, replies, exchange| handler.on_client_end(replies, exchange));
            }
            // What is held of a tunnel's client is still its handler's.
            State::Tunnel if held == 0 => self.on_tunnel_dry(net, id),
            // RFC 9112 §9.6 ends here: both sides have said all. What is queued
            // must still be taken, and our FIN acknowledged.
            State::Closing => self.carrier.watch_progress(net, id),
            _ => {}
        }
    }

    #[inline]
    fn on_sent<N: Net>(&mut self, net: &mut N, id: ConnId) {
        let conn = self.carrier.conns.get_mut(id.index()).filter(|conn| conn.state != State::Vacant);
        let Some(conn) = conn else { return self.on_upstream_room(net, id) };
        if conn.flags & PAUSED != 0 {
            conn.flags &= !PAUSED;
            conn.last = Tick::of(net.now());
            let (state, span) = (conn.state, self.carrier.terms.soonest(conn.terms));
            self.carrier.arm(net, id, span);
            net.resume(id);
            if state != State::Replying {
                return;
            }
        }
        match self.carrier.conns[id.index()].state {
            State::Replying | State::Tunnel => self.on_room(net, id),
            State::Service => _ = self.tell_service(id, |service| service.on_sent(net, id)),
            _ => {}
        }
    }

    /// Its next answer is its last.
    fn on_worn<N: Net>(&mut self, net: &mut N, id: ConnId) {
        match self.carrier.conn(id) {
            Some(conn) if conn.state == State::Service => net.finish(id),
            Some(conn) => conn.requests |= conn::OLD,
            None => {}
        }
    }

    fn on_timer<N: Net>(&mut self, net: &mut N, id: ConnId) {
        self.on_deadline(net, id);
    }

    fn on_close<N: Net>(&mut self, net: &mut N, id: ConnId, why: Closed) {
        let conn = self.carrier.conns.get(id.index()).filter(|conn| conn.state != State::Vacant);
        let Some(conn) = conn else { return self.on_upstream_closed(net, id, why) };
        self.carrier.counters.connections_open -= 1;
        self.carrier.reading.remove(id.index());
        match conn.state {
            State::Service => _ = self.tell_service(id, |service| service.on_close(net, id, why)),
            _ if conn.is_asked() => self.left(net, id),
            _ => {}
        }
        if self.handshakes.on {
            self.handshakes.remove(id);
        }
        self.carrier.set_security(id, Security::Plain);
        trace::closed(&self.carrier.beginnings, &self.carrier.conns[id.index()], id, why);
        self.carrier.conns[id.index()] = ServedConnection::vacant();
    }

    #[inline(always)]
    fn on_turn<N: Net>(&mut self, net: &mut N) -> Wake {
        let now = net.now();
        if now < self.carrier.next_second && self.is_at_rest() {
            return Wake::Idle;
        }
        self.own_turn(net, now)
    }

    #[inline]
    fn on_turn_over(&mut self, now: Time) {
        self.handshakes.allowance.on_turn_over();
        if let Some(recorder) = &mut self.carrier.recorder {
            recorder.on_turn_over(now);
        }
    }

    #[inline]
    fn has_work(&self) -> bool {
        self.handler.has_work()
    }

    #[inline]
    fn warm(&self, id: ConnId) -> u64 {
        self.carrier.conns.get(id.index()).map_or(0, |conn| u64::from(conn.requests))
    }

    /// Requests whose next step is the file reader's: a new one waits behind
    /// them. What is in memory is answered at once, and a response on its way
    /// waits for its peer: neither makes another wait, however long it takes.
    #[inline]
    fn working(&self) -> u32 {
        self.handler.working()
    }

    /// Those that wait for a request, of which nothing has come, and those that have all of
    /// their answers and go on sending.
    fn idle(&self, id: ConnId, now: Time) -> Option<Duration> {
        let conn = self.carrier.conns.get(id.index())?;
        if conn.state == State::Closing && conn.generation == id.generation() && conn.flags & (ENDED | MARKED) == 0 {
            return Some(conn.closing().passed(now));
        }
        let waits = conn.generation == id.generation()
            && matches!(conn.state, State::Proxied | State::Handshake | State::Ready)
            && conn.flags & (PARTIAL | PAUSED | ENDED) == 0
            && matches!(conn.engine.waiting(), Waiting::FirstHead | Waiting::KeepAlive);
        waits.then(|| conn.last.passed(now))
    }

    /// Readable when a helper thread has an answer.
    fn wake_fd(&self) -> Option<BorrowedFd<'_>> {
        Some(self.event.as_fd())
    }

    fn drain<N: Net>(&mut self, net: &mut N) -> bool {
        self.drain_services(net) & self.drain_more(net)
    }
}

impl<H: Handler> Server<H> {
    #[inline(never)]
    fn own_turn<N: Net>(&mut self, net: &mut N, now: Time) -> Wake {
        if now >= self.carrier.next_second {
            self.on_second(now);
        }
        let mut wake = self.make_way(net, now);
        self.rest = if wake == Wake::Idle { self.may_rest } else { Rest::Never };
        if self.handshakes.on {
            wake = wake.earlier(self.handshakes_turn(net));
        }
        if let Some(log) = &mut self.carrier.log {
            wake = log.on_turn(now).map_or(wake, |at| wake.earlier(Wake::At(at)));
        }
        let mut replies = Answering { net: &mut *net, carrier: &mut self.carrier, within: None, series: None };
        wake = wake.earlier(self.handler.on_turn(&mut replies));
        if !self.services.is_empty() {
            wake = wake.earlier(self.services_turn(net));
        }
        // A handler may have taken the signal along, which is the same for all helpers.
        if self.handshakes.has_arrived() { Wake::Now } else { wake }
    }
}
