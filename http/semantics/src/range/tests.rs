//! RFC 9110 section 14.

use super::*;

fn partial(value: &str, length: u64) -> Vec<(u64, u64)> {
    match parse(value.as_bytes(), length) {
        Ranges::Partial(parts) => parts.iter().map(|range| (range.start, range.end)).collect(),
        other => panic!("{value}: {other:?}"),
    }
}

/// Section 14.1.2, its examples for a representation of 10,000 bytes.
#[test]
fn examples_of_the_rfc() {
    assert_eq!(partial("bytes=0-499", 10_000), [(0, 500)]);
    assert_eq!(partial("bytes=500-999", 10_000), [(500, 1000)]);
    assert_eq!(partial("bytes=-500", 10_000), [(9500, 10_000)]);
    assert_eq!(partial("bytes=9500-", 10_000), [(9500, 10_000)]);
    assert_eq!(partial("bytes=0-0,-1", 10_000), [(0, 1), (9999, 10_000)]);
    assert_eq!(partial("bytes= 0-999, 4500-5499, -1000", 10_000), [(0, 1000), (4500, 5500), (9000, 10_000)]);
    assert_eq!(partial("bytes=500-600,601-999", 10_000), [(500, 601), (601, 1000)]);
}

#[test]
fn ranges_are_cut_to_the_representation() {
    assert_eq!(partial("bytes=5-1000", 10), [(5, 10)]);
    assert_eq!(partial("bytes=5-99999999999999999999999", 10), [(5, 10)]);
    assert_eq!(partial("bytes=-1000", 10), [(0, 10)]);
    assert_eq!(partial("BYTES=5-5", 10), [(5, 6)]);
    assert_eq!(partial("bytes=20-30, 2-3", 10), [(2, 4)], "one that exists is enough");
    assert_eq!(partial("bytes=,, 2-3 ,", 10), [(2, 4)], "empty members are ignored");
    let Ranges::Partial(parts) = parse(b"bytes=2-3", 10) else { panic!() };
    assert_eq!((parts.single(), parts.len()), (Some(2..4), 1));
    let Ranges::Partial(parts) = parse(b"bytes=2-3,5-6", 10) else { panic!() };
    assert_eq!((parts.single(), parts.len()), (None, 2));
}

/// Section 15.5.17.
#[test]
fn nothing_within_is_unsatisfiable() {
    for value in ["bytes=10-", "bytes=10-20", "bytes=-0", "bytes=10-,-0,11-12", "bytes=99999999999999999999999-"] {
        assert_eq!(parse(value.as_bytes(), 10), Ranges::Unsatisfiable, "{value}");
    }
    for value in ["bytes=0-", "bytes=0-0", "bytes=-1"] {
        assert_eq!(parse(value.as_bytes(), 0), Ranges::Unsatisfiable, "{value}: nothing is in no bytes");
    }
}

/// Section 14.2: an invalid Range, or one in another unit, is ignored.
#[test]
fn invalid_ones_are_ignored() {
    for value in [
        "",
        "bytes",
        "bytes=",
        "bytes=,",
        "bytes=-",
        "bytes=5",
        "bytes=a-b",
        "bytes=5-4",
        "bytes=+1-2",
        "bytes=1--2",
        "bytes=1-2-3",
        "bytes=0x1-2",
        "lines=1-2",
        "bytes:1-2",
        "bytes =1-2",
        "bytes=1-2;3-4",
        "bytes=1 - 2",
        "bytes=1-2, x",
    ] {
        assert_eq!(parse(value.as_bytes(), 10), Ranges::Whole, "{value}");
    }
}

/// Section 14.2 lets a server ignore more than two that overlap; nginx serves any number, as long as they
/// have no more bytes than there are.
#[test]
fn overlapping_ones_are_served_up_to_the_length() {
    assert_eq!(partial("bytes=0-5,3-8", 12), [(0, 6), (3, 9)]);
    assert_eq!(parse(b"bytes=0-5,3-8", 11), Ranges::Whole);
    assert_eq!(partial("bytes=5-5,-5", 10), [(5, 6), (5, 10)]);
    assert_eq!(partial("bytes=3-3,3-3,3-3", 10), [(3, 4); 3]);
    let most = u64::MAX;
    assert_eq!(parse(format!("bytes=1-{most},0-{most}").as_bytes(), most), Ranges::Whole);
}

/// Section 17.15.
#[test]
fn floods_get_the_whole() {
    assert_eq!(parse(b"bytes=0-5,3-8", 10), Ranges::Whole, "overlapping");
    assert_eq!(parse(b"bytes=3-8,0-5", 10), Ranges::Whole);
    assert_eq!(parse(b"bytes=0-,0-,0-", 10), Ranges::Whole);
    assert_eq!(parse(b"bytes=5-5,-10", 10), Ranges::Whole);
    let list = |count: usize| {
        let members: Vec<_> = (0..count).map(|at| format!("{}-{}", at * 2, at * 2)).collect();
        format!("bytes={}", members.join(","))
    };
    assert_eq!(partial(&list(MAX_RANGES), 1000).len(), MAX_RANGES);
    assert_eq!(parse(list(MAX_RANGES + 1).as_bytes(), 1000), Ranges::Whole);
    assert_eq!(parse(list(MAX_RANGES + 1).as_bytes(), 1), Ranges::Whole, "also those outside count");
}
