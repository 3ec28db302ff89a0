//! When requests are due in an open loop: the schedule as asked for, and the
//! walk along it.

use crate::random::Random;
use core::time::Duration;
use serde::{Serialize, Serializer};
use wire::Time;

/// The highest rate of one [`Schedule`], in requests per second.
pub const RATE_LIMIT: f64 = 1e9;

/// The most [`Step`]s of one [`Schedule`].
pub const STEPS_LIMIT: usize = 4_096;

/// What makes the next request due.
#[derive(Clone, PartialEq, Debug, Default, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Arrival {
    /// The response to the one before it, on the same connection: the server
    /// sets the pace.
    #[default]
    Closed,
    /// The time: the schedule sets the pace, and a request that is due while
    /// all connections are busy waits, and its latency with it.
    Open(Schedule),
}

/// Requests per second over time. Zero of its time is the opening of the
/// measured window; before it, from the start of the warm-up, the first rate
/// holds, and after its end the last one.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Schedule {
    /// The rate over time.
    pub shape: Shape,
    /// How requests are spaced at a rate.
    pub spacing: Spacing,
    /// The part of a gap that passes before the first request, above 0 and at
    /// most 1 (the default). [`crate::Plan::share`] staggers silos with it, so
    /// that evenly spaced requests stay so in sum. Without meaning for
    /// [`Spacing::Poisson`].
    pub first_gap: f64,
}

/// A rate over time, in requests per second.
#[derive(Clone, PartialEq, Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Shape {
    /// The same rate throughout.
    Constant(f64),
    /// One rate after the other; the last holds on. At least one.
    Steps(Vec<Step>),
    /// A rate that grows or falls evenly, and then holds.
    Ramp {
        /// Where it begins.
        from: f64,
        /// Where it ends.
        to: f64,
        /// How long it takes.
        #[serde(rename = "over_ns", serialize_with = "nanos")]
        over: Duration,
    },
}

/// A rate for a time.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub struct Step {
    /// Requests per second; zero is a pause.
    pub rate: f64,
    /// How long it holds.
    #[serde(rename = "time_ns", serialize_with = "nanos")]
    pub time: Duration,
}

/// How requests are spaced at a rate.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Spacing {
    /// Evenly.
    #[default]
    Even,
    /// As a Poisson process: gaps are independent and exponentially
    /// distributed, as those of many users who know nothing of each other.
    Poisson,
}

impl Schedule {
    /// `rate` requests per second, evenly spaced.
    #[must_use]
    pub fn constant(rate: f64) -> Self {
        Self { shape: Shape::Constant(rate), spacing: Spacing::Even, first_gap: 1.0 }
    }

    /// `rate` requests per second on average, as a Poisson process.
    #[must_use]
    pub fn poisson(rate: f64) -> Self {
        Self { spacing: Spacing::Poisson, ..Self::constant(rate) }
    }

    /// One rate after the other.
    #[must_use]
    pub fn steps(steps: Vec<Step>) -> Self {
        Self { shape: Shape::Steps(steps), ..Self::constant(0.0) }
    }

    /// A rate that goes evenly from one value to another.
    #[must_use]
    pub fn ramp(from: f64, to: f64, over: Duration) -> Self {
        Self { shape: Shape::Ramp { from, to, over }, ..Self::constant(0.0) }
    }

    /// The rate that holds before the measured window.
    #[must_use]
    pub fn first_rate(&self) -> f64 {
        match &self.shape {
            Shape::Constant(rate) => *rate,
            Shape::Steps(steps) => steps.first().map_or(0.0, |step| step.rate),
            Shape::Ramp { from, .. } => *from,
        }
    }

    /// The mean rate over the first `span` of the schedule's time.
    #[must_use]
    #[cfg(test)]
    pub fn mean_rate(&self, span: Duration) -> f64 {
        let end = span.as_secs_f64();
        let (mut at, mut mass) = (0.0, 0.0);
        let mut pieces = self.pieces();
        while at < end {
            let piece = pieces.next();
            let until = piece.until.map_or(end, |until| until.as_secs_f64().min(end));
            mass += piece.rate.mass((until - at).max(0.0));
            at = until;
        }
        if end > 0.0 { mass / end } else { self.first_rate() }
    }

    /// Whether it can be followed; if not, in words for the user.
    pub(crate) fn check(&self) -> Result<(), &'static str> {
        let rates: Vec<f64> = match &self.shape {
            Shape::Constant(rate) => vec![*rate],
            Shape::Steps(steps) => steps.iter().map(|step| step.rate).collect(),
            Shape::Ramp { from, to, .. } => vec![*from, *to],
        };
        if rates.is_empty() || rates.len() > STEPS_LIMIT {
            return Err("a schedule has between 1 and 4,096 steps");
        }
        if !rates.iter().all(|rate| (0.0..=RATE_LIMIT).contains(rate)) {
            return Err("a rate must be between 0 and 1,000,000,000 requests per second");
        }
        if rates.iter().all(|rate| *rate == 0.0) {
            return Err("a rate must be above zero at some time");
        }
        if !(self.first_gap > 0.0 && self.first_gap <= 1.0) {
            return Err("the first gap must be above 0 and at most 1 of a whole one");
        }
        Ok(())
    }

    /// The part that silo `index` of `silos` follows.
    pub(crate) fn share(&self, index: u32, silos: u32) -> Self {
        let part = |rate: f64| rate / f64::from(silos);
        let shape = match &self.shape {
            Shape::Constant(rate) => Shape::Constant(part(*rate)),
            Shape::Steps(steps) => {
                Shape::Steps(steps.iter().map(|step| Step { rate: part(step.rate), ..*step }).collect())
            }
            Shape::Ramp { from, to, over } => Shape::Ramp { from: part(*from), to: part(*to), over: *over },
        };
        // Of this schedule's requests, every so many fall to the silo, from its own number on: so parts of a
        // part are evenly spaced in sum, too.
        let first_gap = (self.first_gap + f64::from(index)) / f64::from(silos);
        Self { shape, spacing: self.spacing, first_gap }
    }

    fn pieces(&self) -> Pieces<'_> {
        Pieces { shape: &self.shape, next: 0, end: Duration::ZERO }
    }
}

const _: () = assert!(RATE_LIMIT == 1e9 && STEPS_LIMIT == 4_096, "the errors above say how much it is");

/// A rate that changes evenly: `at + slope × seconds`, per second.
#[derive(Clone, Copy, PartialEq, Debug)]
struct Line {
    at: f64,
    slope: f64,
}

impl Line {
    const fn flat(rate: f64) -> Self {
        Self { at: rate, slope: 0.0 }
    }

    /// Requests due within the first `seconds`.
    fn mass(self, seconds: f64) -> f64 {
        (self.at + 0.5 * self.slope * seconds) * seconds
    }

    /// The time until `mass` requests are due; infinite if that never is.
    fn time(self, mass: f64) -> f64 {
        if mass <= 0.0 {
            return 0.0;
        }
        if self.slope == 0.0 {
            return if self.at > 0.0 { mass / self.at } else { f64::INFINITY };
        }
        let root = self.at * self.at + 2.0 * self.slope * mass;
        // This form of the quadratic formula loses no digits to cancellation,
        // whichever sign the slope has.
        if root < 0.0 { f64::INFINITY } else { 2.0 * mass / (self.at + root.sqrt()) }
    }
}

/// A line that holds for a time.
#[derive(Clone, Copy, Debug)]
struct Piece {
    rate: Line,
    /// Its end, in the schedule's time; the last piece has none.
    until: Option<Duration>,
}

/// The pieces of a shape, in order; the last comes again and again.
struct Pieces<'a> {
    shape: &'a Shape,
    next: usize,
    end: Duration,
}

impl Pieces<'_> {
    fn next(&mut self) -> Piece {
        let n = self.next;
        self.next += 1;
        match self.shape {
            Shape::Constant(rate) => Piece { rate: Line::flat(*rate), until: None },
            Shape::Steps(steps) => match steps.get(n) {
                Some(step) => {
                    self.end = self.end.saturating_add(step.time);
                    let last = n + 1 == steps.len();
                    Piece { rate: Line::flat(step.rate), until: (!last).then_some(self.end) }
                }
                None => Piece { rate: Line::flat(steps.last().map_or(0.0, |step| step.rate)), until: None },
            },
            Shape::Ramp { from, to, over } if n == 0 && !over.is_zero() => {
                let slope = (to - from) / over.as_secs_f64();
                Piece { rate: Line { at: *from, slope }, until: Some(*over) }
            }
            Shape::Ramp { to, .. } => Piece { rate: Line::flat(*to), until: None },
        }
    }
}

/// A change of the rate while the schedule is followed.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Change {
    /// The schedule's own time begins.
    Begin,
    /// This rate from now on, whatever the schedule says.
    Rate(f64),
}

/// Follows a schedule: yields the time of one request after the other. A copy
/// yields the same times, so that one copy can follow behind another.
///
/// The requests due by a time are the integral of the rate. A request is due
/// where it passes the next whole number, or for a Poisson process the next
/// of a unit-rate process (time change of a Poisson process). So a change of
/// the rate takes effect at once, and is never followed by a burst: what is
/// left of the gap is stretched or squeezed.
#[derive(Clone, Debug)]
pub struct Arrivals {
    spacing: Spacing,
    random: Random,
    /// Where the line at hand began.
    anchor: Time,
    line: Line,
    /// Requests due from the anchor until the next one is.
    mass: f64,
    /// When that is.
    next: Time,
    /// When the line at hand ends.
    until: Time,
    /// Where the schedule's time began, if it has, and its next piece.
    begun: Option<Time>,
    pieces: usize,
}

impl Arrivals {
    /// Follows `schedule` from `now` on, at its first rate.
    pub fn new(schedule: &Schedule, seed: u64, now: Time) -> Self {
        let mut random = Random::new(seed);
        let mass = match schedule.spacing {
            Spacing::Even => schedule.first_gap,
            Spacing::Poisson => random.exponential(),
        };
        let mut arrivals = Self {
            spacing: schedule.spacing,
            random,
            anchor: now,
            line: Line::flat(schedule.first_rate()),
            mass,
            next: now,
            until: Time::MAX,
            begun: None,
            pieces: 0,
        };
        arrivals.solve();
        arrivals
    }

    /// When the next request is due.
    #[inline]
    pub fn next(&self) -> Time {
        self.next
    }

    /// The rate at a time not before the line at hand began.
    pub fn rate(&self, now: Time) -> f64 {
        (self.line.at + self.line.slope * now.since(self.anchor).as_secs_f64()).max(0.0)
    }

    /// Goes on to the request after the next one.
    #[inline]
    pub fn advance(&mut self, schedule: &Schedule) {
        self.mass += match self.spacing {
            Spacing::Even => 1.0,
            Spacing::Poisson => self.random.exponential(),
        };
        self.solve();
        if self.next > self.until {
            self.turn_piece(schedule);
        }
    }

    /// Takes a change at `now`, which is not after the next request.
    pub fn change(&mut self, schedule: &Schedule, change: Change, now: Time) {
        match change {
            Change::Begin => {
                self.begun = Some(now);
                self.pieces = 0;
                self.until = now;
                // Whatever is due, the first piece holds from here on.
                self.next = Time::MAX;
                self.turn_piece(schedule);
            }
            Change::Rate(rate) => {
                self.until = Time::MAX;
                self.bend(now, Line::flat(rate));
            }
        }
    }

    /// Goes over to the piece of the schedule in which the next request is due.
    #[cold]
    fn turn_piece(&mut self, schedule: &Schedule) {
        let Some(begun) = self.begun else {
            return;
        };
        // Each piece is passed once, and the last has no end. A request that
        // is due at the very end of a piece belongs to it.
        while self.next > self.until {
            let mut pieces = schedule.pieces();
            let mut piece = pieces.next();
            for _ in 0..self.pieces {
                piece = pieces.next();
            }
            self.pieces += 1;
            let at = self.until;
            self.until = piece.until.map_or(Time::MAX, |until| begun + until);
            self.bend(at, piece.rate);
        }
    }

    /// Another line holds from `at` on. What is left of the gap stays left.
    fn bend(&mut self, at: Time, line: Line) {
        let passed = self.line.mass(at.since(self.anchor).as_secs_f64());
        self.mass = (self.mass - passed).max(0.0);
        self.anchor = at;
        self.line = line;
        self.solve();
    }

    /// From the anchor each time, not from the request before: so rounding
    /// does not add up.
    #[inline]
    fn solve(&mut self) {
        let nanos = self.line.time(self.mass) * 1e9;
        // A float is cast with saturation, infinity included.
        let nanos = (nanos + 0.5) as u64;
        self.next = Time::from_nanos(self.anchor.as_nanos().saturating_add(nanos));
    }
}

fn nanos<S: Serializer>(span: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_u64(u64::try_from(span.as_nanos()).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests;
