//! The one binary: the command line, turned into a plan, turned into one call.

mod args;
mod man;

use args::Command;
use say::{Failure, eprintln};
use silo::memory::HugeAlloc;
use std::io::Write;
use std::process::ExitCode;
use wiping::WipingAlloc;

/// Tables of connections on huge pages, where the system has them; what handshakes give back is overwritten.
#[global_allocator]
static ALLOCATOR: WipingAlloc<HugeAlloc> = WipingAlloc(HugeAlloc);

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
        Command::Serve(plan) => serve::serve(&plan),
        Command::Site(plan) => nginx_command::site(&plan, args::site_again),
        Command::Nginx(plan) => nginx_command::nginx(&plan, args::nginx_again),
        Command::Load(plan) => generator::load(*plan),
        Command::Demo(plan) => Ok(demo::run(&plan, &std::env::current_exe()?).map(|_| ExitCode::SUCCESS)?),
        Command::Compare(plan) => console::compare(&plan),
        Command::Lab(plan) => console::lab(plan),
        Command::Packet(plan) => testbed::packet(plan),
        Command::Links(plan) => done(links::links(plan.json)),
        Command::Status(plan) => done(console::status(&plan)),
        Command::Watch(plan) => console::watch(&plan),
        Command::Numa(plan) => done(console::numa(&plan)),
        Command::Import(plan) => done(console::import(&plan)),
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
