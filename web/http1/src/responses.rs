//! Whole responses, and what is counted and logged of each.

use crate::answering::H1Replies;
use crate::head;
use access_log::Line;
use app::{ConnId, Net};
use connections::Connections;
use exchange::{Ending, Page, Piece, Reply};
use h1::response;

impl<N: Net + ?Sized> H1Replies<'_, N> {
    /// A response of our own to what is no request: told, and closed.
    pub(crate) fn refuse(&mut self, id: ConnId, page: &Page) {
        let status = page.status;
        let (head, body) = self.queue(id, &page.reply(), &page.body(), Ending::LAST_OF_11);
        self.connections.count(status, false);
        self.connections.record_rejected(id, status, head as u64 + body);
        self.connections.answered(self.net, id, head, body);
        self.connections.response_over(self.net, id, false);
    }

    /// Queues a whole response. Returns the lengths of its head and its content.
    #[inline]
    pub(crate) fn queue(&mut self, id: ConnId, reply: &Reply<'_>, body: &[Piece<'_>], ending: Ending) -> (usize, u64) {
        let Connections { scratch, common, date, .. } = &mut *self.connections;
        let mut out = core::mem::take(scratch);
        out.clear();
        head::write(&mut out, reply, common.server, *date, (ending, false));
        let head = out.len();
        let net = &mut *self.net;
        let mut rest = body;
        // Bytes go along with the head.
        while let [Piece::Bytes(bytes), after @ ..] = rest {
            out.extend_from_slice(bytes);
            rest = after;
        }
        let mut sent = (out.len() - head) as u64;
        net.send_bytes(id, &out);
        self.connections.scratch = out;
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
    pub(crate) fn reject(&mut self, id: ConnId, page: &Page, sent: &[u8]) {
        let (net, log) = (&*self.net, &mut self.connections.log);
        if let Some(log) = log {
            let request = sent.split(|&byte| byte == b'\r' || byte == b'\n').next().unwrap_or_default();
            let request = if request.is_empty() { b"-" } else { request };
            let line = Line { peer: net.peer(id), request, status: page.status.code(), referer: None, agent: None };
            log.line(&line, page.length(), net.now());
        }
        self.refuse(id, page);
    }

    /// The client waits for a word before it sends a body, and has it.
    pub(crate) fn go_ahead(&mut self, id: ConnId) {
        self.connections.send(self.net, id, response::CONTINUE);
        self.connections.counters.responses_1xx += 1;
    }
}
