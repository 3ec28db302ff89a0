use super::*;
use crate::tests::frames::{self, REMOTE_V4, REMOTE_V6, SERVER_V4, SERVER_V6, arp, icmp_error, segment};
use wire::arp::Operation;

fn tuple(v6: bool, remote_port: u16, local_port: u16) -> Tuple {
    let (remote, local) = if v6 { (REMOTE_V6, SERVER_V6) } else { (REMOTE_V4, SERVER_V4) };
    Tuple { remote: bits(remote), local: bits(local), remote_port, local_port }
}

#[test]
fn segments_of_both_families_are_known() {
    for v6 in [false, true] {
        let (remote, local) = if v6 { (REMOTE_V6, SERVER_V6) } else { (REMOTE_V4, SERVER_V4) };
        let frame = segment((remote, 40_000), (local, 80), Flags::SYN, b"");
        assert_eq!(is_plain(&frame), !v6);
        assert_eq!(kind(&frame), Kind::Segment(tuple(v6, 40_000, 80), Flags::SYN));
        if !v6 {
            assert_eq!(plain(&frame), Some((tuple(false, 40_000, 80), Flags::SYN)));
        }
        // The same, tagged (IEEE 802.1Q).
        let mut tagged = frame[..12].to_vec();
        tagged.extend_from_slice(&[0x81, 0, 0, 7]);
        tagged.extend_from_slice(&frame[12..]);
        assert!(!is_plain(&tagged));
        assert_eq!(kind(&tagged), Kind::Segment(tuple(v6, 40_000, 80), Flags::SYN));
    }
}

/// RFC 791 section 3.1: a later piece has no ports, the first may have no
/// whole header.
#[test]
fn fragments_go_by_their_addresses() {
    let mut frame = segment((REMOTE_V4, 1), (SERVER_V4, 2), Flags::ACK, b"");
    for field in [[0x20, 0], [0, 8], [0x20, 8], [0, 0xb9]] {
        frame[20..22].copy_from_slice(&field);
        assert!(!is_plain(&frame));
        frame[23] = protocol::TCP;
        assert_eq!(kind(&frame), Kind::Fragment);
        frame[23] = protocol::ICMP;
        assert_eq!(kind(&frame), Kind::Piece(tuple(false, 0, 0)));
    }
    // "Do not fragment" is no fragment.
    frame[20..22].copy_from_slice(&[0x40, 0]);
    frame[23] = protocol::TCP;
    assert!(is_plain(&frame));
}

/// RFC 792: what is quoted was sent by us.
#[test]
fn an_error_has_the_tuple_of_its_flows_answers() {
    for v6 in [false, true] {
        let (remote, local) = if v6 { (REMOTE_V6, SERVER_V6) } else { (REMOTE_V4, SERVER_V4) };
        let sent = segment((local, 80), (remote, 40_000), Flags::ACK, b"some data");
        assert_eq!(kind(&icmp_error(&sent)), Kind::Error(tuple(v6, 40_000, 80)));
    }
}

#[test]
fn neighbour_messages_are_known() {
    assert_eq!(kind(&arp(Operation::Reply)), Kind::Neighbour);
    assert_eq!(kind(&arp(Operation::Request)), Kind::Other);
    assert_eq!(kind(&frames::advertisement()), Kind::Neighbour);
}

/// Whatever the bytes, nothing panics, and nothing short is anybody's.
#[test]
fn any_bytes_may_come() {
    let mut state = 1_u64;
    let whole = segment((REMOTE_V6, 40_000), (SERVER_V6, 80), Flags::ACK, b"x");
    for round in 0..20_000 {
        let mut frame = whole.clone();
        for _ in 0..round % 5 {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            let at = (state >> 40) as usize % frame.len();
            frame[at] = (state >> 32) as u8;
        }
        frame.truncate((state >> 20) as usize % (frame.len() + 1));
        let (is_plain, kind) = (is_plain(&frame), kind(&frame));
        if is_plain && frame.len() >= 54 {
            assert!(matches!(kind, Kind::Segment(..)) && plain(&frame).is_some());
        }
        if frame.len() < 42 {
            assert!(matches!(kind, Kind::Other | Kind::Piece(_) | Kind::Fragment), "{kind:?}");
        }
    }
}

/// Each of up to 16 silos gets its share of flows within 10 %.
#[test]
fn the_hash_spreads_evenly() {
    let hasher = Hasher::new([1, 2, 3, 4]);
    for silos in 2..=16 {
        let all: Vec<usize> = (0..silos).collect();
        let mut shares = vec![0_u32; silos];
        for client in 0..64_u128 {
            for port in 0..1_000_u16 {
                let flow = Tuple { remote: tuple(false, 0, 0).remote + client, ..tuple(false, 10_000 + port, 80) };
                shares[super::owner(&all, hasher.hash(&flow))] += 1;
            }
        }
        let even = 64_000 / silos as u32;
        assert!(shares.iter().all(|share| share.abs_diff(even) < even / 10), "{silos}: {shares:?}");
    }
}
