//! `nearside packet latency`: a probe beside a background, at one rate after
//! the other.

use crate::LatencyPlan;
use crate::keep::write_whole;
use crate::load::{INTERRUPTED, Kept, MISSED, kept, nanos, seed};
use crate::rig::{Bench, CALIBRATION, Clocked, Rig, Trials, Watch};
use host::stop_signals;
use link::Link;
use load::units::{seconds, si};
use packet::page::render;
use packet::table;
use packet::tester::{Pacing, Plan, Stream, fill};
use packet::trial::{LaneResult, TrialResult};
use packet::verdict::{Validity, Word, spoilt};
use say::{Failure, eprintln, print, println};
use serde_json::json;
use std::process::ExitCode;

/// Measures, prints, and keeps results and a page.
///
/// # Errors
/// What the user is to know.
pub fn latency(plan: &LatencyPlan) -> Result<ExitCode, Failure> {
    let signals = stop_signals()?;
    if let Some(folder) = &plan.out {
        std::fs::create_dir_all(folder).map_err(|why| format!("cannot make {}: {why}", folder.display()))?;
    }
    let clock = Clocked::measure(CALIBRATION);
    let bench =
        Bench { links: &plan.links, pace: &plan.pace, link_limit: plan.link_limit, clock: &clock, signals: &signals };
    let (results, stopped) = bench.measure(Rates(plan), &mut |_| {})?;
    let verdict = judge(plan, &results, stopped);
    show(plan, &clock, &results, &verdict)?;
    Ok(match verdict.word {
        _ if stopped => ExitCode::from(INTERRUPTED),
        Word::Invalid => ExitCode::from(MISSED),
        Word::Complete | Word::Partial => ExitCode::SUCCESS,
    })
}

/// A trial for each rate, as far as it goes.
struct Rates<'a>(&'a LatencyPlan);

impl Trials for Rates<'_> {
    type Found = Vec<TrialResult>;

    fn run<L: Link>(self, rig: &mut Rig<L>, watch: &Watch) -> Result<Vec<TrialResult>, String> {
        let plan = self.0;
        let mut results = Vec::new();
        for rate in &plan.rates {
            if watch.is_stopped() {
                break;
            }
            eprintln!("{} with {}", seconds(plan.duration.as_nanos() as f64), name(*rate));
            results.push(one(plan, *rate, rig, watch)?);
        }
        Ok(results)
    }
}

/// One rate: zero is none.
fn one<L: Link>(plan: &LatencyPlan, rate: f64, rig: &mut Rig<L>, watch: &Watch) -> Result<TrialResult, String> {
    let mut streams = vec![plan.probe.clone()];
    if rate > 0.0 {
        let milli = (rate * 1e3).round() as u64;
        streams.push(Stream { pacing: Pacing::Rate { milli, burst: 1 }, ..plan.background.clone() });
    }
    let seed = seed(None).map_err(|why| why.to_string())?;
    let (duration, drain) = (plan.duration, plan.drain);
    let trial = Plan { streams, duration, drain, signature: seed as u32, seed, ..Plan::default() };
    let mut result = rig.trial(trial, watch)?;
    // Nobody has taken what was recorded on the way.
    let mut recorded = Vec::new();
    watch.take(&mut recorded);
    fill(&mut result, &recorded);
    Ok(result)
}

fn name(rate: f64) -> String {
    if rate > 0.0 { format!("a background of {} each way", si(rate, "frames/s")) } else { "no background".to_owned() }
}

fn judge(plan: &LatencyPlan, results: &[TrialResult], stopped: bool) -> Validity {
    let mut verdict = Validity::default();
    if stopped || results.len() < plan.rates.len() {
        verdict.lacks("it was stopped");
    }
    for (rate, result) in plan.rates.iter().zip(results) {
        if let Some(why) = spoilt(result, plan.late_limit).filter(|_| !stopped) {
            verdict.fails(format!("with {}: {why}", name(*rate)));
        }
        let probes = result.lanes.iter().filter(|lane| lane.probe);
        if probes.clone().any(|lane| lane.latency.sound_quantile(0.999).is_none()) {
            verdict.lacks(format!("with {}: too few samples for the 99.9th percentile", name(*rate)));
        }
    }
    if plan.links.iter().any(|link| !link.driver.kind().in_memory) {
        verdict.lacks("pause frames were neither off nor counted: they turn loss into latency");
    }
    verdict.lacks("times are taken by software, and not by a NIC");
    verdict
}

/// RFC 8219 section 7.1: typical and worst-case latency, and delay variation
/// (section 7.3.1).
fn rfc8219(lane: &LaneResult) -> Option<(u64, u64, u64)> {
    let worst = lane.latency.sound_quantile(0.999)?;
    Some((lane.latency.quantile(0.5), worst, worst - lane.latency.min_ns))
}

fn show(plan: &LatencyPlan, clock: &Clocked, results: &[TrialResult], verdict: &Validity) -> Result<(), Failure> {
    let runs: Vec<(String, Kept)> = plan
        .rates
        .iter()
        .zip(results)
        .map(|(rate, result)| (name(*rate), kept(&plan.links, clock, plan.threshold, result)))
        .collect();
    if let Some(folder) = &plan.out {
        for (number, (_, run)) in runs.iter().enumerate() {
            let path = folder.join(format!("latency-{}.json", number + 1));
            write_whole(&path, &format!("{:#}\n", json!(run)))?;
        }
        let page = folder.join("latency.html");
        write_whole(&page, &render(&runs))?;
        eprintln!("wrote {}", page.display());
    }
    if plan.json {
        println!("{:#}", json!({ "clock": clock.to_json(), "runs": runs, "verdict": verdict }));
        return Ok(());
    }
    println!("{}", clock.told());
    for (name, run) in &runs {
        println!("\n== {name}");
        print!("{}", table::render(&run.result, nanos(plan.threshold)));
        for lane in run.result.lanes.iter().filter(|lane| lane.probe) {
            if let Some((typical, worst, variation)) = rfc8219(lane) {
                println!(
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
    println!("\n{verdict}");
    Ok(())
}
