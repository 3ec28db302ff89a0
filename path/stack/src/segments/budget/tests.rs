use super::*;
use crate::{Address, Arrived, Config, Egress, LinkOffload, Seeds, Stack};
use app::Net;
use core::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::collections::HashMap;
use wire::tcp::{Flags, TcpHeader};
use wire::{Mac, Offload, Time};

fn entry(slot: u32, number: u32) -> Entry {
    Entry { id: ConnId::new(slot, 2), number }
}

/// Oldest first, the excepted one stays where it was, and what is not good any
/// more is passed over.
#[test]
fn a_queue_gives_the_oldest_good_entry() {
    let mut queue = Queue::default();
    for number in 1..=6 {
        queue.push(entry(number, number), |_| true);
    }
    let but = |bad: u32| move |entry: &Entry| entry.number != bad;
    assert_eq!(queue.take(Some(entry(1, 1).id), but(2)).map(ConnId::index), Some(3));
    assert_eq!(queue.take(None, |_| true).map(ConnId::index), Some(1));
    assert_eq!(queue.take(None, |_| true).map(ConnId::index), Some(4));
    assert_eq!(queue.take(None, but(5)).map(ConnId::index), Some(6));
    assert!(queue.take(None, |_| true).is_none());
}

/// However often connections begin to hold something, the entries that are
/// not good any more stay as few as those that are.
#[test]
fn a_queue_does_not_grow_by_what_is_over() {
    for live in [1, 10, 1_000] {
        let mut queue = Queue::default();
        let mut good: HashMap<u32, u32> = HashMap::new();
        for number in 1..50_000_u32 {
            let slot = number.wrapping_mul(0x9e37_79b9) % live;
            good.insert(slot, number);
            queue.push(entry(slot, number), |entry| good.get(&(entry.id.index() as u32)) == Some(&entry.number));
            let len = queue.seen.len() + queue.rest.len();
            assert!(len <= 4 * live as usize + 4, "{len} entries for {live}");
        }
        let mut taken = 0;
        let is_good = |entry: &Entry| good.get(&(entry.id.index() as u32)) == Some(&entry.number);
        while queue.take(None, is_good).is_some() {
            taken += 1;
        }
        assert_eq!(taken, good.len(), "none was lost");
    }
}

const OURS: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 1);
const US: Mac = Mac([2, 0, 0, 0, 0, 1]);

#[derive(Default)]
struct Out(Vec<Vec<u8>>, Vec<u8>);

impl Egress for Out {
    fn room(&self) -> usize {
        64
    }
    fn slot(&mut self) -> Option<&mut [u8]> {
        self.1 = vec![0; 1_518];
        Some(&mut self.1)
    }
    fn commit(&mut self, len: usize, _: Offload) {
        self.0.push(self.1[..len].to_vec());
    }
}

/// A stack and peers, of which each says what it is told to.
struct Scene {
    stack: Stack,
    out: Out,
    peers: Vec<(u16, SeqNum, SeqNum)>,
}

impl Scene {
    /// With so many connections, and so much memory for what they send.
    fn new(peers: u16, memory: usize) -> Self {
        let mut config = Config::new(US, 1500);
        config.addresses = vec![Address { ip: IpAddr::V4(OURS), prefix_len: 24 }];
        config.listen = vec![80];
        config.receive_memory = memory;
        let seeds = Seeds { table: [1; 4], secret: [2; 4], timestamps: [9; 2] };
        let stack = Stack::new(config, LinkOffload::default(), &seeds, Time::ZERO);
        let mut scene = Self { stack, out: Out::default(), peers: Vec::new() };
        for port in 0..peers {
            scene.send(1_000 + port, SeqNum(99), SeqNum(0), Flags::SYN, b"");
            let frame = scene.out.0.pop().expect("a SYN,ACK");
            let (answer, ..) = TcpHeader::parse_trusted(&frame[34..], wire::LinkVouched::new()).expect("a segment");
            scene.peers.push((1_000 + port, SeqNum(100), answer.seq.plus(1)));
            scene.send(1_000 + port, SeqNum(100), answer.seq.plus(1), Flags::ACK, b"");
        }
        scene
    }

    fn send(&mut self, port: u16, seq: SeqNum, ack: SeqNum, flags: Flags, text: &[u8]) {
        let header = TcpHeader {
            src_port: port,
            dst_port: 80,
            seq,
            ack,
            flags,
            window: 0xffff,
            urgent: 0,
            options: wire::tcp::TcpOptions { mss: Some(1460), ..wire::tcp::TcpOptions::NONE },
        };
        let options = if flags.contains(Flags::SYN) { header.options } else { wire::tcp::TcpOptions::NONE };
        let header = TcpHeader { options, ..header };
        let mut segment = vec![0; header.header_len()];
        header.emit(&mut segment);
        segment.extend_from_slice(text);
        let ip = wire::ipv4::Ipv4Header {
            src: Ipv4Addr::new(10, 0, 0, 2),
            dst: OURS,
            protocol: wire::protocol::TCP,
            ttl: 64,
            dscp_ecn: 0,
            identification: 0,
            dont_fragment: true,
            more_fragments: false,
            fragment_offset: 0,
            header_len: wire::ipv4::HEADER_LEN as u8,
            payload_len: segment.len() as u16,
        };
        let mut frame = vec![0; wire::ethernet::HEADER_LEN + wire::ipv4::HEADER_LEN];
        let link = wire::ethernet::EthernetHeader {
            dst: US,
            src: Mac([2, 0, 0, 0, 0, 2]),
            vlan: None,
            ether_type: wire::ethernet::ETHER_IPV4,
        };
        let at = link.emit(&mut frame);
        ip.emit(&mut frame[at..]);
        frame.extend(segment);
        match self.stack.on_frame(&frame, true, &mut self.out) {
            Arrived::Data(id, data) => {
                self.stack.hold(id, data);
                self.stack.settle(id, &mut self.out);
            }
            Arrived::Segment(arrival) => self.stack.hold(arrival.id, arrival.data),
            _ => {}
        }
    }

    /// Peer `n` says something, so far ahead of what is next.
    fn say(&mut self, n: usize, ahead: u32, text: &[u8]) {
        let (port, seq, ack) = self.peers[n];
        self.send(port, seq.plus(ahead), ack, Flags::ACK, text);
        if ahead == 0 {
            self.peers[n].1 = seq.plus(text.len() as u32);
        }
    }

    fn early(&self, n: usize) -> usize {
        self.stack.tcp.slots().get(self.id(n)).map_or(0, |slot| slot.tcp.buffered_early())
    }

    fn id(&self, n: usize) -> ConnId {
        let peer = SocketAddr::from(([10, 0, 0, 2], self.peers[n].0));
        self.stack.connection_ids().find(|id| self.stack.peer(*id) == Some(peer)).expect("a connection")
    }

    fn live(&self, n: usize) -> bool {
        self.stack.is_live(self.id(n))
    }
}

/// RFC 2018 section 8. What is ahead of a gap goes before anybody's request,
/// that of the largest holder first.
#[test]
fn the_largest_early_holder_gives_way_first() {
    let mut scene = Scene::new(4, 40_000);
    for round in 0..8 {
        scene.say(1, 2_000 + round * 1_400, &[1; 1_400]);
    }
    scene.say(2, 5_000, &[2; 700]);
    assert!(scene.early(1) > 10_000 && scene.early(2) > 700);
    // In order, and left by the application.
    for _ in 0..16 {
        scene.say(0, 0, &[0; 1_400]);
    }
    assert_eq!(scene.early(1), 0, "the largest");
    assert!(scene.early(2) > 0, "and nobody else");
    assert_eq!(scene.stack.held(scene.id(0)), 16 * 1_400);
    assert!(scene.stack.receive_memory() <= 40_000);
    assert!((0..4).all(|n| scene.live(n)));
    // What comes early takes nothing from those that hold less of it.
    scene.say(3, 2_000, &[3; 1_400]);
    assert!(scene.early(2) > 0);
}

/// Nobody gives way for text that is refused as soon as there is room: a stranger who knows no
/// more than addresses and ports could have others' early bytes forgotten, and end others.
#[test]
fn nobody_gives_way_for_text_that_is_refused() {
    let mut scene = Scene::new(4, 40_000);
    for round in 0..8 {
        scene.say(1, 2_000 + round * 1_400, &[1; 1_400]);
    }
    let early = scene.early(1);
    while scene.stack.receive_memory() + 1_400 <= 30_000 {
        scene.say(0, 0, &[0; 1_400]);
    }
    // It waits already, so that others would even end for it.
    scene.say(2, 0, &[2; 700]);
    assert_eq!(scene.early(1), early, "there was room so far");
    let (port, seq, ack) = scene.peers[2];
    let refused = [
        (seq.minus(1_400), ack, Flags::ACK),
        (seq.plus(2 << 20), ack, Flags::ACK),
        (seq, ack.plus(1), Flags::ACK),
        (seq, ack.minus(0x1_0001), Flags::ACK),
        (seq.plus(1), ack, Flags::ACK | Flags::RST),
        (seq, ack, Flags::ACK | Flags::SYN),
        (seq, ack, Flags::PSH),
    ];
    for (seq, ack, flags) in refused {
        scene.send(port, seq, ack, flags, &[9; 1_400]);
        assert_eq!(scene.early(1), early, "{flags:?}");
        assert!((0..4).all(|n| scene.live(n)), "{flags:?}");
    }
    assert_eq!(scene.stack.held(scene.id(2)), 700, "nothing of it was taken");
    // What is not refused has room made for it.
    scene.say(2, 0, &[2; 1_400]);
    assert_eq!((scene.early(1), scene.stack.held(scene.id(2))), (0, 2_100));
}

/// Three quarters are for all, the last is for those that hold little; when
/// that is used up too, the one whose application has waited longest goes.
#[test]
fn the_last_quarter_is_for_those_that_hold_little() {
    let mut scene = Scene::new(40, 40_000);
    for _ in 0..30 {
        scene.say(0, 0, &[0; 1_400]);
    }
    let much = scene.stack.receive_memory();
    assert!(much <= 38_000, "{much} bytes for one");
    for n in 1..8 {
        scene.say(n, 0, &[7; 1_000]);
        assert_eq!(scene.stack.held(scene.id(n)), 1_000, "connection {n} holds little");
    }
    assert!(scene.live(0));
    for n in 8..40 {
        scene.say(n, 0, &[7; 1_000]);
        assert_eq!(scene.stack.held(scene.id(n)), 1_000, "connection {n} holds little");
        assert!(scene.stack.receive_memory() <= 40_000);
    }
    let live: Vec<bool> = (0..40).map(|n| scene.live(n)).collect();
    assert!(!live[0], "the oldest holds most, and goes first");
    let first = live.iter().position(|live| *live).expect("some");
    assert!(live[first..].iter().all(|live| *live), "in the order of their age: {live:?}");
    assert!(live.iter().filter(|live| **live).count() >= 30);
}

/// What the application is called with stays charged meanwhile; if it ends
/// the connection in that call, nothing stays.
#[test]
fn bytes_that_are_lent_stay_charged() {
    let mut scene = Scene::new(2, 40_000);
    scene.say(0, 0, &[0; 1_000]);
    scene.say(1, 0, &[0; 500]);
    let both = scene.stack.receive_memory();
    let id = scene.id(0);
    let mut held = scene.stack.take_held(id).expect("bytes");
    assert_eq!(scene.stack.receive_memory(), both);
    held.consume(400);
    scene.stack.put_held(id, held, true);
    assert_eq!(scene.stack.held(id), 600);
    let held = scene.stack.take_held(id).expect("bytes");
    scene.stack.abort(id);
    scene.stack.put_held(id, held, false);
    assert!((500..1_000).contains(&scene.stack.receive_memory()));
    let id = scene.id(1);
    let mut held = scene.stack.take_held(id).expect("bytes");
    held.consume(500);
    scene.stack.put_held(id, held, true);
    assert_eq!(scene.stack.receive_memory(), 0);
}
