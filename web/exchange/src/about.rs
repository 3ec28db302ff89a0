//! Whom an exchange is with, and what its carrier has counted.

use crate::{ClientSession, ProxiedAddresses, Transport};
use app::{ConnId, Net, PathFigures, SendFileError};
use core::net::SocketAddr;
use core::time::Duration;
use semantics::date::HttpDate;
use std::sync::Arc;
use wire::Time;

/// Where a client connected to.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum LocalAddress {
    /// An address.
    Inet(SocketAddr),
    /// A Unix socket whose path has this [number](app::path_number).
    Unix(u64),
    /// That cannot be told.
    #[default]
    Unknown,
}

impl LocalAddress {
    /// Where the client of a connection connected to.
    pub fn of<N: Net + ?Sized>(net: &N, id: ConnId) -> Self {
        match net.local(id) {
            Some(address) => Self::Inet(address),
            None => net.local_unix(id).map_or(Self::Unknown, Self::Unix),
        }
    }

    /// The address, if it is one.
    #[must_use]
    pub const fn inet(self) -> Option<SocketAddr> {
        match self {
            Self::Inet(address) => Some(address),
            Self::Unix(_) | Self::Unknown => None,
        }
    }
}

/// Whom an exchange is with, and over what.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct About {
    /// The client's address; none on a Unix socket.
    pub peer: Option<SocketAddr>,
    /// Where it connected to.
    pub local: LocalAddress,
    /// The number of the connection: which one it is of those that came.
    pub connection: u64,
    /// The time since it began, up to 52 days.
    pub age: Duration,
    /// Requests on the connection before this one.
    pub requests: u32,
    /// Whether the client speaks HTTP/1.0.
    pub http10: bool,
    /// Whether the client speaks HTTP/2.
    pub http2: bool,
    /// Whether another request may follow.
    pub goes_on: bool,
    /// How the connection is secured.
    pub transport: Transport,
    /// How urgent its client finds it, among others on its connection.
    pub priority: Priority,
    /// How TCP has found the path to its client so far, if its handler
    /// [asks for that](crate::HandlerRules::asks_for_paths).
    pub path: Option<PathFigures>,
    /// The number of the terms that it has so far, as [`crate::ExchangeSettings::terms`]; none: nobody knows.
    pub terms: Option<u8>,
}

/// How urgent an exchange is (RFC 9218 section 4).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Priority {
    /// From 0, the most urgent, to 7. Default 3.
    pub urgency: u8,
    /// Parts of it are of use, so that those that are as urgent take turns. Default no.
    pub incremental: bool,
}

impl Default for Priority {
    fn default() -> Self {
        Self { urgency: 3, incremental: false }
    }
}

/// What a carrier has counted.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Totals {
    /// Connections so far.
    pub connections: u64,
    /// Those that are open.
    pub open: u64,
    /// Requests so far that were answered.
    pub requests: u64,
    /// Those connections of which a part of a request's head has come.
    pub reading: u64,
}

/// When something happens.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Turn {
    /// The time of the data path's turn, in which it does not move.
    pub now: Time,
    /// The unix second.
    pub second: u64,
    /// Its date.
    pub date: HttpDate,
}

/// Why an exchange is over before its end.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Gone {
    /// Nothing more is to be done for it: what its client sends is no rest of its body, or
    /// whoever made it wants no more of it.
    Cut,
    /// Its client has left, at this time, and so many bytes that were queued for it were not sent.
    Left {
        /// The time.
        now: Time,
        /// Those bytes.
        unsent: u64,
    },
    /// Its client is cut off, for a file that was queued for it could not be sent to its end.
    FileFailed {
        /// The time.
        now: Time,
        /// Bytes that were queued and not sent.
        unsent: u64,
        /// Why.
        fault: SendFileError,
    },
    /// Its carrier ended it so, because others need its connection's place: the client did not
    /// leave.
    GivenUp {
        /// The time.
        now: Time,
        /// Bytes that were queued and not sent.
        unsent: u64,
    },
}

/// What was said before the first request of a connection.
#[derive(Clone, Copy, Default, Debug)]
pub struct Opening<'a> {
    /// What its handshake came to, if it is secured by TLS.
    pub session: Option<&'a Arc<ClientSession>>,
    /// What a proxy said of who connected to it.
    pub proxied: Option<&'a ProxiedAddresses>,
}
