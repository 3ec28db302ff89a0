//! `nearside watch`, as typed.

use clap::{Args, ValueEnum, ValueHint};
use console::{Tracing, WatchForm, WatchPlan};
use host::values::nonzero_duration;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

#[derive(Args)]
pub(in crate::args) struct WatchArgs {
    /// Print one line for each interval [default where output is no terminal]
    #[arg(long)]
    line: bool,

    /// Print each core's times, interrupts and drops
    #[arg(long)]
    cores: bool,

    /// Print each NUMA domain's memory, and what crosses
    #[arg(long)]
    domains: bool,

    /// Print each interface's traffic and drops, and that of Nearside's own links
    #[arg(long)]
    ports: bool,

    /// Look at this process, or at its child that serves, where it is the parent of one
    #[arg(long, value_name = "PID", value_parser = clap::value_parser!(u32).range(1..))]
    pid: Option<u32>,

    /// Look at the process also by what costs it time: a system call or a receive some 0.1 us, a
    /// malloc 1 to 2 us in a tenth of a second of each interval, symbols 100 interrupts a second
    ///
    /// mallocs without --pid are those of every process.
    #[arg(long, value_enum, value_name = "WHAT,…", value_delimiter = ',', conflicts_with_all = ["replay", "root"])]
    trace: Vec<TypedTracing>,

    /// Look also at who called the functions that the process's time goes to
    ///
    /// Callers are found by frame pointers: of what is built without them (as most C programs
    /// and libraries are) none are known.
    #[arg(long, short = 'g', requires = "pid")]
    call_graph: bool,

    /// The length of an interval
    #[arg(long, short, value_name = "TIME", default_value = "1s", value_parser = nonzero_duration)]
    interval: Duration,

    /// End after so many intervals
    #[arg(long, short = 'n', value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    count: Option<u64>,

    /// Do not count system calls: that costs each of them some 0.1 us
    #[arg(long)]
    no_syscalls: bool,

    /// Print a line of JSON for each interval, with all rows
    #[arg(long, conflicts_with_all = ["line", "cores", "domains", "ports"])]
    ndjson: bool,

    /// Answer with the counters in the form of OpenMetrics at http://ADDRESS/metrics
    #[arg(long, value_name = "ADDRESS", conflicts_with = "replay")]
    openmetrics: Option<SocketAddr>,

    /// Write every sample to this file, for --replay
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, conflicts_with = "replay")]
    record: Option<PathBuf>,

    /// Write what is recorded or replayed to this file, as one page of HTML, at the end
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    html: Option<PathBuf>,

    /// Show what a file recorded instead of this machine
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, conflicts_with_all = ["pid", "no_syscalls"])]
    replay: Option<PathBuf>,

    /// Look at another machine's files: a folder with its proc/ and sys/
    #[arg(long, value_name = "FOLDER", value_hint = ValueHint::DirPath, conflicts_with_all = ["pid", "replay"])]
    root: Option<PathBuf>,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum TypedTracing {
    /// Its system calls
    Syscalls,
    /// Its receives from sockets
    Receives,
    /// Its calls of malloc
    Mallocs,
    /// The functions that its time goes to
    Symbols,
}

impl WatchArgs {
    /// What only a process has is not asked for without one.
    pub(super) fn plan(self) -> Result<WatchPlan, String> {
        let alone = self.trace.iter().find(|what| **what != TypedTracing::Mallocs);
        if let (None, Some(what)) = (self.pid, alone) {
            let name = what.to_possible_value().map_or_else(String::new, |value| value.get_name().to_owned());
            return Err(format!(
                "--trace {name} is of one process: name it with --pid; without one there is --trace mallocs"
            ));
        }
        if self.html.is_some() && self.record.is_none() && self.replay.is_none() {
            return Err("--html goes with --record or --replay".to_owned());
        }
        Ok(self.planned())
    }

    fn planned(self) -> WatchPlan {
        let asked = |what| self.trace.contains(&what);
        let tables = self.cores || self.domains || self.ports;
        let form = match () {
            () if self.ndjson => WatchForm::Ndjson,
            () if self.line || tables => WatchForm::Text,
            () => WatchForm::Best,
        };
        WatchPlan {
            form,
            line: self.line || !(self.cores || self.domains || self.ports),
            cores: self.cores,
            domains: self.domains,
            ports: self.ports,
            pid: self.pid,
            tracing: Tracing {
                syscalls: asked(TypedTracing::Syscalls),
                receives: asked(TypedTracing::Receives),
                mallocs: asked(TypedTracing::Mallocs),
                symbols: asked(TypedTracing::Symbols) || self.call_graph,
                graphs: self.call_graph,
            },
            interval: self.interval,
            count: self.count,
            syscalls: !self.no_syscalls,
            openmetrics: self.openmetrics,
            record: self.record,
            html: self.html,
            replay: self.replay,
            root: self.root,
        }
    }
}
