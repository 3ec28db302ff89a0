//! What is emitted is parsed back as it was.

use crate::cases;
use crate::strategies::*;
use proptest::prelude::*;
use wire::arp::ArpPacket;
use wire::ethernet::EthernetHeader;
use wire::icmpv4::Icmpv4;
use wire::icmpv6::{Icmpv6, NEIGHBOR_HOP_LIMIT};
use wire::ipv4::Ipv4Header;
use wire::ipv6::Ipv6Header;
use wire::tcp::{Established, Flags, SeqNum, TcpHeader, TcpOptions, Timestamps, set_checksum};
use wire::udp::UdpHeader;
use wire::{Sum, checksum, protocol};

/// `emit` into a slot of every length: nothing is written below the length
/// that it asks for, and no more than it from there on.
fn emitted(emit: impl Fn(&mut [u8]) -> usize) -> Vec<u8> {
    let mut slot = vec![0xa5; 2048];
    let len = emit(&mut slot);
    assert!(slot[len..].iter().all(|byte| *byte == 0xa5), "wrote beyond its length");
    for short in [0, len / 2, len - 1] {
        let mut room = vec![0; short];
        assert_eq!(emit(&mut room), 0, "wrote {len} bytes into {short}");
    }
    slot.truncate(len);
    slot
}

proptest! {
    #![proptest_config(cases(512))]

    #[test]
    fn ethernet_header(header in ethernet(), payload in payload()) {
        let frame = [emitted(|out| header.emit(out)), payload.clone()].concat();
        prop_assert_eq!(frame.len(), header.header_len() + payload.len());
        prop_assert_eq!(EthernetHeader::parse(&frame), Ok((header, &payload[..])));
    }

    #[test]
    fn arp_packet(packet in arp(), padding in payload()) {
        let frame = [emitted(|out| packet.emit(out)), padding].concat();
        prop_assert_eq!(ArpPacket::parse(&frame), Ok(packet));
    }

    #[test]
    fn ipv4_header((header, payload) in payload().prop_flat_map(|p| (ipv4(p.len() as u16), Just(p))), padding in 0..50_usize) {
        let packet = [emitted(|out| header.emit(out)), payload.clone(), vec![0x5a; padding]].concat();
        prop_assert_eq!(Ipv4Header::parse(&packet), Ok((header, &payload[..])));
    }

    #[test]
    fn ipv6_header((header, payload) in payload().prop_flat_map(|p| (ipv6(p.len() as u16), Just(p))), padding in 0..50_usize) {
        let packet = [emitted(|out| header.emit(out)), payload.clone(), vec![0x5a; padding]].concat();
        prop_assert_eq!(Ipv6Header::parse(&packet), Ok((header, &payload[..])));
    }

    #[test]
    fn udp_header(header in udp(), payload in payload(), addresses in addresses()) {
        let pseudo = pseudo(addresses, protocol::UDP, 8 + payload.len());
        let sum = checksum::sum(&payload);
        let datagram = [emitted(|out| header.emit(out, payload.len(), sum, pseudo)), payload.clone()].concat();
        let (parsed, rest, _) = UdpHeader::parse(&datagram, Some(pseudo)).unwrap();
        prop_assert_eq!((parsed, rest), (header, &payload[..]));
    }

    #[test]
    fn tcp_header(header in tcp(), payload in payload(), addresses in addresses()) {
        let mut head = emitted(|out| header.emit(out));
        prop_assert_eq!(head.len(), header.header_len());
        let pseudo = pseudo(addresses, protocol::TCP, head.len() + payload.len());
        set_checksum(&mut head, pseudo.add(checksum::sum(&payload)));
        let segment = [head, payload.clone()].concat();
        let (parsed, rest, _) = TcpHeader::parse(&segment, pseudo).unwrap();
        prop_assert_eq!((parsed, rest), (header, &payload[..]));
    }

    /// The fixed layout is the general one, byte for byte.
    #[test]
    fn established_segment(ports: [u16; 2], numbers: [u32; 2], flags: u8, window: u16,
                           stamps: Option<(u32, u32)>, payload in payload(), addresses in addresses()) {
        let timestamps = stamps.map(|(value, echo)| Timestamps { value, echo });
        let [src_port, dst_port] = ports;
        let [seq, ack] = numbers.map(SeqNum);
        let fixed = Established { src_port, dst_port, seq, ack, flags: Flags(flags), window, timestamps };
        let options = TcpOptions { timestamps, ..TcpOptions::NONE };
        let general = TcpHeader { src_port, dst_port, seq, ack, flags: Flags(flags), window, urgent: 0, options };

        let sum = pseudo(addresses, protocol::TCP, fixed.header_len() + payload.len()).add(checksum::sum(&payload));
        let mut expected = emitted(|out| general.emit(out));
        set_checksum(&mut expected, sum);
        prop_assert_eq!(emitted(|out| fixed.emit(out, sum)), expected);
    }

    #[test]
    fn icmpv4_message((data, seed) in (payload(), any::<u64>())) {
        for message in sample(icmpv4(&data), seed) {
            let bytes = emitted(|out| message.emit(out));
            prop_assert_eq!(bytes.len(), message.emit_len());
            prop_assert_eq!(Icmpv4::parse(&bytes), Ok(message));
        }
    }

    #[test]
    fn icmpv6_message((data, seed) in (payload(), any::<u64>())) {
        for (message, src, dst) in sample(icmpv6(&data), seed) {
            let bytes = emitted(|out| message.emit(src, dst, out));
            prop_assert_eq!(Icmpv6::parse(&bytes, src, dst, NEIGHBOR_HOP_LIMIT), Ok(message));
        }
    }

    /// A segment with a changed bit is refused, wherever the bit is.
    #[test]
    fn tcp_checksum_covers_everything(header in tcp(), payload in payload(), addresses in addresses(),
                                      at: prop::sample::Index, bit in 0..8_u8) {
        let mut head = emitted(|out| header.emit(out));
        let pseudo = pseudo(addresses, protocol::TCP, head.len() + payload.len());
        set_checksum(&mut head, pseudo.add(checksum::sum(&payload)));
        let mut segment = [head, payload].concat();
        let at = at.index(segment.len());
        segment[at] ^= 1 << bit;
        prop_assert_eq!(TcpHeader::parse(&segment, pseudo).err(), Some(wire::WireError::BadChecksum));
        // The pseudo-header counts too.
        segment[at] ^= 1 << bit;
        prop_assert!(TcpHeader::parse(&segment, pseudo.add_u16(1)).is_err());
        prop_assert!(TcpHeader::parse(&segment, pseudo.add(Sum::ZERO)).is_ok());
    }
}

/// Some values of a strategy that borrows, from a seed.
pub fn sample<T: std::fmt::Debug>(strategy: impl Strategy<Value = T>, seed: u64) -> Vec<T> {
    use proptest::strategy::ValueTree;
    use proptest::test_runner::{Config, RngSeed, TestRunner};
    let config = Config { rng_seed: RngSeed::Fixed(seed), failure_persistence: None, ..Config::default() };
    let mut runner = TestRunner::new(config);
    (0..4).map(|_| strategy.new_tree(&mut runner).unwrap().current()).collect()
}
