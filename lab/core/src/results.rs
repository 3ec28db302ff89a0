//! A result's directory: `results.json` with every run's raw figures,
//! `experiment.toml` as it was run, `report.html`.

use crate::Failure;
use crate::experiment::Experiment;
use crate::fingerprint::MachineState;
use serde::{Deserialize, Serialize};
use stats::Better;
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

/// The version of `results.json` that this program writes and reads.
pub const SCHEMA: u32 = 1;

/// The file of figures.
pub const RESULTS: &str = "results.json";

/// A share of a core that others may take without a word.
pub const MAX_OTHERS: f64 = demo::machine::MAX_OTHERS;

/// All that an experiment found out.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Results {
    /// The version of this form.
    pub schema: u32,
    /// The experiment as it was run.
    pub experiment: Experiment,
    /// Whether all rounds were run: not after Ctrl-C or an error.
    pub complete: bool,
    /// When it began, seconds since 1970.
    pub began: u64,
    /// Version of Nearside.
    pub nearside: String,
    /// The machine that the figures belong to.
    pub machine: MachineState,
    /// Programs and libraries measured or used, with their versions.
    pub tools: BTreeMap<String, String>,
    /// What each run measured.
    pub figures: Vec<Figure>,
    /// The percentiles of every latency curve.
    pub percentiles: Vec<f64>,
    /// The arms, the control last.
    pub arms: Vec<ArmResults>,
    /// Whether the expected shapes came out.
    pub checks: Vec<Check>,
    /// What a reader should know.
    pub notes: Vec<String>,
}

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

/// A latency distribution.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Distribution {
    /// The latency at each of [`Results::percentiles`], µs.
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

    /// The median of a figure over the runs, if there is one.
    #[must_use]
    pub fn median(&self, figure: &str) -> Option<f64> {
        let values = self.values(figure);
        (!values.is_empty()).then(|| stats::median(&values))
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

impl Results {
    /// The arm that the others are compared with, if it was measured.
    #[must_use]
    pub fn baseline(&self) -> Option<&ArmResults> {
        let named = self.experiment.baseline.as_deref();
        let measured = |arm: &&ArmResults| arm.repeats.is_none() && !arm.runs.is_empty();
        match named {
            Some(name) => self.arms.iter().filter(measured).find(|arm| arm.name == name),
            None => self.arms.iter().find(measured),
        }
    }

    /// The baseline's second runs, if there are any.
    #[must_use]
    pub fn control(&self) -> Option<&ArmResults> {
        let baseline = self.baseline()?;
        self.arms.iter().find(|arm| arm.repeats.as_deref() == Some(baseline.name.as_str()) && !arm.runs.is_empty())
    }

    /// What makes the figures doubtful, to be read before them: that rounds
    /// are missing, and that the machine was busy with something else.
    #[must_use]
    pub fn doubts(&self) -> Vec<String> {
        let mut doubts = Vec::new();
        if !self.complete {
            doubts.push("Ended early: the rounds here are all that there is, and nothing was checked.".to_owned());
        }
        let shares: Vec<f64> = self.arms.iter().flat_map(|arm| &arm.runs).filter_map(|run| run.others).collect();
        let busy = shares.iter().filter(|share| **share > MAX_OTHERS).count();
        if busy > 0 {
            let worst = 100.0 * shares.iter().copied().fold(0.0, f64::max);
            doubts.push(format!(
                "Not a quiet machine: in {busy} of {} runs other programs or the hypervisor took more than {:.0} % of \
                 the server's or the generator's core, at most {worst:.0} %. Rates are too low, latencies too long, \
                 and ratios are of unlike moments; measure again on a quiet machine.",
                shares.len(),
                100.0 * MAX_OTHERS
            ));
        }
        doubts
    }

    /// Whether no check that could be made was missed.
    #[must_use]
    pub fn is_as_expected(&self) -> bool {
        self.checks.iter().all(|check| check.kept != Some(false))
    }

    /// The contents of `results.json`.
    #[must_use]
    pub fn to_json(&self) -> String {
        // Only a map with keys other than strings could fail, and there is none.
        serde_json::to_string_pretty(self).unwrap_or_default() + "\n"
    }

    /// Writes both files. Each is whole at any moment: a reader, or an end
    /// without warning, finds the last one.
    ///
    /// # Errors
    /// If the folder cannot be written to.
    pub fn write(&self, folder: &Path) -> Result<(), Failure> {
        write_whole(&folder.join(RESULTS), &self.to_json())?;
        write_whole(&folder.join("experiment.toml"), &self.experiment.to_toml())
    }

    /// Reads a result's directory.
    ///
    /// # Errors
    /// If it is none, or of another version.
    pub fn read(folder: &Path) -> Result<Self, Failure> {
        #[derive(Deserialize)]
        struct Version {
            schema: u32,
        }
        let path = folder.join(RESULTS);
        let text = fs::read_to_string(&path).map_err(|why| format!("cannot read {}: {why}", path.display()))?;
        let version: Version = serde_json::from_str(&text)
            .map_err(|why| format!("{} is not the result of an experiment: {why}", path.display()))?;
        if version.schema != SCHEMA {
            let found = version.schema;
            return Err(format!("{} is of schema {found}, and this program reads {SCHEMA}", path.display()).into());
        }
        Ok(serde_json::from_str(&text).map_err(|why| format!("{}: {why}", path.display()))?)
    }
}

/// Writes a file beside its place, and then moves it there.
///
/// # Errors
/// If either is refused.
pub fn write_whole(path: &Path, text: &str) -> Result<(), Failure> {
    let beside = path.with_extension("part");
    fs::write(&beside, text)
        .and_then(|()| fs::rename(&beside, path))
        .map_err(|why| format!("cannot write {}: {why}", path.display()).into())
}
