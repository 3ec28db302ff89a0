//! The program that serves: its commands, turned into a plan, turned into one call.
//! For any other command it becomes the second program.

use cli::args::{self, Command};
use say::{Failure, eprintln};
use silo::memory::HugeAlloc;
use std::os::unix::process::CommandExt;
use std::process::ExitCode;
use wiping::WipingAlloc;

/// Tables of connections on huge pages, where the system has them; what handshakes give back is overwritten.
#[global_allocator]
static ALLOCATOR: WipingAlloc<HugeAlloc> = WipingAlloc(HugeAlloc);

fn main() -> ExitCode {
    if !args::is_of_serving() {
        return other();
    }
    let command = args::serving_from_env();
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
        Command::Run(plan) => {
            let terms = &plan.terms;
            host::own::check_link(&terms.link, terms.addresses.iter().map(|own| own.address))?;
            keeper::run(&plan)
        }
        Command::Links(plan) => done(links::links(plan.json)),
        // There is a view for a screen.
        Command::Status(plan) if plan.has_screen() => Ok(other()),
        Command::Status(plan) => done(status::status(&plan)),
        Command::Import(plan) => done(import::import(&plan)),
        _ => Ok(other()),
    }
}

/// Becomes the second program, with the same words; what is to be said where there is none.
fn other() -> ExitCode {
    let why = match programs::tools() {
        Ok(program) => {
            let mut words = std::env::args_os();
            let name = words.next().unwrap_or_else(|| programs::SERVING.into());
            std::process::Command::new(program).arg0(name).args(words).exec()
        }
        Err(why) => why,
    };
    args::without_tools(&why)
}
