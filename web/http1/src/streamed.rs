//! Replies whose body comes after their head.

use crate::answering::H1Replies;
use crate::head;
use app::{ConnId, Net};
use connections::page::line;
use connections::{ServedConnection, State};
use exchange::{Ending, ExchangeId, Reply, ReplyEnd};
use h1::response::{self, ResponseHead};
use semantics::Request;

impl<N: Net + ?Sized> H1Replies<'_, N> {
    /// Queues the head of a reply whose body ends so.
    pub(crate) fn begin_as(&mut self, id: ExchangeId, request: &Request<'_>, reply: &Reply<'_>, end: ReplyEnd) -> u64 {
        let Some((id, ending)) = self.unanswered(id) else { return self.carried().begin(id, request, reply) };
        let chunked = end == ReplyEnd::Chunk && !ending.is_http10();
        let ending = if chunked || end == ReplyEnd::Length { ending } else { ending.and(false) };
        let series = self.series;
        let conn = self.send_head(id, request, reply, (ending, chunked));
        conn.ending = ending;
        conn.state = State::Replying;
        let more = conn.more();
        more.chunked = chunked;
        more.until_close = end == ReplyEnd::Connection || end == ReplyEnd::Chunk && !chunked;
        more.exchange.series = series.or(more.exchange.series);
        let head = more.exchange.head;
        self.connections.watch_progress(self.net, id);
        head.into()
    }

    /// Queues an interim reply; how many bytes that is.
    pub(crate) fn send_interim(&mut self, id: ExchangeId, request: &Request<'_>, reply: &Reply<'_>) -> u64 {
        let Some((id, ending)) = self.unanswered(id) else { return self.carried().begin(id, request, reply) };
        if ending.is_http10() {
            // RFC 9110 section 15.2: such a client knows of none.
            return 0;
        }
        let mut out = core::mem::take(&mut self.connections.scratch);
        out.clear();
        ResponseHead::new(&mut out, reply.status).lines(reply.fields).end();
        self.connections.send(self.net, id, &out);
        self.connections.counters.responses_1xx += 1;
        let length = out.len() as u64;
        self.connections.scratch = out;
        length
    }

    /// Queues the head of a reply that is not over with it, counts it, and begins its
    /// line in the log.
    pub(crate) fn send_head(
        &mut self,
        id: ConnId,
        request: &Request<'_>,
        reply: &Reply<'_>,
        told: (Ending, bool),
    ) -> &mut ServedConnection {
        let mut out = core::mem::take(&mut self.connections.scratch);
        out.clear();
        head::write(&mut out, reply, self.connections.common.server, self.connections.date, told);
        self.net.send_bytes(id, &out);
        let log = self.connections.log.as_ref();
        let line = log.map(|log| log.open_line(&line(self.net, id, request, reply.status)));
        self.connections.count(reply.status, true);
        self.connections.answered(self.net, id, out.len(), 0);
        let (head, now) = (out.len(), self.net.now());
        self.connections.scratch = out;
        let conn = &mut self.connections.conns[id.index()];
        let more = conn.more();
        (more.exchange.line, more.exchange.sent) = (line, 0);
        (more.exchange.status, more.exchange.head) = (reply.status.code(), head as u32);
        more.exchange.began.get_or_insert(now);
        conn
    }

    /// Queues some of the body by `send`, as a chunk if it is sent in chunks.
    pub(crate) fn piece(&mut self, id: ConnId, bytes: u64, send: impl FnOnce(&mut N)) {
        let chunked = self.connections.conns[id.index()].is_chunked();
        if chunked && bytes > 0 {
            let mut line = Vec::with_capacity(18);
            response::chunk_start(&mut line, bytes);
            self.connections.send(self.net, id, &line);
        }
        send(self.net);
        self.note(id, bytes);
        if chunked && bytes > 0 {
            self.connections.send(self.net, id, response::CHUNK_END);
        }
    }
}
