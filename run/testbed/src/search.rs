//! `nearside packet search`: trials by trials, until the bounds are near.

use crate::SearchPlan;
use crate::keep::write_whole;
use crate::load::{INTERRUPTED, MISSED, replay, seed};
use crate::rig::{Bench, CALIBRATION, Clocked, Rig, Trials, Watch};
use host::stop_signals;
use link::Link;
use load::units::{share, si};
use packet::search::{Found, Outcome, Search, TrialInput};
use packet::tester::{Pacing, Plan, Stream};
use packet::trial::{LaneResult, TrialResult};
use packet::verdict::{Validity, Word, spoilt};
use say::{Failure, eprintln, println};
use serde_json::{Value, json};
use std::process::ExitCode;
use std::thread;
use std::time::Duration;

/// How long the highest rate is measured.
const HIGHEST: Duration = Duration::from_secs(1);

/// Searches, and prints what was found.
///
/// # Errors
/// What the user is to know.
pub fn search(plan: &SearchPlan) -> Result<ExitCode, Failure> {
    let signals = stop_signals()?;
    let clock = Clocked::measure(CALIBRATION);
    let bench =
        Bench { links: &plan.links, pace: &plan.pace, link_limit: plan.link_limit, clock: &clock, signals: &signals };
    let (done, _) = bench.measure(Rounds(plan), &mut |_| {})?;
    let verdict = judge(plan, &done);
    let value = to_json(plan, &clock, &done, &verdict);
    if let Some(path) = &plan.out {
        write_whole(path, &format!("{value:#}\n"))?;
    }
    if plan.json {
        println!("{value:#}");
    } else {
        println!("{}", clock.told());
        println!("highest rate sent: {}; received: {}", si(done.highest.0, "/s"), si(done.highest.1, "/s"));
        for found in &done.found {
            println!("{}", told(found));
        }
        println!("{} trials; {verdict}", done.log.len());
    }
    Ok(match verdict.word {
        _ if done.stopped => ExitCode::from(INTERRUPTED),
        Word::Invalid => ExitCode::from(MISSED),
        Word::Complete | Word::Partial => ExitCode::SUCCESS,
    })
}

/// What came of a search.
struct Done {
    /// Frames per second sent, and received, at the highest rate.
    highest: (f64, f64),
    found: Vec<Found>,
    log: Vec<Value>,
    stopped: bool,
}

/// Trials until the bounds are near.
struct Rounds<'a>(&'a SearchPlan);

impl Trials for Rounds<'_> {
    type Found = Done;

    fn run<L: Link>(self, rig: &mut Rig<L>, watch: &Watch) -> Result<Done, String> {
        rounds(self.0, rig, watch)
    }
}

/// The trials.
fn rounds<L: Link>(plan: &SearchPlan, rig: &mut Rig<L>, watch: &Watch) -> Result<Done, String> {
    let mut number = 0;
    let mut trial = |pacing: Pacing, duration: Duration| {
        number += 1;
        // A trial's stragglers are not the next one's frames.
        let signature = seed(None).map_err(|why| why.to_string())? as u32;
        let streams = vec![Stream { pacing, ..plan.stream.clone() }];
        let result = rig.trial(Plan { streams, duration, drain: plan.drain, signature, ..Plan::default() }, watch)?;
        if !plan.settle.is_zero() && !watch.is_stopped() {
            thread::sleep(plan.settle);
        }
        Ok::<TrialResult, String>(result)
    };
    let first = trial(Pacing::Max, HIGHEST)?;
    let lanes = first.lanes.len().max(1) as f64;
    let sum = |of: fn(&LaneResult) -> f64| first.lanes.iter().map(of).sum::<f64>() / lanes;
    let received = |lane: &LaneResult| lane.arrivals.unique as f64;
    let highest = (sum(|lane| lane.rate), sum(received) / first.seconds.max(1e-9));
    let max = plan.max_rate.unwrap_or(highest.0).max(plan.min_rate * 2.0);
    let mut search = Search::new(plan.goals.clone(), plan.min_rate, max, plan.trials);
    let mut log = Vec::new();
    while !watch.is_stopped() {
        let Some(ask) = search.poll_trial() else { break };
        let milli = (ask.load * 1e3).round().max(1.0) as u64;
        let result = trial(Pacing::Rate { milli, burst: 1 }, Duration::from_secs_f64(ask.duration))?;
        if watch.is_stopped() {
            break;
        }
        let why = spoilt(&result, plan.late_limit);
        // The worst direction counts.
        let loss_ratio = result.lanes.iter().map(LaneResult::loss_ratio).fold(0.0, f64::max);
        search.on_trial(Outcome { load: ask.load, duration: ask.duration, loss_ratio, valid: why.is_none() });
        eprintln!("{}", line(log.len() + 1, ask, &result, why.as_deref()));
        log.push(entry(ask, &result, why.as_deref()));
    }
    Ok(Done { highest, found: search.found(), log, stopped: watch.is_stopped() })
}

fn line(number: usize, ask: TrialInput, result: &TrialResult, why: Option<&str>) -> String {
    let achieved = result.lanes.iter().map(|lane| lane.rate).fold(f64::INFINITY, f64::min);
    format!(
        "trial {number}: {:.0} s at {} (sent at {}), lost {} of {} ({}){}",
        ask.duration,
        si(ask.load, "/s"),
        si(achieved, "/s"),
        result.lost(),
        result.offered(),
        share(result.loss_ratio()),
        why.map_or_else(String::new, |why| format!(": does not count, {why}"))
    )
}

/// A trial for the log: asked for, and done.
fn entry(ask: TrialInput, result: &TrialResult, why: Option<&str>) -> Value {
    let lanes = result.lanes.iter().map(|lane| {
        json!({
            "way": packet::table::way(lane),
            "rate": lane.rate,
            "offered": lane.offered(), "sent": lane.sent.frames, "received": lane.received,
            "lost": lane.lost(), "entrance": lane.sent.entrance, "loss_events": lane.losses.events,
            "duplicates": lane.arrivals.duplicates, "reordered": lane.arrivals.reordered, "damaged": lane.damaged,
            "late": lane.sent.late, "missed": lane.sent.missed,
        })
    });
    json!({
        "intended_rate": ask.load,
        "intended_seconds": ask.duration,
        "seconds": result.seconds,
        "lanes": lanes.collect::<Vec<_>>(),
        "stalls": result.stalls,
        "late_share": result.late_share(),
        "spoilt": why,
    })
}

fn told(found: &Found) -> String {
    let rate = |rate: Option<f64>| rate.map_or_else(|| "-".to_owned(), |rate| si(rate, "/s"));
    format!(
        "{}: {} passes, {} fails; conditional throughput {} (loss {}, in {} of the time at most; bounds within {})",
        found.goal.name,
        rate(found.lower),
        rate(found.upper),
        rate(found.conditional_throughput),
        share(found.goal.loss_ratio),
        share(found.goal.exceed_ratio),
        share(found.goal.width)
    )
}

fn judge(plan: &SearchPlan, done: &Done) -> Validity {
    let mut verdict = Validity::default();
    verdict.judge_found(&done.found);
    if done.stopped {
        verdict.lacks("it was stopped");
    }
    // Shared memory has none; of a NIC they are not read.
    if plan.links.iter().any(|link| !link.driver.kind().in_memory) {
        verdict.lacks("pause frames were neither off nor counted: they turn loss into latency");
    }
    for goal in plan.goals.iter().filter(|goal| goal.name == "rfc2544" || goal.name == "tst009") {
        let name = &goal.name;
        if goal.final_duration < 60.0 {
            verdict
                .lacks(format!("{name}: trials of {} s, and not of 60 s (RFC 2544 section 24)", goal.final_duration));
        }
        if plan.drain < Duration::from_secs(2) || plan.settle < Duration::from_secs(5) {
            verdict.lacks(format!("{name}: less than 2 s for stragglers and 5 s to settle (RFC 2544 section 23)"));
        }
        let sizes = &plan.stream.shape.sizes;
        verdict.lacks(format!("{name}: sizes {sizes:?} only, of the seven of RFC 2544 section 9.1"));
        verdict.lacks(format!("{name}: without filters and with one network (RFC 2544 sections 11 and 12)"));
    }
    verdict
}

fn to_json(plan: &SearchPlan, clock: &Clocked, done: &Done, verdict: &Validity) -> Value {
    json!({
        "command": replay(),
        "clock": clock.to_json(),
        "links": plan.links.iter().map(host::drivers::LinkSpec::name).collect::<Vec<_>>(),
        "stream": plan.stream.shape,
        "highest_sent": done.highest.0,
        "highest_received": done.highest.1,
        "found": done.found,
        "trials": done.log,
        "late_limit": plan.late_limit,
        "verdict": verdict,
    })
}
