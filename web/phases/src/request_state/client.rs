//! Whose request it is, and what its connection is like.

use app::PathFigures;
use exchange::{ClientSession, ProxiedAddresses};
use std::net::SocketAddr;
use std::sync::Arc;

/// The client of a request.
#[derive(Debug, Default)]
pub(crate) struct Client {
    pub peer: Option<SocketAddr>,
    /// What a proxy said of it before all requests.
    pub proxied: Option<Box<ProxiedAddresses>>,
    /// How TCP has found it, as far as somebody asks.
    pub path: Option<PathFigures>,
    /// What its handshake came to.
    pub session: Option<Arc<ClientSession>>,
    /// What the request is answered with because of that, though what it says is believed.
    pub fault: Option<u16>,
}

impl Client {
    pub(super) fn forget(&mut self) {
        let Self { peer, proxied, path, session, fault } = self;
        (*peer, *proxied, *path, *session, *fault) = (None, None, None, None, None);
    }

    /// Is that of a request within another, whose client that is.
    pub fn begin_within(&mut self, parent: &Self) {
        (self.peer, self.proxied) = (parent.peer, parent.proxied.clone());
        self.session.clone_from(&parent.session);
    }
}
