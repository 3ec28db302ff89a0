//! What an experiment found out, and what speaks against it.

use crate::Failure;
use crate::experiment::Experiment;
use crate::fingerprint::MachineState;
use crate::runs::{ArmResults, Check, Figure, FigureCurve, RunVerdict};
use environment::ResultOrigin;
use serde::{Deserialize, Serialize};
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
    /// Why not, where that is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended: Option<String>,
    /// When it began, seconds since 1970.
    pub began: u64,
    /// By which command, and when it was made.
    #[serde(flatten)]
    pub origin: ResultOrigin,
    /// Version of Nearside.
    pub nearside: String,
    /// The machine that the figures belong to.
    pub machine: MachineState,
    /// Programs and libraries measured or used, with their versions.
    pub tools: BTreeMap<String, String>,
    /// What each run measured.
    pub figures: Vec<Figure>,
    /// Which of that is drawn as curves.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub curves: Vec<FigureCurve>,
    /// The percentiles of every latency curve.
    pub percentiles: Vec<f64>,
    /// The arms, the control last.
    pub arms: Vec<ArmResults>,
    /// Whether the expected shapes came out.
    pub checks: Vec<Check>,
    /// What a reader should know.
    pub notes: Vec<String>,
}

impl Results {
    /// The arms of which there are runs, without those that are another once more.
    pub fn measured(&self) -> impl Iterator<Item = &ArmResults> {
        self.arms.iter().filter(|arm| arm.repeats.is_none() && !arm.runs.is_empty())
    }

    /// The arm that the others are compared with, if it was measured.
    #[must_use]
    pub fn baseline(&self) -> Option<&ArmResults> {
        let named = self.experiment.baseline.as_deref();
        self.measured().find(|arm| named.is_none_or(|name| arm.name == name))
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
            let why = self.ended.as_deref().map_or_else(String::new, |why| format!(" ({why})"));
            doubts.push(format!("Ended early{why}: the rounds here are all that there is, and nothing was checked."));
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

    /// What arms say against themselves, in the order of arms: of how many runs, and why.
    #[must_use]
    pub fn arms_doubts(&self) -> Vec<String> {
        let mut doubts = Vec::new();
        for arm in &self.arms {
            let all = arm.runs.len();
            let own: Vec<&RunVerdict> = arm.runs.iter().filter_map(|run| run.verdict.as_ref()).collect();
            for (word, what) in
                [("INVALID", "its figures are not to be used"), ("PARTIAL", "read its figures with care")]
            {
                let some: Vec<_> = own.iter().filter(|own| own.word == word).collect();
                if let Some(first) = some.first() {
                    let why = first.reasons.first().map_or("it does not say why", String::as_str);
                    doubts.push(format!("{}: {} of {all} runs say {word}, {what}: {why}", arm.name, some.len()));
                }
            }
        }
        doubts
    }

    /// How many requests or connections failed in all runs that counted it; nothing where none did.
    #[must_use]
    pub fn errors(&self) -> Option<u64> {
        let counted = self.arms.iter().flat_map(|arm| &arm.runs).filter(|run| !run.errors_unknown);
        counted.map(|run| run.errors).reduce(|sum, errors| sum.saturating_add(errors))
    }

    /// Whether no check that could be made was missed, and no arm calls its figures INVALID.
    #[must_use]
    pub fn is_as_expected(&self) -> bool {
        self.checks.iter().all(|check| check.kept != Some(false))
            && self.arms.iter().all(|arm| arm.invalid().is_empty())
    }

    /// Reads a result's directory, or the page of one.
    ///
    /// # Errors
    /// If it is none, or of another version.
    pub fn read(folder: &Path) -> Result<Self, Failure> {
        #[derive(Deserialize)]
        struct Version {
            schema: u32,
        }
        // A page of it is as good as its folder.
        let path = if folder.is_dir() { folder.join(RESULTS) } else { folder.to_path_buf() };
        let text = fs::read_to_string(&path).map_err(|why| format!("cannot read {}: {why}", path.display()))?;
        let text = pages::results_in(&text).pop().unwrap_or(text);
        let version: Version = serde_json::from_str(&text)
            .map_err(|why| format!("{} is not the result of an experiment: {why}", path.display()))?;
        if version.schema != SCHEMA {
            let found = version.schema;
            return Err(format!("{} is of schema {found}, and this program reads {SCHEMA}", path.display()).into());
        }
        Ok(serde_json::from_str(&text).map_err(|why| format!("{}: {why}", path.display()))?)
    }
}
