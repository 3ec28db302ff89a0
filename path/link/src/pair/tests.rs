use super::*;
use wire::offload::PartialChecksum;

const NOW: Time = Time::ZERO;

fn send(link: &mut PairLink, frame: &[u8]) -> bool {
    let tx = link.split().1;
    let Some(slot) = tx.slot() else { return false };
    slot[..frame.len()].copy_from_slice(frame);
    tx.commit(frame.len(), Offload::NONE);
    true
}

fn take(link: &mut PairLink, max: usize) -> Vec<Vec<u8>> {
    let rx = link.split().0;
    let count = rx.receive(NOW, max);
    let frames = (0..count).map(|i| rx.frame(i).to_vec()).collect();
    rx.release();
    frames
}

#[test]
fn frames_arrive_once_in_order_both_ways() {
    let (mut a, mut b) = Pair::new(PairConfig { ring: 8, ..PairConfig::default() });
    for round in 0u8..100 {
        for i in 0..5 {
            assert!(send(&mut a, &[round, i, 0xaa]));
            assert!(send(&mut b, &[round, i, 0xbb, 0]));
        }
        a.split().1.flush(NOW);
        b.split().1.flush(NOW);
        let at_b: Vec<_> = (0..5).map(|i| vec![round, i, 0xaa]).collect();
        let at_a: Vec<_> = (0..5).map(|i| vec![round, i, 0xbb, 0]).collect();
        assert_eq!(take(&mut b, 32), at_b);
        assert_eq!(take(&mut a, 32), at_a);
    }
    let (a, b) = (a.counters(), b.counters());
    assert_eq!((a.tx_frames, a.tx_bytes, a.rx_frames, a.rx_bytes), (500, 1500, 500, 2000));
    assert_eq!((b.rx_frames, b.rx_bytes, b.tx_frames, b.tx_bytes), (500, 1500, 500, 2000));
}

#[test]
fn nothing_is_seen_before_the_flush() {
    let (mut a, mut b) = Pair::new(PairConfig::default());
    assert!(send(&mut a, b"x"));
    assert_eq!(b.waiting(), 0);
    assert!(take(&mut b, 32).is_empty());
    a.split().1.flush(NOW);
    assert_eq!(b.waiting(), 1);
    assert_eq!(take(&mut b, 32), [b"x"]);
}

#[test]
fn a_burst_is_bounded_by_its_maximum() {
    let (mut a, mut b) = Pair::new(PairConfig::default());
    for i in 0..10 {
        assert!(send(&mut a, &[i]));
    }
    a.split().1.flush(NOW);
    assert_eq!(take(&mut b, 4).len(), 4);
    assert_eq!(take(&mut b, 4).len(), 4);
    assert_eq!(take(&mut b, 4), [[8], [9]]);
}

#[test]
fn a_full_ring_refuses_counts_and_recovers() {
    let (mut a, mut b) = Pair::new(PairConfig { ring: 4, ..PairConfig::default() });
    for i in 0..4 {
        assert_eq!(a.split().1.room(), 4 - usize::from(i));
        assert!(send(&mut a, &[i]));
    }
    assert!(!send(&mut a, &[9]));
    assert_eq!(a.counters().tx_full, 1);
    a.split().1.flush(NOW);
    assert_eq!(take(&mut b, 1), [[0]]);
    assert_eq!(a.split().1.room(), 1);
    assert!(send(&mut a, &[4]));
    assert!(!send(&mut a, &[9]));
    a.split().1.flush(NOW);
    assert_eq!(take(&mut b, 32), [[1], [2], [3], [4]]);
}

#[test]
fn the_same_slot_is_offered_until_it_is_committed() {
    let (mut a, mut b) = Pair::new(PairConfig::default());
    let tx = a.split().1;
    tx.slot().unwrap()[0] = 1;
    assert_eq!(tx.slot().unwrap()[0], 1);
    tx.commit(1, Offload::NONE);
    tx.commit(1, Offload::NONE);
    tx.flush(NOW);
    assert_eq!(take(&mut b, 32), [[1]]);
}

#[test]
fn counts_wrap_without_harm() {
    let (mut a, mut b) = Pair::new(PairConfig { ring: 4, ..PairConfig::default() });
    let near = u32::MAX - 5;
    a.tx.committed = near;
    a.tx.ring.published.set(near);
    a.tx.ring.taken.set(near);
    for i in 0..20 {
        assert!(send(&mut a, &[i]));
        a.split().1.flush(NOW);
        assert_eq!(take(&mut b, 32), [[i]]);
    }
}

#[test]
fn a_dropped_end_is_noticed_and_what_is_sent_to_it_counted() {
    let (mut a, b) = Pair::new(PairConfig { ring: 2, ..PairConfig::default() });
    assert_eq!(a.poll_control(NOW), LinkState::Up);
    drop(b);
    assert!(send(&mut a, b"1") && send(&mut a, b"2") && !send(&mut a, b"3"));
    assert_eq!(a.poll_control(NOW), LinkState::Down);
    assert_eq!(a.poll_control(NOW), LinkState::Down);
    for _ in 0..10 {
        assert!(send(&mut a, b"4"));
        a.split().1.flush(NOW);
    }
    let counters = a.counters();
    assert_eq!((counters.tx_dropped, counters.disconnects), (10, 1));
}

#[test]
fn a_slot_holds_the_mtu_and_a_tagged_header() {
    let (mut a, _b) = Pair::new(PairConfig { mtu: 9000, ..PairConfig::default() });
    assert_eq!(a.split().1.slot().unwrap().len(), 9018);
}

/// TCP over IPv4 or IPv6 with `payload`, checksum field holding the
/// pseudo-header's sum as [`wire::Offload`] asks.
fn tcp_frame(v6: bool, flags: u8, payload: &[u8]) -> (Vec<u8>, usize) {
    let mut f = vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2];
    let tcp_len = 20 + payload.len();
    let addresses;
    if v6 {
        f.extend([0x86, 0xdd, 0x60, 0, 0, 0]);
        f.extend((tcp_len as u16).to_be_bytes());
        f.extend([6, 64]);
        addresses = f.len()..f.len() + 32;
        f.extend((0..32).map(|i| i * 7));
    } else {
        f.extend([0x08, 0x00, 0x45, 0]);
        f.extend((20 + tcp_len as u16).to_be_bytes());
        f.extend([0xff, 0xff, 0x40, 0, 64, 6, 0, 0]);
        addresses = f.len()..f.len() + 8;
        f.extend([10, 0, 0, 1, 10, 0, 0, 2]);
    }
    let pseudo = words(&f[addresses]) + 6 + tcp_len as u32;
    let start = f.len();
    f.extend([0x1f, 0x90, 0, 80, 0xff, 0xff, 0xff, 0xf0, 0, 0, 0, 1, 0x50, flags, 1, 0]);
    f.extend(folded(pseudo).to_be_bytes());
    f.extend([0, 0]);
    f.extend(payload);
    (f, start)
}

fn words(bytes: &[u8]) -> u32 {
    let word = |c: &[u8]| u32::from(c[0]) << 8 | u32::from(*c.get(1).unwrap_or(&0));
    bytes.chunks(2).map(word).sum()
}

fn folded(mut sum: u32) -> u16 {
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    sum as u16
}

/// Whether the IP lengths, IP checksum and TCP checksum of a frame hold
/// (RFC 1071: a correct sum, its checksum included, is all ones).
fn assert_valid(f: &[u8], start: usize) {
    let pseudo = if f[12] == 0x86 {
        assert_eq!(usize::from(u16::from_be_bytes([f[18], f[19]])), f.len() - 54);
        words(&f[22..54])
    } else {
        assert_eq!(usize::from(u16::from_be_bytes([f[16], f[17]])), f.len() - 14);
        assert_eq!(folded(words(&f[14..34])), 0xffff);
        words(&f[26..34])
    };
    assert_eq!(folded(pseudo + 6 + (f.len() - start) as u32 + words(&f[start..])), 0xffff);
}

fn send_offloaded(link: &mut PairLink, frame: &[u8], start: usize, segment: Option<u16>) {
    let tx = link.split().1;
    tx.slot().unwrap()[..frame.len()].copy_from_slice(frame);
    let checksum = Some(PartialChecksum { start: start as u16, field: 16 });
    tx.commit(frame.len(), Offload { checksum, segment });
    tx.flush(NOW);
}

#[test]
fn an_offloaded_checksum_is_completed_and_vouched_for() {
    let config = PairConfig { checksum_offload: true, ..PairConfig::default() };
    let (mut a, mut b) = Pair::new(config);
    assert!(a.capabilities().transmit_checksum && b.capabilities().receive_checksum);
    let (frame, start) = tcp_frame(true, 0x18, b"odd");
    send_offloaded(&mut a, &frame, start, None);
    assert!(send(&mut a, b"not vouched for"));
    a.split().1.flush(NOW);
    let rx = b.split().0;
    assert_eq!(rx.receive(NOW, 32), 2);
    assert_valid(rx.frame(0), start);
    assert!(rx.verified(0) && !rx.verified(1));
    rx.release();
}

#[test]
fn a_large_packet_is_cut_into_segments() {
    for (v6, bytes) in [(false, 10_001usize), (true, 10_001), (false, 1000), (true, 4000)] {
        let config = PairConfig { segmentation: Some(65_535), ..PairConfig::default() };
        let (mut a, mut b) = Pair::new(config);
        let payload: Vec<u8> = (0..bytes).map(|i| (i % 251) as u8).collect();
        // FIN, PSH, ACK, CWR.
        let (frame, start) = tcp_frame(v6, 0x99, &payload);
        send_offloaded(&mut a, &frame, start, Some(1000));
        assert!(send(&mut a, b"next"));
        a.split().1.flush(NOW);

        let mut frames = Vec::new();
        loop {
            // Bursts of three, so that a cut goes on over bursts.
            let taken = take(&mut b, 3);
            if taken.is_empty() {
                break;
            }
            frames.extend(taken);
        }
        assert_eq!(b.waiting(), 0);
        assert_eq!(frames.pop().unwrap(), b"next");
        assert_eq!(frames.len(), bytes.div_ceil(1000));
        let mut seen = Vec::new();
        for (i, f) in frames.iter().enumerate() {
            assert_valid(f, start);
            let seq = u32::from_be_bytes(f[start + 4..start + 8].try_into().unwrap());
            assert_eq!(seq, 0xffff_fff0u32.wrapping_add(seen.len() as u32));
            let first = if i == 0 { 0x80 } else { 0 };
            let last = if i + 1 == frames.len() { 0x09 } else { 0 };
            assert_eq!(f[start + 13], 0x10 | first | last);
            seen.extend_from_slice(&f[start + 20..]);
        }
        assert_eq!(seen, payload);
    }
}

#[test]
fn what_cannot_be_cut_is_dropped_and_counted() {
    let config = PairConfig { segmentation: Some(65_535), ..PairConfig::default() };
    let (mut a, mut b) = Pair::new(config);
    let (frame, start) = tcp_frame(false, 0x10, &[1; 3000]);
    let mut arp = frame.clone();
    arp[12..14].copy_from_slice(&[0x08, 0x06]);
    send_offloaded(&mut a, &arp, start, Some(1000));
    send_offloaded(&mut a, &frame[..start + 10], start, Some(1000));
    send_offloaded(&mut a, &frame, 200, Some(1000));
    send_offloaded(&mut a, &frame, 2, Some(1000));
    send_offloaded(&mut a, &frame, start, Some(0));
    assert_eq!(take(&mut b, 32).len(), 1, "a size of zero asks for no cut");
    assert_eq!(b.counters().rx_dropped, 4);
}
