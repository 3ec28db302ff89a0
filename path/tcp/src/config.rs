//! Settings of a TCP endpoint.

use congestion::Algorithm;

/// Settings shared by all connections of a stack. Times are in milliseconds.
#[derive(Clone, Debug)]
pub struct Config {
    /// Congestion control; CUBIC by default.
    pub congestion: Algorithm,
    /// Pace what acknowledgements do not: slow start beyond the initial window,
    /// and beyond that too, a flight that starts on an empty path. On by default.
    /// Off, and a window that doubles stands in the path's queue for half of it.
    pub pace_start: bool,
    /// Most bytes per second that a connection sends, paced: what
    /// SO_MAX_PACING_RATE is for a socket. `None`, the default, leaves it to
    /// congestion control.
    pub max_pacing_rate: Option<u64>,
    /// The most that a connection's window opens to, as what comes in a round
    /// trip asks for it; in bytes, 8 MiB by default, at most 1 GiB. So much may
    /// wait for the application or for a gap to fill; memory is taken only while
    /// bytes wait. Too small caps the throughput of long paths at this per round
    /// trip; too large lets a peer cost that much.
    pub receive_limit: u32,
    /// The window that a connection begins with, in bytes; 1 MiB by default. No
    /// more than `receive_limit` counts.
    pub receive_window: u32,
    /// The most that may be under way to a peer without counting as what its
    /// application still has queued, in bytes; 4 MiB by default. Too small caps
    /// the throughput of long paths at what applications queue by themselves;
    /// too large lets a peer that acknowledges slowly cost that much.
    pub send_limit: u32,
    /// The most payload of a segment with its options, and the MSS to announce,
    /// in bytes; none by default: what the path's MTU allows. Taken as 88 if it
    /// is less.
    pub max_segment: Option<u16>,
    /// Offer selective acknowledgement (RFC 2018). On by default.
    pub sack: bool,
    /// Offer timestamps and PAWS (RFC 7323). On by default; 12 bytes a segment.
    pub timestamps: bool,
    /// Hold back small segments while data is unacknowledged (Nagle, RFC 9293
    /// section 3.7.4). Off by default: whole responses are queued at once.
    pub nagle: bool,
    /// Least that the retransmission timer waits beyond the smoothed round
    /// trip; 200 ms by default as in Linux (RFC 6298 section 2.4 says 1 s in
    /// all, which stalls short exchanges on one lost segment). Too small, and
    /// delayed acknowledgements are taken for losses.
    pub rto_min: u32,
    /// Largest retransmission timeout; 120 s by default.
    pub rto_max: u32,
    /// Longest that an acknowledgement waits for data to travel with; 40 ms by
    /// default. RFC 9293 MUST-40 allows 500 ms.
    pub delayed_ack: u32,
    /// Retransmissions of a SYN before giving up; 6 by default.
    pub syn_retries: u8,
    /// Retransmissions of data, FIN or zero-window probes without an answer
    /// before giving up; 15 by default, which is more than 15 minutes.
    pub retries: u8,
    /// User timeout (RFC 9293 section 3.9.1.8, RFC 5482): give up a peer that
    /// left data unacknowledged for this long after it was sent, or a probe of
    /// its closed window unanswered; 0, the default, leaves it to `retries`.
    /// What a connection has in its [`crate::SocketOptions`] takes its place.
    /// Too short, and a path that fails over ends it.
    pub user_timeout: u32,
    /// Silence before the first keepalive probe; 0, the default, sends none
    /// (RFC 9293 MUST-25).
    pub keepalive_idle: u32,
    /// Between keepalive probes; 75 s by default.
    pub keepalive_interval: u32,
    /// Unanswered keepalive probes before giving up; 9 by default.
    pub keepalive_probes: u8,
    /// Silence in FIN-WAIT-2, where the application has finished and the peer
    /// has not, before it is probed as by keepalive, whether or not that is in
    /// use; 60 s by default. A peer that answers is waited for: the
    /// application may end it by a timer of its own.
    pub fin_wait2: u32,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            congestion: Algorithm::Cubic,
            pace_start: true,
            max_pacing_rate: None,
            receive_limit: 8 << 20,
            receive_window: 1 << 20,
            send_limit: 4 << 20,
            max_segment: None,
            sack: true,
            timestamps: true,
            nagle: false,
            rto_min: 200,
            rto_max: 120_000,
            delayed_ack: 40,
            syn_retries: 6,
            retries: 15,
            user_timeout: 0,
            keepalive_idle: 0,
            keepalive_interval: 75_000,
            keepalive_probes: 9,
            fin_wait2: 60_000,
        }
    }
}

impl Config {
    /// As connections are given it: the window that they begin with is within the limit.
    #[must_use]
    pub fn settled(mut self) -> Self {
        self.receive_window = self.receive_window.min(self.receive_limit);
        self
    }

    /// `mss`, or less where segments are to be shorter.
    #[inline(always)]
    #[must_use]
    pub(crate) fn clamp(&self, mss: u16) -> u16 {
        self.max_segment.map_or(mss, |most| mss.min(most.max(MIN_ASKED_MSS)))
    }

    /// The window in a SYN, which is never scaled (RFC 7323 section 2.2).
    #[inline(always)]
    #[must_use]
    pub fn opening_window(&self) -> u16 {
        self.first_window().min(0xffff) as u16
    }

    /// The window that a connection begins with.
    #[inline(always)]
    #[must_use]
    pub(crate) fn first_window(&self) -> u32 {
        debug_assert!(self.receive_window <= self.receive_limit, "settled");
        self.receive_window
    }

    /// The shift with which `receive_limit` fits the 16-bit window field
    /// (RFC 7323 section 2.3: at most 14).
    #[must_use]
    pub fn window_shift(&self) -> u8 {
        let bits = u32::BITS - self.receive_limit.leading_zeros();
        (bits.saturating_sub(16) as u8).min(MAX_WINDOW_SHIFT)
    }
}

/// RFC 7323 section 2.3: larger shifts are taken as this.
pub const MAX_WINDOW_SHIFT: u8 = 14;
/// RFC 9293 section 3.7.1: what a peer takes that names no MSS, over IPv4.
pub const DEFAULT_MSS_V4: u16 = 536;
/// The same over IPv6.
pub const DEFAULT_MSS_V6: u16 = 1220;
/// Smaller MSS values from a peer are taken as this, so that a peer cannot
/// make us send storms of tiny segments, and options leave room for data
/// (Linux's `TCP_MIN_SND_MSS`). What one acknowledgement costs does not grow
/// with the segments in flight (CVE-2019-11479): the scoreboard is bounded.
pub const MIN_MSS: u16 = 48;
/// The least that an application may ask for (Linux's `TCP_MIN_MSS`).
pub const MIN_ASKED_MSS: u16 = 88;
