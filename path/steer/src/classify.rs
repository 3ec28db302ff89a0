//! What a frame is to steering: the few fields that decide whose it is.
//!
//! Nothing is verified here but lengths: the silo that takes the frame does
//! that. A frame that is not understood stays where it arrived.

use core::net::{IpAddr, Ipv6Addr, SocketAddr};
use wire::ethernet::{ETHER_ARP, ETHER_IPV4, ETHER_IPV6, HEADER_LEN};
use wire::ipv6::walk_extensions;
use wire::tcp::Flags;
use wire::{Original, ipv4, ipv6, protocol};

/// A flow as its frames name it on arrival: remote end first.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct Tuple {
    /// The sender's address; IPv4 as IPv4-mapped.
    pub remote: u128,
    /// Our address, likewise.
    pub local: u128,
    /// The sender's port.
    pub remote_port: u16,
    /// Our port.
    pub local_port: u16,
}

/// Bytes of a tuple that one silo tells another.
pub(crate) const TUPLE_LEN: usize = 36;

impl Tuple {
    pub(crate) fn to_bytes(self) -> [u8; TUPLE_LEN] {
        let mut bytes = [0; TUPLE_LEN];
        bytes[..16].copy_from_slice(&self.remote.to_be_bytes());
        bytes[16..32].copy_from_slice(&self.local.to_be_bytes());
        bytes[32..34].copy_from_slice(&self.remote_port.to_be_bytes());
        bytes[34..].copy_from_slice(&self.local_port.to_be_bytes());
        bytes
    }

    pub(crate) fn from_bytes(bytes: &[u8]) -> Option<Self> {
        Some(Self {
            remote: u128::from_be_bytes(*bytes.first_chunk()?),
            local: u128::from_be_bytes(*bytes.get(16..)?.first_chunk()?),
            remote_port: be16(bytes, 32)?,
            local_port: be16(bytes, 34)?,
        })
    }

    /// The tuple of frames from `remote` to `local`.
    #[must_use]
    pub fn of(remote: SocketAddr, local: SocketAddr) -> Self {
        let (remote_port, local_port) = (remote.port(), local.port());
        Self { remote: bits(remote.ip()), local: bits(local.ip()), remote_port, local_port }
    }

    /// The remote and the local end.
    pub(crate) fn ends(&self) -> (SocketAddr, SocketAddr) {
        let ip = |bits: u128| Ipv6Addr::from_bits(bits).to_canonical();
        let remote = SocketAddr::new(ip(self.remote), self.remote_port);
        (remote, SocketAddr::new(ip(self.local), self.local_port))
    }
}

/// What a frame is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// A TCP segment, with its control bits.
    Segment(Tuple, Flags),
    /// A fragment of a TCP segment: only who reassembles it knows the flow.
    Fragment,
    /// A fragment of another protocol's packet, of this pair of addresses.
    Piece(Tuple),
    /// An ICMP error about a segment of ours, whose answers have this tuple.
    Error(Tuple),
    /// An ARP reply or announcement, or a neighbour advertisement.
    Neighbour,
    /// Anything else: for whoever received it.
    Other,
}

/// A TCP segment over IPv4 without options, untagged and not a fragment: what
/// nearly every frame is.
#[inline(always)]
#[must_use]
pub fn is_plain(frame: &[u8]) -> bool {
    let Some(head) = frame.first_chunk::<{ HEADER_LEN + ipv4::HEADER_LEN }>() else { return false };
    // Type, version and header length in one word.
    let kind = u32::from_be_bytes([head[12], head[13], head[14], 0]);
    head[23] == protocol::TCP && kind == PLAIN && (head[20] & 0x3f) | head[21] == 0
}

const PLAIN: u32 = (ETHER_IPV4 as u32) << 16 | 0x45 << 8;

/// The tuple and control bits of a frame for which [`is_plain`] holds.
#[inline(always)]
#[must_use]
pub fn plain(frame: &[u8]) -> Option<(Tuple, Flags)> {
    const TCP: usize = HEADER_LEN + ipv4::HEADER_LEN;
    let head = frame.first_chunk::<{ TCP + 20 }>()?;
    let word = |at: usize| u32::from_be_bytes([head[at], head[at + 1], head[at + 2], head[at + 3]]);
    let ports = word(TCP);
    let tuple = Tuple {
        remote: mapped(word(26)),
        local: mapped(word(30)),
        remote_port: (ports >> 16) as u16,
        local_port: ports as u16,
    };
    Some((tuple, Flags(head[TCP + 13])))
}

#[inline]
const fn mapped(v4: u32) -> u128 {
    0xffff_0000_0000 | v4 as u128
}

fn bits(ip: IpAddr) -> u128 {
    match ip {
        IpAddr::V4(ip) => mapped(ip.to_bits()),
        IpAddr::V6(ip) => ip.to_bits(),
    }
}

/// What a frame is, whatever it is.
#[inline(never)]
#[must_use]
pub fn kind(frame: &[u8]) -> Kind {
    try_kind(frame).unwrap_or(Kind::Other)
}

fn try_kind(frame: &[u8]) -> Option<Kind> {
    const VLAN: u16 = 0x8100;
    let (mut ether_type, mut packet) = (be16(frame, 12)?, frame.get(HEADER_LEN..)?);
    if ether_type == VLAN {
        // IEEE 802.1Q section 9.6: the type follows the tag's two bytes.
        (ether_type, packet) = (be16(packet, 2)?, packet.get(4..)?);
    }
    match ether_type {
        ETHER_IPV4 => of_ipv4(packet),
        ETHER_IPV6 => of_ipv6(packet),
        // RFC 826: the operation; 2 is a reply. An announcement is a request
        // for the sender's own address (RFC 5227 section 1.1).
        ETHER_ARP => {
            let announces = be16(packet, 6)? == 2 || packet.get(14..18)? == packet.get(24..28)?;
            Some(if announces { Kind::Neighbour } else { Kind::Other })
        }
        _ => None,
    }
}

fn of_ipv4(packet: &[u8]) -> Option<Kind> {
    let head = packet.first_chunk::<{ ipv4::HEADER_LEN }>()?;
    let header_len = usize::from(head[0] & 0xf) * 4;
    if head[0] >> 4 != 4 || header_len < ipv4::HEADER_LEN {
        return None;
    }
    let remote = mapped(u32::from_be_bytes([head[12], head[13], head[14], head[15]]));
    let local = mapped(u32::from_be_bytes([head[16], head[17], head[18], head[19]]));
    let addresses = Tuple { remote, local, remote_port: 0, local_port: 0 };
    // More fragments, or not the first (RFC 791 section 3.1).
    if be16(head, 6)? & 0x3fff != 0 {
        return Some(if head[9] == protocol::TCP { Kind::Fragment } else { Kind::Piece(addresses) });
    }
    let upper = packet.get(header_len..)?;
    match head[9] {
        protocol::TCP => segment(addresses, upper),
        // RFC 792: destination unreachable, time exceeded, parameter problem.
        protocol::ICMP if matches!(upper.first()?, 3 | 11 | 12) => error(Original::parse_v4(upper.get(8..)?)?),
        _ => None,
    }
}

fn of_ipv6(packet: &[u8]) -> Option<Kind> {
    let head = packet.first_chunk::<{ ipv6::HEADER_LEN }>()?;
    let remote = u128::from_be_bytes(*head[8..].first_chunk()?);
    let local = u128::from_be_bytes(*head[24..].first_chunk()?);
    let addresses = Tuple { remote, local, remote_port: 0, local_port: 0 };
    let upper = walk_extensions(head[6], packet.get(ipv6::HEADER_LEN..)?).ok()?;
    if upper.fragment.is_some() {
        // The fragment header names what the packet carries in each piece
        // (RFC 8200 section 4.5).
        return Some(if upper.protocol == protocol::TCP { Kind::Fragment } else { Kind::Piece(addresses) });
    }
    match upper.protocol {
        protocol::TCP => segment(addresses, upper.payload),
        protocol::ICMPV6 => match upper.payload.first()? {
            // RFC 4443 section 2.1: errors are below 128.
            0..128 => error(Original::parse_v6(upper.payload.get(8..)?)?),
            // RFC 4861 section 4.4.
            136 => Some(Kind::Neighbour),
            _ => None,
        },
        _ => None,
    }
}

fn segment(addresses: Tuple, upper: &[u8]) -> Option<Kind> {
    let flags = Flags(*upper.get(13)?);
    Some(Kind::Segment(Tuple { remote_port: be16(upper, 0)?, local_port: be16(upper, 2)?, ..addresses }, flags))
}

/// What the error quotes was sent by us: its answers come the other way.
fn error(quoted: Original) -> Option<Kind> {
    (quoted.protocol == protocol::TCP).then(|| {
        Kind::Error(Tuple {
            remote: bits(quoted.dst),
            local: bits(quoted.src),
            remote_port: quoted.dst_port,
            local_port: quoted.src_port,
        })
    })
}

fn be16(bytes: &[u8], at: usize) -> Option<u16> {
    bytes.get(at..)?.first_chunk().map(|pair| u16::from_be_bytes(*pair))
}

/// The keyed hash of tuples by which software spreads flows over silos: three
/// folded 64 × 64 → 128-bit multiplications under 256 secret bits, as the
/// stack's flow table has two. A peer that does not know the key cannot aim at a
/// silo.
#[derive(Clone, Copy, Debug)]
pub struct Hasher([u64; 4]);

impl Hasher {
    /// Under a key.
    #[must_use]
    pub const fn new(key: [u64; 4]) -> Self {
        // Odd keys: none can turn a factor into zero for all flows.
        Self([key[0] | 1, key[1] | 1, key[2] | 1, key[3] | 1])
    }

    /// The hash of a flow's addresses and ports.
    #[inline(always)]
    #[must_use]
    pub const fn hash(&self, tuple: &Tuple) -> u64 {
        let [a, b, c, d] = self.0;
        let ports = (tuple.remote_port as u64) << 16 | tuple.local_port as u64;
        let remote = fold(tuple.remote as u64 ^ a, (tuple.remote >> 64) as u64 ^ b);
        let local = (tuple.local as u64).wrapping_add(tuple.local.wrapping_shr(64) as u64);
        // Ports that differ in few bits must differ in the upper ones, which
        // choose the silo.
        fold(fold(remote ^ c, (local ^ d).wrapping_add(ports.rotate_left(32))), GOLDEN)
    }
}

/// 2⁶⁴ divided by the golden ratio, odd.
const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;

#[inline]
const fn fold(a: u64, b: u64) -> u64 {
    let product = (a as u128) * (b as u128);
    (product as u64) ^ ((product >> 64) as u64)
}

/// The one of `silos` that a hash names: each as often as the others.
#[inline(always)]
pub(crate) fn owner(silos: &[usize], hash: u64) -> usize {
    silos[(((hash >> 32) * silos.len() as u64) >> 32) as usize]
}

#[cfg(test)]
mod tests;
