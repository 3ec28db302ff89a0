use super::*;
use core::net::{IpAddr, Ipv4Addr};
use link::{Link, Pair, PairConfig, PairLink, Receive, Transmit};
use proptest::prelude::*;
use wire::checksum::{pseudo_v4, sum};
use wire::{Mac, Offload, Time};

/// A forwarder between two pairs, with the far end of each.
struct Stand {
    forwarder: Forwarder,
    near: Vec<PairLink>,
    far: Vec<PairLink>,
}

impl Stand {
    fn new(settings: Settings, ports: usize) -> Self {
        let (near, far) = (0..ports).map(|_| Pair::new(PairConfig { ring: 64, ..PairConfig::default() })).unzip();
        Self { forwarder: Forwarder::new(settings), near, far }
    }

    fn of(mode: Mode, ports: usize) -> Self {
        Self::new(Settings { mode, ..Settings::default() }, ports)
    }

    fn send(&mut self, port: usize, frame: &[u8]) {
        let (_, tx) = self.far[port].split();
        tx.slot().expect("room")[..frame.len()].copy_from_slice(frame);
        tx.commit(frame.len(), Offload::NONE);
        tx.flush(Time::ZERO);
    }

    fn turn(&mut self) -> usize {
        self.forwarder.turn(&mut self.near, Time::ZERO)
    }

    fn received(&mut self, port: usize) -> Vec<Vec<u8>> {
        let (rx, _) = self.far[port].split();
        let count = rx.receive(Time::ZERO, 64);
        let frames = (0..count).map(|index| rx.frame(index).to_vec()).collect();
        rx.release();
        frames
    }

    /// What comes of one frame at port 0, and by which port.
    fn pass(&mut self, frame: &[u8]) -> Option<(usize, Vec<u8>)> {
        self.send(0, frame);
        self.turn();
        let all: Vec<_> = (0..self.far.len()).flat_map(|p| self.received(p).into_iter().map(move |f| (p, f))).collect();
        assert!(all.len() < 2);
        all.into_iter().next()
    }

    fn snapshot(&self) -> Snapshot {
        let lanes = self.forwarder.lanes[..self.near.len()].to_vec();
        Snapshot { lanes, link_dropped: vec![(0, 0); self.near.len()], cycles: Cycles::default() }
    }
}

const MACS: [u8; 12] = [2, 1, 1, 1, 1, 1, 2, 2, 2, 2, 2, 2];

/// UDP from 10.0.0.1:1000 to 10.1.2.3:53 with these bytes, and good checksums.
fn udp(ttl: u8, payload: &[u8]) -> Vec<u8> {
    let mut frame = MACS.to_vec();
    frame.extend([8, 0]);
    let total = (28 + payload.len()) as u16;
    let [a, b] = total.to_be_bytes();
    let mut header = vec![0x45, 0, a, b, 0, 0, 0, 0, ttl, 17, 0, 0, 10, 0, 0, 1, 10, 1, 2, 3];
    let checksum = sum(&header).finish().to_be_bytes();
    header[10..12].copy_from_slice(&checksum);
    let [c, d] = (8 + payload.len() as u16).to_be_bytes();
    let mut datagram = vec![3, 0xe8, 0, 53, c, d, 0, 0];
    datagram.extend(payload);
    let pseudo = pseudo_v4(Ipv4Addr::new(10, 0, 0, 1), Ipv4Addr::new(10, 1, 2, 3), 17, 8 + payload.len() as u16);
    let checksum = pseudo.add(sum(&datagram)).finish().to_be_bytes();
    datagram[6..8].copy_from_slice(&checksum);
    frame.extend(header);
    frame.extend(datagram);
    frame
}

/// Whether both checksums of an IPv4 and UDP frame hold.
fn holds(frame: &[u8]) -> bool {
    let of = |at: usize| Ipv4Addr::new(frame[at], frame[at + 1], frame[at + 2], frame[at + 3]);
    let len = u16::from_be_bytes([frame[38], frame[39]]);
    let pseudo = pseudo_v4(of(26), of(30), 17, len);
    sum(&frame[14..34]).finish() == 0 && pseudo.add(sum(&frame[34..])).finish() == 0
}

#[test]
fn io_passes_every_byte_of_every_length_by_the_other_port_or_back() {
    for ports in [1, 2] {
        let mut stand = Stand::of(Mode::Io, ports);
        for len in (14..140).chain([1_514, 1_518]) {
            let frame: Vec<u8> = (0..len).map(|byte| (byte * 7 + len) as u8).collect();
            assert_eq!(stand.pass(&frame), Some((ports - 1, frame)));
        }
        let lane = &stand.forwarder.lanes[0];
        assert_eq!((lane.received, lane.sent[ports - 1], lane.no_room), (128, 128, [0, 0]));
    }
}

#[test]
fn addresses_are_set_and_swapped() {
    let frame = udp(9, b"hello");
    let (_, set) = Stand::of(Mode::Mac, 2).pass(&frame).expect("passed");
    assert_eq!(set[..12], [2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 1, 1]);
    assert_eq!(set[12..], frame[12..]);
    let (_, swapped) = Stand::of(Mode::MacSwap, 2).pass(&frame).expect("passed");
    assert_eq!((&swapped[..6], &swapped[6..12], &swapped[12..]), (&MACS[6..], &MACS[..6], &frame[12..]));
    let (_, turned) = Stand::of(Mode::FiveTuple, 2).pass(&frame).expect("passed");
    assert_eq!((&turned[26..30], &turned[30..34]), (&frame[30..34], &frame[26..30]));
    assert_eq!((&turned[34..36], &turned[36..38]), (&frame[36..38], &frame[34..36]));
    assert!(holds(&turned));
}

#[test]
fn checksums_are_judged_and_mended() {
    let mut stand = Stand::of(Mode::Csum, 2);
    let good = udp(9, b"payload");
    assert_eq!(stand.pass(&good), Some((1, good.clone())));
    let mut bad = good.clone();
    bad[44] ^= 1;
    bad[22] = 8;
    let (_, mended) = stand.pass(&bad).expect("passed");
    assert!(holds(&mended));
    let refused = stand.forwarder.lanes[0].refused;
    assert_eq!((refused.bad_ip_checksum, refused.bad_l4_checksum), (1, 1));
}

#[test]
fn arp_and_echo_are_answered_and_all_else_is_dropped() {
    let mut stand = Stand::of(Mode::IcmpEcho, 2);
    let mut arp = vec![0xff; 6];
    arp.extend([2, 9, 9, 9, 9, 9, 8, 6, 0, 1, 8, 0, 6, 4, 0, 1, 2, 9, 9, 9, 9, 9, 10, 0, 0, 1, 0, 0, 0, 0, 0, 0]);
    arp.extend([10, 0, 0, 2]);
    let (port, answer) = stand.pass(&arp).expect("answered");
    assert_eq!((port, &answer[..6], answer[21]), (0, &arp[6..12], 2));
    assert_eq!((&answer[22..28], &answer[28..32]), (&[2, 0, 0, 0, 1, 0][..], &[10, 0, 0, 2][..]));
    assert_eq!(answer[32..42], arp[22..32]);
    let mut echo = udp(64, &[0; 4]);
    echo[23] = 1;
    echo[34..].fill(0);
    echo[34] = 8;
    let checksum = sum(&echo[34..]).finish().to_be_bytes();
    echo[36..38].copy_from_slice(&checksum);
    let (port, reply) = stand.pass(&echo).expect("answered");
    assert_eq!((port, reply[34], sum(&reply[34..]).finish()), (0, 0, 0));
    assert_eq!((&reply[26..30], &reply[..6]), (&echo[30..34], &echo[6..12]));
    assert_eq!(stand.pass(&reply), None, "a reply is no request");
    assert_eq!(stand.pass(&udp(9, b"x")), None);
    assert_eq!(stand.forwarder.lanes[0].refused.consumed, 2);
}

#[test]
fn packets_are_routed_with_their_hop_limit_counted_down() {
    let mut routes = Routes::default();
    let hop = Hop { port: 1, mac: Mac([2, 7, 7, 7, 7, 7]) };
    routes.add("10.1.0.0".parse().expect("address"), 16, hop).expect("taken");
    routes.add("10.1.2.0".parse().expect("address"), 24, Hop { port: 0, ..hop }).expect("taken");
    routes.add("fd00::".parse().expect("address"), 8, hop).expect("taken");
    let mut stand = Stand::new(Settings { mode: Mode::L3, routes, ..Settings::default() }, 2);
    let (port, routed) = stand.pass(&udp(9, b"payload")).expect("routed");
    assert_eq!((port, &routed[..12]), (0, &[2, 7, 7, 7, 7, 7, 2, 0, 0, 0, 1, 0][..]));
    assert!(holds(&routed) && routed[22] == 8);
    let mut other = udp(64, b"payload");
    other[32] = 9;
    assert_eq!(stand.pass(&other), None, "the header's checksum is wrong");
    assert_eq!(stand.pass(&udp(1, b"payload")), None, "its hop limit is spent");
    let mut nowhere = udp(64, b"payload");
    nowhere[30] = 11;
    assert_eq!(stand.pass(&nowhere), None);
    let mut v6 = MACS.to_vec();
    v6.extend([0x86, 0xdd, 0x60, 0, 0, 0, 0, 0, 59, 3]);
    v6.extend([
        0xfe, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0xfd, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1,
    ]);
    let (port, routed) = stand.pass(&v6).expect("routed");
    assert_eq!((port, routed[21]), (1, 2));
    let refused = stand.forwarder.lanes[0].refused;
    assert_eq!((refused.bad_ip_checksum, refused.expired, refused.no_route), (1, 1, 1));
    // One link, and a route to another: no room there.
    let mut routes = Routes::default();
    routes.add("0.0.0.0".parse().expect("address"), 0, hop).expect("taken");
    let mut one = Stand::new(Settings { mode: Mode::L3, routes, ..Settings::default() }, 1);
    assert_eq!(one.pass(&udp(9, b"x")), None);
    assert_eq!(one.forwarder.lanes[0].no_room, [0, 1]);
}

#[test]
fn flows_are_made_whole_and_counted_off() {
    let mut stand = Stand::new(Settings { mode: Mode::FlowGen, flows: 3, ..Settings::default() }, 1);
    stand.turn();
    let frames = stand.received(0);
    assert_eq!(frames.len(), 32);
    let flow = |frame: &Vec<u8>| frame[33];
    assert_eq!(frames.iter().take(4).map(flow).collect::<Vec<_>>(), [1, 2, 3, 1]);
    assert!(frames.iter().all(|frame| sum(&frame[14..34]).finish() == 0 && frame.len() == 60));
    stand.send(0, &frames[0]);
    stand.turn();
    assert_eq!(stand.forwarder.lanes[0].refused.consumed, 1);
    stand.forwarder = Forwarder::new(Settings { mode: Mode::TxOnly, ..Settings::default() });
    stand.turn();
    assert_eq!((stand.forwarder.lanes[0].bursts.total(), stand.forwarder.lanes[0].sent[0]), (0, 32));
}

#[test]
fn what_finds_a_full_ring_is_dropped_and_counted() {
    let mut stand = Stand::of(Mode::Io, 2);
    let frame = udp(9, b"x");
    for round in 0..3 {
        (0..32).for_each(|_| stand.send(0, &frame));
        stand.turn();
        assert_eq!(stand.forwarder.lanes[0].no_room[1], if round < 2 { 0 } else { 32 });
    }
    let ports = stand.snapshot().ports();
    assert_eq!((ports[0].rx_packets, ports[1].tx_packets, ports[1].tx_dropped), (96, 64, 32));
    assert_eq!(stand.received(1).len(), 64);
}

#[test]
fn statistics_are_testpmds() {
    let mut stand = Stand::of(Mode::Io, 2);
    stand.send(0, &udp(9, b"x"));
    (0..5).for_each(|_| {
        stand.turn();
    });
    let mut snapshot = stand.snapshot();
    snapshot.cycles = Cycles { busy: 603, total: 1_206, hz: 2_300_000_000 };
    let text = statistics(&snapshot);
    for line in [
        "  ---------------------- Forward statistics for port 0  ----------------------",
        "  RX-packets: 1              RX-dropped: 0             RX-total: 1",
        "  RX-bursts : 5 [80% of 0 pkts + 20% of 1 pkts]",
        "  +++++++++++++++ Accumulated forward statistics for all ports+++++++++++++++",
        "  CPU cycles/packet=603.00 (busy cycles=603 / total RX packets=1) at 2300 MHz Clock",
        "  busy for 50.0% of 1206 cycles",
    ] {
        assert!(text.lines().any(|it| it == line), "{line}\n{text}");
    }
    assert!(!statistics(&Forwarder::new(Settings::default()).lanes.to_vec().into()).contains("cycles/packet"));
}

impl From<Vec<Lane>> for Snapshot {
    fn from(lanes: Vec<Lane>) -> Self {
        Self { link_dropped: vec![(0, 0); lanes.len()], lanes, cycles: Cycles::default() }
    }
}

#[test]
fn a_table_has_its_limits() {
    let mut routes = Routes::default();
    let hop = Hop { port: 0, mac: Mac([2; 6]) };
    assert_eq!(routes.add(IpAddr::from([10, 0, 0, 0]), 33, hop), Err(BadRoute::Prefix));
    assert_eq!(routes.add(IpAddr::from([10, 0, 0, 0]), 8, Hop { port: 2, ..hop }), Err(BadRoute::Port));
    assert!(routes.is_empty() && routes.find(&[10, 0, 0, 0]).is_none());
}

proptest! {
    #[test]
    fn the_longest_prefix_wins(
        entries in prop::collection::vec((any::<u32>(), 0..=32_u8, any::<u16>()), 0..40),
        asked in prop::collection::vec(any::<u32>(), 1..40),
    ) {
        let mut routes = Routes::default();
        let hop = |id: u16| Hop { port: 0, mac: Mac([2, 0, 0, 0, (id >> 8) as u8, id as u8]) };
        // Near each other, so that prefixes lie within prefixes.
        let near = |address: u32| address & 0x0303_0303;
        for (network, prefix, id) in &entries {
            routes.add(IpAddr::from(near(*network).to_be_bytes()), *prefix, hop(*id)).expect("within limits");
        }
        for address in asked.into_iter().map(near) {
            let covers = |entry: &&(u32, u8, u16)| {
                (near(entry.0) ^ address).checked_shr(32 - u32::from(entry.1)).unwrap_or(0) == 0
            };
            // Of the same prefix the last one counts.
            let best = entries.iter().filter(covers).max_by_key(|entry| entry.1).map(|entry| hop(entry.2));
            prop_assert_eq!(routes.find(&address.to_be_bytes()), best);
        }
    }

    #[test]
    fn no_bytes_reach_a_panic(frame in prop::collection::vec(any::<u8>(), 1..200), kind in 0..6_usize) {
        let mut frame = frame;
        // Mostly something with headers.
        for (at, value) in [(12, [8, 0]), (12, [0x86, 0xdd]), (12, [0x81, 0]), (12, [8, 6]), (14, [0x45, 0])].into_iter().take(kind) {
            if frame.len() > at + 2 {
                frame[at..at + 2].copy_from_slice(&value);
            }
        }
        for mode in Mode::ALL {
            Stand::of(mode, 1).pass_any(&frame);
        }
    }
}

impl Stand {
    fn pass_any(&mut self, frame: &[u8]) {
        self.send(0, frame);
        self.turn();
        self.received(0);
    }
}

proptest! {
    /// Frames without a VLAN take a short way, if they are plain: what comes of it is what comes of the long one.
    #[test]
    fn the_short_way_of_five_tuples_is_the_long_one(
        mut frame in proptest::collection::vec(any::<u8>(), 14..90), plain in any::<u8>(),
    ) {
        let len = frame.len();
        let usual = [(12, 8), (13, 0), (14, 0x45), (16, 0), (17, len.saturating_sub(14) as u8), (20, 0x40), (21, 0), (23, 17)];
        for (bit, (at, byte)) in usual.into_iter().enumerate() {
            // All of them, or all but some.
            if (plain | 0b0101_0000) & 1 << bit != 0 && at < len {
                frame[at] = byte;
            }
        }
        let mut tagged = frame.clone();
        tagged.splice(12..12, [0x81, 0, 0, 7]);
        super::rewrite::swap_tuple(&mut frame);
        super::rewrite::swap_tuple(&mut tagged);
        tagged.drain(12..16);
        prop_assert_eq!(frame, tagged);
    }
}
