use core::net::Ipv4Addr;
use wire::arp::{ArpPacket, Operation, PACKET_LEN};
use wire::ethernet::{ETHER_ARP, ETHER_IPV4, ETHER_VLAN, EthernetHeader};
use wire::{Mac, WireError};

const A: Mac = Mac([2, 0, 0x5e, 0x10, 0, 1]);
const B: Mac = Mac([2, 0, 0x5e, 0x10, 0, 0xff]);

#[test]
fn mac_reads_what_it_writes() {
    assert_eq!(A.to_string(), "02:00:5e:10:00:01");
    assert_eq!("02:00:5E:10:00:ff".parse(), Ok(B));
    for wrong in [
        "",
        "02:00:5e:10:00",
        "02:00:5e:10:00:01:02",
        "2:00:5e:10:00:01",
        "+2:00:5e:10:00:01",
        "02-00-5e-10-00-01",
        "02:00:5e:10:00:0é",
    ] {
        assert!(wrong.parse::<Mac>().is_err(), "{wrong}");
    }
}

#[test]
fn mac_kinds() {
    assert!(Mac::BROADCAST.is_multicast());
    assert!(Mac([0x33, 0x33, 0, 0, 0, 1]).is_multicast());
    assert!(A.is_unicast());
    assert!(!Mac::BROADCAST.is_unicast());
    assert!(!Mac::ZERO.is_unicast());
}

#[test]
fn untagged_frame() {
    let mut frame = [0; 20];
    let header = EthernetHeader { dst: B, src: A, vlan: None, ether_type: ETHER_IPV4 };
    assert_eq!(header.emit(&mut frame), 14);
    assert_eq!(frame[..14], [2, 0, 0x5e, 0x10, 0, 0xff, 2, 0, 0x5e, 0x10, 0, 1, 8, 0]);
    assert_eq!(EthernetHeader::parse(&frame), Ok((header, &[0; 6][..])));
    assert_eq!(EthernetHeader::parse(&frame[..13]), Err(WireError::Truncated));
    assert_eq!((Mac::sender_of(&frame), Mac::sender_of(&frame[..13])), (A, Mac::ZERO));
}

/// IEEE 802.1Q: the tag stands between the addresses and the type.
#[test]
fn tagged_frame() {
    let mut frame = [0; 18];
    let header = EthernetHeader { dst: B, src: A, vlan: Some(0xa064), ether_type: ETHER_ARP };
    assert_eq!(header.emit(&mut frame), 18);
    assert_eq!(frame[12..], [0x81, 0, 0xa0, 0x64, 8, 6]);
    assert_eq!(header.vlan_id(), Some(100));
    assert_eq!(EthernetHeader::parse(&frame), Ok((header, &[][..])));
    assert_eq!(EthernetHeader::parse(&frame[..17]), Err(WireError::Truncated));
}

#[test]
fn second_tag_is_left_to_the_caller() {
    let mut frame = [0; 22];
    EthernetHeader { dst: B, src: A, vlan: Some(1), ether_type: ETHER_VLAN }.emit(&mut frame);
    let (header, payload) = EthernetHeader::parse(&frame).unwrap();
    assert_eq!((header.ether_type, payload.len()), (ETHER_VLAN, 4));
}

/// RFC 826: "Packet format".
#[test]
fn arp_bytes() {
    let request = ArpPacket {
        operation: Operation::Request,
        sender_mac: A,
        sender_ip: Ipv4Addr::new(10, 0, 0, 1),
        target_mac: Mac::ZERO,
        target_ip: Ipv4Addr::new(10, 0, 0, 2),
    };
    let mut bytes = [0; PACKET_LEN];
    assert_eq!(request.emit(&mut bytes), PACKET_LEN);
    let expected = [0, 1, 8, 0, 6, 4, 0, 1, 2, 0, 0x5e, 0x10, 0, 1, 10, 0, 0, 1, 0, 0, 0, 0, 0, 0, 10, 0, 0, 2];
    assert_eq!(bytes, expected);
}

#[test]
fn arp_refuses_what_it_cannot_serve() {
    let reply = ArpPacket {
        operation: Operation::Reply,
        sender_mac: A,
        sender_ip: Ipv4Addr::new(10, 0, 0, 1),
        target_mac: B,
        target_ip: Ipv4Addr::new(10, 0, 0, 2),
    };
    let mut right = [0; PACKET_LEN];
    reply.emit(&mut right);
    assert_eq!(ArpPacket::parse(&right), Ok(reply));
    assert_eq!(ArpPacket::parse(&right[..27]), Err(WireError::Truncated));
    // Hardware type, protocol type, both lengths, operation.
    for (at, error) in [1, 2, 4, 5, 7].map(|at| (at, WireError::Unsupported)) {
        let mut wrong = right;
        wrong[at] += 5;
        assert_eq!(ArpPacket::parse(&wrong), Err(error), "byte {at}");
    }
    // RFC 1812 section 3.3.2: a group is no one's hardware address.
    let mut group = right;
    group[8..14].fill(0xff);
    assert_eq!(ArpPacket::parse(&group), Err(WireError::BadAddress));
}
