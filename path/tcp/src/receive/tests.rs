use super::*;
use random::SplitMix64;

const LIMIT: usize = 64 * 1024;

/// The stream's byte at a position.
fn byte(position: usize) -> u8 {
    (position.wrapping_mul(0x9e37_79b1) >> 13) as u8
}

fn bytes(range: core::ops::Range<usize>) -> Vec<u8> {
    range.map(byte).collect()
}

/// A random history against a set of positions, as a connection would drive
/// it.
#[test]
fn agrees_with_a_set_of_positions() {
    for seed in 0..100 {
        let mut random = SplitMix64::new(seed);
        let mut buffer = ReceiveBuffer::new();
        let mut have = vec![false; 40_000];
        let (mut consumed, mut next) = (0usize, 0usize);
        let isn = SeqNum(u32::MAX - random.below(20_000) as u32);
        for step in 0..300 {
            let len = 1 + random.below(if seed % 3 == 0 { 3 } else { 200 });
            match random.below(5) {
                // Ahead of a gap, or overlapping what is there.
                0 | 1 => {
                    let at = next + 1 + random.below(1_000);
                    let new = (at..at + len).filter(|&p| !have[p]).count() as u32;
                    let expected = match new {
                        _ if at + len - consumed > LIMIT / 16 => Inserted::NoSpace,
                        0 => Inserted::Duplicate,
                        new => Inserted::Stored(new),
                    };
                    let offset = (at - next) as u32;
                    assert_eq!(buffer.insert(offset, &bytes(at..at + len), LIMIT / 16), expected);
                    if expected != Inserted::NoSpace {
                        have[at..at + len].fill(true);
                    }
                }
                // In order: some consumed from the frame, the rest held.
                2 => {
                    let take = if next == consumed { random.below(len + 1) } else { 0 };
                    if take > 0 {
                        buffer.skip(take);
                        consumed += take;
                    }
                    if take < len {
                        buffer.hold(&bytes(next + take..next + len));
                    }
                    next += len;
                    let joined = (next..).take_while(|&p| have[p]).count();
                    assert_eq!(buffer.advance() as usize, joined, "seed {seed} step {step}");
                    next += joined;
                }
                _ => {
                    let take = random.below(next - consumed + 1);
                    buffer.consume(take);
                    consumed += take;
                }
            }
            assert_eq!(buffer.contiguous(), bytes(consumed..next), "seed {seed} step {step}");
            have[..next].fill(true);
            let gap = have[next..].iter().any(|&h| h);
            assert_eq!(buffer.has_gap(), gap);
            assert_eq!(buffer.is_empty(), !gap && consumed == next);
            check_blocks(&buffer, isn.plus(next as u32), &have[next..]);
            assert!(buffer.bytes() < 4 * LIMIT);
        }
    }
}

/// The blocks are distinct whole ranges, at most four, and all of them if
/// there are no more.
fn check_blocks(buffer: &ReceiveBuffer, rcv_nxt: SeqNum, have: &[bool]) {
    let mut ranges = Vec::new();
    for at in 0..have.len() {
        if have[at] && (at == 0 || !have[at - 1]) {
            let end = at + have[at..].iter().take_while(|&&h| h).count();
            ranges.push((rcv_nxt.plus(at as u32), rcv_nxt.plus(end as u32)));
        }
    }
    let blocks = buffer.sack_blocks(rcv_nxt, None);
    assert_eq!(blocks.as_slice().len(), ranges.len().min(MAX_SACK_BLOCKS));
    for (index, block) in blocks.as_slice().iter().enumerate() {
        assert!(ranges.contains(block));
        assert!(!blocks.as_slice()[..index].contains(block));
    }
}

/// RFC 2018 section 4: the block with the segment that came last is first,
/// then the most recently reported ones.
#[test]
fn blocks_are_most_recent_first() {
    let mut buffer = ReceiveBuffer::new();
    for at in [100, 300, 500, 700, 900] {
        buffer.insert(at, &bytes(at as usize..at as usize + 10), LIMIT);
    }
    let starts = |buffer: &ReceiveBuffer| -> Vec<u32> {
        buffer.sack_blocks(SeqNum(0), None).as_slice().iter().map(|block| block.0.0).collect()
    };
    assert_eq!(starts(&buffer), [900, 700, 500, 300]);
    // A segment that joins an old range brings it to the front.
    buffer.insert(110, &bytes(110..120), LIMIT);
    assert_eq!(starts(&buffer), [100, 900, 700, 500]);
    assert_eq!(buffer.sack_blocks(SeqNum(0), None).as_slice()[0], (SeqNum(100), SeqNum(120)));
    // So does a duplicate: its range is what the peer must hear of.
    assert_eq!(buffer.insert(505, &bytes(505..506), LIMIT), Inserted::Duplicate);
    assert_eq!(starts(&buffer), [500, 100, 900, 700]);
}

/// Bytes far ahead cost what they take, not the distance to them.
#[test]
fn a_gap_costs_nothing() {
    let mut buffer = ReceiveBuffer::new();
    assert_eq!(buffer.bytes(), 0);
    assert_eq!(buffer.insert(1 << 20, b"x", 2 << 20), Inserted::Stored(1));
    assert!(buffer.bytes() < 512, "{}", buffer.bytes());
    assert_eq!(buffer.insert(1 << 19, &[7; 1_000], 2 << 20), Inserted::Stored(1_000));
    assert!(buffer.bytes() < 2_048, "{}", buffer.bytes());
    assert_eq!(buffer.early_bytes(), buffer.bytes());
    buffer.hold(b"y");
    buffer.forget_early();
    assert!(!buffer.has_gap() && buffer.bytes() < 64, "{}", buffer.bytes());
    buffer.consume(1);
    assert_eq!(buffer.bytes(), 0);
}

/// Segments of one byte cost one byte's work each, in either direction: what
/// they take stays within twice the window.
#[test]
fn one_byte_segments() {
    for reverse in [false, true] {
        let mut buffer = ReceiveBuffer::new();
        for i in 1..LIMIT {
            let at = if reverse { LIMIT - i } else { i };
            assert_eq!(buffer.insert(at as u32, &[byte(at)], LIMIT), Inserted::Stored(1));
            assert_eq!(buffer.ranges.len(), 1);
        }
        buffer.hold(&[byte(0)]);
        assert_eq!(buffer.advance() as usize, LIMIT - 1);
        assert_eq!(buffer.contiguous(), bytes(0..LIMIT));
        assert!(buffer.bytes() <= 2 * LIMIT + 1_024);
        // Taken byte by byte, it is moved at most a few times over.
        for at in 0..LIMIT {
            assert_eq!(buffer.contiguous().first(), Some(&byte(at)));
            buffer.consume(1);
        }
        assert!(buffer.is_empty());
        assert_eq!(buffer.bytes(), 0, "memory is given up when empty");
    }
}

/// A stream that never empties the buffer does not make it grow.
#[test]
fn held_bytes_do_not_creep() {
    let mut buffer = ReceiveBuffer::new();
    buffer.hold(&bytes(0..1_000));
    for i in 0..10_000 {
        buffer.hold(&bytes(1_000 + i * 100..1_100 + i * 100));
        buffer.consume(100);
        assert_eq!(buffer.contiguous().len(), 1_000);
    }
    assert_eq!(buffer.contiguous(), bytes(1_000_000..1_001_000));
    assert!(buffer.bytes() < 16 * 1_024);
}

/// At the limit of ranges a segment on its own is dropped; one that joins a
/// range is kept, and in-order data always is.
#[test]
fn ranges_are_bounded() {
    let mut buffer = ReceiveBuffer::new();
    for i in 1..=MAX_RANGES {
        assert_eq!(buffer.insert(10 * i as u32, &[byte(10 * i)], LIMIT), Inserted::Stored(1));
    }
    let far = 10 * MAX_RANGES as u32 + 10;
    assert_eq!(buffer.insert(far, &[1], LIMIT), Inserted::NoRange);
    assert_eq!(buffer.insert(11, &[byte(11)], LIMIT), Inserted::Stored(1));
    buffer.hold(&bytes(0..10));
    assert_eq!(buffer.advance(), 2);
    assert_eq!(buffer.contiguous(), bytes(0..12));
    assert_eq!(buffer.insert(far - 12, &[1], LIMIT), Inserted::Stored(1));
}

/// What would pass the limit is dropped whole, held bytes and gaps included.
#[test]
fn space_is_bounded() {
    let mut buffer = ReceiveBuffer::new();
    buffer.hold(&bytes(0..100));
    assert_eq!(buffer.insert(50, &[0; 50], 199), Inserted::NoSpace);
    assert_eq!(buffer.insert(50, &[0; 50], 200), Inserted::Stored(50));
    assert_eq!(buffer.insert(u32::MAX, &[0], 200), Inserted::NoSpace);
}

/// Records of random lengths that are opened, taken and joined by more, against what a
/// plain list of bytes says.
#[test]
fn opened_records_leave_what_they_carried() {
    for seed in 0..200 {
        let mut random = SplitMix64::new(seed);
        let mut buffer = ReceiveBuffer::new();
        let (mut opened, mut sealed) = (Vec::new(), Vec::new());
        for step in 0..200 {
            match random.below(3) {
                0 => {
                    let more = bytes(step * 7..step * 7 + 1 + random.below(300));
                    buffer.hold(&more);
                    sealed.extend(more);
                }
                1 => {
                    let record = random.below(sealed.len() + 1);
                    let plain = bytes(step * 13..step * 13 + random.below(record + 1));
                    buffer.open(record, &plain);
                    sealed.drain(..record);
                    opened.extend(plain);
                }
                _ => {
                    let take = random.below(opened.len() + 1);
                    buffer.consume(take);
                    opened.drain(..take);
                }
            }
            assert_eq!(buffer.opened(), opened, "seed {seed} step {step}");
            assert_eq!(buffer.sealed(), sealed, "seed {seed} step {step}");
        }
    }
}
