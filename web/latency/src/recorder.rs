//! What a silo adds to its series, a turn at a time.

use crate::buckets::bucket_of;
use crate::series::{
    BYTES, CLASSES, FIRST_CLASS, GENERATION, OTHER, PLACE_BITS, SERIES_MAX, SUM, SeriesBoard, WORDS, add, mark,
};
use core::sync::atomic::Ordering;
use wire::Time;

/// Exchanges that ended in one turn, before they are added.
const ENDED_MAX: usize = 32;

/// Collects what ended in a turn, and adds it to the silo's series when the turn is
/// over.
#[derive(Debug)]
pub struct Recorder {
    board: SeriesBoard,
    /// Series with anything in `ready`, a bit for each.
    dirty: u64,
    /// When the turn began in which the first of them was answered.
    turn: Time,
    /// What was answered at once and whole, with status 200, by series.
    ready: [Ready; SERIES_MAX],
    ended: Vec<Pace>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Ready {
    count: u64,
    bytes: u64,
}

/// An exchange that is over.
#[derive(Clone, Copy, Debug)]
pub struct Pace {
    /// Whose it was.
    pub series: u16,
    /// Its status.
    pub status: u16,
    /// Bytes of its response.
    pub bytes: u64,
    /// When its head was whole.
    pub began: Time,
}

const _: () = assert!(SERIES_MAX == u64::BITS as usize, "each has its bit");

impl Recorder {
    /// Adds to the series of a silo.
    #[must_use]
    pub fn new(board: SeriesBoard) -> Self {
        Self {
            board,
            dirty: 0,
            turn: Time::ZERO,
            ready: [Ready::default(); SERIES_MAX],
            ended: Vec::with_capacity(ENDED_MAX),
        }
    }

    /// Whose series there are.
    #[must_use]
    pub const fn board(&self) -> &SeriesBoard {
        &self.board
    }

    /// A response that was ready was queued, in the turn of `now`.
    #[inline]
    pub fn on_ready(&mut self, series: u16, bytes: u64, now: Time) {
        let at = usize::from(series) % SERIES_MAX;
        if self.dirty == 0 {
            self.turn = now;
        }
        self.dirty |= 1 << at;
        let ready = &mut self.ready[at];
        ready.count = ready.count.wrapping_add(1);
        ready.bytes = ready.bytes.wrapping_add(bytes);
    }

    /// An exchange ended in the turn of `now`.
    pub fn on_end(&mut self, exchange: Pace, now: Time) {
        self.ended.push(exchange);
        if self.ended.len() >= ENDED_MAX {
            self.add_ended(now);
        }
    }

    /// What became of no exchange: it has a status, and no time of its own.
    pub fn on_rejected(&self, status: u16, bytes: u64) {
        self.add_response(OTHER, status, 1, bytes);
    }

    /// The turn is over.
    #[inline]
    pub fn on_turn_over(&mut self, now: Time) {
        if self.dirty != 0 || !self.ended.is_empty() {
            self.add_all(now);
        }
    }

    #[inline(never)]
    fn add_all(&mut self, now: Time) {
        let latency = nanos(self.turn, now);
        let bucket = bucket_of(latency);
        let mut dirty = core::mem::take(&mut self.dirty);
        let all = self.board.words();
        while dirty != 0 {
            let at = dirty.trailing_zeros() as usize % SERIES_MAX;
            dirty &= dirty - 1;
            let Ready { count, bytes } = core::mem::take(&mut self.ready[at]);
            let Some(words) = all.get(at * WORDS..).and_then(|words| words.first_chunk::<WORDS>()) else { continue };
            add(words.get(bucket), count);
            add(words.get(SUM), latency.wrapping_mul(count));
            add(words.get(BYTES), bytes);
            add(words.get(FIRST_CLASS), count);
        }
        if !self.ended.is_empty() {
            self.add_ended(now);
        }
    }

    fn add_ended(&mut self, now: Time) {
        for at in 0..self.ended.len() {
            let Pace { series, status, bytes, began } = self.ended[at];
            let latency = nanos(began, now);
            self.add_latency(series, bucket_of(latency), (latency, 1));
            self.add_response(series, status, 1, bytes);
        }
        self.ended.clear();
    }

    fn add_latency(&self, series: u16, bucket: usize, (latency, count): (u64, u64)) {
        let words = self.words(series);
        add(words.get(bucket), count);
        add(words.get(SUM), latency.wrapping_mul(count));
    }

    fn add_response(&self, series: u16, status: u16, count: u64, bytes: u64) {
        let words = self.words(series);
        let class = usize::from(status / 100).saturating_sub(2).min(CLASSES - 1);
        add(words.get(FIRST_CLASS + class), count);
        add(words.get(BYTES), bytes);
    }

    fn words(&self, series: u16) -> &[core::sync::atomic::AtomicU64] {
        let of = |series: u16| {
            let at = usize::from(series) % SERIES_MAX * WORDS;
            self.board.words().get(at..at + WORDS).unwrap_or_default()
        };
        let words = of(series);
        // Another has its place by now, and its host is gone.
        let now = words.get(GENERATION).map(|word| word.load(Ordering::Relaxed) as u32);
        if now.is_some_and(|now| mark(now) != series >> PLACE_BITS) { of(OTHER) } else { words }
    }
}

fn nanos(from: Time, until: Time) -> u64 {
    until.as_nanos().saturating_sub(from.as_nanos())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::series::{SeriesHeap, SeriesTable};

    fn at(micros: u64) -> Time {
        Time::from_nanos(micros * 1_000)
    }

    #[test]
    fn a_turn_s_answers_take_as_long_as_the_turn() {
        let memory = SeriesHeap::default();
        let board = SeriesTable::new(memory.clone()).board(0);
        let (one, other) = (board.series(b"a", b"/"), board.series(b"a", b"/x"));
        assert_eq!((one, other, board.series(b"a", b"/")), (1, 2, 1));
        let mut recorder = Recorder::new(board);
        recorder.on_ready(one, 100, at(1_000));
        recorder.on_ready(one, 100, at(1_000));
        recorder.on_ready(other, 7, at(1_000));
        assert!(!memory.read()[usize::from(one)].clone().is_used(), "not before the turn is over");
        recorder.on_turn_over(at(1_010));
        recorder.on_turn_over(at(9_999));
        let read = memory.read()[usize::from(one)].clone();
        assert_eq!((read.host.as_str(), read.location.as_str()), ("a", "/"));
        assert_eq!((read.bytes, read.classes, read.latency.sum), (200, [2, 0, 0, 0], 20_000));
        assert_eq!(read.latency.counts[bucket_of(10_000)], 2);
        assert_eq!(memory.read()[usize::from(other)].latency.count(), 1);
    }

    #[test]
    fn what_waited_takes_from_its_own_beginning() {
        let memory = SeriesHeap::default();
        let mut recorder = Recorder::new(SeriesTable::new(memory.clone()).board(0));
        for status in [206, 304, 404, 503, 999] {
            recorder.on_end(Pace { series: OTHER, status, bytes: 1, began: at(500) }, at(1_000));
        }
        recorder.on_turn_over(at(2_500));
        recorder.on_rejected(400, 9);
        let read = memory.read()[0].clone();
        assert_eq!((read.classes, read.bytes, read.latency.count()), ([1, 1, 2, 2], 14, 5));
        assert_eq!((read.latency.sum, read.latency.counts[bucket_of(2_000_000)]), (10_000_000, 5));
        // More than there is room for are not kept for the end of the turn.
        for _ in 0..10 * ENDED_MAX {
            recorder.on_end(Pace { series: OTHER, status: 200, bytes: 0, began: at(0) }, at(1));
        }
        assert_eq!(memory.read()[0].clone().latency.count(), 5 + 10 * ENDED_MAX as u64);
        assert_eq!(recorder.ended.capacity(), ENDED_MAX);
    }

    /// Whoever has the place of one that is gone begins at zero, and gets nothing of what
    /// ends late.
    #[test]
    fn a_place_that_is_taken_again_has_nothing_of_who_had_it() {
        let memory = SeriesHeap::default();
        let table = SeriesTable::new(memory.clone());
        let mut recorder = Recorder::new(table.board(0));
        let old = recorder.board().series(b"old", b"/");
        let kept = recorder.board().series(b"kept", b"/");
        let end = |series| Pace { series, status: 200, bytes: 5, began: at(0) };
        for series in [old, old, kept] {
            recorder.on_end(end(series), at(10));
        }
        recorder.on_turn_over(at(10));
        table.retain(|host, _| host == "kept");
        let hosts = || memory.read().into_iter().map(|one| (one.host, one.bytes)).collect::<Vec<_>>();
        assert_eq!(hosts(), [("other".to_owned(), 0), ("kept".to_owned(), 5)]);
        let new = recorder.board().series(b"new", b"/");
        assert!(new != old && usize::from(new) % SERIES_MAX == usize::from(old) % SERIES_MAX);
        assert_eq!(hosts()[1], ("new".to_owned(), 0));
        recorder.on_end(end(old), at(20));
        recorder.on_end(end(new), at(20));
        recorder.on_ready(new, 7, at(20));
        recorder.on_turn_over(at(20));
        assert_eq!(hosts(), [("other".to_owned(), 5), ("new".to_owned(), 12), ("kept".to_owned(), 5)]);
        // It comes back, and is another.
        assert_ne!(recorder.board().series(b"old", b"/"), old);
        // Numbers stay apart from the one that means none.
        for _ in 0..3_000 {
            table.retain(|_, _| false);
            assert_ne!(recorder.board().series(b"again", b"/"), u16::MAX);
        }
        assert_eq!(hosts(), [("other".to_owned(), 5), ("again".to_owned(), 0)]);
    }

    #[test]
    fn a_full_table_counts_the_rest_together() {
        let memory = SeriesHeap::default();
        let board = SeriesTable::new(memory.clone()).board(0);
        for number in 0..2 * SERIES_MAX {
            let series = board.series(b"host", format!("/{number}").as_bytes());
            assert_eq!(usize::from(series), if number + 1 < SERIES_MAX { number + 1 } else { 0 });
        }
        assert_eq!(board.series(b"host", b"/5"), 6);
        let long = board.series(&[b'h'; 500], "\u{fc}\t\n".repeat(200).as_bytes());
        assert_eq!(long, OTHER);
        let all = memory.read();
        assert_eq!((all.len(), all[0].host.as_str(), all[0].location.as_str()), (SERIES_MAX, "other", "other"));
    }
}
