//! `nearside packet rfc2544`: the whole method, trial by trial.

use crate::MethodPlan;
use crate::clocks::Timed;
use crate::commands;
use crate::load::{INTERRUPTED, MISSED, begun, made, replay, seed, surroundings};
use crate::look::Before;
use crate::pages::keep_page;
use crate::pause::PauseWatch;
use crate::rig::{Bench, Clocked, Rig, Trials, Watch};
use demo::child::Interrupt;
use demo::scratch::Scratch;
use environment::{ResultKind, SCHEMA};
use host::stop_signals;
use link::Link;
use packet::log::TrialLog;
use packet::rfc2544::{AskedTrial, Condition, Method, Test, render, verdict};
use packet::tester::{Pacing, Plan, Stream, fill};
use packet::trial::TrialResult;
use packet::verdict::Word;
use say::{Failure, eprintln, print, println};
use serde_json::{Value, json};
use std::process::ExitCode;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

/// Learning frames before each trial (RFC 2544 section 23), in each direction:
/// so many, at thousands of a frame per second.
const LEARNING: Duration = Duration::from_millis(20);
const LEARNING_MILLI: u64 = 1_000_000;

/// Follows the method, and prints what was found.
///
/// # Errors
/// What the user is to know.
pub fn rfc2544(plan: &MethodPlan) -> Result<ExitCode, Failure> {
    let signals = stop_signals()?;
    if let Some(path) = &plan.out {
        results::write_whole(path, &format!("{:#}\n", begun(ResultKind::Rfc2544)))?;
    }
    let mut links = plan.links.clone();
    let has_latency = plan.settings.tests.contains(&Test::Latency);
    let clock = Clocked::choose(plan.clock, &mut links, Timed::Tagged(has_latency))?;
    let bench =
        Bench { links: &links, pace: &plan.pace, link_limit: plan.link_limit, clock: &clock, signals: &signals };
    let scratch = Scratch::private()?;
    let cores: Vec<u16> = plan.pace.cores.iter().flatten().copied().collect();
    let before = Before::look(&cores, plan.noise, scratch.path(), &Interrupt::of(Arc::clone(&signals)))?;
    let pause = PauseWatch::begin(&plan.links);
    let (done, stopped) = bench.measure(Whole(plan), &mut |_| {})?;
    let pause = pause.end();
    let mut verdict = verdict(&done.method, &pause);
    if let Some(why) = &done.failed {
        verdict.fails(why.clone());
    }
    let value = json!({
        "kind": ResultKind::Rfc2544,
        "schema": SCHEMA,
        "command": replay(),
        "made": made(),
        "environment": surroundings(&plan.links),
        "audit": before.audit,
        "noise": before.noise_json(),
        "clock": clock.to_json(),
        "links": plan.links.iter().map(host::drivers::LinkSpec::name).collect::<Vec<_>>(),
        "settings": done.method.settings(),
        "pause_frames": pause,
        "results": done.method.results(),
        "trials": done.log,
        "latency_definition": latency_definition(&clock),
        "verdict": verdict,
    });
    if plan.json {
        println!("{value:#}");
    } else {
        print!("{}", before.told());
        println!("{}", clock.told());
        println!("{}", pause.told());
        print!("{}", render(&done.method));
        println!("{}", latency_definition(&clock));
        println!("{} trials; {verdict}", done.log.len());
    }
    // Shown before it is kept: a full disk does not take it away.
    if let Some(path) = &plan.out {
        results::write_whole(path, &format!("{value:#}\n"))?;
    }
    keep_page(plan.html.as_deref(), &value)?;
    Ok(match verdict.word {
        _ if stopped => ExitCode::from(INTERRUPTED),
        Word::Invalid => ExitCode::from(MISSED),
        Word::Complete | Word::Partial => ExitCode::SUCCESS,
    })
}

/// RFC 1242 section 3.8 wants to be told which of its two it is.
const LATENCY_DEFINITION: &str = concat!(
    "latency: from the whole frame in the tester's ring to the whole frame found in it, as of a store-and-forward ",
    "device, with the time that the frame takes on a wire (RFC 1242 section 3.8 leaves that out)"
);

/// The same, where stamps are in the place of the tester's clock.
const LATENCY_BY_STAMPS: &str = concat!(
    "; of tagged frames from the stamp of what leaves to the stamp of what comes, which a NIC takes at a frame's ",
    "beginning, so that the time on the wire counts for nothing, and the kernel where it hands it on"
);

fn latency_definition(clock: &Clocked) -> String {
    format!("{LATENCY_DEFINITION}{}", if clock.is_stamped() { LATENCY_BY_STAMPS } else { "" })
}

/// What came of it.
struct Done {
    method: Method,
    log: Vec<Value>,
    /// A command failed.
    failed: Option<String>,
}

struct Whole<'a>(&'a MethodPlan);

impl Trials for Whole<'_> {
    type Found = Done;

    fn run<L: Link>(self, rig: &mut Rig<L>, watch: &Watch) -> Result<Done, String> {
        let plan = self.0;
        let mut done = Done { method: Method::new(plan.settings.clone()), log: Vec::new(), failed: None };
        let mut condition = Condition::Plain;
        while !watch.is_stopped() {
            let Some(ask) = done.method.poll_trial() else { break };
            if ask.condition != condition {
                condition = ask.condition;
                let command = match condition {
                    Condition::Filters => plan.filter_command.as_ref(),
                    Condition::ManyFilters => plan.many_filters_command.as_ref(),
                    _ => None,
                };
                if let Some(Err(why)) = command.map(|command| commands::run(command, &|| watch.is_stopped())) {
                    done.failed = Some(format!("filters: {why}"));
                    break;
                }
            }
            // What was measured until here is still told.
            let (result, failed) = match one(plan, &ask, rig, watch) {
                Ok(outcome) => outcome,
                Err(why) => {
                    done.failed = Some(why);
                    break;
                }
            };
            if watch.is_stopped() {
                break;
            }
            if let Some(why) = failed {
                done.failed = Some(format!("reset: {why}"));
                break;
            }
            let why = done.method.on_trial(&result);
            let entry = TrialLog::of(ask.rate, &result, why.as_deref());
            let what = ask.test.map_or("the tester's own rate", |test| test.name());
            eprintln!("trial {}: {} bytes, {}, {what}: {}", done.log.len() + 1, ask.size, ask.condition, entry.line());
            done.log.push(json!({ "ask": ask, "trial": entry }));
        }
        Ok(done)
    }
}

/// One trial: learning frames, the trial with its command, and the pause to
/// settle. With it why the command failed.
fn one<L: Link>(
    plan: &MethodPlan,
    ask: &AskedTrial,
    rig: &mut Rig<L>,
    watch: &Watch,
) -> Result<(TrialResult, Option<String>), String> {
    let random = || seed(None).map_err(|why| why.to_string());
    let ways = [true, rig.ports() > 1];
    let pacing = Pacing::Rate { milli: LEARNING_MILLI, burst: 1 };
    let learning = Stream { pacing, ways, ..plan.stream.clone() };
    let (drain, signature) = (LEARNING, random()? as u32);
    rig.trial(Plan { streams: vec![learning], duration: LEARNING, drain, signature, ..Plan::default() }, watch)?;
    let signature = random()?;
    // Of the learning trial nobody wants to know.
    watch.take(&mut Vec::new());
    let trial = ask.plan(&plan.stream, &plan.settings, (signature as u32, signature));
    let command = plan.reset_command.as_ref().zip(ask.reset);
    let resetting = command.map(|(command, after)| (command, Duration::from_secs_f64(after)));
    let (result, failed) = thread::scope(|scope| {
        let resetting = resetting.map(|(command, after)| {
            scope.spawn(move || {
                thread::sleep(after);
                commands::run(command, &|| watch.is_stopped())
            })
        });
        let result = rig.trial(trial, watch);
        let failed = resetting.and_then(|thread| match thread.join() {
            Ok(outcome) => outcome.err(),
            Err(_) => Some("the thread that ran the command panicked".to_owned()),
        });
        (result, failed)
    });
    let mut result = result?;
    let mut recorded = Vec::new();
    watch.take(&mut recorded);
    fill(&mut result, &recorded);
    if !watch.is_stopped() {
        thread::sleep(Duration::from_secs_f64(plan.settings.settle));
    }
    Ok((result, failed))
}
