//! `bench`: runs one experiment and prints what it shows.

use bench::Failure;
use bench::cost::{self, Case};
use clap::{Parser, Subcommand};
use silo::memory::HugeAlloc;
use std::process::ExitCode;

/// As in the program that is measured.
#[global_allocator]
static ALLOCATOR: HugeAlloc = HugeAlloc;

/// What the packet path costs.
#[derive(Parser)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Instructions per request on the server's side, and where they go
    Cost {
        /// Measure only these cases
        #[arg(value_enum)]
        cases: Vec<Case>,
        /// Requests of each case
        #[arg(long, value_name = "N", default_value_t = 20_000)]
        requests: u64,
        /// Functions told of each case
        #[arg(long, value_name = "N", default_value_t = 24)]
        functions: usize,
    },
    /// What `cost` runs under callgrind
    #[command(hide = true)]
    CostCase { case: Case, requests: u64 },
}

fn main() -> ExitCode {
    let outcome = call(Arguments::parse().command);
    match outcome {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::from(2),
        Err(why) => {
            eprintln!("bench: {why}");
            ExitCode::FAILURE
        }
    }
}

/// Whether the promises were kept.
fn call(command: Command) -> Result<bool, Failure> {
    match command {
        Command::Cost { cases, requests, functions } => cost::run(&cases, requests, functions),
        Command::CostCase { case, requests } => cost::run_case(case, requests).map(|()| true),
    }
}
