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
