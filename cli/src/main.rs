//! The one binary: the command line, turned into a plan, turned into one call.

mod args;
mod figures;
mod host;
mod load;
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
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("nearside: {why}");
            ExitCode::FAILURE
        }
    }
}

fn call(command: Command) -> Result<(), Failure> {
    match command {
        Command::Serve(plan) => serve::serve(plan),
        Command::Load(plan) => load::load(plan),
        Command::Demo(plan) => Ok(demo::run(&plan, &std::env::current_exe()?).map(|_| ())?),
        Command::Status(plan) => status::status(&plan),
        Command::Completions(shell) => {
            clap_complete::generate(shell, &mut args::definition(), "nearside", &mut std::io::stdout());
            Ok(())
        }
        Command::Man(folder) => manual(folder.as_deref()),
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
