//! HTTP/1.1: from what connections bring to exchanges with a handler, and back.
//!
//! What a connection begins with, TLS or what a proxy says, is over here, and what another protocol
//! has is not told. [`H1::on_bytes`], [`H1::on_sent`], [`H1::on_end`] and [`H1::on_timer`] are what
//! happens to a connection, [`H1::on_turn`] and [`H1::on_second`] what time brings.

use crate::answering::H1Replies;
use app::{ConnId, Net, Wake};
use connections::{Connections, DRY, ENDED, EarlyConnections, MARKED, PARTIAL, PAUSED, State, TAKES_BODY, Tick, trace};
use core::time::Duration;
use exchange::Handler;
use h1::server::RequestEvent;
use semantics::Status;
use semantics::date::HttpDate;
use wire::Time;

/// Plain heads for which nothing was ready, from which on heads are parsed as a whole at once, until something is
/// ready for one: what is passed on is not looked at twice then.
pub(crate) const MISSES_MAX: u8 = 16;

/// When a data path that has not offered a late head anew is asked for it again.
const OFFERED_ANEW: Duration = Duration::from_secs(1);

/// What carries HTTP/1.1 between connections and handlers.
#[derive(Debug)]
pub struct H1<H> {
    /// The connections.
    pub connections: Connections,
    /// Who answers.
    pub handler: H,
    /// The head of the request that takes the long way, in memory that is
    /// ours alone.
    pub(crate) head: Vec<u8>,
    /// A handler has left some of a body.
    pub(crate) full: bool,
    /// A plain head was looked at for what is ready, and nothing is.
    pub(crate) has_missed: bool,
    /// Plain heads that nothing was ready for, since something was for a head that was parsed as a whole: up to
    /// [`MISSES_MAX`].
    pub(crate) misses: u8,
    /// Connections whose handshakes are not over, and whose clients ask already.
    pub early: EarlyConnections,
}

impl<H> H1<H> {
    /// HTTP/1.1 on these connections, answered by `handler`.
    #[must_use]
    pub fn new(connections: Connections, handler: H) -> Self {
        Self {
            connections,
            handler,
            head: Vec::with_capacity(1024),
            full: false,
            has_missed: false,
            misses: 0,
            early: EarlyConnections::default(),
        }
    }
}

impl<H: Handler> H1<H> {
    /// Takes what a connection was offered that waits for a request, from `used` on, by heads
    /// that are parsed as a whole.
    #[inline(never)]
    pub fn on_heads<N: Net>(&mut self, net: &mut N, id: ConnId, data: &[u8], used: usize, now: Time) -> usize {
        let mut has_missed = core::mem::take(&mut self.has_missed);
        let mut room = self.connections.unsent_max.saturating_sub(net.unsent(id));
        let mut rest = data.get(used..).unwrap_or_default();
        while room > 0 {
            let Some(conn) = self.connections.conns.get_mut(id.index()) else { break };
            if conn.state != State::Ready || conn.flags & !MARKED != 0 || self.early.holds(id, rest) {
                break;
            }
            let event = conn.engine.on_bytes(rest, &self.connections.terms.head(conn.terms).limits);
            let bytes = match &event {
                // It was asked already whether that is ready.
                RequestEvent::Request { .. } if core::mem::take(&mut has_missed) => 0,
                RequestEvent::Request { request, transfer, consumed } => {
                    let bytes = self.serve_ready(net, id, request, transfer, now);
                    if bytes > 0 {
                        rest = rest.get(*consumed..).unwrap_or_default();
                    }
                    bytes
                }
                _ => 0,
            };
            if bytes == 0 {
                return self.on_bytes(net, id, data, data.len() - rest.len(), Some(&event));
            }
            if rest.is_empty() {
                return data.len();
            }
            room = room.saturating_sub(bytes);
        }
        self.on_bytes(net, id, data, data.len() - rest.len(), None)
    }

    /// Takes what a connection was offered, from `used` on; how many bytes of `data` are used
    /// then. `seen` is the first event, if it was already looked for.
    #[inline]
    pub fn on_bytes<N: Net>(
        &mut self,
        net: &mut N,
        id: ConnId,
        data: &[u8],
        mut used: usize,
        mut seen: Option<&RequestEvent<'_>>,
    ) -> usize {
        let conn = &self.connections.conns[id.index()];
        if conn.state == State::Replying && conn.flags & TAKES_BODY == 0 {
            // What arrived may acknowledge the last of it.
            self.on_room(net, id);
        }
        let paused = loop {
            let rest = data.get(used..).unwrap_or_default();
            let conn = &mut self.connections.conns[id.index()];
            match conn.state {
                State::Vacant => return data.len(),
                State::Closing => {
                    conn.last = Tick::of(net.now());
                    return data.len();
                }
                State::Waiting | State::Replying if conn.flags & TAKES_BODY == 0 => break false,
                State::Ready if used >= data.len() && seen.is_none() => break false,
                State::Tunnel => {
                    used += self.on_tunnelled(net, id, rest);
                    break false;
                }
                _ => {}
            }
            let event = match seen.take() {
                Some(event) => *event,
                None if conn.state == State::Ready && net.unsent(id) >= self.connections.unsent_max => break true,
                None if conn.state == State::Ready && self.early.holds(id, rest) => break false,
                None => conn.engine.on_bytes(rest, &self.connections.terms.head(conn.terms).limits),
            };
            match self.on_event(net, id, event, rest) {
                Some(consumed) => used += consumed,
                None => {
                    let conn = &self.connections.conns[id.index()];
                    if conn.state == State::Ready {
                        self.on_part_of_head(net, id, rest);
                    } else if conn.flags & ENDED != 0 && conn.is_asked() && conn.awaits_body() {
                        self.on_cut(net, id);
                    }
                    break false;
                }
            }
            if core::mem::take(&mut self.full) {
                break false;
            }
        };
        self.after_offer(net, id, data.get(used..).unwrap_or_default(), paused);
        used
    }

    /// The end of an offer, of which `rest` is left.
    pub fn after_offer<N: Net>(&mut self, net: &mut N, id: ConnId, rest: &[u8], paused: bool) {
        if core::mem::take(&mut self.connections.looks_ahead) {
            self.look_ahead(net, id, rest);
        }
        let conn = &mut self.connections.conns[id.index()];
        if rest.is_empty() && conn.flags & ENDED != 0 {
            conn.flags |= DRY;
        }
        self.connections.after_data(net, id, rest.len(), paused);
    }

    /// The peer has taken some of a reply.
    fn on_room<N: Net>(&mut self, net: &mut N, id: ConnId) {
        self.tell(net, id, None, |handler, replies, exchange| handler.on_room(replies, exchange));
    }

    /// A client has taken most of what was queued for it.
    #[inline]
    pub fn on_sent<N: Net>(&mut self, net: &mut N, id: ConnId) {
        let conn = &mut self.connections.conns[id.index()];
        if conn.flags & PAUSED != 0 {
            conn.flags &= !PAUSED;
            conn.last = Tick::of(net.now());
            let (state, span) = (conn.state, self.connections.terms.soonest(conn.terms));
            self.connections.arm(net, id, span);
            net.resume(id);
            if state != State::Replying {
                return;
            }
        }
        match self.connections.conns[id.index()].state {
            State::Replying | State::Tunnel => self.on_room(net, id),
            // The next request is waited for from now on, and no longer for its client to take
            // the last answer.
            State::Ready if self.connections.conns[id.index()].flags & (MARKED | PARTIAL) == MARKED => {
                let conn = &mut self.connections.conns[id.index()];
                conn.last = Tick::of(net.now());
                let span = self.connections.terms.soonest(conn.terms);
                self.connections.arm(net, id, span);
            }
            State::Closing if self.connections.is_cut(id) => self.connections.check_cut(net, id),
            _ => {}
        }
    }

    /// A client sends no more, and `held` bytes of what it sent were not taken.
    pub fn on_end<N: Net>(&mut self, net: &mut N, id: ConnId, held: usize) {
        let conn = &self.connections.conns[id.index()];
        match conn.state {
            // A request that is not whole by now never will be: what there is of it is offered
            // once more, for its log. One that waits for back-pressure to pass is offered again.
            State::Ready if held > 0 && (conn.flags & PAUSED == 0 || self.early.goes_on(id)) => net.resume(id),
            State::Ready | State::Body if held == 0 || conn.flags & PAUSED == 0 => {
                self.connections.close_after_queue(net, id)
            }
            // Nor will a request's body.
            State::Waiting | State::Replying if conn.awaits_body() => self.on_cut(net, id),
            // What is held may be its body, of which a handler has left some.
            State::Waiting | State::Replying if held == 0 || conn.flags & TAKES_BODY == 0 => {
                self.tell(net, id, None, |handler, replies, exchange| handler.on_client_end(replies, exchange, held));
            }
            // What is held of a tunnel's client is still its handler's.
            State::Tunnel if held == 0 => self.on_tunnel_dry(net, id),
            // RFC 9112 §9.6 ends here: both sides have said all. What is queued
            // must still be taken, and our FIN acknowledged.
            State::Closing if self.connections.is_cut(id) => self.connections.check_cut(net, id),
            State::Closing => self.connections.watch_progress(net, id),
            _ => {}
        }
    }

    /// A client's timer ran out: a wait may be over.
    pub fn on_timer<N: Net>(&mut self, net: &mut N, id: ConnId) {
        let conn = &self.connections.conns[id.index()];
        let header = self.connections.terms.head(conn.terms).timeout;
        match conn.state {
            State::Tunnel => self.connections.check_tunnel(net, id),
            State::Body if conn.discards() => self.connections.check_linger(net, id),
            State::Ready if conn.flags & PARTIAL != 0 && self.connections.is_head_late(id, net.now()) => {
                // It is offered once more: whoever logs it sees what came.
                self.connections.arm(net, id, OFFERED_ANEW);
                net.resume(id);
            }
            State::Ready | State::Body => {
                if self.connections.is_request_late(net, id) {
                    // RFC 9110 §15.5.9
                    self.on_reject(net, id, Status::REQUEST_TIMEOUT, b"");
                }
            }
            State::Waiting if conn.waits_for_body() => {
                let span = self.connections.terms_of(id).body;
                match self.connections.conns[id.index()].last.left(span, net.now()) {
                    Some(left) => self.connections.arm(net, id, left),
                    None => {
                        self.connections.counters.timeouts_body += 1;
                        self.on_reject(net, id, Status::REQUEST_TIMEOUT, b"");
                    }
                }
            }
            State::Waiting if conn.is_patient() => self.connections.arm(net, id, header),
            State::Waiting => match conn.last.left(header, net.now()) {
                Some(left) => self.connections.arm(net, id, left),
                None => self.on_late(net, id),
            },
            State::Replying => self.connections.check_progress(net, id),
            State::Closing if self.connections.is_cut(id) => self.connections.check_cut(net, id),
            State::Closing if net.unsent(id) > 0 || conn.flags & ENDED != 0 => self.connections.check_progress(net, id),
            State::Closing => self.connections.check_linger(net, id),
            State::Vacant | State::Proxied | State::Handshake | State::Service | State::Carrying => {}
        }
    }

    /// A handler has let a request wait for too long.
    fn on_late<N: Net>(&mut self, net: &mut N, id: ConnId) {
        let soonest = self.connections.terms_of(id).keep_alive;
        self.connections.arm(net, id, soonest);
        let mut goes_on = false;
        self.tell(net, id, None, |handler, replies, exchange| goes_on = handler.on_late(replies, exchange));
        let Some(conn) = self.connections.conn(id).filter(|conn| conn.state == State::Waiting) else { return };
        if goes_on {
            conn.last = Tick::of(net.now());
            let span = self.connections.terms.head(self.connections.conns[id.index()].terms).timeout;
            self.connections.arm(net, id, span);
        } else {
            self.connections.counters.timeouts_file += 1;
            net.abort(id);
        }
    }

    /// A new second began: `Date` changes, and what is held is looked over.
    pub fn on_second(&mut self, now: Time) {
        let connections = &mut self.connections;
        connections.second = connections.clock.unix_seconds(now);
        connections.next_second = connections.clock.next_second(now);
        connections.date = HttpDate::from_unix(connections.second);
        connections.tells_all = connections.log.is_some() || trace::is_on();
        if let Some(log) = &mut connections.log {
            log.set_time(&connections.date);
        }
        self.handler.on_second(connections.second, &connections.date, now);
        self.settle_parsing();
    }

    /// A turn: logs are written, and handlers take up what is finished, and ask for the next.
    pub fn on_turn<N: Net>(&mut self, net: &mut N, now: Time) -> Wake {
        let mut wake = Wake::Idle;
        if let Some(log) = &mut self.connections.log {
            wake = log.on_turn(now).map_or(wake, |at| wake.earlier(Wake::At(at)));
        }
        let mut replies = H1Replies { net: &mut *net, connections: &mut self.connections, within: None, series: None };
        wake.earlier(self.handler.on_turn(&mut replies))
    }
}
