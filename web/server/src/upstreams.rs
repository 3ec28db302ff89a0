//! Connections to upstreams, beside those of clients.
//!
//! They have a table of their own, by the same index. A client's connection is looked
//! for first: where its table has none, the bytes are an upstream's, or of one that was
//! let go of. So what clients send by the short way is not asked whose it is.

use crate::Server;
use app::{Closed, ConnId, Net, Opened};
use exchange::{Handler, UpstreamEvent};

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
        if now >= self.h1.connections.next_second {
            self.on_second(now);
        }
        if let Some(taken) = self.on_dialled_bytes(net, id, data) {
            return taken;
        }
        if let Some(taken) = self.tell_service(id, |service| service.on_data(net, id, data)) {
            return taken.min(data.len());
        }
        // What this queues for clients of protocols with many exchanges goes out at the turn's end: they look over all
        // that they carry each time.
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
            match self.h1.connections.upstreams.look_at_leaving(id, net.unsent(id)) {
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
        let _ = self.h1.connections.upstreams.remove(id);
        self.h1.connections.upstreams.left(id);
    }
}

impl<H> Server<H> {
    /// Connections to upstreams, those included that are not answered yet.
    #[must_use]
    pub const fn upstreams_open(&self) -> usize {
        self.h1.connections.upstreams.open()
    }
}
