//! Sites and settings that change while a server serves.
//!
//! Whatever can fail, or has to be waited for, is done when the change is made
//! ready, by a thread that may wait. The silo's thread takes it up in a turn of
//! its own: it moves values, and no request looks for any of them anew.

use crate::Server;
use crate::handshake_helper::HandshakeHelper;
use crate::handshake_table::HANDSHAKES_MAX;
use access_log::{AccessLog, Log};
use app::Net;
use connections::TermTable;
use core::time::Duration;
use exchange::CommonFields;
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
        let heads = http1::head_writer(common(&now));
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
        let connections = &mut self.h1.connections;
        let terms = terms(&config);
        let age = |limits: &Limits| limits.connection_age.unwrap_or(Duration::MAX);
        if terms.is_shorter(&connections.terms) || age(&config.limits) < age(&connections.limits) {
            connections.unsettled = Some(0);
        }
        connections.terms = terms;
        connections.timeouts = config.timeouts.clone();
        connections.set_limits(&config.limits);
        let old = log.and_then(|log| core::mem::replace(&mut connections.log, log));
        if let Some(change) = handler {
            self.h1.handler.change(change, &self.heads);
        }
        self.config = config;
        self.settle_handler();
        self.settle_listeners();
        // A new log learns the time, and a new response its date.
        self.h1.connections.next_second = Time::ZERO;
        Replaced { _log: old }
    }

    /// After [`Server::change`]: sets the timers of some connections by limits
    /// that have become shorter. To be called again until it returns true.
    pub fn settle<N: Net>(&mut self, net: &mut N) -> bool {
        self.h1.connections.settle(net)
    }
}

/// What all heads of a server that is told this have.
pub(crate) const fn common(config: &Config) -> CommonFields {
    CommonFields { server: config.server_header, persistence: config.says_persistence }
}

/// The terms that clients have.
pub(crate) fn terms(config: &Config) -> TermTable {
    TermTable::of((&config.limits, &config.timeouts), &config.head_terms, &config.exchange_terms)
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
