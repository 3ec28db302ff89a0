//! What a handshake agrees on.

use crate::config::{Config, DEFAULT_MSS_V4, DEFAULT_MSS_V6, MAX_WINDOW_SHIFT, MIN_MSS};
use wire::tcp::{Offer, SeqNum, TcpOptions};

/// What both sides agreed on in a handshake that the SYN queue or a cookie
/// kept; from it an accepted connection is made.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Agreed {
    /// Our initial sequence number.
    pub iss: SeqNum,
    /// The peer's initial sequence number.
    pub irs: SeqNum,
    /// The peer's MSS option, or the default of its address family.
    pub peer_mss: u16,
    /// The peer's window shift, if it sent one; ours is then used as well.
    pub peer_shift: Option<u8>,
    /// SACK was offered by both.
    pub sack: bool,
    /// Timestamps were offered by both; TS.Recent.
    pub timestamps: Option<u32>,
}

impl Agreed {
    /// Nothing but sequence numbers and the peer's MSS.
    #[inline]
    #[must_use]
    pub const fn bare(iss: SeqNum, irs: SeqNum, peer_mss: u16) -> Self {
        Self { iss, irs, peer_mss, peer_shift: None, sack: false, timestamps: None }
    }

    /// What a SYN,ACK says of it, and that we take segments with so many bytes
    /// of payload.
    #[inline(always)]
    #[must_use]
    pub fn offer(&self, config: &Config, mss: u16) -> Offer {
        offer(config, mss, self.peer_shift.is_some(), self.sack)
    }
}

/// What a segment that opens a connection says: that we take so many bytes of
/// payload, and of what the peer may refuse what it is to say.
#[inline(always)]
pub(crate) fn offer(config: &Config, mss: u16, scales: bool, sack: bool) -> Offer {
    Offer { mss: config.clamp(mss), window_scale: scales.then(|| config.window_shift()), sack_permitted: sack }
}

/// The options of a SYN, as agreed options, given what we offer. An MSS of none
/// at all is taken for none given, as by Linux (`tcp_parse_options` in
/// net/ipv4/tcp_input.c).
#[must_use]
pub fn agree_on(config: &Config, v6: bool, iss: SeqNum, irs: SeqNum, options: &TcpOptions) -> Agreed {
    let default_mss = if v6 { DEFAULT_MSS_V6 } else { DEFAULT_MSS_V4 };
    Agreed {
        iss,
        irs,
        peer_mss: options.mss.filter(|mss| *mss > 0).unwrap_or(default_mss).max(MIN_MSS),
        peer_shift: options.window_scale.map(|shift| shift.min(MAX_WINDOW_SHIFT)),
        sack: config.sack && options.sack_permitted,
        timestamps: if config.timestamps { options.timestamps.map(|ts| ts.value) } else { None },
    }
}
