//! The segments that open a connection: SYN, and SYN,ACK.

use super::header::{Flags, HEADER_LEN, TcpHeader, data_offset, set_checksum};
use super::options::{MSS, NOP, OPENING_LEN, SACK_AND_TIMESTAMPS, WINDOW_SCALE};
use super::{MAX_WINDOW_SCALE, SackBlocks, SeqNum, TcpOptions, Timestamps};
use crate::checksum::{Sum, put_words};

/// A segment that opens a connection: the options of a SYN, no urgent data.
/// The fields are those of [`TcpHeader`] and [`TcpOptions`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Opening {
    /// Source port.
    pub src_port: u16,
    /// Destination port.
    pub dst_port: u16,
    /// Sequence number of the SYN.
    pub seq: SeqNum,
    /// Next sequence number expected.
    pub ack: SeqNum,
    /// Control bits.
    pub flags: Flags,
    /// Receive window; never scaled in a SYN.
    pub window: u16,
    /// What is offered, or agreed to, for the connection.
    pub offer: Offer,
    /// Timestamps.
    pub timestamps: Option<Timestamps>,
}

/// The options that only a segment that opens a connection has.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Offer {
    /// Largest segment that we want to receive, in bytes of payload.
    pub mss: u16,
    /// Shift of our window, at most 14; `None` without the option.
    pub window_scale: Option<u8>,
    /// We understand selective acknowledgements.
    pub sack_permitted: bool,
}

/// A SYN's header with all of its options.
pub const OPENING_HEADER_LEN: usize = HEADER_LEN + OPENING_LEN;

impl Opening {
    /// Bytes that [`Opening::emit`] writes.
    #[inline]
    #[must_use]
    pub fn header_len(&self) -> usize {
        HEADER_LEN + self.options().len()
    }

    /// Writes the header, its checksum included, and returns its length; 0
    /// if `out` is shorter. `sum` is that of the pseudo-header.
    #[inline]
    pub fn emit(&self, out: &mut [u8], sum: Sum) -> usize {
        let Some(mut words) = self.words() else { return self.emit_some(out, sum) };
        let Some(head) = out.first_chunk_mut::<OPENING_HEADER_LEN>() else { return 0 };
        words[4] = u32::from(Sum::of_words(&words).add(sum).finish()) << 16;
        put_words(head, &words);
        OPENING_HEADER_LEN
    }

    /// The header with a checksum of zero, if it has all options.
    #[inline(always)]
    pub(crate) fn words(&self) -> Option<[u32; OPENING_HEADER_LEN / 4]> {
        let (Some(shift), true, Some(Timestamps { value, echo })) =
            (self.offer.window_scale, self.offer.sack_permitted, self.timestamps)
        else {
            return None;
        };
        let ports = u32::from(self.src_port) << 16 | u32::from(self.dst_port);
        let control = u32::from_be_bytes([data_offset(OPENING_HEADER_LEN), self.flags.0, 0, 0]);
        let mss = u32::from_be_bytes([MSS, 4, 0, 0]) | u32::from(self.offer.mss);
        let sack = u32::from_be_bytes(SACK_AND_TIMESTAMPS);
        let scale = u32::from_be_bytes([NOP, WINDOW_SCALE, 3, shift.min(MAX_WINDOW_SCALE)]);
        let control = control | u32::from(self.window);
        Some([ports, self.seq.0, self.ack.0, control, 0, mss, sack, value, echo, scale])
    }

    /// With fewer options.
    #[cold]
    fn emit_some(&self, out: &mut [u8], sum: Sum) -> usize {
        let header = TcpHeader {
            src_port: self.src_port,
            dst_port: self.dst_port,
            seq: self.seq,
            ack: self.ack,
            flags: self.flags,
            window: self.window,
            urgent: 0,
            options: self.options(),
        };
        let len = header.emit(out);
        if let Some(head) = out.get_mut(..len) {
            set_checksum(head, sum);
        }
        len
    }

    #[inline]
    fn options(&self) -> TcpOptions {
        let Offer { mss, window_scale, sack_permitted } = self.offer;
        let timestamps = self.timestamps;
        TcpOptions { mss: Some(mss), window_scale, sack_permitted, timestamps, sack: SackBlocks::EMPTY }
    }
}
