//! The measured window, second by second: which of them count, and what each came to.

use super::figures::{DRIFT_PARTS, LeftOut, SecondFigures, StreamingFigures};
use super::player::{PlayRate, SEGMENT, nanos};
use core::time::Duration;
use wire::Time;

/// Seconds that a stretch has, over which a rate is looked at as a whole.
pub const STRETCH: u32 = 10;

const SECOND: Duration = Duration::from_secs(1);

/// No second yet.
const NEVER: u32 = u32::MAX;

/// The window of one silo or thread.
#[derive(Debug)]
pub struct Window {
    began: Option<Time>,
    /// Whole seconds that it has, of which those after the end of a run that was interrupted are none.
    seconds: u32,
    left_out: Vec<Option<LeftOut>>,
}

impl Window {
    pub fn new(duration: Duration) -> Self {
        let seconds = u32::try_from(duration.as_secs()).unwrap_or(NEVER - 1).min(NEVER - 1);
        Self { began: None, seconds, left_out: Vec::new() }
    }

    /// It begins now.
    pub fn begin(&mut self, now: Time) {
        self.began = Some(now);
    }

    /// It is over, perhaps before its time: seconds that are not whole are none.
    pub fn end(&mut self, now: Time) {
        self.seconds = self.began.map_or(0, |_| self.index(now).unwrap_or(0));
    }

    /// When it began.
    pub const fn begins(&self) -> Option<Time> {
        self.began
    }

    /// When it ends; none before it began.
    pub fn ends(&self) -> Option<Time> {
        Some(self.began? + SECOND * self.seconds)
    }

    /// Whole seconds of it.
    pub const fn seconds(&self) -> u32 {
        self.seconds
    }

    /// The second that this time is in: the number of seconds behind its end, none before its beginning.
    pub fn index(&self, now: Time) -> Option<u32> {
        let began = self.began.filter(|began| now >= *began)?;
        Some(u32::try_from(now.since(began).as_secs()).unwrap_or(NEVER).min(self.seconds))
    }

    /// Whether this time is in it.
    pub fn has(&self, now: Time) -> bool {
        self.index(now).is_some_and(|second| second < self.seconds)
    }

    /// Whether it is over by this time.
    pub fn is_over(&self, now: Time) -> bool {
        self.ends().is_some_and(|ends| now >= ends)
    }

    /// What of a span lies in each of its seconds: those that the span touches, in turn.
    pub fn parts(&self, from: Time, until: Time) -> impl Iterator<Item = (u32, Duration)> + use<> {
        let (began, ends) = self.began.zip(self.ends()).unwrap_or((Time::MAX, Time::MAX));
        let (from, until) = (from.max(began), until.min(ends));
        let first = self.index(from).unwrap_or(self.seconds);
        let part = move |second: u32| {
            let start = (began + SECOND * second).max(from);
            (second, until.min(began + SECOND * second.saturating_add(1)).since(start))
        };
        (first..self.seconds).map(part).take_while(|(_, part)| !part.is_zero())
    }

    /// When a second ends.
    fn end_of(&self, second: u32) -> Time {
        self.began.map_or(Time::ZERO, |began| began + SECOND * second.saturating_add(1))
    }

    /// Seconds that this span touches do not count.
    pub fn leave_out(&mut self, from: Time, until: Time, why: LeftOut) {
        let Some(began) = self.began.filter(|began| until >= *began) else { return };
        let (Some(first), Some(last)) = (self.index(from.max(began)), self.index(until)) else { return };
        let end = (last as usize + 1).min(self.seconds as usize);
        if self.left_out.len() < end {
            self.left_out.resize(end, None);
        }
        for left_out in self.left_out.iter_mut().take(end).skip(first as usize) {
            left_out.get_or_insert(why);
        }
    }

    /// Why a second does not count.
    pub fn left_out(&self, second: u32) -> Option<LeftOut> {
        self.left_out.get(second as usize).copied().flatten()
    }
}

/// A second of one stream that is over. It is judged a second later: what speaks against it may be
/// known some moments after it.
#[derive(Clone, Copy, Debug)]
struct Over {
    bytes: u64,
    /// How far the stream was behind what was due by its end.
    late: Duration,
}

/// One stream's seconds.
#[derive(Clone, Copy, Debug)]
pub struct Seconds {
    /// The second that is counted; [`NEVER`] as long as the stream is not under way.
    at: u32,
    bytes: u64,
    over: Option<Over>,
    /// Of the stretch under way: its seconds, and their bytes.
    stretch: (u32, u64),
}

impl Default for Seconds {
    fn default() -> Self {
        Self { at: NEVER, bytes: 0, over: None, stretch: (0, 0) }
    }
}

/// What is due of a stream.
#[derive(Clone, Copy, Debug)]
pub enum Due {
    /// The rate, in each second by itself.
    EachSecond(PlayRate),
    /// The rate since this time, of which so many bytes came so far.
    Since { rate: PlayRate, since: Time, received: u64 },
}

impl Seconds {
    /// The stream is under way from now on: its first whole second is the next.
    pub fn begin(&mut self, window: &Window, now: Time) {
        if self.at == NEVER {
            self.at = window.index(now).map_or(0, |second| second.saturating_add(1).min(NEVER - 1));
        }
    }

    /// Whether the stream is under way.
    pub const fn is_begun(&self) -> bool {
        self.at != NEVER
    }

    /// Ends the seconds before `now`.
    pub fn advance(&mut self, window: &Window, now: Time, due: Due, figures: &mut StreamingFigures) {
        let Some(second) = window.index(now).filter(|second| *second > self.at) else { return };
        while self.at < second {
            self.judge(window, due, figures);
            self.over = Some(Over { bytes: self.bytes, late: self.late(window, due) });
            (self.at, self.bytes) = (self.at + 1, 0);
        }
    }

    /// Bytes came; [`Seconds::advance`] was called for the same time.
    pub fn on_bytes(&mut self, window: &Window, now: Time, bytes: u64) {
        if window.index(now) == Some(self.at) && self.at < window.seconds() {
            self.bytes += bytes;
        }
    }

    /// The window is over, and nothing more will be known of its seconds.
    pub fn finish(&mut self, window: &Window, due: Due, figures: &mut StreamingFigures) {
        let end = window.ends().unwrap_or(Time::ZERO);
        self.advance(window, end, due, figures);
        self.judge(window, due, figures);
    }

    /// How far the stream is behind at the end of the second at hand.
    fn late(&self, window: &Window, due: Due) -> Duration {
        match due {
            Due::EachSecond(rate) => rate.time_of(rate.bytes_in(SECOND).saturating_sub(self.bytes)),
            Due::Since { rate, since, received } => {
                rate.time_of(rate.bytes_in(window.end_of(self.at).since(since)).saturating_sub(received))
            }
        }
    }

    /// Judges the second before the one at hand.
    fn judge(&mut self, window: &Window, due: Due, figures: &mut StreamingFigures) {
        let Some(over) = self.over.take() else { return };
        let second = self.at - 1;
        if window.left_out(second).is_some() {
            self.stretch = (0, 0);
            return;
        }
        figures.late.record(nanos(over.late));
        let one = figures.second(second);
        one.streams += 1;
        one.bytes += over.bytes;
        one.late += u32::from(!over.late.is_zero());
        let Due::EachSecond(rate) = due else { return };
        self.compare(rate, over.bytes, figures, second);
    }

    /// Compares a second's bytes with the rate, and a stretch's once it is whole.
    fn compare(&mut self, rate: PlayRate, bytes: u64, figures: &mut StreamingFigures, second: u32) {
        let off = rate.bytes_in(SECOND).abs_diff(bytes);
        figures.off.record(off);
        let SecondFigures { within_one, within_two, .. } = figures.second(second);
        *within_one += u32::from(off <= SEGMENT);
        *within_two += u32::from(off <= 2 * SEGMENT);
        self.stretch = (self.stretch.0 + 1, self.stretch.1 + bytes);
        if self.stretch.0 == STRETCH {
            let due = rate.bytes_in(SECOND * STRETCH);
            let off = due.abs_diff(self.stretch.1) as f64 / due.max(1) as f64;
            figures.drift.record((off * DRIFT_PARTS) as u64);
            self.stretch = (0, 0);
        }
    }
}
