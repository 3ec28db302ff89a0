//! What handlers answer through: [`Replies`], by HTTP/1.1.

use crate::answering::Answering;
use crate::conn::{FINISHED, More, State, TAKES_BODY, Tick};
use crate::pace::BodyPace;
use crate::page::Page;
use crate::streamed::BodyEnd;
use app::{Body, Net, PathFigures};
use core::net::SocketAddr;
use core::ops::Range;
use exchange::{
    About, ClientSession, ExchangeId, LocalAddress, Piece, ProxiedAddresses, Ready, Replies, Reply, Totals,
};
use h1::response;
use semantics::date::HttpDate;
use semantics::{Method, Request, Status};
use std::os::fd::OwnedFd;
use std::sync::Arc;
use wire::Time;

impl<N: Net> Replies for Answering<'_, N> {
    fn now(&self) -> Time {
        self.net.now()
    }

    fn second(&self) -> u64 {
        self.carrier.second
    }

    fn date(&self) -> HttpDate {
        self.carrier.date
    }

    fn reply(&mut self, id: ExchangeId, request: &Request<'_>, reply: &Reply<'_>, body: &[Piece<'_>]) {
        let Some((id, ending)) = self.unanswered(id) else { return };
        let lengths = self.carrier.queue(self.net, id, reply, body, ending);
        self.over(id, request, reply.status, lengths, ending);
    }

    fn reply_ready(&mut self, id: ExchangeId, request: &Request<'_>, ready: &Ready) {
        let Some((id, ending)) = self.unanswered(id) else { return };
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

    fn reply_status(&mut self, id: ExchangeId, request: &Request<'_>, status: Status, fields: &[u8]) {
        let page = Page::new(status, fields);
        let body = page.body();
        let body = if request.method() == Method::Head { &[][..] } else { &body };
        self.reply(id, request, &page.reply(), body);
    }

    fn interim(&mut self, id: ExchangeId, status: Status, fields: &[u8]) -> u64 {
        self.send_interim(id, status, fields)
    }

    fn begin(&mut self, id: ExchangeId, request: &Request<'_>, reply: &Reply<'_>) {
        self.begin_as(id, request, reply, BodyEnd::Length);
    }

    fn begin_open(&mut self, id: ExchangeId, request: &Request<'_>, reply: &Reply<'_>, chunked: bool) {
        self.begin_as(id, request, reply, if chunked { BodyEnd::Chunk } else { BodyEnd::Connection });
    }

    fn body(&mut self, id: ExchangeId, body: &Body, range: Range<u32>) {
        let Some(id) = self.begun(id) else { return };
        self.piece(id, range.len() as u64, |net| net.send_body(id, body, range));
    }

    fn bytes(&mut self, id: ExchangeId, bytes: &[u8]) {
        let Some(id) = self.begun(id) else { return };
        self.piece(id, bytes.len() as u64, |net| net.send_bytes(id, bytes));
        self.carrier.watch_tunnel(self.net, id);
    }

    fn file(&mut self, id: ExchangeId, file: &Arc<OwnedFd>, range: Range<u64>) -> bool {
        let Some(id) = self.begun(id) else { return false };
        if self.carrier.conns[id.index()].is_chunked() {
            return false;
        }
        let bytes = range.end - range.start;
        let queued = self.net.send_file(id, file, range);
        if queued {
            self.note(id, bytes);
        }
        queued
    }

    fn take_back(&mut self, id: ExchangeId, most: usize) -> usize {
        let Some(id) = self.begun(id) else { return 0 };
        if self.carrier.conns[id.index()].is_chunked() {
            return 0;
        }
        let taken = self.net.take_back(id, most);
        let conn = &mut self.carrier.conns[id.index()];
        conn.queued = conn.queued.wrapping_sub(taken as u32);
        let more = conn.more();
        more.sent = more.sent.saturating_sub(taken as u64);
        self.carrier.counters.bytes_queued -= taken as u64;
        taken
    }

    fn finish(&mut self, id: ExchangeId) {
        self.finish_with(id, b"");
    }

    fn finish_with(&mut self, id: ExchangeId, trailers: &[u8]) {
        let Some(id) = self.begun(id) else { return };
        if core::mem::take(&mut self.carrier.conns[id.index()].more().chunked) {
            let (length, end) = response::LAST_CHUNK.split_at(3);
            self.carrier.send(self.net, id, &[length, trailers, end].concat());
        }
        let draining = self.carrier.draining.is_some();
        let conn = &mut self.carrier.conns[id.index()];
        if (!conn.ending.goes_on() || draining) && conn.flags & FINISHED == 0 {
            conn.flags |= FINISHED;
            self.net.finish(id);
        }
    }

    fn end(&mut self, id: ExchangeId) {
        let Some(id) = self.begun(id) else { return };
        let now = self.net.now();
        self.carrier.close_line(id, now);
        if let Some((status, bytes)) = self.carrier.conns[id.index()].more.as_deref().map(More::outcome) {
            self.record(id, status, bytes);
        }
        let conn = &mut self.carrier.conns[id.index()];
        conn.last = Tick::of(now);
        let goes_on = conn.ending.goes_on() && self.carrier.draining.is_none();
        self.go_on(id, goes_on);
    }

    fn abort(&mut self, id: ExchangeId) {
        let Some((id, _)) = self.asked(id) else { return };
        self.carrier.close_line(id, self.net.now());
        self.carrier.conns[id.index()].state = State::Closing;
        self.net.abort(id);
    }

    fn cut_short(&mut self, id: ExchangeId) {
        self.cut_reply(id);
    }

    fn be_patient(&mut self, id: ExchangeId) {
        self.set_patient(id);
    }

    fn begin_tunnel(&mut self, id: ExchangeId, request: &Request<'_>, reply: &Reply<'_>) {
        self.open_tunnel(id, request, reply);
    }

    fn resume(&mut self, id: ExchangeId) {
        if let Some((id, _)) = self.asked(id) {
            self.net.resume(id);
        }
    }

    fn read_body(&mut self, id: ExchangeId, most: u64) {
        let begins = self.net.now();
        let now = Tick::of(begins);
        let asked = self.asked(id).filter(|(_, conn)| conn.flags & TAKES_BODY != 0);
        let Some((id, conn)) = asked else { return };
        conn.engine.limit_body(most);
        (conn.more().reads, conn.last) = (true, now);
        conn.more().pace = Some(BodyPace::begin(begins));
        let (expects, waits) = (core::mem::take(&mut conn.more().expects), conn.state == State::Waiting);
        if expects && waits {
            self.carrier.go_ahead(self.net, id);
        }
        if waits {
            let span = self.carrier.terms_of(id).body;
            self.carrier.arm(self.net, id, span);
        }
        self.net.resume(id);
    }

    fn body_received(&self, id: ExchangeId) -> u64 {
        let conn = self.carrier.conn_of(id);
        conn.and_then(|(_, conn)| conn.more.as_ref()).map_or(0, |more| more.received)
    }

    fn about(&self, id: ExchangeId) -> About {
        let Some((id, conn)) = self.carrier.conn_of(id) else { return About::default() };
        About {
            peer: self.net.peer(id),
            local: LocalAddress::of(self.net, id),
            connection: self.carrier.beginnings.number(id.index()),
            age: self.carrier.beginnings.age(id.index(), self.net.now()),
            requests: conn.answered(),
            http10: conn.ending.is_http10(),
            goes_on: conn.ending.goes_on() && self.carrier.goes_on(id),
            transport: self.carrier.transport(id),
        }
    }

    fn peer(&self, id: ExchangeId) -> Option<SocketAddr> {
        self.net.peer(self.carrier.conn_of(id)?.0)
    }

    fn path_figures(&self, id: ExchangeId) -> Option<PathFigures> {
        self.net.path_figures(self.carrier.conn_of(id)?.0)
    }

    fn session(&self, id: ExchangeId) -> Option<Arc<ClientSession>> {
        self.carrier.session(self.carrier.conn_of(id)?.0)
    }

    fn proxied(&self, id: ExchangeId) -> Option<ProxiedAddresses> {
        self.carrier.conn_of(id)?.1.more.as_ref()?.proxied.clone()
    }

    fn totals(&self) -> Totals {
        let counters = &self.carrier.counters;
        Totals {
            connections: counters.connections,
            open: counters.connections_open,
            requests: counters.requests + self.carrier.ready,
            reading: self.carrier.reading.count(),
        }
    }

    fn head_len(&self) -> u64 {
        self.carrier.last_head as u64
    }

    fn set_last(&mut self, id: ExchangeId) {
        if let Some((_, conn)) = self.asked(id) {
            conn.ending = conn.ending.and(false);
        }
    }

    fn refuse_body(&mut self, id: ExchangeId) {
        if let Some((_, conn)) = self.asked(id) {
            conn.ending = conn.ending.and(false);
            self.carrier.counters.bodies_refused += 1;
        }
    }

    fn set_terms(&mut self, id: ExchangeId, number: u8) {
        if let Some((id, _)) = self.asked(id).filter(|(_, conn)| conn.terms.exchange() != number) {
            self.carrier.change_terms(self.net, id, number);
        }
    }

    fn hang_up(&mut self, id: ExchangeId) {
        let Some((id, _)) = self.unanswered(id) else { return };
        let conn = &mut self.carrier.conns[id.index()];
        conn.requests = conn.requests.saturating_add(1);
        conn.flags &= !TAKES_BODY;
        conn.clear_more();
        self.carrier.close_after_queue(self.net, id);
    }

    fn unsent(&self, id: ExchangeId) -> usize {
        self.carrier.conn_of(id).map_or(0, |(id, _)| self.net.unsent(id))
    }

    fn taken(&self, id: ExchangeId) -> u32 {
        self.carrier.conn_of(id).map_or(0, |(id, conn)| conn.queued.wrapping_sub(self.net.unsent(id) as u32))
    }

    fn series(&self, host: &[u8], location: &[u8]) -> Option<u16> {
        self.carrier.recorder.as_ref().map(|recorder| recorder.board().series(host, location))
    }

    fn set_series(&mut self, id: ExchangeId, series: u16) {
        self.series = Some(series);
        if let Some(more) = self.asked(id).and_then(|(_, conn)| conn.more.as_mut()) {
            more.series = Some(series);
        }
    }

    fn set_mark(&mut self, id: ExchangeId, mark: u32) {
        let series = self.series;
        if let Some((_, conn)) = self.asked(id) {
            let more = conn.more();
            more.mark = Some(mark);
            more.series = series.or(more.series);
        }
    }

    fn mark(&self, id: ExchangeId) -> Option<u32> {
        self.carrier.conn_of(id)?.1.more.as_ref()?.mark
    }
}
