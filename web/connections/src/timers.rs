//! Timers: who may take how long.
//!
//! A connection has one timer. It is set when a wait begins that ends sooner
//! than the timer stands, and otherwise left where it is: when it runs out
//! too early, the rest of the wait is seen then. So a keep-alive request sets
//! no timer at all.

use crate::conn::{DRY, ENDED, FINISHED, MARKED, PARTIAL, PAUSED, State, Tick};
use crate::table::Connections;
use app::{ConnId, Net};
use core::time::Duration;
use h1::server::Waiting;
use wire::Time;

/// Looks at a peer's progress in each send timeout. It is found out between
/// two looks that something was taken, so a peer may be given up by the time of
/// one look too early, and never too late.
const LOOKS: u8 = 16;

/// What leaves at once at a rate, at most: two segments, which have 64 KiB over loopback (tcp_tso_autosize in
/// net/ipv4/tcp_output.c).
const LONGEST_PIECE: u64 = 2 << 16;

/// Who sends by the second may have nothing to send for one.
const LEAST_OF_HANDLER: Duration = Duration::from_secs(2);

/// For how long its rate alone may keep an answer from a client that is not known to be there.
const LONGEST_WAIT: Duration = Duration::from_secs(3_600);

/// How often it is looked whether a client has the last of a reply that was cut.
const CUT_LOOK: Duration = Duration::from_millis(20);

/// How long a client that has all of it may read before it is told that it is not all: a reset
/// takes from some what they have not read.
const CUT_READ: Duration = Duration::from_secs(1);

impl Connections {
    /// Our FIN is queued, or the answer to a request whose body still comes: what the
    /// client sends is read for a while, and longer as long as more comes.
    fn linger<N: Net + ?Sized>(&mut self, net: &mut N, id: ConnId) {
        let terms = self.terms_of(id);
        let now = Tick::of(net.now());
        let conn = &mut self.conns[id.index()];
        conn.last = now;
        conn.set_closing(now);
        self.arm(net, id, terms.linger.min(terms.linger_most));
    }

    /// While the rest is read: whether it takes too long.
    pub fn check_linger<N: Net + ?Sized>(&mut self, net: &mut N, id: ConnId) {
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
    pub fn arm<N: Net + ?Sized>(&mut self, net: &mut N, id: ConnId, span: Duration) {
        self.conns[id.index()].flags &= !MARKED;
        let now = net.now();
        net.set_timer(id, Some(now + self.until_old(id.index(), span, now)));
    }

    /// This time, or until the connection is so old that its next answer is to be its
    /// last, if that is sooner.
    #[inline]
    pub fn until_old(&self, index: usize, span: Duration, now: Time) -> Duration {
        let Some(age) = self.limits.connection_age else { return span };
        self.beginnings.until(index, age, now).map_or(span, |left| left.min(span))
    }

    /// A timer ran out: the connection may be so old. Its next answer is the last then, as
    /// where it has answered as many requests as it may.
    pub fn grow_old(&mut self, now: Time, id: ConnId) {
        let Some(age) = self.limits.connection_age else { return };
        if self.beginnings.until(id.index(), age, now).is_none() {
            self.conns[id.index()].close_after_next();
        }
    }

    /// Whether a head that has begun took longer than it may.
    #[must_use]
    pub fn is_head_late(&self, id: ConnId, now: Time) -> bool {
        let conn = &self.conns[id.index()];
        let waiting = conn.engine.waiting();
        let span = self.terms.after(conn.terms, waiting).filter(|_| waiting == Waiting::Head);
        span.is_some_and(|span| conn.last.left(span, now).is_none())
    }

    /// While a request, or its body, is waited for: whether its client is to be told that
    /// it took too long.
    pub fn is_request_late<N: Net + ?Sized>(&mut self, net: &mut N, id: ConnId) -> bool {
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
    pub fn check_progress<N: Net + ?Sized>(&mut self, net: &mut N, id: ConnId) {
        let unsent = net.unsent(id);
        let untaken = self.untaken(net, id);
        let conn = &mut self.conns[id.index()];
        let acknowledged = conn.queued.wrapping_sub(untaken as u32);
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
    pub fn check_tunnel<N: Net + ?Sized>(&mut self, net: &mut N, id: ConnId) {
        if net.unsent(id) > 0 {
            return self.check_progress(net, id);
        }
        self.conns[id.index()].flags &= !MARKED;
        net.set_timer(id, None);
    }

    /// Something was queued for a tunnel's client.
    pub fn watch_tunnel<N: Net + ?Sized>(&mut self, net: &mut N, id: ConnId) {
        let conn = &self.conns[id.index()];
        if conn.state == State::Tunnel && conn.flags & MARKED == 0 {
            self.watch_progress(net, id);
        }
    }

    /// From now on, some of what is queued must be taken in each send timeout.
    pub fn watch_progress<N: Net + ?Sized>(&mut self, net: &mut N, id: ConnId) {
        self.watch_from(net, id, 0);
    }

    /// The same, `quiet` looks after something was taken last.
    fn watch_from<N: Net + ?Sized>(&mut self, net: &mut N, id: ConnId, quiet: u8) {
        let (send, untaken) = (self.send_timeout(net, id), self.untaken(net, id));
        self.arm(net, id, send / u32::from(LOOKS));
        let conn = &mut self.conns[id.index()];
        conn.set_mark(conn.queued.wrapping_sub(untaken as u32), quiet);
        conn.flags |= MARKED;
    }

    /// How fast the answer on a connection may leave, if not as fast as it can.
    fn rate(&self, id: ConnId) -> Option<u64> {
        self.conns[id.index()].more.as_ref()?.exchange.paced
    }

    /// Bytes of what is queued that its client has not taken. Where they leave at a rate, the kernel takes them
    /// long before that.
    fn untaken<N: Net + ?Sized>(&self, net: &N, id: ConnId) -> usize {
        if self.rate(id).is_some() { net.undelivered(id) } else { net.unsent(id) }
    }

    /// Within how long a client must take some of what is queued: what waits for its rate is not the client's to take,
    /// so that the longest piece that leaves at once is added, at that rate. A handler that has queued nothing has a
    /// second's wait of its own at least.
    fn send_timeout<N: Net + ?Sized>(&self, net: &N, id: ConnId) -> Duration {
        let send = self.terms_of(id).send;
        let waits = self.conns[id.index()].state == State::Replying && net.unsent(id) == 0;
        let send = if waits { send.max(LEAST_OF_HANDLER) } else { send };
        match self.rate(id) {
            None => send,
            Some(rate) => {
                let piece = Duration::from_millis(LONGEST_PIECE.saturating_mul(1_000) / rate.max(1));
                send + piece.min(LONGEST_WAIT)
            }
        }
    }

    /// The reply to a request is queued before its body was read: the rest of
    /// that is discarded, and only then the next request begins, if one may.
    pub fn discard_rest<N: Net + ?Sized>(&mut self, net: &mut N, id: ConnId, goes_on: bool) {
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

    /// What is queued is all that there will be of a reply, which only the connection's end can
    /// say: a reset does, once its client has what is queued, and had time to read it. Sooner it
    /// would overtake that.
    pub fn reset_after_queue<N: Net + ?Sized>(&mut self, net: &mut N, id: ConnId) {
        let now = Tick::of(net.now());
        let conn = &mut self.conns[id.index()];
        let is_begun = conn.state == State::Replying;
        conn.state = State::Closing;
        if !is_begun && net.unsent(id) == 0 {
            net.abort(id);
            return;
        }
        conn.more().cut = Some(now);
        // What came behind its request is nobody's.
        net.resume(id);
        self.check_cut(net, id);
    }

    /// Whether a connection waits for its client to have what is queued of a reply that was cut.
    #[must_use]
    pub fn is_cut(&self, id: ConnId) -> bool {
        self.conns[id.index()].more.as_ref().is_some_and(|more| more.cut.is_some())
    }

    /// Its client has taken some of that, perhaps all.
    pub fn check_cut<N: Net + ?Sized>(&mut self, net: &mut N, id: ConnId) {
        let (now, unsent, send) = (net.now(), net.undelivered(id), self.terms_of(id).send);
        let conn = &mut self.conns[id.index()];
        let acknowledged = conn.queued.wrapping_sub(unsent as u32);
        let (moved, _) = conn.marked(acknowledged);
        conn.set_mark(acknowledged, 0);
        let Some(more) = &mut conn.more else { return };
        let since = *more.cut.get_or_insert(Tick::of(now));
        if moved {
            more.cut = Some(Tick::of(now));
        } else if unsent > 0 && since.left(send, now).is_none() {
            self.counters.timeouts_send += 1;
            return net.abort(id);
        }
        match self.conns[id.index()].more.as_ref().and_then(|more| more.cut?.left(CUT_READ, now)) {
            None if unsent == 0 => net.abort(id),
            Some(left) if unsent == 0 => self.arm(net, id, left),
            _ => self.arm(net, id, CUT_LOOK),
        }
    }

    /// FIN behind what is queued. What still comes is read and dropped: a
    /// close with bytes unread would be a reset, which can overtake the
    /// response (RFC 9112 §9.6).
    pub fn close_after_queue<N: Net + ?Sized>(&mut self, net: &mut N, id: ConnId) {
        let lingers = self.terms_of(id).lingers;
        self.reading.remove(id.index());
        self.end_lent(id);
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
}

impl Connections {
    /// What was asked for last has terms of its own: its connection's timer may stand
    /// too late for them.
    #[cold]
    #[inline(never)]
    pub fn change_terms<N: Net + ?Sized>(&mut self, net: &mut N, id: ConnId, exchange: u8) {
        let conn = &mut self.conns[id.index()];
        conn.terms = conn.terms.with_exchange(exchange);
        let soonest = self.terms.soonest(conn.terms);
        self.arm(net, id, soonest);
    }
}
