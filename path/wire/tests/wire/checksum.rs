use crate::cases;
use core::net::{Ipv4Addr, Ipv6Addr};
use proptest::collection::vec;
use proptest::prelude::*;
use wire::checksum::{Sum, copy_and_sum, pseudo_v4, pseudo_v6, sum, update};

/// RFC 1071 section 1, word by word in network order.
fn reference(bytes: &[u8]) -> u16 {
    let mut total = 0_u64;
    for pair in bytes.chunks(2) {
        total += u64::from(u16::from_be_bytes([pair[0], *pair.get(1).unwrap_or(&0)]));
    }
    while total > 0xffff {
        total = (total & 0xffff) + (total >> 16);
    }
    !(total as u16)
}

/// Bytes without a pattern that a mistake could hide behind.
fn noise(len: usize) -> Vec<u8> {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let next = || {
        state = state.wrapping_mul(0xd129_0d6b_8a5f_19e5).wrapping_add(1);
        (state >> 56) as u8
    };
    std::iter::repeat_with(next).take(len).collect()
}

/// RFC 1071 section 3: the sum of 00 01 f2 03 f4 f5 f6 f7 is ddf2.
#[test]
fn rfc_1071_example() {
    let bytes = [0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7];
    assert_eq!(sum(&bytes).folded(), 0xddf2);
    assert_eq!(sum(&bytes).finish(), !0xddf2);
}

/// The header checksum of a well-known IPv4 header example.
#[test]
fn ipv4_header_example() {
    let header = [
        0x45, 0x00, 0x00, 0x73, 0x00, 0x00, 0x40, 0x00, 0x40, 0x11, 0x00, 0x00, 0xc0, 0xa8, 0x00, 0x01, 0xc0, 0xa8,
        0x00, 0xc7,
    ];
    assert_eq!(sum(&header).finish(), 0xb861);
    assert_eq!(Sum::of_array(&header).finish(), 0xb861);
}

#[test]
fn equals_the_reference_at_every_alignment_and_length() {
    let bytes = noise(16 + 600);
    for start in 0..16 {
        for len in 0..600 {
            let piece = &bytes[start..start + len];
            assert_eq!(sum(piece).finish(), reference(piece), "start {start}, length {len}");
        }
    }
}

#[test]
fn carries_are_not_lost_in_all_ones() {
    for len in 0..600 {
        let ones = vec![0xff; len];
        assert_eq!(sum(&ones).finish(), reference(&ones), "length {len}");
        assert_eq!(sum(&ones).add(sum(&ones)).finish(), reference(&[ones.clone(), vec![0; len % 2], ones].concat()));
    }
}

/// Where it goes on by wide instructions, and where in its steps it ends.
#[test]
fn long_pieces_sum_at_every_length() {
    let src = noise(1 + 1_400);
    for start in 0..2 {
        for len in 900..1_400 {
            let piece = &src[start..start + len];
            assert_eq!(sum(piece).finish(), reference(piece), "start {start}, length {len}");
        }
    }
    let ones = vec![0xff; 70_000];
    assert_eq!(sum(&ones).finish(), reference(&ones));
    let mut copy = vec![0; 70_000];
    assert_eq!(copy_and_sum(&mut copy, &ones).finish(), reference(&ones));
}

#[test]
fn nothing_sums_to_nothing() {
    assert_eq!(sum(&[]), Sum::ZERO);
    assert_eq!(Sum::ZERO.finish(), 0xffff);
    assert_eq!(sum(&[0; 100]).finish(), 0xffff);
}

/// Whole is what [`Sum::finish`] makes zero: sums about each multiple of 2¹⁶ − 1, up to the
/// largest, and any others.
#[test]
fn what_is_intact_has_a_checksum_of_zero() {
    let multiples = (0..=64).map(|shift| u64::MAX.checked_shr(shift).unwrap_or(0) / 0xffff * 0xffff);
    let few = (0..70_000).map(|count| count * 0xffff);
    let others = noise(80_000);
    let others = others.as_chunks::<8>().0.iter().map(|bytes| u64::from_ne_bytes(*bytes));
    let mut intact = 0;
    for middle in multiples.chain(few).chain(others) {
        for total in (0..5).map(|off| middle.wrapping_add(off).wrapping_sub(2)) {
            let sum = Sum::of_total(total);
            assert_eq!(sum.is_intact(), sum.finish() == 0, "{total:#x}");
            intact += u32::from(sum.is_intact());
        }
    }
    assert!(intact >= 70_000, "{intact}");
}

#[test]
fn copy_copies_and_sums_at_every_length_and_alignment() {
    let src = noise(8 + 600);
    for start in 0..8 {
        for len in 0..600 {
            let piece = &src[start..start + len];
            let mut dst = vec![0xa5; len + 16];
            let copied = copy_and_sum(&mut dst[start..start + len], piece);
            assert_eq!(copied.finish(), reference(piece), "start {start}, length {len}");
            assert_eq!(&dst[start..start + len], piece);
            assert!(dst[..start].iter().chain(&dst[start + len..]).all(|byte| *byte == 0xa5));
        }
    }
}

#[test]
fn copy_takes_the_shorter_length() {
    let src = noise(100);
    let mut dst = [0; 60];
    assert_eq!(copy_and_sum(&mut dst, &src).finish(), reference(&src[..60]));
    assert_eq!(dst[..], src[..60]);
    let mut dst = [0xa5; 120];
    assert_eq!(copy_and_sum(&mut dst, &src).finish(), reference(&src));
    assert_eq!(dst[..100], src[..]);
    assert!(dst[100..].iter().all(|byte| *byte == 0xa5));
}

#[test]
fn pseudo_headers_equal_their_bytes() {
    let src = Ipv4Addr::new(192, 0, 2, 1);
    let dst = Ipv4Addr::new(198, 51, 100, 255);
    let bytes = [&src.octets()[..], &dst.octets(), &[0, 6], &4321_u16.to_be_bytes()].concat();
    assert_eq!(pseudo_v4(src, dst, 6, 4321).finish(), reference(&bytes));

    let src: Ipv6Addr = "2001:db8::ffff:fffe".parse().unwrap();
    let dst: Ipv6Addr = "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff".parse().unwrap();
    let bytes = [&src.octets()[..], &dst.octets(), &70_000_u32.to_be_bytes(), &[0, 0, 0, 58]].concat();
    assert_eq!(pseudo_v6(src, dst, 58, 70_000).finish(), reference(&bytes));
}

proptest! {
    #![proptest_config(cases(512))]

    /// The pieces of a rope, odd ones included.
    #[test]
    fn pieces_append(pieces in vec(vec(any::<u8>(), 0..90), 0..8)) {
        let mut total = Sum::ZERO;
        let mut len = 0;
        for piece in &pieces {
            total = total.append(sum(piece), len % 2 == 1);
            len += piece.len();
        }
        prop_assert_eq!(total.finish(), reference(&pieces.concat()));
    }

    #[test]
    fn fields_add(bytes in vec(any::<u8>(), 0..40), half: u16, word: u32, words: [u32; 5]) {
        let even = bytes.len() / 2 * 2;
        let total = sum(&bytes[..even]).add_u16(half).add_u32(word).add(Sum::of_words(&words));
        let mut all = bytes[..even].to_vec();
        all.extend(half.to_be_bytes());
        all.extend(word.to_be_bytes());
        all.extend(words.iter().flat_map(|word| word.to_be_bytes()));
        prop_assert_eq!(total.finish(), reference(&all));
    }

    #[test]
    fn subtracting_undoes_adding(a in vec(any::<u8>(), 1..40), b in vec(any::<u8>(), 0..40)) {
        prop_assume!(a.iter().any(|byte| *byte != 0));
        prop_assert_eq!(sum(&a).add(sum(&b)).subtract(sum(&b)).finish(), sum(&a).finish());
    }

    /// RFC 1624 section 3.
    #[test]
    fn update_equals_summing_anew(mut words in vec(any::<u16>(), 2..20), at: prop::sample::Index, new: u16) {
        // A header is never all zeros: the two representations of zero
        // are told apart by no sum (RFC 1624 section 3).
        words[0] |= 0x4500;
        let at = 1 + at.index(words.len() - 1);
        let bytes = |words: &[u16]| words.iter().flat_map(|word| word.to_be_bytes()).collect::<Vec<_>>();
        let before = reference(&bytes(&words));
        let old = std::mem::replace(&mut words[at], new);
        prop_assert_eq!(update(before, old, new), reference(&bytes(&words)));
    }

    /// One changed bit never goes unnoticed.
    #[test]
    fn a_flipped_bit_is_noticed(mut bytes in vec(any::<u8>(), 1..200), at: prop::sample::Index, bit in 0..8_u8) {
        let before = sum(&bytes).finish();
        let at = at.index(bytes.len());
        bytes[at] ^= 1 << bit;
        prop_assert_ne!(sum(&bytes).finish(), before);
    }
}
