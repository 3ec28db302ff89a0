//! Everything that a run of the demo found out, as `results.json` keeps it.

use crate::machine::Fingerprint;
use crate::measure::{Contender, Measurement, Scenario};
use serde::{Deserialize, Serialize};

/// The figures of all rounds.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Results {
    /// The machine that they belong to.
    pub machine: Fingerprint,
    /// Version of Nearside.
    pub nearside: String,
    /// Version of nginx, where it was measured.
    pub nginx: Option<String>,
    /// Congestion control seen on nginx's connections.
    pub congestion: Option<String>,
    /// The server's and the client's core.
    pub cores: (u16, u16),
    /// Rounds asked for.
    pub rounds: u32,
    /// Seconds measured for each row in each round.
    pub seconds: u64,
    /// The seed of the order.
    pub seed: u64,
    /// The percentiles of every latency curve.
    pub percentiles: Vec<f64>,
    /// One row for each scenario and contender.
    pub rows: Vec<Row>,
    /// Frames per second over memif, both ways together, by round.
    pub frames: Vec<f64>,
    /// What was left out, and why.
    pub left_out: Vec<String>,
}

/// The rounds of one scenario with one contender.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Row {
    /// What was asked.
    pub scenario: Scenario,
    /// Who answered.
    pub contender: Contender,
    /// What came of each round.
    pub rounds: Vec<Measurement>,
}

impl Results {
    /// The contents of `results.json`.
    #[must_use]
    pub fn to_json(&self) -> String {
        // Only a map with keys other than strings could fail, and there is none.
        serde_json::to_string_pretty(self).unwrap_or_default() + "\n"
    }
}
