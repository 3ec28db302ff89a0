//! `nearside packet load`: one trial, shown, kept and judged.

use crate::TesterPlan;
use crate::clocks::Timed;
use crate::pages::keep_page;
use crate::rig::{Bench, Clocked, Rig, Trials, Watch};
use cpu::Clock;
use environment::{Fingerprint, ResultKind, ResultOrigin, SCHEMA};
use figures::{grouped, seconds, si};
use host::drivers::LinkSpec;
use host::stop_signals;
use link::Link;
pub use packet::kept::Kept;
use packet::replay::Replay;
use packet::spec::ReplaySpec;
use packet::table;
use packet::tester::{Plan, Recorders, Stream, fill};
use packet::trial::TrialResult;
use packet::verdict::worth;
use say::{Failure, eprintln, print, println};
use serde_json::{Value, json};
use std::fs::File;
use std::io::IsTerminal;
use std::path::Path;
use std::process::ExitCode;
use std::sync::atomic::Ordering;
use std::time::Duration;
use wire::Time;

/// A frame that is due so soon is waited for: what a look at the rings and a
/// frame take nearly always. With 200 ns a seventh of a million frames a second
/// over memif left more than 64 ns too late, with 400 one of 70, and with more
/// no fewer: the rest is the kernel's timer.
const EAGER: Duration = Duration::from_nanos(400);

/// What the exit status says where an expectation was missed.
pub const MISSED: u8 = 2;
/// After Ctrl-C, as shells do (128 + SIGINT).
pub const INTERRUPTED: u8 = 130;

/// Runs the trial.
///
/// # Errors
/// What the user is to know.
pub fn load(plan: &TesterPlan) -> Result<ExitCode, Failure> {
    let signals = stop_signals()?;
    // What cannot be written is told before the run, not after it.
    if let Some(path) = &plan.out {
        results::write_whole(path, &format!("{:#}\n", begun(ResultKind::PacketLoad)))?;
    }
    let mut links = plan.links.clone();
    let mut trial = Plan { seed: seed(plan.seed)?, signature: seed(plan.seed)? as u32, ..plan.plan.clone() };
    trial.streams.extend(captures(plan)?);
    trial.eager = EAGER;
    let clock = Clocked::choose(plan.clock, &mut links, Timed::Probes(&mut trial.streams))?;
    trial.check(plan.links.len())?;
    let bench =
        Bench { links: &links, pace: &plan.pace, link_limit: plan.link_limit, clock: &clock, signals: &signals };
    let mut seen = Seen::new(plan, &clock);
    let (mut result, _) = bench.measure(Trial(trial), &mut |watch| seen.look(watch))?;
    seen.end();
    fill(&mut result, &seen.totals);
    let verdict = worth(&result, LATE_LIMIT);
    let judged: Vec<_> = plan.expect.iter().map(|expectation| expectation.judge(&result, verdict.word)).collect();
    let value = to_json(plan, &clock, &result);
    if plan.json {
        println!("{value:#}");
    } else {
        println!("{}", clock.told());
        print!("{}", table::render(&result, nanos(plan.threshold)));
        for judged in &judged {
            let word = judged.word();
            let measured = match judged.measured {
                None => "not measured".to_owned(),
                Some(nanos) if judged.is_time => seconds(nanos),
                Some(value) => format!("{value}"),
            };
            println!("expected {}: {word} ({measured})", judged.expectation);
        }
        println!("{verdict}");
    }
    // Shown before it is kept: a full disk does not take it away.
    if let Some(path) = &plan.out {
        results::write_whole(path, &format!("{value:#}\n"))?;
    }
    keep_page(plan.html.as_deref(), &value)?;
    Ok(match () {
        () if !result.complete && signals.load(Ordering::Relaxed) > 0 => ExitCode::from(INTERRUPTED),
        () if !result.complete => return Err("a link had lost its other side at the end".into()),
        () if result.stamps_doubt().is_some() => ExitCode::from(MISSED),
        () if judged.iter().any(|judged| judged.met != Some(true)) => ExitCode::from(MISSED),
        () => ExitCode::SUCCESS,
    })
}

/// Captures as streams.
fn captures(plan: &TesterPlan) -> Result<Vec<Stream>, Failure> {
    let usual = [true, plan.links.len() > 1];
    let read = |(number, spec): (usize, &ReplaySpec)| -> Result<Stream, Failure> {
        let told = |why: &dyn core::fmt::Display| format!("--replay {}: {why}", spec.file.display());
        let file = File::open(&spec.file).map_err(|why| told(&why))?;
        let frames = Replay::read(file).map_err(|why| told(&why))?;
        Ok(spec.stream(&format!("replay {}", number + 1), frames, usual).map_err(|why| told(&why))?)
    };
    plan.replays.iter().enumerate().map(read).collect()
}

/// What flows and signatures are drawn from.
pub fn seed(asked: Option<u64>) -> Result<u64, Failure> {
    if let Some(seed) = asked {
        return Ok(seed);
    }
    let mut bytes = [0; 8];
    rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty())?;
    Ok(u64::from_ne_bytes(bytes))
}

/// Nanoseconds, as many as there are.
pub fn nanos(span: Duration) -> u64 {
    u64::try_from(span.as_nanos()).unwrap_or(u64::MAX)
}

/// One trial.
struct Trial(Plan);

impl Trials for Trial {
    type Found = TrialResult;

    fn run<L: Link>(self, rig: &mut Rig<L>, watch: &Watch) -> Result<TrialResult, String> {
        rig.trial(self.0, watch)
    }
}

/// What the watching thread has seen so far.
struct Seen<'a> {
    plan: &'a TesterPlan,
    clock: &'a Clocked,
    totals: Vec<Recorders>,
    last: TrialResult,
    line_at: Time,
    line_every: Duration,
    terminal: bool,
    written_at: Time,
    complained: bool,
}

impl<'a> Seen<'a> {
    fn new(plan: &'a TesterPlan, clock: &'a Clocked) -> Self {
        let terminal = std::io::stderr().is_terminal();
        let usual = if terminal { Duration::from_secs(1) } else { Duration::ZERO };
        let now = Clock.now();
        Self {
            plan,
            clock,
            totals: Vec::new(),
            last: TrialResult::default(),
            line_at: now,
            line_every: plan.stats_period.unwrap_or(usual),
            terminal,
            written_at: now,
            complained: false,
        }
    }

    /// Takes what the polling thread has left, shows and keeps it.
    fn look(&mut self, watch: &Watch) {
        let Some(counts) = watch.take(&mut self.totals) else { return };
        let now = Clock.now();
        if !self.line_every.is_zero() && now.since(self.line_at) >= self.line_every {
            self.line_at = now;
            let line = line(&counts, &self.last);
            if self.terminal {
                let _ = std::io::Write::write_all(&mut std::io::stderr(), format!("\r\x1b[K{line}").as_bytes());
            } else {
                eprintln!("{line}");
            }
            self.last = counts.clone();
        }
        if let Some(path) = &self.plan.out
            && now.since(self.written_at) >= self.plan.checkpoint
        {
            self.written_at = now;
            let mut result = counts;
            fill(&mut result, &self.totals);
            self.keep(path, &result);
        }
    }

    /// A disk that is full does not end a run of hours.
    fn keep(&mut self, path: &Path, result: &TrialResult) {
        let text = format!("{:#}\n", to_json(self.plan, self.clock, result));
        if let Err(why) = results::write_whole(path, &text)
            && !core::mem::replace(&mut self.complained, true)
        {
            eprintln!("nearside: the checkpoint was not written, and is tried again: {why}");
        }
    }

    fn end(&self) {
        if self.terminal && !self.line_every.is_zero() {
            eprintln!("");
        }
    }
}

/// How it goes, in a line.
fn line(now: &TrialResult, before: &TrialResult) -> String {
    let span = (now.seconds - before.seconds).max(1e-3);
    let sum = |result: &TrialResult, each: fn(&packet::trial::LaneResult) -> u64| -> u64 {
        result.lanes.iter().map(each).sum()
    };
    let rate = |each| si(sum(now, each).saturating_sub(sum(before, each)) as f64 / span, "/s");
    format!(
        "{:.0} s: sent {} received {}, lost {} entrance {}, away at most {}",
        now.seconds,
        rate(|lane| lane.sent.frames),
        rate(|lane| lane.received),
        grouped(sum(now, |lane| lane.losses.frames)),
        grouped(sum(now, |lane| lane.sent.entrance)),
        seconds(now.stalls.longest_ns as f64)
    )
}

fn to_json(plan: &TesterPlan, clock: &Clocked, result: &TrialResult) -> Value {
    let verdict = worth(result, LATE_LIMIT);
    let judged: Vec<_> = plan.expect.iter().map(|expectation| expectation.judge(result, verdict.word)).collect();
    let lanes = result.lanes.iter().map(|lane| {
        let latency = &lane.latency;
        let quantile = |at: f64| latency.sound_quantile(at);
        json!({
            "stream": lane.stream,
            "way": table::way(lane),
            "lost": lane.lost(),
            "loss_ratio": lane.loss_ratio(),
            "loss_bound_95": lane.loss_bound(),
            "p50_ns": quantile(0.5), "p95_ns": quantile(0.95), "p99_ns": quantile(0.99),
            "p99_9_ns": quantile(0.999), "p99_99_ns": quantile(0.9999),
            "above_threshold": latency.above(nanos(plan.threshold)),
        })
    });
    json!({
        "kind": ResultKind::PacketLoad,
        "schema": SCHEMA,
        "command": replay(),
        "made": made(),
        "complete": result.complete,
        "environment": surroundings(&plan.links),
        "clock": clock.to_json(),
        "links": plan.links.iter().map(LinkSpec::name).collect::<Vec<_>>(),
        "threshold_ns": nanos(plan.threshold),
        "summary": lanes.collect::<Vec<_>>(),
        "expectations": judged,
        "verdict": verdict,
        "result": result,
    })
}

/// What a file says whose measurement has begun.
pub fn begun(kind: ResultKind) -> Value {
    json!({ "kind": kind, "schema": SCHEMA, "complete": false })
}

/// As for searches, where nothing else is asked for.
const LATE_LIMIT: f64 = 0.001;

/// What figures of these links belong to: the machine, and the interfaces that
/// frames go by, also those without a device.
pub fn surroundings(links: &[LinkSpec]) -> Fingerprint {
    surroundings_of(&links.iter().map(LinkSpec::name).collect::<Vec<_>>())
}

/// The same, of links by their names.
pub fn surroundings_of(names: &[String]) -> Fingerprint {
    let interface = |name: &'_ String| {
        let name = name.strip_prefix("af_xdp:")?;
        name.split([',', '/']).next().map(str::to_owned)
    };
    let interfaces: Vec<String> = names.iter().filter_map(interface).collect();
    Fingerprint::read_with(&interfaces.iter().map(String::as_str).collect::<Vec<_>>())
}

/// A result as a page takes it, with the share of its frames that may be late.
pub fn kept(
    links: &[LinkSpec],
    clock: &Clocked,
    threshold: Duration,
    (late_limit, result): (f64, &TrialResult),
) -> Kept {
    Kept {
        command: replay(),
        complete: result.complete,
        clock: packet::kept::Clock { told: clock.told() },
        links: links.iter().map(LinkSpec::name).collect(),
        threshold_ns: nanos(threshold),
        late_limit: Some(late_limit),
        result: result.clone(),
    }
}

/// The command that was given.
pub fn replay() -> Vec<String> {
    ResultOrigin::now().command
}

/// When a result is made, seconds since 1970.
pub fn made() -> u64 {
    ResultOrigin::now().made
}
