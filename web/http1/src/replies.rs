//! What handlers answer through: [`Replies`], by HTTP/1.1.

use crate::answering::H1Replies;
use app::Net;
use connections::{BodyPace, Connections, FINISHED, State, TAKES_BODY, Tick};
use exchange::{
    About, ExchangeId, ExchangeSettings, LocalAddress, Opening, Piece, Priority, Ready, Replies, Reply, ReplyEnd,
    ReplyFlow, Stop, Totals,
};
use h1::response;
use semantics::{Method, Request, Status};
use wire::Time;

impl<N: Net + ?Sized> Replies for H1Replies<'_, N> {
    fn now(&self) -> Time {
        self.net.now()
    }

    fn reply(&mut self, id: ExchangeId, request: &Request<'_>, reply: &Reply<'_>, body: &[Piece<'_>]) -> u64 {
        let Some((id, ending)) = self.unanswered(id) else { return self.carried().reply(id, request, reply, body) };
        let body = if request.method() == Method::Head { &[] } else { body };
        let lengths = self.queue(id, reply, body, ending);
        self.over(id, request, reply.status, lengths, ending);
        lengths.0 as u64
    }

    fn reply_ready(&mut self, id: ExchangeId, request: &Request<'_>, ready: &Ready) {
        let Some((id, ending)) = self.unanswered(id) else { return self.carried().reply_ready(id, request, ready) };
        let whole = request.method() != Method::Head;
        let end = if whole { ready.message_len } else { ready.head_len };
        if ready.head_len(ending) == ready.head_len as usize {
            self.net.send_body(id, &ready.message, 0..end);
        } else {
            // In front of the empty line.
            self.net.send_body(id, &ready.message, 0..ready.fields_len());
            self.net.send_bytes(id, ending.line());
            self.net.send_body(id, &ready.message, ready.head_len.saturating_sub(2)..end);
        }
        let mut sent = u64::from(end.saturating_sub(ready.head_len));
        if whole && let Some(content) = &ready.content {
            self.net.send_body(id, content, 0..content.len());
            sent += u64::from(content.len());
        }
        self.over(id, request, Status::OK, (ready.head_len(ending), sent), ending);
    }

    fn begin(&mut self, id: ExchangeId, request: &Request<'_>, reply: &Reply<'_>, end: ReplyEnd) -> u64 {
        match reply.status {
            Status::SWITCHING_PROTOCOLS => self.open_tunnel(id, request, reply),
            status if status.is_interim() => self.send_interim(id, request, reply),
            _ => self.begin_as(id, request, reply, end),
        }
    }

    fn body(&mut self, id: ExchangeId, piece: Piece<'_>) -> bool {
        let Some(id) = self.begun(id) else { return self.carried().body(id, piece) };
        match piece {
            Piece::Bytes(bytes) => {
                self.piece(id, piece.len(), |net| net.send_bytes(id, bytes));
                self.connections.watch_tunnel(self.net, id);
            }
            Piece::Body(body, (start, end)) => self.piece(id, piece.len(), |net| net.send_body(id, body, start..end)),
            Piece::File(file, (start, end)) => {
                let chunked = self.connections.conns[id.index()].is_chunked();
                if chunked || !self.net.send_file(id, file, start..end) {
                    return false;
                }
                self.note(id, piece.len());
            }
        }
        true
    }

    fn take_back(&mut self, id: ExchangeId, most: usize) -> usize {
        let Some(id) = self.begun(id) else { return self.carried().take_back(id, most) };
        if self.connections.conns[id.index()].is_chunked() {
            return 0;
        }
        let taken = self.net.take_back(id, most);
        let conn = &mut self.connections.conns[id.index()];
        conn.queued = conn.queued.wrapping_sub(taken as u32);
        let more = conn.more();
        more.exchange.sent = more.exchange.sent.saturating_sub(taken as u64);
        self.connections.counters.bytes_queued -= taken as u64;
        taken
    }

    fn finish(&mut self, id: ExchangeId, trailers: &[u8]) {
        let Some(id) = self.begun(id) else { return self.carried().finish(id, trailers) };
        if core::mem::take(&mut self.connections.conns[id.index()].more().chunked) {
            if trailers.is_empty() {
                self.connections.send(self.net, id, response::LAST_CHUNK);
            } else {
                let (length, end) = response::LAST_CHUNK.split_at(3);
                self.connections.send(self.net, id, &[length, trailers, end].concat());
            }
        }
        let draining = self.connections.draining.is_some();
        let conn = &mut self.connections.conns[id.index()];
        if (!conn.ending.goes_on() || draining) && conn.flags & FINISHED == 0 {
            conn.flags |= FINISHED;
            self.net.finish(id);
        }
    }

    fn pace(&mut self, id: ExchangeId, rate: u64) -> bool {
        let Some((id, conn)) = self.asked(id) else { return false };
        let is_paced = conn.state != State::Tunnel && self.net.pace(id, Some(rate));
        if is_paced {
            let Connections { conns, spare, .. } = &mut *self.connections;
            conns[id.index()].more_within(spare).exchange.paced = Some(rate);
        }
        is_paced
    }

    fn end(&mut self, id: ExchangeId) {
        let Some(id) = self.begun(id) else { return self.carried().end(id) };
        let now = self.net.now();
        if self.connections.conns[id.index()].more.as_ref().is_some_and(|more| more.exchange.paced.is_some()) {
            self.net.pace(id, None);
        }
        self.connections.close_line(id, now);
        if let Some((status, bytes)) =
            self.connections.conns[id.index()].more.as_deref().map(|more| more.exchange.outcome())
        {
            self.record(id, status, bytes);
        }
        let conn = &mut self.connections.conns[id.index()];
        conn.last = Tick::of(now);
        let goes_on = conn.ending.goes_on() && self.connections.draining.is_none();
        self.go_on(id, goes_on);
    }

    fn stop(&mut self, id: ExchangeId, how: Stop) {
        if self.connections.conn_of(id).is_none() {
            return self.carried().stop(id, how);
        }
        match how {
            Stop::Reset => self.reset(id),
            Stop::Cut => self.cut_reply(id),
            Stop::HangUp => self.hang_up(id),
        }
    }

    fn read(&mut self, id: ExchangeId, most: Option<u64>) {
        if self.asked(id).is_none() {
            return self.carried().read(id, most);
        }
        let most = match most {
            Some(0) => return self.refuse_body(id),
            Some(most) => most,
            None => {
                if let Some((id, _)) = self.asked(id) {
                    self.net.resume(id);
                }
                return;
            }
        };
        let begins = self.net.now();
        let now = Tick::of(begins);
        let asked = self.asked(id).filter(|(_, conn)| conn.flags & TAKES_BODY != 0);
        let Some((id, conn)) = asked else { return };
        conn.engine.limit_body(most);
        (conn.more().exchange.reads, conn.last) = (true, now);
        conn.more().exchange.pace = Some(BodyPace::begin(begins));
        let (expects, waits) = (core::mem::take(&mut conn.more().exchange.expects), conn.state == State::Waiting);
        if expects && waits {
            self.go_ahead(id);
        }
        if waits {
            let span = self.connections.terms_of(id).body;
            self.connections.arm(self.net, id, span);
        }
        self.net.resume(id);
    }

    fn about(&self, id: ExchangeId) -> About {
        let Some((id, conn)) = self.connections.conn_of(id) else {
            return self.connections.about_carried(&*self.net, id);
        };
        About {
            peer: self.net.peer(id),
            local: LocalAddress::of(self.net, id),
            connection: self.connections.beginnings.number(id.index()),
            age: self.connections.beginnings.age(id.index(), self.net.now()),
            requests: conn.answered(),
            http10: conn.ending.is_http10(),
            http2: false,
            goes_on: conn.ending.goes_on() && self.connections.goes_on(id),
            transport: self.connections.transport(id),
            priority: Priority::default(),
            path: self.connections.path_figures(self.net, id),
            terms: Some(conn.terms.exchange()),
        }
    }

    fn opening(&self, id: ExchangeId) -> Opening<'_> {
        let Some((id, conn)) = self.connections.conn_of(id) else { return self.connections.opening_carried(id) };
        let proxied = conn.more.as_ref().and_then(|more| more.proxied.as_ref());
        Opening { session: self.connections.session(id), proxied }
    }

    fn totals(&self) -> Totals {
        let counters = &self.connections.counters;
        Totals {
            connections: counters.connections,
            open: counters.connections_open,
            requests: counters.requests + self.connections.ready,
            reading: self.connections.reading.count(),
        }
    }

    fn flow(&self, id: ExchangeId) -> ReplyFlow {
        let Some((id, conn)) = self.connections.conn_of(id) else { return self.connections.flow_carried(id) };
        let unsent = self.net.unsent(id);
        let received = conn.more.as_ref().map_or(0, |more| more.exchange.received);
        let taken = conn.queued.wrapping_sub(unsent as u32);
        ReplyFlow { unsent, room: ReplyFlow::UNBOUNDED, ahead: 0, taken, received }
    }

    fn set(&mut self, id: ExchangeId, settings: &ExchangeSettings) {
        let Some((conn_id, conn)) = self.asked(id) else { return self.carried().set(id, settings) };
        conn.ending = conn.ending.and(!settings.last);
        let changes = settings.terms.filter(|terms| conn.terms.exchange() != *terms);
        // What is answered at once needs no memory.
        let is_kept = settings.mark.is_some() || settings.patient || conn.more.is_some();
        self.series = settings.series.or(self.series);
        if is_kept {
            let Connections { conns, spare, .. } = &mut *self.connections;
            conns[conn_id.index()].more_within(spare).exchange.set(settings);
        }
        if self.within == Some(conn_id) {
            self.connections.looks_ahead = settings.looks_ahead;
        }
        if let Some(terms) = changes {
            self.connections.change_terms(self.net, conn_id, terms);
        }
    }

    fn mark(&self, id: ExchangeId) -> Option<u32> {
        match self.connections.conn_of(id) {
            Some((_, conn)) => conn.more.as_ref()?.exchange.mark,
            None => self.connections.mark_carried(id),
        }
    }
}
