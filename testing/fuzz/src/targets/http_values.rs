//! Values of fields: dates, ranges, entity tags.

use crate::Target;
use core::ops::Range;
use semantics::conditional::{strong_match, weak_match};
use semantics::date::{self, HttpDate};
use semantics::range::{self, MAX_RANGES, Ranges};

pub(crate) const TARGET: Target = Target {
    name: "http_values",
    about: "dates are read as written, ranges stay within, and come to no more than there is",
    run,
    seeds,
    dictionary: &[
        b"bytes=",
        b"-",
        b",",
        b"0-0",
        b"18446744073709551615",
        b"Sun, 06 Nov 1994 08:49:37 GMT",
        b"Sunday, 06-Nov-94 08:49:37 GMT",
        b"Sun Nov  6 08:49:37 1994",
        b" GMT",
        b"Feb",
        b"29",
        b"W/\"",
        b"\"",
    ],
    test_runs: 20_000,
    max_len: 200,
};

/// The longest file that there is.
const LENGTHS: [u64; 5] = [0, 1, 10, 1 << 40, u64::MAX];

fn run(input: &[u8]) {
    for now in [0, 1_700_000_000, 253_402_300_799, u64::MAX] {
        if let Some(seconds) = date::parse(input, now) {
            let written = HttpDate::from_unix(seconds);
            assert_eq!(date::parse(written.as_bytes(), now), Some(seconds), "{}", input.escape_ascii());
            if input.len() == 29 {
                // The day's name is not looked at, and a leap second is that
                // of the next minute.
                let leap = input[23..25] == *b"60";
                assert!(leap || written.as_bytes()[4..] == input[4..], "{}", input.escape_ascii());
            }
        }
    }
    for length in LENGTHS {
        check_range(input, length);
    }
    let (a, b) = input.split_at(input.len() / 2);
    for (a, b) in [(a, b), (a, a), (input, input)] {
        assert_eq!((strong_match(a, b), weak_match(a, b)), (strong_match(b, a), weak_match(b, a)));
        assert!(weak_match(a, b) || !strong_match(a, b));
    }
}

pub(crate) fn check_range(value: &[u8], length: u64) {
    let Ranges::Partial(parts) = range::parse(value, length) else { return };
    let ranges: Vec<Range<u64>> = parts.iter().collect();
    assert!(!ranges.is_empty() && ranges.len() <= MAX_RANGES && ranges.len() == parts.len());
    assert!(ranges.iter().all(|range| range.start < range.end && range.end <= length));
    let bytes: u128 = ranges.iter().map(|range| u128::from(range.end - range.start)).sum();
    assert!(bytes <= length.into(), "no more than there is");
    assert_eq!(parts.single(), (ranges.len() == 1).then(|| ranges[0].clone()));
}

fn seeds() -> Vec<Vec<u8>> {
    let mut seeds: Vec<Vec<u8>> = [0, 784_111_777, 951_782_400, 253_402_300_799]
        .map(|seconds| HttpDate::from_unix(seconds).as_bytes().to_vec())
        .into();
    let texts: [&[u8]; 8] = [
        b"Sunday, 06-Nov-94 08:49:37 GMT",
        b"Sun Nov  6 08:49:37 1994",
        b"bytes=0-499",
        b"bytes=-500",
        b"bytes=9500-",
        b"bytes=0-0, 5-6,,-1",
        b"bytes=18446744073709551614-18446744073709551615",
        b"W/\"a\"\"a\"",
    ];
    seeds.extend(texts.iter().map(|text| text.to_vec()));
    seeds
}
