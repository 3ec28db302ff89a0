//! The one binary: the command line, turned into a plan, turned into one call.

mod aggregation;
mod args;
mod figures;
mod host;
mod import;
mod lab;
mod links;
mod load;
mod node;
mod numa;
mod serve;
mod status;

use args::Command;
use host::Failure;
use silo::memory::HugeAlloc;
use std::path::Path;
use std::process::ExitCode;

/// Tables of connections on huge pages, where the system has them.
#[global_allocator]
static ALLOCATOR: HugeAlloc = HugeAlloc;

fn main() -> ExitCode {
    match call(args::from_env()) {
        Ok(code) => code,
        Err(why) => {
            eprintln!("nearside: {why}");
            ExitCode::FAILURE
        }
    }
}

/// The exit status of a command that did what it was asked to.
fn call(command: Command) -> Result<ExitCode, Failure> {
    let done = |outcome: Result<(), Failure>| outcome.map(|()| ExitCode::SUCCESS);
    match command {
        Command::Serve(plan) => done(serve::serve(&plan)),
        Command::Load(plan) => load::load(*plan),
        Command::Demo(plan) => Ok(demo::run(&plan, &std::env::current_exe()?).map(|_| ExitCode::SUCCESS)?),
        Command::Lab(plan) => lab::lab(plan),
        Command::Links(plan) => done(links::links(&plan)),
        Command::Status(plan) => done(status::status(&plan)),
        Command::Numa(plan) => done(numa::numa(&plan)),
        Command::Import(plan) => done(import::import(&plan)),
        Command::Node(plan) => node::node(&plan),
        Command::Completions(shell) => {
            clap_complete::generate(shell, &mut args::definition(), "nearside", &mut std::io::stdout());
            Ok(ExitCode::SUCCESS)
        }
        Command::Man(folder) => done(manual(folder.as_deref())),
    }
}

fn manual(folder: Option<&Path>) -> Result<(), Failure> {
    match folder {
        None => clap_mangen::Man::new(args::definition()).render(&mut std::io::stdout())?,
        Some(folder) => {
            std::fs::create_dir_all(folder)?;
            clap_mangen::generate_to(args::definition(), folder)?;
        }
    }
    Ok(())
}
