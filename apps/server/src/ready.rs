//! The short way: a plain GET for content that is ready, on a connection that
//! goes on or with it ends. No allocation, no lock, no system call; no timer
//! but for a connection's last request.

use crate::Server;
use crate::conn::{Ending, FINISHED, MARKED, State, Tick};
use crate::files::reader::EntryId;
use crate::line;
use app::{ConnId, Net};
use core::hint::cold_path;
use h1::server::{Event, Plain, Transfer};
use h1::{Framing, Version};
use semantics::{Method, Request, Status};
use wire::Time;

impl Server {
    /// Takes what a connection was offered, the short way as far as that
    /// leads. Returns how many bytes were used.
    ///
    /// Nothing of `data` is kept: it may lie in memory that the peer still
    /// writes to, and what it says may be another thing at the next look.
    #[inline(never)]
    pub(crate) fn on_ready_data<N: Net>(&mut self, net: &mut N, id: ConnId, data: &[u8], now: Time) -> usize {
        let used = self.serve_plain(net, id, data, now);
        if used == data.len() && used > 0 {
            return used;
        }
        cold_path();
        self.on_other_data(net, id, data, used, now)
    }

    /// Answers the plain head that `data` begins with, if its content is ready.
    /// Returns its length; 0 if it takes another way.
    #[inline(always)]
    fn serve_plain<N: Net>(&mut self, net: &mut N, id: ConnId, data: &[u8], now: Time) -> usize {
        let Some(conn) = self.conns.get_mut(id.index()) else { return 0 };
        // The log tells more of a request than its path.
        if conn.state != State::Ready || conn.flags & !MARKED != 0 || self.log.is_some() {
            return 0;
        }
        let Some(plain) = conn.engine.plain(data, &self.http_limits) else { return 0 };
        let entry = match self.fixed {
            Some(entry) => entry,
            None => match self.store.hot.get(plain.path(data)) {
                Some(entry) => entry,
                None => return 0,
            },
        };
        // What follows is `serve_known` for the most frequent of what is ready.
        let Some(prepared) = self.store.ready(entry, self.second) else { return 0 };
        if !plain.keep_alive() || prepared.content.is_some() || conn.requests.wrapping_add(1) >= self.requests_max {
            return self.serve_other_plain(net, id, entry, plain, now);
        }
        if !net.reply(id, &prepared.message, self.unsent_max) {
            return 0;
        }
        let bytes = prepared.message_len;
        conn.engine.pass(true);
        conn.last = Tick::of(now);
        conn.queued = conn.queued.wrapping_add(bytes);
        conn.requests += 1;
        self.ready += 1;
        self.counters.bytes_queued += u64::from(bytes);
        if bytes as usize > app::SEND_LOW_WATER {
            cold_path();
            self.watch_long(net, id);
        }
        plain.len()
    }

    /// [`Server::serve_plain`] for what is ready, but the connection ends with
    /// it, or it is in two pieces.
    #[inline(never)]
    fn serve_other_plain<N: Net>(&mut self, net: &mut N, id: ConnId, entry: EntryId, plain: Plain, now: Time) -> usize {
        let ending = Ending::new(Version::Http11, plain.keep_alive());
        if net.unsent(id) >= self.unsent_max || self.serve_known(net, id, entry, ending, now) == 0 {
            return 0;
        }
        if let Some(conn) = self.conns.get_mut(id.index()) {
            conn.engine.pass(plain.keep_alive());
        }
        plain.len()
    }

    /// As [`Server::on_ready_data`] from `used` on, by heads that are parsed as
    /// a whole.
    #[inline(never)]
    fn on_other_data<N: Net>(&mut self, net: &mut N, id: ConnId, data: &[u8], used: usize, now: Time) -> usize {
        let mut room = self.unsent_max.saturating_sub(net.unsent(id));
        let mut rest = data.get(used..).unwrap_or_default();
        while room > 0 {
            // Beyond the table only if it was refused: nothing is kept.
            let Some(conn) = self.conns.get_mut(id.index()) else { return data.len() };
            if conn.state != State::Ready || conn.flags & !MARKED != 0 {
                break;
            }
            let event = conn.engine.on_bytes(rest, &self.http_limits);
            let bytes = match &event {
                Event::Request { request, transfer, consumed } => {
                    let bytes = self.serve_ready(net, id, request, transfer, now);
                    if bytes > 0 {
                        rest = rest.get(*consumed..).unwrap_or_default();
                    }
                    bytes
                }
                _ => 0,
            };
            if bytes == 0 {
                return self.take(net, id, data, data.len() - rest.len(), Some(&event));
            }
            if rest.is_empty() {
                return data.len();
            }
            room = room.saturating_sub(bytes);
        }
        self.take(net, id, data, data.len() - rest.len(), None)
    }

    /// Answers a plain GET for content that is ready. Returns the bytes
    /// queued; 0 if it takes the long way.
    #[inline(always)]
    fn serve_ready<N: Net>(
        &mut self,
        net: &mut N,
        id: ConnId,
        request: &Request<'_>,
        transfer: &Transfer,
        now: Time,
    ) -> usize {
        let ending = Ending::of(transfer);
        let plain = request.method() == Method::Get
            && request.is_plain()
            && (ending.version() == Version::Http11 || !ending.keep_alive())
            && matches!(transfer.framing(), Framing::None);
        if !plain {
            return 0;
        }
        let entry = match self.fixed {
            Some(entry) => entry,
            None => match self.store.hot.get(request.path()) {
                Some(entry) => entry,
                None => return 0,
            },
        };
        let bytes = self.serve_parsed(net, id, entry, ending, now);
        if bytes == 0 {
            return 0;
        }
        if let Some(log) = &mut self.log {
            let head = self.store.head_len(entry, ending);
            let line = line(net, id, request, Status::OK);
            log.line(&line, bytes.saturating_sub(head) as u64, now);
        }
        bytes
    }

    /// [`Server::serve_known`] for heads that were parsed as a whole.
    #[inline(never)]
    fn serve_parsed<N: Net>(&mut self, net: &mut N, id: ConnId, entry: EntryId, ending: Ending, now: Time) -> usize {
        self.serve_known(net, id, entry, ending, now)
    }

    /// Queues what is ready at `entry`. Returns the bytes queued; 0 if it is
    /// not ready, or a connection that would go on may not.
    #[inline(always)]
    fn serve_known<N: Net>(&mut self, net: &mut N, id: ConnId, entry: EntryId, ending: Ending, now: Time) -> usize {
        let Some(conn) = self.conns.get_mut(id.index()) else { return 0 };
        if ending.keep_alive() && conn.requests.wrapping_add(1) >= self.requests_max {
            return 0;
        }
        let Some(prepared) = self.store.ready(entry, self.second) else { return 0 };
        let (message, len) = match (ending.keep_alive(), ending.version(), &prepared.closing) {
            (true, ..) | (false, Version::Http10, _) => (&prepared.message, prepared.message_len),
            (false, Version::Http11, Some(closing)) => (closing, closing.len()),
            (false, Version::Http11, None) => return self.prepare_closing(net, id, entry, now),
        };
        let mut bytes = len as usize;
        net.send_body(id, message, 0..len);
        if let Some(content) = &prepared.content {
            cold_path();
            net.send_body(id, content, 0..content.len());
            bytes += content.len() as usize;
        }
        conn.last = Tick::of(now);
        conn.queued = conn.queued.wrapping_add(bytes as u32);
        conn.requests = conn.requests.saturating_add(1);
        self.ready += 1;
        self.counters.bytes_queued += bytes as u64;
        if !ending.keep_alive() {
            cold_path();
            // The client said so: nothing follows its request.
            conn.flags |= FINISHED;
            net.close(id);
            self.close_after_queue(net, id);
        } else if bytes > app::SEND_LOW_WATER {
            cold_path();
            self.watch_long(net, id);
        }
        bytes
    }

    /// A long response was queued: whether its peer takes it is watched, unless
    /// it is already.
    fn watch_long<N: Net>(&mut self, net: &mut N, id: ConnId) {
        if self.conns.get(id.index()).is_some_and(|conn| conn.flags & MARKED == 0)
            && net.unsent(id) > app::SEND_LOW_WATER
        {
            self.watch_progress(net, id);
        }
    }

    /// The first in a long time that asks for the connection to be closed:
    /// makes the message that says so, and answers with it.
    #[cold]
    #[inline(never)]
    fn prepare_closing<N: Net>(&mut self, net: &mut N, id: ConnId, entry: EntryId, now: Time) -> usize {
        if !self.store.prepare_closing(entry) {
            return 0;
        }
        self.serve_parsed(net, id, entry, Ending::new(Version::Http11, false), now)
    }
}
