//! `TCP_INFO` in Linux's layout (`struct tcp_info`, include/uapi/linux/tcp.h).

use tcp::{CongestionState, Info, State};

/// Length of the structure as of Linux 6.18.
pub(crate) const LEN: usize = 280;

/// Linux's name for no slow start threshold (`TCP_INFINITE_SSTHRESH`).
const NO_THRESHOLD: u32 = 0x7fff_ffff;

/// `enum tcp_ca_state` of Linux.
const fn congestion_state(state: CongestionState) -> u8 {
    match state {
        CongestionState::Open => 0,
        CongestionState::Disorder => 1,
        CongestionState::Recovery => 3,
        CongestionState::Loss => 4,
    }
}

/// `TCPI_OPT_*` of Linux.
const OPTION_TIMESTAMPS: u8 = 1;
const OPTION_SACK: u8 = 2;
const OPTION_WINDOW_SCALE: u8 = 4;

/// States of Linux that a connection of ours can be in
/// (include/net/tcp_states.h).
const fn state(state: State) -> u8 {
    match state {
        State::Established => 1,
        State::SynSent => 2,
        State::SynReceived => 3,
        State::FinWait1 => 4,
        State::FinWait2 => 5,
        State::TimeWait => 6,
        State::Closed => CLOSED,
        State::CloseWait => 8,
        State::LastAck => 9,
        State::Closing => 11,
    }
}

/// `TCP_CLOSE`: what a socket without a connection reports.
pub(crate) const CLOSED: u8 = 7;
/// `TCP_LISTEN`.
pub(crate) const LISTENING: u8 = 10;

/// The structure of a socket in `state` without a connection.
pub(crate) fn without_connection(state: u8) -> [u8; LEN] {
    let mut out = [0; LEN];
    out[0] = state;
    out
}

/// What was received, as the socket saw it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Received {
    /// The peer's segments are about this long.
    pub mss: u32,
    /// Since data last came, or since the connection was opened.
    pub last_data_ms: u32,
    /// The MSS that the peer was told.
    pub announced_mss: u32,
}

/// How long a peer's segments are, by those that came (Linux:
/// `tcp_measure_rcv_mss` in net/ipv4/tcp_input.c).
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct SegmentSize {
    known: u32,
    last: u32,
}

/// Linux: `TCP_MSS_DEFAULT` and `TCP_MIN_MSS`.
const DEFAULT_MSS: u32 = 536;
const LEAST_MSS: u32 = 88;

impl SegmentSize {
    /// A segment with so many bytes came. Longer ones are believed at once,
    /// shorter ones when two in a row are as long.
    pub fn on_segment(&mut self, len: u32) {
        let repeated = len >= DEFAULT_MSS && len == self.last;
        if len >= self.known.max(DEFAULT_MSS) || repeated || (self.known == 0 && len > DEFAULT_MSS) {
            self.known = len;
        }
        self.last = len;
    }

    /// The length, on a connection that was told to use no longer ones than
    /// `announced`.
    pub fn mss(&self, announced: u16) -> u32 {
        let known = if self.known == 0 { DEFAULT_MSS } else { self.known };
        known.min(announced.into()).max(LEAST_MSS)
    }
}

/// The structure. What the stack does not measure is zero, as from a kernel
/// that does not.
pub(crate) fn of(info: &Info, pmtu: u32, received: &Received) -> [u8; LEN] {
    let mut out = without_connection(state(info.state));
    let mss = u32::from(info.mss).max(1);
    out[1] = congestion_state(info.congestion_state);
    out[2] = info.backoff;
    out[4] = info.backoff;
    let scaled = info.peer_shift > 0 || info.own_shift > 0;
    out[5] = if info.timestamps { OPTION_TIMESTAMPS } else { 0 }
        | if info.sack { OPTION_SACK } else { 0 }
        | if scaled { OPTION_WINDOW_SCALE } else { 0 };
    out[6] = info.own_shift << 4 | info.peer_shift & 0xf;
    let threshold = if info.ssthresh == u32::MAX { NO_THRESHOLD } else { info.ssthresh / mss };
    let words = [
        (16, mss),
        (20, received.mss),
        (24, info.in_flight.div_ceil(mss)),
        (28, info.sacked),
        (32, info.lost),
        (36, info.retrans),
        (52, received.last_data_ms),
        (60, pmtu),
        (68, info.srtt_us),
        (72, info.rttvar_us),
        (76, threshold),
        (80, info.cwnd / mss),
        (84, received.announced_mss),
        (88, info.reordering),
        (100, info.retransmits),
        (144, info.unsent.saturating_sub(info.in_flight)),
        (228, info.snd_wnd),
        (232, info.rcv_wnd),
    ];
    for (at, value) in words {
        out[at..at + 4].copy_from_slice(&value.to_ne_bytes());
    }
    out
}
