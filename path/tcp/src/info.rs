//! A connection's figures, for diagnosis.

use crate::cold::Recovery;
use crate::connection::Connection;
use crate::flags::Flags;
use crate::scoreboard::{DUP_THRESH, Scoreboard};
use crate::state::State;
use congestion::RateSample;
use wire::tcp::SeqNum;

/// How the sender stands to congestion, in Linux's terms (`enum tcp_ca_state`,
/// include/uapi/linux/tcp.h; it has one more, for ECN).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CongestionState {
    /// Nothing is missing.
    Open,
    /// Something arrived ahead of what is missing; it may only be late.
    Disorder,
    /// Fast recovery.
    Recovery,
    /// After a retransmission timeout.
    Loss,
}

/// A connection's figures, in the shape of Linux's `TCP_INFO`.
#[derive(Clone, Copy, Debug)]
pub struct Info {
    /// The state (RFC 9293 section 3.3.2).
    pub state: State,
    /// Bytes of payload in a full segment to the peer.
    pub mss: u16,
    /// The congestion window, in bytes.
    pub cwnd: u32,
    /// The slow-start threshold, in bytes; `u32::MAX` before the first loss.
    pub ssthresh: u32,
    /// The smoothed round-trip time, in microseconds; 0 before the first sample.
    pub srtt_us: u32,
    /// Its variation, in microseconds.
    pub rttvar_us: u32,
    /// The peer's window, in bytes.
    pub snd_wnd: u32,
    /// Our window, as the peer was told of it, in bytes.
    pub rcv_wnd: u32,
    /// Sequence numbers sent and not acknowledged, SYN and FIN included.
    pub in_flight: u32,
    /// Bytes queued and not acknowledged, those in flight among them.
    pub unsent: u32,
    /// Whether both sides take SACK.
    pub sack: bool,
    /// Whether both sides send timestamps.
    pub timestamps: bool,
    /// The shift of the peer's window.
    pub peer_shift: u8,
    /// The shift of ours.
    pub own_shift: u8,
    /// Doublings of the retransmission timer.
    pub backoff: u8,
    /// Segments sent again, since something was last amiss.
    pub retransmits: u32,
    /// Whether losses are being repaired.
    pub recovering: bool,
    /// What congestion control thinks of the path.
    pub congestion_state: CongestionState,
    /// In segments, as the next three.
    pub sacked: u32,
    /// Taken to be lost.
    pub lost: u32,
    /// Sent again and not acknowledged.
    pub retrans: u32,
    /// The farthest that a segment was overtaken by others, at least 3.
    pub reordering: u32,
    /// SND.UNA.
    pub una: SeqNum,
    /// SND.NXT.
    pub nxt: SeqNum,
    /// How fast the path delivers, in bytes per second, as far as it was asked for
    /// more than that (draft-cheng-iccrg-delivery-rate-estimation-02); `None` where
    /// nothing was sampled.
    pub delivery_rate: Option<RateSample>,
    /// The rate at which new data leaves, in bytes per second, if it is paced.
    pub pacing_rate: Option<u64>,
    /// RCV.NXT.
    pub rcv_nxt: SeqNum,
    /// TS.Recent.
    pub ts_recent: u32,
}

impl Connection {
    /// Round-trip time, in microseconds; 0 before the first sample.
    #[must_use]
    pub fn srtt_us(&self) -> u32 {
        self.rtt.srtt_us()
    }

    /// A view for diagnosis.
    #[must_use]
    pub fn info(&self) -> Info {
        let board = self.cold.as_ref().map(|cold| &cold.scoreboard);
        Info {
            state: self.state,
            mss: self.mss,
            cwnd: self.cwnd,
            ssthresh: self.cold.as_ref().map_or(u32::MAX, |cold| cold.congestion.ssthresh()),
            srtt_us: self.rtt.srtt_us(),
            rttvar_us: self.rtt.rttvar_us(),
            snd_wnd: self.snd_wnd,
            rcv_wnd: self.rcv_adv.forward_from(self.rcv_nxt),
            in_flight: self.in_flight(),
            unsent: self.rope.plain_len(),
            sack: self.flags.has(Flags::SACK),
            timestamps: self.flags.has(Flags::TIMESTAMPS),
            peer_shift: self.peer_shift(),
            own_shift: self.own_shift(),
            backoff: self.backoff,
            retransmits: self.cold.as_ref().map_or(0, |cold| cold.retransmits),
            recovering: self.cold.as_ref().is_some_and(|cold| cold.recovering()),
            congestion_state: self.congestion_state(),
            sacked: self.in_segments(self.sacked_bytes()),
            lost: self.in_segments(board.map_or(0, |board| board.lost_bytes(self.una))),
            retrans: self.in_segments(board.map_or(0, Scoreboard::retransmitted_bytes)),
            reordering: self.cold.as_ref().map_or(0, |cold| cold.reordering).max(DUP_THRESH),
            delivery_rate: self.cold.as_ref().and_then(|cold| cold.sampler.latest()),
            pacing_rate: self.cold.as_ref().and_then(|cold| cold.pacing).map(|pacing| pacing.pacer.rate()),
            una: self.una,
            nxt: self.nxt,
            rcv_nxt: self.rcv_nxt,
            ts_recent: self.ts_recent,
        }
    }

    fn congestion_state(&self) -> CongestionState {
        match self.cold.as_ref().map_or(Recovery::Open, |cold| cold.recovery) {
            Recovery::Fast(_) => CongestionState::Recovery,
            Recovery::Loss(_) => CongestionState::Loss,
            Recovery::Open if self.sacked_bytes() > 0 => CongestionState::Disorder,
            Recovery::Open => CongestionState::Open,
        }
    }

    /// What is known to have left the network above SND.UNA: without SACK, a
    /// segment for each duplicate acknowledgement.
    fn sacked_bytes(&self) -> u32 {
        let counted = u32::from(self.dupacks) * u32::from(self.mss);
        match &self.cold {
            Some(cold) if self.flags.has(Flags::SACK) => cold.scoreboard.sacked_bytes(),
            _ => counted.min(self.in_flight()),
        }
    }

    fn in_segments(&self, bytes: u32) -> u32 {
        bytes.div_ceil(u32::from(self.mss).max(1))
    }
}
