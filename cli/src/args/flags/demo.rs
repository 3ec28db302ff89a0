//! `nearside demo`, as typed.

use crate::args::values;
use clap::{Args, ValueHint};
use demo::DemoPlan;
use std::path::PathBuf;
use std::time::Duration;

#[derive(Args)]
pub(in crate::args) struct DemoArgs {
    /// Measure each row in this many rounds [default: 5, with --quick 1]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1000))]
    rounds: Option<u32>,

    /// Measure each row this long per round [default: 4s, with --quick 1s]
    #[arg(long, value_name = "TIME", value_parser = values::nonzero_duration)]
    duration: Option<Duration>,

    /// One short round: shows that everything works, measures little
    #[arg(long)]
    quick: bool,

    /// The server's core and the client's core [default: the first two allowed ones]
    #[arg(long, value_name = "SERVER,CLIENT", value_parser = core_pair)]
    cores: Option<(u16, u16)>,

    /// Shuffle the rows of each round by this seed
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,

    /// Write report.html and results.json into this folder
    #[arg(long, value_name = "FOLDER", default_value = "out/demo", value_hint = ValueHint::DirPath)]
    out: PathBuf,

    /// Print the results as JSON
    #[arg(long)]
    json: bool,
}

impl DemoArgs {
    pub(super) fn plan(self) -> DemoPlan {
        let (rounds, seconds, warmup) = if self.quick { (1, 1, 300) } else { (5, 4, 1_000) };
        DemoPlan {
            rounds: self.rounds.unwrap_or(rounds),
            duration: self.duration.unwrap_or(Duration::from_secs(seconds)),
            warmup: Duration::from_millis(warmup),
            cores: self.cores,
            seed: self.seed,
            out: self.out,
            json: self.json,
        }
    }
}

fn core_pair(text: &str) -> Result<(u16, u16), String> {
    text.split_once(',')
        .and_then(|(server, client)| Some((server.trim().parse().ok()?, client.trim().parse().ok()?)))
        .filter(|(server, client)| server != client)
        .ok_or_else(|| "write two different cores, as in 0,1".to_owned())
}
