use super::*;
use congestion::SendState;
use random::SplitMix64;

const MSS: u32 = 10;

/// The same byte by byte, on bytes numbered from zero.
struct Model {
    una: usize,
    nxt: usize,
    sacked: Vec<bool>,
    /// When the byte was sent again.
    again: Vec<Option<Time>>,
    lost: usize,
    /// Bytes ever sent again lie below.
    resent: usize,
}

impl Model {
    fn new() -> Self {
        Self { una: 0, nxt: 0, sacked: Vec::new(), again: Vec::new(), lost: 0, resent: 0 }
    }

    fn send(&mut self, bytes: usize) {
        self.nxt += bytes;
        self.sacked.resize(self.nxt, false);
        self.again.resize(self.nxt, None);
    }

    fn ack(&mut self, una: usize, blocks: &[(usize, usize)]) -> (u32, u32, bool) {
        let known = (self.una..self.nxt).rev().find(|&b| self.sacked[b]);
        let first = |m: &Self, from: usize, to: usize| {
            (from.max(m.resent)..to).any(|b| !m.sacked[b] && known.is_some_and(|known| b < known))
        };
        let mut reordered = first(self, self.una, una);
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
            reordered |= first(self, start, end);
            for byte in start..end {
                newly += u32::from(!self.sacked[byte]);
                self.sacked[byte] = true;
                self.again[byte] = None;
            }
        }
        (newly, covered as u32, reordered)
    }

    fn pipe(&self) -> u32 {
        let mut pipe = 0;
        for byte in self.una..self.nxt {
            if !self.sacked[byte] {
                pipe += u32::from(byte >= self.lost) + u32::from(self.again[byte].is_some());
            }
        }
        pipe
    }

    fn next(&self) -> Option<(usize, u32)> {
        let free = |b: usize| !self.sacked[b] && self.again[b].is_none();
        let at = (self.una..self.nxt).find(|&b| free(b))?;
        let len = (at..self.nxt.min(at + MSS as usize)).take_while(|&b| free(b)).count();
        (at < self.lost).then_some((at, len as u32))
    }
}

/// All that was sent again `age` milliseconds ago is lost again: how many
/// bytes, for both.
fn lose_again(board: &mut Scoreboard, model: &mut Model, base: SeqNum, now: Time, age: u32) -> (u32, u32) {
    let age = core::time::Duration::from_millis(u64::from(age));
    let end = base.plus(model.nxt as u32);
    let mut rack = crate::rack::Rack::default();
    rack.on_sent(end, now, SendState::default());
    rack.on_arrived(end, now + age, |_| true);
    let judge = rack.judge(now, true, 0).expect("something arrived");
    let lost = board.lose_again(&judge, &mut Verdict::default());
    let mut expected = 0;
    for again in &mut model.again[model.una..] {
        if again.is_some_and(|at| at < now && at + age <= now) {
            *again = None;
            expected += 1;
        }
    }
    (lost, expected)
}

/// A random history against the model, across the wrap of sequence numbers.
#[test]
fn agrees_with_the_model_byte_by_byte() {
    for seed in 0..200 {
        let mut random = SplitMix64::new(seed);
        let base = SeqNum(u32::MAX - random.below(300) as u32);
        let seq = |at: usize| base.plus(at as u32);
        let mut model = Model::new();
        let mut board = Scoreboard::new(MSS);
        for step in 0..250u64 {
            let (una, nxt, now) = (model.una, model.nxt, Time::from_millis(step));
            match random.below(12) {
                0..3 => model.send(random.below(60)),
                3..8 => {
                    let reach = nxt - una + 30;
                    let mut blocks = Vec::new();
                    for _ in 0..random.below(5) {
                        let start = (una + random.below(reach)).saturating_sub(10);
                        blocks.push((start, (start + random.below(25)).saturating_sub(1)));
                    }
                    let ahead = if random.below(3) == 0 { random.below(40) } else { 0 };
                    let to = (una + ahead).min(nxt);
                    let wire: Vec<_> = blocks.iter().map(|&(a, b)| (seq(a), seq(b))).collect();
                    let got = board.on_ack(seq(una), seq(to), seq(nxt), &wire);
                    let (newly, covered, reordered) = model.ack(to, &blocks);
                    assert_eq!((got.newly_sacked, got.covered), (newly, covered), "seed {seed} step {step}");
                    // A range that straddles SND.UNA is split by the model
                    // only: it errs towards telling.
                    assert!(got.reordered || !reordered || model.una > una, "seed {seed} step {step}");
                }
                8 if random.below(8) == 0 => {
                    let edge = una + random.below(nxt - una + 1);
                    board.on_rto(seq(una), seq(nxt), seq(edge));
                    model.lost = model.lost.max(edge).max((una + MSS as usize).min(nxt));
                    model.again[una..].fill(None);
                }
                9 => {
                    let edge = una + random.below(nxt - una + 1);
                    if edge > una {
                        let news = board.mark_lost(seq(edge));
                        let missing = (model.lost.max(una)..edge).any(|byte| !model.sacked[byte]);
                        assert_eq!(news, edge > una && (missing || model.lost <= una), "seed {seed} step {step}");
                        model.lost = model.lost.max(edge);
                    }
                }
                10 if random.below(3) == 0 => {
                    let (lost, expected) = lose_again(&mut board, &mut model, base, now, random.below(30) as u32);
                    assert_eq!(lost, expected, "seed {seed} step {step}");
                }
                _ => {
                    let next = board.next_segment(seq(una), seq(nxt));
                    let expected = model.next();
                    assert_eq!(next, expected.map(|(at, len)| (seq(at), len)), "seed {seed} step {step}");
                    if let Some((at, len)) = expected {
                        board.on_retransmit(seq(at), len, now);
                        model.again[at..at + len as usize].fill(Some(now));
                        model.resent = model.resent.max(at + len as usize);
                    }
                }
            }
            let (una, nxt) = (seq(model.una), seq(model.nxt));
            assert_eq!(board.pipe(una, nxt), model.pipe(), "seed {seed} step {step}");
            let sacked = model.sacked[model.una..].iter().filter(|&&s| s).count();
            assert_eq!(board.sacked_bytes() as usize, sacked);
        }
    }
}

/// Without an ACK, recovery sends each hole once and no more.
#[test]
fn sending_ends() {
    for seed in 0..200 {
        let mut random = SplitMix64::new(seed);
        let (una, nxt) = (SeqNum(0), SeqNum(200 + random.below(200) as u32));
        let mut board = Scoreboard::new(MSS);
        for _ in 0..random.below(20) {
            let start = 1 + random.below(nxt.0 as usize - 1) as u32;
            board.on_ack(una, una, nxt, &[(SeqNum(start), SeqNum((start + random.below(60) as u32).min(nxt.0)))]);
        }
        board.on_rto(una, nxt, nxt);
        let mut sent = 0;
        while let Some((seq, len)) = board.next_segment(una, nxt) {
            board.on_retransmit(seq, len, Time::ZERO);
            sent += len;
        }
        assert_eq!(sent, nxt.0 - board.sacked_bytes(), "seed {seed}");
    }
}

/// RFC 6675 section 4, IsLost(), which is RFC 8985's measure too where nothing
/// is reordered: three ranges, or more than two segments.
#[test]
fn loss_by_ranges_or_bytes() {
    let (una, nxt) = (SeqNum(0), SeqNum(200));
    let block = |a, b| (SeqNum(a), SeqNum(b));
    let mut board = Scoreboard::new(MSS);
    board.on_ack(una, una, nxt, &[block(10, 11), block(20, 21)]);
    assert!(!board.dup_thresh());
    board.on_ack(una, una, nxt, &[block(30, 31)]);
    assert!(board.dup_thresh());

    let mut board = Scoreboard::new(MSS);
    board.on_ack(una, una, nxt, &[block(10, 30)]);
    assert!(!board.dup_thresh());
    board.on_ack(una, una, nxt, &[block(10, 31)]);
    assert!(board.dup_thresh());
}

/// What was sent once and arrives below what arrived before is told as
/// reordering (RFC 8985 section 6.2 step 3); what was sent again is not.
#[test]
fn reordering_is_told() {
    let (una, nxt) = (SeqNum(0), SeqNum(100));
    let mut board = Scoreboard::new(MSS);
    assert!(!board.on_ack(una, una, nxt, &[(SeqNum(50), SeqNum(60)), (SeqNum(20), SeqNum(30))]).reordered);
    assert!(!board.on_ack(una, una, nxt, &[(SeqNum(50), SeqNum(70))]).reordered);
    let late = board.on_ack(una, una, nxt, &[(SeqNum(40), SeqNum(70))]);
    assert!(late.reordered && late.original == Some(SeqNum(40)));
    // By cumulative acknowledgement too, up to the hole at 30.
    assert!(board.on_ack(una, SeqNum(30), nxt, &[]).reordered);
    board.mark_lost(SeqNum(40));
    board.on_retransmit(SeqNum(30), 10, Time::from_millis(5));
    let filled = board.on_ack(SeqNum(30), SeqNum(70), nxt, &[]);
    assert!(!filled.reordered && filled.original.is_none());
    assert_eq!(filled.again.map(|sent| (sent.at, sent.end)), Some((Time::from_millis(5), SeqNum(40))));
}

/// RFC 6582 section 3.2: without SACK, the head on entering and after each
/// partial ACK.
#[test]
fn newreno_without_sack() {
    let nxt = SeqNum(100);
    let mut board = Scoreboard::new(MSS);
    board.mark_head_lost(SeqNum(0), nxt);
    assert_eq!(board.next_segment(SeqNum(0), nxt), again(0, 10));
    board.on_retransmit(SeqNum(0), 10, Time::ZERO);
    assert_eq!(board.next_segment(SeqNum(0), nxt), None);
    board.on_ack(SeqNum(0), SeqNum(40), nxt, &[]);
    board.mark_head_lost(SeqNum(40), nxt);
    assert_eq!(board.next_segment(SeqNum(40), nxt), again(40, 10));
    board.on_retransmit(SeqNum(40), 10, Time::ZERO);
    assert_eq!(board.pipe(SeqNum(40), nxt), 60);
    board.on_ack(SeqNum(40), nxt, nxt, &[]);
    assert!(board.is_empty());
}

/// RFC 6675 section 5.1, RFC 8985 section 6.3: a timeout keeps what was
/// SACKed and marks what is old enough of the rest, the first segment in any
/// case.
#[test]
fn timeout_keeps_what_arrived() {
    let (una, nxt) = (SeqNum(0), SeqNum(40));
    let mut board = Scoreboard::new(MSS);
    board.on_ack(una, una, nxt, &[(SeqNum(20), SeqNum(30))]);
    let mut young = board.clone();
    board.on_rto(una, nxt, nxt);
    assert_eq!(board.pipe(una, nxt), 0);
    let mut sent = Vec::new();
    while let Some((seq, len)) = board.next_segment(una, nxt) {
        board.on_retransmit(seq, len, Time::ZERO);
        sent.push((seq.0, len));
    }
    assert_eq!(sent, [(0, 10), (10, 10), (30, 10)]);
    assert_eq!(board.pipe(una, nxt), 30);
    young.on_rto(una, nxt, una);
    assert_eq!(young.pipe(una, nxt), 20);
    assert_eq!(young.next_segment(una, nxt), again(0, 10));
}

/// RFC 4015: what was not lost after all is in flight as before.
#[test]
fn forgiven() {
    let (una, nxt) = (SeqNum(0), SeqNum(100));
    let mut board = Scoreboard::new(MSS);
    board.on_ack(una, una, nxt, &[(SeqNum(20), SeqNum(50))]);
    board.mark_lost(SeqNum(50));
    board.on_retransmit(SeqNum(0), 10, Time::ZERO);
    board.forgive();
    assert_eq!(board.pipe(una, nxt), 70);
    assert_eq!(board.next_segment(una, nxt), None);
}

fn again(seq: u32, len: u32) -> Option<(SeqNum, u32)> {
    Some((SeqNum(seq), len))
}

/// RFC 2018 section 8: a peer may discard what it SACKed. SND.UNA at the start
/// of a SACKed range shows it, and the bytes are sent again.
#[test]
fn discarded_data_is_sent_again() {
    let nxt = SeqNum(100);
    let mut board = Scoreboard::new(MSS);
    board.on_ack(SeqNum(0), SeqNum(0), nxt, &[(SeqNum(10), SeqNum(20)), (SeqNum(30), SeqNum(100))]);
    board.mark_lost(SeqNum(99));
    board.on_retransmit(SeqNum(0), 10, Time::ZERO);
    board.on_ack(SeqNum(0), SeqNum(10), nxt, &[]);
    assert_eq!(board.sacked_bytes(), 70);
    assert_eq!(board.next_segment(SeqNum(10), nxt), again(10, 10));
}

/// RFC 2883 section 4: a first block below the ACK or within the second
/// reports a duplicate, and changes nothing.
#[test]
fn duplicate_reports() {
    let mut board = Scoreboard::new(MSS);
    let (una, nxt) = (SeqNum(50), SeqNum(100));
    let below = board.on_ack(una, una, nxt, &[(SeqNum(30), SeqNum(40))]);
    assert!(below.duplicate == Some((SeqNum(30), SeqNum(40))) && below.ignored_blocks == 0);
    let inside = board.on_ack(una, una, nxt, &[(SeqNum(62), SeqNum(64)), (SeqNum(60), SeqNum(70))]);
    assert!(inside.duplicate == Some((SeqNum(62), SeqNum(64))) && inside.newly_sacked == 10);
}

/// Blocks that no honest peer sends are ignored and counted.
#[test]
fn garbage_is_ignored() {
    let mut board = Scoreboard::new(MSS);
    let (una, nxt) = (SeqNum(50), SeqNum(100));
    let blocks = [(90, 101), (70, 70), (80, 60), (50, 60), (40, 60), (0x7000_0000, 0x7800_0000)];
    for (start, end) in blocks {
        let delivered = board.on_ack(una, una, nxt, &[(SeqNum(start), SeqNum(end))]);
        assert_eq!((delivered.newly_sacked, delivered.ignored_blocks), (0, 1), "{start}..{end}");
    }
    assert!(board.is_empty());
}

/// At the limit a block that needs a range of its own is refused; one that
/// joins a range is taken.
#[test]
fn ranges_are_bounded() {
    let mut board = Scoreboard::new(MSS);
    let (una, nxt) = (SeqNum(0), SeqNum(1_000_000));
    let limit = MAX_SACKED_RANGES as u32;
    for i in 0..limit {
        let at = 100 * (i + 1);
        assert_eq!(board.on_ack(una, una, nxt, &[(SeqNum(at), SeqNum(at + 10))]).refused_blocks, 0);
    }
    let at = 100 * (limit + 1);
    let refused = board.on_ack(una, una, nxt, &[(SeqNum(at), SeqNum(at + 10))]);
    assert_eq!((refused.newly_sacked, refused.refused_blocks), (0, 1));
    let joined = board.on_ack(una, una, nxt, &[(SeqNum(100), SeqNum(at + 10))]);
    assert_eq!((joined.newly_sacked, joined.refused_blocks), (at - 90 - 10 * limit, 0));
    // Retransmissions stay bounded too, and go on once some are acknowledged.
    let mut board = Scoreboard::new(MSS);
    board.on_rto(una, nxt, nxt);
    for i in 0..10 * MAX_RETRANSMITTED_RANGES as u32 {
        let at = SeqNum(20 * i);
        if board.retransmitted.len() < MAX_RETRANSMITTED_RANGES {
            board.on_retransmit(at, 10, Time::ZERO);
        }
    }
    assert_eq!(board.retransmitted.len(), MAX_RETRANSMITTED_RANGES);
    assert_eq!(board.next_segment(una, nxt), None);
    board.on_ack(una, SeqNum(100), nxt, &[]);
    assert_eq!(board.next_segment(SeqNum(100), nxt), again(110, 10));
}

/// RFC 9937 section 6 holds back where further losses show: an edge that moves
/// over what has arrived shows none.
#[test]
fn an_edge_over_what_arrived_is_no_news() {
    let mut board = Scoreboard::new(MSS);
    let seq = |n: u32| SeqNum(n * MSS);
    board.on_ack(seq(0), seq(0), seq(10), &[(seq(1), seq(4))]);
    assert!(board.mark_lost(seq(1)), "the first segment");
    assert!(!board.mark_lost(seq(1)));
    assert!(!board.mark_lost(seq(3)), "two that arrived");
    assert!(board.is_lost(seq(2)) && !board.is_lost(seq(3)));
    assert!(board.mark_lost(seq(5)), "one that did not");
}
