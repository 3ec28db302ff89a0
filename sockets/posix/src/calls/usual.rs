//! What calls do nearly always, each by one look at its socket: bytes that have come are read, and an
//! answer is queued where nothing waits to be sent.

use super::Calls;
use crate::socket::Socket;
use crate::table::{Descriptor, SocketTable};
use core::hint::cold_path;
use std::io::IoSlice;

impl Calls<'_> {
    /// `recv` without flags but those that say not to wait, into `out`, which is not empty: how many
    /// bytes were copied. `None`, and nothing has happened, where [`Calls::recv`] is to look closer:
    /// unless bytes have come, and the stack holds none.
    #[inline(always)]
    pub fn recv_usual(&mut self, fd: i32, out: &mut [u8]) -> Option<usize> {
        let Descriptor::Socket(at) = self.table.descriptor(fd) else { return None };
        let SocketTable { sockets, spares, figures, .. } = &mut *self.table;
        let stream = sockets.get_mut(at)?.stream_mut()?;
        let bytes = stream.inbox.bytes();
        if stream.held > 0 || bytes.is_empty() {
            cold_path();
            return None;
        }
        let taken = bytes.len().min(out.len());
        out[..taken].copy_from_slice(&bytes[..taken]);
        stream.inbox.consume(taken, spares);
        figures.exchanges += stream.begin_exchange();
        Some(taken)
    }

    /// `send` without flags but those that say not to wait or not to signal, of `all` bytes, as many as
    /// the slices have, in one piece. `None`, and nothing has happened, where [`Calls::send`] is to
    /// look closer: unless the connection is open in both directions, its queue is empty, and what is
    /// sent is little.
    #[inline(always)]
    pub fn send_usual(&mut self, fd: i32, slices: &[IoSlice<'_>], all: usize) -> Option<()> {
        let Descriptor::Socket(at) = self.table.descriptor(fd) else { return None };
        let SocketTable { sockets, looks, pending, defaults, .. } = &mut *self.table;
        let Socket { kind, options, .. } = sockets.get_mut(at)?;
        let stream = kind.stream_mut()?;
        let is_limited = (options.not_sent_low_water, defaults.not_sent_low_water) != (0, u32::MAX);
        if stream.is_disturbed() || !stream.established || options.more || is_limited || all > options.send_limit {
            cold_path();
            return None;
        }
        let copy = |into: &mut Vec<u8>| slices.iter().for_each(|slice| into.extend_from_slice(slice));
        if all == 0 || !self.stack.send_first(stream.id, all, copy) {
            cold_path();
            return None;
        }
        stream.has_answered = true;
        looks.answered(stream);
        *pending += all;
        Some(())
    }
}
