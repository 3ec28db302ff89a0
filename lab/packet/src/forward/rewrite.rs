//! What modes do to a frame, in the slot that it leaves by.

use super::counts::Refused;
use crate::layers::{ETHER_ARP, ETHER_IPV4, ETHERNET, ICMP, IPV4, Packet, TCP, UDP, be16, network, put16};
use core::net::{Ipv4Addr, Ipv6Addr};
use wire::Mac;
use wire::checksum::{pseudo_v4, pseudo_v6, sum, update};

/// Sets both Ethernet addresses.
#[inline]
pub(super) fn set_macs(frame: &mut [u8], destination: Mac, source: Mac) {
    if let Some(head) = frame.first_chunk_mut::<12>() {
        head[..6].copy_from_slice(&destination.0);
        head[6..].copy_from_slice(&source.0);
    }
}

/// Swaps the Ethernet addresses.
#[inline]
pub(super) fn swap_macs(frame: &mut [u8]) {
    if let Some(head) = frame.first_chunk_mut::<12>() {
        let [a, b, c, d, e, f, g, h, i, j, k, l] = *head;
        *head = [g, h, i, j, k, l, a, b, c, d, e, f];
    }
}

/// Swaps Ethernet addresses, IP addresses and ports. No checksum changes: a
/// sum does not depend on the order of its terms.
#[inline]
pub(super) fn swap_tuple(frame: &mut [u8]) {
    swap_macs(frame);
    if swap_plain(frame) {
        return;
    }
    let Some(packet) = Packet::find(frame) else { return };
    let (source, destination) = packet.addresses();
    swap(frame, source.start, destination.start, source.len());
    if matches!(packet.protocol, TCP | UDP) && !packet.later_fragment && packet.payload.len() >= 4 {
        swap(frame, packet.payload.start, packet.payload.start + 2, 2);
    }
}

/// Nearly all there is: TCP or UDP in IPv4, without a VLAN, options or fragments.
/// All that is swapped lies in fixed places. Whether it was such a frame.
#[inline]
fn swap_plain(frame: &mut [u8]) -> bool {
    const ADDRESSES: usize = ETHERNET + 12;
    const PORTS: usize = ETHERNET + IPV4;
    let len = frame.len();
    let Some(head) = frame.first_chunk_mut::<{ PORTS + 4 }>() else { return false };
    let total = usize::from(u16::from_be_bytes([head[16], head[17]]));
    let is_plain = head[12..15] == [8, 0, 0x45]
        && matches!(head[23], TCP | UDP)
        && u16::from_be_bytes([head[20], head[21]]) & 0x1fff == 0
        && total >= IPV4 + 4
        && total <= len - ETHERNET;
    if !is_plain {
        return false;
    }
    if let Some(pair) = head[ADDRESSES..].first_chunk_mut::<8>() {
        *pair = u64::from_ne_bytes(*pair).rotate_left(32).to_ne_bytes();
    }
    if let Some(pair) = head[PORTS..].first_chunk_mut::<4>() {
        *pair = u32::from_ne_bytes(*pair).rotate_left(16).to_ne_bytes();
    }
    true
}

fn swap(frame: &mut [u8], one: usize, other: usize, len: usize) {
    for byte in 0..len {
        frame.swap(one + byte, other + byte);
    }
}

/// Verifies checksums, counts what is wrong, and writes them anew.
pub(super) fn checksums(frame: &mut [u8], refused: &mut Refused) {
    let Some(packet) = Packet::find(frame) else { return };
    if packet.v4 {
        let header = &mut frame[packet.header.clone()];
        refused.bad_ip_checksum += u64::from(sum(header).finish() != 0);
        put16(header, 10, 0);
        let checksum = sum(header).finish();
        put16(header, 10, checksum);
    }
    let Some(field) = packet.checksum().filter(|_| !packet.fragment) else { return };
    // None was computed (RFC 768); with IPv6 there is always one (RFC 8200 section 8.1).
    if packet.protocol == UDP && packet.v4 && be16(frame, field) == Some(0) {
        return;
    }
    let pseudo = pseudo(frame, &packet);
    let payload = &mut frame[packet.payload.clone()];
    refused.bad_l4_checksum += u64::from(pseudo.add(sum(payload)).finish() != 0);
    let field = field - packet.payload.start;
    put16(payload, field, 0);
    let checksum = pseudo.add(sum(payload)).finish();
    // Zero would say that there is none (RFC 768).
    put16(payload, field, if checksum == 0 && packet.protocol == UDP { 0xffff } else { checksum });
}

fn pseudo(frame: &[u8], packet: &Packet) -> wire::Sum {
    let (source, destination) = packet.addresses();
    let len = packet.payload.len();
    if packet.v4 {
        let address = |at: usize| Ipv4Addr::new(frame[at], frame[at + 1], frame[at + 2], frame[at + 3]);
        pseudo_v4(address(source.start), address(destination.start), packet.protocol, len as u16)
    } else {
        let address = |at: usize| {
            let mut octets = [0; 16];
            octets.copy_from_slice(&frame[at..at + 16]);
            Ipv6Addr::from(octets)
        };
        pseudo_v6(address(source.start), address(destination.start), packet.protocol, len as u32)
    }
}

/// Turns an ARP request or an ICMP echo request into its answer; whether it
/// was one. Requests for any address are answered, as testpmd does.
pub(super) fn answer(frame: &mut [u8], own: Mac) -> bool {
    match network(frame) {
        Some((ETHER_ARP, at)) => answer_arp(frame, at, own),
        Some((ETHER_IPV4, _)) => answer_echo(frame),
        _ => false,
    }
}

/// RFC 826, for Ethernet and IPv4.
fn answer_arp(frame: &mut [u8], at: usize, own: Mac) -> bool {
    const REQUEST: [u8; 8] = [0, 1, 8, 0, 6, 4, 0, 1];
    let Some(arp) = frame.get_mut(at..at + 28).filter(|arp| arp[..8] == REQUEST) else { return false };
    let mut asker = [0; 10];
    asker.copy_from_slice(&arp[8..18]);
    let mut asked = [0; 4];
    asked.copy_from_slice(&arp[24..28]);
    arp[7] = 2;
    arp[8..14].copy_from_slice(&own.0);
    arp[14..18].copy_from_slice(&asked);
    arp[18..28].copy_from_slice(&asker);
    let mut to = [0; 6];
    to.copy_from_slice(&asker[..6]);
    set_macs(frame, Mac(to), own);
    true
}

/// RFC 792: a request has type 8, a reply type 0, and nothing else differs.
fn answer_echo(frame: &mut [u8]) -> bool {
    const REQUEST: u16 = 0x0800;
    let Some(packet) = Packet::find(frame).filter(|packet| packet.protocol == ICMP && !packet.fragment) else {
        return false;
    };
    let message = &mut frame[packet.payload.clone()];
    if message.len() < 8 || be16(message, 0) != Some(REQUEST) || sum(message).finish() != 0 {
        return false;
    }
    put16(message, 0, 0);
    put16(message, 2, 0);
    let checksum = sum(message).finish();
    put16(message, 2, checksum);
    swap_macs(frame);
    let (source, destination) = packet.addresses();
    swap(frame, source.start, destination.start, source.len());
    true
}

/// What keeps a packet from being routed.
pub(super) enum Unrouted {
    Expired,
    BadChecksum,
    NoPacket,
}

/// Takes one off the hop limit (RFC 1812 section 5.3.1, with the checksum's
/// update by RFC 1624; RFC 8200 section 3).
pub(super) fn hop(frame: &mut [u8]) -> Result<(), Unrouted> {
    let packet = Packet::find(frame).ok_or(Unrouted::NoPacket)?;
    let header = packet.header.clone();
    if packet.v4 {
        if sum(&frame[header.clone()]).finish() != 0 {
            return Err(Unrouted::BadChecksum);
        }
        let at = header.start + 8;
        let (Some(old), Some(checksum)) = (be16(frame, at), be16(frame, at + 2)) else {
            return Err(Unrouted::NoPacket);
        };
        if old >> 8 <= 1 {
            return Err(Unrouted::Expired);
        }
        put16(frame, at, old - 0x100);
        put16(frame, at + 2, update(checksum, old, old - 0x100));
    } else {
        let limit = &mut frame[header.start + 7];
        if *limit <= 1 {
            return Err(Unrouted::Expired);
        }
        *limit -= 1;
    }
    Ok(())
}
