//! What a result is worth as a whole, and its directory: `results.json` with every run's raw
//! figures, `experiment.toml` as it was run, `report.html`.

use crate::Failure;
use crate::compare;
use crate::results::{RESULTS, Results};
use crate::runs::RunVerdict;
use environment::ResultKind;
use results::Worth;
use serde::Serialize;
use std::path::Path;

impl Results {
    /// The verdict on the whole. INVALID is what an arm calls so, and what has no run at all; PARTIAL is
    /// what ended early or is in doubt, and what tells nothing of any difference.
    #[must_use]
    pub fn verdict(&self) -> RunVerdict {
        let empty = self.arms.iter().all(|arm| arm.runs.is_empty());
        let nothing = empty.then(|| "Nothing was measured: there is no run that counts.".to_owned());
        let nothing = nothing.into_iter().collect();
        // What is under way is kept after each run, and says that it is a part.
        let undecided = if self.complete { compare::undecided(&compare::within(self)) } else { None };
        let reasons = [nothing, self.doubts(), self.arms_doubts(), undecided.into_iter().collect()].concat();
        let worth = match () {
            () if empty || self.arms.iter().any(|arm| !arm.invalid().is_empty()) => Worth::Invalid,
            () if !reasons.is_empty() => Worth::Partial,
            () => Worth::Complete,
        };
        RunVerdict { word: worth.word().to_owned(), reasons }
    }

    /// The contents of `results.json`.
    #[must_use]
    pub fn to_json(&self) -> String {
        // Only a map with keys other than strings could fail, and there is none.
        #[derive(Serialize)]
        struct Whole<'a> {
            #[serde(flatten)]
            results: &'a Results,
            kind: ResultKind,
            verdict: RunVerdict,
        }
        let whole = Whole { results: self, kind: ResultKind::Experiment, verdict: self.verdict() };
        serde_json::to_string_pretty(&whole).unwrap_or_default() + "\n"
    }

    /// Writes both files. Each is whole at any moment: a reader, or an end
    /// without warning, finds the last one.
    ///
    /// # Errors
    /// If the folder cannot be written to.
    pub fn write(&self, folder: &Path) -> Result<(), Failure> {
        ::results::write_whole(&folder.join(RESULTS), &self.to_json())?;
        Ok(::results::write_whole(&folder.join("experiment.toml"), &self.experiment.to_toml())?)
    }
}
