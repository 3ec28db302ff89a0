//! What a run of the tester keeps: what was measured, over which links, by which clock.

use crate::trial::TrialResult;
use serde::{Deserialize, Serialize};

/// What `load --out` keeps.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Kept {
    /// How it is done again.
    pub command: Vec<String>,
    /// It came to its end.
    pub complete: bool,
    /// Which clock, and its error.
    pub clock: Clock,
    /// The links.
    pub links: Vec<String>,
    /// Latencies above it are counted.
    pub threshold_ns: u64,
    /// The share of frames that may be late; `None`: as for searches.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub late_limit: Option<f64>,
    /// What was measured.
    pub result: TrialResult,
}

/// The clock of a run.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Clock {
    /// A sentence about it.
    pub told: String,
}
