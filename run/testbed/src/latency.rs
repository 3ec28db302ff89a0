//! `nearside packet latency`: a probe beside a background, at one rate after
//! the other.

use crate::LatencyPlan;
use crate::clocks::Timed;
use crate::load::{INTERRUPTED, Kept, MISSED, kept, made, nanos, replay, seed, surroundings};
use crate::pages::keep_page;
use crate::pause::PauseWatch;
use crate::rig::{Bench, Clocked, Rig, Trials, Watch};
use core::fmt::Write;
use cpu::Clock;
use environment::{Fingerprint, ResultKind, SCHEMA};
use figures::{seconds, si};
use host::stop_signals;
use link::Link;
use packet::pause::PauseFrames;
use packet::table;
use packet::tester::{Pacing, Plan, Recorders, Stream, fill};
use packet::trial::{LaneResult, TrialResult};
use packet::verdict::{NOTHING, Validity, Word, faults, worth};
use say::{Failure, eprintln, println};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::atomic::AtomicUsize;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;
use wire::Time;

/// Measures, prints, and keeps results and a page.
///
/// # Errors
/// What the user is to know.
pub fn latency(plan: &LatencyPlan) -> Result<ExitCode, Failure> {
    let signals = stop_signals()?;
    if let Some(folder) = &plan.out {
        std::fs::create_dir_all(folder).map_err(|why| format!("cannot make {}: {why}", folder.display()))?;
    }
    let told = measured(plan, &signals)?;
    if plan.json {
        println!("{:#}", told.value);
    } else {
        println!("{}\n{}", told.text, told.verdict);
    }
    // Shown before it is complained of: a full disk does not take results away.
    if let Some(why) = told.unkept {
        return Err(why.into());
    }
    Ok(match told.verdict.word {
        _ if told.stopped => ExitCode::from(INTERRUPTED),
        Word::Invalid => ExitCode::from(MISSED),
        Word::Complete | Word::Partial => ExitCode::SUCCESS,
    })
}

/// The page of a folder of results.
pub const PAGE: &str = "latency.html";

/// What came of it.
pub struct LatencyTold {
    /// For programs.
    pub value: Value,
    /// For people, without the verdict.
    pub text: String,
    /// What it is worth.
    pub verdict: Validity,
    /// It was told to end.
    pub stopped: bool,
    /// Frames lost beside the last background; `None`: it did not come to its end, and what is
    /// missing may be what ended it.
    pub lost: Option<u64>,
    /// Why results are not in their files.
    pub unkept: Option<String>,
}

/// Measures, keeps results and a page, and tells what came of it.
///
/// # Errors
/// What the user is to know.
pub fn measured(plan: &LatencyPlan, signals: &AtomicUsize) -> Result<LatencyTold, Failure> {
    let mut plan = plan.clone();
    let clock = Clocked::choose(plan.clock, &mut plan.links, Timed::Probes(core::slice::from_mut(&mut plan.probe)))?;
    let plan = &plan;
    let bench = Bench { links: &plan.links, pace: &plan.pace, link_limit: plan.link_limit, clock: &clock, signals };
    let pause = PauseWatch::begin(&plan.links);
    let progress = Mutex::new(Progress::default());
    let environment = surroundings(&plan.links);
    let mut keeper = Keeper {
        plan,
        clock: &clock,
        environment: &environment,
        progress: &progress,
        written_at: Clock.now(),
        complained: false,
    };
    let (results, stopped) = bench.measure(Rates { plan, progress: &progress }, &mut |watch| keeper.look(watch))?;
    let pause = pause.end();
    let verdict = judge(plan, &results, (stopped, &pause, clock.is_hardware()));
    let runs: Vec<(String, Kept)> = plan
        .rates
        .iter()
        .zip(&results)
        .map(|(rate, result)| (name(*rate), kept(&plan.links, &clock, plan.threshold, (plan.late_limit, result))))
        .collect();
    let value = json!({
        "kind": ResultKind::PacketLatency, "schema": SCHEMA, "command": replay(), "made": made(),
        "environment": environment, "clock": clock.to_json(), "pause_frames": pause, "runs": runs,
        "told": [pause.told()], "verdict": verdict,
    });
    let unkept = keep(plan, &environment, &runs, &value).err().map(|why| why.to_string());
    let text = format!("{}\n{}\n{}", clock.told(), pause.told(), text(plan, &runs));
    let last = results.last().filter(|last| last.complete && results.len() == plan.rates.len());
    let lost = last.map(TrialResult::lost);
    Ok(LatencyTold { value, text, verdict, stopped, lost, unkept })
}

/// The trial that is under way: which, and what was recorded of it.
#[derive(Default)]
struct Progress {
    number: usize,
    recorded: Vec<Recorders>,
}

/// Keeps what was measured so far in a file: whole at any moment, whenever the
/// process ends.
struct Keeper<'a> {
    plan: &'a LatencyPlan,
    clock: &'a Clocked,
    environment: &'a Fingerprint,
    progress: &'a Mutex<Progress>,
    written_at: Time,
    complained: bool,
}

impl Keeper<'_> {
    fn look(&mut self, watch: &Watch) {
        let Some(folder) = &self.plan.out else { return };
        let now = Clock.now();
        let mut progress = self.progress.lock().unwrap_or_else(PoisonError::into_inner);
        // Each time, so that counts are never older than this look.
        let Some(mut result) = watch.take(&mut progress.recorded) else { return };
        if now.since(self.written_at) < self.plan.checkpoint {
            return;
        }
        fill(&mut result, &progress.recorded);
        let number = progress.number;
        drop(progress);
        self.written_at = now;
        let run = kept(&self.plan.links, self.clock, self.plan.threshold, (self.plan.late_limit, &result));
        let name = self.plan.rates.get(number).copied().map(name).unwrap_or_default();
        let written =
            results::write_whole(&place(folder, number), &told(self.environment, &name, &run, self.plan.late_limit));
        // A disk that is full does not end a run of hours.
        if let Err(why) = written
            && !core::mem::replace(&mut self.complained, true)
        {
            eprintln!("nearside: the checkpoint was not written, and is tried again: {why}");
        }
    }
}

/// A result with what it belongs to, as it is kept: its background, so that those of one folder are
/// not taken for the same run again, and what it is worth by itself.
fn told(environment: &Fingerprint, name: &str, run: &Kept, late_limit: f64) -> String {
    let mut value = json!(run);
    value["beside"] = json!(name);
    value["verdict"] = json!(worth(&run.result, late_limit));
    value["kind"] = json!(ResultKind::PacketLoad);
    value["made"] = json!(made());
    value["schema"] = json!(SCHEMA);
    value["environment"] = json!(environment);
    format!("{value:#}\n")
}

/// Where the results of a rate are, from 0 on.
fn place(folder: &Path, number: usize) -> PathBuf {
    folder.join(format!("latency-{}.json", number + 1))
}

/// A trial for each rate, as far as it goes.
struct Rates<'a> {
    plan: &'a LatencyPlan,
    progress: &'a Mutex<Progress>,
}

impl Trials for Rates<'_> {
    type Found = Vec<TrialResult>;

    fn run<L: Link>(self, rig: &mut Rig<L>, watch: &Watch) -> Result<Vec<TrialResult>, String> {
        let plan = self.plan;
        let mut results = Vec::new();
        for (number, rate) in plan.rates.iter().enumerate() {
            if watch.is_stopped() {
                break;
            }
            let duration = plan.durations.get(number).copied().unwrap_or(plan.duration);
            eprintln!("{} with {}", seconds(duration.as_nanos() as f64), name(*rate));
            let mut result = one(plan, (*rate, duration), rig, watch)?;
            let mut progress = self.progress.lock().unwrap_or_else(PoisonError::into_inner);
            // What nobody has taken on the way.
            watch.take(&mut progress.recorded);
            fill(&mut result, &progress.recorded);
            *progress = Progress { number: number + 1, recorded: Vec::new() };
            results.push(result);
        }
        Ok(results)
    }
}

/// One rate: zero is none.
fn one<L: Link>(
    plan: &LatencyPlan,
    (rate, duration): (f64, Duration),
    rig: &mut Rig<L>,
    watch: &Watch,
) -> Result<TrialResult, String> {
    let mut streams = vec![plan.probe.clone()];
    if rate > 0.0 {
        let milli = (rate * 1e3).round() as u64;
        streams.push(Stream { pacing: Pacing::Rate { milli, burst: 1 }, ..plan.background.clone() });
    }
    let seed = seed(None).map_err(|why| why.to_string())?;
    let drain = plan.drain;
    rig.trial(Plan { streams, duration, drain, signature: seed as u32, seed, ..Plan::default() }, watch)
}

fn name(rate: f64) -> String {
    if rate > 0.0 { format!("a background of {} each way", si(rate, "frames/s")) } else { "no background".to_owned() }
}

fn judge(
    plan: &LatencyPlan,
    results: &[TrialResult],
    (stopped, pause, hardware): (bool, &PauseFrames, bool),
) -> Validity {
    let mut verdict = Validity::default();
    if stopped || results.len() < plan.rates.len() {
        verdict.lacks("it was stopped");
    }
    if results.iter().all(|result| result.offered() == 0) {
        verdict.fails(NOTHING);
    }
    for (rate, result) in plan.rates.iter().zip(results) {
        if !result.complete && !stopped {
            verdict.fails(format!("with {}: a link was down", name(*rate)));
        }
        // That it was stopped does not hide what went wrong until then.
        for why in faults(result, plan.late_limit) {
            verdict.fails(format!("with {}: {why}", name(*rate)));
        }
        let probes = result.lanes.iter().filter(|lane| lane.probe);
        if probes.clone().any(|lane| lane.latency.sound_quantile(0.999).is_none()) {
            verdict.lacks(format!("with {}: too few samples for the 99.9th percentile", name(*rate)));
        }
    }
    pause.judge(results.iter().any(|result| result.lost() == 0), &mut verdict);
    if !hardware {
        verdict.lacks("times are taken by software, and not by a NIC");
    }
    verdict
}

/// RFC 8219 section 7.1: typical and worst-case latency, and delay variation
/// (section 7.3.1).
fn rfc8219(lane: &LaneResult) -> Option<(u64, u64, u64)> {
    let worst = lane.latency.sound_quantile(0.999)?;
    Some((lane.latency.quantile(0.5), worst, worst - lane.latency.min_ns))
}

/// Results of each rate in files, and a page of them all.
fn keep(plan: &LatencyPlan, environment: &Fingerprint, runs: &[(String, Kept)], value: &Value) -> Result<(), Failure> {
    keep_page(plan.html.as_deref(), value)?;
    let Some(folder) = &plan.out else { return Ok(()) };
    for (number, (name, run)) in runs.iter().enumerate() {
        results::write_whole(&place(folder, number), &told(environment, name, run, plan.late_limit))?;
    }
    keep_page(Some(&folder.join(PAGE)), value)
}

fn text(plan: &LatencyPlan, runs: &[(String, Kept)]) -> String {
    let mut out = String::new();
    for (name, run) in runs {
        let _ = write!(out, "\n== {name}\n{}", table::render(&run.result, nanos(plan.threshold)));
        for lane in run.result.lanes.iter().filter(|lane| lane.probe) {
            if let Some((typical, worst, variation)) = rfc8219(lane) {
                let _ = writeln!(
                    out,
                    "{} {}: typical latency {}, worst case {}, delay variation {} (RFC 8219)",
                    lane.stream,
                    table::way(lane),
                    seconds(typical as f64),
                    seconds(worst as f64),
                    seconds(variation as f64)
                );
            }
        }
    }
    out
}
