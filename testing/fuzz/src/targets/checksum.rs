//! The Internet checksum, against the definition.

use crate::Target;
use wire::Sum;
use wire::checksum::{copy_and_sum, sum};

pub(crate) const TARGET: Target = Target {
    name: "checksum",
    about: "sums equal the definition, in pieces and while copying",
    run,
    seeds,
    dictionary: &[&[0xff; 8], &[0; 8]],
    test_runs: 20_000,
    max_len: 4096,
};

fn run(input: &[u8]) {
    let expected = !definition(input);
    assert_eq!(sum(input).finish(), expected);

    let mut copy = vec![0xa5; input.len()];
    assert_eq!(copy_and_sum(&mut copy, input).finish(), expected);
    assert_eq!(copy, input, "copied as it was");
    let mut short = vec![0; input.len() / 2];
    let half = copy_and_sum(&mut short, input);
    assert_eq!(half.finish(), sum(&input[..input.len() / 2]).finish());

    for at in super::cuts(input) {
        let (first, second) = input.split_at(at);
        let whole = sum(first).append(sum(second), at % 2 == 1);
        assert_eq!(whole.finish(), expected, "in pieces, cut at {at}");
        if at % 2 == 0 {
            assert_eq!(sum(first).add(sum(second)).finish(), expected);
            // Ones' complement has two zeros; a checksum says which it means.
            let back = Sum::ZERO.add(sum(input)).subtract(sum(second));
            assert_eq!(back.folded() % 0xffff, sum(first).folded() % 0xffff, "taken out again");
        }
    }

    // Data that holds its own checksum sums to all ones (RFC 1071 section 1).
    let mut whole = input.to_vec();
    if input.len() % 2 == 1 {
        whole.push(0);
    }
    whole.extend_from_slice(&expected.to_be_bytes());
    assert_eq!(sum(&whole).finish(), 0);
}

/// RFC 1071 section 1: 16-bit words, carries added back in.
fn definition(bytes: &[u8]) -> u16 {
    let words = bytes.chunks(2).map(|pair| u64::from(pair[0]) << 8 | u64::from(pair.get(1).copied().unwrap_or(0)));
    let mut total: u64 = words.sum();
    while total > 0xffff {
        total = (total & 0xffff) + (total >> 16);
    }
    total as u16
}

fn seeds() -> Vec<Vec<u8>> {
    let mut seeds = vec![Vec::new(), vec![0; 64], vec![0xff; 65]];
    seeds.push((0..=255).collect());
    seeds.push((0..1460).map(|at| (at * 7) as u8).collect());
    seeds
}
