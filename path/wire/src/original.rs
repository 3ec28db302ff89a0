//! The packet that an ICMP error is about.

use crate::tcp::SeqNum;
use crate::{ipv4, ipv6};
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// What an ICMP error tells of the packet that caused it. We sent that
/// packet, or so the error claims: check that the source is ours and that
/// `seq` is in flight before acting on it (RFC 5927 section 4.1).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Original {
    /// Who sent it.
    pub src: IpAddr,
    /// Where it was to go.
    pub dst: IpAddr,
    /// Its upper layer (see [`crate::protocol`]).
    pub protocol: u8,
    /// First two bytes of the upper layer: the source port of TCP and UDP.
    pub src_port: u16,
    /// Next two bytes: the destination port of TCP and UDP.
    pub dst_port: u16,
    /// Next four bytes: the sequence number of TCP.
    pub seq: SeqNum,
}

impl Original {
    /// Reads an embedded IPv4 packet. It is cut short and its header checksum
    /// may no longer fit (routers change headers before they give up), so
    /// only what is needed is checked: the header is there, it is the first
    /// fragment, and eight bytes follow (RFC 792).
    #[must_use]
    pub fn parse_v4(packet: &[u8]) -> Option<Self> {
        let head = packet.first_chunk::<{ ipv4::HEADER_LEN }>()?;
        let header_len = usize::from(head[0] & 0x0f) * 4;
        let fragment_offset = u16::from_be_bytes([head[6], head[7]]) & 0x1fff;
        if head[0] >> 4 != 4 || header_len < ipv4::HEADER_LEN || fragment_offset != 0 {
            return None;
        }
        let src = Ipv4Addr::new(head[12], head[13], head[14], head[15]);
        let dst = Ipv4Addr::new(head[16], head[17], head[18], head[19]);
        Self::with_upper(src.into(), dst.into(), head[9], packet.get(header_len..)?)
    }

    /// Reads an embedded IPv6 packet, cut short. Only packets whose upper
    /// layer follows the fixed header are read, which is all that we send.
    #[must_use]
    pub fn parse_v6(packet: &[u8]) -> Option<Self> {
        let (head, upper) = packet.split_first_chunk::<{ ipv6::HEADER_LEN }>()?;
        if head[0] >> 4 != 6 {
            return None;
        }
        let src = Ipv6Addr::from(*head[8..].first_chunk::<16>()?);
        let dst = Ipv6Addr::from(*head[24..].first_chunk::<16>()?);
        Self::with_upper(src.into(), dst.into(), head[6], upper)
    }

    fn with_upper(src: IpAddr, dst: IpAddr, protocol: u8, upper: &[u8]) -> Option<Self> {
        let [s0, s1, d0, d1, q0, q1, q2, q3] = *upper.first_chunk::<8>()?;
        Some(Self {
            src,
            dst,
            protocol,
            src_port: u16::from_be_bytes([s0, s1]),
            dst_port: u16::from_be_bytes([d0, d1]),
            seq: SeqNum(u32::from_be_bytes([q0, q1, q2, q3])),
        })
    }
}
