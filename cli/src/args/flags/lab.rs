//! `nearside lab`, as typed.

use ::experiments::experiment::Set;
use clap::{Args, Subcommand, ValueHint};
use console::{ComparisonPlan, ExperimentPlan, JudgePlan, LabPlan, ResultsSide};
use std::path::PathBuf;

#[derive(Args)]
pub(in crate::args) struct LabArgs {
    #[command(subcommand)]
    what: What,
}

#[derive(Subcommand)]
enum What {
    /// List the built-in experiments
    List,
    /// Print what an experiment's file may say, as JSON Schema
    Schema {
        /// Print this built-in experiment's file in its place, as an example
        #[arg(value_name = "NAME")]
        name: Option<String>,
    },
    /// Run an experiment: rounds of all arms in random order, with a control
    ///
    /// The exit status is 0 if what is expected came out, 2 if not, 130 after
    /// Ctrl-C (what was measured is kept), 1 if it failed.
    Run(RunArgs),
    /// Turn results into one page of HTML beside them
    Report {
        /// A folder of results, a result, or its page
        #[arg(value_name = "FOLDER|FILE", value_hint = ValueHint::AnyPath)]
        path: PathBuf,

        /// Write the page to this file [default: report.html in the folder, or beside the file]
        #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
        html: Option<PathBuf>,
    },
    /// Compare two results: effect, 95 % interval and verdict of each figure
    Compare(CompareArgs),
    /// Hold published results against what is possible
    ///
    /// Reads what ab, wrk, wrk2, hey, oha, k6, vegeta, fortio, nighthawk,
    /// h2load, testpmd, iperf3, perf stat, sar, mpstat and mmhistogram printed,
    /// in English, dpdk-httpperf's table, JSON of all measurements of ours, and
    /// files of claims ([[claim]] in TOML, as docs/judge.md
    /// lists them); several files are the sides of one comparison. Each finding says what is impossible
    /// or unproven, by how much, and what would prove it. The exit status is 0
    /// if nothing is found, 4 if something is unproven, 5 if something is
    /// impossible, 1 if a file cannot be read: the line is said.
    Judge(JudgeArgs),
}

#[derive(Args)]
struct JudgeArgs {
    /// What a tool printed, or claims
    #[arg(value_name = "FILE", required = true, value_hint = ValueHint::FilePath)]
    files: Vec<PathBuf>,

    /// The rate of the link between client and server, as in 10G (bits per second)
    #[arg(long, value_name = "RATE", value_parser = bits)]
    link: Option<f64>,

    /// Print the findings as JSON
    #[arg(long)]
    json: bool,
}

/// Bits per second, with K, M, G or T for powers of 1000.
pub(super) fn bits(text: &str) -> Result<f64, String> {
    let power = ["K", "M", "G", "T"].iter().position(|unit| text.ends_with(unit)).map_or(0, |at| at + 1);
    let digits = if power > 0 { &text[..text.len() - 1] } else { text };
    match digits.parse::<f64>() {
        Ok(value) if value.is_finite() && value > 0.0 => Ok(value * 1000_f64.powi(i32::try_from(power).unwrap_or(0))),
        _ => Err("a rate in bits per second belongs here, as in 10G".to_owned()),
    }
}

#[derive(Args)]
struct RunArgs {
    /// A built-in experiment, or a file
    #[arg(value_name = "NAME|FILE")]
    name: String,

    /// Change what the file says, as in accept-queue.workers=4; repeat for more
    #[arg(long = "set", value_name = "KEY=VALUE")]
    sets: Vec<Set>,

    /// Measure so many rounds [default: as the file says]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1000))]
    rounds: Option<u32>,

    /// Draw the order, and all else that is random, from this seed [default: as the file says]
    #[arg(long, value_name = "N")]
    seed: Option<u64>,

    /// What a request costs: wait:TIME sleeps, burn:TIME computes, exp:TIME
    /// sleeps by chance about TIME, auto:TIME burns where every worker has a
    /// core [default: as the file says]
    #[arg(long, value_name = "KIND:TIME")]
    service: Option<String>,

    /// Keep the results in this new folder [default: a new one below out/lab]
    #[arg(long, value_name = "FOLDER", value_hint = ValueHint::DirPath)]
    out: Option<PathBuf>,

    /// Print the results as JSON
    #[arg(long)]
    json: bool,
}

#[derive(Args)]
struct CompareArgs {
    /// The earlier results: a folder, or one arm of it; or what any measurement of ours printed as JSON
    #[arg(value_name = "BEFORE[:ARM]", value_hint = ValueHint::AnyPath)]
    before: String,

    /// The later results
    #[arg(value_name = "AFTER[:ARM]", value_hint = ValueHint::AnyPath)]
    after: String,

    /// Compare what is not alike
    #[arg(long)]
    force: bool,

    /// Write the comparison to this file, as one page of HTML with both sides' results in it
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    html: Option<PathBuf>,

    /// Print the comparison as JSON
    #[arg(long)]
    json: bool,
}

impl LabArgs {
    pub(super) fn plan(self) -> Result<LabPlan, String> {
        Ok(match self.what {
            What::List => LabPlan::List,
            What::Schema { name } => LabPlan::Schema(name),
            What::Run(args) => LabPlan::Run(args.plan()?),
            What::Report { path, html } => LabPlan::Report(path, html),
            What::Judge(args) => LabPlan::Judge(JudgePlan { files: args.files, link: args.link, json: args.json }),
            What::Compare(args) => LabPlan::Compare(ComparisonPlan {
                before: ResultsSide::from(args.before.as_str()),
                after: ResultsSide::from(args.after.as_str()),
                force: args.force,
                html: args.html,
                json: args.json,
            }),
        })
    }
}

impl RunArgs {
    /// The flags that have a name of their own stand for changes as well.
    fn plan(self) -> Result<ExperimentPlan, String> {
        let mut sets = self.sets;
        let named = [
            self.rounds.map(|rounds| format!("rounds={rounds}")),
            self.seed.map(|seed| format!("seed={seed}")),
            self.service.map(|service| format!("accept-queue.service=\"{service}\"")),
        ];
        for set in named.into_iter().flatten() {
            sets.push(set.parse()?);
        }
        Ok(ExperimentPlan { name: self.name, sets, out: self.out, json: self.json })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_has_a_rate_in_bits_per_second() {
        assert_eq!(bits("10G"), Ok(1e10));
        assert_eq!(bits("2.5G"), Ok(2.5e9));
        assert_eq!(bits("1000"), Ok(1e3));
        for wrong in ["", "G", "-1G", "10GB", "nan", "0"] {
            assert!(bits(wrong).is_err(), "{wrong}");
        }
    }
}
