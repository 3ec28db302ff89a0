//! Segments whose checksum was left for hardware to complete.
//!
//! A kernel that sends to a device of this very machine (veth, virtio_net)
//! leaves the sum of the pseudo-header in the checksum's place, not
//! complemented, and the device to add the rest (`CHECKSUM_PARTIAL`,
//! include/linux/skbuff.h). No wire was in between, and nothing adds it.

use crate::checksum::{pseudo_v4, pseudo_v6};
use crate::ethernet::{self, ETHER_IPV4, ETHER_IPV6, EthernetHeader};
use crate::ipv4::{self, Ipv4Header};
use crate::ipv6::{Ipv6Header, walk_extensions};
use crate::plain::HEADERS_LEN;
use crate::protocol;
use core::net::Ipv4Addr;

const IP: usize = ethernet::HEADER_LEN;
const TCP: usize = IP + ipv4::HEADER_LEN;

/// Where the checksum stands in a TCP header.
const CHECKSUM: usize = 16;

/// Whether the TCP segment in `frame` has the sum of its pseudo-header in the
/// place of its checksum: there is nothing to verify. Of others, as of one that
/// was changed on its way, the checksum says whether they are intact; one in
/// 65,536 of the changed ones looks like this.
#[inline]
#[must_use]
pub fn lacks_checksum(frame: &[u8]) -> bool {
    match frame.first_chunk::<HEADERS_LEN>() {
        Some(head) if is_plain(head) => {
            let be16 = |at: usize| u16::from_be_bytes([head[at], head[at + 1]]);
            let address = |at: usize| Ipv4Addr::new(head[at], head[at + 1], head[at + 2], head[at + 3]);
            let total = be16(IP + 2);
            let Some(len) = total.checked_sub(ipv4::HEADER_LEN as u16) else { return false };
            let sum = pseudo_v4(address(IP + 12), address(IP + 16), protocol::TCP, len);
            be16(TCP + CHECKSUM) == sum.folded() && frame.len() >= IP + usize::from(total)
        }
        _ => by_layers(frame),
    }
}

/// Untagged Ethernet, IPv4 without options or fragments, TCP.
#[inline]
fn is_plain(head: &[u8; HEADERS_LEN]) -> bool {
    let fragment = head[IP + 6] & 0x3f != 0 || head[IP + 7] != 0;
    head[12..14] == ETHER_IPV4.to_be_bytes() && head[IP] == 0x45 && head[IP + 9] == protocol::TCP && !fragment
}

/// The same of any frame.
#[cold]
fn by_layers(frame: &[u8]) -> bool {
    let Ok((ethernet, packet)) = EthernetHeader::parse(frame) else { return false };
    let (sum, segment) = match ethernet.ether_type {
        ETHER_IPV4 => match Ipv4Header::parse(packet) {
            Ok((ip, segment)) if ip.protocol == protocol::TCP && !ip.is_fragment() => {
                (pseudo_v4(ip.src, ip.dst, protocol::TCP, segment.len() as u16), segment)
            }
            _ => return false,
        },
        ETHER_IPV6 => match Ipv6Header::parse(packet) {
            Ok((ip, payload)) => match walk_extensions(ip.next_header, payload) {
                Ok(upper) if upper.protocol == protocol::TCP && upper.fragment.is_none() => {
                    (pseudo_v6(ip.src, ip.dst, protocol::TCP, upper.payload.len() as u32), upper.payload)
                }
                _ => return false,
            },
            Err(_) => return false,
        },
        _ => return false,
    };
    let field = segment.get(CHECKSUM..).and_then(<[u8]>::first_chunk::<2>);
    field.is_some_and(|field| u16::from_be_bytes(*field) == sum.folded())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::checksum::sum;
    use crate::{Mac, tcp};
    use core::net::Ipv6Addr;

    /// A segment to port 80 that says hello, with its checksum complete, or
    /// left to hardware.
    fn frame(v6: bool, complete: bool) -> Vec<u8> {
        let mut segment = vec![0; tcp::HEADER_LEN + 5];
        segment[..4].copy_from_slice(&[0x80, 1, 0, 80]);
        segment[12] = 5 << 4;
        segment[13] = 0x18;
        segment[tcp::HEADER_LEN..].copy_from_slice(b"hello");
        let len = segment.len();
        let (four, six) = (Ipv4Addr::new(10, 0, 0, 1), Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, 1));
        let pseudo = if v6 {
            pseudo_v6(six, six, protocol::TCP, len as u32)
        } else {
            pseudo_v4(four, four, protocol::TCP, len as u16)
        };
        let field = if complete { pseudo.add(sum(&segment)).finish() } else { pseudo.folded() };
        segment[CHECKSUM..CHECKSUM + 2].copy_from_slice(&field.to_be_bytes());
        let mut out = vec![0; 100];
        let ethernet = EthernetHeader {
            dst: Mac([2, 0, 0, 0, 0, 1]),
            src: Mac([2, 0, 0, 0, 0, 2]),
            ether_type: if v6 { ETHER_IPV6 } else { ETHER_IPV4 },
            vlan: None,
        };
        let mut at = ethernet.emit(&mut out);
        at += if v6 {
            let ip = Ipv6Header {
                src: six,
                dst: six,
                next_header: protocol::TCP,
                hop_limit: 64,
                traffic_class: 0,
                flow_label: 0,
                payload_len: len as u16,
            };
            ip.emit(&mut out[at..])
        } else {
            let mut ip = [0; 20];
            ip[0] = 0x45;
            ip[2..4].copy_from_slice(&(20 + len as u16).to_be_bytes());
            ip[8] = 64;
            ip[9] = protocol::TCP;
            ip[12..16].copy_from_slice(&four.octets());
            ip[16..20].copy_from_slice(&four.octets());
            let check = sum(&ip).finish();
            ip[10..12].copy_from_slice(&check.to_be_bytes());
            out[at..at + 20].copy_from_slice(&ip);
            20
        };
        out[at..at + len].copy_from_slice(&segment);
        out.truncate(at + len);
        out
    }

    #[test]
    fn what_hardware_was_to_complete_is_told_from_what_is_complete() {
        for v6 in [false, true] {
            assert!(lacks_checksum(&frame(v6, false)));
            assert!(!lacks_checksum(&frame(v6, true)));
            // Padding to the least length of a frame is not the segment's.
            let mut padded = frame(v6, false);
            padded.extend_from_slice(&[0; 6]);
            assert!(lacks_checksum(&padded) && by_layers(&padded));
        }
    }

    #[test]
    fn what_was_changed_after_summing_is_not_let_through() {
        for v6 in [false, true] {
            let mut changed = frame(v6, true);
            let last = changed.len() - 1;
            changed[last] ^= 1;
            assert!(!lacks_checksum(&changed));
            // A length that differs is a segment that differs.
            let whole = frame(v6, false);
            assert!(!lacks_checksum(&whole[..whole.len() - 1]));
        }
    }

    #[test]
    fn the_short_way_says_what_the_long_one_says() {
        for complete in [false, true] {
            let whole = frame(false, complete);
            for at in 0..whole.len() {
                // Not in the sum of the IPv4 header, which only the long way adds up: the stack does, in any case.
                let in_header = (IP..TCP).contains(&at);
                for bit in 0..8 {
                    let mut changed = whole.clone();
                    changed[at] ^= 1 << bit;
                    let (short, long) = (lacks_checksum(&changed), by_layers(&changed));
                    assert!(short == long || in_header, "byte {at}, bit {bit}");
                    assert!(!long || short, "byte {at}, bit {bit}");
                }
            }
        }
    }

    #[test]
    fn no_bytes_are_too_few() {
        for v6 in [false, true] {
            let whole = frame(v6, false);
            assert!((0..whole.len()).all(|len| !lacks_checksum(&whole[..len])));
        }
    }
}
