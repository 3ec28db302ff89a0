//! A segment to build, as a connection gives it.

use crate::connection::Connection;
use crate::context::Context;
use crate::flags::Flags;
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

/// Option bytes of `n` SACK blocks, padded (RFC 2018 section 3).
const fn sack_len(n: usize) -> u32 {
    4 + 8 * n as u32
}

impl Connection {
    /// What a segment tells of the peer's own that led to it, where there is a
    /// cold part: it may be the last thing that this was needed for.
    pub(crate) fn with_report(&mut self, cx: &mut Context<'_>, emit: Emit) -> Emit {
        let emit = self.with_sack(cx, emit);
        self.with_echo(emit)
    }

    /// Echoes the timestamp of what came again.
    fn with_echo(&mut self, mut emit: Emit) -> Emit {
        let Some(echo) = self.cold.as_mut().and_then(|cold| cold.echo.take()) else { return emit };
        if let Some((_, echoed)) = &mut emit.timestamps {
            *echoed = echo;
        }
        self.settle();
        emit
    }

    /// Adds SACK blocks to a segment that has room for them: first what came
    /// twice (RFC 2883 section 4), then what is ahead of a gap.
    fn with_sack(&mut self, cx: &mut Context<'_>, mut emit: Emit) -> Emit {
        let Some(cold) = &mut self.cold else { return emit };
        if !self.flags.has(Flags::SACK) || (!cold.receive.has_gap() && cold.dsack.is_none()) {
            return emit;
        }
        let mut blocks = cold.receive.sack_blocks(self.rcv_nxt, cold.dsack);
        // With timestamps three blocks fit into the header (RFC 2018
        // section 3).
        if emit.timestamps.is_some() {
            blocks.truncate(3);
        }
        if emit.len == 0 || emit.len + sack_len(blocks.len()) <= u32::from(self.mss) {
            emit.options = EmitOptions::Sack(blocks);
            if cold.dsack.take().is_some() {
                cx.counters.dsacks_out += 1;
                self.settle();
            }
        }
        emit
    }
}
