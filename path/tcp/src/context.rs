//! What a call on a connection is given from outside.

use crate::config::Config;
use crate::counters::Counters;
use wire::Time;

/// What a call on a connection is given from outside.
#[derive(Debug)]
pub struct Context<'a> {
    /// The turn's time; for a segment, when its burst arrived.
    pub now: Time,
    /// The same in milliseconds, modulo 2³².
    pub now_ms: u32,
    /// Added to the clock in timestamp options: a keyed hash of the
    /// addresses, so that peers cannot read the machine's uptime or link
    /// connections (RFC 7323 section 7.1).
    pub ts_offset: u32,
    /// All connections together hold as much received data as those may that
    /// hold much, [`HOLDS_MUCH`] or more: these keep no more of it, and windows
    /// do not open further.
    pub receive_full: bool,
    /// The endpoint's settings.
    pub config: &'a Config,
    /// Where events are counted.
    pub counters: &'a mut Counters,
}

/// A connection that holds less than this, in bytes, may go on where others
/// may not: a share of the memory is kept for such.
pub const HOLDS_MUCH: usize = 2 * 1024;

/// The path that a connection's segments take, as the stack sees it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Path {
    /// Largest IP packet towards the peer.
    pub mtu: u16,
    /// Whether the addresses are IPv6.
    pub v6: bool,
}

/// What the network said of a path, and what is believed of it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Narrowed {
    /// The path from now on.
    pub path: Path,
    /// It takes less than the least that is believed: routers may fragment what is sent.
    pub below_least: bool,
}

/// How a connection's packets are to be treated on their way: as nearly all
/// are, which is no traffic class and no fragmentation, or otherwise.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Treatment(u16);

impl Treatment {
    const FRAGMENTED: u16 = 0x100;

    /// Of this traffic class, and `fragmented` by routers where need be.
    #[inline(always)]
    #[must_use]
    pub const fn new(traffic_class: u8, fragmented: bool) -> Self {
        Self(traffic_class as u16 | if fragmented { Self::FRAGMENTED } else { 0 })
    }

    /// The traffic class.
    #[inline(always)]
    #[must_use]
    pub const fn traffic_class(self) -> u8 {
        self.0 as u8
    }

    /// Whether routers may fragment them.
    #[inline(always)]
    #[must_use]
    pub const fn is_fragmented(self) -> bool {
        self.0 & Self::FRAGMENTED != 0
    }

    /// Whether it is that of nearly all.
    #[inline(always)]
    #[must_use]
    pub const fn is_usual(self) -> bool {
        self.0 == 0
    }
}

/// IP and TCP headers without options.
const HEADERS_V4: u16 = 40;
const HEADERS_V6: u16 = 60;
/// Timestamps option with its padding.
pub(crate) const TIMESTAMPS_LEN: u16 = 12;

impl Path {
    /// The MSS that we announce: the MTU less fixed headers (RFC 6691).
    #[inline]
    #[must_use]
    pub const fn announced_mss(self) -> u16 {
        self.mtu.saturating_sub(self.headers())
    }

    /// The same path, as far as its packets carry no more than `mss` bytes behind headers
    /// without options.
    #[must_use]
    pub const fn within(self, mss: u16) -> Self {
        let most = mss.saturating_add(self.headers());
        Self { mtu: if most < self.mtu { most } else { self.mtu }, ..self }
    }

    const fn headers(self) -> u16 {
        headers_len(self.v6)
    }
}

/// IP and TCP headers without options.
pub(crate) const fn headers_len(v6: bool) -> u16 {
    if v6 { HEADERS_V6 } else { HEADERS_V4 }
}
