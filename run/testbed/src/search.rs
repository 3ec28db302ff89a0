//! `nearside packet search`: trials by trials, until the bounds are near; trials
//! at the highest rate; a soak.

use crate::SearchPlan;
use crate::load::{INTERRUPTED, MISSED, made, replay, seed, surroundings};
use crate::pages::keep_page;
use crate::pause::PauseWatch;
use crate::rig::{Bench, CALIBRATION, Clocked, Rig, Trials, Watch};
use environment::{ResultKind, SCHEMA};
use figures::{share, si};
use host::stop_signals;
use link::Link;
use packet::log::TrialLog;
use packet::pause::PauseFrames;
use packet::rfc2544::Ceiling;
use packet::search::{Found, Outcome, Search};
use packet::soak::{Estimate, Soak, SoakTrial, TARGET};
use packet::tester::{Pacing, Plan, Stream};
use packet::trial::{LaneResult, TrialResult};
use packet::verdict::{NOTHING, Validity, Word, spoilt};
use say::{Failure, eprintln, println};
use serde::Serialize;
use serde_json::{Value, json};
use std::process::ExitCode;
use std::thread;
use std::time::Duration;

/// How long the highest rate is measured; no longer than the MRR's trials.
const HIGHEST: Duration = Duration::from_secs(1);

/// CSIT's maximum receive rate: so many trials, as fast as possible.
const MRR_TRIALS: u32 = 10;

/// Searches, and prints what was found.
///
/// # Errors
/// What the user is to know.
pub fn search(plan: &SearchPlan) -> Result<ExitCode, Failure> {
    let signals = stop_signals()?;
    let clock = Clocked::measure(CALIBRATION);
    let bench =
        Bench { links: &plan.links, pace: &plan.pace, link_limit: plan.link_limit, clock: &clock, signals: &signals };
    let pause = PauseWatch::begin(&plan.links);
    let (done, _) = bench.measure(Rounds(plan), &mut |_| {})?;
    let pause = pause.end();
    let verdict = judge(plan, &done, &pause);
    let value = to_json(plan, &clock, &done, (&pause, &verdict));
    if plan.json {
        println!("{value:#}");
    } else {
        println!("{}", clock.told());
        println!("{}", pause.told());
        println!(
            "highest rate sent: {}; received: {}; sent on time: {}",
            si(done.highest.0, "/s"),
            si(done.highest.1, "/s"),
            si(done.sendable, "/s")
        );
        for found in &done.found {
            println!("{}", told(found));
        }
        if let Some(mrr) = &done.mrr {
            println!("{}", mrr.told());
        }
        if let Some(soak) = &done.soak {
            println!("{}", soak.told());
        }
        println!("{} trials; {verdict}", done.log.len());
    }
    // Shown before it is kept: a full disk does not take it away.
    if let Some(path) = &plan.out {
        results::write_whole(path, &format!("{value:#}\n"))?;
    }
    keep_page(plan.html.as_deref(), &value)?;
    Ok(match verdict.word {
        _ if done.stopped => ExitCode::from(INTERRUPTED),
        Word::Invalid => ExitCode::from(MISSED),
        Word::Complete | Word::Partial => ExitCode::SUCCESS,
    })
}

/// What came of a search.
#[derive(Default)]
struct Done {
    /// Frames per second sent, and received, at the highest rate.
    highest: (f64, f64),
    /// Frames per second that the tester can send on time.
    sendable: f64,
    found: Vec<Found>,
    mrr: Option<Mrr>,
    soak: Option<Soaked>,
    log: Vec<TrialLog>,
    /// Trials of a soak that the tester spoilt.
    spoilt: u32,
    stopped: bool,
}

/// Frames received per second and direction at the highest rate.
#[derive(Serialize)]
struct Mrr {
    seconds: f64,
    rates: Vec<f64>,
    mean: f64,
    deviation: f64,
}

impl Mrr {
    fn new(seconds: f64, rates: Vec<f64>) -> Self {
        let n = rates.len().max(1) as f64;
        let mean = rates.iter().sum::<f64>() / n;
        let square = rates.iter().map(|rate| (rate - mean).powi(2)).sum::<f64>();
        Self { seconds, mean, deviation: (square / (n - 1.0).max(1.0)).sqrt(), rates }
    }

    fn told(&self) -> String {
        let ends = |fold: fn(f64, f64) -> f64| si(self.rates.iter().copied().reduce(fold).unwrap_or(0.0), "/s");
        format!(
            "mrr: {} received at the highest rate, deviation {} ({} to {}; {} trials of {} s)",
            si(self.mean, "/s"),
            si(self.deviation, "/s"),
            ends(f64::min),
            ends(f64::max),
            self.rates.len(),
            self.seconds
        )
    }
}

/// Where a share of losses of [`TARGET`] is.
#[derive(Serialize)]
struct Soaked {
    target: f64,
    load: f64,
    deviation: f64,
    estimates: Vec<Estimate>,
    seconds: f64,
}

impl Soaked {
    fn told(&self) -> String {
        format!(
            "soak: {} loses {:.0e} of its frames, deviation {} (after {:.0} s of trials)",
            si(self.load, "/s"),
            self.target,
            si(self.deviation, "/s"),
            self.seconds
        )
    }
}

/// Trials until the bounds are near.
struct Rounds<'a>(&'a SearchPlan);

impl Trials for Rounds<'_> {
    type Found = Done;

    fn run<L: Link>(self, rig: &mut Rig<L>, watch: &Watch) -> Result<Done, String> {
        let mut rounds = Bounded { plan: self.0, rig, watch, done: Done::default() };
        rounds.whole()?;
        rounds.done.stopped = watch.is_stopped();
        Ok(rounds.done)
    }
}

/// A search's trials over open links.
struct Bounded<'a, L> {
    plan: &'a SearchPlan,
    rig: &'a mut Rig<L>,
    watch: &'a Watch,
    done: Done,
}

impl<L: Link> Bounded<'_, L> {
    fn whole(&mut self) -> Result<(), String> {
        self.highest()?;
        let plan = self.plan;
        if let Some(each) = plan.mrr {
            let mut rates = Vec::new();
            while rates.len() < MRR_TRIALS as usize && !self.watch.is_stopped() {
                let (result, _) = self.trial(None, each)?;
                rates.push(mean(&result, |lane| lane.arrivals.unique as f64) / result.seconds.max(1e-9));
            }
            self.done.mrr = Some(Mrr::new(each.as_secs_f64(), rates));
        }
        let most = plan.max_rate.unwrap_or(self.done.sendable).max(plan.min_rate * 2.0);
        let mut search = Search::new(plan.goals.clone(), plan.min_rate, most, plan.trials);
        while !self.watch.is_stopped() {
            let Some(ask) = search.poll_trial() else { break };
            let (result, valid) = self.trial(Some(ask.load), Duration::from_secs_f64(ask.duration))?;
            if self.watch.is_stopped() {
                break;
            }
            // The worst direction counts.
            let loss_ratio = result.lanes.iter().map(LaneResult::loss_ratio).fold(0.0, f64::max);
            search.on_trial(Outcome { load: ask.load, duration: ask.duration, loss_ratio, valid });
        }
        self.done.found = search.found();
        plan.soak.map_or(Ok(()), |whole| self.soak(most, whole))
    }

    /// As fast as the ring takes frames, and then at ever lower rates until the
    /// tester keeps to them.
    fn highest(&mut self) -> Result<(), String> {
        let mut ceiling = Ceiling::new(self.plan.max_rate);
        while let Some(rate) = ceiling.poll_rate().filter(|_| !self.watch.is_stopped()) {
            let (result, valid) = self.trial(rate, HIGHEST.min(self.plan.mrr.unwrap_or(HIGHEST)))?;
            if rate.is_none() {
                let received = mean(&result, |lane| lane.arrivals.unique as f64) / result.seconds.max(1e-9);
                self.done.highest = (mean(&result, |lane| lane.rate), received);
            }
            ceiling.on_trial(&result, valid);
        }
        self.done.sendable = ceiling.rate();
        Ok(())
    }

    fn soak(&mut self, most: f64, whole: Duration) -> Result<(), String> {
        let mut soak = Soak::new(most, TARGET, whole.as_secs_f64());
        while let Some((load, seconds)) = soak.poll_trial().filter(|_| !self.watch.is_stopped()) {
            let (result, valid) = self.trial(Some(load), Duration::from_secs_f64(seconds))?;
            if self.watch.is_stopped() {
                break;
            }
            // A soak has to go on; what was spoilt is counted, and in the verdict.
            self.done.spoilt += u32::from(!valid);
            let lost = result.lanes.iter().map(LaneResult::lost).max().unwrap_or(0);
            soak.on_trial(SoakTrial { load, seconds, lost });
        }
        self.done.soak = soak.found().map(|(load, deviation)| Soaked {
            target: TARGET,
            load,
            deviation,
            estimates: soak.estimates().to_vec(),
            seconds: soak.trials().iter().map(|trial| trial.seconds).sum(),
        });
        Ok(())
    }

    /// One trial, in the log; whether it counts.
    fn trial(&mut self, rate: Option<f64>, duration: Duration) -> Result<(TrialResult, bool), String> {
        let plan = self.plan;
        let pacing = match rate {
            Some(rate) => Pacing::Rate { milli: (rate * 1e3).round().max(1.0) as u64, burst: 1 },
            None => Pacing::Max,
        };
        // A trial's stragglers are not the next one's frames.
        let signature = seed(None).map_err(|why| why.to_string())? as u32;
        let streams = vec![Stream { pacing, ..plan.stream.clone() }];
        let trial = Plan { streams, duration, drain: plan.drain, signature, ..Plan::default() };
        let result = self.rig.trial(trial, self.watch)?;
        if !plan.settle.is_zero() && !self.watch.is_stopped() {
            thread::sleep(plan.settle);
        }
        let why = spoilt(&result, plan.late_limit);
        let entry = TrialLog::of(rate, &result, why.as_deref());
        eprintln!("trial {}: {}", self.done.log.len() + 1, entry.line());
        self.done.log.push(entry);
        Ok((result, why.is_none()))
    }
}

/// Of all directions.
fn mean(result: &TrialResult, of: fn(&LaneResult) -> f64) -> f64 {
    result.lanes.iter().map(of).sum::<f64>() / result.lanes.len().max(1) as f64
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

fn judge(plan: &SearchPlan, done: &Done, pause: &PauseFrames) -> Validity {
    let mut verdict = Validity::default();
    verdict.judge_found(&done.found);
    if done.stopped {
        verdict.lacks("it was stopped");
    }
    if done.log.is_empty() {
        verdict.fails(NOTHING);
    }
    if done.spoilt > 0 {
        verdict.fails(format!("soak: the tester spoilt {} of its trials", done.spoilt));
    }
    let nothing_lost = done.found.iter().any(|found| found.goal.loss_ratio == 0.0 && found.lower.is_some());
    pause.judge(nothing_lost, &mut verdict);
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

fn to_json(plan: &SearchPlan, clock: &Clocked, done: &Done, (pause, verdict): (&PauseFrames, &Validity)) -> Value {
    json!({
        "kind": ResultKind::PacketSearch,
        "schema": SCHEMA,
        "command": replay(),
        "made": made(),
        "environment": surroundings(&plan.links),
        "clock": clock.to_json(),
        "links": plan.links.iter().map(host::drivers::LinkSpec::name).collect::<Vec<_>>(),
        "stream": plan.stream.shape,
        "highest_sent": done.highest.0,
        "highest_received": done.highest.1,
        "sendable": done.sendable,
        "found": done.found,
        "mrr": done.mrr,
        "soak": done.soak,
        "pause_frames": pause,
        "told": [pause.told()],
        "trials": done.log,
        "late_limit": plan.late_limit,
        "verdict": verdict,
    })
}
