//! Sites and settings that change while a server serves.
//!
//! Whatever can fail, or has to be waited for, is done when the change is made
//! ready, by a thread that may wait. The silo's thread takes it up in a turn of
//! its own: it moves values, and no request looks for any of them anew.

use crate::Server;
use crate::carrier::Carrier;
use crate::conn::{ENDED, FIRST, MARKED, State};
use crate::deadlines::DRAINED;
use crate::handshake_helper::HandshakeHelper;
use crate::handshakes::HANDSHAKES_MAX;
use crate::head;
use crate::terms::TermTable;
use access_log::Log;
use app::{ConnId, Net};
use core::time::Duration;
use exchange::Handler;
use rustix::event::EventfdFlags;
use rustix::fd::OwnedFd;
use site::{Config, ConfigError, HandlerChange, Limits, Making, ServedHost, Site};
use std::sync::Arc;
use wire::Time;

/// A new site and new settings for one [`Server`], made ready.
#[derive(Debug)]
pub struct Change {
    config: Config,
    site: Site,
    /// For each host of the site, in the order of their places.
    hosts: Vec<HostChange>,
    /// Who works on handshakes, where there are some now.
    helper: Option<HandshakeHelper>,
}

/// What becomes of one host.
#[derive(Debug)]
struct HostChange {
    /// Its place until now, if it had one.
    before: Option<u16>,
    /// What makes its handler what it is to be; nothing if it is that.
    handler: Option<HandlerChange>,
    /// The access log, if that is another; none is `Some(None)`.
    log: Option<Option<Log>>,
}

/// What a server has no more use for. To let go of it may take long: the rest
/// of an access log is written.
#[derive(Debug)]
pub struct Replaced {
    _logs: Vec<Log>,
}

impl Change {
    /// What makes a server that is told `now` one that is told `next`: its
    /// time limits, its limits on connections, if that grows, and on requests, its
    /// hosts with what they serve and their logs. What its helper threads were
    /// started with ([`site::Limits::keep_helpers`]), whether it names itself and
    /// what a request costs stay as they are.
    ///
    /// # Errors
    /// As [`Server::new`].
    pub fn prepare(now: &Config, next: &Config) -> Result<Self, ConfigError> {
        let (now, mut next) = (now.clone().checked()?, next.clone().checked()?);
        // Not to be changed, or not by this.
        (next.server_header, next.says_persistence) = (now.server_header, now.says_persistence);
        next.limits.keep_helpers(&now.limits);
        next.helper_cpus.clone_from(&now.helper_cpus);
        next.work = now.work;
        let (before, site) = (Site::compile(&now)?, Site::compile(&next)?);
        let heads = head::writer(head::common(&now));
        let mut hosts = Vec::new();
        for (place, host) in site.hosts().iter().enumerate() {
            let at = site.place_in(place as u16, &before);
            let was = at.and_then(|at| before.hosts().get(usize::from(at)));
            let handler = match was {
                Some(was) => HandlerChange::prepare(&was.content, &host.content, &heads, &now.helper_cpus)?,
                None => Some(HandlerChange::other(host.content.clone(), &heads, &now.helper_cpus)?),
            };
            let log = match was.is_some_and(|was| was.access_log == host.access_log) {
                true => None,
                false => Some(start_log(&now, host)?),
            };
            hosts.push(HostChange { before: at, handler, log });
        }
        let helper = match next.speaks_tls() && !now.speaks_tls() {
            true => HandshakeHelper::start(2 * HANDSHAKES_MAX, &now.helper_cpus).ok(),
            false => None,
        };
        Ok(Self { config: next, site, hosts, helper })
    }
}

impl Server {
    /// Takes a new site and new settings up: they count for what begins from
    /// now on. What has begun is ended by the handler that it began with. Waits
    /// that are under way are as long as the new limits say once
    /// [`Server::settle`] was called until it is done. To be followed by
    /// [`Server::reload`].
    #[must_use]
    pub fn change(&mut self, change: Change) -> Replaced {
        let Change { config, site, hosts, helper } = change;
        if self.handshakes.helper.is_none() {
            self.handshakes.set_helper(helper, &config.helper_cpus);
        }
        let carrier = &mut self.carrier;
        let terms = TermTable::of(&config);
        let age = |limits: &Limits| limits.connection_age.unwrap_or(Duration::MAX);
        if terms.is_shorter(&carrier.terms) || age(&config.limits) < age(&carrier.limits) {
            carrier.unsettled = Some(0);
        }
        carrier.terms = terms;
        carrier.timeouts = config.timeouts.clone();
        carrier.set_limits(&config.limits);
        self.free_idle();
        let mut logs = Vec::new();
        let mut slots = Vec::with_capacity(hosts.len());
        for HostChange { before, handler, log } in hosts {
            let slot = before.and_then(|place| self.hosts.slots.get(usize::from(place)).copied());
            let taken = self.take_slot(slot, handler);
            if let (Some(slot), true) = (slot, slot != Some(taken)) {
                // The log goes along.
                self.carrier.logs[usize::from(taken)] = self.carrier.logs[usize::from(slot)].take();
            }
            if let Some(log) = log {
                logs.extend(core::mem::replace(&mut self.carrier.logs[usize::from(taken)], log));
            }
            slots.push(taken);
        }
        for slot in core::mem::replace(&mut self.hosts.slots, slots) {
            if !self.hosts.slots.contains(&slot) {
                self.retired.push(slot);
                logs.extend(self.carrier.logs[usize::from(slot)].take());
            }
        }
        (self.hosts.site, self.config) = (site, config);
        self.free_idle();
        self.settle_slots();
        self.settle_listeners();
        // A new log learns the time, and a new response its date.
        self.carrier.next_second = Time::ZERO;
        Replaced { _logs: logs }
    }

    /// The slot of a host that had `slot`, or none, and whose handler becomes
    /// another by `change`.
    fn take_slot(&mut self, slot: Option<u16>, change: Option<HandlerChange>) -> u16 {
        let limits = self.carrier.limits.files();
        let making = Making { heads: &self.heads, event: &self.event, limits, work: self.config.work };
        let handler = match (slot, change) {
            (Some(slot), None) => return slot,
            (Some(slot), Some(change)) => match self.handlers[usize::from(slot)].change(change, &making) {
                Some(handler) => handler,
                None => return slot,
            },
            (None, Some(change)) => match change.into_handler(&making) {
                Some(handler) => handler,
                None => return 0,
            },
            (None, None) => return 0,
        };
        match self.free.pop() {
            Some(free) => {
                let old = core::mem::replace(&mut self.handlers[usize::from(free)], handler);
                if let Some(files) = old.files() {
                    // What was counted is not forgotten.
                    self.carrier.counters.add(&files.counters().of_the_past());
                }
                free
            }
            None => {
                self.handlers.push(handler);
                self.carrier.logs.push(None);
                self.handlers.len() as u16 - 1
            }
        }
    }

    /// After [`Server::change`]: sets the timers of some connections by limits
    /// that have become shorter. To be called again until it returns true.
    pub fn settle<N: Net>(&mut self, net: &mut N) -> bool {
        self.carrier.settle(net)
    }
}

impl<H: Handler> Server<H> {
    /// Frees the slots of handlers that are no host's, once nothing is under
    /// way with them.
    pub(crate) fn free_idle(&mut self) {
        let retired = core::mem::take(&mut self.retired);
        for slot in retired {
            let handler = &mut self.handlers[usize::from(slot)];
            if handler.is_idle() {
                handler.retire();
                self.free.push(slot);
            } else {
                self.retired.push(slot);
            }
        }
    }
}

impl Carrier {
    /// Keeps these limits from now on.
    fn set_limits(&mut self, limits: &Limits) {
        // A lower one is the data path's to keep: the index of a connection
        // is not how many there are.
        let connections = limits.connections.max(self.limits.connections);
        self.limits = Limits { connections, ..limits.clone() };
        (self.places, self.crowded_from) = (limits.places(), limits.crowded_from());
        self.conns.reserve(connections.saturating_sub(self.conns.len()));
        self.beginnings.reserve(connections);
        self.unsent_max = limits.unsent_bytes;
        // One that ends answers no more of them.
        if self.requests_max > 0 {
            self.requests_max = limits.most_requests();
        }
    }

    fn settle<N: Net>(&mut self, net: &mut N) -> bool {
        let Some(from) = self.unsettled else { return true };
        let end = (from + DRAINED).min(self.conns.len());
        for index in from.min(end)..end {
            self.settle_one(net, index);
        }
        self.unsettled = (end < self.conns.len()).then_some(end);
        self.unsettled.is_none()
    }

    fn settle_one<N: Net>(&mut self, net: &mut N, index: usize) {
        let now = net.now();
        let conn = &mut self.conns[index];
        let id = ConnId::new(index as u32, conn.generation);
        let span = match conn.state {
            State::Ready | State::Body if conn.flags & MARKED == 0 => {
                // The next request sets a timer that may be the sooner one.
                conn.flags |= FIRST;
                self.terms.after(conn.terms, conn.engine.waiting())
            }
            State::Proxied | State::Handshake | State::Waiting => Some(self.terms.head(conn.terms).timeout),
            // For our FIN's answer; that limit never changes.
            State::Vacant | State::Service => None,
            State::Tunnel if conn.flags & MARKED == 0 => None,
            State::Closing if conn.flags & (MARKED | ENDED) == 0 => None,
            // Some must be taken within the time, which is counted anew.
            State::Ready | State::Body | State::Replying | State::Tunnel | State::Closing => {
                self.watch_progress(net, id);
                return;
            }
        };
        if let Some(span) = span {
            let left = conn.last.left(span, now).unwrap_or(Duration::ZERO);
            let left = self.until_old(index, left, now);
            net.set_timer(id, Some(now + left));
        }
    }
}

/// The log of a host.
pub(crate) fn start_log(config: &Config, host: &ServedHost) -> Result<Option<Log>, access_log::Error> {
    let mut log = Log::start(&host.access_log, config.limits.log_bytes, &config.helper_cpus)?;
    if let Some(log) = &mut log {
        log.set_format(config.log_format);
    }
    Ok(log)
}

/// What becomes readable when a helper has an answer.
pub(crate) fn new_event() -> Result<Arc<OwnedFd>, ConfigError> {
    let event = rustix::event::eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK);
    event.map(Arc::new).map_err(|error| ConfigError::Helper(error.into()))
}
