//! How connections are secured, by index.

use app::ConnId;
use exchange::{ClientSession, Transport};
use std::sync::Arc;

/// How one of these connections is secured.
#[inline]
pub fn transport(all: &[Security], id: ConnId) -> Transport {
    match all.get(id.index()) {
        None | Some(Security::Plain) => Transport::Plain,
        Some(Security::Misplaced) => Transport::Misplaced,
        Some(Security::Tls { .. }) => Transport::Tls,
    }
}

/// Whether its client was asked for a certificate.
#[inline]
pub fn asks_clients(all: &[Security], id: ConnId) -> bool {
    matches!(all.get(id.index()), Some(Security::Tls { asks: true, .. }))
}

/// How a connection is secured; there is none of these where nobody speaks TLS.
#[derive(Debug)]
pub enum Security {
    /// It is not.
    Plain,
    /// A request in plain text where a handshake was to come.
    Misplaced,
    /// By TLS.
    Tls {
        /// What its handshake came to.
        session: Arc<ClientSession>,
        /// Its client was asked for a certificate.
        asks: bool,
    },
}
