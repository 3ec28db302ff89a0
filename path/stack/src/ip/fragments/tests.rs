use super::*;
use core::net::Ipv4Addr;
use wire::Mac;

/// The headers in front of every piece.
const HEAD: [u8; 20] = [0x45; 20];

fn key(source: u32, identification: u32) -> Key {
    let src = IpAddr::V4(Ipv4Addr::from_bits(0x0a00_0000 + source));
    Key { src, dst: IpAddr::V4(Ipv4Addr::new(10, 0, 0, 1)), identification, protocol: 17 }
}

fn piece(key: Key, offset: u16, more: bool, payload: &[u8]) -> Fragment<'_> {
    let envelope = Envelope { src: key.src, local: 0, mac: Mac::ZERO };
    Fragment { key, protocol: 17, offset, more, payload, head: &HEAD, envelope }
}

/// A payload whose every byte tells its place.
fn payload(len: usize) -> Vec<u8> {
    (0..len).map(|at| (at * 7 + at / 256) as u8).collect()
}

/// The pieces of `whole`, of `size` bytes each.
fn cut(key: Key, whole: &[u8], size: usize) -> Vec<Fragment<'_>> {
    let pieces = whole.chunks(size).enumerate();
    pieces.map(|(n, part)| piece(key, (n * size) as u16, (n + 1) * size < whole.len(), part)).collect()
}

fn take_all<'a>(reassembly: &mut Reassembly, pieces: impl IntoIterator<Item = Fragment<'a>>) -> Vec<Whole> {
    pieces.into_iter().filter_map(|piece| reassembly.on_fragment(&piece, Time::ZERO)).collect()
}

/// A small generator, so that orders differ and repeat.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: usize) -> usize {
        self.0 = self.0.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
        ((self.0 >> 33) as usize) % limit
    }

    fn shuffle<T>(&mut self, items: &mut [T]) {
        for at in (1..items.len()).rev() {
            items.swap(at, self.below(at + 1));
        }
    }
}

/// RFC 815 section 2: in whatever order the pieces come.
#[test]
fn any_order_gives_the_whole() {
    let mut random = Random(1);
    for round in 0..500 {
        let size = 8 * (8 + random.below(100));
        let whole = payload(size + 1 + random.below(3000));
        let mut pieces = cut(key(2, round), &whole, size);
        random.shuffle(&mut pieces);
        let mut reassembly = Reassembly::new();
        // The network duplicates pieces too.
        let twice = pieces.iter().flat_map(|piece| [*piece, *piece]);
        let last = pieces.len() * 2 - 2;
        let mut done = Vec::new();
        for (n, piece) in twice.enumerate() {
            let whole = reassembly.on_fragment(&piece, Time::ZERO);
            assert!(whole.is_none() || n == last);
            done.extend(whole);
        }
        assert_eq!(done, [Whole { protocol: 17, payload: whole.clone() }]);
        // The copy of the piece that completed it starts anew, and waits.
        assert_eq!(reassembly.counters().reassembled, 1);
        assert_eq!(reassembly.counters().duplicates as usize, pieces.len() - 1);
    }
}

#[test]
fn the_largest_packet() {
    let whole = payload(65_535);
    let mut reassembly = Reassembly::new();
    let done = take_all(&mut reassembly, cut(key(2, 1), &whole, 1480));
    assert_eq!(done[0].payload, whole);
    assert_eq!(reassembly.bytes, 0);
    assert_eq!(reassembly.next_deadline(), None);
}

#[test]
fn packets_are_told_apart() {
    let whole = payload(3000);
    let other_protocol = Key { protocol: 1, ..key(2, 1) };
    let other_destination = Key { dst: IpAddr::V4(Ipv4Addr::new(10, 0, 0, 9)), ..key(2, 1) };
    let keys = [key(2, 1), key(2, 2), key(3, 1), other_protocol, other_destination];
    let mut reassembly = Reassembly::new();
    let cuts: Vec<_> = keys.iter().map(|key| cut(*key, &whole, 1000)).collect();
    for n in 0..2 {
        assert_eq!(take_all(&mut reassembly, cuts.iter().map(|pieces| pieces[n])), []);
    }
    assert_eq!(take_all(&mut reassembly, cuts.iter().map(|pieces| pieces[2])).len(), keys.len());
}

/// RFC 8200 section 4.5: the next header of the first piece counts.
#[test]
fn the_first_piece_says_what_it_is() {
    let key = Key { protocol: 0, ..key(2, 1) };
    let mut reassembly = Reassembly::new();
    let second = Fragment { protocol: 99, ..piece(key, 8, false, b"rest") };
    assert_eq!(reassembly.on_fragment(&second, Time::ZERO), None);
    let first = Fragment { protocol: 6, ..piece(key, 0, true, b"8 bytes.") };
    let whole = reassembly.on_fragment(&first, Time::ZERO);
    assert_eq!(whole, Some(Whole { protocol: 6, payload: b"8 bytes.rest".to_vec() }));
}

/// RFC 5722 section 4: an overlap costs the packet, including pieces yet to
/// come; so do ends that contradict each other.
#[test]
fn overlaps_are_refused() {
    let bytes = payload(64);
    let base = [piece(key(2, 1), 16, true, &bytes[..16])];
    let wrong: [&[Fragment<'_>]; 8] = [
        &[piece(key(2, 1), 8, true, &bytes[..16])],
        &[piece(key(2, 1), 24, true, &bytes[..16])],
        &[piece(key(2, 1), 0, true, &bytes[..64])],
        &[piece(key(2, 1), 16, true, &bytes[..8])],
        // The same place, other bytes.
        &[piece(key(2, 1), 16, true, &bytes[1..17])],
        // An end within what is there, and a second end.
        &[piece(key(2, 1), 0, false, &bytes[..8])],
        &[piece(key(2, 1), 32, false, &bytes[..8]), piece(key(2, 1), 40, false, &bytes[..8])],
        // A piece beyond the end.
        &[piece(key(2, 1), 32, false, &bytes[..8]), piece(key(2, 1), 40, true, &bytes[..8])],
    ];
    for pieces in wrong {
        let mut reassembly = Reassembly::new();
        assert_eq!(take_all(&mut reassembly, base.iter().chain(pieces).copied()), []);
        assert_eq!((reassembly.counters().overlapping, reassembly.bytes), (1, 0));
        // The rest that would complete an honest packet.
        let rest = [piece(key(2, 1), 0, true, &bytes[..16]), piece(key(2, 1), 32, false, &bytes[..8])];
        assert_eq!(take_all(&mut reassembly, base.into_iter().chain(rest)), []);
        assert_eq!(reassembly.bytes, 0);
        // After the time it is forgotten, and not counted twice.
        assert_eq!(reassembly.poll_timed_out(Time::ZERO + TIMEOUT), None);
        assert_eq!((reassembly.counters().timed_out, reassembly.next_deadline()), (0, None));
    }
}

#[test]
fn the_last_piece_alone_is_not_its_own_duplicate() {
    let bytes = payload(16);
    let mut reassembly = Reassembly::new();
    let first = piece(key(2, 1), 8, false, &bytes[..8]);
    // As the last but one, the same bytes contradict it.
    let other = piece(key(2, 1), 8, true, &bytes[..8]);
    assert_eq!(take_all(&mut reassembly, [first, other]), []);
    assert_eq!((reassembly.counters().overlapping, reassembly.counters().duplicates), (1, 0));
}

#[test]
fn pieces_that_cannot_be_are_dropped() {
    let bytes = payload(16);
    let mut reassembly = Reassembly::new();
    let wrong = [
        piece(key(2, 1), 0, true, &[]),
        piece(key(2, 1), 8, false, &[]),
        piece(key(2, 1), 0, true, &bytes[..15]),
        piece(key(2, 1), 65_528, false, &bytes[..8]),
    ];
    assert_eq!(take_all(&mut reassembly, wrong), []);
    assert_eq!(reassembly.counters().malformed, 4);
    assert_eq!(reassembly.next_deadline(), None);
}

/// RFC 1122 section 3.3.2: a fixed time from the first piece on.
#[test]
fn time_runs_from_the_first_piece() {
    let whole = payload(3000);
    let pieces = cut(key(2, 1), &whole, 1000);
    let mut reassembly = Reassembly::new();
    assert_eq!(reassembly.on_fragment(&pieces[0], Time::ZERO), None);
    let late = Time::from_millis(29_999);
    assert_eq!(reassembly.on_fragment(&pieces[1], late), None);
    assert_eq!(reassembly.next_deadline(), Some(Time::ZERO + TIMEOUT));
    assert!(!reassembly.is_due(late));
    assert!(reassembly.poll_timed_out(Time::ZERO + TIMEOUT).is_some());
    assert!(reassembly.on_fragment(&pieces[2], Time::ZERO + TIMEOUT).is_none());
    assert_eq!(reassembly.counters().timed_out, 1);
    // What came late waits for a packet that will not come.
    assert_eq!(reassembly.poll_timed_out(Time::from_millis(60_000)), None);
    assert_eq!((reassembly.counters().timed_out, reassembly.bytes), (2, 0));
}

/// RFC 1122 section 3.3.2, RFC 8200 section 4.5: of what is given up, the
/// first piece is quoted, if it came.
#[test]
fn the_first_piece_is_quoted() {
    let whole = payload(3000);
    let pieces = cut(key(2, 1), &whole, 1000);
    let quoted = |given: &[usize]| {
        let mut reassembly = Reassembly::new();
        assert_eq!(take_all(&mut reassembly, given.iter().map(|at| pieces[*at])), []);
        let told = reassembly.poll_timed_out(Time::ZERO + TIMEOUT);
        assert_eq!((reassembly.counters().timed_out, reassembly.bytes), (1, 0));
        assert_eq!(reassembly.poll_timed_out(Time::MAX), None);
        told.map(|told| (told.head_len, told.protocol, told.first))
    };
    let expected = [&HEAD[..], &whole[..1000]].concat();
    assert_eq!(quoted(&[0]), Some((HEAD.len(), 17, expected.clone())));
    assert_eq!(quoted(&[2, 0]), Some((HEAD.len(), 17, expected)));
    assert_eq!(quoted(&[1, 2]), None);
    // Too many headers to keep, of a packet that is put together all the same.
    let long = [0; MAX_HEAD + 1];
    let mut reassembly = Reassembly::new();
    assert_eq!(reassembly.on_fragment(&Fragment { head: &long, ..pieces[0] }, Time::ZERO), None);
    assert_eq!(reassembly.poll_timed_out(Time::ZERO + TIMEOUT), None);
    let all = pieces.iter().map(|piece| Fragment { head: &long, ..*piece });
    assert_eq!(take_all(&mut reassembly, all)[0].payload, whole);
}

#[test]
fn too_many_pieces_cost_the_packet() {
    let whole = payload(8 * (MAX_PIECES + 2));
    let mut reassembly = Reassembly::new();
    assert_eq!(take_all(&mut reassembly, cut(key(2, 1), &whole, 8)), []);
    assert_eq!((reassembly.counters().limited, reassembly.bytes), (1, 0));
    // As many as allowed pass.
    let done = take_all(&mut reassembly, cut(key(2, 2), &whole[..8 * MAX_PIECES], 8));
    assert_eq!(done.len(), 1);
}

/// Many packets of one sender, begun and never completed, cost the others
/// nothing.
#[test]
fn one_sender_does_not_displace_another() {
    let whole = payload(3000);
    let honest = cut(key(3, 1), &whole, 1000);
    let mut reassembly = Reassembly::new();
    assert_eq!(take_all(&mut reassembly, honest[..2].iter().copied()), []);
    for n in 0..10_000 {
        assert_eq!(take_all(&mut reassembly, [piece(key(2, n), 0, true, &whole[..1480])]), []);
        assert!(reassembly.bytes <= MAX_BYTES);
    }
    assert_eq!(reassembly.counters().limited, 10_000 - MAX_PACKETS_PER_SOURCE as u64);
    assert_eq!(take_all(&mut reassembly, [honest[2]]).len(), 1);
}

/// Nor do those of one network of IPv6, however many addresses it has.
#[test]
fn one_network_does_not_displace_another() {
    let whole = payload(3000);
    let of = |net: u16, host: u16| {
        let src = core::net::Ipv6Addr::new(0x2001, 0xdb8, 0, net, 0, 0, 0, host);
        Key { src: src.into(), dst: IpAddr::V6(core::net::Ipv6Addr::LOCALHOST), identification: 1, protocol: 0 }
    };
    let honest = cut(of(2, 1), &whole, 1000);
    let mut reassembly = Reassembly::new();
    assert_eq!(take_all(&mut reassembly, honest[..2].iter().copied()), []);
    for host in 0..1_000 {
        assert_eq!(take_all(&mut reassembly, [piece(of(1, host), 0, true, &whole[..1480])]), []);
    }
    assert_eq!(reassembly.counters().limited, 1_000 - MAX_PACKETS_PER_SOURCE as u64);
    assert_eq!(take_all(&mut reassembly, [honest[2]]).len(), 1);
}

#[test]
fn bytes_of_one_sender_are_bounded() {
    let whole = payload(65_000);
    let mut reassembly = Reassembly::new();
    for n in 0..50 {
        let mut pieces = cut(key(2, n), &whole, 1480);
        pieces.pop();
        assert_eq!(take_all(&mut reassembly, pieces), []);
        assert!(reassembly.bytes <= MAX_BYTES_PER_SOURCE);
    }
    assert!(reassembly.counters().limited > 0);
}

#[test]
fn many_senders_are_bounded_and_the_latest_is_served() {
    let whole = payload(3000);
    let mut reassembly = Reassembly::new();
    for source in 0..10_000 {
        let pieces = cut(key(source, 1), &whole, 1000);
        assert_eq!(take_all(&mut reassembly, pieces[..2].iter().copied()), []);
        assert!(reassembly.packets.len() <= MAX_PACKETS && reassembly.bytes <= MAX_BYTES);
    }
    assert_eq!(take_all(&mut reassembly, [cut(key(9_999, 1), &whole, 1000)[2]]).len(), 1);
}

/// Any pieces at all: the books stay right, and what comes out is made of
/// bytes that went in at those very places.
#[test]
fn random_pieces_keep_the_books() {
    let whole = payload(512);
    let mut random = Random(7);
    let mut reassembly = Reassembly::new();
    let mut now = 0;
    for step in 0..100_000 {
        // By turns a flood, and a trickle that times out.
        now += if step / 2000 % 2 == 0 { 10 } else { 500 };
        let key = key(random.below(20) as u32, random.below(30) as u32);
        let start = random.below(8) * 64;
        let more = random.below(4) != 0;
        // Now and then of a length that none but a last piece has.
        let len = if random.below(8) == 0 { 1 + random.below(192) } else { 64 * (1 + random.below(3)) };
        let end = (start + len).min(whole.len());
        let piece = piece(key, start as u16, more, &whole[start..end]);
        while reassembly.poll_timed_out(Time::from_millis(now)).is_some() {}
        if let Some(done) = reassembly.on_fragment(&piece, Time::from_millis(now)) {
            assert_eq!(done.payload, whole[..done.payload.len()]);
        }
        assert_eq!(reassembly.bytes, reassembly.packets.iter().map(Packet::cost).sum::<usize>());
        assert!(reassembly.packets.is_sorted_by_key(|packet| packet.deadline));
    }
    let counters = reassembly.counters();
    let met = [
        counters.reassembled,
        counters.overlapping,
        counters.timed_out,
        counters.limited,
        counters.duplicates,
        counters.malformed,
    ];
    assert!(met.iter().all(|count| *count > 0), "{counters:?}");
}
