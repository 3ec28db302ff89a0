//! Paths that carry less than the link.

use super::Sent;
use crate::{Address, Arrived, Config, LinkOffload, Seeds, Stack};
use app::{ConnId, Net};
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use wire::ethernet::{ETHER_IPV4, ETHER_IPV6, EthernetHeader};
use wire::icmpv4::Icmpv4;
use wire::icmpv6::Icmpv6;
use wire::ipv4::{self, Ipv4Header};
use wire::ipv6::{self, Ipv6Header};
use wire::{Mac, Time, protocol};

const PORT: u16 = 80;
const ROUTER: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 9);
const ROUTER_V6: Ipv6Addr = Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, 9);

fn address(number: u8, v6: bool) -> IpAddr {
    match v6 {
        false => Ipv4Addr::new(10, 0, 0, number).into(),
        true => Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, number.into()).into(),
    }
}

/// A server with data in flight to a client.
struct Scene {
    server: Stack,
    client: Stack,
    v6: bool,
    id: ConnId,
    out: Sent,
}

impl Scene {
    fn new(v6: bool) -> Self {
        let stack = |number: u8| {
            let mut config = Config::new(Mac([2, 0, 0, 0, 0, number]), 1_500);
            config.addresses = vec![Address { ip: address(number, v6), prefix_len: if v6 { 64 } else { 24 } }];
            config.listen = vec![PORT];
            let seeds = Seeds { table: [number.into(); 4], secret: [number.into(); 4], timestamps: [9; 2] };
            Stack::new(config, LinkOffload::default(), &seeds, Time::from_millis(1))
        };
        let (mut client, mut server) = (stack(1), stack(2));
        client.open(None, SocketAddr::new(address(2, v6), PORT)).expect("a connection");
        let id = shake_hands(&mut client, &mut server);
        let mut scene = Self { server, client, v6, id, out: Sent::default() };
        scene.server.send_bytes(id, &[7; 8_000]);
        scene
    }

    fn sent(&mut self) -> Vec<Vec<u8>> {
        while self.server.poll_transmit(&mut self.out) {}
        core::mem::take(&mut self.out.frames)
    }

    /// A router says that this frame was too long for a link of `mtu` bytes.
    fn too_big(&mut self, frame: &[u8], mtu: u32) {
        let quoted = &frame[14..];
        let (mut message, mut packet) = ([0; 1_300], vec![0; 40]);
        let frame = if self.v6 {
            let (src, IpAddr::V6(dst)) = (ROUTER_V6, address(2, true)) else { panic!("an address of IPv6") };
            let len = Icmpv6::PacketTooBig { mtu, original: quoted }.emit(src, dst, &mut message);
            let next_header = protocol::ICMPV6;
            let (traffic_class, flow_label) = (0, 0);
            let header =
                Ipv6Header { src, dst, next_header, hop_limit: 9, traffic_class, flow_label, payload_len: len as u16 };
            header.emit(&mut packet);
            framed(ETHER_IPV6, &[&packet[..ipv6::HEADER_LEN], &message[..len]].concat())
        } else {
            let (src, IpAddr::V4(dst)) = (ROUTER, address(2, false)) else { panic!("an address of IPv4") };
            let len = Icmpv4::FragmentationNeeded { mtu: mtu as u16, original: &quoted[..28] }.emit(&mut message);
            let header = Ipv4Header {
                src,
                dst,
                protocol: protocol::ICMP,
                ttl: 9,
                dscp_ecn: 0,
                identification: 0,
                dont_fragment: false,
                more_fragments: false,
                fragment_offset: 0,
                header_len: 20,
                payload_len: len as u16,
            };
            header.emit(&mut packet);
            framed(ETHER_IPV4, &[&packet[..ipv4::HEADER_LEN], &message[..len]].concat())
        };
        let _ = self.server.on_frame(&frame, false, &mut self.out);
    }

    /// The longest packet of what is sent again.
    fn longest(&mut self) -> Option<usize> {
        self.sent().iter().map(|frame| frame.len() - 14).max()
    }

    fn mss(&self) -> usize {
        usize::from(self.server.info(self.id).expect("a connection").mss)
    }
}

fn framed(ether_type: u16, packet: &[u8]) -> Vec<u8> {
    let (dst, src) = (Mac([2, 0, 0, 0, 0, 2]), Mac([2, 0, 0, 0, 0, 9]));
    let mut frame = vec![0; 14];
    EthernetHeader { dst, src, vlan: None, ether_type }.emit(&mut frame);
    [frame, packet.to_vec()].concat()
}

fn shake_hands(client: &mut Stack, server: &mut Stack) -> ConnId {
    let (mut there, mut back) = (Sent::default(), Sent::default());
    let mut accepted = None;
    for _ in 0..12 {
        client.poll_transmit(&mut there);
        for frame in core::mem::take(&mut there.frames) {
            if let Arrived::Segment(arrival) = server.on_frame(&frame, false, &mut back)
                && arrival.accepted
            {
                accepted = Some(arrival.id);
            }
        }
        server.poll_transmit(&mut back);
        for frame in core::mem::take(&mut back.frames) {
            let _ = client.on_frame(&frame, false, &mut there);
        }
    }
    accepted.expect("a connection")
}

/// RFC 1191 section 3, RFC 8201 section 4: reports lower the path's MTU, and
/// none raises it while it is believed: neither for the connection at hand nor
/// for the next one.
#[test]
fn a_later_report_does_not_raise_the_path_mtu() {
    for v6 in [false, true] {
        let mut scene = Scene::new(v6);
        let first = scene.sent();
        scene.too_big(&first[0], 1_300);
        assert_eq!(scene.longest(), Some(1_300), "{v6}");
        for later in [1_301, 1_400, 1_500, 9_000] {
            scene.too_big(&first[0], later);
            assert_eq!(scene.longest(), None, "{v6} {later}");
        }
        // The next connection of the same client begins with what is known.
        let Scene { server, client, .. } = &mut scene;
        client.open(None, SocketAddr::new(address(2, v6), PORT)).expect("another connection");
        scene.id = shake_hands(client, server);
        let headers = if v6 { 72 } else { 52 };
        assert_eq!(scene.mss(), 1_300 - headers, "{v6}");
    }
}

/// Nor does a connection that we open begin with more than is known.
#[test]
fn what_we_open_fits_a_path_that_is_known() {
    for v6 in [false, true] {
        let mut scene = Scene::new(v6);
        let first = scene.sent();
        scene.too_big(&first[0], 1_300);
        scene.sent();
        let Scene { server, client, .. } = &mut scene;
        let opened = server.open(None, SocketAddr::new(address(1, v6), PORT)).expect("a connection");
        shake_hands(server, client);
        scene.id = opened;
        assert_eq!(scene.mss(), 1_300 - if v6 { 72 } else { 52 }, "{v6}");
        scene.server.send_bytes(scene.id, &[9; 5_000]);
        assert_eq!(scene.longest(), Some(1_300), "{v6}");
    }
}

/// RFC 8201 section 4: a report of less than every link carries is discarded.
#[test]
fn no_report_lowers_an_ipv6_path_below_its_least() {
    let mut scene = Scene::new(true);
    let first = scene.sent();
    for mtu in [0, 68, 600, 1_279] {
        scene.too_big(&first[0], mtu);
        assert_eq!(scene.longest(), None, "{mtu}");
        assert_eq!(scene.mss(), 1_428);
    }
    assert_eq!(scene.server.counters().malformed, 4);
    scene.too_big(&first[0], 1_280);
    assert_eq!(scene.longest(), Some(1_280));
}

/// A path of less than 552 bytes is not believed (RFC 1191 section 3 names 68);
/// packets of 552 leave, and routers may fragment them: each has a number of its
/// own then (RFC 6864 section 4).
#[test]
fn at_the_least_that_is_believed_routers_may_fragment() {
    let headers = |frame: &Vec<u8>| Ipv4Header::parse(&frame[14..]).expect("a packet").0;
    let mut scene = Scene::new(false);
    let first = scene.sent();
    assert!(first.iter().all(|frame| headers(frame).dont_fragment));
    // 552 itself is believed.
    scene.too_big(&first[0], 552);
    let whole = scene.sent();
    assert!(whole.iter().all(|frame| headers(frame).dont_fragment && frame.len() <= 566), "{}", whole.len());
    scene.too_big(&first[0], 551);
    let sent = scene.sent();
    assert!(!sent.is_empty());
    let mut numbers = std::collections::BTreeSet::new();
    for frame in &sent {
        let header = headers(frame);
        assert!(!header.dont_fragment && frame.len() <= 566);
        assert!(numbers.insert(header.identification), "{} twice", header.identification);
    }
    // It stays so, whatever a later report says, for those to come as well.
    scene.too_big(&first[0], 1_400);
    scene.server.send_bytes(scene.id, &[8; 100]);
    let Scene { server, client, .. } = &mut scene;
    client.open(None, SocketAddr::new(address(2, false), PORT)).expect("another connection");
    scene.id = shake_hands(client, server);
    scene.server.send_bytes(scene.id, &[9; 2_000]);
    let sent = scene.sent();
    assert!(!sent.is_empty() && sent.iter().all(|frame| !headers(frame).dont_fragment));
    assert_eq!(scene.mss(), 500);
}

/// What goes and comes between the two.
fn exchange(scene: &mut Scene) {
    for _ in 0..30 {
        let frames = scene.sent();
        let mut back = Sent::default();
        for frame in &frames {
            if let Arrived::Data(id, _) = scene.client.on_frame(frame, false, &mut back) {
                scene.client.settle(id, &mut back);
            }
        }
        scene.client.poll_transmit(&mut back);
        for frame in core::mem::take(&mut back.frames) {
            let _ = scene.server.on_frame(&frame, false, &mut scene.out);
        }
    }
}

/// Nor is it forgotten when all that was under way has arrived, or where a
/// connection is opened by us.
#[test]
fn routers_may_fragment_what_is_sent_later() {
    let headers = |frame: &Vec<u8>| Ipv4Header::parse(&frame[14..]).expect("a packet").0;
    let mut scene = Scene::new(false);
    let first = scene.sent();
    scene.too_big(&first[0], 551);
    exchange(&mut scene);
    let info = scene.server.info(scene.id).expect("a connection");
    assert_eq!((info.in_flight, info.unsent), (0, 0));
    scene.server.send_bytes(scene.id, &[8; 100]);
    let sent = scene.sent();
    assert!(!sent.is_empty() && sent.iter().all(|frame| !headers(frame).dont_fragment));
    let opened = scene.server.open(None, SocketAddr::new(address(1, false), PORT)).expect("a connection");
    shake_hands(&mut scene.server, &mut scene.client);
    scene.server.send_bytes(opened, &[9; 2_000]);
    let sent = scene.sent();
    let data: Vec<_> = sent.iter().map(|frame| (headers(frame).dont_fragment, frame.len())).collect();
    assert!(data.len() > 3 && data.iter().all(|(dont_fragment, _)| !dont_fragment), "{data:?}");
}

/// What docs/differences.md says of limits is so.
#[test]
fn the_documented_limits_are_those_that_hold() {
    let text = include_str!("../../../../docs/differences.md");
    let limits = text.split("### Limits of the stack").nth(1).and_then(|rest| rest.split("\n## ").next());
    let rows: Vec<&str> = limits.expect("the table").lines().filter(|line| line.starts_with("| ")).collect();
    let grouped = |number: usize| {
        let digits = number.to_string();
        let from_end = |at: usize| digits.len() - at;
        let comma = |at: usize| if at > 0 && from_end(at) % 3 == 0 { "," } else { "" };
        digits.char_indices().map(|(at, digit)| format!("{}{digit}", comma(at))).collect::<String>()
    };
    let config = Config::new(Mac([2, 0, 0, 0, 0, 1]), 1_500);
    let [packets, of_source, bytes, bytes_of_source, pieces, head] = crate::ip::FRAGMENT_LIMITS;
    for (of, limits) in [
        ("what a connection receives", vec![format!("{} MiB", config.tcp.receive_limit >> 20)]),
        ("the peer's MSS", vec![grouped(tcp::config::MIN_MSS.into())]),
        ("extension headers", vec![grouped(ipv6::MAX_EXTENSION_HEADERS), grouped(ipv6::MAX_OPTIONS)]),
        (
            "packets in fragments",
            vec![
                grouped(packets),
                format!("{} MiB", bytes >> 20),
                grouped(of_source),
                format!("{} KiB", bytes_of_source >> 10),
            ],
        ),
        ("fragments of one packet", vec![grouped(pieces)]),
        ("headers of a first fragment", vec![format!("{head} bytes")]),
        ("neighbours", crate::ip::NEIGHBOUR_LIMITS.map(grouped).to_vec()),
        ("routes", vec![grouped(crate::ip::MAX_ROUTES)]),
        ("path MTUs", vec![grouped(crate::ip::MAX_REMEMBERED)]),
        ("answers that wait", vec![grouped(super::MAX_PENDING)]),
        ("echo replies", vec![grouped(config.echo_per_second as usize)]),
        ("addresses", vec![grouped(crate::MAX_ADDRESSES)]),
    ] {
        let row = rows.iter().find(|row| row.starts_with(&format!("| {of}"))).expect(of);
        let told = row.split(" | ").nth(1).expect("a limit");
        assert!(limits.iter().all(|limit| told.contains(limit.as_str())), "{of}: {told}, not {limits:?}");
    }
}
