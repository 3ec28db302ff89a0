//! `nearside status`, as typed.

use super::nginx;
use ::status::{StatusPlan, Whose};
use clap::{Args, ValueHint};
use core::net::SocketAddr;
use host::values::{self, Count};
use std::path::PathBuf;
use std::time::Duration;

#[derive(Args)]
pub(in crate::args) struct StatusArgs {
    /// The process to look at, by its number: a server, or a program that runs on our stack; or the statistics page to
    /// read, by its path [default: all running processes]
    #[arg(value_name = "PID|PAGE", value_hint = ValueHint::FilePath)]
    page: Option<PathBuf>,

    /// Print connections of each silo instead, as ss -ti does the kernel's: all, or 256 that are taken evenly of more.
    /// Needs the right to write to the page, which its user and root have
    #[arg(long, conflicts_with_all = ["listening", "health", "counters", "live", "ndjson"])]
    connections: bool,

    /// Print the machine's listening TCP sockets instead: connections that wait, for how many there is room, whose
    /// they are
    #[arg(long, conflicts_with = "page")]
    listening: bool,

    /// Say whether the server that tells metrics at this address is well (its /healthz), and exit with 1 if it is not:
    /// for the health check of a container [default address: NEARSIDE_METRICS]
    #[arg(long, value_name = "ADDRESS", num_args = 0..=1, value_parser = values::metrics_address)]
    #[arg(conflicts_with_all = ["page", "listening", "json"])]
    health: Option<Option<SocketAddr>>,

    /// Print JSON
    #[arg(long)]
    json: bool,

    /// Print all counters and their rates once, as where the output is no terminal
    #[arg(long, conflicts_with_all = ["listening", "health", "json", "live", "ndjson"])]
    counters: bool,

    /// Show rates from look to look, by silo or worker, and by host and location
    /// with p50 and p99 where the process was started with --metrics; and what was
    /// at its limit first [default where there is a terminal]
    #[arg(long, conflicts_with_all = ["listening", "json"])]
    live: bool,

    /// As --live, a line of JSON for each process and look
    #[arg(long, conflicts_with_all = ["listening", "json"])]
    ndjson: bool,

    /// With --live and --ndjson: look again after this time
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = values::nonzero_duration)]
    interval: Duration,

    /// With --live and --ndjson: end after so many looks
    #[arg(long, value_name = "N")]
    count: Option<Count>,
}

impl StatusArgs {
    pub(super) fn plan(self) -> Result<StatusPlan, String> {
        let health = match self.health {
            None => None,
            Some(Some(address)) => Some(address),
            Some(None) => {
                let told = nginx::metrics_of(std::env::var(nginx::VARIABLE).ok())?;
                Some(told.ok_or("--health: say at which address metrics are told")?)
            }
        };
        let whose = match self.page {
            None => Whose::All,
            // A page that is called by a number alone is named as ./NUMBER.
            Some(page) => match page.to_str().map(str::parse) {
                Some(Ok(process)) => Whose::Process(process),
                _ => Whose::Page(page),
            },
        };
        Ok(StatusPlan {
            whose,
            connections: self.connections,
            listening: self.listening,
            health,
            json: self.json,
            counters: self.counters,
            live: self.live,
            ndjson: self.ndjson,
            interval: self.interval,
            count: self.count.map(|Count(count)| count),
        })
    }
}
