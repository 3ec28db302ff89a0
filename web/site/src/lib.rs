//! What is served, as one value.
//!
//! Flags and the settings file make a [`Config`]; [`Site::compile`] makes of it
//! what requests are answered by: hosts, each with its handler, its log and
//! its limits. A site does not change: a reload compiles another on a thread
//! that may wait, and each silo takes it up between two turns. An exchange that
//! has begun is ended by the handler that it began with.
#![forbid(unsafe_code)]

mod clock;
mod config;
mod fixed;
mod handler;
mod program;
mod work;

pub use app::Prefix;
pub use clock::WallClock;
pub use config::{
    Config, ConfigError, ConnectionNumbers, Content, ExchangeTerms, HeadTerms, Host, Limits, RESPOND_SIZE_MAX,
    RequestWork, Respond, Timeouts,
};
pub use exchange::{EXCHANGE_TERMS_MAX, HEAD_TERMS_MAX};
pub use fixed::Fixed;
pub use handler::{HandlerChange, Making, SiteHandler};
pub use program::Engine;
pub use work::Worked;

use access_log::AccessLog;
use exchange::Names;

/// What is served by one name, or by all that no other host has. Its place in
/// the site is its handler's and its log's, too.
#[derive(Clone, Debug)]
pub struct ServedHost {
    /// Its first name, for people.
    pub name: String,
    /// What it serves.
    pub content: Content,
    /// Where its access log goes.
    pub access_log: AccessLog,
    /// Bytes in a request's body.
    pub body: u64,
}

/// What is served: hosts by name. The first is for clients that ask for no
/// other's name.
#[derive(Clone, Debug)]
pub struct Site {
    names: Names,
    hosts: Vec<ServedHost>,
}

impl Site {
    /// The site that `config` tells of, which is within its bounds
    /// ([`Config::checked`]).
    ///
    /// # Errors
    /// A name that no host can have, or that two have.
    pub fn compile(config: &Config) -> Result<Self, ConfigError> {
        let first = ServedHost {
            name: "_".to_owned(),
            content: config.content.clone(),
            access_log: config.access_log.clone(),
            body: config.limits.http.body,
        };
        let mut names = Names::default();
        let mut hosts = vec![first];
        for host in &config.hosts {
            for name in &host.names {
                names.add(name, hosts.len() as u16)?;
            }
            hosts.push(ServedHost {
                name: host.names.first().cloned().unwrap_or_default(),
                content: host.content.clone(),
                access_log: host.access_log.clone(),
                body: host.body,
            });
        }
        Ok(Self { names, hosts })
    }

    /// The site of one host.
    #[must_use]
    pub fn of(host: ServedHost) -> Self {
        Self { names: Names::default(), hosts: vec![host] }
    }

    /// The hosts, in the order of their places.
    #[must_use]
    pub fn hosts(&self) -> &[ServedHost] {
        &self.hosts
    }

    /// Whether one host serves all names: then none has to be looked for.
    #[inline]
    #[must_use]
    pub const fn is_single(&self) -> bool {
        self.hosts.len() == 1
    }

    /// The place of the host that `authority` asks for: a name or address,
    /// perhaps with a port.
    #[inline]
    #[must_use]
    pub fn find(&self, authority: &[u8]) -> u16 {
        if self.is_single() { 0 } else { self.names.find(authority, |_, _| false) }
    }

    /// The place that the host with these names had in another site; for a
    /// reload.
    #[must_use]
    pub fn place_in(&self, place: u16, other: &Self) -> Option<u16> {
        if place == 0 { Some(0) } else { self.names.same_in(place, &other.names) }
    }
}
