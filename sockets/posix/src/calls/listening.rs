//! Where the stack accepts: as the listeners say.

use super::Calls;
use crate::errno::{Errno, Result};
use crate::slab::NONE;
use crate::socket::{Kind, Past, Socket};
use app::Net;
use core::net::SocketAddr;
use std::collections::VecDeque;

impl Calls<'_> {
    /// Has the stack accept where listeners are, and nowhere else.
    pub(crate) fn tell_listeners(&mut self) {
        let listeners = || self.table.listeners.iter().filter_map(|at| self.table.sockets.get(*at));
        let everywhere = |bound: SocketAddr, v6_only: bool| bound.is_ipv6() && bound.ip().is_unspecified() && !v6_only;
        let doors: Vec<(SocketAddr, bool)> = listeners()
            .filter_map(|socket| socket.bound.map(|bound| (bound, everywhere(bound, socket.options.v6_only))))
            .collect();
        let options: Vec<_> = listeners()
            .filter_map(|socket| Some((socket.bound?.port(), socket.options.of_stack(!socket.v6))))
            .collect();
        let ports: Vec<u16> = doors.iter().filter(|(_, all)| *all).map(|(door, _)| door.port()).collect();
        let at: Vec<SocketAddr> = doors.iter().filter(|(_, all)| !all).map(|(door, _)| *door).collect();
        self.stack.stop_listening();
        self.stack.listen_on(&ports, &at);
        for (port, options) in options {
            self.stack.set_listener_options(port, options);
        }
    }

    /// A listener accepts no more; what waited is reset, or left to another process's.
    pub(crate) fn stop_listening(&mut self, at: u32) {
        let Some(socket) = self.table.sockets.get_mut(at) else { return };
        if !matches!(socket.kind, Kind::Listener(_)) {
            return;
        }
        let past = Past { local: socket.bound, error: socket.past().error, ..Past::default() };
        let Kind::Listener(listener) = core::mem::replace(&mut socket.kind, Kind::Fresh(past)) else { return };
        socket.free_port();
        if self.table.shares_ports {
            self.table.unclaimed.extend(listener.queue);
        } else {
            self.reset_waiting(listener.queue);
        }
        self.table.listeners.retain(|listener| *listener != at);
        self.tell_listeners();
    }

    /// Resets the connection that has waited longest to be accepted at a listener: who would have it
    /// cannot. Whether there was one.
    ///
    /// # Errors
    /// `EBADF`, `ENOTSOCK`; `EINVAL` for what is no listener.
    pub fn reset_first_waiting(&mut self, fd: i32) -> Result<bool> {
        let Kind::Listener(listener) = &mut self.socket_mut(fd)?.kind else { return Err(Errno(libc::EINVAL)) };
        let first = listener.queue.pop_front();
        let was_there = first.is_some();
        self.reset_waiting(first.into_iter().collect());
        Ok(was_there)
    }

    fn reset_waiting(&mut self, queue: VecDeque<u32>) {
        for waiting in queue {
            if let Some(Socket { kind: Kind::Stream(stream), .. }) = self.table.sockets.remove(waiting)
                && stream.closed.is_none()
            {
                self.table.set_connection(stream.id, NONE);
                self.stack.abort(stream.id);
            }
        }
    }
}
