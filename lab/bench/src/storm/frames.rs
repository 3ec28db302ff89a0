//! What a storm is made of: frames of many flows that nobody opened, made
//! before it begins, so that sending them costs a copy.

use super::{CLIENT, CLIENT_MAC, PORT, SERVER, SERVER_MAC};
use clap::ValueEnum;
use core::net::Ipv4Addr;
use serde::Serialize;
use stats::Random;
use wire::arp::{self, ArpPacket, Operation};
use wire::checksum::{pseudo_v4, sum};
use wire::ethernet::{ETHER_ARP, ETHER_IPV4, EthernetHeader};
use wire::icmpv4::{Icmpv4, unreachable};
use wire::ipv4::{self, Ipv4Header};
use wire::tcp::{self, Flags, OPENING_HEADER_LEN, Offer, Opening, SeqNum, TcpHeader, TcpOptions, Timestamps};
use wire::{Mac, protocol};

/// A kind of frame.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum FrameKind {
    /// SYNs to the served port, from random addresses and ports
    Syn,
    /// Acknowledgements of flows that do not exist
    Unknown,
    /// Requests on such flows, half of them with a wrong checksum
    Junk,
    /// What all silos are to see: ARP replies, ICMP errors, fragments
    Shared,
}

/// Frames made of each kind. With all kinds a pool of some 1.5 MB: more flows
/// than a silo's tables of handshakes hold, and less than a cache.
const EACH: usize = 4_096;

/// Where the storm says that it comes from: behind the gateway, and of no
/// subnet of the server's (RFC 6598: shared address space).
const SOURCES: [u8; 2] = [100, 64];

/// Frames of all `kinds`, by turns.
pub(super) fn pool(kinds: &[FrameKind], random: &mut Random) -> Vec<Vec<u8>> {
    (0..EACH).flat_map(|_| kinds.iter().map(|kind| frame(*kind, random)).collect::<Vec<_>>()).collect()
}

fn frame(kind: FrameKind, random: &mut Random) -> Vec<u8> {
    let bits = random.bits();
    let source = Ipv4Addr::new(SOURCES[0], SOURCES[1], (bits >> 8) as u8, bits as u8);
    let port = 1_024 + (bits >> 16) as u16 % 64_000;
    match kind {
        FrameKind::Syn => syn(source, port, bits),
        FrameKind::Unknown => segment(source, port, Flags::ACK, b"", bits),
        FrameKind::Junk => {
            let mut frame =
                segment(source, port, Flags::ACK.union(Flags::PSH), b"GET / HTTP/1.1\r\nHost: a\r\n\r\n", bits);
            if bits >> 63 == 0
                && let Some(last) = frame.last_mut()
            {
                *last ^= 0x55;
            }
            frame
        }
        FrameKind::Shared => match bits >> 62 {
            0 => neighbour(bits),
            1 => packet(source, protocol::TCP, &[0; 24], true),
            _ => error(source, port),
        },
    }
}

/// One that a host of today sends, with all options.
fn syn(source: Ipv4Addr, port: u16, bits: u64) -> Vec<u8> {
    let opening = Opening {
        src_port: port,
        dst_port: PORT,
        seq: SeqNum(bits as u32),
        ack: SeqNum(0),
        flags: Flags::SYN,
        window: 64_240,
        offer: Offer { mss: 1_460, window_scale: Some(7), sack_permitted: true },
        timestamps: Some(Timestamps { value: (bits >> 32) as u32, echo: 0 }),
    };
    let mut bytes = [0; OPENING_HEADER_LEN];
    let len = opening.emit(&mut bytes, pseudo_v4(source, SERVER, protocol::TCP, OPENING_HEADER_LEN as u16));
    packet(source, protocol::TCP, &bytes[..len], false)
}

fn segment(source: Ipv4Addr, port: u16, flags: Flags, text: &[u8], bits: u64) -> Vec<u8> {
    let header = TcpHeader {
        src_port: port,
        dst_port: PORT,
        seq: SeqNum(bits as u32),
        ack: SeqNum((bits >> 32) as u32),
        flags,
        window: 64_240,
        urgent: 0,
        options: TcpOptions::NONE,
    };
    let mut bytes = vec![0; tcp::HEADER_LEN];
    header.emit(&mut bytes);
    let len = (bytes.len() + text.len()) as u16;
    tcp::set_checksum(&mut bytes, pseudo_v4(source, SERVER, protocol::TCP, len).add(sum(text)));
    bytes.extend_from_slice(text);
    packet(source, protocol::TCP, &bytes, false)
}

/// Says that the server's answer to a flow that does not exist got nowhere.
fn error(source: Ipv4Addr, port: u16) -> Vec<u8> {
    let mut original = vec![0; ipv4::HEADER_LEN + 8];
    header(SERVER, source, protocol::TCP, tcp::HEADER_LEN, false).emit(&mut original);
    original[ipv4::HEADER_LEN..][..2].copy_from_slice(&PORT.to_be_bytes());
    original[ipv4::HEADER_LEN + 2..][..2].copy_from_slice(&port.to_be_bytes());
    let message = Icmpv4::DestinationUnreachable { code: unreachable::HOST, original: &original };
    let mut bytes = [0; 128];
    let len = message.emit(&mut bytes);
    packet(source, protocol::ICMP, &bytes[..len], false)
}

/// A neighbour that nobody asked for.
fn neighbour(bits: u64) -> Vec<u8> {
    let [.., a, b, c] = bits.to_be_bytes();
    let arp = ArpPacket {
        operation: Operation::Reply,
        sender_mac: Mac([2, 0, 1, a, b, c]),
        sender_ip: Ipv4Addr::new(10, 78, b | 0x80, c),
        target_mac: SERVER_MAC,
        target_ip: SERVER,
    };
    arp_frame(&arp)
}

/// The client's answer to who asks for it; `None` where nobody does.
pub(super) fn answer(frame: &[u8]) -> Option<Vec<u8>> {
    let (ethernet, packet) =
        EthernetHeader::parse(frame).ok().filter(|(ethernet, _)| ethernet.ether_type == ETHER_ARP)?;
    let asked = ArpPacket::parse(packet).ok()?;
    (asked.operation == Operation::Request && asked.target_ip == CLIENT).then(|| {
        arp_frame(&ArpPacket {
            operation: Operation::Reply,
            sender_mac: CLIENT_MAC,
            sender_ip: CLIENT,
            target_mac: ethernet.src,
            target_ip: asked.sender_ip,
        })
    })
}

fn arp_frame(arp: &ArpPacket) -> Vec<u8> {
    let mut bytes = [0; arp::PACKET_LEN];
    arp.emit(&mut bytes);
    ethernet(ETHER_ARP, &bytes)
}

fn header(src: Ipv4Addr, dst: Ipv4Addr, protocol: u8, payload: usize, fragment: bool) -> Ipv4Header {
    Ipv4Header {
        src,
        dst,
        protocol,
        ttl: 60,
        dscp_ecn: 0,
        identification: if fragment { src.to_bits() as u16 } else { 0 },
        dont_fragment: !fragment,
        more_fragments: fragment,
        fragment_offset: 0,
        header_len: ipv4::HEADER_LEN as u8,
        payload_len: payload as u16,
    }
}

fn packet(source: Ipv4Addr, protocol: u8, payload: &[u8], fragment: bool) -> Vec<u8> {
    let mut packet = vec![0; ipv4::HEADER_LEN];
    header(source, SERVER, protocol, payload.len(), fragment).emit(&mut packet);
    packet.extend_from_slice(payload);
    ethernet(ETHER_IPV4, &packet)
}

fn ethernet(ether_type: u16, packet: &[u8]) -> Vec<u8> {
    let mut frame = vec![0; ETHERNET_LEN];
    EthernetHeader { dst: SERVER_MAC, src: CLIENT_MAC, vlan: None, ether_type }.emit(&mut frame);
    frame.extend_from_slice(packet);
    frame
}

/// A header without a tag.
const ETHERNET_LEN: usize = 14;

#[cfg(test)]
mod tests {
    use super::*;
    use wire::WireError;

    fn parsed(frame: &[u8]) -> Result<TcpHeader, WireError> {
        let (_, packet) = EthernetHeader::parse(frame).expect("a frame");
        let (ip, payload) = Ipv4Header::parse(packet).expect("a packet");
        let sum = pseudo_v4(ip.src, ip.dst, protocol::TCP, payload.len() as u16);
        TcpHeader::parse(payload, sum).map(|(header, ..)| header)
    }

    /// A storm of frames that are dropped for their checksum shows nothing.
    #[test]
    fn the_frames_are_what_they_are_to_be() {
        let mut random = Random::new(1);
        let mut flows = std::collections::BTreeSet::new();
        for _ in 0..100 {
            let syn = parsed(&frame(FrameKind::Syn, &mut random)).expect("a sound SYN");
            assert!(syn.flags == Flags::SYN && syn.dst_port == PORT && syn.options.mss == Some(1_460));
            flows.insert(syn.src_port);
            let unknown = parsed(&frame(FrameKind::Unknown, &mut random)).expect("a sound segment");
            assert!(unknown.flags == Flags::ACK && unknown.dst_port == PORT);
        }
        assert!(flows.len() > 90, "of many flows");
        let junk: Vec<_> = (0..100).map(|_| parsed(&frame(FrameKind::Junk, &mut random))).collect();
        let spoilt = junk.iter().filter(|junk| junk.is_err()).count();
        assert!((20..80).contains(&spoilt), "{spoilt} of 100");
        let (mut errors, mut neighbours, mut fragments) = (0, 0, 0);
        for _ in 0..100 {
            let frame = frame(FrameKind::Shared, &mut random);
            let (ethernet, packet) = EthernetHeader::parse(&frame).expect("a frame");
            if ethernet.ether_type == ETHER_ARP {
                neighbours += usize::from(ArpPacket::parse(packet).is_ok());
                continue;
            }
            let (ip, payload) = Ipv4Header::parse(packet).expect("a packet");
            fragments += usize::from(ip.is_fragment());
            let original = Icmpv4::parse(payload).ok().filter(|_| ip.protocol == protocol::ICMP);
            errors += usize::from(original.is_some_and(|message| message.original().is_some()));
        }
        assert!(errors > 20 && neighbours > 10 && fragments > 10, "{errors} {neighbours} {fragments}");
        assert_eq!(errors + neighbours + fragments, 100);
    }

    #[test]
    fn the_client_is_found_on_either_queue() {
        let asked = |target_ip| {
            arp_frame(&ArpPacket {
                operation: Operation::Request,
                sender_mac: SERVER_MAC,
                sender_ip: SERVER,
                target_mac: Mac([0; 6]),
                target_ip,
            })
        };
        let answer_to_it = answer(&asked(CLIENT)).expect("an answer");
        let (_, packet) = EthernetHeader::parse(&answer_to_it).expect("a frame");
        let arp = ArpPacket::parse(packet).expect("an ARP packet");
        assert_eq!((arp.operation, arp.sender_ip, arp.sender_mac), (Operation::Reply, CLIENT, CLIENT_MAC));
        assert_eq!(answer(&asked(SERVER)), None);
        assert_eq!(answer(&answer_to_it), None, "no answer to an answer");
    }
}
