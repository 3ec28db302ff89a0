//! What protocols that carry several exchanges ask for, done on the connections of a silo and with the
//! handler that answers.

use crate::asked::Asking;
use crate::carried::{QueuedHead, Stage, Unsent};
use crate::carried_replies::CarriedReplies;
use crate::conn::{FIRST, PARTIAL, State, Tick};
use crate::counters::Counters;
use crate::protocol::{CarriedTerms, CarryingConnection, Io, Multiplexed};
use crate::room::Standing;
use crate::table::Connections;
use crate::terms::Terms;
use app::{Body, ConnId, Net, SEND_LOW_WATER};
use core::time::Duration;
use exchange::{
    Asked, BodyCut, CommonFields, ConnectionFault, ExchangeId, Gone, Http2Terms, Page, Piece, Priority, Ready, Refused,
    RequestBody, Stop,
};
use semantics::{Form, Method, Offsets, Request, Status};
use wire::Time;

/// Bytes that are with a connection, at most: no more than keeps it busy until its protocol is
/// asked again. What is queued behind them has no place yet.
const AHEAD: usize = 2 * SEND_LOW_WATER;

/// Bytes of its body that an exchange has queued when its handler is told that there is room.
const LOW_WATER: usize = SEND_LOW_WATER;

/// Bytes that a silo lends its connections, all together, for what they hold beyond what each may; and one of
/// them. Where clients use it up that take nothing, others have what each may.
const LENT_MAX: usize = 6 << 20;
const LENT_EACH: usize = 2 << 20;

/// What a handler is told of an exchange.
#[derive(Debug)]
pub enum ExchangeEvent<'a> {
    /// [`exchange::Handler::on_request`].
    Request(&'a Request<'a>, RequestBody),
    /// [`exchange::Handler::on_body`]: how many bytes were taken is the answer.
    Body(&'a [u8]),
    /// [`exchange::Handler::on_body_end`].
    BodyEnd(&'a [u8]),
    /// [`exchange::Handler::on_body_cut`]: whether its handler sees to it is the answer.
    BodyCut(BodyCut),
    /// [`exchange::Handler::on_room`].
    Room,
    /// [`exchange::Handler::on_late`]: whether it goes on is the answer.
    Late,
    /// [`exchange::Handler::on_refused`]: whether its handler ends it is the answer.
    Refused(Refused<'a>),
    /// [`exchange::Handler::on_fault`], of its connection.
    Fault(ConnectionFault<'a>),
}

/// A handler, and what it answers through.
pub trait ToHandler {
    /// Tells it of an exchange; what that answers is 0 where nothing is said of it.
    fn tell(
        &mut self,
        net: &mut dyn Net,
        connections: &mut Connections,
        id: ExchangeId,
        event: ExchangeEvent<'_>,
    ) -> usize;

    /// [`exchange::Handler::on_gone`].
    fn gone(&mut self, id: ExchangeId, mark: Option<u32>, why: Gone);

    /// What is ready for this request.
    fn ready(&mut self, asked: &dyn Asked, second: u64) -> Option<&mut Ready>;

    /// Whether it takes bodies of requests.
    fn takes_bodies(&self) -> bool;

    /// Whether it says which of them it reads.
    fn chooses_bodies(&self) -> bool;
}

/// What a protocol may ask for, while it is told of a connection.
pub struct ConnectionIo<'a> {
    pub(crate) net: &'a mut dyn Net,
    pub(crate) connections: &'a mut Connections,
    pub(crate) handler: &'a mut dyn ToHandler,
    pub(crate) id: ConnId,
}

impl<'a> ConnectionIo<'a> {
    /// For this connection.
    pub fn new(
        net: &'a mut dyn Net,
        connections: &'a mut Connections,
        handler: &'a mut dyn ToHandler,
        id: ConnId,
    ) -> Self {
        Self { net, connections, handler, id }
    }
}

impl Io for ConnectionIo<'_> {
    fn now(&self) -> Time {
        self.net.now()
    }

    fn common(&self) -> CommonFields {
        self.connections.common
    }

    fn room(&self) -> usize {
        AHEAD.saturating_sub(self.net.unsent(self.id))
    }

    fn send(&mut self, bytes: &[u8]) {
        self.connections.send(self.net, self.id, bytes);
    }

    fn count(&mut self, which: fn(&mut Counters) -> &mut u64) {
        *which(&mut self.connections.counters) += 1;
    }

    fn send_body(&mut self, body: &Body, (start, end): (u32, u32)) {
        let now = Tick::of(self.now());
        if let Some(conn) = self.connections.conn(self.id) {
            conn.last = now;
        }
        self.net.send_body(self.id, body, start..end);
        self.connections.queued(self.id, u64::from(end.saturating_sub(start)));
    }

    fn close(&mut self) {
        self.give_up_all();
        self.connections.close_after_queue(self.net, self.id);
    }

    fn fail(&mut self, why: ConnectionFault<'_>) {
        self.connections.counters.parse_errors += 1;
        let id = self.connections.exchange_of(self.id);
        self.tell(id, ExchangeEvent::Fault(why));
        self.close();
    }

    fn refuse(&mut self, status: Status, line: &[u8]) -> Option<ExchangeId> {
        // Its page is short.
        let id = self.begin_exchange((Priority::default(), usize::MAX))?;
        self.connections.counters.parse_errors += 1;
        let image = [line, b"\r\n\r\n"].concat();
        let request = Request::new(&image, Offsets::of_line(line));
        if self.tell(
            id,
            ExchangeEvent::Refused(Refused { status, request: &request, is_cut: false, waited: Duration::ZERO }),
        ) == 0
        {
            let page = Page::new(status, b"");
            let mut replies = CarriedReplies { net: &mut *self.net, connections: &mut *self.connections };
            let _ = replies.reply(id, &request, &page.reply(), &page.body());
        }
        Some(id)
    }

    fn begin(
        &mut self,
        (priority, window): (Priority, usize),
        request: &Request<'_>,
        body: RequestBody,
    ) -> Option<ExchangeId> {
        let now = self.now();
        let id = self.begin_exchange((priority, window))?;
        let taken = self.handler.takes_bodies();
        let most = self.connections.limits.http.body;
        if let Some(one) = self.connections.carried.get_mut(id) {
            one.body.open = body != RequestBody::None;
            (one.body.taken, one.body.most) = (taken, most);
        }
        self.connections.trace_carried(id, request, now);
        let told = if taken { body } else { RequestBody::None };
        self.tell(id, ExchangeEvent::Request(request, told));
        Some(id)
    }

    fn prepared(
        &mut self,
        request: &Request<'_>,
        write: &mut dyn FnMut(&Ready) -> usize,
    ) -> Option<(Body, (u32, u32))> {
        let now = self.net.now();
        let connections = &mut *self.connections;
        let is_plain = request.method() == Method::Get && request.form() == Form::Origin && request.is_plain();
        if !is_plain || connections.notes_ready || connections.tells_all {
            return None;
        }
        let asked = Asking { head: request, net: &*self.net, id: self.id, security: &connections.security };
        let ready = self.handler.ready(&asked, connections.second)?;
        let head = write(ready);
        let (content, start) = ready.content();
        let found = (content.clone(), (start, content.len()));
        let (series, bytes) = (ready.series, head as u32 + content.len() - start);
        crate::progress::record_ready(&mut connections.recorder, &connections.series, series, bytes, now);
        connections.ready += 1;
        let conn = connections.conn(self.id)?;
        conn.requests = conn.requests.saturating_add(1);
        conn.last = Tick::of(now);
        Some(found)
    }

    fn body(&mut self, id: ExchangeId, bytes: &[u8]) {
        let now = self.now();
        let Some(one) = self.connections.carried.get_mut(id) else { return };
        if !one.body.open {
            one.body.free += bytes.len();
            return;
        }
        one.body.came += bytes.len() as u64;
        one.body_since = now;
        if !one.body.taken || one.stage == Stage::Over {
            one.body.free += bytes.len();
            return;
        }
        if one.body.came > one.body.most {
            one.exchange.received = one.body.came;
            self.connections.counters.bodies_refused += 1;
            return self.cut(id, BodyCut::TooLong);
        }
        one.body.held.extend_from_slice(bytes);
        self.offer(id);
    }

    fn body_end(&mut self, id: ExchangeId, trailers: &[u8]) {
        let Some(one) = self.connections.carried.get_mut(id).filter(|one| one.body.open) else { return };
        one.body.open = false;
        one.body.trailers = Some(trailers.to_vec());
        self.offer(id);
    }

    fn body_malformed(&mut self, id: ExchangeId) {
        let Some(one) = self.connections.carried.get_mut(id).filter(|one| one.body.open) else { return };
        one.body.open = false;
        one.body.free += core::mem::take(&mut one.body.held).len();
        one.exchange.received = one.body.came;
        self.connections.counters.parse_errors += 1;
        let Some(one) = self.connections.carried.get_mut(id).filter(|one| one.body.taken) else { return };
        if !one.exchange.reads && self.handler.chooses_bodies() {
            // Nobody reads it: who answers is not concerned.
            one.body.taken = false;
        } else if one.stage != Stage::Over {
            self.cut(id, BodyCut::Malformed);
        }
    }

    fn freed(&mut self, id: ExchangeId) -> usize {
        self.connections.carried.get_mut(id).map_or(0, |one| core::mem::take(&mut one.body.free))
    }

    fn reset(&mut self, id: ExchangeId) {
        self.gone(id);
    }

    fn outlives_client(&self, id: ExchangeId, window: usize) -> bool {
        let Some(one) = self.connections.carried.get(id) else { return false };
        let Unsent { head, body, ends, .. } = one.unsent(|| false);
        match one.stage {
            Stage::Waiting => !one.exchange.patient && !one.body.open,
            // More of it may come, but nothing more of what it is an answer to.
            Stage::Replying | Stage::Over if !ends => !one.exchange.patient && !one.body.open && (head || window > 0),
            Stage::Replying | Stage::Over => head || body == 0 || window > 0,
        }
    }

    fn note_left(&mut self, (status, waited): (Status, Duration), request: &Request<'_>) {
        let Some(id) = self.begin_exchange((Priority::default(), 0)) else { return };
        let _ = self.tell(id, ExchangeEvent::Refused(Refused { status, request, is_cut: true, waited }));
        self.gone(id);
    }

    fn lendable(&self) -> usize {
        let mine = self.connections.carries(self.id).map_or(0, |carries| carries.lent);
        let all = LENT_MAX.saturating_sub(self.connections.carried.lent);
        all.min(LENT_EACH.saturating_sub(mine))
    }

    fn lend(&mut self, bytes: usize) {
        let Some(carries) = self.connections.carrying(self.id) else { return };
        let before = core::mem::replace(&mut carries.lent, bytes);
        let lent = &mut self.connections.carried.lent;
        *lent = (*lent + bytes).saturating_sub(before);
    }

    fn set_priority(&mut self, id: ExchangeId, priority: Priority) {
        if let Some(one) = self.connections.carried.get_mut(id) {
            one.priority = priority;
        }
    }

    fn look(&mut self, id: ExchangeId, bytes: usize, standing: Standing) -> (usize, Unsent) {
        let Some(one) = self.connections.carried.get_mut(id) else { return (0, Unsent::default()) };
        one.standing = standing;
        let before = core::mem::replace(&mut one.window, bytes);
        if before == 0 && bytes > 0 && one.stage == Stage::Replying && one.trailers.is_none() {
            self.tell(id, ExchangeEvent::Room);
            return (self.freed(id), self.unsent(id));
        }
        (core::mem::take(&mut one.body.free), one.unsent(|| !self.handler.chooses_bodies()))
    }

    fn unsent(&self, id: ExchangeId) -> Unsent {
        let one = self.connections.carried.get(id);
        one.map_or_else(Unsent::default, |one| one.unsent(|| !self.handler.chooses_bodies()))
    }

    fn take_head(&mut self, id: ExchangeId) -> Option<QueuedHead> {
        self.connections.carried.get_mut(id)?.take_head()
    }

    fn pass(&mut self, id: ExchangeId, most: usize) -> usize {
        let now = self.now();
        let (conn, Some(one)) = (self.id, self.connections.carried.get_mut(id)) else { return 0 };
        let net = &mut *self.net;
        let passed = one.pass(most, |piece| match piece {
            Piece::Bytes(bytes) => net.send_bytes(conn, bytes),
            Piece::Body(body, (start, end)) => net.send_body(conn, body, start..end),
            Piece::File(..) => {}
        });
        one.since = now;
        let asks = one.stage == Stage::Replying && one.queued <= LOW_WATER;
        self.connections.let_go(id);
        if let Some(carries) = self.connections.carrying(conn).filter(|_| passed > 0) {
            carries.passed = Some(now);
        }
        self.connections.queued(conn, passed as u64);
        if asks && passed > 0 {
            self.tell(id, ExchangeEvent::Room);
        }
        passed
    }

    fn end(&mut self, id: ExchangeId) -> Vec<u8> {
        let now = self.now();
        if let Some(conn) = self.connections.conn(self.id) {
            conn.last = Tick::of(now);
        }
        let Some(one) = self.connections.carried.get_mut(id) else { return Vec::new() };
        one.sent_end = true;
        let trailers = one.take_trailers().unwrap_or_default();
        if one.stage == Stage::Over {
            self.connections.forget_carried(id);
        } else {
            // Nothing of it is unsent.
            self.tell(id, ExchangeEvent::Room);
        }
        trailers
    }
}

impl ConnectionIo<'_> {
    /// One more begins, of which nobody was told yet.
    fn begin_exchange(&mut self, (priority, window): (Priority, usize)) -> Option<ExchangeId> {
        let now = self.now();
        let conn = self.connections.conn(self.id)?;
        let before = conn.answered();
        conn.requests = conn.requests.saturating_add(1);
        conn.last = Tick::of(now);
        let terms = conn.terms.exchange();
        let id = self.connections.carried.begin(self.id, (priority, before, window), now)?;
        if let Some(one) = self.connections.carried.get_mut(id) {
            one.terms = terms;
        }
        self.carries()?.exchanges.push(id);
        Some(id)
    }

    /// Offers what is held of a body to its handler, and tells it of the end behind that.
    fn offer(&mut self, id: ExchangeId) {
        let Some(one) = self.connections.carried.get_mut(id) else { return };
        let held = core::mem::take(&mut one.body.held);
        if !held.is_empty() {
            let taken = self.tell(id, ExchangeEvent::Body(&held)).min(held.len());
            let Some(one) = self.connections.carried.get_mut(id) else { return };
            one.body.free += taken;
            one.exchange.received += taken as u64;
            one.exchange.left = taken < held.len();
            if one.stage == Stage::Over {
                one.body.free += held.len() - taken;
            } else if taken < held.len() {
                one.body.held = held;
                one.body.held.drain(..taken);
                return;
            }
        }
        let Some(one) = self.connections.carried.get_mut(id) else { return };
        if let Some(trailers) = one.body.trailers.take()
            && one.body.taken
            && one.stage != Stage::Over
        {
            self.tell(id, ExchangeEvent::BodyEnd(&trailers));
        }
    }

    fn carries(&mut self) -> Option<&mut CarryingConnection> {
        self.connections.carrying(self.id)
    }

    fn give_up_all(&mut self) {
        let all = self.carries().map(|carries| core::mem::take(&mut carries.exchanges)).unwrap_or_default();
        all.into_iter().for_each(|id| self.gone(id));
    }

    /// The connection is gone: all of its exchanges, and its protocol, are over.
    pub fn left(&mut self) {
        self.give_up_all();
        self.connections.end_lent(self.id);
    }

    /// Its protocol is to look what is to be sent.
    pub fn stir(&mut self) {
        self.connections.stir(self.id);
    }

    /// What handlers have left of bodies, and ask for now, is offered again.
    pub fn offer_held(&mut self) {
        let Some(carries) = self.carries() else { return };
        for id in carries.exchanges.clone() {
            let one = self.connections.carried.get_mut(id);
            if one.is_some_and(|one| core::mem::take(&mut one.body.wanted)) {
                self.offer(id);
            }
        }
    }

    /// A body will not be whole.
    fn cut(&mut self, id: ExchangeId, why: BodyCut) {
        if let Some(one) = self.connections.carried.get_mut(id) {
            one.body.open = false;
            one.body.taken = false;
        }
        if self.tell(id, ExchangeEvent::BodyCut(why)) == 0 {
            self.stop(id, Gone::Cut);
        }
    }

    fn tell(&mut self, id: ExchangeId, event: ExchangeEvent<'_>) -> usize {
        self.handler.tell(self.net, self.connections, id, event)
    }

    /// We end it before its end; its protocol tells its client.
    fn stop(&mut self, id: ExchangeId, why: Gone) {
        let now = self.now();
        let Some(one) = self.connections.carried.get_mut(id).filter(|one| one.stage != Stage::Over) else { return };
        (one.stage, one.stop) = (Stage::Over, Some(Stop::Reset));
        if matches!(why, Gone::Left { .. }) {
            one.exchange.sent = one.exchange.sent.saturating_sub(one.queued as u64);
        }
        let (mark, sent_end) = (one.exchange.mark, one.sent_end);
        self.connections.tell_of_carried(id, now);
        self.handler.gone(id, mark, why);
        if sent_end {
            self.connections.forget_carried(id);
        }
        self.connections.stir(self.id);
    }

    /// It is over before its end, and its entry is free.
    fn gone(&mut self, id: ExchangeId) {
        let now = self.now();
        let Some(one) = self.connections.carried.get_mut(id) else { return };
        let (mark, is_over) = (one.exchange.mark, one.stage == Stage::Over);
        let why = Gone::Left { now, unsent: one.queued as u64 };
        one.exchange.sent = one.exchange.sent.saturating_sub(one.queued as u64);
        if !is_over {
            self.connections.tell_of_carried(id, now);
            self.handler.gone(id, mark, why);
        }
        self.connections.forget_carried(id);
    }

    /// The connection's timer ran out: ends exchanges that took too long. Whether the connection
    /// itself has: it has none, and none began for as long as its client may take.
    pub fn end_late(&mut self) -> bool {
        let now = self.now();
        let Some(carries) = self.carries() else { return false };
        let all = carries.exchanges.clone();
        for id in &all {
            self.look_at(*id, now);
        }
        let Some(conn) = self.connections.conn(self.id) else { return false };
        let (terms, last) = (conn.terms, conn.last);
        let span = self.connections.terms.exchange(terms).keep_alive;
        all.is_empty() && last.left(span, now).is_none() && self.net.unsent(self.id) == 0
    }

    fn look_at(&mut self, id: ExchangeId, now: Time) {
        let header = self.connections.head_timeout(self.id);
        let passed = self.carries().and_then(|carries| carries.passed);
        let Some(one) = self.connections.carried.get(id) else { return };
        let terms = *self.connections.terms.of_exchange(one.terms);
        let waits_for_body = one.exchange.reads && one.body.open && !one.exchange.left;
        if waits_for_body && now.since(one.body_since) >= terms.body {
            self.connections.counters.timeouts_body += 1;
            self.note_late(id);
            return self.cut(id, BodyCut::Late);
        }
        let quiet = now.since(one.since);
        // Who takes what is sent to others is not late with what waits for its turn.
        let served = passed.is_some_and(|at| now.since(at) < terms.send);
        let waits_for_turn = one.standing.is_open && served;
        let is_held_up = one.queued > 0 || one.window == 0;
        match one.stage {
            Stage::Waiting if !one.exchange.patient && !waits_for_body && quiet >= header => {
                let goes_on = self.tell(id, ExchangeEvent::Late) > 0;
                let one = self.connections.carried.get_mut(id);
                let Some(one) = one.filter(|one| one.stage == Stage::Waiting) else { return };
                one.since = now;
                if !goes_on {
                    self.connections.counters.timeouts_file += 1;
                    self.stop(id, Gone::Cut);
                }
            }
            Stage::Replying if !is_held_up && one.exchange.patient => {}
            Stage::Replying if is_held_up && waits_for_turn => {}
            Stage::Replying if quiet >= terms.send => {
                if !is_held_up {
                    self.connections.counters.timeouts_file += 1;
                } else {
                    self.connections.counters.timeouts_send += 1;
                }
                // Its client is as good as gone.
                let unsent = one.queued as u64;
                self.note_late(id);
                self.stop(id, Gone::Left { now, unsent });
            }
            Stage::Over if quiet >= terms.send && !waits_for_turn => {
                self.connections.counters.timeouts_send += 1;
                self.reset_over(id);
            }
            Stage::Waiting | Stage::Replying | Stage::Over => {}
        }
    }

    /// Its handler is done with it, and its client takes nothing of it.
    fn reset_over(&mut self, id: ExchangeId) {
        if let Some(one) = self.connections.carried.get_mut(id) {
            (one.stop, one.late) = (Some(Stop::Reset), true);
        }
        self.connections.stir(self.id);
    }

    fn note_late(&mut self, id: ExchangeId) {
        if let Some(one) = self.connections.carried.get_mut(id) {
            one.late = true;
        }
    }
}

impl Connections {
    /// The protocol of a connection, which is at work from now on.
    pub fn take_protocol(&mut self, id: ConnId) -> Option<Box<dyn Multiplexed>> {
        self.carrying(id)?.protocol.take()
    }

    /// It has done its work. Where its connection is gone meanwhile, so is it.
    pub fn put_protocol(&mut self, id: ConnId, protocol: Box<dyn Multiplexed>) {
        if let Some(carries) = self.carrying(id) {
            carries.protocol = Some(protocol);
        }
    }

    /// What a protocol begins with on this connection.
    #[must_use]
    pub fn carried_terms(&self, id: ConnId, http2: Http2Terms) -> CarriedTerms {
        let terms = self.conns.get(id.index()).map_or(Terms::FIRST, |conn| conn.terms);
        CarriedTerms { head: *self.terms.head(terms), http2 }
    }

    /// From now on this protocol has the connection.
    pub fn carry(&mut self, id: ConnId, protocol: Box<dyn Multiplexed>) {
        self.reading.remove(id.index());
        if let Some(conn) = self.conn(id) {
            conn.state = State::Carrying;
            conn.flags &= !(PARTIAL | FIRST);
            conn.more().carries = Some(Box::new(CarryingConnection::new(protocol)));
        }
    }

    /// The next connection whose protocol is to look.
    pub fn next_stirred(&mut self) -> Option<ConnId> {
        let id = self.carried.stirred.pop_front()?;
        if let Some(carries) = self.carrying(id) {
            carries.stirred = false;
        }
        Some(id)
    }

    /// Whether there is any.
    #[inline]
    #[must_use]
    pub fn has_stirred(&self) -> bool {
        !self.carried.stirred.is_empty()
    }
}
