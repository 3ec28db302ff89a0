use core::net::Ipv4Addr;
use wire::checksum::{Sum, pseudo_v4, sum};
use wire::udp::{UdpHeader, has_checksum};
use wire::{LinkVouched, WireError, protocol};

const SRC: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 1);
const DST: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 2);

fn pseudo(len: usize) -> Sum {
    pseudo_v4(SRC, DST, protocol::UDP, len as u16)
}

fn datagram(payload: &[u8]) -> Vec<u8> {
    let mut bytes = vec![0; 8];
    let header = UdpHeader { src_port: 1000, dst_port: 2000 };
    assert_eq!(header.emit(&mut bytes, payload.len(), sum(payload), pseudo(8 + payload.len())), 8);
    bytes.extend_from_slice(payload);
    bytes
}

/// RFC 768: "If the computed checksum is zero, it is transmitted as all ones".
#[test]
fn a_checksum_of_zero_is_sent_as_ones() {
    // The payload that makes the rest of the sum all ones.
    let rest = datagram(&[0, 0]);
    let checksum = u16::from_be_bytes([rest[6], rest[7]]);
    let bytes = datagram(&checksum.to_be_bytes());
    assert_eq!(bytes[6..8], [0xff, 0xff]);
    assert!(UdpHeader::parse(&bytes, Some(pseudo(10))).is_ok());
}

#[test]
fn a_missing_checksum_is_allowed_only_where_the_caller_says_so() {
    let mut bytes = datagram(b"data");
    assert!(has_checksum(&bytes));
    assert_eq!(UdpHeader::parse(&bytes, None).err(), Some(WireError::BadChecksum));
    bytes[6..8].fill(0);
    assert!(!has_checksum(&bytes));
    assert!(UdpHeader::parse(&bytes, None).is_ok());
    // RFC 8200 section 8.1.
    assert_eq!(UdpHeader::parse(&bytes, Some(pseudo(12))).err(), Some(WireError::BadChecksum));
}

#[test]
fn refusals() {
    let right = datagram(b"data");
    assert_eq!(UdpHeader::parse(&right[..7], None).err(), Some(WireError::Truncated));
    // RFC 1122 section 4.1.3: the length agrees with IP's.
    for len in [0, 7, 11, 13] {
        let mut wrong = right.clone();
        wrong[5] = len;
        assert_eq!(UdpHeader::parse_trusted(&wrong, LinkVouched::new()).err(), Some(WireError::BadLength));
    }
    let mut changed = right.clone();
    changed[9] ^= 1;
    assert_eq!(UdpHeader::parse(&changed, Some(pseudo(12))).err(), Some(WireError::BadChecksum));
    let mut port = right;
    port[2..4].fill(0);
    assert_eq!(UdpHeader::parse_trusted(&port, LinkVouched::new()).err(), Some(WireError::BadAddress));
}
