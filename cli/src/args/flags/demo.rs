//! `nearside demo`, as typed.

use clap::{Args, ValueHint};
use demo::DemoPlan;
use demo::kernel::MOST_NGINX;
use host::values;
use std::path::PathBuf;
use std::time::Duration;

#[derive(Args)]
pub(in crate::args) struct DemoArgs {
    /// Measure each row in this many rounds [default: 4, with --quick 1]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1000))]
    rounds: Option<u32>,

    /// Measure each row this long per round; where wrk asks, in whole seconds [default: 2s, with --quick 1s]
    #[arg(long, value_name = "TIME", value_parser = values::nonzero_duration)]
    duration: Option<Duration>,

    /// One short round: shows that everything works, measures little
    #[arg(long)]
    quick: bool,

    /// The nginx to measure, at most two [default: the distribution's, and one of another version if found]
    ///
    /// Ratios are to the first. One of another version is looked for where it
    /// is installed by hand: below /usr/local and /opt, and in the path.
    #[arg(long, value_name = "PATH[,PATH]", value_parser = nginx_paths, value_hint = ValueHint::FilePath)]
    nginx: Option<Paths>,

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
        let (rounds, seconds) = if self.quick { (1, 1) } else { (4, 2) };
        DemoPlan {
            rounds: self.rounds.unwrap_or(rounds),
            duration: self.duration.unwrap_or(Duration::from_secs(seconds)),
            // Who sets the rounds knows what to expect.
            first_look: !self.quick && self.rounds.is_none() && self.duration.is_none(),
            nginx: self.nginx.unwrap_or_default().0,
            cores: self.cores,
            seed: self.seed,
            out: self.out,
            json: self.json,
        }
    }
}

/// Which nginx are measured.
#[derive(Clone, Default)]
struct Paths(Vec<PathBuf>);

fn nginx_paths(text: &str) -> Result<Paths, String> {
    let paths: Vec<PathBuf> = text.split(',').map(PathBuf::from).collect();
    let good = paths.len() <= MOST_NGINX && paths.iter().all(|path| !path.as_os_str().is_empty());
    if good { Ok(Paths(paths)) } else { Err(format!("write at most {MOST_NGINX} paths, separated by commas")) }
}

fn core_pair(text: &str) -> Result<(u16, u16), String> {
    text.split_once(',')
        .and_then(|(server, client)| Some((server.trim().parse().ok()?, client.trim().parse().ok()?)))
        .filter(|(server, client)| server != client)
        .ok_or_else(|| "write two different cores, as in 0,1".to_owned())
}
