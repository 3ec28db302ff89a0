//! Whole responses, and what is counted and logged of each.

use crate::conn::{DRY, State, Tick};
use crate::connections::Carrier;
use crate::head;
use crate::page::Page;
use crate::trace;
use access_log::Line;
use app::{ConnId, Net};
use exchange::{Ending, Piece, Reply};
use h1::response;
use semantics::Status;
use wire::Time;

impl Carrier {
    /// A response of our own to what is no request: told, and closed.
    pub fn refuse<N: Net>(&mut self, net: &mut N, id: ConnId, page: &Page) {
        let status = page.status;
        let (head, body) = self.queue(net, id, &page.reply(), &page.body(), Ending::LAST_OF_11);
        self.count(status, false);
        self.record_rejected(id, status, head as u64 + body);
        self.answered(net, id, head, body);
        self.response_over(net, id, false);
    }

    /// Queues a whole response. Returns the lengths of its head and its content.
    #[inline]
    pub(crate) fn queue<N: Net>(
        &mut self,
        net: &mut N,
        id: ConnId,
        reply: &Reply<'_>,
        body: &[Piece<'_>],
        ending: Ending,
    ) -> (usize, u64) {
        let mut out = core::mem::take(&mut self.scratch);
        out.clear();
        head::write(&mut out, reply, self.common.server, self.date, (ending, false));
        let head = out.len();
        self.last_head = head;
        let mut rest = body;
        // Bytes go along with the head.
        while let [Piece::Bytes(bytes), after @ ..] = rest {
            out.extend_from_slice(bytes);
            rest = after;
        }
        let mut sent = (out.len() - head) as u64;
        net.send_bytes(id, &out);
        self.scratch = out;
        for piece in rest {
            match piece {
                Piece::Bytes(bytes) => {
                    net.send_bytes(id, bytes);
                    sent += bytes.len() as u64;
                }
                Piece::Body(body, (start, end)) => {
                    net.send_body(id, body, *start..*end);
                    sent += u64::from(end - start);
                }
                // Whoever sends files sends them in pieces.
                Piece::File(..) => {}
            }
        }
        (head, sent)
    }

    /// What cannot be understood, or did not come: told, logged, and closed.
    pub fn reject<N: Net>(&mut self, net: &mut N, id: ConnId, page: &Page, sent: &[u8]) {
        if let Some(log) = &mut self.log {
            let request = sent.split(|&byte| byte == b'\r' || byte == b'\n').next().unwrap_or_default();
            let request = if request.is_empty() { b"-" } else { request };
            let line = Line { peer: net.peer(id), request, status: page.status.code(), referer: None, agent: None };
            log.line(&line, page.length(), net.now());
        }
        self.refuse(net, id, page);
    }

    /// The client waits for a word before it sends a body, and has it.
    pub(crate) fn go_ahead<N: Net>(&mut self, net: &mut N, id: ConnId) {
        self.send(net, id, response::CONTINUE);
        self.counters.responses_1xx += 1;
    }

    /// A response is queued, or its head.
    pub(crate) fn answered<N: Net>(&mut self, net: &mut N, id: ConnId, head: usize, body: u64) {
        self.queued(id, head as u64 + body);
        let conn = &mut self.conns[id.index()];
        conn.requests = conn.requests.saturating_add(1);
        conn.last = Tick::of(net.now());
    }

    /// The last byte of a response is queued: on to the next, or the end.
    pub(crate) fn response_over<N: Net>(&mut self, net: &mut N, id: ConnId, goes_on: bool) {
        let conn = &mut self.conns[id.index()];
        conn.state = State::Ready;
        conn.give_more(&mut self.spare);
        if !goes_on || conn.flags & DRY != 0 {
            self.close_after_queue(net, id);
        } else if net.unsent(id) > app::SEND_LOW_WATER {
            self.watch_progress(net, id);
        }
    }

    /// One more response with this status.
    pub(crate) fn count(&mut self, status: Status, request: bool) {
        self.counters.requests += u64::from(request);
        match status.code() {
            200..300 => self.counters.responses_2xx += 1,
            300..400 => self.counters.responses_3xx += 1,
            400..500 => self.counters.responses_4xx += 1,
            _ => self.counters.responses_5xx += 1,
        }
    }

    /// Tells of a reply that was begun, with what was sent of it: the log, and who traces.
    pub fn close_line(&mut self, id: ConnId, now: Time) {
        trace::end((&self.beginnings, &mut self.conns), id, now, None);
        let Some(more) = self.conns[id.index()].more.as_mut() else { return };
        let (line, sent) = (more.line.take(), more.sent);
        if let (Some(line), Some(log)) = (line, &mut self.log) {
            log.close_line(&line, sent, now);
        }
    }
}
