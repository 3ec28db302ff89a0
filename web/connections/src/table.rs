//! Connections, and what they share.

use crate::beginnings::Beginnings;
use crate::carried::CarriedTable;
use crate::clock::WallClock;
use crate::conn::{ENDED, MARKED, PARTIAL, PAUSED, ServedConnection, SpareMore, State};
use crate::counters::Counters;
use crate::dialled::DialledTable;
use crate::limits::{ConnectionNumbers, ExchangeTerms, Limits, Timeouts};
use crate::reading::ReadingSet;
use crate::security::{Security, transport};
use crate::terms::TermTable;
use access_log::Log;
use app::{ConnId, Net};
use core::time::Duration;
use exchange::{ClientSession, CommonFields, ExchangeId, ExchangePlace, Transport};
use h1::server::{RequestLimits, Waiting};
use latency::{Recorder, SeriesBoard};
use semantics::date::HttpDate;
use std::sync::Arc;
use wire::Time;

/// The connections of a silo, and what they share: no protocol, and no handler.
#[derive(Debug)]
pub struct Connections {
    // What the short way touches comes first.
    /// The connections, by index.
    pub conns: Vec<ServedConnection>,
    /// When they began, which is seldom asked for.
    pub beginnings: Beginnings,
    /// The unix second.
    pub second: u64,
    /// Its date.
    pub date: HttpDate,
    /// When it ends.
    pub next_second: Time,
    /// Requests after which a connection is closed; 0 while draining.
    pub requests_max: u32,
    /// See [`Limits::unsent_bytes`].
    pub unsent_max: usize,
    /// Requests served the short way: each a 2xx and a cache hit, too.
    pub ready: u64,
    /// Whether a request may be logged, or somebody traces requests: looked for once a second.
    pub tells_all: bool,
    /// Heads are parsed as a whole at once: because of that, or because nothing was ready for the plain ones.
    pub parses_all: bool,
    /// Whether a handler is told of what it had ready.
    pub notes_ready: bool,
    /// A handler wants to know how TCP has found clients' paths.
    pub asks_for_paths: bool,
    /// What the exchange that its handler is being told of waits for may be fetched for those behind
    /// it, too.
    pub looks_ahead: bool,
    /// How connections are secured, by index; empty where none is.
    pub security: Vec<Security>,
    /// Where latencies are counted.
    pub recorder: Option<Box<Recorder>>,
    /// The series of what has none of its own.
    pub series: u16,
    /// What is counted.
    pub counters: Counters,
    /// The access log; a configuration's are its handler's.
    pub log: Option<Log>,
    /// What peers can make us hold.
    pub limits: Limits,
    /// How many connections there may be, as the data path has it.
    pub places: usize,
    /// From how many on nearly all are taken.
    pub crowded_from: usize,
    /// How long peers may take.
    pub timeouts: Timeouts,
    /// The same, by where they connected, and what they asked for.
    pub terms: TermTable,
    /// What time it is.
    pub clock: WallClock,
    /// Connections that handlers asked for.
    pub upstreams: DialledTable,
    /// Those of them that are to be secured.
    pub seeking: Vec<(ConnId, handshake::Sought)>,
    /// Connections of which a part of a head has come.
    pub reading: ReadingSet,
    /// What all heads have.
    pub common: CommonFields,
    /// The end of all connections, once it has begun.
    pub draining: Option<Drain>,
    /// The next connection whose timer is to be set by shorter limits.
    pub unsettled: Option<usize>,
    /// Scratch for heads and short responses.
    pub scratch: Vec<u8>,
    /// Memory of exchanges that are over, for those that wait.
    pub spare: SpareMore,
    /// Exchanges that are several on a connection.
    pub(crate) carried: CarriedTable,
}

/// A drain under way.
#[derive(Clone, Copy, Debug)]
pub struct Drain {
    /// The next connection to look at.
    pub next: usize,
    /// When what is left is reset.
    pub deadline: Time,
}

/// What connections are told of at the start.
#[derive(Debug)]
pub struct Settings {
    /// What peers can make us hold.
    pub limits: Limits,
    /// How long they may take.
    pub timeouts: Timeouts,
    /// The same, by where they connected, and what they asked for.
    pub terms: TermTable,
    /// How connections are numbered.
    pub numbers: ConnectionNumbers,
    /// Where latencies are counted, if they are.
    pub latency: Option<SeriesBoard>,
    /// What all heads have.
    pub common: CommonFields,
    /// What time it is.
    pub clock: WallClock,
}

impl Connections {
    /// None yet, by these settings, told of in this access log.
    #[must_use]
    pub fn new(settings: Settings, log: Option<Log>) -> Self {
        let Settings { limits, timeouts, terms, numbers, latency, common, clock } = settings;
        Self {
            conns: Vec::with_capacity(limits.connections),
            beginnings: Beginnings::new(limits.connections, numbers),
            second: 0,
            date: HttpDate::from_unix(0),
            next_second: Time::ZERO,
            requests_max: limits.most_requests(),
            unsent_max: limits.unsent_bytes,
            ready: 0,
            tells_all: true,
            parses_all: true,
            notes_ready: true,
            asks_for_paths: false,
            looks_ahead: false,
            security: Vec::new(),
            recorder: latency.map(|board| Box::new(Recorder::new(board))),
            series: latency::OTHER,
            counters: Counters::default(),
            log,
            places: limits.places(),
            crowded_from: limits.crowded_from(),
            reading: ReadingSet::new(limits.connections),
            limits,
            timeouts,
            terms,
            clock,
            upstreams: DialledTable::default(),
            seeking: Vec::new(),
            common,
            draining: None,
            unsettled: None,
            scratch: Vec::with_capacity(1024),
            spare: SpareMore::default(),
            carried: CarriedTable::default(),
        }
    }

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
    pub fn goes_on(&self, id: ConnId) -> bool {
        self.conns[id.index()].requests.saturating_add(1) < self.requests_max
    }

    /// Bytes that are no response of their own.
    pub fn send<N: Net + ?Sized>(&mut self, net: &mut N, id: ConnId, bytes: &[u8]) {
        net.send_bytes(id, bytes);
        self.queued(id, bytes.len() as u64);
    }

    /// So many bytes were queued.
    pub fn queued(&mut self, id: ConnId, bytes: u64) {
        let conn = &mut self.conns[id.index()];
        conn.queued = conn.queued.wrapping_add(bytes as u32);
        self.counters.bytes_queued += bytes;
    }

    /// The terms that a connection has now.
    pub fn terms_of(&self, id: ConnId) -> ExchangeTerms {
        *self.terms.exchange(self.conns[id.index()].terms)
    }

    /// What is taken of a connection's heads and bodies.
    pub fn head_limits(&self, id: ConnId) -> RequestLimits {
        self.terms.head(self.conns[id.index()].terms).limits
    }

    /// How long its client may take for a head.
    pub(crate) fn head_timeout(&self, id: ConnId) -> Duration {
        self.terms.head(self.conns[id.index()].terms).timeout
    }

    /// How a connection is secured.
    #[inline]
    pub fn transport(&self, id: ConnId) -> Transport {
        transport(&self.security, id)
    }

    /// What its handshake came to.
    pub fn session(&self, id: ConnId) -> Option<&Arc<ClientSession>> {
        match self.security.get(id.index())? {
            Security::Tls { session, .. } => Some(session),
            Security::Plain | Security::Misplaced => None,
        }
    }

    /// It is secured so from now on.
    pub fn set_security(&mut self, id: ConnId, security: Security) {
        let index = id.index();
        if index >= self.security.len() {
            if matches!(security, Security::Plain) {
                return;
            }
            self.security.resize_with(index + 1, || Security::Plain);
        }
        self.security[index] = security;
    }

    /// Since when a connection waits for a request, of which nothing has come; or has all of its
    /// answers and goes on sending.
    pub fn idle(&self, id: ConnId, now: Time) -> Option<Duration> {
        let conn = self.conns.get(id.index())?;
        if conn.state == State::Closing && conn.generation == id.generation() && conn.flags & (ENDED | MARKED) == 0 {
            return Some(conn.closing().passed(now));
        }
        if conn.state == State::Carrying {
            let carries = conn.more.as_ref().and_then(|more| more.carries.as_ref());
            let is_idle =
                conn.generation == id.generation() && carries.is_some_and(|carries| carries.exchanges.is_empty());
            return is_idle.then(|| conn.last.passed(now));
        }
        let waits = conn.generation == id.generation()
            && matches!(conn.state, State::Proxied | State::Handshake | State::Ready)
            && conn.flags & (PARTIAL | PAUSED | ENDED) == 0
            && matches!(conn.engine.waiting(), Waiting::FirstHead | Waiting::KeepAlive);
        waits.then(|| conn.last.passed(now))
    }

    /// A connection needs no more than any may hold: it is over.
    pub(crate) fn end_lent(&mut self, id: ConnId) {
        let more = self.conn(id).and_then(|conn| conn.more.as_mut());
        let carries = more.and_then(|more| more.carries.as_deref_mut());
        let lent = carries.map_or(0, |carries| core::mem::take(&mut carries.lent));
        self.carried.lent = self.carried.lent.saturating_sub(lent);
    }

    /// Those to upstreams that are left at the end of a drain are reset.
    pub fn cut_upstreams<N: Net + ?Sized>(&self, net: &mut N) {
        self.upstreams.ids().for_each(|id| net.abort(id));
    }
}
