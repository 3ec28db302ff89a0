//! The bytes of broadcast frames, queries and routing updates.

use crate::layers::{ETHER_IPV4, ETHER_IPV6, ETHERNET, IPV4, IPV6, Packet, be16, put16};
use crate::mark::{self, Mark, Read};
use crate::stream::{FCS, Shape, filler};
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use wire::Mac;
use wire::checksum::{pseudo_v4, pseudo_v6, sum};

/// An EtherType for experiments (IEEE 802 clause 9.2.4), which no router has to
/// process (RFC 2544 section 11.1).
pub(super) const EXPERIMENTAL: u16 = 0x88b5;

/// Where queries come from: below the ports that flows have.
pub(super) const QUERY_PORT: u16 = 49_151;

/// RIP (RFC 2453 section 3.6), and RIPng (RFC 2080 section 2.1).
const RIP_PORT: u16 = 520;
const RIPNG_PORT: u16 = 521;
const RIPNG_GROUP: Ipv6Addr = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 9);
const RIPNG_GROUP_MAC: Mac = Mac([0x33, 0x33, 0, 0, 0, 9]);

/// Where frames to such networks come from and go to.
const ROUTED_PORT: u16 = QUERY_PORT - 1;

/// A network's metric while it can be reached, and else.
const NEAR: u8 = 7;
const UNREACHABLE: u8 = 16;
/// Networks of an update: in each state one half can be reached.
const NETWORKS: u8 = 6;
/// The first of them, in the third byte: 198.18.224.0 for the first port. The
/// test sends to others unless its destinations are drawn from all.
const FIRST_NETWORK: u8 = 224;

const UDP_HEADER: usize = 8;
const UDP: u8 = 17;

/// The smallest frame, without its check sequence.
const SMALLEST: usize = 64 - FCS;

/// A broadcast frame of the stream's first size, which carries a mark.
pub(super) fn broadcast(shape: &Shape, direction: usize, mark: &Mark) -> Vec<u8> {
    let len = usize::from(shape.sizes.first().copied().unwrap_or(0)).saturating_sub(FCS).max(SMALLEST);
    let mut bytes = ethernet(shape, direction, Mac([0xff; 6]), EXPERIMENTAL);
    let (first, second, check) = mark.words();
    bytes.extend_from_slice(&first.to_be_bytes());
    bytes.extend_from_slice(&second.to_be_bytes());
    bytes.extend_from_slice(&check.to_be_bytes());
    fill(&mut bytes, len);
    bytes
}

/// A query to the device.
pub(super) fn query(shape: &Shape, direction: usize, device: IpAddr, message: &[u8]) -> Vec<u8> {
    let (from, to) = (shape.ends[direction & 1], shape.ends[!direction & 1]);
    datagram(shape, direction, (to.mac, from.ip, device, 64), (QUERY_PORT, super::snmp::PORT), message)
}

/// Another message of the same length in a query's place.
pub(super) fn put_payload(frame: &mut [u8], message: &[u8]) {
    let Some(packet) = Packet::find(frame) else { return };
    let at = packet.payload.start + UDP_HEADER;
    if let Some(out) = frame.get_mut(at..at + message.len()) {
        out.copy_from_slice(message);
        checksum(frame);
    }
}

/// An update that says of one half of its networks that they can be reached, and
/// of the other that they cannot: state A, or B.
pub(super) fn update(shape: &Shape, direction: usize, is_b: bool) -> Vec<u8> {
    let from = shape.ends[direction & 1];
    let metric = |network: u8| if is_near(network, is_b) { NEAR } else { UNREACHABLE };
    match from.ip {
        IpAddr::V4(v4) => {
            // A response of version 1 (RFC 1058 section 3.1).
            let mut message = vec![2, 1, 0, 0];
            let port = 18 + (direction & 1) as u8;
            for network in 0..NETWORKS {
                message.extend_from_slice(&[0, 2, 0, 0, 198, port, FIRST_NETWORK + network, 0]);
                message.extend_from_slice(&[0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, metric(network)]);
            }
            let [a, b, c, _] = v4.octets();
            let all = IpAddr::V4(Ipv4Addr::new(a, b, c, 255));
            datagram(shape, direction, (Mac([0xff; 6]), from.ip, all, 1), (RIP_PORT, RIP_PORT), &message)
        }
        IpAddr::V6(_) => {
            // A response of version 1 (RFC 2080 section 2.1), from a link-local address with hop limit 255
            // (section 2.4.2).
            let mut message = vec![2, 1, 0, 0];
            for network in 0..NETWORKS {
                let third = 0xff00 | u16::from(FIRST_NETWORK + network);
                let prefix = Ipv6Addr::new(0x2001, 2, 0, third, (direction & 1) as u16, 0, 0, 0);
                message.extend_from_slice(&prefix.octets());
                message.extend_from_slice(&[0, 0, 80, metric(network)]);
            }
            let to = (RIPNG_GROUP_MAC, link_local(from.mac).into(), RIPNG_GROUP.into(), 255);
            datagram(shape, direction, to, (RIPNG_PORT, RIPNG_PORT), &message)
        }
    }
}

/// Whether a network of an update can be reached in this state.
const fn is_near(network: u8, is_b: bool) -> bool {
    (network < NETWORKS / 2) != is_b
}

/// A frame to one of the networks that the other port's updates tell of: one that
/// can be reached in this state, or one that cannot. It carries a mark.
pub(super) fn routed(shape: &Shape, direction: usize, (is_b, near): (bool, bool), mark: &Mark) -> Vec<u8> {
    let (from, to) = (shape.ends[direction & 1], shape.ends[!direction & 1]);
    let network = FIRST_NETWORK + if is_near(0, is_b) == near { 0 } else { NETWORKS - 1 };
    let port = !direction & 1;
    let destination: IpAddr = match from.ip {
        IpAddr::V4(_) => Ipv4Addr::new(198, 18 + port as u8, network, 1).into(),
        IpAddr::V6(_) => Ipv6Addr::new(0x2001, 2, 0, 0xff00 | u16::from(network), port as u16, 0, 0, 1).into(),
    };
    let (first, second, check) = mark.words();
    let message = [&first.to_be_bytes()[..], &second.to_be_bytes(), &check.to_be_bytes()].concat();
    datagram(shape, direction, (to.mac, from.ip, destination, 64), (ROUTED_PORT, ROUTED_PORT), &message)
}

/// The mark of such a frame, which a router passed on.
pub(super) fn routed_mark(frame: &[u8], signature: u32) -> Option<Mark> {
    let packet = Packet::find(frame).filter(|packet| packet.protocol == UDP && !packet.fragment)?;
    let at = packet.payload.start;
    if be16(frame, at) != Some(ROUTED_PORT) || be16(frame, at + 2) != Some(ROUTED_PORT) {
        return None;
    }
    match Mark::read(frame.get(at + UDP_HEADER..)?.first_chunk::<{ mark::LEN }>()?, signature) {
        Read::Ours(mark) => Some(mark),
        Read::Theirs(_) | Read::Broken(_) => None,
    }
}

/// The link-local address of an Ethernet address (RFC 4291 appendix A).
fn link_local(mac: Mac) -> Ipv6Addr {
    let [a, b, c, d, e, f] = mac.0;
    let pair = |high: u8, low: u8| u16::from_be_bytes([high, low]);
    Ipv6Addr::new(0xfe80, 0, 0, 0, pair(a ^ 2, b), pair(c, 0xff), pair(0xfe, d), pair(e, f))
}

fn ethernet(shape: &Shape, direction: usize, to: Mac, kind: u16) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(ETHERNET);
    bytes.extend_from_slice(&to.0);
    bytes.extend_from_slice(&shape.ends[direction & 1].mac.0);
    if let Some(vlan) = shape.vlan {
        bytes.extend_from_slice(&[0x81, 0]);
        bytes.extend_from_slice(&(vlan & 0xfff).to_be_bytes());
    }
    bytes.extend_from_slice(&kind.to_be_bytes());
    bytes
}

/// To which Ethernet address, from and to which IP address, with which hop limit.
type Addresses = (Mac, IpAddr, IpAddr, u8);

/// A UDP datagram in a frame, with its checksums.
fn datagram(
    shape: &Shape,
    direction: usize,
    (mac, from, to, limit): Addresses,
    (source, destination): (u16, u16),
    message: &[u8],
) -> Vec<u8> {
    let udp = (UDP_HEADER + message.len()) as u16;
    let kind = if from.is_ipv4() { ETHER_IPV4 } else { ETHER_IPV6 };
    let mut bytes = ethernet(shape, direction, mac, kind);
    let network = bytes.len();
    match (from, to) {
        (IpAddr::V4(from), IpAddr::V4(to)) => {
            bytes.extend_from_slice(&[0x45, 0]);
            bytes.extend_from_slice(&(udp + IPV4 as u16).to_be_bytes());
            bytes.extend_from_slice(&[0, 0, 0x40, 0, limit, UDP, 0, 0]);
            bytes.extend_from_slice(&from.octets());
            bytes.extend_from_slice(&to.octets());
            let header = sum(&bytes[network..]).finish();
            put16(&mut bytes, network + 10, header);
        }
        (from, to) => {
            bytes.extend_from_slice(&[0x60, 0, 0, 0]);
            bytes.extend_from_slice(&udp.to_be_bytes());
            bytes.extend_from_slice(&[UDP, limit]);
            bytes.extend_from_slice(&v6(from).octets());
            bytes.extend_from_slice(&v6(to).octets());
        }
    }
    for word in [source, destination, udp, 0] {
        bytes.extend_from_slice(&word.to_be_bytes());
    }
    bytes.extend_from_slice(message);
    checksum(&mut bytes);
    if bytes.len() < SMALLEST {
        bytes.resize(SMALLEST, 0);
    }
    bytes
}

/// Writes the UDP checksum of a frame made here.
fn checksum(frame: &mut [u8]) {
    let Some(packet) = Packet::find(frame) else { return };
    let at = packet.payload.start + 6;
    put16(frame, at, 0);
    let (source, destination) = packet.addresses();
    let payload = &frame[packet.payload.clone()];
    let len = payload.len();
    let pseudo = if packet.v4 {
        let address = |at: usize| Ipv4Addr::new(frame[at], frame[at + 1], frame[at + 2], frame[at + 3]);
        pseudo_v4(address(source.start), address(destination.start), UDP, len as u16)
    } else {
        let address = |at: usize| {
            let mut octets = [0; IPV6 - 24];
            octets.copy_from_slice(&frame[at..at + 16]);
            Ipv6Addr::from(octets)
        };
        pseudo_v6(address(source.start), address(destination.start), UDP, len as u32)
    };
    let checksum = pseudo.add(sum(payload)).finish();
    // Zero would say that there is none (RFC 768).
    put16(frame, at, if checksum == 0 { 0xffff } else { checksum });
}

fn fill(bytes: &mut Vec<u8>, len: usize) {
    let from = bytes.len();
    bytes.extend((from..len.max(from)).map(filler));
}

fn v6(ip: IpAddr) -> Ipv6Addr {
    match ip {
        IpAddr::V4(v4) => v4.to_ipv6_mapped(),
        IpAddr::V6(v6) => v6,
    }
}
