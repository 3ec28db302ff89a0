//! The flow that a frame to be sent belongs to.

use wire::ethernet::{ETHER_IPV4, ETHER_IPV6, ETHER_VLAN, HEADER_LEN};
use wire::protocol;

/// Equal for all frames of a flow: made of addresses and ports (TCP and UDP
/// over IPv4 without fragmentation and over IPv6 without extension headers),
/// or else of the addresses alone, of IP or of Ethernet, so that the frames
/// of a conversation stay in order (IEEE 802.1AX-2014 clauses 6.2.4 and 8.2).
///
/// Not keyed: who chooses flows to load one port harms nobody but the path
/// to himself.
pub(crate) fn hash(frame: &[u8]) -> u32 {
    let (ether_type, at) = match be16(frame, 12) {
        Some(ETHER_VLAN) => (be16(frame, 16), HEADER_LEN + 4),
        other => (other, HEADER_LEN),
    };
    let ip = match ether_type {
        Some(ETHER_IPV4) => ipv4(&frame[at.min(frame.len())..]),
        Some(ETHER_IPV6) => ipv6(&frame[at.min(frame.len())..]),
        _ => None,
    };
    ip.unwrap_or_else(|| mix(frame.get(..12).map_or(0, |addresses| fold(0, addresses))))
}

fn ipv4(packet: &[u8]) -> Option<u32> {
    let head = packet.first_chunk::<20>()?;
    let addresses = fold(0, &head[12..20]);
    let fragment = u16::from_be_bytes([head[6], head[7]]) & 0x3fff != 0;
    let header_len = usize::from(head[0] & 0xf) * 4;
    let ports = if fragment { None } else { ports(head[9], packet, header_len) };
    Some(mix(addresses ^ u64::from(ports.unwrap_or(0))))
}

fn ipv6(packet: &[u8]) -> Option<u32> {
    let head = packet.first_chunk::<40>()?;
    let addresses = fold(0, &head[8..40]);
    Some(mix(addresses ^ u64::from(ports(head[6], packet, 40).unwrap_or(0))))
}

fn ports(carries: u8, packet: &[u8], at: usize) -> Option<u32> {
    if !matches!(carries, protocol::TCP | protocol::UDP) {
        return None;
    }
    let [a, b, c, d] = *packet.get(at..)?.first_chunk::<4>()?;
    Some(u32::from_be_bytes([a, b, c, d]))
}

fn be16(bytes: &[u8], at: usize) -> Option<u16> {
    let [a, b] = *bytes.get(at..)?.first_chunk::<2>()?;
    Some(u16::from_be_bytes([a, b]))
}

/// Multiplies each eight bytes in, so that their order counts.
fn fold(start: u64, bytes: &[u8]) -> u64 {
    bytes.chunks(8).fold(start, |sum, chunk| {
        let mut word = [0; 8];
        word[..chunk.len()].copy_from_slice(chunk);
        (sum ^ u64::from_be_bytes(word)).wrapping_mul(0x9e37_79b9_7f4a_7c15)
    })
}

/// Every bit of the input moves every bit of what is used.
fn mix(word: u64) -> u32 {
    (random::mix(word) >> 32) as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(vlan: bool, fragment: bool, port: u16, payload: u8) -> Vec<u8> {
        let mut bytes = vec![2; 12];
        if vlan {
            bytes.extend_from_slice(&[0x81, 0, 0, 7]);
        }
        bytes.extend_from_slice(&ETHER_IPV4.to_be_bytes());
        bytes.extend_from_slice(&[0x45, 0, 0, 60, payload, 1, if fragment { 0x20 } else { 0 }, 0]);
        bytes.extend_from_slice(&[64, protocol::TCP, payload, 0, 10, 0, 0, 1, 10, 0, 0, 2]);
        bytes.extend_from_slice(&port.to_be_bytes());
        bytes.extend_from_slice(&[0, 80, payload, payload]);
        bytes
    }

    #[test]
    fn the_frames_of_a_flow_stay_together() {
        assert_eq!(hash(&frame(false, false, 7, 1)), hash(&frame(false, false, 7, 2)));
        assert_eq!(hash(&frame(false, false, 7, 1)), hash(&frame(true, false, 7, 2)));
        assert_ne!(hash(&frame(false, false, 7, 1)), hash(&frame(false, false, 8, 1)));
        // A later fragment has no ports, so none of them counts.
        assert_eq!(hash(&frame(false, true, 7, 1)), hash(&frame(false, true, 8, 1)));
    }

    #[test]
    fn flows_spread() {
        let mut buckets = [0; 16];
        for port in 0..4096 {
            buckets[hash(&frame(false, false, port, 0)) as usize % 16] += 1;
        }
        assert!(buckets.iter().all(|count| (190..=325).contains(count)), "{buckets:?}");
    }

    #[test]
    fn no_frame_is_too_short() {
        let full = frame(true, false, 7, 1);
        for len in 0..full.len() {
            hash(&full[..len]);
        }
        let six: Vec<u8> = [&[2; 12][..], &[0x86, 0xdd], &[0x60; 44]].concat();
        for len in 0..six.len() {
            hash(&six[..len]);
        }
    }
}
