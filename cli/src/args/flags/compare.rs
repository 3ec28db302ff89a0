//! `nearside compare`, as typed.

use ::host::values::{Count, nonzero_duration};
use clap::{Args, ValueHint};
use console::ServersPlan;
use std::path::PathBuf;
use std::time::Duration;

#[derive(Args)]
pub(in crate::args) struct CompareArgs {
    /// What the first server is asked for, as in http://localhost:8080/index.html
    #[arg(value_name = "URL", value_hint = ValueHint::Url)]
    first: String,

    /// The same of the second
    #[arg(value_name = "URL", value_hint = ValueHint::Url)]
    second: String,

    /// Start the first server by this command, which stays in the foreground, and end it afterwards [default: it runs]
    #[arg(long, value_name = "COMMAND")]
    start_first: Option<String>,

    /// The same of the second
    #[arg(long, value_name = "COMMAND")]
    start_second: Option<String>,

    /// Measure so many rounds, each with both in random order and the first one twice; five give an interval
    #[arg(long, value_name = "N", default_value = "5", value_parser = clap::value_parser!(u32).range(1..=1000))]
    rounds: u32,

    /// Hold this many connections
    #[arg(short, long, value_name = "N", default_value = "64")]
    connections: Count,

    /// Measure each for this long in each round
    #[arg(short, long, value_name = "TIME", default_value = "5s", value_parser = nonzero_duration)]
    duration: Duration,

    /// Compare although the two answer unlike
    #[arg(long)]
    force: bool,

    /// Keep the results in this new folder [default: a new one below out/lab]
    #[arg(long, value_name = "FOLDER", value_hint = ValueHint::DirPath)]
    out: Option<PathBuf>,

    /// Print the results as JSON
    #[arg(long)]
    json: bool,

    /// More options for the load, as nearside load has them, behind --
    #[arg(last = true, value_name = "OPTIONS")]
    load: Vec<String>,
}

impl CompareArgs {
    pub(super) fn plan(self) -> Result<ServersPlan, String> {
        Ok(ServersPlan {
            connections: super::connections(self.connections, "--connections")?,
            urls: [self.first, self.second],
            starts: [self.start_first, self.start_second],
            rounds: self.rounds,
            duration: self.duration,
            load: self.load,
            force: self.force,
            out: self.out,
            json: self.json,
        })
    }
}
