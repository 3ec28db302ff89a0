//! The web server: one application for both data paths.
//!
//! [`Server`] implements [`app::App`]: it says what a connection is before its first request,
//! beside it, and where places are scarce, hands the bytes of all others to the protocol that
//! they speak ([`http1`]), and has the handler of a [site](site::SiteHandler) answer. Nothing
//! that it does for a request waits: the file system is read by a helper thread, the log written
//! by another.
//!
//! | module | for |
//! | --- | --- |
//! | `opened` | connections of clients, as they begin |
//! | `offered` | bytes, by what is expected of their connection |
//! | `proxied` | what proxies say before a connection's first request |
//! | `handshakes`, `handshake_table`, `handshake_helper`, `allowance`, `line` | TLS before that |
//! | `upstreams`, `dialled_handshakes` | connections to upstreams |
//! | `carried` | connections whose protocol carries several exchanges at a time |
//! | `service` | applications that have the silo together with the server |
//! | `deadlines` | what happens when a timer runs out |
//! | `crowded` | what gives way where nearly all places are taken |
//! | `turn`, `rest` | what is done in each turn; when there is nothing to do of itself |
//! | `change` | sites and settings that change meanwhile |
//! | `drain` | the end of all connections |
//! | `counted` | what comes out |
//! | `endless` | connections that nothing would end: none |
//!
//! Arrows lead from here to the protocol, and from both to the [`connections`], which know
//! neither. So another protocol is a crate beside [`http1`].
#![forbid(unsafe_code)]

mod allowance;
mod carried;
mod change;
mod counted;
mod crowded;
mod deadlines;
mod dialled_handshakes;
mod drain;
mod endless;
mod handshake_helper;
mod handshake_table;
mod handshakes;
mod line;
mod offered;
mod opened;
mod proxied;
mod rest;
mod service;
mod turn;
mod upstreams;

pub use access_log::{AccessLog, LineFormat, SyslogLines, SyslogPlace};
pub use change::{Change, Replaced};
pub use connections::Counters;
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
use carried::Carrier;
use change::{common, new_event, start_log};
use connections::{Connections, DRY, ENDED, PAUSED, Security, ServedConnection, Settings, State, trace};
use core::time::Duration;
use crowded::Crowding;
use exchange::{Handler, HeadWriter, Listeners};
use handshake_table::Handshakes;
use http1::{H1, head_writer};
use rest::Rest;
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use site::Making;
use std::sync::Arc;
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
    /// Protocols beside HTTP/1.1.
    carriers: Vec<Carrier>,
    may_rest: Rest,
    /// The same, but where places are scarce, which is looked at in each turn then.
    rest: Rest,
    /// What it is told, brought into its bounds.
    config: Config,
    heads: HeadWriter,
    /// Readable when a helper thread has an answer.
    event: Arc<OwnedFd>,
    handshakes: Handshakes,
    /// What a proxy says, in memory that is ours alone.
    head: Vec<u8>,
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
        let heads = head_writer(common(&config));
        let event = new_event()?;
        let making = Making {
            heads: &heads,
            event: &event,
            limits: config.file_limits(),
            latency: config.latency.as_ref(),
            work: config.work,
        };
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
        self.h1.connections.counters.reloads += 1;
        self.h1.handler.reload();
    }

    /// Opens the access logs again: for log rotation.
    pub fn reopen_log(&self) {
        if let Some(log) = &self.h1.connections.log {
            log.reopen();
        }
        self.h1.handler.reopen_logs();
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
        let conns = &self.h1.connections.conns;
        let start = conns.as_ptr().addr();
        each(start..start + conns.capacity() * size_of::<ServedConnection>());
        each(self.h1.connections.beginnings.memory());
        self.h1.handler.memory(each);
    }

    /// What was counted, by name.
    pub fn counters(&self) -> impl Iterator<Item = (&'static str, u64)> + use<> {
        self.snapshot().iter()
    }

    /// What was counted.
    #[must_use]
    pub fn snapshot(&self) -> Counters {
        let connections = &self.h1.connections;
        let mut counters = Counters {
            requests: connections.counters.requests + connections.ready,
            responses_2xx: connections.counters.responses_2xx + connections.ready,
            cache_hits: connections.counters.cache_hits + connections.ready,
            log_drops: connections.log.as_ref().map_or(0, Log::drops)
                + self.h1.handler.engine().map_or(0, |engine| engine.log_drops()),
            ..connections.counters
        };
        if let Some(files) = self.h1.handler.files() {
            counted::add(&mut counters, &files.counters());
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
        let heads = head_writer(common(&config));
        Self::assemble(config, handler, (heads, new_event()?), clock)
    }

    fn assemble(
        config: Config,
        handler: H,
        (heads, event): (HeadWriter, Arc<OwnedFd>),
        clock: WallClock,
    ) -> Result<Self, ConfigError> {
        let log = start_log(&config, &config.access_log)?;
        let settings = Settings {
            terms: change::terms(&config),
            limits: config.limits.clone(),
            timeouts: config.timeouts.clone(),
            numbers: config.numbers,
            latency: config.latency.clone(),
            common: common(&config),
            clock,
        };
        let h1 = H1::new(Connections::new(settings, log), handler);
        let mut server = Self {
            h1,
            listeners: Listeners::default(),
            services: Vec::new(),
            carriers: Vec::new(),
            may_rest: Rest::Never,
            rest: Rest::Never,
            config,
            heads,
            event,
            handshakes: Handshakes::new(),
            head: Vec::new(),
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
        self.h1.connections.clock = clock;
        self.h1.connections.next_second = Time::ZERO;
    }

    /// From now on every response is the last on its connection and says so,
    /// as if [`Limits::requests_per_connection`] was reached; nothing else
    /// changes. For a process that hands its listeners to another: no request
    /// on its way is lost, for no connection is closed but where the client
    /// was told, or was silent for as long as ever. There is no way back.
    pub fn retire(&mut self) {
        self.h1.connections.requests_max = 0;
    }
}

impl<H: Handler> App for Server<H> {
    /// Of a client whose request waits. An upstream's connection may be asked something else in the same turn.
    fn answers_later(&self, id: ConnId) -> bool {
        self.h1.connections.conns.get(id.index()).is_some_and(|conn| conn.state == State::Waiting)
    }

    fn on_open<N: Net>(&mut self, net: &mut N, id: ConnId, how: Opened) {
        if how == Opened::Connected {
            return self.on_upstream_open(net, id);
        }
        self.open(net, id);
    }

    #[inline(always)]
    fn on_data<N: Net>(&mut self, net: &mut N, id: ConnId, data: &[u8]) -> usize {
        let now = net.now();
        if now >= self.h1.connections.next_second {
            self.on_second(now);
        }
        self.on_ready_data(net, id, data, now)
    }

    fn on_end<N: Net>(&mut self, net: &mut N, id: ConnId, held: usize) {
        let conn = self.h1.connections.conns.get_mut(id.index()).filter(|conn| conn.state != State::Vacant);
        let Some(conn) = conn else {
            self.on_upstream_end(net, id, held);
            return self.stirred(net);
        };
        conn.flags |= if held == 0 { ENDED | DRY } else { ENDED };
        match conn.state {
            State::Handshake => self.on_handshake_end(net, id),
            State::Carrying => self.on_carried_end(net, id, held),
            State::Service => _ = self.tell_service(id, |service| service.on_end(net, id, held)),
            State::Proxied if held == 0 || conn.flags & PAUSED == 0 => self.h1.connections.close_after_queue(net, id),
            _ => self.h1.on_end(net, id, held),
        }
        self.stirred(net);
    }

    #[inline]
    fn on_sent<N: Net>(&mut self, net: &mut N, id: ConnId) {
        match self.h1.connections.conns.get(id.index()).map_or(State::Vacant, |conn| conn.state) {
            State::Vacant => self.on_upstream_room(net, id),
            State::Service => _ = self.tell_service(id, |service| service.on_sent(net, id)),
            State::Carrying => self.on_carried_sent(net, id),
            _ => self.h1.on_sent(net, id),
        }
        self.stirred(net);
    }

    fn on_passed<N: Net>(&mut self, net: &mut N, id: ConnId, bytes: u64) {
        self.on_upstream_passed(net, id, bytes);
        self.stirred(net);
    }

    /// Its next answer is its last.
    fn on_worn<N: Net>(&mut self, net: &mut N, id: ConnId) {
        match self.h1.connections.conn(id) {
            Some(conn) if conn.state == State::Service => net.finish(id),
            Some(conn) => conn.close_after_next(),
            None => {}
        }
    }

    fn on_timer<N: Net>(&mut self, net: &mut N, id: ConnId) {
        self.on_deadline(net, id);
        self.stirred(net);
    }

    fn on_close<N: Net>(&mut self, net: &mut N, id: ConnId, why: Closed) {
        let conn = self.h1.connections.conns.get(id.index()).filter(|conn| conn.state != State::Vacant);
        let Some(conn) = conn else { return self.on_upstream_closed(net, id, why) };
        self.h1.connections.counters.connections_open -= 1;
        self.h1.connections.reading.remove(id.index());
        match conn.state {
            State::Service => _ = self.tell_service(id, |service| service.on_close(net, id, why)),
            State::Carrying => self.on_carried_closed(net, id),
            _ if conn.is_asked() => self.h1.left(net, id),
            _ => {}
        }
        if self.handshakes.on {
            self.handshakes.remove(id);
            self.h1.early.remove(id);
        }
        self.h1.connections.set_security(id, Security::Plain);
        trace::closed(&self.h1.connections.beginnings, &self.h1.connections.conns[id.index()], id, why);
        self.h1.connections.conns[id.index()] = ServedConnection::vacant();
    }

    #[inline(always)]
    fn on_turn<N: Net>(&mut self, net: &mut N) -> Wake {
        let now = net.now();
        self.stirred(net);
        if now < self.h1.connections.next_second && self.is_at_rest() {
            return Wake::Idle;
        }
        self.own_turn(net, now)
    }

    #[inline]
    fn on_turn_over(&mut self, now: Time) {
        self.handshakes.allowance.on_turn_over();
        if let Some(recorder) = &mut self.h1.connections.recorder {
            recorder.on_turn_over(now);
        }
    }

    #[inline]
    fn has_work(&self) -> bool {
        self.h1.handler.has_work() || self.h1.connections.has_stirred()
    }

    #[inline]
    fn warm(&self, id: ConnId) -> u64 {
        self.h1.connections.conns.get(id.index()).map_or(0, |conn| u64::from(conn.requests))
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
        self.h1.connections.idle(id, now)
    }

    /// Readable when a helper thread has an answer.
    fn wake_fd(&self) -> Option<BorrowedFd<'_>> {
        Some(self.event.as_fd())
    }

    fn drain<N: Net>(&mut self, net: &mut N) -> bool {
        self.drain_services(net) & self.drain_more(net)
    }
}
