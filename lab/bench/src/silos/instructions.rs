//! The server's process under callgrind: user-space instructions of a request,
//! by what more of them cost, so that what a server does once falls out.

use super::stand::{Place, Stand, check};
use crate::BenchError;
use crate::page::Page;
use core::time::Duration;
use demo::scratch::Scratch;
use serde::Serialize;
use std::fs;

/// What was counted.
#[derive(Clone, Copy, Debug, Serialize)]
pub(super) struct Counted {
    /// Instructions of a request.
    pub(super) each: f64,
    /// Requests that were counted.
    pub(super) requests: u64,
    /// Turns without anything to do, of a request.
    pub(super) idle_turns: f64,
    /// Requests of a turn with something to do.
    pub(super) requests_per_turn: f64,
}

/// One process, from start to end.
#[derive(Clone, Copy, Debug)]
struct Run {
    instructions: u64,
    requests: u64,
    turns: u64,
    busy_turns: u64,
}

/// The longer of two runs has so many times the requests of the shorter one.
const LONGER: u64 = 4;

/// A turn that finds nothing costs instructions as well: under callgrind,
/// where a request takes fifty times as long, there are few where a silo
/// sleeps this long after each.
const IDLE: &str = "--idle=sleep:1ms";

/// What a silo does once in a millisecond beside its turns, such as telling
/// what it counts, is as good as nothing by request, but not where requests
/// take fifty times as long. The first switches counting off from the start.
const NOT_COUNTED: [&str; 2] = ["--toggle-collect=*Attendant*attend*", "--collect-atstart=yes"];

/// The longest that a run may take.
const PATIENCE: Duration = Duration::from_secs(120);

/// Counts `requests` requests with one and with two.
///
/// # Errors
/// If the server does not run under callgrind.
pub(super) fn count(stand: &Stand<'_>, requests: u64) -> Result<[Counted; 2], BenchError> {
    let one = slope(stand, Place::Apart, requests)?;
    let two = slope(stand, Place::Both, requests)?;
    Ok([one, two])
}

fn slope(stand: &Stand<'_>, place: Place, requests: u64) -> Result<Counted, BenchError> {
    let short = run(stand, place, requests.div_ceil(LONGER - 1))?;
    let long = run(stand, place, requests.div_ceil(LONGER - 1) * LONGER)?;
    let grown = |of: fn(&Run) -> u64| of(&long).saturating_sub(of(&short)) as f64;
    let answered = grown(|run| run.requests);
    if answered < requests as f64 / 2.0 {
        return Err("the server answered too few requests under callgrind".into());
    }
    let counted = Counted {
        each: grown(|run| run.instructions) / answered,
        requests: answered as u64,
        idle_turns: grown(|run| run.turns - run.busy_turns) / answered,
        requests_per_turn: answered / grown(|run| run.busy_turns).max(1.0),
    };
    eprintln!(
        "{}: {:.1} instructions per request, {:.1} requests and {:.2} idle turns per turn",
        place.title(),
        counted.each,
        counted.requests_per_turn,
        counted.idle_turns * counted.requests_per_turn
    );
    Ok(counted)
}

fn run(stand: &Stand<'_>, place: Place, requests: u64) -> Result<Run, BenchError> {
    let scratch = Scratch::private()?;
    let out = scratch.path().join("callgrind");
    let this = std::env::current_exe()?.display().to_string();
    let mut callgrind = vec![this, "valgrind".to_owned(), "--".to_owned(), "--tool=callgrind".to_owned()];
    callgrind.push(format!("--callgrind-out-file={}", out.display()));
    callgrind.extend(NOT_COUNTED.map(str::to_owned));
    let (mut server, page) = stand.serve(place, IDLE, &callgrind)?;
    let mut client = stand.ask(place, &[format!("--requests={requests}"), "--warmup=0s".to_owned()])?;
    check(&client.finish(PATIENCE, stand.interrupt)?)?;
    server.still_runs()?;
    let (requests, turns, busy_turns) = told(&page)?;
    // It writes what it counted when the server ends.
    demo::child::call(&["kill", "-TERM", &server.pid().to_string()])?;
    server.finish(PATIENCE, stand.interrupt)?;
    let text = fs::read_to_string(&out).map_err(|why| format!("callgrind wrote nothing: {why}"))?;
    Ok(Run { instructions: total(&text).ok_or("callgrind wrote no totals")?, requests, turns, busy_turns })
}

/// Requests and turns, as the server publishes them.
fn told(page: &Page) -> Result<(u64, u64, u64), BenchError> {
    // Published a hundred times a second; nothing more comes.
    std::thread::sleep(5 * ::page::PUBLISH_INTERVAL);
    let values = page.read()?;
    Ok((values.sum("app.requests")?, values.sum("silo.turns")?, values.sum("silo.busy_turns")?))
}

/// All that was executed ("Callgrind Format Specification" in valgrind's
/// manual: totals, of a file with the one event Ir).
fn total(text: &str) -> Option<u64> {
    text.lines().find_map(|line| line.strip_prefix("totals:"))?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn totals_are_read() {
        assert_eq!(total("events: Ir\nfn=f\n1 2\ntotals: 123456\n"), Some(123_456));
        assert_eq!(total("events: Ir\n"), None);
    }
}
