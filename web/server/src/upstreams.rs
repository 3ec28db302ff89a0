//! Connections to upstreams, beside those of clients.
//!
//! They have a table of their own, by the same index. A client's connection is looked
//! for first: where its table has none, the bytes are an upstream's, or of one that was
//! let go of. So what clients send by the short way is not asked whose it is.

use crate::Server;
use crate::answering::Answering;
use crate::conn::State;
use crate::connections::Carrier;
use app::{Closed, ConnId, ConnectError, Net, Opened};
use core::net::{IpAddr, SocketAddr};
use core::ops::Range;
use core::time::Duration;
use exchange::{ExchangeId, Handler, Piece, UpstreamAddress, UpstreamEvent, UpstreamId, Upstreams};
use rustix::fd::OwnedFd;
use std::sync::Arc;
use wire::Time;

/// How long a connection that was let go of may take to end.
const LINGER: Duration = Duration::from_secs(5);

impl<H: Handler> Server<H> {
    /// A connection of ours was answered.
    pub(crate) fn on_upstream_open<N: Net>(&mut self, net: &mut N, id: ConnId) {
        let told = self.tell_service(id, |service| service.on_open(net, id, Opened::Connected));
        if told.or_else(|| self.h1.tell_upstream(net, id, UpstreamEvent::Opened).map(|_| ())).is_none() {
            // Nobody waits for it any more.
            net.abort(id);
        }
        self.begin_dialled();
    }

    /// Bytes of what is no client's connection.
    #[cold]
    pub(crate) fn on_upstream_data<N: Net>(&mut self, net: &mut N, id: ConnId, data: &[u8]) -> usize {
        let now = net.now();
        if now >= self.h1.carrier.next_second {
            self.on_second(now);
        }
        if let Some(taken) = self.on_dialled_bytes(net, id, data) {
            return taken;
        }
        if let Some(taken) = self.tell_service(id, |service| service.on_data(net, id, data)) {
            return taken.min(data.len());
        }
        let taken = self.h1.tell_upstream(net, id, UpstreamEvent::Data(data));
        taken.map_or(data.len(), |taken| taken.min(data.len()))
    }

    /// Bytes of an upstream went to a client by themselves.
    #[cold]
    pub(crate) fn on_upstream_passed<N: Net>(&mut self, net: &mut N, id: ConnId, bytes: u64) {
        let _ = self.h1.tell_upstream(net, id, UpstreamEvent::Passed(bytes));
    }

    pub(crate) fn on_upstream_end<N: Net>(&mut self, net: &mut N, id: ConnId, held: usize) {
        if self.on_dialled_end(net, id, held)
            || self.tell_service(id, |service| service.on_end(net, id, held)).is_some()
        {
            return;
        }
        if net.was_broken(id) {
            // What ended with it is not whole. The data path tells the upstream why.
            return self.on_upstream_closed(net, id, Closed::Aborted);
        }
        if self.h1.tell_upstream(net, id, UpstreamEvent::End { held }).is_none() {
            net.finish(id);
        }
    }

    pub(crate) fn on_upstream_room<N: Net>(&mut self, net: &mut N, id: ConnId) {
        if self.handshakes.dialled_mut(id).is_some()
            || self.tell_service(id, |service| service.on_sent(net, id)).is_some()
        {
            return;
        }
        let _ = self.h1.tell_upstream(net, id, UpstreamEvent::Room);
    }

    pub(crate) fn on_upstream_timer<N: Net>(&mut self, net: &mut N, id: ConnId) {
        if self.tell_service(id, |service| service.on_timer(net, id)).is_some() {
            return;
        }
        if self.h1.tell_upstream(net, id, UpstreamEvent::Timer).is_none() {
            match self.h1.carrier.upstreams.look_at_leaving(id, net.unsent(id)) {
                Some(span) => net.set_timer(id, Some(net.now() + span)),
                // It has had its time to end.
                None => net.abort(id),
            }
        }
    }

    pub(crate) fn on_upstream_closed<N: Net>(&mut self, net: &mut N, id: ConnId, why: Closed) {
        self.handshakes.remove_dialled(id);
        if self.tell_service(id, |service| service.on_close(net, id, why)).is_some() {
            return;
        }
        let _ = self.h1.tell_upstream(net, id, UpstreamEvent::Closed(why));
        let _ = self.h1.carrier.upstreams.remove(id);
        self.h1.carrier.upstreams.left(id);
    }
}

impl<H> Server<H> {
    /// Connections to upstreams, those included that are not answered yet.
    #[must_use]
    pub const fn upstreams_open(&self) -> usize {
        self.h1.carrier.upstreams.open()
    }
}

impl Carrier {
    /// Those that are left at the end of a drain.
    pub(crate) fn cut_upstreams<N: Net>(&self, net: &mut N) {
        self.upstreams.ids().for_each(|id| net.abort(id));
    }
}

impl<N: Net> Answering<'_, N> {
    fn is_dialled(&self, id: UpstreamId) -> bool {
        self.carrier.upstreams.get(id.conn()).is_some()
    }
}

impl<N: Net> Upstreams for Answering<'_, N> {
    fn dial(&mut self, to: UpstreamAddress<'_>, from: Option<IpAddr>, mark: u32) -> Result<UpstreamId, ConnectError> {
        let id = match to {
            UpstreamAddress::Inet(to) => self.net.connect(from, to)?,
            UpstreamAddress::Unix(path) => self.net.connect_unix(path)?,
        };
        self.carrier.beginnings.begin_upstream();
        self.carrier.upstreams.insert(id, mark);
        Ok(UpstreamId::of(id))
    }

    fn secure_upstream(&mut self, id: UpstreamId, sought: handshake::Sought) {
        if self.is_dialled(id) {
            self.carrier.seeking.push((id.conn(), sought));
        }
    }

    fn set_upstream_mark(&mut self, id: UpstreamId, mark: u32) {
        if let Some(one) = self.carrier.upstreams.get_mut(id.conn()) {
            one.mark = mark;
        }
    }

    fn send_upstream(&mut self, id: UpstreamId, piece: Piece<'_>) {
        if !self.is_dialled(id) {
            return;
        }
        match piece {
            Piece::Bytes(bytes) => self.net.send_bytes(id.conn(), bytes),
            Piece::Body(body, (start, end)) => self.net.send_body(id.conn(), body, start..end),
            Piece::File(file, (start, end)) => _ = self.net.send_file(id.conn(), file, start..end),
        }
    }

    fn send_file_upstream(&mut self, id: UpstreamId, file: &Arc<OwnedFd>, range: Range<u64>) -> bool {
        self.is_dialled(id) && self.net.send_file(id.conn(), file, range)
    }

    fn unsent_upstream(&self, id: UpstreamId) -> usize {
        if self.is_dialled(id) { self.net.unsent(id.conn()) } else { 0 }
    }

    fn pass_on(&mut self, id: UpstreamId, to: ExchangeId, bytes: u64) -> bool {
        let Some(to) = self.begun(to).filter(|_| self.is_dialled(id)) else { return false };
        let conn = &self.carrier.conns[to.index()];
        let is_plain = conn.state == State::Replying && !conn.is_chunked();
        is_plain && self.net.pass(id.conn(), to, bytes)
    }

    fn note_passed(&mut self, to: ExchangeId, bytes: u64) {
        if let Some(to) = self.begun(to) {
            self.note(to, bytes);
        }
    }

    fn resume_upstream(&mut self, id: UpstreamId) {
        if self.is_dialled(id) {
            self.net.resume(id.conn());
        }
    }

    fn set_upstream_timer(&mut self, id: UpstreamId, at: Option<Time>) {
        if self.is_dialled(id) {
            self.net.set_timer(id.conn(), at);
        }
    }

    fn finish_upstream(&mut self, id: UpstreamId) {
        if self.is_dialled(id) {
            self.net.finish(id.conn());
        }
    }

    fn let_go(&mut self, id: UpstreamId) {
        self.let_go_slowly(id, LINGER);
    }

    fn let_go_slowly(&mut self, id: UpstreamId, patience: Duration) {
        if self.carrier.upstreams.remove(id.conn()).is_some() {
            let look = self.carrier.upstreams.leave(id.conn(), self.net.unsent(id.conn()), patience);
            let end = self.net.now() + look;
            self.net.close(id.conn());
            // What it sent and nobody took is dropped.
            self.net.resume(id.conn());
            self.net.set_timer(id.conn(), Some(end));
        }
    }

    fn cut(&mut self, id: UpstreamId) {
        if self.carrier.upstreams.remove(id.conn()).is_some() {
            self.net.abort(id.conn());
        }
    }

    fn upstream_local(&self, id: UpstreamId) -> Option<SocketAddr> {
        if self.is_dialled(id) { self.net.local(id.conn()) } else { None }
    }
}
