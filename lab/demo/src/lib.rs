//! Nearside beside nginx, in one run on one machine.
#![forbid(unsafe_code)]

use std::path::PathBuf;
use std::time::Duration;

/// What to measure, for how long, and where to put the results.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DemoPlan {
    /// Rounds of each row; the table shows their median, smallest and largest.
    pub rounds: u32,
    /// How long each row is measured in a round, warm-up excluded.
    pub duration: Duration,
    /// Warm-up before each measurement.
    pub warmup: Duration,
    /// The server's core and the client's core.
    pub cores: Option<(u16, u16)>,
    /// Shuffles the order of the rows within each round.
    pub seed: u64,
    /// The folder for `report.html` and `results.json`; made if missing.
    pub out: PathBuf,
    /// Print the results as JSON in place of the table.
    pub json: bool,
}
