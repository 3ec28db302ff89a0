//! `nearside compare URL URL`: two servers, loaded by turns, and a verdict.
//!
//! Servers are started where commands are given. Both are asked once, and unlike answers are
//! refused: a server that sends less is faster, and no better. The rest is an experiment of the
//! lab: rounds of both in random order, the first one twice, and the lab's statistics.

mod answer;

use crate::lab::fresh;
use ::experiments::experiment::Experiment;
use ::experiments::results::Results;
use ::experiments::runner::{self, Outcome};
use ::experiments::{compare as statistics, table};
use answer::Target;
use demo::child::{Interrupt, Program, Running};
use demo::scratch::Scratch;
use say::{Failure, eprintln, print, println};
use stats::Verdict;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

/// Which servers, and how they are compared.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ServersPlan {
    /// What each is asked for.
    pub urls: [String; 2],
    /// What starts each; `None`: it runs.
    pub starts: [Option<String>; 2],
    /// Measured rounds.
    pub rounds: u32,
    /// Connections of the load.
    pub connections: u32,
    /// How long each run is measured.
    pub duration: Duration,
    /// More words for the load, as `nearside load` has them.
    pub load: Vec<String>,
    /// Compare although answers are unlike.
    pub force: bool,
    /// The folder for the results; `None`: a new one below `out/lab`.
    pub out: Option<PathBuf>,
    /// Print the results as JSON in place of the tables.
    pub json: bool,
}

/// The figures are not to be used, or there is no verdict: it ended early.
const INVALID: u8 = 5;

/// What it says after Ctrl-C, as shells do (128 + SIGINT).
const INTERRUPTED: u8 = 130;

/// How long a server that was started may take until it answers.
const COMING: Duration = Duration::from_secs(30);

/// Beside the load's own time, what a run may take.
const PATIENCE: u64 = 120;

/// Starts, asks, alternates, judges.
///
/// # Errors
/// If a server cannot be had, or their answers are unlike.
pub fn compare(plan: &ServersPlan) -> Result<ExitCode, Failure> {
    let targets = [Target::parse(&plan.urls[0])?, Target::parse(&plan.urls[1])?];
    let interrupt = Interrupt::watch()?;
    let scratch = Scratch::private()?;
    let mut started: Vec<Running> = Vec::new();
    for (number, (start, target)) in plan.starts.iter().zip(&targets).enumerate() {
        let Some(command) = start else { continue };
        if target.connects() {
            let url = &plan.urls[number];
            return Err(
                format!("{url}: something answers there already: what {command:?} starts would not be it").into()
            );
        }
        let name = format!("server {}", number + 1);
        let mut running =
            Program { name: &name, netns: None, core: None, words: words(command) }.start(scratch.path())?;
        running.wait_until("answer", COMING, &interrupt, || target.connects())?;
        started.push(running);
    }
    alike(plan, &targets)?;
    let experiment = Experiment::parse("compare", &text(plan, &programs::serving()?)?, &[])?;
    let folder = plan.out.clone().unwrap_or_else(|| fresh("compare"));
    let (results, outcome) = runner::run(&experiment, &folder, &interrupt)?;
    for running in &mut started {
        running.still_runs()?;
    }
    drop(started);
    if plan.json {
        print!("{}", results.to_json());
    } else {
        print!("{}", table::render(&results));
        println!("\n{}", verdict(&results));
    }
    crate::lab::write_report(&folder, &results)?;
    Ok(match outcome {
        Outcome::Interrupted => ExitCode::from(INTERRUPTED),
        Outcome::Failed(why) => return Err(format!("{why}\nwhat was measured is kept in {}", folder.display()).into()),
        Outcome::Complete if results.verdict().is_invalid() => ExitCode::from(INVALID),
        Outcome::Complete => ExitCode::SUCCESS,
    })
}

/// A command as a shell reads it; one that is plain takes the shell's place, so that it is what
/// is ended.
fn words(command: &str) -> Vec<String> {
    let plain = !command.contains(['&', '|', ';', '<', '>', '(', '`', '\n']) && !command.trim_start().contains("=");
    let command = if plain { format!("exec {command}") } else { command.to_owned() };
    ["sh", "-c", &command].map(str::to_owned).to_vec()
}

/// Both are asked once: status, content and coding must be the same.
fn alike(plan: &ServersPlan, targets: &[Target; 2]) -> Result<(), Failure> {
    if targets.iter().any(|target| !target.can_be_asked()) {
        eprintln!("note: over TLS answers are not compared beforehand; the load counts their bytes");
        return Ok(());
    }
    let [first, second] = [targets[0].ask(), targets[1].ask()];
    let named = |url: &String, why: String| Failure::from(format!("{url}: {why}"));
    let (first, second) =
        (first.map_err(|why| named(&plan.urls[0], why))?, second.map_err(|why| named(&plan.urls[1], why))?);
    let unlike = first.unlike(&second);
    if unlike.is_empty() || plan.force {
        unlike.iter().for_each(|one| eprintln!("not alike: {one}"));
        return Ok(());
    }
    Err(format!(
        "the two answer unlike, so that their figures would say nothing (--force compares them nevertheless):\n  {}",
        unlike.join("\n  ")
    )
    .into())
}

/// The experiment, as the lab reads it. JSON's strings are strings of TOML.
fn text(plan: &ServersPlan, own: &Path) -> Result<String, Failure> {
    let own = own.to_str().ok_or("this program's path is no text")?.to_owned();
    let seconds = format!("{}ms", plan.duration.as_millis());
    let builds = builds(&plan.starts);
    let arm = |number: usize, url: &String, name: String| -> Result<String, Failure> {
        let mut words = vec![own.clone(), "load".into(), url.clone(), "--json".into()];
        words.extend(["-c".to_owned(), plan.connections.to_string(), "-d".to_owned(), seconds.clone()]);
        words.extend(plan.load.clone());
        let (name, words) = (serde_json::to_string(&name)?, serde_json::to_string(&words)?);
        let build = match &builds {
            Some(builds) => format!("build = {}\n", serde_json::to_string(&[&builds[number], "-V"])?),
            None => String::new(),
        };
        Ok(format!("[[command.arms]]\nname = {name}\ncommand = {words}\n{build}"))
    };
    let [first, second] = &plan.urls;
    let other = if first == second { format!("{second} (second)") } else { second.clone() };
    let timeout = plan.duration.as_secs() + PATIENCE;
    let title = serde_json::to_string(&format!("{first} and {other}"))?;
    let figure = |name: &str, pointer: &str, unit: &str, better: &str| {
        format!("{{ name = \"{name}\", pointer = \"{pointer}\", unit = \"{unit}\", better = \"{better}\" }}")
    };
    let figures = [
        figure("rate", "/throughput/requests_per_second", "requests/s", "higher"),
        figure("latency 50 %", "/latency/p50_ns", "ns", "lower"),
        figure("latency 99 %", "/latency/p99_ns", "ns", "lower"),
    ];
    Ok(format!(
        "schema = 1\nname = \"compare\"\ntitle = {title}\nrounds = {}\n[command]\n\
         timeout-seconds = {timeout}\nfigures = [{}]\n{}{}",
        plan.rounds,
        figures.join(", "),
        arm(0, first, first.clone())?,
        arm(1, second, other)?
    ))
}

/// The programs that are started, where both are nginx, and two of them: each tells by -V how it was built.
/// One with two configurations has one build.
fn builds(starts: &[Option<String>; 2]) -> Option<[String; 2]> {
    let program = |start: &Option<String>| {
        let mut words = start.as_deref()?.split_ascii_whitespace();
        words.find(|word| word.rsplit('/').next() == Some("nginx")).map(str::to_owned)
    };
    let (first, second) = (program(&starts[0])?, program(&starts[1])?);
    (first != second).then_some([first, second])
}

/// In a sentence: which is faster, or why nobody can tell.
fn verdict(results: &Results) -> String {
    let own = results.verdict();
    if own.is_invalid() {
        let why = own.reasons.iter().find(|why| why.contains("INVALID")).cloned().unwrap_or_default();
        return format!("no verdict: figures are not to be used by their own word ({why})");
    }
    if !results.complete {
        return "no verdict: it ended early".to_owned();
    }
    let found = statistics::within(results);
    let Some(rate) = found.iter().find(|one| one.figure.name == "rate" && one.verdict.is_some()) else {
        return "no verdict: nothing was measured on both sides".to_owned();
    };
    let (first, second) = (&rate.baseline, &rate.arm);
    let interval = rate.effect.and_then(|effect| effect.interval);
    let ratio = match (rate.effect, interval) {
        (Some(effect), Some((low, high))) => {
            format!("{:.3} times the requests ({low:.3} to {high:.3}, 95 %)", effect.ratio)
        }
        (Some(effect), None) => format!("{:.3} times the requests", effect.ratio),
        _ => "no ratio".to_owned(),
    };
    match rate.verdict {
        Some(Verdict::Faster) => format!("verdict: {second} is faster than {first}: {ratio}"),
        Some(Verdict::Slower) => format!("verdict: {second} is slower than {first}: {ratio}"),
        Some(Verdict::Equivalent) => format!("verdict: the two are equivalent: {ratio}"),
        Some(other) => format!("no verdict: {other}; {ratio}"),
        None => "no verdict".to_owned(),
    }
}

#[cfg(test)]
mod tests;
