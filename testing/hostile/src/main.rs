//! Noise at the highest rate for a while, beside a client that must be served.

use clap::Parser;
use core::time::Duration;
use hostile::soak::Soak;
use std::process::ExitCode;
use std::time::Instant;

/// Sends bad frames to the server as fast as it takes them, and checks that a
/// well-behaved client is served all the while.
#[derive(Parser)]
struct Arguments {
    /// How long, in seconds.
    #[arg(long, default_value_t = 60)]
    seconds: u64,
    /// Where all randomness comes from.
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

/// Turns between two looks at the clock.
const TURNS: u64 = 1_000;

#[expect(
    clippy::disallowed_methods,
    reason = "the rate is measured by the real clock; nothing that is tested reads it"
)]
fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let mut soak = Soak::new(arguments.seed, u64::MAX);
    let started = Instant::now();
    let limit = Duration::from_secs(arguments.seconds);
    while started.elapsed() < limit {
        soak.turns(TURNS);
        let violations = soak.violations();
        if !violations.is_empty() {
            eprintln!("seed {}: {}", arguments.seed, violations.join("\n"));
            return ExitCode::FAILURE;
        }
    }
    let took = started.elapsed().as_secs_f64();
    let traffic = soak.arena.traffic;
    println!("seed {}: {:.0} bad frames a second for {took:.1} s:", arguments.seed, traffic.injected as f64 / took);
    print!("{}", soak.report());
    let served = soak.served();
    let sent = soak.arena.client.as_ref().map_or(0, |client| client.app.load.held());
    println!("client: {served} responses right to the last byte, {sent} connections open");
    soak.end();
    println!("afterwards: nothing is left");
    if served == 0 { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}
