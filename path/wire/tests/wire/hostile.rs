//! Random bytes, and packets that were right before somebody changed them.
//! Checksums are put right again where a parser asks for one, so that the
//! change reaches what stands behind it.

use crate::cases;
use crate::strategies::*;
use core::net::Ipv6Addr;
use proptest::collection::vec;
use proptest::prelude::*;
use wire::arp::ArpPacket;
use wire::ethernet::EthernetHeader;
use wire::icmpv4::Icmpv4;
use wire::icmpv6::{Icmpv6, NEIGHBOR_HOP_LIMIT};
use wire::ipv4::Ipv4Header;
use wire::ipv6::{Ipv6Header, walk_extensions};
use wire::tcp::{TcpHeader, TcpOptions};
use wire::udp::UdpHeader;
use wire::{LinkVouched, Original, Sum, checksum, protocol};

const SRC: Ipv6Addr = Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 1);
const DST: Ipv6Addr = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 1);

/// Whether `piece` lies in `whole`, by address.
fn lies_in(piece: &[u8], whole: &[u8]) -> bool {
    let (piece, whole) = (piece.as_ptr_range(), whole.as_ptr_range());
    whole.start <= piece.start && piece.end <= whole.end
}

/// Writes the checksum that `bytes` should have at `at`.
fn put_right(bytes: &mut [u8], at: usize, pseudo: Sum) {
    if bytes.len() >= at + 2 {
        bytes[at..at + 2].fill(0);
        let checksum = pseudo.add(checksum::sum(bytes)).finish();
        bytes[at..at + 2].copy_from_slice(&checksum.to_be_bytes());
    }
}

/// Every parser over the same bytes. What they say is right or an error; a
/// panic, or a piece from outside, is neither.
fn parse_everything(bytes: &[u8]) {
    if let Ok((header, payload)) = EthernetHeader::parse(bytes) {
        assert_eq!(header.header_len() + payload.len(), bytes.len());
    }
    if let Ok(packet) = ArpPacket::parse(bytes) {
        assert!(packet.sender_mac.is_unicast());
    }
    ipv4_packet(bytes);
    if let Ok((header, payload)) = Ipv6Header::parse(bytes) {
        assert!(lies_in(payload, bytes));
        assert_eq!(usize::from(header.payload_len), payload.len());
    }
    extensions(bytes);
    tcp_segment(bytes);
    if let Ok((_, payload, _)) = UdpHeader::parse_trusted(bytes, LinkVouched::new()) {
        assert_eq!(payload.len() + 8, bytes.len());
    }
    let _ = UdpHeader::parse(bytes, None);
    let _ = UdpHeader::parse(bytes, Some(Sum::ZERO));
    let _ = Original::parse_v4(bytes);
    let _ = Original::parse_v6(bytes);
    icmp(bytes);
}

fn ipv4_packet(bytes: &[u8]) {
    let mut packet = bytes.to_vec();
    let header_len = packet.first().map_or(0, |first| usize::from(first & 15) * 4);
    if let Some(header) = packet.get_mut(..header_len) {
        put_right(header, 10, Sum::ZERO);
    }
    if let Ok((header, payload)) = Ipv4Header::parse(&packet) {
        assert!(lies_in(payload, &packet));
        assert!(usize::from(header.header_len) + payload.len() <= packet.len());
        assert!(usize::from(header.fragment_offset) + payload.len() <= 65_535);
    }
}

fn extensions(bytes: &[u8]) {
    for next_header in [0, 43, 44, 60, 6, 59, 51] {
        let Ok(upper) = walk_extensions(next_header, bytes) else { continue };
        assert_eq!(&bytes[upper.offset..], upper.payload);
        if let Some(fragment) = upper.fragment {
            assert!(usize::from(fragment.offset) + upper.payload.len() <= 65_535);
            assert!(!fragment.more || upper.payload.len().is_multiple_of(8));
        }
    }
}

/// What was understood of any options is understood the same when we send it.
fn tcp_segment(bytes: &[u8]) {
    let Ok((header, payload, _)) = TcpHeader::parse_trusted(bytes, LinkVouched::new()) else { return };
    assert!(lies_in(payload, bytes));
    let mut out = [0; 60];
    let len = header.emit(&mut out);
    assert_eq!(len, header.header_len());
    let (again, rest, _) = TcpHeader::parse_trusted(&out[..len], LinkVouched::new()).unwrap();
    assert!(rest.is_empty());
    // We align options, so a block that fitted may no longer.
    let blocks = again.options.sack.as_slice();
    assert!(header.options.sack.as_slice().starts_with(blocks));
    let options = TcpOptions { sack: header.options.sack, ..again.options };
    assert_eq!(TcpHeader { options, ..again }, header);
}

fn icmp(bytes: &[u8]) {
    let mut message = bytes.to_vec();
    put_right(&mut message, 2, Sum::ZERO);
    if let Ok(icmp) = Icmpv4::parse(&message) {
        let _ = icmp.original();
        let mut out = vec![0; message.len()];
        assert_eq!(icmp.emit(&mut out), icmp.emit_len());
    }
    put_right(&mut message, 2, checksum::pseudo_v6(SRC, DST, protocol::ICMPV6, bytes.len() as u32));
    if let Ok(icmp) = Icmpv6::parse(&message, SRC, DST, NEIGHBOR_HOP_LIMIT) {
        let _ = icmp.original();
        let mut out = vec![0; 2048];
        let len = icmp.emit(SRC, DST, &mut out);
        assert_eq!(Icmpv6::parse(&out[..len], SRC, DST, NEIGHBOR_HOP_LIMIT).is_ok(), len > 0);
    }
}

/// Changes bytes, and cuts the end off.
fn mutate(bytes: &mut Vec<u8>, changes: &[(prop::sample::Index, u8)], cut: Option<prop::sample::Index>) {
    for (at, value) in changes {
        if !bytes.is_empty() {
            let at = at.index(bytes.len());
            bytes[at] = *value;
        }
    }
    if let Some(cut) = cut {
        bytes.truncate(cut.index(bytes.len() + 1));
    }
}

type Changes = (Vec<(prop::sample::Index, u8)>, Option<prop::sample::Index>);

fn changes() -> impl Strategy<Value = Changes> {
    (
        vec((any::<prop::sample::Index>(), any::<u8>()), 0..6),
        proptest::option::weighted(0.3, any::<prop::sample::Index>()),
    )
}

fn emitted(emit: impl Fn(&mut [u8]) -> usize) -> Vec<u8> {
    let mut slot = vec![0; 2048];
    let len = emit(&mut slot);
    slot.truncate(len);
    slot
}

proptest! {
    #![proptest_config(cases(2048))]

    #[test]
    fn random_bytes(bytes in vec(any::<u8>(), 0..160)) {
        parse_everything(&bytes);
    }

    /// Random bytes with a first byte that gets past the first check.
    #[test]
    fn random_bytes_with_a_plausible_start(mut bytes in vec(any::<u8>(), 40..160), first in 0x45..0x70_u8, kind: u8) {
        bytes[0] = first;
        // A TCP data offset, and an ICMPv6 type of neighbour discovery.
        bytes[12] = kind;
        parse_everything(&bytes);
        bytes[0] = 133 + kind % 4;
        bytes[1] = 0;
        parse_everything(&bytes);
    }

    #[test]
    fn changed_packets((header, arp_packet, tcp_header) in (ethernet(), arp(), tcp()),
                       data in payload(), (changes, cut) in changes(), seed: u64) {
        let mut packets = vec![
            [emitted(|out| header.emit(out)), data.clone()].concat(),
            emitted(|out| arp_packet.emit(out)),
            [emitted(|out| tcp_header.emit(out)), data.clone()].concat(),
        ];
        packets.extend(crate::identity::sample(ipv4(data.len() as u16), seed).iter().map(|header| {
            [emitted(|out| header.emit(out)), data.clone()].concat()
        }));
        packets.extend(crate::identity::sample(ipv6(data.len() as u16), seed).iter().map(|header| {
            [emitted(|out| header.emit(out)), data.clone()].concat()
        }));
        packets.extend(crate::identity::sample(icmpv4(&data), seed).iter().map(|m| emitted(|out| m.emit(out))));
        packets.extend(
            crate::identity::sample(icmpv6(&data), seed).iter().map(|(m, src, dst)| emitted(|out| m.emit(*src, *dst, out))),
        );
        for packet in &mut packets {
            mutate(packet, &changes, cut);
            parse_everything(packet);
        }
    }

    /// Option blocks of every kind of disorder, behind a header that is right.
    #[test]
    fn random_tcp_options(words in 0..=10_usize, options in vec(prop_oneof![0..=10_u8, any::<u8>()], 40)) {
        let mut segment = vec![0; 20];
        segment[12] = (5 + words as u8) << 4;
        segment.extend_from_slice(&options[..words * 4]);
        tcp_segment(&segment);
    }

    /// Chains of extension headers with plausible kinds and short lengths.
    #[test]
    fn random_extension_headers(words in vec((prop_oneof![Just(0), Just(43), Just(44), Just(60), Just(6)],
                                              0..3_u8, any::<[u8; 6]>()), 0..12)) {
        let bytes: Vec<u8> = words.iter().flat_map(|(next, len, rest)| [&[*next, *len], &rest[..]].concat()).collect();
        extensions(&bytes);
    }
}
