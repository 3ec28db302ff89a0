//! Timers and the drain: who may take how long.
//!
//! A connection has one timer. It is set when a wait begins that ends sooner
//! than the timer stands, and otherwise left where it is: when it runs out
//! too early, the rest of the wait is seen then. So a keep-alive request sets
//! no timer at all.

use crate::Server;
use crate::carrier::{Carrier, Drain};
use crate::conn::{DRY, ENDED, FINISHED, MARKED, OLD, PARTIAL, PAUSED, State, Tick};
use crate::terms::Terms;
use app::{ConnId, Net};
use core::time::Duration;
use exchange::{ExchangeId, Handler, HandshakeFault, LocalAddress};
use h1::server::{RequestLimits, Waiting};
use semantics::Status;
use site::ExchangeTerms;
use wire::Time;

/// Connections looked at in one call of `drain`, or of `settle`: a million take several
/// turns, during which others are served.
pub(crate) const DRAINED: usize = 16_384;

/// Looks at a peer's progress in each send timeout. It is found out between
/// two looks that something was taken, so a peer may be given up by the time of
/// one look too early, and never too late.
const LOOKS: u8 = 16;

impl<H: Handler> Server<H> {
    /// The timer ran out: a wait may be over.
    pub(crate) fn on_deadline<N: Net>(&mut self, net: &mut N, id: ConnId) {
        let conn = self.carrier.conns.get(id.index()).filter(|conn| conn.state != State::Vacant);
        let Some(conn) = conn else { return self.on_upstream_timer(net, id) };
        if conn.generation != id.generation() {
            return;
        }
        let header = self.carrier.terms.head(conn.terms).timeout;
        self.carrier.grow_old(net.now(), id);
        let conn = &self.carrier.conns[id.index()];
        match conn.state {
            State::Vacant => {}
            State::Tunnel => self.carrier.check_tunnel(net, id),
            State::Proxied => match conn.last.left(header, net.now()) {
                Some(left) => self.carrier.arm(net, id, left),
                None => {
                    // Whoever it is, is no proxy.
                    self.carrier.counters.timeouts_header += 1;
                    self.carrier.close_after_queue(net, id);
                }
            },
            State::Handshake => match conn.last.left(header, net.now()) {
                Some(left) => self.carrier.arm(net, id, left),
                None => {
                    self.carrier.counters.timeouts_header += 1;
                    self.fail(net, id, &HandshakeFault::Late, &[]);
                }
            },
            State::Body if conn.discards() => self.carrier.check_linger(net, id),
            State::Ready | State::Body => {
                if self.carrier.is_request_late(net, id) {
                    // RFC 9110 §15.5.9
                    self.on_reject(net, id, Status::REQUEST_TIMEOUT, b"");
                }
            }
            State::Waiting if conn.waits_for_body() => {
                let span = self.carrier.terms_of(id).body;
                match self.carrier.conns[id.index()].last.left(span, net.now()) {
                    Some(left) => self.carrier.arm(net, id, left),
                    None => {
                        self.carrier.counters.timeouts_body += 1;
                        self.on_reject(net, id, Status::REQUEST_TIMEOUT, b"");
                    }
                }
            }
            State::Waiting if conn.is_patient() => self.carrier.arm(net, id, header),
            State::Waiting => match conn.last.left(header, net.now()) {
                Some(left) => self.carrier.arm(net, id, left),
                None => self.on_late(net, id),
            },
            State::Replying => self.carrier.check_progress(net, id),
            State::Closing if net.unsent(id) > 0 || conn.flags & ENDED != 0 => self.carrier.check_progress(net, id),
            State::Closing => self.carrier.check_linger(net, id),
        }
    }

    /// A handler has let a request wait for too long.
    fn on_late<N: Net>(&mut self, net: &mut N, id: ConnId) {
        let soonest = self.carrier.terms_of(id).keep_alive;
        self.carrier.arm(net, id, soonest);
        let mut goes_on = false;
        self.tell(net, None, |handler, replies| goes_on = handler.on_late(replies, ExchangeId::of(id)));
        let Some(conn) = self.carrier.conn(id).filter(|conn| conn.state == State::Waiting) else { return };
        if goes_on {
            conn.last = Tick::of(net.now());
            let span = self.carrier.terms.head(self.carrier.conns[id.index()].terms).timeout;
            self.carrier.arm(net, id, span);
        } else {
            self.carrier.counters.timeouts_file += 1;
            net.abort(id);
        }
    }

    /// One step of the drain; whether nothing is left. Responses under way
    /// are finished, and are the last on their connections; connections that
    /// wait for a request are closed.
    pub(crate) fn drain_more<N: Net>(&mut self, net: &mut N) -> bool {
        self.carrier.drain_more(net)
    }
}

impl Carrier {
    /// The terms that a connection has now.
    pub(crate) fn terms_of(&self, id: ConnId) -> ExchangeTerms {
        *self.terms.exchange(self.conns[id.index()].terms)
    }

    /// Our FIN is queued, or the answer to a request whose body still comes: what the
    /// client sends is read for a while, and longer as long as more comes.
    fn linger<N: Net>(&mut self, net: &mut N, id: ConnId) {
        let terms = self.terms_of(id);
        let now = Tick::of(net.now());
        let conn = &mut self.conns[id.index()];
        conn.last = now;
        conn.set_closing(now);
        self.arm(net, id, terms.linger.min(terms.linger_most));
    }

    /// While the rest is read: whether it takes too long.
    fn check_linger<N: Net>(&mut self, net: &mut N, id: ConnId) {
        let (terms, now) = (self.terms_of(id), net.now());
        let conn = &self.conns[id.index()];
        if conn.flags & MARKED != 0 {
            // It took the last of what is queued until now.
            return self.linger(net, id);
        }
        let left = conn.last.left(terms.linger, now).zip(conn.closing().left(terms.linger_most, now));
        match left {
            Some((quiet, all)) => self.arm(net, id, quiet.min(all)),
            None if conn.state == State::Body => {
                self.counters.timeouts_body += 1;
                self.close_after_queue(net, id);
            }
            None => {
                self.counters.timeouts_linger += 1;
                net.abort(id);
            }
        }
    }

    /// Sets the connection's timer.
    pub(crate) fn arm<N: Net>(&mut self, net: &mut N, id: ConnId, span: Duration) {
        self.conns[id.index()].flags &= !MARKED;
        let now = net.now();
        net.set_timer(id, Some(now + self.until_old(id.index(), span, now)));
    }

    /// This time, or until the connection is so old that its next answer is to be its
    /// last, if that is sooner.
    #[inline]
    pub(crate) fn until_old(&self, index: usize, span: Duration, now: Time) -> Duration {
        let Some(age) = self.limits.connection_age else { return span };
        self.beginnings.until(index, age, now).map_or(span, |left| left.min(span))
    }

    /// A timer ran out: the connection may be so old. Its next answer is the last then, as
    /// where it has answered as many requests as it may.
    fn grow_old(&mut self, now: Time, id: ConnId) {
        let Some(age) = self.limits.connection_age else { return };
        if self.beginnings.until(id.index(), age, now).is_none() {
            self.conns[id.index()].requests |= OLD;
        }
    }

    /// While a request, or its body, is waited for: whether its client is to be told that
    /// it took too long.
    fn is_request_late<N: Net>(&mut self, net: &mut N, id: ConnId) -> bool {
        let now = net.now();
        let conn = &self.conns[id.index()];
        let waiting = conn.engine.waiting();
        let Some(span) = self.terms.after(conn.terms, waiting) else { return false };
        let unsent = net.unsent(id);
        if waiting == Waiting::KeepAlive && (unsent > app::SEND_LOW_WATER || unsent > 0 && conn.flags & MARKED != 0) {
            // What it is to answer, it has not yet taken.
            self.check_progress(net, id);
            return false;
        }
        if let Some(left) = conn.last.left(span, now) {
            self.arm(net, id, left);
            return false;
        }
        match waiting {
            Waiting::KeepAlive if unsent > 0 => {
                self.watch_progress(net, id);
                return false;
            }
            Waiting::KeepAlive => self.counters.timeouts_keep_alive += 1,
            Waiting::FirstHead | Waiting::Head => self.counters.timeouts_header += 1,
            Waiting::Body => self.counters.timeouts_body += 1,
            Waiting::Nothing => {}
        }
        if !waiting.answers_408() {
            self.close_after_queue(net, id);
        }
        waiting.answers_408()
    }

    /// While a response is taken: once per send timeout some of it must have
    /// been. A stream of which nothing is queued waits for its handler,
    /// and no longer than for a peer; and so does our FIN for its
    /// acknowledgement, which TCP alone would try to get for a quarter of an
    /// hour.
    pub(crate) fn check_progress<N: Net>(&mut self, net: &mut N, id: ConnId) {
        let unsent = net.unsent(id);
        let conn = &mut self.conns[id.index()];
        let acknowledged = conn.queued.wrapping_sub(unsent as u32);
        let (streams, closing) = (conn.state == State::Replying, conn.state == State::Closing);
        if unsent == 0 && streams && conn.is_patient() {
            self.watch_from(net, id, 0);
            return;
        }
        let marked = conn.flags & MARKED != 0;
        let (moved, quiet) = conn.marked(acknowledged);
        if (unsent > 0 || streams || closing) && marked && !moved {
            let quiet = quiet + 1;
            if quiet < LOOKS {
                self.watch_from(net, id, quiet);
                return;
            }
            let count = match unsent {
                0 if closing => &mut self.counters.timeouts_linger,
                0 => &mut self.counters.timeouts_file,
                _ => &mut self.counters.timeouts_send,
            };
            *count += 1;
            net.abort(id);
            return;
        }
        // What was taken since the last look may have been so right after it.
        self.watch_from(net, id, u8::from(marked));
    }

    /// While a connection is its handler's: what is queued for its client must be taken, too.
    /// Where nothing is, its handler has its own limits.
    fn check_tunnel<N: Net>(&mut self, net: &mut N, id: ConnId) {
        if net.unsent(id) > 0 {
            return self.check_progress(net, id);
        }
        self.conns[id.index()].flags &= !MARKED;
        net.set_timer(id, None);
    }

    /// Something was queued for a tunnel's client.
    pub(crate) fn watch_tunnel<N: Net>(&mut self, net: &mut N, id: ConnId) {
        let conn = &self.conns[id.index()];
        if conn.state == State::Tunnel && conn.flags & MARKED == 0 {
            self.watch_progress(net, id);
        }
    }

    /// From now on, some of what is queued must be taken in each send timeout.
    pub(crate) fn watch_progress<N: Net>(&mut self, net: &mut N, id: ConnId) {
        self.watch_from(net, id, 0);
    }

    /// The same, `quiet` looks after something was taken last.
    fn watch_from<N: Net>(&mut self, net: &mut N, id: ConnId, quiet: u8) {
        let send = self.terms_of(id).send;
        self.arm(net, id, send / u32::from(LOOKS));
        let conn = &mut self.conns[id.index()];
        conn.set_mark(conn.queued.wrapping_sub(net.unsent(id) as u32), quiet);
        conn.flags |= MARKED;
    }

    /// The reply to a request is queued before its body was read: the rest of
    /// that is discarded, and only then the next request begins, if one may.
    pub(crate) fn discard_rest<N: Net>(&mut self, net: &mut N, id: ConnId, goes_on: bool) {
        if !goes_on {
            self.close_after_queue(net, id);
            return;
        }
        let conn = &mut self.conns[id.index()];
        conn.clear_more();
        conn.state = State::Body;
        // It was to be taken, however much of it there is.
        conn.engine.allow_body();
        self.linger(net, id);
        net.resume(id);
    }

    /// FIN behind what is queued. What still comes is read and dropped: a
    /// close with bytes unread would be a reset, which can overtake the
    /// response (RFC 9112 §9.6).
    pub(crate) fn close_after_queue<N: Net>(&mut self, net: &mut N, id: ConnId) {
        let lingers = self.terms_of(id).lingers;
        self.reading.remove(id.index());
        let conn = &mut self.conns[id.index()];
        let held = conn.flags & (PARTIAL | PAUSED) != 0 || conn.flags & (ENDED | DRY) == ENDED || conn.is_asked();
        conn.state = State::Closing;
        conn.clear_more();
        let ended = conn.flags & ENDED != 0;
        if held {
            // What is kept of requests that nobody will answer is dropped
            // now: the data path keeps it, and the connection, until then.
            net.resume(id);
        }
        if conn.flags & FINISHED == 0 {
            conn.flags |= FINISHED;
            if lingers { net.finish(id) } else { net.close(id) }
        }
        if ended || !lingers {
            self.watch_progress(net, id);
        } else {
            self.linger(net, id);
        }
    }

    /// One step of the drain; whether nothing is left. Responses under way
    /// are finished, and are the last on their connections; connections that
    /// wait for a request are closed.
    fn drain_more<N: Net>(&mut self, net: &mut N) -> bool {
        let now = net.now();
        let mut drain = self.draining.unwrap_or(Drain { next: 0, deadline: now + self.timeouts.drain });
        // From now on every response is the last.
        self.requests_max = 0;
        let late = now >= drain.deadline;
        if late && drain.next >= self.conns.len() {
            drain.next = 0;
        }
        let end = (drain.next + DRAINED).min(self.conns.len());
        for index in drain.next.min(end)..end {
            let conn = &self.conns[index];
            let id = ConnId::new(index as u32, conn.generation);
            let begins = conn.state == State::Handshake && conn.flags & PARTIAL == 0;
            let idle = (begins || matches!(conn.state, State::Proxied | State::Ready))
                && conn.flags & PAUSED == 0
                && matches!(conn.engine.waiting(), Waiting::FirstHead | Waiting::KeepAlive);
            if conn.state == State::Vacant {
                continue;
            }
            if late {
                net.abort(id);
            } else if idle {
                self.close_after_queue(net, id);
            }
        }
        drain.next = end;
        self.draining = Some(drain);
        if self.counters.connections_open == 0 && self.upstreams.open() > 0 {
            self.cut_upstreams(net);
        }
        // What clients of tunnels have sent is sent first.
        self.counters.connections_open == 0 && (late || self.upstreams.leaving() == 0)
    }
}

impl<H: Handler> Server<H> {
    /// The terms of a connection that begins.
    pub(crate) fn terms_of<N: Net>(&self, net: &N, id: ConnId) -> Terms {
        if !self.carrier.terms.by_address {
            return Terms::FIRST;
        }
        let local = LocalAddress::of(net, id);
        let (head, exchange) = self.handler.terms_at(local);
        Terms::of(head, exchange)
    }
}

impl Carrier {
    /// What is taken of a connection's heads and bodies.
    pub(crate) fn head_limits(&self, id: ConnId) -> RequestLimits {
        self.terms.head(self.conns[id.index()].terms).limits
    }

    /// What was asked for last has terms of its own: its connection's timer may stand
    /// too late for them.
    #[cold]
    #[inline(never)]
    pub(crate) fn change_terms<N: Net>(&mut self, net: &mut N, id: ConnId, exchange: u8) {
        let conn = &mut self.conns[id.index()];
        conn.terms = conn.terms.with_exchange(exchange);
        let soonest = self.terms.soonest(conn.terms);
        self.arm(net, id, soonest);
    }
}
