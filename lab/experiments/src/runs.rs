//! What runs measured, and what was expected of it.

use results::Worth;
use serde::{Deserialize, Serialize};
use stats::Better;
use std::collections::BTreeMap;

/// A figure of each run.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Figure {
    /// Its key in [`Run::figures`].
    pub name: String,
    /// Its unit; empty for a plain number.
    pub unit: String,
    /// Which way is better; `None`: a description, not judged.
    pub better: Option<Direction>,
}

/// Which way is better, as results write it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Direction {
    /// More is better.
    Higher,
    /// Less is better.
    Lower,
}

impl From<Direction> for Better {
    fn from(direction: Direction) -> Self {
        match direction {
            Direction::Higher => Self::Higher,
            Direction::Lower => Self::Lower,
        }
    }
}

impl Figure {
    /// A figure of which more is better.
    #[must_use]
    pub fn higher(name: &str, unit: &str) -> Self {
        Self { name: name.to_owned(), unit: unit.to_owned(), better: Some(Direction::Higher) }
    }

    /// A figure of which less is better.
    #[must_use]
    pub fn lower(name: &str, unit: &str) -> Self {
        Self { name: name.to_owned(), unit: unit.to_owned(), better: Some(Direction::Lower) }
    }

    /// A figure that describes.
    #[must_use]
    pub fn plain(name: &str, unit: &str) -> Self {
        Self { name: name.to_owned(), unit: unit.to_owned(), better: None }
    }

    /// Its name with its unit.
    #[must_use]
    pub fn title(&self) -> String {
        if self.unit.is_empty() { self.name.clone() } else { format!("{}, {}", self.name, self.unit) }
    }
}

/// Figures of each run that make a curve for each arm.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct FigureCurve {
    /// What it shows.
    pub title: String,
    /// The arms that have one, by name.
    pub arms: Vec<String>,
    /// From left to right: the quantity and its unit.
    pub x: String,
    /// From bottom to top.
    pub y: String,
    /// Its points, in the order in which they are joined.
    pub points: Vec<FigurePoint>,
}

/// A point of a curve, by names of figures.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct FigurePoint {
    /// From left to right.
    pub x: String,
    /// From bottom to top.
    pub y: String,
    /// Where this one is above zero, the point does not count.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub spoilt_by: Option<String>,
}

/// The runs of one arm.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct ArmResults {
    /// Its name.
    pub name: String,
    /// The arm that it repeats, for the control.
    pub repeats: Option<String>,
    /// What must be alike in a comparison.
    pub conditions: BTreeMap<String, String>,
    /// Why it was not measured, if so.
    pub left_out: Option<String>,
    /// One for each round.
    pub runs: Vec<Run>,
}

/// One run: the unit of statistics.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct Run {
    /// The round, from one.
    pub round: u32,
    /// Its place in the round, from one.
    pub place: u32,
    /// How long it took, seconds.
    pub seconds: f64,
    /// The figures, by name.
    pub figures: BTreeMap<String, f64>,
    /// What failed in it.
    pub errors: u64,
    /// Nobody counted what failed: the number above says nothing.
    #[serde(default, skip_serializing_if = "core::ops::Not::not")]
    pub errors_unknown: bool,
    /// What it says that it is worth, where it says so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub verdict: Option<RunVerdict>,
    /// Its latencies, where it has some.
    pub latency: Option<Distribution>,
    /// Its latencies where it has several passes, by their names.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub passes: BTreeMap<String, Distribution>,
    /// The share of a core of the server's or the generator's that other
    /// programs or the hypervisor took, at most; `None` where nobody looked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub others: Option<f64>,
    /// What is no number.
    pub details: BTreeMap<String, String>,
}

/// What a run says that it is worth.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct RunVerdict {
    /// COMPLETE, PARTIAL or INVALID.
    pub word: String,
    /// Why, the gravest first.
    pub reasons: Vec<String>,
}

impl RunVerdict {
    /// Whether the figures are not to be used.
    #[must_use]
    pub fn is_invalid(&self) -> bool {
        self.word == Worth::Invalid.word()
    }
}

/// A latency distribution.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Distribution {
    /// The latency at each of a result's percentiles, µs.
    pub curve: Vec<f64>,
    /// The largest, µs.
    pub max: f64,
    /// How many there are.
    pub count: u64,
    /// All of them, ns: an HdrHistogram in its V2 form, in base64. `None`
    /// where the generator gives percentiles only.
    pub hdr: Option<String>,
}

/// Whether something that is expected came out.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Check {
    /// What is expected.
    pub what: String,
    /// What was found.
    pub found: String,
    /// Whether it is so; `None` where it could not be measured here.
    pub kept: Option<bool>,
}

impl ArmResults {
    /// A figure of all runs that have it, in the order of rounds.
    #[must_use]
    pub fn values(&self, figure: &str) -> Vec<f64> {
        self.runs.iter().filter_map(|run| run.figures.get(figure).copied()).collect()
    }

    /// The runs that say themselves that their figures are not to be used.
    #[must_use]
    pub fn invalid(&self) -> Vec<&Run> {
        self.runs.iter().filter(|run| run.verdict.as_ref().is_some_and(RunVerdict::is_invalid)).collect()
    }

    /// The median of a figure over the runs, if there is one.
    #[must_use]
    pub fn median(&self, figure: &str) -> Option<f64> {
        let values = self.values(figure);
        (!values.is_empty()).then(|| stats::median(&values))
    }

    /// The least and the most of a figure over the runs, where there are several.
    #[must_use]
    pub fn extent(&self, figure: &str) -> Option<(f64, f64)> {
        let values = self.values(figure);
        (values.len() > 1).then(|| (stats::quantile(&values, 0.0), stats::quantile(&values, 1.0)))
    }

    /// The passes that have latencies, in the order of their names; one
    /// without a name where a run has only one.
    #[must_use]
    pub fn passes(&self) -> Vec<Option<&str>> {
        let mut names: Vec<Option<&str>> =
            self.runs.iter().flat_map(|run| run.passes.keys().map(|k| Some(k.as_str()))).collect();
        names.sort_unstable();
        names.dedup();
        if self.runs.iter().any(|run| run.latency.is_some()) {
            names.insert(0, None);
        }
        names
    }

    /// The latencies of a pass, one for each run that has them.
    #[must_use]
    pub fn latencies(&self, pass: Option<&str>) -> Vec<&Distribution> {
        let mut kept = Vec::new();
        for run in &self.runs {
            kept.extend(match pass {
                Some(name) => run.passes.get(name),
                None => run.latency.as_ref(),
            });
        }
        kept
    }

    /// The latency of a pass at each percentile, and the largest: medians over
    /// the runs, µs.
    #[must_use]
    pub fn curve(&self, pass: Option<&str>) -> Option<(Vec<f64>, f64)> {
        let kept = self.latencies(pass);
        let points = kept.first()?.curve.len();
        let of = |index: usize| {
            let values: Vec<f64> = kept.iter().filter_map(|kept| kept.curve.get(index).copied()).collect();
            stats::median(&values)
        };
        let largest: Vec<f64> = kept.iter().map(|kept| kept.max).collect();
        Some(((0..points).map(of).collect(), stats::median(&largest)))
    }
}
