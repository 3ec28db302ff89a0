//! What gives way where nearly all places are taken.
//!
//! A place is a connection, of a client or to an upstream. Where seven of eight that there
//! may be are taken, these give theirs up to whoever comes next; idle ones do so anyway, by
//! the data path:
//!
//! - handshakes, heads of requests and headers of proxies, three seconds after they began;
//! - bodies of requests below 500 bytes a second ([`connections::BodyPace`]); three seconds after the
//!   answer the rest of one whose request was answered before it;
//! - where one client has more than a quarter of all places, idle ones not counted: of its
//!   tunnels, requests that wait for an upstream, and answers, as far as less than 500 bytes
//!   a second go either way, the youngest, until it has a quarter. Not just until there is room
//!   again: a client that opens an eighth of all places within a second would lock others out
//!   until the next look.
//!
//! Who has many places is found by looks at all connections, a second apart and in parts, so
//! that nothing is counted as long as there is room. More than a quarter is had by three
//! clients at most: four counters find them in one pass (Misra and Gries), the next counts
//! their connections.

use crate::Server;
use app::{ConnId, Net, SourceKey, Wake};
use connections::{PARTIAL, PATIENCE, ServedConnection, State};
use core::time::Duration;
use exchange::{Handler, HandshakeFault};
use semantics::Status;
use wire::Time;

/// Connections that are looked at in a turn: for a quarter of a millisecond or so.
const LOOKED_AT: usize = 8_192;

/// Connections that are ended in a turn.
const ENDED: usize = 256;

/// One more than can have more than a quarter.
const SUSPECTS: usize = 4;

/// Looks at who has the places.
#[derive(Debug, Default)]
pub(crate) struct Crowding {
    /// When to look again, and where the last look at what is slow ended.
    looks_at: Time,
    hand: usize,
    pass: Pass,
    /// The next connection of the pass.
    next: usize,
    suspects: Vec<Suspect>,
    /// Who gives way, the next one last.
    ending: Vec<ConnId>,
}

/// What a pass over all connections is for.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
enum Pass {
    /// There is none.
    #[default]
    Over,
    /// Finding who may have more than a quarter.
    Seeks,
    /// Counting what they have.
    Counts,
    /// Ending what gives way.
    Ends,
}

/// A client that may have more than a quarter of all places.
#[derive(Debug)]
struct Suspect {
    source: SourceKey,
    count: usize,
    /// What it has that gives way: numbers of connections, and which they are.
    gives: Vec<(u64, ConnId)>,
}

impl Crowding {
    /// A connection of `source` was seen in the first pass.
    fn vote(&mut self, source: SourceKey) {
        if let Some(suspect) = self.suspects.iter_mut().find(|suspect| suspect.source == source) {
            suspect.count += 1;
        } else if self.suspects.len() < SUSPECTS {
            self.suspects.push(Suspect { source, count: 1, gives: Vec::new() });
        } else {
            self.suspects.iter_mut().for_each(|suspect| suspect.count -= 1);
            self.suspects.retain(|suspect| suspect.count > 0);
        }
    }

    /// The pass saw all connections, of which there may be so many.
    fn end_pass(&mut self, most: usize) {
        self.next = 0;
        self.pass = match self.pass {
            Pass::Seeks if !self.suspects.is_empty() => {
                self.suspects.iter_mut().for_each(|suspect| suspect.count = 0);
                Pass::Counts
            }
            Pass::Counts => {
                for suspect in &mut self.suspects {
                    let over = suspect.count.saturating_sub(most / 4);
                    suspect.gives.sort_unstable_by_key(|(number, _)| core::cmp::Reverse(*number));
                    self.ending.extend(suspect.gives.iter().take(over).rev().map(|(_, id)| *id));
                }
                self.suspects.clear();
                if self.ending.is_empty() { Pass::Over } else { Pass::Ends }
            }
            _ => Pass::Over,
        };
    }
}

impl<H: Handler> Server<H> {
    /// Where nearly all places are taken, those who take long give theirs up. When to look
    /// again.
    #[inline(always)]
    pub(crate) fn make_way<N: Net>(&mut self, net: &mut N, now: Time) -> Wake {
        // Those to upstreams are in a table of their own, mostly, where there are two.
        let upstreams = if self.h1.connections.limits.beside == 0 { self.h1.connections.upstreams.open() } else { 0 };
        if self.is_crowded(upstreams) { self.give_way(net, now, upstreams) } else { Wake::Idle }
    }

    /// Whether nearly all places are taken, so many by connections to upstreams, or were at
    /// the last look.
    #[inline(always)]
    pub(crate) fn is_crowded(&self, upstreams: usize) -> bool {
        self.crowding.pass != Pass::Over || self.taken(upstreams) >= self.h1.connections.crowded_from
    }

    fn taken(&self, upstreams: usize) -> usize {
        self.h1.connections.counters.connections_open as usize + upstreams
    }

    #[cold]
    #[inline(never)]
    fn give_way<N: Net>(&mut self, net: &mut N, now: Time, upstreams: usize) -> Wake {
        if self.taken(upstreams) < self.h1.connections.crowded_from {
            // Who is known to have too many keeps a quarter, and who might have is let be.
            if self.crowding.pass == Pass::Ends {
                self.end_heavy(net);
            } else {
                self.crowding = Crowding { looks_at: self.crowding.looks_at, ..Crowding::default() };
            }
            return if self.crowding.pass == Pass::Over { Wake::Idle } else { Wake::Now };
        }
        if now >= self.crowding.looks_at {
            self.crowding.looks_at = now + Duration::from_secs(1);
            self.end_slow(net, now);
            if self.crowding.pass == Pass::Over {
                (self.crowding.pass, self.crowding.next) = (Pass::Seeks, 0);
            }
        }
        match self.crowding.pass {
            Pass::Over => {}
            Pass::Seeks | Pass::Counts => self.look_for_heavy(net, now),
            Pass::Ends => self.end_heavy(net),
        }
        if self.crowding.pass == Pass::Over { Wake::At(self.crowding.looks_at) } else { Wake::Now }
    }

    /// Ends handshakes, heads and bodies that come too slowly.
    fn end_slow<N: Net>(&mut self, net: &mut N, now: Time) {
        for _ in 0..LOOKED_AT.min(self.h1.connections.conns.len()) {
            let hand = (self.crowding.hand + 1) % self.h1.connections.conns.len();
            self.crowding.hand = hand;
            let conn = &self.h1.connections.conns[hand];
            let id = ConnId::new(hand as u32, conn.generation);
            let partial = conn.flags & PARTIAL != 0;
            match conn.state {
                State::Handshake if self.is_late(id, now) => {
                    self.h1.connections.counters.gave_way_handshakes += 1;
                    self.fail(net, id, &HandshakeFault::Late, &[]);
                }
                State::Proxied if partial && conn.last.passed(now) >= PATIENCE => {
                    self.h1.connections.counters.timeouts_header += 1;
                    self.h1.connections.counters.gave_way_heads += 1;
                    self.h1.connections.close_after_queue(net, id);
                }
                State::Ready if partial && conn.last.passed(now) >= PATIENCE => {
                    self.h1.connections.counters.timeouts_header += 1;
                    self.h1.connections.counters.gave_way_heads += 1;
                    self.h1.on_reject(net, id, Status::REQUEST_TIMEOUT, b"");
                }
                State::Body | State::Waiting | State::Replying if is_slow_body(conn, now) => {
                    self.h1.connections.counters.timeouts_body += 1;
                    self.h1.connections.counters.gave_way_bodies += 1;
                    self.h1.on_reject(net, id, Status::REQUEST_TIMEOUT, b"");
                }
                _ => {}
            }
        }
    }

    /// Goes on with a pass over all connections.
    fn look_for_heavy<N: Net>(&mut self, net: &mut N, now: Time) {
        let (start, all) = (self.crowding.next, self.h1.connections.conns.len());
        let end = (start + LOOKED_AT).min(all);
        for index in start..end {
            let Some(source) = self.source(net, index, now) else { continue };
            if self.crowding.pass == Pass::Seeks {
                self.crowding.vote(source);
                continue;
            }
            let Some(at) = self.crowding.suspects.iter().position(|suspect| suspect.source == source) else { continue };
            let conn = &mut self.h1.connections.conns[index];
            let id = ConnId::new(index as u32, conn.generation);
            let gives = is_idle(conn, net.unsent(id), now);
            let suspect = &mut self.crowding.suspects[at];
            suspect.count += 1;
            if gives {
                suspect.gives.push((self.h1.connections.beginnings.number(index), id));
            }
        }
        self.crowding.next = end;
        if end == all {
            self.crowding.end_pass(self.h1.connections.places);
        }
    }

    /// Whose a connection is; `None` of one that is left out, that makes room anyway, and
    /// where there is none.
    fn source<N: Net>(&self, net: &N, index: usize, now: Time) -> Option<SourceKey> {
        let conn = self.h1.connections.conns.get(index).filter(|conn| conn.state != State::Vacant)?;
        let id = ConnId::new(index as u32, conn.generation);
        if self.h1.connections.idle(id, now).is_some() {
            return None;
        }
        let more = conn.more.as_deref();
        let asked = more.filter(|_| conn.is_asked());
        let told = asked.and_then(|more| more.exchange.client);
        let told = told.or_else(|| Some(more?.proxied.as_ref()?.source.ip()));
        let client = told.or_else(|| Some(net.peer(id)?.ip()))?.to_canonical();
        let is_exempt = self.h1.connections.limits.exempt.iter().any(|prefix| prefix.contains(client))
            || self.listeners.is_front(client);
        (!is_exempt).then(|| SourceKey::of(client))
    }

    /// Ends some of what gives way.
    fn end_heavy<N: Net>(&mut self, net: &mut N) {
        for _ in 0..ENDED {
            let Some(id) = self.crowding.ending.pop() else { break };
            let conn = self.h1.connections.conns.get(id.index()).filter(|conn| conn.generation == id.generation());
            match conn.map(|conn| conn.state) {
                Some(State::Waiting) => {
                    self.h1.connections.counters.gave_way_requests += 1;
                    self.h1.give_up_request(net, id);
                }
                Some(state @ (State::Replying | State::Tunnel)) => {
                    let counters = &mut self.h1.connections.counters;
                    match state {
                        State::Tunnel => counters.gave_way_tunnels += 1,
                        _ => counters.gave_way_requests += 1,
                    }
                    self.h1.give_up_answer(net, id);
                }
                _ => {}
            }
        }
        if self.crowding.ending.is_empty() {
            self.crowding.pass = Pass::Over;
        }
    }
}

/// Whether more of a body is waited for, and comes too slowly.
fn is_slow_body(conn: &ServedConnection, now: Time) -> bool {
    if conn.discards() {
        return conn.closing().passed(now) >= PATIENCE;
    }
    let pace = conn.more.as_ref().and_then(|more| more.exchange.pace);
    pace.is_some_and(|pace| pace.is_late(now)) && (conn.state == State::Body || conn.awaits_body())
}

/// Whether a connection whose client has too many gives way: of what it was answered, or is to
/// be, less went either way since the last look than is worth a place.
fn is_idle(conn: &mut ServedConnection, unsent: usize, now: Time) -> bool {
    if !conn.is_asked() || conn.awaits_body() && conn.more.as_ref().is_some_and(|more| more.exchange.pace.is_some()) {
        return false;
    }
    let queued = conn.queued;
    let more = conn.more();
    let bytes = more.tunnelled.wrapping_add(queued).wrapping_sub(unsent as u32);
    more.traffic.get_or_insert_default().is_little(bytes, now)
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::net::{IpAddr, Ipv4Addr};

    /// Whoever has more than a quarter is among the suspects, whatever the order.
    #[test]
    fn who_has_more_than_a_quarter_is_found() {
        let source = |number: u32| SourceKey::of(IpAddr::V4(Ipv4Addr::from_bits(number)));
        for seed in 0..200_u32 {
            let mut crowding = Crowding::default();
            let mut all: Vec<u32> = (0..74).map(|other| 100 + other % (1 + seed % 74)).collect();
            all.extend([7; 26]);
            // In another order each time.
            let mut state = seed;
            for at in (1..all.len()).rev() {
                state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                all.swap(at, (state >> 8) as usize % (at + 1));
            }
            all.iter().for_each(|number| crowding.vote(source(*number)));
            assert!(crowding.suspects.len() <= SUSPECTS);
            assert!(crowding.suspects.iter().any(|suspect| suspect.source == source(7)), "{seed}");
        }
    }
}
