//! What an acknowledgement newly acknowledges.

use wire::tcp::SeqNum;

/// What an acknowledgement newly acknowledges.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Progress {
    /// SND.UNA from now on.
    pub una: SeqNum,
    /// Sequence numbers, our FIN among them or not.
    pub acked: u32,
    pub fin: bool,
    /// The first byte that was sent once and is known to have arrived only now.
    pub first: Option<SeqNum>,
    /// Bytes that are known to have arrived only now, cumulatively or selectively.
    pub delivered: u32,
    /// Some of them may lie above SND.UNA: the end of the highest.
    pub highest: SeqNum,
}

impl Progress {
    /// Of an acknowledgement without SACK blocks.
    #[inline(always)]
    pub const fn plain(una: SeqNum, acked: u32, fin: bool, first: Option<SeqNum>) -> Self {
        Self { una, acked, fin, first, delivered: acked, highest: una }
    }
}
