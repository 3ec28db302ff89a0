//! Two sets of runs compared, figure by figure, by the lab's statistics: the
//! run is the unit, and a few of them give no interval.

use crate::table::way;
use crate::trial::{LaneResult, TrialResult};
use serde::Serialize;
pub use stats::Better;
use stats::{Centre, Design, Policy, Verdict, effect, verdict};

/// Differences up to this share do not matter.
const MARGIN: f64 = 0.02;

/// For the resamples: the same runs give the same interval.
const SEED: u64 = 1;

/// One figure of one run.
#[derive(Clone, PartialEq, Debug)]
pub struct RunFigure {
    /// Of what: a stream and direction, a goal, a frame size, a point.
    pub of: String,
    /// The figure.
    pub figure: &'static str,
    /// Which way is better.
    pub better: Better,
    /// It.
    pub value: f64,
}

/// A figure of one stream and direction, or of what else runs have in common, on both
/// sides.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct LaneComparison {
    /// The stream and direction.
    pub of: String,
    /// The figure.
    pub figure: &'static str,
    /// Medians over runs: before, after.
    pub medians: [f64; 2],
    /// After ÷ before; `None` where there is none.
    pub ratio: Option<f64>,
    /// Its interval, with five runs or more on each side.
    pub interval: Option<(f64, f64)>,
    /// In words.
    pub verdict: String,
}

type Figure = (&'static str, Better, fn(&LaneResult) -> Option<f64>);

/// What is compared of each.
const FIGURES: [Figure; 8] = [
    ("rate", Better::Higher, |lane| Some(lane.rate)),
    ("loss", Better::Lower, |lane| Some(lane.loss_ratio())),
    ("latency min", Better::Lower, |lane| latency(lane, |it| Some(it.min_ns))),
    ("latency median", Better::Lower, |lane| latency(lane, |it| Some(it.quantile(0.5)))),
    ("latency p99", Better::Lower, |lane| latency(lane, |it| it.sound_quantile(0.99))),
    ("latency p99.9", Better::Lower, |lane| latency(lane, |it| it.sound_quantile(0.999))),
    ("latency p99.99", Better::Lower, |lane| latency(lane, |it| it.sound_quantile(0.9999))),
    ("latency max", Better::Lower, |lane| latency(lane, |it| Some(it.max_ns))),
];

fn latency(lane: &LaneResult, of: fn(&crate::trial::LatencyDistribution) -> Option<u64>) -> Option<f64> {
    (lane.latency.samples > 0).then(|| of(&lane.latency)).flatten().map(|nanos| nanos as f64)
}

/// The figures of a trial, by stream and direction.
#[must_use]
pub fn figures(result: &TrialResult) -> Vec<RunFigure> {
    let of_lane = |lane: &LaneResult| {
        let of = format!("{} {}", lane.stream, way(lane));
        let one = |it: &Figure| Some(RunFigure { of: of.clone(), figure: it.0, better: it.1, value: it.2(lane)? });
        FIGURES.iter().filter_map(one).collect::<Vec<_>>()
    };
    result.lanes.iter().flat_map(of_lane).collect()
}

/// Compares runs, each by its figures. Those that only one side has are left out.
#[must_use]
pub fn compare(before: &[Vec<RunFigure>], after: &[Vec<RunFigure>]) -> Vec<LaneComparison> {
    let values = |runs: &[Vec<RunFigure>], like: &RunFigure| -> Vec<f64> {
        let same = runs.iter().flatten().filter(|one| one.of == like.of && one.figure == like.figure);
        same.map(|one| one.value).collect()
    };
    let mut all: Vec<LaneComparison> = Vec::new();
    for like in before.iter().flatten() {
        if all.iter().any(|one| one.of == like.of && one.figure == like.figure) {
            continue;
        }
        let (old, new) = (values(before, like), values(after, like));
        if new.is_empty() {
            continue;
        }
        let effect = effect(&new, &old, Centre::Median, Design::Independent, SEED);
        let policy = Policy { better: like.better, margin: MARGIN, floor: 0.0 };
        all.push(LaneComparison {
            of: like.of.clone(),
            figure: like.figure,
            medians: [stats::median(&old), stats::median(&new)],
            ratio: effect.map(|effect| effect.ratio),
            interval: effect.and_then(|effect| effect.interval),
            verdict: word(verdict(effect, policy), like.better),
        });
    }
    all
}

/// The ratio of medians of two sides that were measured in the same rounds,
/// and its interval, with five of them or more.
#[must_use]
pub fn rounds(candidate: &[f64], baseline: &[f64]) -> Option<(f64, Option<(f64, f64)>)> {
    let effect = effect(candidate, baseline, Centre::Median, Design::Rounds, SEED)?;
    Some((effect.ratio, effect.interval))
}

/// The median; nothing of nothing.
#[must_use]
pub fn middle(values: &[f64]) -> f64 {
    if values.is_empty() { 0.0 } else { stats::median(values) }
}

/// "Faster" is said of rates only.
fn word(verdict: Verdict, better: Better) -> String {
    match (verdict, better) {
        (Verdict::Faster, Better::Lower) => "better".to_owned(),
        (Verdict::Slower, Better::Lower) => "worse".to_owned(),
        (other, _) => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trial::{LatencyDistribution, Sent};

    fn run(rate: f64, median_ns: u64) -> TrialResult {
        let buckets = vec![(median_ns, 1_000)];
        let latency = LatencyDistribution { samples: 1_000, min_ns: 1, mean_ns: 1.0, max_ns: median_ns, buckets };
        let sent = Sent { frames: 1_000, ..Sent::default() };
        let lane = LaneResult { stream: "load".into(), to: 1, rate, sent, latency, ..LaneResult::default() };
        TrialResult { lanes: vec![lane], ..TrialResult::default() }
    }

    #[test]
    fn runs_are_compared_and_few_of_them_say_so() {
        let compare = |before: &[TrialResult], after: &[TrialResult]| {
            let of = |runs: &[TrialResult]| runs.iter().map(figures).collect::<Vec<_>>();
            compare(&of(before), &of(after))
        };
        let before: Vec<_> = (0..8).map(|n| run(1_000.0 + f64::from(n), 10_000 + u64::from(n as u32))).collect();
        let after: Vec<_> = (0..8).map(|n| run(1_000.0 + f64::from(n), 12_000 + u64::from(n as u32))).collect();
        let all = compare(&before, &after);
        let find = |figure: &str| all.iter().find(|it| it.figure == figure).expect(figure);
        assert_eq!((find("rate").verdict.as_str(), find("latency median").verdict.as_str()), ("equivalent", "worse"));
        assert!((find("latency median").ratio.expect("one") - 1.2).abs() < 0.01);
        assert_eq!(find("loss").ratio, Some(1.0));
        // p99.9 has one sample beyond it.
        assert!(all.iter().all(|it| it.figure != "latency p99.9"));
        let few = compare(&before[..1], &after[..1]);
        assert!(few.iter().all(|it| it.interval.is_none() && it.verdict.contains("fewer than 5 runs")), "{few:?}");
    }
}
