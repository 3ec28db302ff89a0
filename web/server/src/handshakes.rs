//! Handshakes of TLS, before a connection's first request.
//!
//! ```text
//!  bytes ─► a whole ClientHello ─► a server by its name ─► Acceptor ─┐  at once, in one of the
//!    ▲      (they wait with the     (HttpOpening::tls)               │  next turns, or by the
//!    │       data path until then)                                   ▼  helper (`allowance`)
//!    └─────────── more from its client ◄── what is to be sent ◄──────┤
//!                                                                    └─► Net::secure
//! ```
//!
//! Until the ClientHello is whole a connection costs what any other does: its bytes stay
//! with the data path, and so do those that a handshake has not taken. Handshakes under way
//! are bounded, of all clients and of each; who comes beyond that waits, and the oldest that
//! wait for their clients give way.

use crate::Server;
use crate::allowance::{Allowance, Place};
use crate::carrier::{Answering, Carrier};
use crate::conn::{DRY, ENDED, PARTIAL, State, Tick};
use crate::early::EarlyConnections;
use crate::handshake_helper::{Finished, HandshakeHelper, Shaking, Shook};
use crate::line::Line;
use crate::pace::PATIENCE;
use crate::security::{Security, transport};
use app::{ConnId, Net, SourceRule, Sources, Wake};
use core::net::IpAddr;
use exchange::{ChosenTls, ClientSession, Handler, HandshakeFault, LocalAddress, OpeningFault, Transport, Turn};
use handshake::{Acceptor, Connected, Connector, First, HELLO_MAX, Hello, HelloError, Outcome, Secured, Step, hello};
use std::collections::{BTreeMap, VecDeque};
use std::os::fd::OwnedFd;
use std::sync::Arc;
use wire::Time;

/// Handshakes under way in a silo, at most: each takes some 6 KB while it waits for its
/// client.
pub(crate) const HANDSHAKES_MAX: usize = 2_048;

/// Of one client: an IPv4 address, or an IPv6 /64.
const SOURCE_MAX: u32 = 256;

/// Of those that wait for a place, so many are tried when one is free.
const TRIED: usize = 8;

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
    /// Those that are not over, and whose clients ask already.
    pub early: EarlyConnections,
    /// With upstreams, by index of their connections.
    pub dialled: BTreeMap<u32, DialledShake>,
}

/// One under way.
#[derive(Debug)]
struct Shake {
    generation: u32,
    source: Option<IpAddr>,
    chosen: ChosenTls,
    /// None while it is worked on.
    acceptor: Option<Box<Acceptor>>,
    /// Bytes that were taken, and are still with the data path.
    consumed: usize,
    /// What it came to.
    secured: Option<Box<Secured>>,
    /// What is to be sent before that is used: tickets, the last word of TLS 1.2. It waits for the answer to a
    /// request that may stand behind the client's last word, so that both are one segment.
    last: Vec<u8>,
    /// Since when it waits for its client.
    since: Time,
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

impl Handshakes {
    pub(crate) fn dialled_mut(&mut self, id: ConnId) -> Option<&mut DialledShake> {
        self.dialled.get_mut(&(id.index() as u32)).filter(|shake| shake.generation == id.generation())
    }

    pub(crate) fn remove_dialled(&mut self, id: ConnId) {
        if self.dialled_mut(id).is_some() {
            self.dialled.remove(&(id.index() as u32));
        }
    }
}

/// What becomes of bytes that came before a connection is secured.
pub(crate) enum Shaken {
    /// They wait.
    Waits,
    /// So many are taken, and the connection goes on with the others.
    Taken(usize),
    /// So many are taken, and the others are records.
    Secured(usize),
}

pub(crate) const fn token(id: ConnId) -> u64 {
    (id.index() as u64) << 32 | id.generation() as u64
}

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
    fn look(&mut self, now: Time) {
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

    /// Whether the helper was ready with more since it was last looked at.
    pub fn has_arrived(&self) -> bool {
        self.helper.as_ref().is_some_and(HandshakeHelper::has_arrived)
    }

    fn get(&mut self, id: ConnId) -> Option<&mut Shake> {
        self.under_way.get_mut(&(id.index() as u32)).filter(|shake| shake.generation == id.generation())
    }

    /// One is over, or its connection.
    pub fn remove(&mut self, id: ConnId) {
        self.waiting.leave(id);
        self.early.remove(id);
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
    fn has_room(&self, source: Option<IpAddr>) -> bool {
        self.under_way.len() < HANDSHAKES_MAX && source.is_none_or(|source| self.sources.admits(source))
    }

    /// One that has waited for its client for so long that it may give way.
    fn oldest(&mut self, now: Time) -> Option<ConnId> {
        let id = self.order.first()?;
        let shake = self.get(id)?;
        let waits = shake.acceptor.is_some() && now.since(shake.since) >= PATIENCE;
        waits.then_some(id)
    }
}

impl Carrier {
    /// How a connection is secured.
    #[inline]
    pub(crate) fn transport(&self, id: ConnId) -> Transport {
        transport(&self.security, id)
    }

    /// What its handshake came to.
    pub(crate) fn session(&self, id: ConnId) -> Option<&Arc<ClientSession>> {
        match self.security.get(id.index())? {
            Security::Tls { session, .. } => Some(session),
            Security::Plain | Security::Misplaced => None,
        }
    }

    /// It is secured so from now on.
    pub(crate) fn set_security(&mut self, id: ConnId, security: Security) {
        let index = id.index();
        if index >= self.security.len() {
            if matches!(security, Security::Plain) {
                return;
            }
            self.security.resize_with(index + 1, || Security::Plain);
        }
        self.security[index] = security;
    }
}

impl<H: Handler> Server<H> {
    /// Takes what a connection sends before it is secured, as far as that can be worked on.
    #[cold]
    #[inline(never)]
    pub(crate) fn on_handshake_bytes<N: Net>(&mut self, net: &mut N, id: ConnId, bytes: &[u8]) -> Shaken {
        let Some(shake) = self.handshakes.get(id) else { return self.on_hello_bytes(net, id, bytes) };
        let consumed = core::mem::take(&mut shake.consumed);
        if let Some(secured) = shake.secured.take() {
            let last = core::mem::take(&mut shake.last);
            if !last.is_empty() {
                self.carrier.send(net, id, &last);
            }
            return self.secure(net, id, *secured, consumed);
        }
        if consumed > 0 {
            return Shaken::Taken(consumed);
        }
        if shake.acceptor.is_none() {
            return Shaken::Waits;
        }
        if Acceptor::has_record(bytes) {
            return self.work(net, id, &bytes[..bytes.len().min(2 * HELLO_MAX)]);
        } else if self.carrier.conns[id.index()].flags & ENDED != 0 {
            self.fail(net, id, &HandshakeFault::Left, &[]);
            return Shaken::Taken(0);
        }
        Shaken::Waits
    }

    /// The client sends no more. What it sent last is looked at first: it may say why.
    pub(crate) fn on_handshake_end<N: Net>(&mut self, net: &mut N, id: ConnId) {
        let is_worked_on = self.handshakes.get(id).is_some_and(|shake| shake.acceptor.is_none());
        if !is_worked_on {
            self.fail(net, id, &HandshakeFault::Left, &[]);
        }
    }

    /// The first bytes of a connection.
    fn on_hello_bytes<N: Net>(&mut self, net: &mut N, id: ConnId, bytes: &[u8]) -> Shaken {
        if !bytes.is_empty() {
            self.carrier.conns[id.index()].flags |= PARTIAL;
        }
        let copy;
        let mut bytes = bytes;
        let mut first = hello::first(bytes);
        if net.shares_frames()
            && let First::Whole(_, length) = first
        {
            // What is chosen by, and worked on, are the same bytes.
            copy = bytes[..length].to_vec();
            bytes = &copy;
            first = hello::first(bytes);
        }
        match first {
            First::Partial(_) => Shaken::Waits,
            First::Plain => {
                self.carrier.set_security(id, Security::Misplaced);
                let conn = &mut self.carrier.conns[id.index()];
                conn.state = State::Ready;
                conn.flags &= !PARTIAL;
                Shaken::Taken(0)
            }
            First::Refused(why) => {
                self.fail(net, id, &HandshakeFault::Hello(why), &why.alert());
                Shaken::Taken(0)
            }
            First::Whole(hello, length) => self.begin_handshake(net, id, hello, &bytes[..length]),
        }
    }

    /// A whole ClientHello is there.
    fn begin_handshake<N: Net>(&mut self, net: &mut N, id: ConnId, hello: Hello, bytes: &[u8]) -> Shaken {
        let source = net.peer(id).map(|peer| peer.ip());
        if !self.handshakes.has_room(source) {
            if let Some(oldest) = self.handshakes.oldest(net.now()) {
                self.fail(net, oldest, &HandshakeFault::Late, &[]);
            }
            if !self.handshakes.has_room(source) {
                self.carrier.counters.handshakes_delayed += 1;
                self.handshakes.waiting.join(id);
                return Shaken::Waits;
            }
        }
        let local = LocalAddress::of(net, id);
        let turn = Turn { now: net.now(), second: self.carrier.second, date: self.carrier.date };
        let tls = self.listeners.opening(|| local).and_then(|opening| opening.tls.as_ref());
        let Some(mut chosen) = tls.and_then(|tls| tls.choose(local, &hello, &turn)) else {
            self.fail(net, id, &HandshakeFault::NoServer, &HelloError::Unexpected.alert());
            return Shaken::Taken(0);
        };
        if let Some(source) = source {
            self.handshakes.sources.opened(source);
        }
        let tls = Arc::clone(&chosen.tls);
        let acceptor = Some(Box::new(match chosen.demand.take() {
            None => Acceptor::new(tls, hello),
            Some(demand) => Acceptor::on_demand(tls, hello, *demand),
        }));
        let (index, generation) = (id.index() as u32, id.generation());
        let since = net.now();
        let (consumed, secured, last) = (0, None, Vec::new());
        let shake = Shake { generation, source, chosen, acceptor, consumed, secured, last, since };
        self.handshakes.under_way.insert(index, shake);
        self.handshakes.order.join(id);
        self.carrier.counters.handshakes += 1;
        self.work(net, id, bytes)
    }

    /// Works on a handshake, or has it worked on: then it is taken up in a later turn.
    fn work<N: Net>(&mut self, net: &mut N, id: ConnId, bytes: &[u8]) -> Shaken {
        let shake = self.handshakes.get(id);
        let Some(mut acceptor) = shake.and_then(|shake| shake.acceptor.take()) else { return Shaken::Waits };
        let Handshakes { helper, own, allowance, .. } = &mut self.handshakes;
        let place = allowance.place(acceptor.effort(), helper.is_some(), !own.is_empty());
        if place == Place::Here {
            // What is worked on is not to change meanwhile.
            let copy;
            let bytes = if net.shares_frames() {
                copy = bytes.to_vec();
                &copy
            } else {
                bytes
            };
            let step = acceptor.on_bytes(bytes);
            return self.take_step(net, id, acceptor, step);
        }
        // By the helper, too: each waits for no more than those before it.
        net.answers_soon(id);
        let (shaking, bytes) = (Shaking::Client(acceptor), bytes.to_vec());
        let event = &self.event;
        let Some(helper) = helper.as_mut().filter(|_| place == Place::Helper) else {
            self.handshakes.put_off((token(id), shaking, bytes), event);
            return Shaken::Waits;
        };
        // There is a place in the helper's line for each that may be under way, but those of
        // clients that have left may stand there still.
        if let Err((shaking, _)) = helper.submit(token(id), shaking, (bytes, event)) {
            if let Shaking::Client(acceptor) = shaking
                && let Some(shake) = self.handshakes.get(id)
            {
                shake.acceptor = Some(acceptor);
            }
            self.handshakes.waiting.join(id);
        }
        Shaken::Waits
    }

    /// What was worked on is taken up; of what is the silo's own, as much is worked on as a turn
    /// has room for.
    pub(crate) fn handshakes_turn<N: Net>(&mut self, net: &mut N) -> Wake {
        let mut any = false;
        self.begin_dialled();
        self.handshakes.early.on_turn(net);
        if let Some(helper) = &mut self.handshakes.helper {
            if helper.arrived() {
                // Not readable, if another helper's answer took its signal along.
                let _ = rustix::io::read(&self.event, &mut [0_u8; 8]);
            }
            while let Some(finished) = self.handshakes.helper.as_mut().and_then(HandshakeHelper::take) {
                self.after_step(net, finished);
                any = true;
            }
        }
        self.handshakes.look(net.now());
        if core::mem::take(&mut self.handshakes.signalled) {
            let _ = rustix::io::read(&self.event, &mut [0_u8; 8]);
        }
        any |= !self.handshakes.own.is_empty();
        // Without a helper, what it had no place for, and what a turn before had no room for.
        while let Some((token, shaking, _)) = self.handshakes.own.front() {
            // Nobody's signature is made for who has left.
            let (id, is_client, effort) = (id_of(*token), matches!(shaking, Shaking::Client(_)), shaking.effort());
            let is_there = match is_client {
                true => self.handshakes.get(id).is_some(),
                false => self.handshakes.dialled_mut(id).is_some(),
            };
            if is_there && !self.handshakes.allowance.takes(effort) {
                break;
            }
            if let Some((token, shaking, bytes)) = self.handshakes.own.pop_front()
                && is_there
            {
                self.after_step(net, Finished { token, shook: shaking.on_bytes(&bytes) });
            }
        }
        if any {
            for _ in 0..TRIED {
                let Some(id) = self.handshakes.waiting.take_first() else { break };
                if self.carrier.conn(id).is_some_and(|conn| conn.state == State::Handshake) {
                    net.resume(id);
                }
            }
        }
        if self.handshakes.own.is_empty() { Wake::Idle } else { Wake::Now }
    }

    /// A handshake was worked on, and what it took is offered again.
    fn after_step<N: Net>(&mut self, net: &mut N, finished: Finished) {
        let Finished { token, shook } = finished;
        let id = id_of(token);
        let (acceptor, step) = match shook {
            Shook::Client(acceptor, step) => (acceptor, step),
            Shook::Upstream(connector, step) => return self.after_dialled_step(net, id, (connector, step)),
        };
        let is_there = self.carrier.conn(id).is_some_and(|conn| conn.state == State::Handshake);
        let Some(shake) = self.handshakes.get(id).filter(|_| is_there) else { return };
        let Step { consumed, out, outcome } = step;
        shake.consumed = consumed;
        match outcome {
            Outcome::Waits => {
                (shake.acceptor, shake.since) = (Some(acceptor), net.now());
                if consumed == 0 && self.carrier.conns[id.index()].flags & ENDED != 0 {
                    return self.fail(net, id, &HandshakeFault::Left, &[]);
                }
            }
            Outcome::Done(secured) => {
                (shake.secured, shake.last) = (Some(secured), out);
                return net.resume(id);
            }
            Outcome::Failed(why) => return self.fail(net, id, &HandshakeFault::Failed(why), &out),
        }
        if !out.is_empty() {
            self.carrier.send(net, id, &out);
        }
        net.resume(id);
    }

    /// A handshake was worked on while its bytes were offered.
    fn take_step<N: Net>(&mut self, net: &mut N, id: ConnId, acceptor: Box<Acceptor>, step: Step) -> Shaken {
        let Step { consumed, out, outcome } = step;
        if let Outcome::Failed(why) = outcome {
            self.fail(net, id, &HandshakeFault::Failed(why), &out);
            return Shaken::Taken(0);
        }
        if !out.is_empty() {
            self.carrier.send(net, id, &out);
        }
        if let Outcome::Done(secured) = outcome {
            return self.secure(net, id, *secured, consumed);
        }
        if let Some(shake) = self.handshakes.get(id) {
            (shake.acceptor, shake.since) = (Some(acceptor), net.now());
        }
        if consumed > 0 {
            return Shaken::Taken(consumed);
        }
        if self.carrier.conns[id.index()].flags & ENDED != 0 {
            self.fail(net, id, &HandshakeFault::Left, &[]);
            return Shaken::Taken(0);
        }
        Shaken::Waits
    }

    /// The handshake is over: what follows the bytes that it took are records.
    fn secure<N: Net>(&mut self, net: &mut N, id: ConnId, secured: Secured, consumed: usize) -> Shaken {
        let chosen = self.handshakes.get(id).map(|shake| shake.chosen.clone());
        self.handshakes.remove(id);
        let (Some(chosen), Some((layer, session))) = (chosen, secured.into_layer()) else {
            net.abort(id);
            return Shaken::Taken(consumed);
        };
        self.carrier.counters.handshakes_done += 1;
        self.carrier.counters.handshakes_resumed += u64::from(session.resumed);
        if let Some(over) = &session.early {
            self.handshakes.early.insert(id, over);
        }
        let asks = chosen.tls.asks_clients();
        let session = Arc::new(ClientSession { chosen, session });
        self.carrier.set_security(id, Security::Tls { session, asks });
        let conn = &mut self.carrier.conns[id.index()];
        conn.state = State::Ready;
        // The end of what is secured is told anew.
        conn.flags &= !(PARTIAL | ENDED | DRY);
        conn.last = Tick::of(net.now());
        let header = self.carrier.terms.head(self.carrier.conns[id.index()].terms).timeout;
        self.carrier.arm(net, id, header);
        if !net.secure(id, layer) {
            // A data path that cannot takes no listener that would need it.
            net.abort(id);
        }
        Shaken::Secured(consumed)
    }

    /// A handshake comes to nothing: told, and closed, behind this alert.
    #[cold]
    pub(crate) fn fail<N: Net>(&mut self, net: &mut N, id: ConnId, fault: &HandshakeFault, alert: &[u8]) {
        self.handshakes.remove(id);
        self.carrier.counters.handshakes_failed += 1;
        let exchange = self.carrier.exchange_of(id);
        let mut replies = Answering { net, carrier: &mut self.carrier, within: Some(id), series: None };
        self.handler.on_fault(&mut replies, exchange, OpeningFault::Handshake(fault));
        if !alert.is_empty() {
            self.carrier.send(net, id, alert);
        }
        if matches!(fault, HandshakeFault::Late) {
            // Whoever sends a byte now and then would keep its place for as long as it is listened to.
            return net.abort(id);
        }
        // Whatever it sent waits with the data path.
        self.carrier.conns[id.index()].flags |= PARTIAL;
        self.carrier.close_after_queue(net, id);
    }

    /// Whether a handshake waits for its client, and its connection began so long ago.
    pub(crate) fn is_late(&self, id: ConnId, now: Time) -> bool {
        let shake = self.handshakes.under_way.get(&(id.index() as u32));
        let is_worked_on = shake.is_some_and(|shake| shake.acceptor.is_none());
        !is_worked_on && self.carrier.beginnings.age(id.index(), now) >= PATIENCE
    }
}
