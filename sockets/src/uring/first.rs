//! The first read of a connection, past the ring.

use super::{BUFFER, Uring};
use crate::dispatch;
use crate::net::Sockets;
use crate::table::{Flags, PIECE};
use app::{App, ConnId};
use cpu::Clock;
use rustix::io::Errno;
use rustix::net::{RecvFlags, recv};

impl Uring {
    /// Begins with the connections that were accepted in this pass. Their
    /// first request has often arrived: it is read and answered, and, if that
    /// was all, the connection closed, without the ring. Else it is received
    /// from by the ring.
    pub(super) fn begin_new<A: App>(&mut self, app: &mut A, net: &mut Sockets) {
        let mut new = core::mem::take(&mut self.ring.new);
        for id in new.drain(..) {
            let mut found = false;
            if self.luck.tries() {
                net.now = Clock.now();
                found = self.read_first(app, net, id);
                self.luck.learn(found);
                dispatch::settle(app, net, &mut self.ring);
            }
            let Some(conn) = net.table.get_mut(id) else { continue };
            conn.flags.clear(Flags::UNWATCHED);
            if !found {
                self.ring.receive_once(conn, id);
            } else if conn.flags.has(Flags::ENDED) {
                self.watch_end(net, id);
            } else {
                self.after_delivery(net, id, false);
            }
        }
        self.ring.new = new;
    }

    /// One read. Whether it found something.
    fn read_first<A: App>(&mut self, app: &mut A, net: &mut Sockets, id: ConnId) -> bool {
        let Some(conn) = net.table.get(id) else { return true };
        let Some(fd) = conn.fd() else { return true };
        let most = if conn.flags.has(Flags::LITTLE) { PIECE } else { BUFFER };
        match recv(fd, &mut self.buffer[..most], RecvFlags::DONTWAIT) {
            Ok((0, _)) => dispatch::ended(app, net, id),
            Ok((n, _)) => dispatch::deliver(app, net, id, &self.buffer[..n]),
            Err(Errno::AGAIN | Errno::INTR) => {
                net.counters.receives_empty += 1;
                return false;
            }
            Err(e) => dispatch::failed(net, id, e),
        }
        true
    }
}
