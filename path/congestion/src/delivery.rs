//! What an acknowledgement tells of the path.

use wire::Time;

/// An acknowledgement of new data, as congestion control sees it.
#[derive(Clone, Copy, Debug)]
pub struct Delivery {
    /// When it arrived.
    pub now: Time,
    /// Bytes that it newly, cumulatively acknowledges.
    pub acked: u32,
    /// Bytes that are known to have arrived only now, in order or ahead of a gap.
    pub delivered: u32,
    /// Bytes in flight before it.
    pub in_flight: u32,
    /// The round-trip time that it measured, in microseconds.
    pub rtt_us: Option<u32>,
    /// The smoothed round-trip time, in microseconds.
    pub srtt_us: u32,
    /// All below this position is acknowledged, with this one taken.
    pub acked_to: u64,
    /// All below this position was sent.
    pub sent_to: u64,
    /// Whether what is sent is paced: then a long acknowledgement makes no burst.
    pub paced: bool,
    /// Whether segments are known to overtake each other on their way.
    pub reordered: bool,
    /// Whether the window, rather than the application, the peer or a pacer,
    /// was what kept more from being sent before it.
    pub window_limited: bool,
}
