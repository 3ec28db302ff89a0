//! Which load a device bears: a search for several goals at once, by the
//! definitions of RFC 9971 (MLRsearch).
//!
//! A goal says how long a trial lasts, for how long a load is measured in all,
//! which loss a trial may have, and which share of the time may be worse. A
//! load is a lower bound once what is still to be measured cannot make it fail,
//! and an upper bound once that cannot make it pass. RFC 2544's throughput, TST
//! 009's search with loss verification and CSIT's NDR and PDR are such goals.
//!
//! Nothing is measured here: [`Search::poll_trial`] says which trial is wanted, and
//! [`Search::on_trial`] takes what came of it.

#[cfg(test)]
mod tests;

use serde::{Deserialize, Serialize};

/// The most trials of a search, unless it is told otherwise.
pub const TRIALS_LIMIT: usize = 1_000;

/// A trial that the tester spoilt is repeated at most so often.
const REPEATS: u32 = 3;

/// How loads of two trials may differ and be one load.
const SAME: f64 = 1e-9;

/// What is searched for (RFC 9971 section 4.6).
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Goal {
    /// What people call it.
    pub name: String,
    /// Seconds of a whole trial.
    pub final_duration: f64,
    /// Seconds of whole trials at a load, if they do not agree sooner.
    pub duration_sum: f64,
    /// The share of frames that a good trial may lose.
    pub loss_ratio: f64,
    /// The share of the time that may be bad.
    pub exceed_ratio: f64,
    /// How near the bounds are in the end, as a share of the upper one.
    pub width: f64,
}

impl Goal {
    fn new(name: &str, (final_duration, duration_sum): (f64, f64), loss_ratio: f64, exceed_ratio: f64) -> Self {
        Self { name: name.to_owned(), final_duration, duration_sum, loss_ratio, exceed_ratio, width: 0.005 }
    }

    /// Throughput by RFC 2544 section 26.1 (RFC 9971 section 4.6.9.1): a trial
    /// of 60 s without a loss.
    #[must_use]
    pub fn rfc2544() -> Self {
        Self::new("rfc2544", (60.0, 60.0), 0.0, 0.0)
    }

    /// ETSI GS NFV-TST 009: 60 s, twice if need be, half of which may lose.
    #[must_use]
    pub fn tst009() -> Self {
        Self::new("tst009", (60.0, 120.0), 0.0, 0.5)
    }

    /// CSIT's NDR: trials of a second, 21 of them, half of which may lose.
    #[must_use]
    pub fn ndr() -> Self {
        Self::new("ndr", (1.0, 21.0), 0.0, 0.5)
    }

    /// CSIT's PDR: as NDR, with half a percent of loss.
    #[must_use]
    pub fn pdr() -> Self {
        Self::new("pdr", (1.0, 21.0), 0.005, 0.5)
    }

    /// By its name.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        [Self::rfc2544(), Self::tst009(), Self::ndr(), Self::pdr()].into_iter().find(|goal| goal.name == name)
    }
}

/// A trial that is wanted.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub struct TrialInput {
    /// Frames per second, of all streams in one direction.
    pub load: f64,
    /// Seconds.
    pub duration: f64,
}

/// What came of one.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
pub struct Outcome {
    /// Frames per second that were asked for.
    pub load: f64,
    /// Seconds.
    pub duration: f64,
    /// The share of frames lost, of the worst stream and direction.
    pub loss_ratio: f64,
    /// The tester did what it was to do.
    pub valid: bool,
}

/// What of a load is known for a goal.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Class {
    /// It passes.
    Lower,
    /// It fails.
    Upper,
    /// Not enough was measured.
    Open,
}

/// What was found for a goal.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Found {
    /// The goal.
    pub goal: Goal,
    /// The highest load that passes, below all that fail.
    pub lower: Option<f64>,
    /// The lowest load that fails.
    pub upper: Option<f64>,
    /// Frames per second that came at the lower bound, at the loss that the
    /// goal's share of the time did not exceed (RFC 9971 section 4.8.3).
    pub conditional_throughput: Option<f64>,
    /// What keeps it from being an answer; `None`: it is one.
    pub open: Option<String>,
}

/// A highest load that the tester spoils goes down by such a share of itself, as a logarithm: small steps
/// first, and larger ones where it does not keep to its times even so, down to less than a hundredth.
const DOWN: [f64; 15] = [0.05, 0.05, 0.05, 0.05, 0.25, 0.25, 0.25, 0.25, 0.7, 0.7, 0.7, 0.7, 0.7, 0.7, 0.7];

/// A search under way.
///
/// Loads are on a grid, each a goal's width below the one before, so that goals
/// share them and neighbours are bounds that are near enough. Each trial says
/// which way its load leans; those that lean either way and lie next to each
/// other are measured for as long as the goal asks, the upper one first: a good
/// trial there shows at once that it is none.
#[derive(Clone, Debug)]
pub struct Search {
    goals: Vec<Goal>,
    min: f64,
    max: f64,
    limit: usize,
    /// The logarithm of two neighbours' ratio.
    unit: f64,
    trials: Vec<Outcome>,
    goal: usize,
    /// Steps taken away from a bound for this goal: each is twice the last.
    steps: u32,
    /// What was asked for and has not come.
    asked: Option<TrialInput>,
    spoilt: u32,
    gave_up: Option<String>,
    /// How often the highest load was taken down.
    lowered: u32,
}

impl Search {
    /// A search between `min` and `max` frames per second.
    #[must_use]
    pub fn new(goals: Vec<Goal>, min: f64, max: f64, limit: usize) -> Self {
        let width = goals.iter().map(|goal| goal.width).fold(0.5, f64::min).max(1e-6);
        let unit = -(-width).ln_1p();
        let (trials, asked, gave_up) = (Vec::new(), None, None);
        Self { goals, min, max, limit, unit, trials, goal: 0, steps: 0, asked, spoilt: 0, gave_up, lowered: 0 }
    }

    /// Trials so far.
    #[must_use]
    pub fn trials(&self) -> &[Outcome] {
        &self.trials
    }

    /// The trial that is wanted next; `None`: none.
    pub fn poll_trial(&mut self) -> Option<TrialInput> {
        if self.gave_up.is_some() {
            return None;
        }
        if self.trials.len() >= self.limit {
            self.gave_up = Some(format!("after {} trials", self.limit));
            return None;
        }
        if self.asked.is_none() {
            self.asked = self.next_trial();
        }
        self.asked
    }

    fn next_trial(&mut self) -> Option<TrialInput> {
        // Nothing is known: the highest load first, which tells how much gets through.
        let first = self.goals.first()?;
        match self.trials.as_slice() {
            [] => return Some(TrialInput { load: self.max, duration: short(first) }),
            [only] if only.loss_ratio > 0.0 => {
                let through = only.load * (1.0 - only.loss_ratio);
                // Below it, if it lies on the grid: it may have been a frame less.
                let index = (((self.max / through.max(self.min)).ln() / self.unit) - 1e-6).ceil() as usize;
                return Some(TrialInput { load: self.load(index.min(self.last())), duration: short(first) });
            }
            _ => {}
        }
        while let Some(goal) = self.goals.get(self.goal).cloned() {
            if let Some(trial) = self.wanted(&goal) {
                return Some(trial);
            }
            (self.goal, self.steps) = (self.goal + 1, 0);
        }
        None
    }

    /// Takes what came of a trial. One that the tester spoilt does not count,
    /// and is asked for again.
    pub fn on_trial(&mut self, outcome: Outcome) {
        if outcome.valid {
            (self.spoilt, self.asked) = (0, None);
            self.trials.push(outcome);
            return;
        }
        self.spoilt += 1;
        if self.spoilt > REPEATS && is_same(outcome.load, self.max) && self.go_down() {
            self.spoilt = 0;
        } else if self.spoilt > REPEATS {
            self.gave_up = Some(format!("the tester spoilt {} trials in a row at {:.0}/s", self.spoilt, outcome.load));
        }
    }

    /// The tester does not keep to its times at its highest load: one of the grid that is a step below it is
    /// the highest from now on. Whether there is one.
    fn go_down(&mut self) -> bool {
        let steps = DOWN.get(self.lowered as usize).map(|down| ((down / self.unit).ceil() as usize).max(1));
        let Some(steps) = steps.filter(|steps| *steps <= self.last()) else { return false };
        self.lowered += 1;
        self.max = self.load(steps);
        let max = self.max;
        // What was seen above it counts no more: it is not known whether it was the device.
        self.trials.retain(|trial| trial.load < max || is_same(trial.load, max));
        (self.asked, self.goal, self.steps) = (None, 0, 0);
        true
    }

    /// What was found, for each goal.
    #[must_use]
    pub fn found(&self) -> Vec<Found> {
        let of = |(index, goal): (usize, &Goal)| {
            let (lower, upper) = self.bounds(goal);
            let open = match (lower, upper) {
                _ if index >= self.goal && self.gave_up.is_some() => self.gave_up.clone(),
                _ if index >= self.goal => Some("it was stopped".to_owned()),
                (None, _) => Some(format!("no load down to {:.0}/s passes", self.min)),
                (Some(_), _) => None,
            };
            let conditional_throughput = lower.map(|load| load * (1.0 - self.quantile_loss(goal, load)));
            Found { goal: goal.clone(), lower, upper, conditional_throughput, open }
        };
        self.goals.iter().enumerate().map(of).collect()
    }

    /// A load of the grid, from the highest on.
    fn load(&self, index: usize) -> f64 {
        self.max * (-(index as f64) * self.unit).exp()
    }

    /// The index of the lowest load that is not below the least.
    fn last(&self) -> usize {
        ((self.max / self.min).ln() / self.unit + 1e-6).max(0.0) as usize
    }

    fn index(&self, load: f64) -> usize {
        ((self.max / load).ln() / self.unit).round().max(0.0) as usize
    }

    /// The trial that this goal needs next; `None`: it has its bounds.
    fn wanted(&mut self, goal: &Goal) -> Option<TrialInput> {
        let (lower, upper) = self.leaning(goal);
        let near = ((-(-goal.width).ln_1p() / self.unit) + 1e-6).max(1.0) as usize;
        let step = 1_usize << self.steps.min(16);
        let (nearer, from) = match (lower, upper) {
            // Halfway, and not further from what passes than the steps so far: what gets through an overload is
            // mostly near that.
            (Some(lower), Some(upper)) if lower - upper > near => {
                (true, lower - step.min((lower - upper).div_ceil(2)).min(lower - upper - 1))
            }
            (Some(lower), None) if lower > 0 => (true, lower - step.min(lower)),
            (None, Some(upper)) if upper < self.last() => (true, (upper + step).min(self.last())),
            (None, None) => (true, 0),
            _ => (false, 0),
        };
        if nearer {
            self.steps += 1;
            return Some(TrialInput { load: self.load(from), duration: short(goal) });
        }
        // Next to each other, or at an end: as long as the goal asks.
        let open = |index: &usize| self.class(goal, self.load(*index)) == Class::Open;
        let index = upper.filter(open).or(lower.filter(open))?;
        Some(TrialInput { load: self.load(index), duration: goal.final_duration })
    }

    /// The lowest load that rather fails than passes, and the highest below it
    /// that rather passes, by what is known: long trials, or else short ones.
    fn leaning(&self, goal: &Goal) -> (Option<usize>, Option<usize>) {
        let mut loads: Vec<usize> = self.trials.iter().map(|trial| self.index(trial.load)).collect();
        loads.sort_unstable();
        loads.dedup();
        let fails = |index: &usize| {
            let at = |trial: &&Outcome| is_same(trial.load, self.load(*index));
            let long: Vec<&Outcome> = self.trials.iter().filter(at).filter(|trial| is_whole(trial, goal)).collect();
            let known = if long.is_empty() { self.trials.iter().filter(at).collect() } else { long };
            let sum = |bad: bool| -> f64 {
                let of = |trial: &&&Outcome| (trial.loss_ratio > goal.loss_ratio) == bad;
                known.iter().filter(of).map(|trial| trial.duration).sum()
            };
            let (good, bad) = (sum(false), sum(true));
            bad > goal.exceed_ratio * (good + bad)
        };
        let upper = loads.iter().rev().copied().find(fails);
        let lower = loads.into_iter().find(|index| upper.is_none_or(|upper| *index > upper) && !fails(index));
        (lower, upper)
    }

    /// The highest load that passes below the lowest that fails, and that.
    fn bounds(&self, goal: &Goal) -> (Option<f64>, Option<f64>) {
        let of = |class: Class| {
            let loads = self.trials.iter().filter(|trial| is_whole(trial, goal)).map(|trial| trial.load);
            loads.filter(move |load| self.class(goal, *load) == class)
        };
        let upper = of(Class::Upper).reduce(f64::min);
        let lower = of(Class::Lower).filter(|load| upper.is_none_or(|upper| *load < upper)).reduce(f64::max);
        (lower, upper)
    }

    /// RFC 9971 appendix A: what is not measured yet is taken for bad, and then
    /// for good.
    fn class(&self, goal: &Goal, load: f64) -> Class {
        let (mut good, mut bad) = (0.0, 0.0);
        for trial in self.trials.iter().filter(|trial| is_whole(trial, goal) && is_same(trial.load, load)) {
            if trial.loss_ratio <= goal.loss_ratio {
                good += trial.duration;
            } else {
                bad += trial.duration;
            }
        }
        let whole = goal.duration_sum.max(good + bad);
        let allowed = whole * goal.exceed_ratio;
        let slack = goal.final_duration * 1e-3;
        match () {
            () if good + bad <= 0.0 => Class::Open,
            () if whole - good <= allowed + slack => Class::Lower,
            () if bad > allowed + slack => Class::Upper,
            () => Class::Open,
        }
    }

    /// The loss that the goal's share of the time at this load did not exceed.
    fn quantile_loss(&self, goal: &Goal, load: f64) -> f64 {
        let whole = |trial: &&Outcome| is_whole(trial, goal) && is_same(trial.load, load);
        let mut losses: Vec<f64> = self.trials.iter().filter(whole).map(|trial| trial.loss_ratio).collect();
        losses.sort_unstable_by(f64::total_cmp);
        let at = ((1.0 - goal.exceed_ratio) * losses.len() as f64).ceil() as usize;
        losses.get(at.max(1) - 1).copied().unwrap_or(0.0)
    }
}

fn is_same(one: f64, other: f64) -> bool {
    (one - other).abs() <= SAME * one.max(other)
}

/// Whether a trial lasted as long as a goal asks.
fn is_whole(trial: &Outcome, goal: &Goal) -> bool {
    trial.duration >= goal.final_duration * 0.999
}

/// The seconds of a first look at a load.
fn short(goal: &Goal) -> f64 {
    (goal.final_duration / 16.0).max(1.0).min(goal.final_duration)
}
