//! The one binary: the command line, turned into a plan, turned into one call.

/// As the standard library's, which ends in a panic where nobody reads: for
/// every command, as `head` may be the reader of each.
macro_rules! print {
    ($($text:tt)*) => { $crate::say::out(format_args!($($text)*)) };
}

/// As [`print`], with a line's end.
macro_rules! println {
    ($($text:tt)*) => { $crate::say::out(format_args!("{}\n", format_args!($($text)*))) };
}

/// The same on standard error.
macro_rules! eprintln {
    ($($text:tt)*) => { $crate::say::note(format_args!($($text)*)) };
}

mod aggregation;
mod args;
mod figures;
mod host;
mod import;
mod lab;
mod links;
mod load;
mod man;
mod node;
mod numa;
mod say;
mod serve;
mod status;

use args::Command;
use host::Failure;
use silo::memory::HugeAlloc;
use std::io::Write;
use std::process::ExitCode;

/// Tables of connections on huge pages, where the system has them.
#[global_allocator]
static ALLOCATOR: HugeAlloc = HugeAlloc;

fn main() -> ExitCode {
    let command = args::from_env();
    // A server's last word is a line of its log.
    let serves = matches!(&command, Command::Serve(plan) if plan.serves());
    say::end(call(command), |why| if serves { say::error(why) } else { eprintln!("nearside: {why}") })
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
            // It panics where it cannot write.
            let mut script = Vec::new();
            clap_complete::generate(shell, &mut args::definition(), "nearside", &mut script);
            done(std::io::stdout().write_all(&script).map_err(Failure::from))
        }
        Command::Man(folder) => done(man::man(folder.as_deref())),
    }
}
