//! Room to send, and who waits for it.

use super::Calls;
use crate::socket::{Socket, Stream};
use crate::table::WRITABLE;
use app::Net;
use core::hint::cold_path;

impl Calls<'_> {
    /// A turn of the silo is over: those who wait for room are told where there
    /// is some.
    #[inline]
    pub fn after_turn(&mut self) {
        if !self.table.roomless.is_empty() {
            self.tell_of_room();
        }
    }

    #[inline(never)]
    fn tell_of_room(&mut self) {
        let mut looked_at = core::mem::take(&mut self.table.roomless);
        let mut told = Vec::new();
        looked_at.retain(|&at| {
            let Some(socket) = self.table.sockets.get(at) else { return false };
            let Some(stream) = socket.stream() else { return false };
            let waits = stream.no_space && stream.closed.is_none();
            if waits && self.is_writable(socket, stream) {
                told.push(at);
            }
            // The stack tells of those whose queue is long.
            let again = waits && told.last() != Some(&at) && !self.is_told_by_stack(socket, stream);
            if let Some(stream) = self.table.sockets.get_mut(at).and_then(Socket::stream_mut) {
                stream.listed = again;
            }
            again
        });
        self.table.roomless.append(&mut looked_at);
        for at in told {
            if let Some(stream) = self.table.sockets.get_mut(at).and_then(Socket::stream_mut) {
                stream.no_space = false;
            }
            self.table.wake(at, WRITABLE);
        }
    }

    /// Whether [`app::App::on_sent`] comes before there is room.
    fn is_told_by_stack(&self, socket: &Socket, stream: &Stream) -> bool {
        socket.options.not_sent_low_water == 0
            && self.table.defaults.not_sent_low_water == u32::MAX
            && self.stack.unsent(stream.id) > app::SEND_LOW_WATER
    }

    /// Notes that somebody found no room in a socket, and is to be told when
    /// there is some.
    pub(crate) fn note_no_space(&mut self, at: u32) {
        let Some(socket) = self.table.sockets.get(at) else { return };
        let Some(stream) = socket.stream() else { return };
        let listed = stream.listed || !self.is_told_by_stack(socket, stream);
        let Some(stream) = self.table.sockets.get_mut(at).and_then(Socket::stream_mut) else { return };
        stream.no_space = true;
        if listed && !core::mem::replace(&mut stream.listed, true) {
            self.table.roomless.push(at);
        }
    }

    /// Bytes that a connection's socket takes now.
    #[inline]
    pub(crate) fn room_of(&self, at: u32) -> usize {
        let Some(socket) = self.table.sockets.get(at) else { return 0 };
        let Some(stream) = socket.stream() else { return 0 };
        let room = socket.options.send_limit.saturating_sub(self.stack.unsent(stream.id));
        let low_water = self.low_water(socket);
        if low_water == usize::MAX {
            return room;
        }
        cold_path();
        room.min(low_water.saturating_sub(self.not_sent(stream)))
    }

    /// Bytes not sent yet from which on a socket takes no more.
    #[inline]
    fn low_water(&self, socket: &Socket) -> usize {
        match (socket.options.not_sent_low_water, self.table.defaults.not_sent_low_water) {
            (0, u32::MAX) => usize::MAX,
            (0, usual) => usual as usize,
            (own, _) => own as usize,
        }
    }

    /// Bytes of a connection that were not sent yet.
    pub(crate) fn not_sent(&self, stream: &Stream) -> usize {
        let sent = self.stack.info(stream.id).map_or(0, |info| info.in_flight);
        self.stack.unsent(stream.id).saturating_sub(sent as usize)
    }

    /// Whether who waits for room is told: a third of the buffer is free, and the
    /// peer has been sent all but half of what may wait (Linux:
    /// `sk_stream_is_writeable` in include/net/sock.h, `__tcp_stream_memory_free`
    /// in include/net/tcp.h).
    pub(crate) fn is_writable(&self, socket: &Socket, stream: &Stream) -> bool {
        let queued = self.stack.unsent(stream.id);
        let room = socket.options.send_limit.saturating_sub(queued);
        let low_water = self.low_water(socket);
        stream.established
            && room > 0
            && room >= queued / 2
            && (low_water == usize::MAX || self.not_sent(stream).saturating_mul(2) < low_water)
    }
}
