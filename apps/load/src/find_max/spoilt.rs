//! Whether the machine spoilt a run: then it says nothing against the server.

use crate::objective::{Metric, Objective};
use crate::report::Report;
use crate::sieve::Sifted;
use core::fmt;
use figures::share;
use serde::Serialize;

/// What a machine did during a run that no slice tells: shares of one core's
/// time. All zero where nobody could look.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize)]
pub struct Surroundings {
    /// Taken by the hypervisor from a core in moments too short to be found.
    pub stolen: f64,
    /// Where it could not be told for whom threads waited: what other programs
    /// worked, neither the generator, nor the program that worked most beside
    /// it, which is the server's if it runs here.
    pub others: f64,
    /// How long the thread that waited most was ready and had no core, of
    /// those that worked.
    pub waited: f64,
}

/// How the machine spoilt a run.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
#[serde(tag = "by", rename_all = "kebab-case")]
pub enum Spoilt {
    /// The hypervisor took time from the cores.
    Stolen {
        /// A share of one core's time.
        share: f64,
    },
    /// Other programs worked, and the generator, the server or they had to
    /// wait for a core.
    Others {
        /// What they worked, as a share of one core's time.
        share: f64,
        /// The longest wait of a thread, likewise.
        waited: f64,
    },
    /// Too little of it was undisturbed, or for too short.
    Disturbed {
        /// Slices that count.
        counted: u64,
        /// Slices in all.
        slices: u64,
    },
    /// There are too few samples for the percentile that was asked for.
    FewSamples {
        /// Samples.
        samples: u64,
        /// What is needed.
        least: u64,
    },
}

/// Other programs that work less than this share of a core are what every
/// machine has.
const OTHERS_TOLERANCE: f64 = 0.01;

/// The share of time that may be lost where no percentile is asked for.
const USUAL_TOLERANCE: f64 = 0.005;

/// And where one is asked for, at least and at most.
const TOLERANCES: (f64, f64) = (0.000_5, 0.05);

/// Moments too short to be found may take this much of a core: as each is a
/// small part of the bound, all that they change is the capacity.
const SHORT_TOLERANCE: f64 = 0.05;

/// Share of the rate from which on an open loop was answered.
const ACHIEVED: f64 = 0.95;

impl Spoilt {
    /// Whether the machine spoilt a run, for these objectives.
    #[must_use]
    pub fn of(report: &Report, objectives: &[Objective], sifted: &Sifted, around: &Surroundings) -> Option<Self> {
        // A rate is what it is, whoever had the cores.
        if objectives.iter().all(|objective| objective.metric == Metric::Rate) {
            return None;
        }
        let tolerance = tolerance(objectives);
        let late = sifted.late_ns as f64 / (report.window_ns as f64).max(1.0);
        if !sifted.enough || late > tolerance {
            return Some(Self::Disturbed { counted: sifted.counted, slices: sifted.slices });
        }
        if around.stolen > SHORT_TOLERANCE {
            return Some(Self::Stolen { share: around.stolen });
        }
        if around.others > OTHERS_TOLERANCE && around.waited > tolerance {
            return Some(Self::Others { share: around.others, waited: around.waited });
        }
        let least = objectives.iter().map(Objective::least_samples).max().unwrap_or(0);
        let samples = report.latency.samples;
        // A server that does not answer gives few samples, too.
        let answered = report.schedule.is_none_or(|schedule| schedule.achieved_fraction >= ACHIEVED);
        (samples < least && answered).then_some(Self::FewSamples { samples, least })
    }
}

/// The share of time that may be lost without an effect on the objectives: of
/// a percentile, half of what may be above it.
fn tolerance(objectives: &[Objective]) -> f64 {
    let of = |objective: &Objective| match objective.metric {
        Metric::Latency(quantile) | Metric::Lag(quantile) | Metric::Connect(quantile) => (1.0 - quantile) / 2.0,
        Metric::Max => 0.0,
        _ => USUAL_TOLERANCE,
    };
    let (least, most) = TOLERANCES;
    objectives.iter().map(of).fold(most, f64::min).clamp(least, most)
}

impl fmt::Display for Spoilt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Stolen { share: part } => {
                write!(f, "the hypervisor took {} of a core in moments too short to be left out", share(part))
            }
            Self::Others { share: part, waited } => write!(
                f,
                "other programs took {} of a core, and a thread waited for one for {} of the time",
                share(part),
                share(waited)
            ),
            Self::Disturbed { counted, slices } => {
                write!(f, "{counted} of {slices} slices were undisturbed for long enough, which is too few")
            }
            Self::FewSamples { samples, least } => {
                write!(f, "{samples} samples are too few: the percentile needs {least}")
            }
        }
    }
}
