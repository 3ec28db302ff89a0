//! What handlers ask of connections to upstreams.

use crate::answering::H1Replies;
use app::{ConnectError, LITTLE, Net, Receiving};
use connections::State;
use core::net::IpAddr;
use core::time::Duration;
use exchange::{ExchangeId, Piece, UpstreamAddress, UpstreamId, Upstreams};
use wire::Time;

impl<N: Net + ?Sized> H1Replies<'_, N> {
    fn is_dialled(&self, id: UpstreamId) -> bool {
        self.connections.upstreams.get(id.conn()).is_some()
    }
}

impl<N: Net + ?Sized> Upstreams for H1Replies<'_, N> {
    fn dial(&mut self, to: UpstreamAddress<'_>, from: Option<IpAddr>, mark: u32) -> Result<UpstreamId, ConnectError> {
        let id = match to {
            UpstreamAddress::Inet(to) => self.net.connect(from, to)?,
            UpstreamAddress::Unix(path) => self.net.connect_unix(path)?,
        };
        self.connections.beginnings.begin_upstream();
        self.connections.upstreams.insert(id, mark);
        Ok(UpstreamId::of(id))
    }

    fn secure_upstream(&mut self, id: UpstreamId, sought: handshake::Sought) {
        if self.is_dialled(id) {
            self.connections.seeking.push((id.conn(), sought));
        }
    }

    fn set_upstream_mark(&mut self, id: UpstreamId, mark: u32) {
        if let Some(one) = self.connections.upstreams.get_mut(id.conn()) {
            one.mark = mark;
        }
    }

    fn send_upstream(&mut self, id: UpstreamId, piece: Piece<'_>) -> bool {
        if !self.is_dialled(id) {
            return false;
        }
        match piece {
            Piece::Bytes(bytes) => self.net.send_bytes(id.conn(), bytes),
            Piece::Body(body, (start, end)) => self.net.send_body(id.conn(), body, start..end),
            Piece::File(file, (start, end)) => return self.net.send_file(id.conn(), file, start..end),
        }
        true
    }

    fn unsent_upstream(&self, id: UpstreamId) -> usize {
        if self.is_dialled(id) { self.net.unsent(id.conn()) } else { 0 }
    }

    fn pass_on(&mut self, id: UpstreamId, to: ExchangeId, bytes: u64) -> bool {
        let Some(to) = self.begun(to).filter(|_| self.is_dialled(id)) else { return false };
        let conn = &self.connections.conns[to.index()];
        let is_plain = conn.state == State::Replying && !conn.is_chunked();
        is_plain && self.net.pass(id.conn(), to, bytes)
    }

    fn note_passed(&mut self, to: ExchangeId, bytes: u64) {
        if let Some(to) = self.begun(to) {
            self.note(to, bytes);
        }
    }

    fn receive_upstream(&mut self, id: UpstreamId, most: usize) {
        if !self.is_dialled(id) {
            return;
        }
        match most {
            0 => self.net.set_receiving(id.conn(), Receiving::Nothing),
            1..=LITTLE => self.net.set_receiving(id.conn(), Receiving::Little),
            _ => self.net.resume(id.conn()),
        }
    }

    fn set_upstream_timer(&mut self, id: UpstreamId, at: Option<Time>) {
        if self.is_dialled(id) {
            self.net.set_timer(id.conn(), at);
        }
    }

    fn let_go(&mut self, id: UpstreamId, patience: Duration) {
        if self.connections.upstreams.remove(id.conn()).is_some() {
            if patience.is_zero() {
                return self.net.abort(id.conn());
            }
            let look = self.connections.upstreams.leave(id.conn(), self.net.unsent(id.conn()), patience);
            let end = self.net.now() + look;
            self.net.close(id.conn());
            // What it sent and nobody took is dropped.
            self.net.resume(id.conn());
            self.net.set_timer(id.conn(), Some(end));
        }
    }
}
