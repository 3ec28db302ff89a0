//! The program that measures, tunes and tests: its commands, turned into a plan,
//! turned into one call. Those that serve it leaves to the first program.

use cli::args::{self, Command};
use cli::man;
use say::{Failure, eprintln};
use silo::memory::HugeAlloc;
use std::io::Write;
use std::os::unix::process::CommandExt;
use std::process::ExitCode;
use wiping::WipingAlloc;

/// Tables of connections on huge pages, where the system has them; what handshakes give back is overwritten.
#[global_allocator]
static ALLOCATOR: WipingAlloc<HugeAlloc> = WipingAlloc(HugeAlloc);

fn main() -> ExitCode {
    say::end(call(args::from_env()), |why| eprintln!("nearside: {why}"))
}

/// The exit status of a command that did what it was asked to.
fn call(command: Command) -> Result<ExitCode, Failure> {
    let done = |outcome: Result<(), Failure>| outcome.map(|()| ExitCode::SUCCESS);
    match command {
        Command::Serve(_)
        | Command::Site(_)
        | Command::Nginx(_)
        | Command::Run(_)
        | Command::Links(_)
        | Command::Import(_) => {
            let program = programs::serving()?;
            let why = std::process::Command::new(&program).args(std::env::args_os().skip(1)).exec();
            Err(format!("{}: {why}", program.display()).into())
        }
        Command::Cluster => {
            let program = programs::cluster()?;
            let why = std::process::Command::new(&program).args(std::env::args_os().skip(2)).exec();
            Err(format!("{}: {why}", program.display()).into())
        }
        Command::Load(plan) => generator::load(*plan),
        Command::Demo(plan) => Ok(demo::run(&plan, &programs::serving()?).map(|_| ExitCode::SUCCESS)?),
        Command::Compare(plan) => console::compare(&plan),
        Command::Lab(plan) => console::lab(plan),
        Command::Packet(plan) => testbed::packet(plan),
        Command::Status(plan) => done(console::status(&plan)),
        Command::Watch(plan) => console::watch(&plan),
        Command::Numa(plan) => done(console::numa(&plan)),
        Command::Node(plan) => console::node(&plan),
        Command::Completions(shell) => {
            // It panics where it cannot write.
            let mut script = Vec::new();
            clap_complete::generate(shell, &mut args::definition(), "nearside", &mut script);
            done(std::io::stdout().write_all(&script).map_err(Failure::from))
        }
        Command::Man(folder) => done(man::man(folder.as_deref())),
    }
}
