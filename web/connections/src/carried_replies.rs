//! What handlers answer exchanges through that are several on a connection: what they say waits in the
//! exchange's queue, and its connection's protocol is to look.

use crate::carried::{Carried, CarriedHead, QueuedHead, Stage};
use crate::protocol::CarryingConnection;
use crate::room;
use crate::table::Connections;
use crate::trace;
use app::{ConnId, Net, PathFigures};
use exchange::{About, ExchangeId, ExchangeSettings, LocalAddress, Opening, Piece, Ready, Reply, ReplyFlow, Stop};
use latency::Pace;
use semantics::{Method, Request, Status};
use std::collections::VecDeque;
use wire::Time;

/// What handlers answer such exchanges through. What names none is ignored.
#[derive(Debug)]
pub struct CarriedReplies<'a, N: ?Sized> {
    /// The data path.
    pub net: &'a mut N,
    /// The connections.
    pub connections: &'a mut Connections,
}

impl<N: Net + ?Sized> CarriedReplies<'_, N> {
    fn waiting(&mut self, id: ExchangeId) -> Option<&mut Carried> {
        self.connections.carried.get_mut(id).filter(|one| one.stage == Stage::Waiting)
    }

    fn begun(&mut self, id: ExchangeId) -> Option<&mut Carried> {
        self.connections.carried.get_mut(id).filter(|one| one.stage == Stage::Replying)
    }

    fn under_way(&mut self, id: ExchangeId) -> Option<&mut Carried> {
        self.connections.carried.get_mut(id).filter(|one| one.stage != Stage::Over)
    }

    /// Queues a head, counts the reply, and begins its line in the log.
    fn head(&mut self, id: ExchangeId, request: &Request<'_>, reply: &Reply<'_>) -> u64 {
        let now = self.net.now();
        let Some(conn) = self.waiting(id).map(|one| one.conn) else { return 0 };
        let line = self.connections.log.as_ref();
        let line = line.map(|log| log.open_line(&crate::page::line(&*self.net, conn, request, reply.status)));
        self.connections.count(reply.status, true);
        let head = self.connections.written_head(conn, (reply.status, reply.length), reply.fields);
        let Some((one, head)) = self.waiting(id).zip(head) else { return 0 };
        let bytes = head.bytes;
        (one.stage, one.since) = (Stage::Replying, now);
        (one.exchange.line, one.exchange.sent) = (line, 0);
        (one.exchange.status, one.exchange.head) = (reply.status.code(), bytes);
        one.heads.push_back(head);
        self.connections.stir(conn);
        bytes.into()
    }

    /// [`exchange::Replies::reply`].
    pub fn reply(&mut self, id: ExchangeId, request: &Request<'_>, reply: &Reply<'_>, body: &[Piece<'_>]) -> u64 {
        let bytes = self.head(id, request, reply);
        let body = if request.method() == Method::Head { &[] } else { body };
        if bytes > 0 {
            if let Some(one) = self.begun(id) {
                body.iter().for_each(|piece| _ = one.push(*piece));
            }
            self.finish(id, b"");
            self.end(id);
        }
        bytes
    }

    /// [`exchange::Replies::reply_ready`].
    pub fn reply_ready(&mut self, id: ExchangeId, request: &Request<'_>, ready: &Ready) {
        let (body, start) = ready.content();
        let length = u64::from(body.len() - start);
        // The length is told by whoever has it.
        let fields = ready.field_lines();
        let reply = Reply { status: Status::OK, length: Some(length), fields: &fields, reason: None };
        let piece = [Piece::Body(body, (start, body.len()))];
        let _ = self.reply(id, request, &reply, &piece);
    }

    fn interim(&mut self, id: ExchangeId, status: Status, fields: &[u8]) -> u64 {
        let Some(conn) = self.waiting(id).map(|one| one.conn) else { return 0 };
        let head = self.connections.written_head(conn, (status, None), fields);
        let Some((one, head)) = self.waiting(id).zip(head) else { return 0 };
        let bytes = head.bytes;
        one.heads.push_back(head);
        self.connections.counters.responses_1xx += 1;
        self.connections.stir(conn);
        bytes.into()
    }

    /// [`exchange::Replies::begin`].
    pub fn begin(&mut self, id: ExchangeId, request: &Request<'_>, reply: &Reply<'_>) -> u64 {
        if reply.status == Status::SWITCHING_PROTOCOLS {
            // A stream has no connection that could become its handler's.
            self.stop(id, Stop::Reset);
            0
        } else if reply.status.is_interim() {
            self.interim(id, reply.status, reply.fields)
        } else {
            self.head(id, request, reply)
        }
    }

    /// [`exchange::Replies::body`].
    pub fn body(&mut self, id: ExchangeId, piece: Piece<'_>) -> bool {
        let now = self.net.now();
        let Some(one) = self.begun(id).filter(|one| one.trailers.is_none()) else { return false };
        if one.queued == 0 {
            // Its client is waited for from now on.
            one.since = now;
        }
        let before = one.queued;
        let (queued, conn) = (one.push(piece), one.conn);
        let more = one.queued - before;
        one.held += more;
        if let Some(carries) = self.connections.carrying(conn) {
            carries.held += more;
        }
        self.connections.stir(conn);
        queued
    }

    /// [`exchange::Replies::take_back`].
    pub fn take_back(&mut self, id: ExchangeId, most: usize) -> usize {
        let taken = self.begun(id).filter(|one| one.trailers.is_none()).map_or(0, |one| one.take_back(most));
        self.connections.let_go(id);
        taken
    }

    /// [`exchange::Replies::finish`].
    pub fn finish(&mut self, id: ExchangeId, trailers: &[u8]) {
        let Some(one) = self.begun(id).filter(|one| one.trailers.is_none()) else { return };
        one.trailers = Some(trailers.to_vec());
        let conn = one.conn;
        self.connections.stir(conn);
    }

    /// [`exchange::Replies::end`].
    pub fn end(&mut self, id: ExchangeId) {
        let Some(one) = self.begun(id) else { return };
        one.stage = Stage::Over;
        if !one.sent_end {
            one.trailers.get_or_insert_default();
        }
        self.over(id);
    }

    /// [`exchange::Replies::stop`].
    pub fn stop(&mut self, id: ExchangeId, how: Stop) {
        let Some(one) = self.under_way(id) else { return };
        (one.stage, one.stop) = (Stage::Over, Some(how));
        // What its protocol has not taken, nobody gets.
        one.exchange.sent = one.exchange.sent.saturating_sub(one.queued as u64);
        (one.out, one.queued) = (VecDeque::new(), 0);
        self.connections.let_go(id);
        self.over(id);
    }

    /// It is over for its handler.
    fn over(&mut self, id: ExchangeId) {
        let now = self.net.now();
        self.connections.tell_of_carried(id, now);
        let Some(one) = self.connections.carried.get(id) else { return };
        let (conn, sent_end) = (one.conn, one.sent_end);
        if sent_end {
            self.connections.forget_carried(id);
        } else {
            self.connections.stir(conn);
        }
    }

    /// [`exchange::Replies::read`].
    pub fn read(&mut self, id: ExchangeId, most: Option<u64>) {
        if most == Some(0) {
            return self.refuse_body(id);
        }
        let now = self.net.now();
        let Some(one) = self.under_way(id).filter(|one| one.body.taken) else { return };
        if let Some(most) = most {
            one.body.most = most;
            (one.exchange.reads, one.body_since) = (true, now);
        }
        one.body.wanted = true;
        let conn = one.conn;
        self.connections.stir(conn);
    }

    /// What there is of the request's body is nobody's, and so is what comes.
    fn refuse_body(&mut self, id: ExchangeId) {
        let Some(one) = self.under_way(id) else { return };
        one.body.taken = false;
        one.body.free += one.body.held.len();
        one.body.held = Vec::new();
        let conn = one.conn;
        self.connections.counters.bodies_refused += 1;
        self.connections.stir(conn);
    }

    /// [`exchange::Replies::set`].
    pub fn set(&mut self, id: ExchangeId, settings: &ExchangeSettings) {
        let Some(one) = self.under_way(id) else { return };
        one.exchange.set(settings);
        one.terms = settings.terms.unwrap_or(one.terms);
        let conn = one.conn;
        if settings.last {
            let requests = self.connections.conn(conn).map_or(0, |conn| conn.requests);
            if let Some(carries) = self.connections.carrying(conn) {
                carries.ends_at = carries.ends_at.min(requests);
            }
        }
    }
}

impl Connections {
    /// What of a connection is its protocol's, if that carries several exchanges.
    pub(crate) fn carrying(&mut self, id: ConnId) -> Option<&mut CarryingConnection> {
        self.conn(id)?.more.as_mut()?.carries.as_deref_mut()
    }

    pub(crate) fn carries(&self, id: ConnId) -> Option<&CarryingConnection> {
        let conn = self.conns.get(id.index()).filter(|conn| conn.generation == id.generation())?;
        conn.more.as_ref()?.carries.as_deref()
    }

    /// A head as the protocol of this connection has it.
    fn written_head(&self, conn: ConnId, (status, length): (Status, Option<u64>), fields: &[u8]) -> Option<QueuedHead> {
        let carries = self.carries(conn)?;
        let head = CarriedHead { status, length, fields, date: self.date.as_bytes(), server: self.common.server };
        Some((carries.write_head)(&head))
    }

    /// If it is one whose protocol is to be told of the end of all connections, which has begun.
    pub(crate) fn stir_at(&mut self, index: usize) {
        let Some(generation) = self.conns.get(index).map(|conn| conn.generation) else { return };
        self.stir(ConnId::new(index as u32, generation));
    }

    /// Something was queued for a connection that carries several exchanges, or taken: its
    /// protocol is to look.
    pub(crate) fn stir(&mut self, conn: ConnId) {
        if let Some(carries) = self.carrying(conn).filter(|carries| !carries.stirred) {
            carries.stirred = true;
            self.carried.stirred.push_back(conn);
        }
    }

    /// It is over, for its handler: the log is told, and who counts latencies.
    pub(crate) fn tell_of_carried(&mut self, id: ExchangeId, now: Time) {
        let Self { carried, beginnings, log, recorder, series, .. } = self;
        let Some(one) = carried.get_mut(id) else { return };
        let conn = one.conn;
        crate::progress::tell_of_end((beginnings, log), conn, &mut one.exchange, now);
        let (status, bytes) = one.exchange.outcome();
        if let Some(recorder) = recorder
            && status > 0
        {
            let began = one.exchange.began.unwrap_or(now);
            recorder.on_end(Pace { series: one.exchange.series.unwrap_or(*series), status, bytes, began }, now);
        }
    }

    /// It is over on both sides: its entry is free.
    pub(crate) fn forget_carried(&mut self, id: ExchangeId) {
        let Some(one) = self.carried.remove(id) else { return };
        if let Some(carries) = self.carrying(one.conn) {
            carries.exchanges.retain(|one| *one != id);
            carries.held = carries.held.saturating_sub(one.held);
        }
    }

    /// What an exchange has queued is less than it was: so is what its connection holds.
    pub(crate) fn let_go(&mut self, id: ExchangeId) {
        let Some((conn, less)) = self.carried.get_mut(id).map(|one| (one.conn, one.let_go())) else { return };
        if let Some(carries) = self.carrying(conn).filter(|_| less > 0) {
            carries.held = carries.held.saturating_sub(less);
        }
    }

    /// The connection of one of several exchanges, if that is under way.
    #[must_use]
    pub fn conn_of_carried(&self, id: ExchangeId) -> Option<ConnId> {
        self.carried.under_way(id).map(|one| one.conn)
    }

    /// [`exchange::Replies::about`] of one of several exchanges.
    pub fn about_carried<N: Net + ?Sized>(&self, net: &N, id: ExchangeId) -> About {
        let Some(one) = self.carried.under_way(id) else { return About::default() };
        let conn = one.conn;
        About {
            peer: net.peer(conn),
            local: LocalAddress::of(net, conn),
            connection: self.beginnings.number(conn.index()),
            age: self.beginnings.age(conn.index(), net.now()),
            requests: one.requests,
            http10: false,
            http2: self.carries(conn).is_some_and(|carries| carries.http2),
            goes_on: self.requests_max > 0 && self.draining.is_none(),
            transport: self.transport(conn),
            priority: one.priority,
            path: self.path_figures(net, conn),
        }
    }

    /// How TCP has found the path of a connection, if its handler asks for that.
    pub fn path_figures<N: Net + ?Sized>(&self, net: &N, conn: ConnId) -> Option<PathFigures> {
        if self.asks_for_paths { net.path_figures(conn) } else { None }
    }

    /// [`exchange::Replies::opening`] of one of several exchanges.
    #[must_use]
    pub fn opening_carried(&self, id: ExchangeId) -> Opening<'_> {
        let Some(conn) = self.conn_of_carried(id) else { return Opening::default() };
        let more = self.conns.get(conn.index()).and_then(|conn| conn.more.as_ref());
        Opening { session: self.session(conn), proxied: more.and_then(|more| more.proxied.as_ref()) }
    }

    /// [`exchange::Replies::flow`] of one of several exchanges.
    #[must_use]
    pub fn flow_carried(&self, id: ExchangeId) -> ReplyFlow {
        let Some(one) = self.carried.under_way(id) else { return ReplyFlow::default() };
        let held = self.carries(one.conn).map_or(0, |carries| carries.held);
        let welcome = room::of(one.queued, one.window, one.standing, held);
        let ahead = if one.exchange.patient { room::ahead(one.queued, held).saturating_sub(welcome) } else { 0 };
        let room = welcome.saturating_add(ahead);
        // At most what is read ahead of a connection.
        let ahead = ahead as u32;
        ReplyFlow { unsent: one.queued, room, ahead, taken: one.passed, received: one.exchange.received }
    }

    /// [`exchange::Replies::mark`] of one of several exchanges.
    #[must_use]
    pub fn mark_carried(&self, id: ExchangeId) -> Option<u32> {
        self.carried.under_way(id)?.exchange.mark
    }

    /// A request of one of several exchanges goes to its handler: for who traces.
    pub(crate) fn trace_carried(&mut self, id: ExchangeId, request: &Request<'_>, now: Time) {
        if self.tells_all
            && let Some(one) = self.carried.get_mut(id)
        {
            trace::begin(&self.beginnings, &mut one.exchange, one.conn, request, now);
        }
    }
}
