//! A few of many connections, as an operator sees them.

use crate::Stack;
use app::{ConnId, Net};
use core::net::{IpAddr, Ipv6Addr, SocketAddr};
use tcp::{CongestionState, Info, State};

/// Words that a [`ConnectionSample`] is told in.
pub const SAMPLE_WORDS: usize = 16;

/// Places that are looked at for each connection of a sample, where there are more connections than
/// it is to have.
const LOOKS_FOR_ONE: usize = 4;

/// Places that are looked at where there are few connections, and may have been many: half a
/// millisecond, for they are read in order.
const MOST_LOOKS: usize = 1 << 16;

/// A connection's addresses and figures at one moment: what `ss -ti` shows of one of the kernel's.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ConnectionSample {
    /// Our end.
    pub local: SocketAddr,
    /// The peer's.
    pub remote: SocketAddr,
    /// The state (RFC 9293 section 3.3.2).
    pub state: State,
    /// How the sender stands to congestion.
    pub congestion_state: CongestionState,
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
    /// Sequence numbers sent and not acknowledged.
    pub in_flight: u32,
    /// Bytes queued and not acknowledged, those in flight among them.
    pub unsent: u32,
    /// Segments sent again, since something was last amiss.
    pub retransmits: u32,
    /// Segments that arrived ahead of what is missing, as the next two.
    pub sacked: u32,
    /// Taken to be lost.
    pub lost: u32,
    /// Sent again and not acknowledged.
    pub retrans: u32,
    /// How fast the path delivers, in bytes per second, where it was sampled.
    pub delivery_rate: Option<u64>,
    /// The rate at which new data leaves, in bytes per second, if it is paced.
    pub pacing_rate: Option<u64>,
}

const STATES: [State; 10] = [
    State::SynSent,
    State::SynReceived,
    State::Established,
    State::FinWait1,
    State::FinWait2,
    State::CloseWait,
    State::Closing,
    State::LastAck,
    State::TimeWait,
    State::Closed,
];

const CONGESTION_STATES: [CongestionState; 4] =
    [CongestionState::Open, CongestionState::Disorder, CongestionState::Recovery, CongestionState::Loss];

/// No rate.
const NO_RATE: u64 = u64::MAX;

const fn pair(high: u32, low: u32) -> u64 {
    (high as u64) << 32 | low as u64
}

const fn apart(word: u64) -> (u32, u32) {
    ((word >> 32) as u32, word as u32)
}

/// An address of either family, one of IPv4 as RFC 4291 section 2.5.5.2 writes it.
fn address_words(ip: IpAddr) -> [u64; 2] {
    let bits = match ip {
        IpAddr::V4(ip) => ip.to_ipv6_mapped().to_bits(),
        IpAddr::V6(ip) => ip.to_bits(),
    };
    [(bits >> 64) as u64, bits as u64]
}

fn address_of(high: u64, low: u64) -> IpAddr {
    Ipv6Addr::from_bits(u128::from(high) << 64 | u128::from(low)).to_canonical()
}

impl ConnectionSample {
    fn new(local: SocketAddr, remote: SocketAddr, info: &Info) -> Self {
        let Info { state, congestion_state, sack, timestamps, peer_shift, own_shift, backoff, mss, .. } = *info;
        let Info { cwnd, ssthresh, srtt_us, rttvar_us, snd_wnd, rcv_wnd, in_flight, unsent, .. } = *info;
        let Info { retransmits, sacked, lost, retrans, delivery_rate, pacing_rate, .. } = *info;
        Self {
            local,
            remote,
            state,
            congestion_state,
            sack,
            timestamps,
            peer_shift,
            own_shift,
            backoff,
            mss,
            cwnd,
            ssthresh,
            srtt_us,
            rttvar_us,
            snd_wnd,
            rcv_wnd,
            in_flight,
            unsent,
            retransmits,
            sacked,
            lost,
            retrans,
            delivery_rate: delivery_rate.map(|sample| sample.rate()),
            pacing_rate,
        }
    }

    /// The same in words, for a memory that others read.
    #[must_use]
    pub fn words(&self) -> [u64; SAMPLE_WORDS] {
        let ([a, b], [c, d]) = (address_words(self.local.ip()), address_words(self.remote.ip()));
        let place_of = |found: Option<usize>| found.unwrap_or(0) as u32;
        let state = place_of(STATES.iter().position(|state| *state == self.state));
        let congestion = place_of(CONGESTION_STATES.iter().position(|state| *state == self.congestion_state));
        let flags = u32::from(self.sack) | u32::from(self.timestamps) << 1;
        let shifts = u32::from(self.peer_shift) << 16 | u32::from(self.own_shift) << 8 | u32::from(self.backoff);
        [
            a,
            b,
            c,
            d,
            pair(self.local.port().into(), self.remote.port().into()),
            pair(state << 16 | congestion << 8 | flags, shifts),
            pair(self.mss.into(), self.retransmits),
            pair(self.cwnd, self.ssthresh),
            pair(self.srtt_us, self.rttvar_us),
            pair(self.snd_wnd, self.rcv_wnd),
            pair(self.in_flight, self.unsent),
            pair(self.sacked, self.lost),
            pair(self.retrans, 0),
            self.delivery_rate.unwrap_or(NO_RATE),
            self.pacing_rate.unwrap_or(NO_RATE),
            0,
        ]
    }

    /// What [`ConnectionSample::words`] told; `None` for words that it does not tell.
    #[must_use]
    pub fn from_words(words: &[u64]) -> Option<Self> {
        let words: &[u64; SAMPLE_WORDS] = words.first_chunk()?;
        let ends = apart(words[4]);
        let [local_port, remote_port] = [ends.0, ends.1].map(u16::try_from);
        let (what, shifts) = apart(words[5]);
        let (mss, retransmits) = apart(words[6]);
        let (cwnd, ssthresh) = apart(words[7]);
        let (srtt_us, rttvar_us) = apart(words[8]);
        let (snd_wnd, rcv_wnd) = apart(words[9]);
        let (in_flight, unsent) = apart(words[10]);
        let (sacked, lost) = apart(words[11]);
        let rate = |word: u64| (word != NO_RATE).then_some(word);
        Some(Self {
            local: SocketAddr::new(address_of(words[0], words[1]), local_port.ok()?),
            remote: SocketAddr::new(address_of(words[2], words[3]), remote_port.ok()?),
            state: *STATES.get((what >> 16) as usize)?,
            congestion_state: *CONGESTION_STATES.get((what >> 8 & 0xff) as usize)?,
            sack: what & 1 != 0,
            timestamps: what & 2 != 0,
            peer_shift: (shifts >> 16) as u8,
            own_shift: (shifts >> 8) as u8,
            backoff: shifts as u8,
            mss: u16::try_from(mss).ok()?,
            cwnd,
            ssthresh,
            srtt_us,
            rttvar_us,
            snd_wnd,
            rcv_wnd,
            in_flight,
            unsent,
            retransmits,
            sacked,
            lost,
            retrans: apart(words[12]).0,
            delivery_rate: rate(words[13]),
            pacing_rate: rate(words[14]),
        })
    }
}

impl Stack {
    /// A connection as an operator sees it.
    fn sample_of(&self, id: ConnId) -> Option<ConnectionSample> {
        Some(ConnectionSample::new(self.local(id)?, self.peer(id)?, &self.info(id)?))
    }

    /// Tells `each` of up to `most` connections: of all where there are no more, and else of such
    /// that lie evenly in the table. `from` turns where it begins to look: another each time tells of
    /// others. Looks at few places, however many connections there are.
    pub fn sample(&self, most: usize, from: usize, each: &mut dyn FnMut(&ConnectionSample)) {
        let (places, mut told) = (self.places(), 0);
        let mut tell = |place: usize| {
            let sample = self.connection_at(place).and_then(|id| self.sample_of(id));
            sample.iter().for_each(&mut *each);
            sample.is_some()
        };
        if self.connections() <= most {
            let mut looked = (0..places.min(MOST_LOOKS)).map(|at| (from % places + at) % places);
            while told < self.connections().min(most)
                && let Some(place) = looked.next()
            {
                told += usize::from(tell(place));
            }
            return;
        }
        // A part of the table for each.
        for part in 0..most {
            let (start, end) = (part * places / most, (part + 1) * places / most);
            let len = end - start;
            let _ = (0..len.min(LOOKS_FOR_ONE)).any(|look| tell(start + (from + look) % len));
        }
    }
}
