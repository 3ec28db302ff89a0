//! Frames that nobody should send: random ones, forged ones, and ordinary
//! ones spoilt.

use crate::arena::{ATTACKER_MAC, CLIENT, CLIENT_V6, PORT, SERVER, SERVER_MAC, SERVER_V6};
use crate::frames::{self, End, Segment, mend};
use crate::rng::Rng;
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::collections::VecDeque;
use wire::Mac;
use wire::arp::{ArpPacket, Operation};
use wire::ethernet::{ETHER_ARP, ETHER_IPV4, ETHER_IPV6};
use wire::icmpv4::Icmpv4;
use wire::icmpv6::{Icmpv6, NeighborAdvertisement};
use wire::tcp::{Flags, SackBlocks, SeqNum, TcpOptions, Timestamps};

/// The longest frame on the wire.
const LONGEST: u64 = 1514;

/// Bytes that some fields and headers take.
const SHORT: u64 = 64;

/// A source of bad frames.
pub struct Noise {
    rng: Rng,
    /// So many frames of each kind.
    pub made: [u64; KINDS],
}

/// Kinds of frames, in the order of [`Noise::made`].
pub const KINDS: usize = 12;
/// Their names.
pub const NAMES: [&str; KINDS] = [
    "random bytes",
    "random packets",
    "random extension headers",
    "forged segments",
    "spoilt forged segments",
    "spoilt frames of the client",
    "blind segments for the client's connections",
    "fragments",
    "ARP",
    "neighbour discovery",
    "ICMP",
    "ICMP about the client's connections",
];

/// Behind the addresses of any packet.
const BEHIND_ADDRESSES: usize = 54;

impl Noise {
    /// The noise of `seed`.
    #[must_use]
    pub const fn new(seed: u64) -> Self {
        Self { rng: Rng::new(seed), made: [0; KINDS] }
    }

    /// A bad frame. `overheard` are frames of the client's, which an attacker
    /// on the same wire sees.
    pub fn frame(&mut self, overheard: &VecDeque<Vec<u8>>) -> Vec<u8> {
        let kind = self.rng.range(0, KINDS as u64 - 1) as usize;
        self.frame_of(kind, overheard)
    }

    /// A bad frame that has nothing to do with the client, at whatever time it
    /// comes; and from which byte on that stays so when more of it is changed.
    pub fn lasting(&mut self) -> (Vec<u8>, usize) {
        let kind = self.rng.pick(&[0, 1, 2, 3, 4, 7, 8, 9, 10]);
        let from = if kind <= 4 { BEHIND_ADDRESSES } else { usize::MAX };
        (self.frame_of(kind, &VecDeque::new()), from)
    }

    /// A bad frame that is about the client's connections as they are now.
    pub fn pertinent(&mut self, overheard: &VecDeque<Vec<u8>>) -> Vec<u8> {
        let kind = self.rng.pick(&[5, 6, 11]);
        self.frame_of(kind, overheard)
    }

    fn frame_of(&mut self, kind: usize, overheard: &VecDeque<Vec<u8>>) -> Vec<u8> {
        self.made[kind] += 1;
        match kind {
            0 => self.random_frame(),
            1 => self.random_packet(),
            2 => self.extension_headers(),
            3 => self.segment().frame(),
            4 => self.spoilt_segment(),
            5 => self.spoilt_copy(overheard),
            6 => self.blind_segment(overheard),
            7 => self.fragment(),
            8 => self.arp(),
            9 => self.neighbour_discovery(),
            10 => self.icmp(),
            _ => self.icmp_about(overheard),
        }
    }

    fn bytes(&mut self, low: u64, high: u64) -> Vec<u8> {
        // Short ones as often as all others: there is room for more of them.
        let high = if self.rng.one_in(2) { high.min(low + SHORT) } else { high };
        let mut bytes = vec![0; self.rng.range(low, high) as usize];
        for piece in bytes.chunks_mut(8) {
            piece.copy_from_slice(&self.rng.word().to_le_bytes()[..piece.len()]);
        }
        bytes
    }

    fn random_frame(&mut self) -> Vec<u8> {
        let mut frame = self.bytes(0, LONGEST);
        if self.rng.one_in(2) && frame.len() >= 14 {
            frame[..6].copy_from_slice(&SERVER_MAC.0);
            let types = [ETHER_IPV4, ETHER_IPV6, ETHER_ARP, 0x8100, 0x88a8, 0];
            frame[12..14].copy_from_slice(&self.rng.pick(&types).to_be_bytes());
        }
        frame
    }

    /// A sound IP header and garbage behind it.
    fn random_packet(&mut self) -> Vec<u8> {
        let protocol = self.rng.pick(&[6, 6, 17, 1, 2, 58, 0, 255]);
        let upper = self.bytes(0, 1_400);
        let (src, dst) = if self.rng.one_in(3) { self.ends_v6() } else { self.ends() };
        let mut frame = frames::packet(src, dst, protocol, &upper);
        if self.rng.one_in(2) {
            mend(&mut frame);
        }
        frame
    }

    fn extension_headers(&mut self) -> Vec<u8> {
        let (src, dst) = self.ends_v6();
        let mut upper = Vec::new();
        let headers = self.rng.range(1, 12);
        let first = self.rng.pick(&[0, 43, 44, 60]);
        for _ in 0..headers {
            let next = self.rng.pick(&[0, 43, 44, 60, 6, 58, 59]);
            let len = self.rng.pick(&[0, 0, 0, 1, 2, 255]);
            upper.extend_from_slice(&[next, len]);
            let rest = self.bytes(6, 6);
            upper.extend_from_slice(&rest);
            let body = vec![self.rng.word() as u8; usize::from(len) * 8 % 256];
            upper.extend_from_slice(&body);
        }
        let tail = self.bytes(0, 64);
        upper.extend_from_slice(&tail);
        upper.truncate(1_400);
        frames::packet(src, dst, first, &upper)
    }

    /// A sound segment from a random end, with nothing else sound about it.
    fn segment(&mut self) -> Segment {
        let (src, dst) = if self.rng.one_in(4) { self.ends_v6() } else { self.ends() };
        let flags = Flags(self.rng.word() as u8);
        let (seq, ack) = (SeqNum(self.rng.word() as u32), SeqNum(self.rng.word() as u32));
        let mut segment = Segment::new(src, dst, flags, seq, ack);
        segment.window = self.rng.word() as u16;
        segment.options = self.options();
        if self.rng.one_in(2) {
            segment.payload = self.bytes(0, 1_300);
        }
        segment
    }

    /// A frame of a connection's own with one or more of its fields wrong and,
    /// mostly, all of its checksums right: what a peer sends that means harm,
    /// or has a fault, and is in the middle of a conversation.
    pub fn mutant(&mut self, frame: &[u8]) -> Vec<u8> {
        let Some(mut segment) = Segment::parse(frame) else { return frame.to_vec() };
        for _ in 0..self.rng.range(1, 3) {
            self.mutate(&mut segment);
        }
        let mut frame = segment.frame();
        if self.rng.one_in(4) {
            // Behind the addresses: it stays this connection's.
            let bytes = frame.len() as u64 - 1;
            let at = self.rng.range(38.min(bytes), bytes) as usize;
            frame[at] = self.rng.word() as u8;
            if !self.rng.one_in(4) {
                mend(&mut frame);
            }
        }
        frame
    }

    fn mutate(&mut self, segment: &mut Segment) {
        const NEAR: u64 = 3_000;
        let near = self.rng.range(0, 2 * NEAR) as u32;
        let moved = |at: SeqNum| SeqNum(at.0.wrapping_add(near).wrapping_sub(NEAR as u32));
        match self.rng.range(0, 10) {
            0 => segment.seq = moved(segment.seq),
            1 => segment.ack = moved(segment.ack),
            2 => segment.flags = Flags(self.rng.word() as u8),
            3 => segment.flags = segment.flags | Flags(1 << self.rng.range(0, 7)),
            4 => segment.window = self.rng.pick(&[0, 1, 100, 0xffff]),
            5 => segment.options = self.options(),
            6 => segment.payload = self.bytes(0, 1_200),
            7 => segment.payload.truncate(self.rng.range(0, segment.payload.len() as u64) as usize),
            8 => {
                let more = segment.payload.clone();
                segment.payload.extend_from_slice(&more);
                segment.payload.truncate(1_200);
            }
            _ => {
                // Text of HTTP, one byte of it wrong.
                let last = (segment.payload.len() as u64).saturating_sub(1);
                let (at, byte) = (self.rng.range(0, last) as usize, self.rng.word() as u8);
                if let Some(there) = segment.payload.get_mut(at) {
                    *there = byte;
                }
            }
        }
    }

    fn options(&mut self) -> TcpOptions {
        let mut options = TcpOptions::NONE;
        if self.rng.one_in(2) {
            options.mss = Some(self.rng.word() as u16);
        }
        if self.rng.one_in(2) {
            options.window_scale = Some(self.rng.word() as u8);
        }
        options.sack_permitted = self.rng.one_in(2);
        if self.rng.one_in(2) {
            options.timestamps = Some(Timestamps { value: self.rng.word() as u32, echo: self.rng.word() as u32 });
        } else if self.rng.one_in(4) {
            let mut sack = SackBlocks::EMPTY;
            for _ in 0..self.rng.range(1, 2) {
                sack.push(SeqNum(self.rng.word() as u32), SeqNum(self.rng.word() as u32));
            }
            options.sack = sack;
        }
        options
    }

    /// A forged segment with bytes changed, cut off or added, its checksums
    /// made right again half of the time.
    fn spoilt_segment(&mut self) -> Vec<u8> {
        let mut frame = self.segment().frame();
        for _ in 0..self.rng.range(1, 8) {
            let at = self.rng.range(0, frame.len() as u64 - 1) as usize;
            frame[at] = self.rng.word() as u8;
        }
        match self.rng.range(0, 3) {
            0 => frame.truncate(self.rng.range(0, frame.len() as u64) as usize),
            1 => {
                let more = self.bytes(0, 100);
                frame.extend_from_slice(&more);
                frame.truncate(LONGEST as usize);
            }
            _ => {}
        }
        if self.rng.one_in(2) {
            mend(&mut frame);
        }
        frame
    }

    /// A frame of the client's with one bit flipped, which its checksums do
    /// not survive, or as it was: a late duplicate.
    fn spoilt_copy(&mut self, overheard: &VecDeque<Vec<u8>>) -> Vec<u8> {
        let Some(mut frame) = self.overheard(overheard) else { return self.random_frame() };
        if !self.rng.one_in(4) {
            // Behind the Ethernet header, which has no checksum here.
            let bit = self.rng.range(14 * 8, frame.len() as u64 * 8 - 1) as usize;
            frame[bit / 8] ^= 1 << (bit % 8);
        }
        frame
    }

    /// What an attacker sends that knows addresses and ports of a connection,
    /// but not its sequence numbers: resets, SYNs, text, anywhere.
    fn blind_segment(&mut self, overheard: &VecDeque<Vec<u8>>) -> Vec<u8> {
        let heard = self.overheard(overheard).and_then(|frame| Segment::parse(&frame));
        let Some(heard) = heard else { return self.random_frame() };
        let kinds = [Flags::RST, Flags::SYN, Flags::ACK, Flags::RST | Flags::ACK, Flags::SYN | Flags::ACK, Flags::FIN];
        let mut segment = Segment { flags: self.rng.pick(&kinds), payload: Vec::new(), ..heard };
        segment.src.mac = ATTACKER_MAC;
        // At least this far beside the truth: one in four thousand million
        // hits it, and then it is no blind attack.
        segment.seq = segment.seq.plus(self.rng.range(100_000, u64::from(u32::MAX) - 4_000_000) as u32);
        segment.ack = SeqNum(self.rng.word() as u32);
        if self.rng.one_in(2) {
            segment.payload = self.bytes(1, 1_000);
        }
        segment.frame()
    }

    fn fragment(&mut self) -> Vec<u8> {
        let (src, dst) = self.ends();
        let (IpAddr::V4(from), IpAddr::V4(to)) = (src.ip, dst.ip) else { return Vec::new() };
        let mut header = frames::ipv4_header(from, to, self.rng.pick(&[6, 6, 17, 1]), 0);
        header.identification = self.rng.range(0, 63) as u16;
        header.more_fragments = self.rng.one_in(2);
        header.fragment_offset = (self.rng.range(0, 65_535) as u16) & 0xfff8;
        let piece = self.bytes(0, 1_400);
        frames::fragment(src, dst, header, &piece)
    }

    fn arp(&mut self) -> Vec<u8> {
        let target_ip = if self.rng.one_in(4) { self.stranger() } else { SERVER };
        let packet = ArpPacket {
            operation: self.rng.pick(&[Operation::Request, Operation::Reply]),
            sender_mac: self.mac(),
            // The client's own is left alone: ARP believes whom it hears.
            sender_ip: if self.rng.one_in(16) { SERVER } else { self.stranger() },
            target_mac: self.mac(),
            target_ip,
        };
        let mut frame = frames::arp(SERVER_MAC, &packet);
        if self.rng.one_in(4) {
            frame.truncate(self.rng.range(14, frame.len() as u64) as usize);
        }
        frame
    }

    fn neighbour_discovery(&mut self) -> Vec<u8> {
        let (src, _) = self.ends_v6();
        let IpAddr::V6(from) = src.ip else { return Vec::new() };
        let link_layer = (!self.rng.one_in(4)).then(|| self.mac());
        let target = if self.rng.one_in(2) { SERVER_V6 } else { self.stranger_v6() };
        let advertisement = NeighborAdvertisement {
            target: self.stranger_v6(),
            router: self.rng.one_in(2),
            solicited: self.rng.one_in(2),
            replace: self.rng.one_in(2),
            link_layer,
        };
        let message = match self.rng.range(0, 3) {
            0 => Icmpv6::NeighborAdvertisement(advertisement),
            1 => Icmpv6::RouterSolicitation { link_layer },
            _ => Icmpv6::NeighborSolicitation { target, link_layer },
        };
        frames::icmp_v6((src.mac, from), (SERVER_MAC, SERVER_V6), &message)
    }

    fn icmp(&mut self) -> Vec<u8> {
        let (src, dst) = self.ends();
        let data = self.bytes(0, 1_300);
        let message = match self.rng.range(0, 3) {
            0 => Icmpv4::EchoRequest { identifier: 1, sequence: 1, data: &data },
            1 => Icmpv4::DestinationUnreachable { code: self.rng.word() as u8, original: &data },
            2 => Icmpv4::FragmentationNeeded { mtu: self.rng.word() as u16, original: &data },
            _ => Icmpv4::TimeExceeded { code: 0, original: &data },
        };
        frames::icmp(src, dst, &message)
    }

    /// An error that quotes a segment that the server could have sent to the
    /// client, at a guessed sequence number.
    fn icmp_about(&mut self, overheard: &VecDeque<Vec<u8>>) -> Vec<u8> {
        let heard = self.overheard(overheard).and_then(|frame| Segment::parse(&frame));
        let Some(heard) = heard else { return self.random_frame() };
        let guess = SeqNum(self.rng.word() as u32);
        let original = Segment::new(heard.dst, heard.src, Flags::ACK, guess, heard.seq).frame();
        let original = &original[14..];
        let message = match self.rng.range(0, 1) {
            0 => Icmpv4::DestinationUnreachable { code: self.rng.range(0, 3) as u8, original },
            _ => Icmpv4::FragmentationNeeded { mtu: self.rng.range(0, 1_499) as u16, original },
        };
        let (src, dst) = self.ends();
        frames::icmp(src, dst, &message)
    }

    fn overheard(&mut self, overheard: &VecDeque<Vec<u8>>) -> Option<Vec<u8>> {
        if overheard.is_empty() {
            return None;
        }
        let frame = overheard.get(self.rng.range(0, overheard.len() as u64 - 1) as usize)?;
        (frame.len() > 34).then(|| frame.clone())
    }

    fn ends(&mut self) -> (End, End) {
        let port = if self.rng.one_in(3) { self.rng.word() as u16 } else { PORT };
        let src = End { mac: self.mac(), ip: IpAddr::V4(self.stranger()), port: self.rng.word() as u16 };
        (src, End { mac: SERVER_MAC, ip: IpAddr::V4(SERVER), port })
    }

    fn ends_v6(&mut self) -> (End, End) {
        let port = if self.rng.one_in(3) { self.rng.word() as u16 } else { PORT };
        let src = End { mac: self.mac(), ip: IpAddr::V6(self.stranger_v6()), port: self.rng.word() as u16 };
        (src, End { mac: SERVER_MAC, ip: IpAddr::V6(SERVER_V6), port })
    }

    fn mac(&mut self) -> Mac {
        match self.rng.range(0, 9) {
            0 => Mac::BROADCAST,
            1 => Mac::ZERO,
            2 => SERVER_MAC,
            3..=5 => Mac((self.rng.word()).to_be_bytes()[..6].try_into().unwrap_or([2; 6])),
            _ => ATTACKER_MAC,
        }
    }

    /// Anybody but the client.
    fn stranger(&mut self) -> Ipv4Addr {
        let ip = match self.rng.range(0, 7) {
            0 => Ipv4Addr::from_bits(self.rng.word() as u32),
            1 => SERVER,
            2 => Ipv4Addr::new(10, 255, 255, 255),
            _ => Ipv4Addr::from_bits(0x0a00_0000 | self.rng.word() as u32 & 0x00ff_ffff),
        };
        if ip == CLIENT { Ipv4Addr::new(10, 9, 9, 9) } else { ip }
    }

    fn stranger_v6(&mut self) -> Ipv6Addr {
        let ip = match self.rng.range(0, 7) {
            0 => Ipv6Addr::from_bits(u128::from(self.rng.word()) << 64 | u128::from(self.rng.word())),
            1 => SERVER_V6,
            2 => Ipv6Addr::UNSPECIFIED,
            _ => Ipv6Addr::from_bits(SERVER_V6.to_bits() | u128::from(self.rng.word())),
        };
        if ip == CLIENT_V6 { Ipv6Addr::LOCALHOST } else { ip }
    }
}
