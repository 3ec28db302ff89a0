//! What a forwarder counts.

use serde::Serialize;

/// Most frames of a burst.
pub const BURST_LIMIT: usize = 256;

/// How many frames were there at a time: polls by the size of their burst.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Bursts(Box<[u64; BURST_LIMIT + 1]>);

impl Default for Bursts {
    fn default() -> Self {
        Self(Box::new([0; BURST_LIMIT + 1]))
    }
}

impl Bursts {
    /// Counts a burst.
    #[inline]
    pub(crate) fn add(&mut self, frames: usize) {
        self.0[frames.min(BURST_LIMIT)] += 1;
    }

    pub(crate) fn merge(&mut self, other: &Self) {
        self.0.iter_mut().zip(other.0.iter()).for_each(|(mine, theirs)| *mine += theirs);
    }

    /// Polls.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.0.iter().sum()
    }

    /// Those that found nothing.
    #[must_use]
    pub fn empty(&self) -> u64 {
        self.0[0]
    }

    /// Sizes that occurred, with how often.
    pub fn sizes(&self) -> impl Iterator<Item = (usize, u64)> {
        self.0.iter().copied().enumerate().filter(|(_, count)| *count > 0)
    }
}

/// Why frames were not passed on, beside a full ring.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize)]
pub struct Refused {
    /// Longer than the other link's slots.
    pub too_long: u64,
    /// No route, or not an IP packet to be routed.
    pub no_route: u64,
    /// The hop limit has run out (RFC 1812 section 5.3.1, RFC 8200 section 3).
    pub expired: u64,
    /// Dropped because the mode drops them: rxonly, flowgen, icmpecho.
    pub consumed: u64,
    /// The IPv4 header's checksum is wrong: dropped by l3, counted by csum.
    pub bad_ip_checksum: u64,
    /// The checksum of TCP or UDP is wrong: counted by csum.
    pub bad_l4_checksum: u64,
}

/// One direction: from the port that frames come by.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Lane {
    /// Frames received.
    pub received: u64,
    /// Frames sent, by the port that they left by.
    pub sent: [u64; 2],
    /// Frames that found a full ring, by the port that they were to leave by.
    pub no_room: [u64; 2],
    /// Frames not passed on.
    pub refused: Refused,
    /// Bursts received.
    pub bursts: Bursts,
    /// Bursts sent.
    pub sent_bursts: Bursts,
}

impl Lane {
    /// Takes in what another queue's lane has counted.
    pub fn merge(&mut self, other: &Self) {
        self.received += other.received;
        for port in 0..2 {
            self.sent[port] += other.sent[port];
            self.no_room[port] += other.no_room[port];
        }
        let (mine, theirs) = (&mut self.refused, &other.refused);
        mine.too_long += theirs.too_long;
        mine.no_route += theirs.no_route;
        mine.expired += theirs.expired;
        mine.consumed += theirs.consumed;
        mine.bad_ip_checksum += theirs.bad_ip_checksum;
        mine.bad_l4_checksum += theirs.bad_l4_checksum;
        self.bursts.merge(&other.bursts);
        self.sent_bursts.merge(&other.sent_bursts);
    }
}

/// Where a polling loop's cycles went.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize)]
pub struct Cycles {
    /// In turns that found frames.
    pub busy: u64,
    /// In all turns.
    pub total: u64,
    /// Cycles per second of the clock that counts them.
    pub hz: u64,
}

impl Cycles {
    /// Takes in those of another loop.
    pub fn merge(&mut self, other: &Self) {
        self.busy += other.busy;
        self.total += other.total;
        self.hz = self.hz.max(other.hz);
    }
}

/// A port's totals, as testpmd has them.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize)]
pub struct PortTotals {
    /// Frames received.
    pub rx_packets: u64,
    /// Frames that the link dropped before the forwarder could have them.
    pub rx_dropped: u64,
    /// Frames sent.
    pub tx_packets: u64,
    /// Frames that found the ring full, or that the link dropped.
    pub tx_dropped: u64,
}

/// Everything that is known at one moment.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Snapshot {
    /// By the port that frames come by.
    pub lanes: Vec<Lane>,
    /// What links dropped themselves, received and sent, by port.
    pub link_dropped: Vec<(u64, u64)>,
    /// Cycles.
    pub cycles: Cycles,
}

impl Snapshot {
    /// Takes in what another thread has counted.
    pub fn merge(&mut self, other: &Self) {
        for (index, lane) in other.lanes.iter().enumerate() {
            match self.lanes.get_mut(index) {
                Some(mine) => mine.merge(lane),
                None => self.lanes.push(lane.clone()),
            }
        }
        for (index, (rx, tx)) in other.link_dropped.iter().enumerate() {
            match self.link_dropped.get_mut(index) {
                Some(mine) => *mine = (mine.0 + rx, mine.1 + tx),
                None => self.link_dropped.push((*rx, *tx)),
            }
        }
        self.cycles.merge(&other.cycles);
    }

    /// The totals of each port.
    #[must_use]
    pub fn ports(&self) -> Vec<PortTotals> {
        let of = |port: usize| {
            let (rx_dropped, tx_dropped) = self.link_dropped.get(port).copied().unwrap_or_default();
            let sum = |each: fn(&Lane) -> &[u64; 2]| self.lanes.iter().map(|lane| each(lane)[port]).sum::<u64>();
            PortTotals {
                rx_packets: self.lanes[port].received,
                rx_dropped,
                tx_packets: sum(|lane| &lane.sent),
                tx_dropped: sum(|lane| &lane.no_room) + tx_dropped,
            }
        };
        (0..self.lanes.len()).map(of).collect()
    }

    /// Frames received and sent by all ports together.
    #[must_use]
    pub fn packets(&self) -> (u64, u64) {
        let ports = self.ports();
        (ports.iter().map(|port| port.rx_packets).sum(), ports.iter().map(|port| port.tx_packets).sum())
    }

    /// Busy cycles for each frame: received where frames pass on, else sent,
    /// as testpmd counts; `None` without frames.
    #[must_use]
    pub fn cycles_per_packet(&self) -> Option<f64> {
        let (received, sent) = self.packets();
        let frames = if received > 0 { received } else { sent };
        (frames > 0).then(|| self.cycles.busy as f64 / frames as f64)
    }
}
