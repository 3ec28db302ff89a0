//! Sessions with servers, that later connections go on with: each server's its own.

use rustls::NamedGroup;
use rustls::client::{ClientSessionStore, Tls12ClientSessionValue, Tls13ClientSessionValue};
use rustls::pki_types::ServerName;
use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Servers whose sessions are kept, at most: the oldest gives way.
const PEERS_MAX: usize = 1_024;

/// The sessions of a client.
pub(crate) struct PeerCache {
    kept: Mutex<Kept>,
    /// Tickets of each server, at most.
    tickets: usize,
}

#[derive(Default)]
struct Kept {
    peers: HashMap<Arc<[u8]>, Peer>,
    /// In the order in which they came.
    order: VecDeque<Arc<[u8]>>,
}

#[derive(Default)]
struct Peer {
    group: Option<NamedGroup>,
    tls12: Option<Tls12ClientSessionValue>,
    tls13: VecDeque<Tls13ClientSessionValue>,
}

impl PeerCache {
    /// One that keeps so many tickets of each server.
    pub fn new(tickets: usize) -> Self {
        Self { kept: Mutex::default(), tickets }
    }

    fn kept(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Kept {
    fn peer(&mut self, key: &Arc<[u8]>) -> &mut Peer {
        if !self.peers.contains_key(key) {
            if self.order.len() >= PEERS_MAX
                && let Some(oldest) = self.order.pop_front()
            {
                self.peers.remove(&oldest);
            }
            self.order.push_back(Arc::clone(key));
        }
        self.peers.entry(Arc::clone(key)).or_default()
    }
}

/// Those with one server.
pub(crate) struct PeerSessions {
    cache: Arc<PeerCache>,
    key: Arc<[u8]>,
}

impl PeerSessions {
    /// Those with the server that is known by `key`.
    pub fn new(cache: Arc<PeerCache>, key: &[u8]) -> Self {
        Self { cache, key: key.into() }
    }
}

/// No log tells sessions.
impl core::fmt::Debug for PeerSessions {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("PeerSessions").finish_non_exhaustive()
    }
}

impl ClientSessionStore for PeerSessions {
    fn set_kx_hint(&self, _: ServerName<'static>, group: NamedGroup) {
        self.cache.kept().peer(&self.key).group = Some(group);
    }

    fn kx_hint(&self, _: &ServerName<'_>) -> Option<NamedGroup> {
        self.cache.kept().peers.get(&self.key)?.group
    }

    fn set_tls12_session(&self, _: ServerName<'static>, value: Tls12ClientSessionValue) {
        self.cache.kept().peer(&self.key).tls12 = Some(value);
    }

    fn tls12_session(&self, _: &ServerName<'_>) -> Option<Tls12ClientSessionValue> {
        self.cache.kept().peers.get(&self.key)?.tls12.clone()
    }

    fn remove_tls12_session(&self, _: &ServerName<'static>) {
        if let Some(peer) = self.cache.kept().peers.get_mut(&self.key) {
            peer.tls12 = None;
        }
    }

    fn insert_tls13_ticket(&self, _: ServerName<'static>, value: Tls13ClientSessionValue) {
        let mut kept = self.cache.kept();
        let tickets = &mut kept.peer(&self.key).tls13;
        if tickets.len() >= self.cache.tickets {
            tickets.pop_front();
        }
        tickets.push_back(value);
    }

    fn take_tls13_ticket(&self, _: &ServerName<'static>) -> Option<Tls13ClientSessionValue> {
        self.cache.kept().peers.get_mut(&self.key)?.tls13.pop_back()
    }
}
