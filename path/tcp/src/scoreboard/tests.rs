use super::*;

const MSS: u32 = 10;

/// A deterministic source of numbers (SplitMix64).
struct Rng(u64);

impl Rng {
    fn below(&mut self, bound: u32) -> u32 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z >> 33) as u32 % bound.max(1)
    }
}

/// The rules of RFC 6675 byte by byte, on bytes numbered from zero.
struct Model {
    una: usize,
    nxt: usize,
    sacked: Vec<bool>,
    /// SND.NXT when the byte was sent again.
    again: Vec<Option<usize>>,
    forced: usize,
    recovery_point: Option<usize>,
    rescued: Option<usize>,
}

impl Model {
    fn new() -> Self {
        Self { una: 0, nxt: 0, sacked: Vec::new(), again: Vec::new(), forced: 0, recovery_point: None, rescued: None }
    }

    fn send(&mut self, bytes: usize) {
        self.nxt += bytes;
        self.sacked.resize(self.nxt, false);
        self.again.resize(self.nxt, None);
    }

    /// Whether more than two segments, or parts of three ranges, are SACKed
    /// at or above `seq`.
    fn seen_above(&self, seq: usize) -> bool {
        let above = self.sacked.get(seq..).unwrap_or(&[]);
        let bytes = above.iter().filter(|&&s| s).count();
        let starts = above.iter().enumerate().filter(|&(i, &s)| s && (i == 0 || !above[i - 1])).count();
        bytes > 2 * MSS as usize || starts >= 3
    }

    fn lost(&self, seq: usize) -> bool {
        seq < self.forced || self.seen_above(seq)
    }

    fn ack(&mut self, una: usize, blocks: &[(usize, usize)]) -> (u32, u32) {
        let covered = self.sacked[self.una..una].iter().filter(|&&s| s).count();
        self.una = una;
        // What is SACKed from SND.UNA on was discarded by the peer.
        let mut at = una;
        while at < self.nxt && self.sacked[at] {
            self.sacked[at] = false;
            at += 1;
        }
        let mut newly = 0;
        for (index, &(start, end)) in blocks.iter().enumerate() {
            let below = start < end && end <= una;
            let inside = blocks.get(1).is_some_and(|b| start < end && start >= b.0 && end <= b.1);
            if (index == 0 && (below || inside)) || start <= una || start >= end || end > self.nxt {
                continue;
            }
            for byte in start..end {
                newly += u32::from(!self.sacked[byte]);
                self.sacked[byte] = true;
                self.again[byte] = None;
            }
        }
        if newly > 0 {
            for byte in una..self.nxt {
                if self.again[byte].is_some_and(|mark| self.seen_above(mark)) {
                    self.again[byte] = None;
                }
            }
        }
        if self.rescued.is_some_and(|seq| seq <= una) {
            self.rescued = None;
        }
        (newly, covered as u32)
    }

    fn pipe(&self) -> u32 {
        let mut pipe = 0;
        for byte in self.una..self.nxt {
            if !self.sacked[byte] {
                pipe += u32::from(!self.lost(byte)) + u32::from(self.again[byte].is_some());
            }
        }
        pipe
    }

    fn next(&mut self, new: bool) -> Option<(usize, u32)> {
        let hole = (self.una..self.nxt).find(|&b| !self.sacked[b] && self.again[b].is_none());
        let len = |at: usize| {
            (at..self.nxt.min(at + MSS as usize)).take_while(|&b| !self.sacked[b] && self.again[b].is_none()).count()
                as u32
        };
        let highest = (self.una..self.nxt).rev().find(|&b| self.sacked[b]);
        if let Some(at) = hole
            && self.lost(at)
        {
            return Some((at, len(at)));
        }
        if new {
            return None;
        }
        if let Some(at) = hole
            && highest.is_some_and(|h| at < h)
        {
            return Some((at, len(at)));
        }
        if self.recovery_point.is_none() || self.rescued.is_some() {
            return None;
        }
        let last = (self.una..self.nxt).rev().find(|&b| !self.sacked[b])?;
        if self.again[last].is_some() {
            return None;
        }
        self.rescued = self.recovery_point;
        let run = (self.una..=last).rev().take(MSS as usize).take_while(|&b| !self.sacked[b]).count();
        Some((last + 1 - run, run as u32))
    }
}

/// A random history against the model, across the wrap of sequence numbers.
#[test]
fn agrees_with_the_rules_byte_by_byte() {
    for seed in 0..100 {
        let mut rng = Rng(seed);
        let base = SeqNum(u32::MAX - rng.below(300));
        let seq = |at: usize| base.plus(at as u32);
        let mut model = Model::new();
        let mut board = Scoreboard::new(MSS, true);
        for step in 0..250 {
            let (una, nxt) = (model.una, model.nxt);
            match rng.below(12) {
                0..3 => model.send(rng.below(60) as usize),
                3..8 => {
                    let reach = (nxt - una) as u32 + 30;
                    let mut blocks = Vec::new();
                    for _ in 0..rng.below(5) {
                        let start = (una + rng.below(reach) as usize).saturating_sub(10);
                        blocks.push((start, (start + rng.below(25) as usize).saturating_sub(1)));
                    }
                    let ahead = if rng.below(3) == 0 { rng.below(40) as usize } else { 0 };
                    let to = (una + ahead).min(nxt);
                    let wire: Vec<_> = blocks.iter().map(|&(a, b)| (seq(a), seq(b))).collect();
                    let delivered = board.on_ack(seq(to), seq(nxt), &wire);
                    let expected = model.ack(to, &blocks);
                    assert_eq!((delivered.newly_sacked, delivered.covered), expected, "seed {seed} step {step}");
                }
                8 if rng.below(8) == 0 => {
                    board.on_rto(seq(nxt));
                    model.forced = nxt;
                    model.again[una..].fill(None);
                    model.recovery_point = None;
                    model.rescued = None;
                }
                9 if rng.below(3) == 0 => {
                    board.enter_recovery(seq(una), seq(nxt));
                    model.forced = model.forced.max((una + MSS as usize).min(nxt));
                    model.recovery_point = Some(nxt);
                    model.rescued = None;
                }
                _ => {
                    let new = rng.below(3) == 0;
                    let next = board.next_segment(seq(una), seq(nxt), new);
                    match model.next(new) {
                        Some((at, len)) => {
                            assert_eq!(next, NextSegment::Again { seq: seq(at), len }, "seed {seed} step {step}");
                            board.on_retransmit(seq(at), len, seq(nxt));
                            let below = (at..nxt).any(|b| model.sacked[b]);
                            if below || model.lost(at) {
                                model.again[at..at + len as usize].fill(Some(nxt));
                            }
                        }
                        None => {
                            assert!(!matches!(next, NextSegment::Again { .. }), "seed {seed} step {step}: {next:?}")
                        }
                    }
                }
            }
            let (una, nxt) = (seq(model.una), seq(model.nxt));
            assert_eq!(board.pipe(una, nxt), model.pipe(), "seed {seed} step {step}");
            let sacked = model.sacked[model.una..].iter().filter(|&&s| s).count();
            assert_eq!(board.sacked_bytes() as usize, sacked);
            for byte in (model.una..model.nxt).step_by(7) {
                if !model.sacked[byte] {
                    assert_eq!(board.is_lost(seq(byte)), model.lost(byte), "seed {seed} step {step} byte {byte}");
                }
            }
        }
    }
}

/// Without an ACK, recovery sends each hole once, the tail perhaps, and no
/// more.
#[test]
fn sending_ends() {
    for seed in 0..200 {
        let mut rng = Rng(seed);
        let (una, nxt) = (SeqNum(0), SeqNum(200 + rng.below(200)));
        let mut board = Scoreboard::new(MSS, true);
        for _ in 0..rng.below(20) {
            let start = 1 + rng.below(nxt.0 - 1);
            board.on_ack(una, nxt, &[(SeqNum(start), SeqNum((start + rng.below(60)).min(nxt.0)))]);
        }
        if rng.below(4) == 0 {
            board.on_rto(nxt);
        } else {
            board.enter_recovery(una, nxt);
        }
        let mut sent = 0;
        while let NextSegment::Again { seq, len } = board.next_segment(una, nxt, false) {
            board.on_retransmit(seq, len, nxt);
            sent += len;
            assert!(sent <= nxt.0 - board.sacked_bytes() + MSS, "seed {seed}");
        }
    }
}

fn again(seq: u32, len: u32) -> NextSegment {
    NextSegment::Again { seq: SeqNum(seq), len }
}

/// RFC 6675 section 4, IsLost(): three ranges, or more than two segments.
#[test]
fn loss_by_ranges_or_bytes() {
    let (una, nxt) = (SeqNum(0), SeqNum(200));
    let block = |a, b| (SeqNum(a), SeqNum(b));
    let mut board = Scoreboard::new(MSS, true);
    board.on_ack(una, nxt, &[block(10, 11), block(20, 21)]);
    assert!(!board.is_lost(una));
    let delivered = board.on_ack(una, nxt, &[block(30, 31)]);
    assert!(delivered.new_loss && board.is_lost(una) && !board.is_lost(SeqNum(11)));

    let mut board = Scoreboard::new(MSS, true);
    board.on_ack(una, nxt, &[block(10, 30)]);
    assert!(!board.is_lost(una));
    board.on_ack(una, nxt, &[block(10, 31)]);
    assert!(board.is_lost(una));
}

/// RFC 6675 section 5: the holes are sent again in order, then new data, then
/// one rescue at the end.
#[test]
fn recovery_in_order() {
    let (una, nxt) = (SeqNum(0), SeqNum(100));
    let mut board = Scoreboard::new(MSS, true);
    // 0..10 and 20..25 are lost, the last 20 bytes unknown.
    board.on_ack(una, nxt, &[(SeqNum(10), SeqNum(20)), (SeqNum(25), SeqNum(80))]);
    board.enter_recovery(una, nxt);
    assert_eq!(board.pipe(una, nxt), 20);
    assert_eq!(board.next_segment(una, nxt, true), again(0, 10));
    // Until it is sent, the answer stays.
    assert_eq!(board.next_segment(una, nxt, true), again(0, 10));
    board.on_retransmit(SeqNum(0), 10, nxt);
    assert_eq!(board.next_segment(una, nxt, true), again(20, 5));
    board.on_retransmit(SeqNum(20), 5, nxt);
    assert_eq!(board.pipe(una, nxt), 35);
    assert_eq!(board.next_segment(una, nxt, true), NextSegment::New);
    assert_eq!(board.next_segment(una, nxt, false), again(90, 10));
    board.on_retransmit(SeqNum(90), 10, nxt);
    assert_eq!(board.next_segment(una, nxt, false), NextSegment::Nothing);
    let delivered = board.on_ack(SeqNum(80), nxt, &[]);
    assert_eq!(delivered.bytes(80), 15);
}

/// A retransmission that is lost itself is sent again when three segments
/// sent after it arrived, without waiting for the timer.
#[test]
fn lost_retransmission_is_found() {
    let (una, nxt) = (SeqNum(0), SeqNum(100));
    let mut board = Scoreboard::new(MSS, true);
    board.on_ack(una, nxt, &[(SeqNum(10), SeqNum(100))]);
    board.enter_recovery(una, nxt);
    board.on_retransmit(SeqNum(0), 10, nxt);
    // New data up to 140 follows; two segments of it arrive, then a third.
    let nxt = SeqNum(140);
    board.on_ack(una, nxt, &[(SeqNum(10), SeqNum(120))]);
    assert_eq!(board.next_segment(una, nxt, true), NextSegment::New);
    let delivered = board.on_ack(una, nxt, &[(SeqNum(10), SeqNum(130))]);
    assert!(delivered.new_loss);
    assert_eq!(board.next_segment(una, nxt, true), again(0, 10));
}

/// RFC 6582 section 3.2: without SACK, the head on entering and after each
/// partial ACK; nothing is rescued.
#[test]
fn newreno_without_sack() {
    let nxt = SeqNum(100);
    let mut board = Scoreboard::new(MSS, false);
    board.enter_recovery(SeqNum(0), nxt);
    assert_eq!(board.next_segment(SeqNum(0), nxt, true), again(0, 10));
    board.on_retransmit(SeqNum(0), 10, nxt);
    assert_eq!(board.next_segment(SeqNum(0), nxt, true), NextSegment::New);
    assert_eq!(board.next_segment(SeqNum(0), nxt, false), NextSegment::Nothing);
    board.on_ack(SeqNum(40), nxt, &[]);
    board.on_partial_ack(SeqNum(40), nxt);
    assert_eq!(board.next_segment(SeqNum(40), nxt, true), again(40, 10));
    board.on_retransmit(SeqNum(40), 10, nxt);
    assert_eq!(board.pipe(SeqNum(40), nxt), 60);
    board.on_ack(nxt, nxt, &[]);
    board.leave_recovery();
    assert!(board.is_empty());
}

/// RFC 6675 section 5.1: a timeout keeps what was SACKed and marks the rest.
#[test]
fn timeout_keeps_what_arrived() {
    let (una, nxt) = (SeqNum(0), SeqNum(40));
    let mut board = Scoreboard::new(MSS, true);
    board.on_ack(una, nxt, &[(SeqNum(20), SeqNum(30))]);
    board.on_rto(nxt);
    assert_eq!(board.pipe(una, nxt), 0);
    let mut sent = Vec::new();
    while let NextSegment::Again { seq, len } = board.next_segment(una, nxt, false) {
        board.on_retransmit(seq, len, nxt);
        sent.push((seq.0, len));
    }
    assert_eq!(sent, [(0, 10), (10, 10), (30, 10)]);
    assert_eq!(board.pipe(una, nxt), 30);
}

/// RFC 2018 section 8: a peer may discard what it SACKed. SND.UNA at the start
/// of a SACKed range shows it, and the bytes are sent again.
#[test]
fn discarded_data_is_sent_again() {
    let nxt = SeqNum(100);
    let mut board = Scoreboard::new(MSS, true);
    board.on_ack(SeqNum(0), nxt, &[(SeqNum(10), SeqNum(20)), (SeqNum(30), SeqNum(100))]);
    board.enter_recovery(SeqNum(0), nxt);
    board.on_retransmit(SeqNum(0), 10, nxt);
    board.on_ack(SeqNum(10), nxt, &[]);
    assert_eq!(board.sacked_bytes(), 70);
    assert_eq!(board.next_segment(SeqNum(10), nxt, true), again(10, 10));
}

/// RFC 2883 section 4: a first block below the ACK or within the second
/// reports a duplicate, and changes nothing.
#[test]
fn duplicate_reports() {
    let mut board = Scoreboard::new(MSS, true);
    let (una, nxt) = (SeqNum(50), SeqNum(100));
    let below = board.on_ack(una, nxt, &[(SeqNum(30), SeqNum(40))]);
    assert!(below.duplicate && below.ignored_blocks == 0);
    let inside = board.on_ack(una, nxt, &[(SeqNum(62), SeqNum(64)), (SeqNum(60), SeqNum(70))]);
    assert!(inside.duplicate && inside.newly_sacked == 10);
}

/// Blocks that no honest peer sends are ignored and counted.
#[test]
fn garbage_is_ignored() {
    let mut board = Scoreboard::new(MSS, true);
    let (una, nxt) = (SeqNum(50), SeqNum(100));
    let blocks = [(90, 101), (70, 70), (80, 60), (50, 60), (40, 60), (0x7000_0000, 0x7800_0000)];
    for (start, end) in blocks {
        let delivered = board.on_ack(una, nxt, &[(SeqNum(start), SeqNum(end))]);
        assert_eq!((delivered.newly_sacked, delivered.ignored_blocks), (0, 1), "{start}..{end}");
    }
    assert!(board.is_empty());
}

/// At the limit a block that needs a range of its own is refused; one that
/// joins a range is taken.
#[test]
fn ranges_are_bounded() {
    let mut board = Scoreboard::new(MSS, true);
    let (una, nxt) = (SeqNum(0), SeqNum(1_000_000));
    let limit = MAX_SACKED_RANGES as u32;
    for i in 0..limit {
        let at = 100 * (i + 1);
        assert_eq!(board.on_ack(una, nxt, &[(SeqNum(at), SeqNum(at + 10))]).refused_blocks, 0);
    }
    let at = 100 * (limit + 1);
    let refused = board.on_ack(una, nxt, &[(SeqNum(at), SeqNum(at + 10))]);
    assert_eq!((refused.newly_sacked, refused.refused_blocks), (0, 1));
    let joined = board.on_ack(una, nxt, &[(SeqNum(100), SeqNum(at + 10))]);
    assert_eq!((joined.newly_sacked, joined.refused_blocks), (at - 90 - 10 * limit, 0));
    // Retransmissions stay bounded too, and go on once some are acknowledged.
    let mut board = Scoreboard::new(MSS, true);
    board.on_rto(nxt);
    for i in 0..10 * MAX_RETRANSMITTED_RANGES as u32 {
        let at = SeqNum(20 * i);
        if board.retransmitted.len() < MAX_RETRANSMITTED_RANGES {
            board.on_retransmit(at, 10, nxt);
        }
    }
    assert_eq!(board.retransmitted.len(), MAX_RETRANSMITTED_RANGES);
    assert_eq!(board.next_segment(una, nxt, false), NextSegment::Nothing);
    board.on_ack(SeqNum(100), nxt, &[]);
    assert_eq!(board.next_segment(SeqNum(100), nxt, false), again(110, 10));
}
