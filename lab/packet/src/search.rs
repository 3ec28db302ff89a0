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

/// One pass over the loads, ever nearer and longer.
#[derive(Clone, Copy, PartialEq, Debug)]
struct Phase {
    duration: f64,
    sum: f64,
    width: f64,
}

/// A search under way.
#[derive(Clone, Debug)]
pub struct Search {
    goals: Vec<Goal>,
    min: f64,
    max: f64,
    limit: usize,
    trials: Vec<Outcome>,
    goal: usize,
    phase: usize,
    /// External steps taken in this phase.
    steps: u32,
    /// The load that is being measured.
    at: Option<f64>,
    /// Bounds of the phase before.
    hint: (Option<f64>, Option<f64>),
    spoilt: u32,
    gave_up: Option<String>,
}

impl Search {
    /// A search between `min` and `max` frames per second.
    #[must_use]
    pub fn new(goals: Vec<Goal>, min: f64, max: f64, limit: usize) -> Self {
        let (hint, gave_up) = ((None, None), None);
        Self {
            goals,
            min,
            max,
            limit,
            trials: Vec::new(),
            goal: 0,
            phase: 0,
            steps: 0,
            at: None,
            hint,
            spoilt: 0,
            gave_up,
        }
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
        // Nothing is known: the highest load first, which tells how much gets through.
        let first = self.goals.first()?;
        match self.trials.as_slice() {
            [] => return Some(TrialInput { load: self.max, duration: first_phase(first).duration }),
            [only] if only.loss_ratio > 0.0 => {
                let through = (only.load * (1.0 - only.loss_ratio)).clamp(self.min, self.max);
                return Some(TrialInput { load: through, duration: first_phase(first).duration });
            }
            _ => {}
        }
        while let Some(goal) = self.goals.get(self.goal).cloned() {
            let phases = phases(&goal);
            let Some(phase) = phases.get(self.phase).copied() else {
                (self.goal, self.phase, self.steps) = (self.goal + 1, 0, 0);
                continue;
            };
            if let Some(load) = self.wanted(&goal, phase) {
                self.at = Some(load);
                return Some(TrialInput { load, duration: phase.duration });
            }
            self.hint = self.bounds(&goal, phase);
            (self.phase, self.steps, self.at) = (self.phase + 1, 0, None);
        }
        None
    }

    /// Takes what came of a trial. One that the tester spoilt does not count,
    /// and is asked for again.
    pub fn on_trial(&mut self, outcome: Outcome) {
        if outcome.valid {
            self.spoilt = 0;
            self.trials.push(outcome);
            return;
        }
        self.spoilt += 1;
        if self.spoilt > REPEATS {
            self.gave_up = Some(format!("the tester spoilt {} trials in a row at {:.0}/s", self.spoilt, outcome.load));
        }
    }

    /// What was found, for each goal.
    #[must_use]
    pub fn found(&self) -> Vec<Found> {
        let of = |(index, goal): (usize, &Goal)| {
            let last = last_phase(goal);
            let (lower, upper) = self.bounds(goal, last);
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

    /// The load to measure for this phase; `None`: it is done.
    fn wanted(&mut self, goal: &Goal, phase: Phase) -> Option<f64> {
        let (lower, upper) = self.bounds(goal, phase);
        let fresh = |load: &f64| {
            self.class(goal, phase, *load) == Class::Open
                && lower.is_none_or(|lower| *load > lower)
                && upper.is_none_or(|upper| *load < upper)
        };
        // A load that was begun is decided first; then what the phase before found, which is most likely still so.
        if let Some(load) = [self.at, self.hint.0, self.hint.1].into_iter().flatten().find(fresh) {
            return Some(load);
        }
        let step = phase.width * f64::from(1_u32 << self.steps.min(16));
        match (lower, upper) {
            (Some(lower), Some(upper)) if (upper - lower) / upper <= phase.width * (1.0 + 1e-6) => None,
            (Some(lower), Some(upper)) => {
                // What gets through an overload is mostly near what passes: short steps up from there, then longer.
                self.steps += 1;
                Some(middle(lower, upper, phase.width).min(lower / (1.0 - step.min(0.5))))
            }
            (None, Some(upper)) if upper <= self.min * (1.0 + SAME) => None,
            (Some(lower), None) if lower >= self.max * (1.0 - SAME) => None,
            (None, Some(upper)) => {
                self.steps += 1;
                Some((upper * (1.0 - step.min(0.5))).max(self.min))
            }
            (Some(lower), None) => {
                self.steps += 1;
                Some((lower / (1.0 - step.min(0.5))).min(self.max))
            }
            (None, None) => Some(self.best_guess(goal)),
        }
    }

    /// Where a phase begins about which nothing is known: what got through of
    /// the load that was most like it.
    fn best_guess(&self, goal: &Goal) -> f64 {
        let good = self.trials.iter().filter(|trial| trial.loss_ratio <= goal.loss_ratio).map(|trial| trial.load);
        let through = self.trials.iter().map(|trial| trial.load * (1.0 - trial.loss_ratio));
        let guess = good.reduce(f64::max).or(through.reduce(f64::min)).unwrap_or(self.max);
        guess.clamp(self.min, self.max)
    }

    /// The highest load that passes below the lowest that fails, and that.
    fn bounds(&self, goal: &Goal, phase: Phase) -> (Option<f64>, Option<f64>) {
        let of = |class: Class| {
            let loads = self.trials.iter().filter(|trial| is_whole(trial, phase)).map(|trial| trial.load);
            loads.filter(move |load| self.class(goal, phase, *load) == class)
        };
        let upper = of(Class::Upper).reduce(f64::min);
        let lower = of(Class::Lower).filter(|load| upper.is_none_or(|upper| *load < upper)).reduce(f64::max);
        (lower, upper)
    }

    /// RFC 9971 appendix A: what is not measured yet is taken for bad, and then
    /// for good.
    fn class(&self, goal: &Goal, phase: Phase, load: f64) -> Class {
        let (mut good, mut bad) = (0.0, 0.0);
        for trial in self.trials.iter().filter(|trial| is_whole(trial, phase) && is_same(trial.load, load)) {
            if trial.loss_ratio <= goal.loss_ratio {
                good += trial.duration;
            } else {
                bad += trial.duration;
            }
        }
        let whole = phase.sum.max(good + bad);
        let allowed = whole * goal.exceed_ratio;
        let slack = phase.duration * 1e-3;
        match () {
            () if good + bad <= 0.0 => Class::Open,
            () if whole - good <= allowed + slack => Class::Lower,
            () if bad > allowed + slack => Class::Upper,
            () => Class::Open,
        }
    }

    /// The loss that the goal's share of the time at this load did not exceed.
    fn quantile_loss(&self, goal: &Goal, load: f64) -> f64 {
        let phase = last_phase(goal);
        let whole = |trial: &&Outcome| is_whole(trial, phase) && is_same(trial.load, load);
        let mut losses: Vec<f64> = self.trials.iter().filter(whole).map(|trial| trial.loss_ratio).collect();
        losses.sort_unstable_by(f64::total_cmp);
        let at = ((1.0 - goal.exceed_ratio) * losses.len() as f64).ceil() as usize;
        losses.get(at.max(1) - 1).copied().unwrap_or(0.0)
    }
}

fn is_same(one: f64, other: f64) -> bool {
    (one - other).abs() <= SAME * one.max(other)
}

/// Whether a trial lasted long enough for a phase.
fn is_whole(trial: &Outcome, phase: Phase) -> bool {
    trial.duration >= phase.duration * 0.999
}

/// From short and coarse to what the goal says. The first phases take one
/// trial for each load; what they find may be wrong, and is then found so.
fn phases(goal: &Goal) -> Vec<Phase> {
    let short = (goal.final_duration / 16.0).max(1.0).min(goal.final_duration);
    let middle = (goal.final_duration / 4.0).max(1.0).min(goal.final_duration);
    vec![
        Phase { duration: short, sum: short, width: goal.width * 8.0 },
        Phase { duration: middle, sum: (goal.duration_sum / 4.0).max(middle), width: goal.width * 2.0 },
        last_phase(goal),
    ]
}

fn first_phase(goal: &Goal) -> Phase {
    phases(goal).first().copied().unwrap_or_else(|| last_phase(goal))
}

const fn last_phase(goal: &Goal) -> Phase {
    Phase { duration: goal.final_duration, sum: goal.duration_sum, width: goal.width }
}

/// Between two bounds, so that what is left needs the fewest halvings: as many
/// whole widths below as a power of two (RFC 9971 section 5.4.5 has why).
fn middle(lower: f64, upper: f64, width: f64) -> f64 {
    let ratio = (upper / lower).ln();
    let unit = -(1.0 - width).ln();
    let widths = (ratio / unit).ceil().max(2.0);
    let half = widths.log2().ceil().exp2() / 2.0;
    let down = half.min(widths - 1.0).max(1.0);
    // At least as near as the geometric middle where that ends it.
    let share = if widths <= 2.0 { 0.5 } else { down / widths };
    lower * (ratio * share).exp()
}
