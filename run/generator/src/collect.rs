//! The collector: a thread beside the workers that takes their intervals, puts
//! those of the same time together, writes them, and shows how the run goes.
//! The workers are asked for nothing: they publish, and it reads.

use super::files::Files;
use super::post::Post;
use super::server_time::{ServerTime, Spent};
use super::show::Show;
use core::time::Duration;
use cpu::Clock;
use load::{Interval, Intervals, Live, Recorder, Stage};
use report::CpuUse;
use std::collections::VecDeque;
use std::sync::mpsc::{Receiver, TryRecvError};
use wire::Time;

/// How often the collector looks: often enough for keys to feel immediate, and
/// seldom enough to cost nothing that could be measured.
pub const LOOK_EVERY: Duration = Duration::from_millis(50);

/// Intervals that wait for those of other workers, at most: a worker that is
/// this far behind has its intervals written by themselves.
const WAITING_LIMIT: usize = 64;

/// An interval this much shorter than asked for says nothing of the best rate.
const WHOLE: f64 = 0.9;

/// What a worker publishes of its run.
#[derive(Debug)]
pub struct Source {
    /// How far it is.
    pub live: Live,
    /// What it counted, in intervals.
    pub intervals: Intervals,
}

/// What was seen of a run from beside it.
#[derive(Debug, Default)]
pub struct Seen {
    /// Responses per second of each worker, in each interval.
    pub rates: Recorder,
    /// Responses per second in the best interval.
    pub best_rate: Option<f64>,
    /// What the server took of the window.
    pub server: Option<CpuUse>,
    /// Files that could not be written to their end.
    pub failures: u32,
}

/// The collector of one run.
pub struct Collector<'a> {
    /// Where the workers introduce themselves; closed when the last has ended.
    pub sources: Receiver<Source>,
    /// How many there are.
    pub workers: usize,
    /// The length of an interval.
    pub every: Duration,
    /// What is written.
    pub files: &'a mut Files,
    /// What is shown.
    pub show: &'a mut Show,
    /// Whose CPU time is read.
    pub server: Option<&'a ServerTime>,
    /// Who else is told of each interval, and of the workers when all are there.
    pub post: Option<&'a Post>,
}

impl Collector<'_> {
    /// Collects until the run is over.
    pub fn run(self) -> Seen {
        let Self { sources, workers, every, files, show, server, mut post } = self;
        let told = post;
        let mut line_up = LineUp::new(workers);
        let mut tracks: Vec<Track> = Vec::new();
        let mut seen = Seen::default();
        let mut window = Window::default();
        loop {
            let closed = loop {
                match sources.try_recv() {
                    Ok(source) => tracks.push(Track { source, stage: Stage::Waiting, next: 0, over: false }),
                    Err(why) => break why == TryRecvError::Disconnected,
                }
            };
            for track in &mut tracks {
                track.take(&mut line_up, &mut seen, every);
            }
            let over = closed && tracks.iter().all(|track| track.over);
            while let Some(interval) = line_up.next(&tracks, over) {
                files.interval(&interval);
                if let Some(told) = told {
                    told.interval(&interval);
                }
                if interval.stage == Stage::Measuring && interval.length() >= every.mul_f64(WHOLE) {
                    seen.best_rate = Some(seen.best_rate.unwrap_or(0.0).max(interval.rate()));
                }
                show.interval(interval);
            }
            let lives: Vec<Live> = tracks.iter().map(|track| track.source.live.clone()).collect();
            if let Some(attached) = post.take_if(|_| lives.len() == workers) {
                attached.attach(lives.clone());
            }
            if let Some(server) = server {
                window.look(&lives, workers, server);
            }
            if over {
                seen.server = window.share();
                seen.failures = files.failures();
                return seen;
            }
            show.moment(&lives);
            show.wait(&lives, LOOK_EVERY);
        }
    }
}

/// One worker, and how far its intervals were taken.
struct Track {
    source: Source,
    /// The stage of the last one.
    stage: Stage,
    /// The place within the stage of the next one.
    next: u64,
    over: bool,
}

impl Track {
    fn take(&mut self, line_up: &mut LineUp, seen: &mut Seen, every: Duration) {
        while let Some(interval) = self.source.intervals.take() {
            if interval.stage != self.stage {
                (self.stage, self.next) = (interval.stage, 0);
            }
            let until = self.next + u64::from(interval.spans.max(1));
            if interval.stage == Stage::Measuring && interval.length() >= every.mul_f64(WHOLE) {
                seen.rates.record(interval.rate() as u64);
            }
            line_up.put(self.next, until, &interval);
            self.next = until;
        }
        self.over = self.source.intervals.is_over();
    }

    /// Whether nothing more comes for this place.
    fn is_past(&self, stage: Stage, until: u64) -> bool {
        self.over || (self.stage, self.next) >= (stage, until)
    }
}

/// Intervals that wait for those of other workers at the same time: at the
/// same place of the same stage, for each worker opens its own window.
struct LineUp {
    workers: usize,
    waiting: VecDeque<Waiting>,
    number: u64,
}

struct Waiting {
    from: u64,
    until: u64,
    interval: Interval,
}

impl LineUp {
    fn new(workers: usize) -> Self {
        Self { workers, waiting: VecDeque::new(), number: 0 }
    }

    /// Adds an interval to those at its place. One that stands for several,
    /// because the collector was slow, brings them together.
    fn put(&mut self, from: u64, until: u64, interval: &Interval) {
        let stage = interval.stage;
        let mut sum = Waiting { from, until, interval: interval.clone() };
        let mut index = 0;
        while index < self.waiting.len() {
            let other = &self.waiting[index];
            if other.interval.stage == stage && other.from < sum.until && sum.from < other.until {
                if let Some(mut other) = self.waiting.remove(index) {
                    other.interval.merge(&sum.interval);
                    let (from, until) = (other.from.min(sum.from), other.until.max(sum.until));
                    sum = Waiting { from, until, interval: other.interval };
                }
            } else {
                index += 1;
            }
        }
        let key = |waiting: &Waiting| (waiting.interval.stage, waiting.from);
        let at = self.waiting.partition_point(|other| key(other) < key(&sum));
        self.waiting.insert(at, sum);
    }

    /// The next interval to which nothing will be added.
    fn next(&mut self, tracks: &[Track], over: bool) -> Option<Interval> {
        let first = self.waiting.front()?;
        let all_here = tracks.len() >= self.workers;
        let complete = all_here && tracks.iter().all(|track| track.is_past(first.interval.stage, first.until));
        if !complete && !over && self.waiting.len() <= WAITING_LIMIT {
            return None;
        }
        let mut interval = self.waiting.pop_front()?.interval;
        interval.number = self.number;
        self.number += 1;
        Some(interval)
    }
}

/// The server's time at both ends of the measured window.
#[derive(Debug, Default)]
struct Window {
    opened: Option<(Time, Spent)>,
    ended: Option<(Time, Spent)>,
}

impl Window {
    fn look(&mut self, lives: &[Live], workers: usize, server: &ServerTime) {
        let at_least = |stage: Stage| lives.len() >= workers && lives.iter().all(|live| live.read().stage >= stage);
        let ended = lives.iter().any(|live| live.read().stage == Stage::Ended);
        // Until the first worker is done: the last look is the one that holds.
        if at_least(Stage::Measuring)
            && !ended
            && let Some(time) = server.read()
        {
            let mark = (Clock.now(), time);
            self.opened.get_or_insert(mark);
            self.ended = Some(mark);
        }
    }

    fn share(&self) -> Option<CpuUse> {
        let ((from, before), (to, after)) = (self.opened?, self.ended?);
        let span = to.since(from);
        (!span.is_zero()).then(|| after.since(&before, span))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn interval(stage: Stage, responses: u64, spans: u32) -> Interval {
        let mut interval = Interval { stage, spans, end: Duration::from_secs(1), ..Interval::default() };
        interval.counts.traffic.responses = responses;
        interval
    }

    fn drained(line_up: &mut LineUp) -> Vec<(Stage, u64, u64)> {
        core::iter::from_fn(|| line_up.next(&[], true))
            .map(|interval| (interval.stage, interval.number, interval.counts.traffic.responses))
            .collect()
    }

    #[test]
    fn intervals_of_the_same_place_are_one() {
        let mut line_up = LineUp::new(2);
        for (place, responses) in [(0, 1), (1, 2), (0, 10), (1, 20)] {
            line_up.put(place, place + 1, &interval(Stage::Measuring, responses, 1));
        }
        line_up.put(0, 1, &interval(Stage::WarmUp, 100, 1));
        let order = drained(&mut line_up);
        assert_eq!(order, [(Stage::WarmUp, 0, 100), (Stage::Measuring, 1, 11), (Stage::Measuring, 2, 22)]);
    }

    #[test]
    fn an_interval_that_stands_for_several_brings_them_together() {
        let mut line_up = LineUp::new(2);
        for place in 0..3 {
            line_up.put(place, place + 1, &interval(Stage::Measuring, 1, 1));
        }
        line_up.put(0, 2, &interval(Stage::Measuring, 10, 2));
        assert_eq!(drained(&mut line_up), [(Stage::Measuring, 0, 12), (Stage::Measuring, 1, 1)]);
    }

    #[test]
    fn what_waits_is_bounded() {
        let mut line_up = LineUp::new(2);
        for place in 0..=WAITING_LIMIT as u64 {
            assert!(line_up.next(&[], false).is_none());
            line_up.put(place, place + 1, &interval(Stage::Measuring, 1, 1));
        }
        assert!(line_up.next(&[], false).is_some(), "nobody waits for ever");
        assert!(line_up.next(&[], false).is_none());
    }
}
