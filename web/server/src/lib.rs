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
//! is an exchange (`requests`, `replies`).
//!
//! | module | for |
//! | --- | --- |
//! | [`Counters`] | what comes out |
//! | `conn` | a connection's state, 64 bytes |
//! | `connections` | all of them, and what they share |
//! | `timers` | how long they may take |
//! | `handshakes`, `handshake_table`, `handshake_helper` | TLS before a connection's first request |
//! | `security` | how connections are secured |
//! | `proxied` | what proxies say before a connection's first request |
//! | `protocol` | HTTP/1.1: what happens to its connections |
//! | `ready` | from a request to a response that is ready |
//! | `opened` | connections of clients, as they begin |
//! | `offered` | bytes, by what is expected of their connection |
//! | `requests` | from a request to its handler |
//! | `telling` | what handlers are told |
//! | `replies`, `streamed` | from a handler to a response, whose body may come later |
//! | `tunnel` | connections that are a handler's |
//! | `answering` | the exchange that is answered, and how its connection goes on |
//! | `responses`, `page` | whole responses, and those of the server's own |
//! | `upstreams`, `dialled` | connections to upstreams |
//! | `times` | how long requests take
//! | `trace` | what tracers are told of requests |
//! | `head` | the heads of responses: a field that all are to have |
//! | `terms` | how long clients may take, by address and location |
//! | `deadlines` | what happens when a timer runs out |
//! | `drain` | the end of all connections |
//! | `service` | applications that have the silo together with the server |
//! | `endless` | connections that nothing would end: none |
//! | `crowded`, `pace` | what gives way where nearly all places are taken |
//! | `turn`, `rest` | what is done in each turn; when there is nothing to do of itself |
//! | `change` | sites and settings that change meanwhile |
//!
//! Files call each other one way, from the top down: the server, which is whatever a
//! connection is before its first request, beside it or of no client ([`Server`], `turn`,
//! `opened`, `offered`, `deadlines`, `crowded`, `proxied`, `handshakes`, `upstreams`); the
//! protocol (`protocol`, `ready`, `requests`, `tunnel`), what it tells handlers (`telling`)
//! and they answer (`replies`), the exchange (`answering`), and the connections
//! (`responses`, `timers`, `connections`). So another protocol is a type beside
//! `protocol::H1`.
#![forbid(unsafe_code)]

mod allowance;
mod answering;
mod beginnings;
mod change;
mod conn;
mod connections;
mod counters;
mod crowded;
mod deadlines;
mod dialled;
mod dialled_handshakes;
mod drain;
mod early;
mod endless;
mod handshake_helper;
mod handshake_table;
mod handshakes;
mod head;
mod line;
mod offered;
mod opened;
mod pace;
mod page;
mod protocol;
mod proxied;
mod reading;
mod ready;
mod replies;
mod requests;
mod responses;
mod rest;
mod security;
mod service;
mod streamed;
mod telling;
mod terms;
mod timers;
mod times;
mod trace;
mod tunnel;
mod turn;
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
use change::{new_event, start_log};
use conn::{DRY, ENDED, PAUSED, ServedConnection, State};
use connections::Carrier;
use core::time::Duration;
use crowded::Crowding;
use dialled::DialledTable;
use early::EarlyConnections;
use exchange::{Handler, HeadWriter, Listeners};
use handshake_table::Handshakes;
use latency::Recorder;
use protocol::H1;
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
    h1: H1<H>,
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
        self.h1.carrier.counters.reloads += 1;
        self.h1.handler.reload();
    }

    /// Looks every path up again before it is used, whatever is known of it:
    /// for a reload. What connections are being sent they get to the end.
    pub fn forget_files(&mut self) {
        self.h1.handler.forget();
    }

    /// What was sent of content that lies in other NUMA domains, by domain;
    /// of each in [`SharedContent::domains`], and nothing where nothing is shared.
    pub fn far_reads(&self) -> impl Iterator<Item = (u16, &Reads)> {
        self.h1.handler.files().into_iter().flat_map(files::Files::far_reads)
    }

    /// Tells `each` the address ranges of what requests go through: the
    /// connections' state, the index, and content in memory. Content that is
    /// in another domain is not told: it is counted as it is sent.
    pub fn memory(&self, each: &mut dyn FnMut(core::ops::Range<usize>)) {
        let conns = &self.h1.carrier.conns;
        let start = conns.as_ptr().addr();
        each(start..start + conns.capacity() * size_of::<ServedConnection>());
        each(self.h1.carrier.beginnings.memory());
        self.h1.handler.memory(each);
    }

    /// What was counted, by name.
    pub fn counters(&self) -> impl Iterator<Item = (&'static str, u64)> + use<> {
        self.snapshot().iter()
    }

    /// What was counted.
    #[must_use]
    pub fn snapshot(&self) -> Counters {
        let carrier = &self.h1.carrier;
        let mut counters = Counters {
            requests: carrier.counters.requests + carrier.ready,
            responses_2xx: carrier.counters.responses_2xx + carrier.ready,
            cache_hits: carrier.counters.cache_hits + carrier.ready,
            log_drops: carrier.log.as_ref().map_or(0, Log::drops)
                + self.h1.handler.engine().map_or(0, |engine| engine.log_drops()),
            ..carrier.counters
        };
        if let Some(files) = self.h1.handler.files() {
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
            spare: SpareMore::default(),
        };
        let h1 = H1 {
            carrier,
            handler,
            head: Vec::with_capacity(1024),
            looks_ahead: false,
            full: false,
            has_missed: false,
            early: EarlyConnections::default(),
        };
        let mut server = Self {
            h1,
            listeners: Listeners::default(),
            services: Vec::new(),
            may_rest: Rest::Never,
            rest: Rest::Never,
            config,
            heads,
            event,
            handshakes: Handshakes::new(),
            crowding: Crowding::default(),
        };
        server.settle_handler();
        Ok(server)
    }

    /// What answers.
    pub const fn handler(&mut self) -> &mut H {
        &mut self.h1.handler
    }

    /// The wall clock was set, or is watched for drift.
    pub fn set_wall_clock(&mut self, clock: WallClock) {
        self.h1.carrier.clock = clock;
        self.h1.carrier.next_second = Time::ZERO;
    }

    /// Opens the access logs again: for log rotation.
    pub fn reopen_log(&self) {
        if let Some(log) = &self.h1.carrier.log {
            log.reopen();
        }
        self.h1.handler.reopen_logs();
    }

    /// From now on every response is the last on its connection and says so,
    /// as if [`Limits::requests_per_connection`] was reached; nothing else
    /// changes. For a process that hands its listeners to another: no request
    /// on its way is lost, for no connection is closed but where the client
    /// was told, or was silent for as long as ever. There is no way back.
    pub fn retire(&mut self) {
        self.h1.carrier.requests_max = 0;
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
        if now >= self.h1.carrier.next_second {
            self.on_second(now);
        }
        self.on_ready_data(net, id, data, now)
    }

    fn on_end<N: Net>(&mut self, net: &mut N, id: ConnId, held: usize) {
        let conn = self.h1.carrier.conns.get_mut(id.index()).filter(|conn| conn.state != State::Vacant);
        let Some(conn) = conn else { return self.on_upstream_end(net, id, held) };
        conn.flags |= if held == 0 { ENDED | DRY } else { ENDED };
        match conn.state {
            State::Handshake => self.on_handshake_end(net, id),
            State::Service => _ = self.tell_service(id, |service| service.on_end(net, id, held)),
            State::Proxied if held == 0 || conn.flags & PAUSED == 0 => self.h1.carrier.close_after_queue(net, id),
            _ => self.h1.on_end(net, id, held),
        }
    }

    #[inline]
    fn on_sent<N: Net>(&mut self, net: &mut N, id: ConnId) {
        match self.h1.carrier.conns.get(id.index()).map_or(State::Vacant, |conn| conn.state) {
            State::Vacant => self.on_upstream_room(net, id),
            State::Service => _ = self.tell_service(id, |service| service.on_sent(net, id)),
            _ => self.h1.on_sent(net, id),
        }
    }

    fn on_passed<N: Net>(&mut self, net: &mut N, id: ConnId, bytes: u64) {
        self.on_upstream_passed(net, id, bytes);
    }

    /// Its next answer is its last.
    fn on_worn<N: Net>(&mut self, net: &mut N, id: ConnId) {
        match self.h1.carrier.conn(id) {
            Some(conn) if conn.state == State::Service => net.finish(id),
            Some(conn) => conn.requests |= conn::OLD,
            None => {}
        }
    }

    fn on_timer<N: Net>(&mut self, net: &mut N, id: ConnId) {
        self.on_deadline(net, id);
    }

    fn on_close<N: Net>(&mut self, net: &mut N, id: ConnId, why: Closed) {
        let conn = self.h1.carrier.conns.get(id.index()).filter(|conn| conn.state != State::Vacant);
        let Some(conn) = conn else { return self.on_upstream_closed(net, id, why) };
        self.h1.carrier.counters.connections_open -= 1;
        self.h1.carrier.reading.remove(id.index());
        match conn.state {
            State::Service => _ = self.tell_service(id, |service| service.on_close(net, id, why)),
            _ if conn.is_asked() => self.h1.left(net, id),
            _ => {}
        }
        if self.handshakes.on {
            self.handshakes.remove(id);
            self.h1.early.remove(id);
        }
        self.h1.carrier.set_security(id, Security::Plain);
        trace::closed(&self.h1.carrier.beginnings, &self.h1.carrier.conns[id.index()], id, why);
        self.h1.carrier.conns[id.index()] = ServedConnection::vacant();
    }

    #[inline(always)]
    fn on_turn<N: Net>(&mut self, net: &mut N) -> Wake {
        let now = net.now();
        if now < self.h1.carrier.next_second && self.is_at_rest() {
            return Wake::Idle;
        }
        self.own_turn(net, now)
    }

    #[inline]
    fn on_turn_over(&mut self, now: Time) {
        self.handshakes.allowance.on_turn_over();
        if let Some(recorder) = &mut self.h1.carrier.recorder {
            recorder.on_turn_over(now);
        }
    }

    #[inline]
    fn has_work(&self) -> bool {
        self.h1.handler.has_work()
    }

    #[inline]
    fn warm(&self, id: ConnId) -> u64 {
        self.h1.carrier.conns.get(id.index()).map_or(0, |conn| u64::from(conn.requests))
    }

    /// Requests whose next step is the file reader's: a new one waits behind
    /// them. What is in memory is answered at once, and a response on its way
    /// waits for its peer: neither makes another wait, however long it takes.
    #[inline]
    fn working(&self) -> u32 {
        self.h1.handler.working()
    }

    /// Those that wait for a request, of which nothing has come, and those that have all of
    /// their answers and go on sending.
    fn idle(&self, id: ConnId, now: Time) -> Option<Duration> {
        self.h1.carrier.idle(id, now)
    }

    /// Readable when a helper thread has an answer.
    fn wake_fd(&self) -> Option<BorrowedFd<'_>> {
        Some(self.event.as_fd())
    }

    fn drain<N: Net>(&mut self, net: &mut N) -> bool {
        self.drain_services(net) & self.drain_more(net)
    }
}
