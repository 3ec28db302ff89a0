//! Restarts a server under load, again and again.

use clap::Parser;
use service::server::Server;
use service::{Failure, now, restarts};
use std::path::PathBuf;
use std::process::ExitCode;

/// Restarts `nearside serve` under load, and checks every byte of every
/// response: keep-alive connections and new ones, over TCP and a Unix socket,
/// small files and one sent by sendfile. Not one request may fail.
#[derive(Parser)]
struct Arguments {
    /// How many restarts
    #[arg(long, default_value_t = 1_000, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    restarts: u32,
    /// The server [default: nearside beside this program]
    #[arg(long, value_name = "PROGRAM")]
    nearside: Option<PathBuf>,
}

/// Restarts between two lines of progress.
const EVERY: u32 = 50;

fn main() -> ExitCode {
    match run(&Arguments::parse()) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::from(2),
        Err(why) => {
            eprintln!("service: {why}");
            ExitCode::FAILURE
        }
    }
}

/// Whether no request failed.
fn run(arguments: &Arguments) -> Result<bool, Failure> {
    let program = match &arguments.nearside {
        Some(program) => program.clone(),
        None => std::env::current_exe()?.with_file_name("nearside"),
    };
    let folder = std::env::temp_dir().join(format!("nearside-service-{}", std::process::id()));
    let mut server = Server::new(&program, &folder)?;
    let mut command = server.command(&["--workers", "2"]);
    server.start(&mut command)?;
    let began = now();
    let report = restarts::run(&mut server, arguments.restarts, |report| {
        if report.restarts % EVERY == 0 {
            let seconds = began.elapsed().as_secs();
            let restarts::Report { restarts, answered, failed, .. } = report;
            println!("{restarts} restarts in {seconds} s: {answered} requests answered, {failed} failed");
        }
    })?;
    server.stop()?;
    for why in &report.why {
        println!("failed: {why}");
    }
    let restarts::Report { restarts, answered, failed, connections, .. } = report;
    println!("{restarts} restarts, {answered} requests on {connections} connections, {failed} failed");
    Ok(failed == 0)
}
