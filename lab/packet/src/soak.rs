//! The load at which a device loses a given tiny share: a soak test by
//! PLRsearch (draft-vpolak-bmwg-plrsearch), which fits curves of losses against
//! load to all trials, whatever each of them lost.
//!
//! Two families of curves, each with a place and a spread, are weighed by how
//! likely they make what was lost (losses come in bursts: their number is
//! geometric). The weights are summed over a grid, which follows them, so that
//! the answer depends on no random number. The load in question is told with
//! its deviation, which shrinks as trials get longer.

use serde::{Deserialize, Serialize};

/// The share of losses that is asked for, usually.
pub const TARGET: f64 = 1e-7;

/// Points of the grid: places, and spreads.
const PLACES: usize = 32;
const SPREADS: usize = 16;
/// How often the grid is drawn closer.
const ROUNDS: usize = 4;
/// Points below this share of the best one's weight are let go of.
const FAINT: f64 = -12.0;

/// The first trial's seconds; the n-th is n times as long.
const STEP: f64 = 1.0;

/// What came of one trial.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
pub struct SoakTrial {
    /// Frames per second.
    pub load: f64,
    /// Seconds.
    pub seconds: f64,
    /// Frames lost.
    pub lost: u64,
}

/// How losses grow with the load.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Curve {
    /// The integral of a logistic function.
    Stretch,
    /// The integral of a normal distribution's.
    Erf,
}

impl Curve {
    const ALL: [Self; 2] = [Self::Stretch, Self::Erf];

    /// Frames lost per second at a load, as a logarithm: they are few.
    fn log_loss(self, load: f64, place: f64, spread: f64) -> f64 {
        let (at, zero) = ((load - place) / spread, -place / spread);
        // What is lost at no load is nothing: both families are moved by that.
        let unit = match self {
            Self::Stretch => log_minus(log_softplus(at), log_softplus(zero)),
            Self::Erf => log_minus(log_erf_integral(at), log_erf_integral(zero)),
        };
        unit + spread.ln()
    }
}

/// ln(ln(1 + e^x)), without losing what is small.
fn log_softplus(x: f64) -> f64 {
    if x < -30.0 { x } else { x.exp().ln_1p().ln() }
}

/// The logarithm of the integral of the normal distribution's function:
/// x Φ(x) + φ(x).
fn log_erf_integral(x: f64) -> f64 {
    const ROOT: f64 = 0.398_942_280_401_432_7;
    if x < -5.0 {
        // φ(x) ÷ x² × (1 - 3 ÷ x² + 15 ÷ x⁴): the tail by parts.
        let square = x * x;
        return ROOT.ln() - square / 2.0 - square.ln() + (-3.0 / square + 15.0 / (square * square)).ln_1p();
    }
    (x * normal(x) + ROOT * (-x * x / 2.0).exp()).max(f64::MIN_POSITIVE).ln()
}

/// Φ, by the complementary error function (Abramowitz and Stegun 7.1.26, with a
/// continued fraction where that is too coarse).
fn normal(x: f64) -> f64 {
    let z = x.abs() / core::f64::consts::SQRT_2;
    let tail = if z < 2.5 { 1.0 - erf_series(z) } else { erfc_fraction(z) } / 2.0;
    if x < 0.0 { tail } else { 1.0 - tail }
}

fn erf_series(z: f64) -> f64 {
    let (mut term, mut sum) = (z, z);
    for n in 1..60 {
        let n = f64::from(n);
        term *= -z * z / n;
        sum += term / (2.0 * n + 1.0);
        if term.abs() < 1e-17 {
            break;
        }
    }
    2.0 / core::f64::consts::PI.sqrt() * sum
}

fn erfc_fraction(z: f64) -> f64 {
    let mut below = z;
    for n in (1..60).rev() {
        below = z + f64::from(n) / 2.0 / below;
    }
    (-z * z).exp() / core::f64::consts::PI.sqrt() / below
}

/// ln(e^a - e^b), for a above b.
fn log_minus(a: f64, b: f64) -> f64 {
    if a <= b { f64::MIN_POSITIVE.ln() } else { a + (-(b - a).exp()).ln_1p() }
}

/// Where the load is, by one family of curves.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
pub struct Estimate {
    /// Which.
    pub curve: Curve,
    /// The load in question: the mean.
    pub load: f64,
    /// Its standard deviation.
    pub deviation: f64,
}

/// A search under way.
#[derive(Clone, PartialEq, Debug)]
pub struct Soak {
    max: f64,
    target: f64,
    /// Seconds of all trials.
    whole: f64,
    trials: Vec<SoakTrial>,
    estimates: Vec<Estimate>,
}

impl Soak {
    /// For a share of losses of `target`, below `max` frames per second, with
    /// trials of `whole` seconds in all.
    #[must_use]
    pub const fn new(max: f64, target: f64, whole: f64) -> Self {
        Self { max, target, whole, trials: Vec::new(), estimates: Vec::new() }
    }

    /// Trials so far.
    #[must_use]
    pub fn trials(&self) -> &[SoakTrial] {
        &self.trials
    }

    /// Estimates, by each family.
    #[must_use]
    pub fn estimates(&self) -> &[Estimate] {
        &self.estimates
    }

    /// The load in question and its deviation: of both families together.
    #[must_use]
    pub fn found(&self) -> Option<(f64, f64)> {
        let n = self.estimates.len() as f64;
        let load = self.estimates.iter().map(|it| it.load).sum::<f64>() / n;
        let inner = self.estimates.iter().map(|it| it.deviation.powi(2)).sum::<f64>() / n;
        let outer = self.estimates.iter().map(|it| (it.load - load).powi(2)).sum::<f64>() / n;
        (n > 0.0).then(|| (load, (inner + outer).sqrt()))
    }

    /// The load and the seconds of the trial that is wanted; `None`: it has
    /// taken as long as it may.
    #[must_use]
    pub fn poll_trial(&self) -> Option<(f64, f64)> {
        let spent: f64 = self.trials.iter().map(|trial| trial.seconds).sum();
        let number = self.trials.len();
        let seconds = (STEP * (number + 1) as f64).min(self.whole - spent);
        if seconds < STEP / 2.0 {
            return None;
        }
        let load = match (self.trials.last(), self.found()) {
            (None, _) => self.max,
            // What got through the overload.
            (Some(last), _) if number < 3 => (last.load - last.lost as f64 / last.seconds).max(self.max / 1e3) * 0.999,
            (Some(_), Some((load, deviation))) => {
                // By turns where each family has it, and where it is likely to lose a little: a trial that loses
                // nothing says less than one that loses a few.
                let each = self.estimates.get(number % self.estimates.len().max(1)).map_or(load, |it| it.load);
                each + deviation * f64::from(number as u32 % 3)
            }
            (Some(last), None) => last.load,
        };
        Some((load.clamp(self.max / 1e3, self.max), seconds))
    }

    /// Takes what came of it.
    pub fn on_trial(&mut self, trial: SoakTrial) {
        self.trials.push(trial);
        self.estimates = Curve::ALL.into_iter().filter_map(|curve| self.estimate(curve)).collect();
    }

    /// The mean and the deviation over the grid, which is drawn closer round
    /// after round.
    fn estimate(&self, curve: Curve) -> Option<Estimate> {
        let mut places = (self.max * 1e-3, self.max * 1.5);
        // Logarithms: spreads of all orders are alike before anything is known.
        let mut spreads = ((self.max * 1e-6).ln(), self.max.ln());
        let mut found = None;
        for _ in 0..ROUNDS {
            let grid = self.weigh(curve, places, spreads);
            let most = grid.iter().map(|point| point.2).fold(f64::NEG_INFINITY, f64::max);
            let kept: Vec<(f64, f64, f64)> = grid.into_iter().filter(|point| point.2 - most > FAINT).collect();
            let weight = |point: &(f64, f64, f64)| (point.2 - most).exp();
            let sum: f64 = kept.iter().map(weight).sum();
            let load_of = |point: &(f64, f64, f64)| self.critical(curve, point.0, point.1.exp());
            let mean = kept.iter().map(|point| weight(point) * load_of(point)).sum::<f64>() / sum;
            let square = kept.iter().map(|point| weight(point) * (load_of(point) - mean).powi(2)).sum::<f64>() / sum;
            found = Some(Estimate { curve, load: mean, deviation: square.sqrt() });
            // A step more on each side: the weights go on between the points.
            let step = ((places.1 - places.0) / PLACES as f64, (spreads.1 - spreads.0) / SPREADS as f64);
            let ends = |of: fn(&(f64, f64, f64)) -> f64| {
                let all = kept.iter().map(of);
                (all.clone().fold(f64::INFINITY, f64::min), all.fold(f64::NEG_INFINITY, f64::max))
            };
            let (low, high) = ends(|point| point.0);
            places = ((low - step.0).max(self.max * 1e-4), high + step.0);
            let (low, high) = ends(|point| point.1);
            spreads = (low - step.1, high + step.1);
        }
        found
    }

    /// The logarithm of each point's weight.
    fn weigh(&self, curve: Curve, places: (f64, f64), spreads: (f64, f64)) -> Vec<(f64, f64, f64)> {
        let at = |(low, high): (f64, f64), index: usize, of: usize| low + (high - low) * index as f64 / (of - 1) as f64;
        let mut grid = Vec::with_capacity(PLACES * SPREADS);
        for place in 0..PLACES {
            for spread in 0..SPREADS {
                let (place, log_spread) = (at(places, place, PLACES), at(spreads, spread, SPREADS));
                let of = |trial: &SoakTrial| likelihood(curve, place, log_spread.exp(), trial);
                grid.push((place, log_spread, self.trials.iter().map(of).sum()));
            }
        }
        grid
    }

    /// The load at which a curve loses the share in question.
    fn critical(&self, curve: Curve, place: f64, spread: f64) -> f64 {
        let (mut low, mut high) = (self.max * 1e-6, self.max * 2.0);
        for _ in 0..40 {
            let middle = f64::midpoint(low, high);
            let ratio = curve.log_loss(middle, place, spread) - middle.ln();
            if ratio < self.target.ln() { low = middle } else { high = middle }
        }
        low
    }
}

/// The logarithm of how likely a curve makes a trial: geometric, because losses
/// come in bursts.
fn likelihood(curve: Curve, place: f64, spread: f64, trial: &SoakTrial) -> f64 {
    let log_mean = curve.log_loss(trial.load, place, spread) + trial.seconds.ln();
    let log_more = if log_mean > 30.0 { log_mean } else { log_mean.exp().ln_1p() };
    trial.lost as f64 * (log_mean - log_more) - log_more
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A device that follows a curve; what it loses is geometric about that.
    fn run(curve: Curve, place: f64, spread: f64, seed: u64) -> (Soak, f64) {
        let mut soak = Soak::new(20e6, TARGET, 600.0);
        let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
        let mut unit = || {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            (state >> 11) as f64 / (1_u64 << 53) as f64
        };
        while let Some((load, seconds)) = soak.poll_trial() {
            assert!(load > 0.0 && load <= 20e6 && soak.trials().len() < 100);
            let mean = (curve.log_loss(load, place, spread) + seconds.ln()).exp();
            let lost = (unit().max(1e-300).ln() / (mean / (mean + 1.0)).ln()).floor();
            soak.on_trial(SoakTrial { load, seconds, lost: lost.max(0.0) as u64 });
        }
        let truth = soak.critical(curve, place, spread);
        (soak, truth)
    }

    #[test]
    fn a_soak_of_ten_minutes_finds_the_load_of_a_ten_millionth() {
        for (curve, place, spread) in [(Curve::Stretch, 5e6, 50_000.0), (Curve::Erf, 9e6, 200_000.0)] {
            let (soak, truth) = run(curve, place, spread, 1);
            let (load, deviation) = soak.found().expect("found");
            let off = (load - truth).abs();
            assert!(off < 4.0 * deviation.max(truth * 1e-3), "{curve:?}: {load} ± {deviation}, {truth}");
            assert!(off / truth < 0.05, "{curve:?}: {load} of {truth}");
        }
    }

    #[test]
    fn a_device_that_loses_nothing_has_a_load_near_the_highest() {
        let mut soak = Soak::new(1e6, TARGET, 300.0);
        while let Some((load, seconds)) = soak.poll_trial() {
            soak.on_trial(SoakTrial { load, seconds, lost: 0 });
        }
        assert!(soak.found().expect("found").0 > 0.9e6, "{:?}", soak.found());
    }

    #[test]
    fn curves_are_as_they_are_defined() {
        let near = |a: f64, b: f64| assert!((a - b).abs() < 1e-9 * b.abs().max(1.0), "{a} {b}");
        near(normal(0.0), 0.5);
        near(normal(1.96), 0.975_002_104_851_779_5);
        near(normal(-4.0), 3.167_124_183_311_998e-5);
        near(log_softplus(0.0), 2_f64.ln().ln());
        // Both ways to the tail meet.
        let (left, right) = (log_erf_integral(-5.000_001), log_erf_integral(-4.999_999));
        assert!((left - right).abs() < 2e-2, "{left} {right}");
        for curve in Curve::ALL {
            assert!(curve.log_loss(1.0, 5e6, 5e4) < -50.0);
            // Far above its place all that is more is lost.
            near(curve.log_loss(10e6, 5e6, 5e4).exp() / 5e6, 1.0);
        }
    }
}
