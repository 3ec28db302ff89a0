//! The search for the highest rate that meets an objective.
//!
//! Pure: it proposes a rate, is told how a run at that rate went, and proposes
//! the next. First it doubles the rate until the objective is missed, then it
//! halves the distance between the highest rate that met it and the lowest
//! that did not. A run is noisy, and near the answer it is a coin's throw; so
//! a rate is judged by the majority of several runs, and the answer by more.
//!
//! A run is judged by its undisturbed parts ([`crate::Sieve`]). One of which too
//! little counts ([`Spoilt`]) says nothing of the server: it is repeated, and
//! where too many are spoilt there is no answer. One that met the objective
//! though its disturbances could not be told apart counts, for none of them
//! makes a server quicker.
//!
//! Cores are not always as fast: their clock changes, and what looks like a
//! core may be half of one, of which another tenant has the other half. No wait
//! tells of that, so each run brings the time that a fixed piece of work took
//! on its cores meanwhile. Where that was longer than in another run under as
//! much load or more, a miss says nothing. Under less load cores may be faster
//! for that very reason, so that such runs are no measure.

mod spoilt;

pub use spoilt::{Spoilt, Surroundings};

use crate::objective::Objective;
use crate::report::Report;
use crate::sieve::Sifted;
use serde::Serialize;

/// A run on cores that took longer than this for the same work, as a share of
/// the shortest time, says nothing against the server: a tenth is what an
/// answer may be off.
const SLOWER: f64 = 1.1;

/// A run at this share of a rate is as much load.
const AS_MUCH: f64 = 1.0 / 1.5;

/// How to search.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub struct FindMaxConfig {
    /// The first rate, per second. Best well below the answer: an overload
    /// at the start takes time to get over. Default 1,000.
    pub start: f64,
    /// The lowest rate that is of interest. Default 1.
    pub lowest: f64,
    /// The highest rate that is tried. Default 10 million.
    pub highest: f64,
    /// The factor between rates at first; above 1. Default 2.
    pub growth: f64,
    /// The search ends when a rate that is met and one that is not are this
    /// close, as a share. Default 0.02.
    pub precision: f64,
    /// A rate passes, or not, by this many runs that agree: 2 is the best of
    /// three. Default 2. While the rate still grows, one run that meets the
    /// objective is enough, for the next rate tests it again.
    pub votes: u32,
    /// The answer stands when this many runs met the objective at its rate,
    /// and fewer did not; and the other way round at the rate above it.
    /// Default 3.
    pub confirm: u32,
    /// A run at a rate is no failure of the server if the generator could not
    /// send at it: with an achieved rate below this share, the objective
    /// counts as missed all the same, and [`Found::limited`] says so. Default
    /// 0.95.
    pub achieved: f64,
    /// The most runs. Default 100.
    pub trials: u32,
    /// The most runs at one rate that the machine may spoil; with one more the
    /// search ends without an answer. Default 2: a run goes on by itself until
    /// enough of it counts.
    pub patience: u32,
}

impl Default for FindMaxConfig {
    fn default() -> Self {
        Self {
            start: 1_000.0,
            lowest: 1.0,
            highest: 1e7,
            growth: 2.0,
            precision: 0.02,
            votes: 2,
            confirm: 3,
            achieved: 0.95,
            trials: 100,
            patience: 2,
        }
    }
}

/// How a run at a proposed rate went.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize)]
pub struct Trial {
    /// Responses per second.
    pub achieved: f64,
    /// Whether the objective was met.
    pub met: bool,
    /// The mean latency, in nanoseconds.
    pub mean_ns: f64,
    /// The median.
    pub p50_ns: u64,
    /// The 99th percentile.
    pub p99_ns: u64,
    /// The 99.9th percentile.
    pub p999_ns: u64,
    /// How the machine spoilt it, if it did.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub spoilt: Option<Spoilt>,
    /// How much of it counted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sifted: Option<Sifted>,
    /// What a fixed piece of work took on its slowest core meanwhile, in
    /// nanoseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pace_ns: Option<f64>,
}

impl Trial {
    /// What counted of a run, held against its objectives and against what else
    /// the machine did.
    #[must_use]
    pub fn judged(report: &Report, objectives: &[Objective], sifted: &Sifted, around: &Surroundings) -> Self {
        let met = objectives.iter().all(|objective| objective.judge(report).met);
        let spoilt = Spoilt::of(report, objectives, sifted, around);
        Self { spoilt, sifted: Some(*sifted), ..Self::new(report, met) }
    }

    /// A run that is reported on, and whether it met its objective.
    #[must_use]
    pub fn new(report: &Report, met: bool) -> Self {
        let latency = &report.latency;
        Self {
            achieved: report.throughput.requests_per_second,
            met,
            mean_ns: latency.mean_ns,
            p50_ns: latency.p50_ns,
            p99_ns: latency.p99_ns,
            p999_ns: latency.p999_ns,
            spoilt: None,
            sifted: None,
            pace_ns: None,
        }
    }

    /// Whether it says that the rate was met (`true`) or missed; `None` if it
    /// says nothing.
    fn says(&self, wanted: f64, pace_limit: f64) -> Option<bool> {
        let met = self.met && self.achieved >= wanted;
        match self.spoilt {
            _ if !met && self.pace_ns.is_some_and(|pace| pace > pace_limit) => None,
            Some(Spoilt::FewSamples { .. } | Spoilt::Disturbed { .. }) => None,
            Some(_) if !met => None,
            _ => Some(met),
        }
    }
}

/// The runs at one rate: a point of the curve of latency over load.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Point {
    /// The rate, per second.
    pub rate: f64,
    /// The runs, in order.
    pub trials: Vec<Trial>,
}

impl Point {
    fn votes(&self, achieved: f64, pace_limit: f64) -> (u32, u32) {
        let says = |trial: &Trial| trial.says(achieved * self.rate, pace_limit);
        let said = |met: bool| self.trials.iter().filter(|trial| says(trial) == Some(met)).count() as u32;
        (said(true), said(false))
    }

    /// The run with the median of `figure`; of two, the lower.
    ///
    /// # Panics
    /// If there was no run, which a point of a [`FindMax`] always has.
    pub fn median(&self, figure: impl Fn(&Trial) -> f64) -> &Trial {
        let mut order: Vec<&Trial> = self.trials.iter().collect();
        order.sort_by(|one, other| figure(one).total_cmp(&figure(other)));
        order[(order.len() - 1) / 2]
    }
}

/// What was found.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Found {
    /// The highest rate that met the objective, confirmed; `None` if not even
    /// the lowest did, or if the search is invalid.
    pub rate: Option<f64>,
    /// Whether the machine spoilt so many runs that there is no answer.
    pub invalid: bool,
    /// If it is invalid, the highest rate that met the objective nevertheless.
    pub at_least: Option<f64>,
    /// The lowest rate that did not; `None` if even the highest met it.
    pub missed: Option<f64>,
    /// Whether the search ended for want of runs before it was as precise as
    /// asked.
    pub cut_short: bool,
    /// Whether rates were missed because responses did not keep up with the
    /// rate, though those that came met the objective: the limit may be the
    /// generator's, or that of its number of connections.
    pub limited: bool,
    /// Runs that missed on slower cores than others, and say nothing for it.
    pub slower: u32,
    /// The curve, by rate.
    pub points: Vec<Point>,
}

impl Found {
    /// The slices of all runs; none where no run was cut into slices.
    #[must_use]
    pub fn sifted(&self) -> Option<Sifted> {
        let trials = self.points.iter().flat_map(|point| &point.trials);
        trials.filter_map(|trial| trial.sifted).reduce(|sum, sifted| sum.plus(&sifted))
    }
}

/// The search. Call order: [`FindMax::propose`], a run at that rate,
/// [`FindMax::record`], and again until nothing is proposed.
#[derive(Clone, Debug)]
pub struct FindMax {
    config: FindMaxConfig,
    points: Vec<Point>,
    /// The rate under trial.
    rate: f64,
    met: Option<f64>,
    missed: Option<f64>,
    trials: u32,
    state: State,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum State {
    /// Growing, or falling until a rate is met.
    Bracket,
    /// Halving the distance.
    Bisect,
    /// Trying the answer again.
    Confirm,
    /// Trying the rate that stands above it again.
    Refute,
    Done,
    /// The machine spoilt too many runs.
    Invalid,
}

impl FindMax {
    /// A search. Settings that make no sense are brought into range.
    #[must_use]
    pub fn new(config: FindMaxConfig) -> Self {
        let positive = |value: f64, or: f64| if value.is_finite() && value > 0.0 { value } else { or };
        let lowest = positive(config.lowest, 1.0);
        let highest = positive(config.highest, 1e7).max(lowest);
        let config = FindMaxConfig {
            start: positive(config.start, lowest).clamp(lowest, highest),
            lowest,
            highest,
            growth: positive(config.growth, 2.0).clamp(1.05, 100.0),
            precision: positive(config.precision, 0.02).clamp(1e-6, 1.0),
            votes: config.votes.max(1),
            confirm: config.confirm.max(1),
            achieved: config.achieved.clamp(0.0, 1.0),
            trials: config.trials.max(1),
            patience: config.patience,
        };
        let rate = config.start;
        Self { config, points: Vec::new(), rate, met: None, missed: None, trials: 0, state: State::Bracket }
    }

    /// The rate of the next run; `None` when the search is over.
    #[must_use]
    pub fn propose(&self) -> Option<f64> {
        (!matches!(self.state, State::Done | State::Invalid) && self.trials < self.config.trials).then_some(self.rate)
    }

    /// Takes note of the run at the proposed rate.
    pub fn record(&mut self, trial: Trial) {
        if self.propose().is_none() {
            return;
        }
        self.trials += 1;
        match self.points.binary_search_by(|point| point.rate.total_cmp(&self.rate)) {
            Ok(at) => self.points[at].trials.push(trial),
            Err(at) => self.points.insert(at, Point { rate: self.rate, trials: vec![trial] }),
        }
        if let Some(met) = self.verdict() {
            self.settle(met);
            return;
        }
        let here = self.points.iter().find(|point| point.rate == self.rate);
        if here.is_some_and(|point| self.spoilt(point) > self.config.patience) {
            self.state = State::Invalid;
        }
    }

    /// Runs that met a rate, and that missed it.
    fn votes(&self, point: &Point) -> (u32, u32) {
        point.votes(self.config.achieved, self.pace_limit(point.rate))
    }

    /// Runs that say nothing.
    fn spoilt(&self, point: &Point) -> u32 {
        let (good, bad) = self.votes(point);
        point.trials.len() as u32 - good - bad
    }

    /// Of these, those that were on slower cores.
    fn slower(&self, point: &Point) -> u32 {
        let (_, bad) = self.votes(point);
        let (_, whatever) = point.votes(self.config.achieved, f64::INFINITY);
        whatever - bad
    }

    /// What the fixed piece of work may have taken at this rate.
    fn pace_limit(&self, rate: f64) -> f64 {
        let as_much = self.points.iter().filter(|point| point.rate >= AS_MUCH * rate);
        let paces = as_much.flat_map(|point| &point.trials).filter_map(|trial| trial.pace_ns);
        SLOWER * paces.fold(f64::INFINITY, f64::min)
    }

    /// What was found so far, or in all.
    #[must_use]
    pub fn found(&self) -> Found {
        let limited = |point: &Point| {
            self.missed.is_some_and(|missed| point.rate >= missed) && point.trials.iter().any(|trial| trial.met)
        };
        let invalid = self.state == State::Invalid;
        Found {
            rate: self.met.filter(|_| !invalid),
            invalid,
            at_least: self.met.filter(|_| invalid),
            missed: self.missed,
            cut_short: !matches!(self.state, State::Done | State::Invalid),
            limited: self.points.iter().any(limited),
            slower: self.points.iter().map(|point| self.slower(point)).sum(),
            points: self.points.clone(),
        }
    }

    /// Whether the rate at hand is met, if that is settled.
    fn verdict(&self) -> Option<bool> {
        let point = self.points.iter().find(|point| point.rate == self.rate)?;
        let (good, bad) = self.votes(point);
        let enough = match self.state {
            State::Bracket if bad == 0 => 1,
            State::Bracket | State::Bisect | State::Done | State::Invalid => self.config.votes,
            State::Confirm | State::Refute => self.config.confirm.max(self.config.votes),
        };
        if good >= enough && good > bad {
            Some(true)
        } else if bad >= enough.max(self.config.votes) && bad >= good {
            Some(false)
        } else {
            None
        }
    }

    fn settle(&mut self, met: bool) {
        if met {
            self.met = Some(self.rate);
        } else {
            self.missed = Some(self.missed.map_or(self.rate, |missed| missed.min(self.rate)));
            if self.met.is_some_and(|met| met >= self.rate) {
                // It was met before, by luck: fall back to the next below.
                self.met = self.best_below(self.rate);
            }
        }
        if met {
            // It was missed before, by bad luck.
            self.missed = self.missed.filter(|missed| *missed > self.rate).or_else(|| self.worst_above(self.rate));
        }
        match self.state {
            State::Confirm if met => self.refute(),
            State::Refute if !met => self.state = State::Done,
            _ => self.step(),
        }
    }

    /// The answer is confirmed; what about the rate above it?
    fn refute(&mut self) {
        let Some(missed) = self.missed else {
            self.state = State::Done;
            return;
        };
        (self.state, self.rate) = (State::Refute, missed);
        if self.verdict() == Some(false) {
            self.state = State::Done;
        }
    }

    /// The lowest rate above `rate` that more runs missed than met.
    fn worst_above(&self, rate: f64) -> Option<f64> {
        let bad = |point: &&Point| {
            let (good, bad) = self.votes(point);
            point.rate > rate && bad > good
        };
        self.points.iter().find(bad).map(|point| point.rate)
    }

    /// The highest rate below `rate` that more runs met than missed.
    fn best_below(&self, rate: f64) -> Option<f64> {
        let good = |point: &&Point| {
            let (good, bad) = self.votes(point);
            point.rate < rate && good > bad
        };
        self.points.iter().rev().find(good).map(|point| point.rate)
    }

    /// Chooses the next rate.
    fn step(&mut self) {
        let FindMaxConfig { lowest, highest, growth, precision, .. } = self.config;
        match (self.met, self.missed) {
            (Some(met), None) if met < highest => {
                (self.state, self.rate) = (State::Bracket, (met * growth).min(highest));
            }
            (None, Some(missed)) if missed > lowest => {
                (self.state, self.rate) = (State::Bracket, (missed / growth).max(lowest));
            }
            (Some(met), Some(missed)) if missed > met * (1.0 + precision) => {
                // The mean in the geometric sense while they are far apart.
                let middle = if missed > 4.0 * met { (met * missed).sqrt() } else { (met + missed) / 2.0 };
                (self.state, self.rate) = (State::Bisect, middle);
            }
            (Some(met), _) => {
                (self.state, self.rate) = (State::Confirm, met);
                // The runs that brought it here may do.
                if self.verdict() == Some(true) {
                    self.refute();
                }
            }
            (None, _) => self.state = State::Done,
        }
    }
}

#[cfg(test)]
mod tests;
