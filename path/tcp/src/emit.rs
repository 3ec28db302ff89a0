//! A segment to build, as a connection gives it.

use wire::tcp::{Flags as Bits, Offer, SackBlocks, SeqNum};

/// A segment to build: everything but the ports.
#[derive(Clone, Copy, Debug)]
pub struct Emit {
    /// SEG.SEQ
    pub seq: SeqNum,
    /// SEG.ACK
    pub ack: SeqNum,
    /// Control bits.
    pub flags: Bits,
    /// The window field, scaled already.
    pub window: u16,
    /// Timestamps: value and echo.
    pub timestamps: Option<(u32, u32)>,
    /// Options beyond timestamps.
    pub options: EmitOptions,
    /// Offset of the payload in the send queue; see
    /// [`crate::Connection::copy_payload`].
    pub offset: u32,
    /// Payload bytes; more than a segment only where the link was said to
    /// segment.
    pub len: u32,
}

impl Emit {
    /// The segment that begins `offset` bytes behind the first of this, which is
    /// more than one segment of `most` bytes.
    #[inline(always)]
    #[must_use]
    pub fn piece(&self, offset: u32, most: u32) -> Self {
        let left = self.len - offset;
        let (len, flags) = if left > most { (most, Bits::ACK) } else { (left, self.flags) };
        Self { seq: self.seq.plus(offset), flags, offset, len, ..*self }
    }
}

/// Options beyond timestamps.
#[derive(Clone, Copy, Debug)]
pub enum EmitOptions {
    /// None: the layout of nearly every segment.
    Plain,
    /// Selective acknowledgements.
    Sack(SackBlocks),
    /// The options of a SYN.
    Syn(Offer),
}
