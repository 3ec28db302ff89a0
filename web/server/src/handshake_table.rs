//! The handshakes of a silo: those under way, those that wait, and who works on them.

use crate::allowance::Allowance;
use crate::handshake_helper::{HandshakeHelper, Shaking};
use crate::line::Line;
use app::{ConnId, SourceRule, Sources};
use connections::PATIENCE;
use core::net::IpAddr;
use exchange::ChosenTls;
use handshake::{Acceptor, Connected, Connector, Secured};
use std::collections::{BTreeMap, VecDeque};
use std::os::fd::OwnedFd;
use wire::Time;

/// Handshakes under way in a silo, at most: each takes some 6 KB while it waits for its
/// client.
pub(crate) const HANDSHAKES_MAX: usize = 2_048;

/// Of one client: an IPv4 address, or an IPv6 /64.
const SOURCE_MAX: u32 = 256;

/// What a silo has of handshakes.
#[derive(Debug, Default)]
pub(crate) struct Handshakes {
    /// Clients of some listener begin with one.
    pub on: bool,
    /// Who works on those that take long; none: the silo itself, on one in each turn.
    pub helper: Option<HandshakeHelper>,
    /// What the silo itself may work on.
    pub allowance: Allowance,
    /// The silo's event was raised for those.
    signalled: bool,
    /// CPUs of a helper that is new.
    unsettled: Option<Vec<usize>>,
    /// By index of their connections.
    under_way: BTreeMap<u32, Shake>,
    /// Those, in the order in which they began.
    order: Line,
    /// Of each client.
    sources: Sources,
    /// Connections whose ClientHello waits for a place.
    waiting: Line,
    /// What the silo is to work on.
    pub own: VecDeque<(u64, Shaking, Vec<u8>)>,
    /// With upstreams, by index of their connections.
    pub dialled: BTreeMap<u32, DialledShake>,
}

/// One under way.
#[derive(Debug)]
pub(crate) struct Shake {
    generation: u32,
    source: Option<IpAddr>,
    pub chosen: ChosenTls,
    /// None while it is worked on.
    pub acceptor: Option<Box<Acceptor>>,
    /// Bytes that were taken, and are still with the data path.
    pub consumed: usize,
    /// What it came to.
    pub secured: Option<Box<Secured>>,
    /// What is to be sent before that is used: tickets, the last word of TLS 1.2. It waits for the answer to a
    /// request that may stand behind the client's last word, so that both are one segment.
    pub last: Vec<u8>,
    /// Since when it waits for its client.
    pub since: Time,
}

/// One with an upstream, under way.
#[derive(Debug)]
pub(crate) struct DialledShake {
    pub generation: u32,
    /// None while it is worked on.
    pub connector: Option<Box<Connector>>,
    /// Bytes that were taken, and are still with the data path.
    pub consumed: usize,
    /// What it came to.
    pub connected: Option<Box<Connected>>,
    /// The upstream sends no more.
    pub ended: bool,
}

/// What the helper calls a connection.
pub(crate) const fn token(id: ConnId) -> u64 {
    (id.index() as u64) << 32 | id.generation() as u64
}

/// The connection that it calls so.
pub(crate) const fn id_of(token: u64) -> ConnId {
    ConnId::new((token >> 32) as u32, token as u32)
}

impl Handshakes {
    pub fn new() -> Self {
        let rule = SourceRule { limit: SOURCE_MAX, exempt: Vec::new() };
        Self { sources: Sources::new(Some(rule)), ..Self::default() }
    }

    /// Starts the helper, for what is not done in a turn. Without it the silo works on all itself.
    pub fn start_helper(&mut self, cpus: &[usize]) {
        self.set_helper(HandshakeHelper::start(2 * HANDSHAKES_MAX, cpus).ok(), cpus);
    }

    /// The same, with one that was started for it.
    pub fn set_helper(&mut self, helper: Option<HandshakeHelper>, cpus: &[usize]) {
        self.unsettled = helper.is_some().then(|| cpus.to_vec());
        self.helper = helper;
    }

    /// The server is called: in its first turn the silo learns what its helper has of cores.
    pub fn look(&mut self, now: Time) {
        if let Some(cpus) = self.unsettled.take() {
            self.allowance = Allowance::new(helper::has_others(&cpus));
        }
        self.allowance.look(now);
    }

    /// Notes what is to be worked on in one of the next turns.
    pub fn put_off(&mut self, (token, shaking, bytes): (u64, Shaking, Vec<u8>), event: &OwnedFd) {
        // Those are not looked at any more in the turn that this is part of, unless the silo is woken.
        if self.own.is_empty() && self.allowance.looked_at() {
            self.signalled = rustix::io::write(event, &1_u64.to_ne_bytes()).is_ok();
        }
        self.own.push_back((token, shaking, bytes));
    }

    /// One begins with this client, which has said hello.
    pub fn begin(&mut self, id: ConnId, source: Option<IpAddr>, (chosen, acceptor): (ChosenTls, Acceptor), now: Time) {
        if let Some(source) = source {
            self.sources.opened(source);
        }
        let shake = Shake {
            generation: id.generation(),
            source,
            chosen,
            acceptor: Some(Box::new(acceptor)),
            consumed: 0,
            secured: None,
            last: Vec::new(),
            since: now,
        };
        self.under_way.insert(id.index() as u32, shake);
        self.order.join(id);
    }

    /// Its ClientHello waits for a place.
    pub fn wait(&mut self, id: ConnId) {
        self.waiting.join(id);
    }

    /// Who has waited for a place for longest: it is tried again.
    pub fn take_waiting(&mut self) -> Option<ConnId> {
        self.waiting.take_first()
    }

    /// Whether the silo's event was raised for what is put off, since this was asked last.
    pub fn take_signal(&mut self) -> bool {
        core::mem::take(&mut self.signalled)
    }

    /// Whether the helper was ready with more since it was last looked at.
    pub fn has_arrived(&self) -> bool {
        self.helper.as_ref().is_some_and(HandshakeHelper::has_arrived)
    }

    /// The one of this connection, if it is under way.
    pub fn get(&mut self, id: ConnId) -> Option<&mut Shake> {
        self.under_way.get_mut(&(id.index() as u32)).filter(|shake| shake.generation == id.generation())
    }

    /// One is over, or its connection.
    pub fn remove(&mut self, id: ConnId) {
        self.waiting.leave(id);
        if self.get(id).is_some()
            && let Some(shake) = self.under_way.remove(&(id.index() as u32))
        {
            self.order.leave(id);
            if let Some(source) = shake.source {
                self.sources.closed(source);
            }
        }
    }

    /// Whether there is a place for one more, of this client.
    pub fn has_room(&self, source: Option<IpAddr>) -> bool {
        self.under_way.len() < HANDSHAKES_MAX && source.is_none_or(|source| self.sources.admits(source))
    }

    /// One that has waited for its client for so long that it may give way.
    pub fn oldest(&mut self, now: Time) -> Option<ConnId> {
        let id = self.order.first()?;
        let shake = self.get(id)?;
        let waits = shake.acceptor.is_some() && now.since(shake.since) >= PATIENCE;
        waits.then_some(id)
    }

    /// Whether one waits for its client, or for more of a ClientHello.
    pub fn is_waited_for(&self, id: ConnId) -> bool {
        let shake = self.under_way.get(&(id.index() as u32));
        shake.is_none_or(|shake| shake.acceptor.is_some())
    }

    /// The one of this connection to an upstream.
    pub fn dialled_mut(&mut self, id: ConnId) -> Option<&mut DialledShake> {
        self.dialled.get_mut(&(id.index() as u32)).filter(|shake| shake.generation == id.generation())
    }

    /// That one is over, or its connection.
    pub fn remove_dialled(&mut self, id: ConnId) {
        if self.dialled_mut(id).is_some() {
            self.dialled.remove(&(id.index() as u32));
        }
    }
}
