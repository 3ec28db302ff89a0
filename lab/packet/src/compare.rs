//! The figures of a run that are compared with another's, and the lab's statistics of
//! rounds: the run is the unit, and a few of them give no interval.

use crate::table::way;
use crate::trial::{LaneResult, TrialResult};
use figures::{digits, seconds, share, si};
pub use stats::{Better, MIN_RUNS};
use stats::{Centre, Design, effect};

/// For the resamples: the same runs give the same interval.
const SEED: u64 = 1;

/// One figure of one run.
#[derive(Clone, PartialEq, Debug)]
pub struct RunFigure {
    /// Of what: a stream and direction, a goal, a frame size, a point.
    pub of: String,
    /// The figure.
    pub figure: String,
    /// Which way is better; `None`: it describes.
    pub better: Option<Better>,
    /// Its unit.
    pub unit: Unit,
    /// It.
    pub value: f64,
}

/// What a figure is counted in.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Unit {
    /// As its name says, or by itself.
    Plain,
    /// A share of one.
    Share,
    /// Nanoseconds.
    Nanoseconds,
    /// Of whatever is counted, in a second.
    PerSecond,
    /// Frames in a second.
    FramesPerSecond,
    /// Bytes in a second.
    BytesPerSecond,
    /// Bits in a second.
    BitsPerSecond,
}

impl Unit {
    /// A value with its unit, for people.
    #[must_use]
    pub fn show(self, value: f64) -> String {
        match self {
            Self::Plain => digits(value),
            Self::Share => share(value),
            Self::Nanoseconds => seconds(value),
            Self::PerSecond => si(value, "/s"),
            Self::FramesPerSecond => si(value, "frames/s"),
            Self::BytesPerSecond => si(value, "B/s"),
            Self::BitsPerSecond => si(value, "bit/s"),
        }
    }

    /// Its name in JSON.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Plain => "",
            Self::Share => "share",
            Self::Nanoseconds => "ns",
            Self::PerSecond => "/s",
            Self::FramesPerSecond => "frames/s",
            Self::BytesPerSecond => "B/s",
            Self::BitsPerSecond => "bit/s",
        }
    }
}

type Figure = (&'static str, Better, Unit, fn(&LaneResult) -> Option<f64>);

/// What is compared of each.
const FIGURES: [Figure; 8] = [
    ("rate", Better::Higher, Unit::FramesPerSecond, |lane| Some(lane.rate)),
    ("loss", Better::Lower, Unit::Share, |lane| Some(lane.loss_ratio())),
    ("latency min", Better::Lower, Unit::Nanoseconds, |lane| latency(lane, |it| Some(it.min_ns))),
    ("latency median", Better::Lower, Unit::Nanoseconds, |lane| latency(lane, |it| Some(it.quantile(0.5)))),
    ("latency p99", Better::Lower, Unit::Nanoseconds, |lane| latency(lane, |it| it.sound_quantile(0.99))),
    ("latency p99.9", Better::Lower, Unit::Nanoseconds, |lane| latency(lane, |it| it.sound_quantile(0.999))),
    ("latency p99.99", Better::Lower, Unit::Nanoseconds, |lane| latency(lane, |it| it.sound_quantile(0.9999))),
    ("latency max", Better::Lower, Unit::Nanoseconds, |lane| latency(lane, |it| Some(it.max_ns))),
];

fn latency(lane: &LaneResult, of: fn(&crate::trial::LatencyDistribution) -> Option<u64>) -> Option<f64> {
    (lane.latency.samples > 0).then(|| of(&lane.latency)).flatten().map(|nanos| nanos as f64)
}

/// The figures of a trial, by stream and direction.
#[must_use]
pub fn figures(result: &TrialResult) -> Vec<RunFigure> {
    let of_lane = |lane: &LaneResult| {
        let of = format!("{} {}", lane.stream, way(lane));
        let one = |&(figure, better, unit, value): &Figure| {
            let (of, figure, better) = (of.clone(), figure.to_owned(), Some(better));
            Some(RunFigure { of, figure, better, unit, value: value(lane)? })
        };
        FIGURES.iter().filter_map(one).collect::<Vec<_>>()
    };
    result.lanes.iter().flat_map(of_lane).collect()
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
