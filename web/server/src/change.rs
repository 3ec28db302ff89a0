//! Sites and settings that change while a server serves.
//!
//! Whatever can fail, or has to be waited for, is done when the change is made
//! ready, by a thread that may wait. The silo's thread takes it up in a turn of
//! its own: it moves values, and no request looks for any of them anew.

use crate::Server;
use crate::conn::{ENDED, FIRST, MARKED, State};
use crate::connections::Carrier;
use crate::drain::DRAINED;
use crate::handshake_helper::HandshakeHelper;
use crate::handshake_table::HANDSHAKES_MAX;
use crate::head;
use crate::terms::TermTable;
use access_log::{AccessLog, Log};
use app::{ConnId, Net};
use core::time::Duration;
use rustix::event::EventfdFlags;
use rustix::fd::OwnedFd;
use site::{Config, ConfigError, HandlerChange, Limits};
use std::sync::Arc;
use wire::Time;

/// A new site and new settings for one [`Server`], made ready.
#[derive(Debug)]
pub struct Change {
    config: Config,
    /// What makes the handler what it is to be; nothing if it is that.
    handler: Option<HandlerChange>,
    /// The access log, if that is another; none is `Some(None)`.
    log: Option<Option<Log>>,
    /// Who works on handshakes, where there are some now.
    helper: Option<HandshakeHelper>,
}

/// What a server has no more use for. To let go of it may take long: the rest
/// of an access log is written.
#[derive(Debug)]
pub struct Replaced {
    _log: Option<Log>,
}

impl Change {
    /// What makes a server that is told `now` one that is told `next`: its
    /// time limits, its limits on connections, if that grows, and on requests, what it
    /// serves, which is of the kind that it was, and its log. What its helper threads were
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
        let heads = head::writer(head::common(&now));
        let handler = HandlerChange::prepare(&now.content, &next.content, &heads, &now.helper_cpus)?;
        let log = match now.access_log == next.access_log {
            true => None,
            false => Some(start_log(&now, &next.access_log)?),
        };
        let helper = match next.speaks_tls() && !now.speaks_tls() {
            true => HandshakeHelper::start(2 * HANDSHAKES_MAX, &now.helper_cpus).ok(),
            false => None,
        };
        Ok(Self { config: next, handler, log, helper })
    }
}

impl Server {
    /// Takes a new site and new settings up: they count for what begins from
    /// now on. What has begun is ended by the rules that it began with. Waits
    /// that are under way are as long as the new limits say once
    /// [`Server::settle`] was called until it is done. To be followed by
    /// [`Server::reload`].
    #[must_use]
    pub fn change(&mut self, change: Change) -> Replaced {
        let Change { config, handler, log, helper } = change;
        if self.handshakes.helper.is_none() {
            self.handshakes.set_helper(helper, &config.helper_cpus);
        }
        let carrier = &mut self.h1.carrier;
        let terms = TermTable::of(&config);
        let age = |limits: &Limits| limits.connection_age.unwrap_or(Duration::MAX);
        if terms.is_shorter(&carrier.terms) || age(&config.limits) < age(&carrier.limits) {
            carrier.unsettled = Some(0);
        }
        carrier.terms = terms;
        carrier.timeouts = config.timeouts.clone();
        carrier.set_limits(&config.limits);
        let old = log.and_then(|log| core::mem::replace(&mut carrier.log, log));
        if let Some(change) = handler {
            self.h1.handler.change(change, &self.heads);
        }
        self.config = config;
        self.settle_handler();
        self.settle_listeners();
        // A new log learns the time, and a new response its date.
        self.h1.carrier.next_second = Time::ZERO;
        Replaced { _log: old }
    }

    /// After [`Server::change`]: sets the timers of some connections by limits
    /// that have become shorter. To be called again until it returns true.
    pub fn settle<N: Net>(&mut self, net: &mut N) -> bool {
        self.h1.carrier.settle(net)
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

/// What writes the access log, if there is one.
pub(crate) fn start_log(config: &Config, place: &AccessLog) -> Result<Option<Log>, access_log::Error> {
    let mut log = Log::start(place, config.limits.log_bytes, &config.helper_cpus)?;
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
