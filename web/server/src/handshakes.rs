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
use crate::allowance::Place;
use crate::handshake_helper::{Finished, HandshakeHelper, Shaking, Shook};
use crate::handshake_table::{Handshakes, id_of, token};
use app::{ConnId, Net, Wake};
use connections::{DRY, ENDED, PARTIAL, PATIENCE, Security, State, Tick};
use exchange::{ClientSession, ConnectionFault, Handler, HandshakeFault, LocalAddress, Turn};
use handshake::{Acceptor, First, HELLO_MAX, Hello, HelloError, Outcome, Secured, Step, hello};
use std::sync::Arc;
use wire::Time;

/// Of those that wait for a place, so many are tried when one is free.
const TRIED: usize = 8;

/// What becomes of bytes that came before a connection is secured.
pub(crate) enum Shaken {
    /// They wait.
    Waits,
    /// So many are taken, and the connection goes on with the others.
    Taken(usize),
    /// So many are taken, and the others are records.
    Secured(usize),
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
                self.h1.connections.send(net, id, &last);
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
        } else if self.h1.connections.conns[id.index()].flags & ENDED != 0 {
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
            self.h1.connections.conns[id.index()].flags |= PARTIAL;
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
                self.h1.connections.set_security(id, Security::Misplaced);
                let conn = &mut self.h1.connections.conns[id.index()];
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
                self.h1.connections.counters.handshakes_delayed += 1;
                self.handshakes.wait(id);
                return Shaken::Waits;
            }
        }
        let local = LocalAddress::of(net, id);
        let turn = Turn { now: net.now(), second: self.h1.connections.second, date: self.h1.connections.date };
        let tls = self.listeners.opening(|| local).and_then(|opening| opening.tls.as_ref());
        let Some(mut chosen) = tls.and_then(|tls| tls.choose(local, &hello, &turn)) else {
            self.fail(net, id, &HandshakeFault::NoServer, &HelloError::Unexpected.alert());
            return Shaken::Taken(0);
        };
        let tls = Arc::clone(&chosen.tls);
        let acceptor = match chosen.demand.take() {
            None => Acceptor::new(tls, hello),
            Some(demand) => Acceptor::on_demand(tls, hello, *demand),
        };
        self.handshakes.begin(id, source, (chosen, acceptor), net.now());
        self.h1.connections.counters.handshakes += 1;
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
            self.handshakes.wait(id);
        }
        Shaken::Waits
    }

    /// What was worked on is taken up; of what is the silo's own, as much is worked on as a turn
    /// has room for.
    pub(crate) fn handshakes_turn<N: Net>(&mut self, net: &mut N) -> Wake {
        let mut any = false;
        self.begin_dialled();
        self.h1.early.on_turn(net);
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
        if self.handshakes.take_signal() {
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
                let Some(id) = self.handshakes.take_waiting() else { break };
                if self.h1.connections.conn(id).is_some_and(|conn| conn.state == State::Handshake) {
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
        let is_there = self.h1.connections.conn(id).is_some_and(|conn| conn.state == State::Handshake);
        let Some(shake) = self.handshakes.get(id).filter(|_| is_there) else { return };
        let Step { consumed, out, outcome } = step;
        shake.consumed = consumed;
        match outcome {
            Outcome::Waits => {
                (shake.acceptor, shake.since) = (Some(acceptor), net.now());
                if consumed == 0 && self.h1.connections.conns[id.index()].flags & ENDED != 0 {
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
            self.h1.connections.send(net, id, &out);
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
            self.h1.connections.send(net, id, &out);
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
        if self.h1.connections.conns[id.index()].flags & ENDED != 0 {
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
        self.h1.connections.counters.handshakes_done += 1;
        self.h1.connections.counters.handshakes_resumed += u64::from(session.resumed);
        if let Some(over) = &session.early {
            self.h1.early.insert(id, over);
        }
        let asks = chosen.tls.asks_clients();
        let session = Arc::new(ClientSession { chosen, session });
        self.h1.connections.set_security(id, Security::Tls { session, asks });
        let conn = &mut self.h1.connections.conns[id.index()];
        conn.state = State::Ready;
        // The end of what is secured is told anew.
        conn.flags &= !(PARTIAL | ENDED | DRY);
        conn.last = Tick::of(net.now());
        let header = self.h1.connections.terms.head(self.h1.connections.conns[id.index()].terms).timeout;
        self.h1.connections.arm(net, id, header);
        if !net.secure(id, layer) {
            // A data path that cannot takes no listener that would need it.
            net.abort(id);
        } else {
            self.choose_protocol(net, id);
        }
        Shaken::Secured(consumed)
    }

    /// A handshake comes to nothing: told, and closed, behind this alert.
    #[cold]
    pub(crate) fn fail<N: Net>(&mut self, net: &mut N, id: ConnId, fault: &HandshakeFault, alert: &[u8]) {
        self.handshakes.remove(id);
        self.h1.connections.counters.handshakes_failed += 1;
        self.h1.tell(net, id, Some(id), |handler, replies, exchange| {
            handler.on_fault(replies, exchange, ConnectionFault::Handshake(fault));
        });
        if !alert.is_empty() {
            self.h1.connections.send(net, id, alert);
        }
        if matches!(fault, HandshakeFault::Late) {
            // Whoever sends a byte now and then would keep its place for as long as it is listened to.
            return net.abort(id);
        }
        // Whatever it sent waits with the data path.
        self.h1.connections.conns[id.index()].flags |= PARTIAL;
        self.h1.connections.close_after_queue(net, id);
    }

    /// Whether a handshake waits for its client, and its connection began so long ago.
    pub(crate) fn is_late(&self, id: ConnId, now: Time) -> bool {
        self.handshakes.is_waited_for(id) && self.h1.connections.beginnings.age(id.index(), now) >= PATIENCE
    }
}
