//! `nearside packet lab`: devices that anybody has, each put between the
//! tester's ports in turn, and one table.
//!
//! The ports are ends of veth pairs that the tester has by AF_XDP, the device
//! having the other ends in a network namespace of its own; or sockets of memif.
//! A bare wire of either kind stands beside them: what the tester alone makes.

mod between;

pub use between::Device;

use crate::DevicesPlan;
use crate::child::{own, parse, program};
use crate::load::{INTERRUPTED, MISSED, made, replay};
use crate::pages::keep_page;
use between::Between;
use demo::child::Interrupt;
use demo::scratch::Scratch;
use environment::{Fingerprint, ResultKind, SCHEMA};
use figures::{digits, share, si};
use host::stop_signals;
use packet::trial::TrialResult;
use packet::verdict::{Validity, faults};
use say::{Failure, eprintln, println};
use serde::Serialize;
use serde_json::{Value, json};
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// A trial beyond its own time; a search beyond that of its trials.
const PATIENCE: Duration = Duration::from_secs(60);

/// A search's trials are such a part of the others; at one load it takes so
/// many at most.
const PARTS: u32 = 10;
const TRIALS_AT_LOAD: u32 = 5;
/// Its bounds are so near in the end.
const WIDTH: &str = "2%";
/// Trials of the highest rate that a search begins with, and of the MRR.
const OTHER_TRIALS: u32 = 40;
/// Stragglers are waited for a tenth of a trial, and no longer than this.
const DRAIN: Duration = Duration::from_millis(200);

/// A background is such a share of the NDR, or of the PDR where nothing passes
/// without a loss; else of what comes at the highest rate.
const SHARE: f64 = 0.7;

/// A row of the table. Rates are frames per second and direction.
#[derive(Serialize)]
struct Row {
    device: &'static str,
    /// Mean of what comes at the highest rate.
    mrr: Option<f64>,
    /// The highest rates that lose nothing, and half a percent.
    ndr: Option<f64>,
    pdr: Option<f64>,
    /// What keeps these from being COMPLETE.
    search: Value,
    /// Median and 99.9th percentile of a probe's latency, the worse direction,
    /// in nanoseconds: alone, and with a background.
    alone: [Option<f64>; 2],
    beside: [Option<f64>; 2],
    /// The background's rate, and the share of it that was lost.
    background: f64,
    lost: f64,
    damaged: u64,
    /// What the tester did wrong while it measured latencies.
    spoilt: Vec<String>,
    /// Why there is no row.
    missing: Option<String>,
}

/// Measures each device, and prints the table.
///
/// # Errors
/// If nothing can be set up.
pub fn lab(plan: &DevicesPlan) -> Result<ExitCode, Failure> {
    let signals = stop_signals()?;
    let interrupt = Interrupt::of(Arc::clone(&signals));
    let scratch = Scratch::private()?;
    let mut rows = Vec::new();
    for device in &plan.devices {
        let stopped = || Row::missing(*device, "it was stopped before it was measured".to_owned());
        if interrupt.check().is_err() {
            rows.push(stopped());
            continue;
        }
        eprintln!("{}", device.name());
        rows.push(match one(plan, *device, scratch.path(), &interrupt) {
            Ok(row) => row,
            // The signal may have ended the device, too: that is no word on it.
            Err(_) if interrupt.check().is_err() => stopped(),
            // One that cannot be had here is told, and the others are measured.
            Err(why) => Row::missing(*device, why.to_string()),
        });
    }
    let value = json!({
            "kind": ResultKind::PacketLab, "schema": SCHEMA, "environment": Fingerprint::read(),
            "verdict": verdict(&rows), "command": replay(), "made": made(),
            "bytes": plan.size, "seconds": plan.duration.as_secs_f64(), "devices": rows, "told": method(plan) });
    if plan.json {
        println!("{value:#}");
    } else {
        println!("{}", table(plan, &rows));
    }
    // Shown before it is kept: a full disk does not take it away.
    if let Some(path) = &plan.out {
        results::write_whole(path, &format!("{value:#}\n"))?;
    }
    keep_page(plan.html.as_deref(), &value)?;
    match rows.iter().find_map(|row| row.missing.as_ref()) {
        _ if signals.load(Ordering::Relaxed) > 0 => Ok(ExitCode::from(INTERRUPTED)),
        Some(why) if rows.iter().all(|row| row.missing.is_some()) => Err(why.clone().into()),
        _ => Ok(ExitCode::SUCCESS),
    }
}

impl Row {
    const fn missing(device: Device, why: String) -> Self {
        let none = [None, None];
        Self {
            device: device.name(),
            mrr: None,
            ndr: None,
            pdr: None,
            search: Value::Null,
            alone: none,
            beside: none,
            background: 0.0,
            lost: 0.0,
            damaged: 0,
            spoilt: Vec::new(),
            missing: Some(why),
        }
    }
}

/// Sets one device up, and measures it.
fn one(plan: &DevicesPlan, device: Device, folder: &Path, interrupt: &Interrupt) -> Result<Row, Failure> {
    let mut between = Between::set(plan, device, folder, interrupt)?;
    let tester = Tester { plan, folder, interrupt, netns: between.netns(), links: &between.links };
    let search = tester.search()?;
    let found = |name: &str| {
        let all = search.get("found").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
        let named = |found: &&Value| found.pointer("/goal/name").and_then(Value::as_str) == Some(name);
        all.iter().find(named)?.get("lower")?.as_f64()
    };
    let (ndr, pdr) = (found("ndr"), found("pdr"));
    let highest = search.get("highest_received").and_then(Value::as_f64);
    let alone = tester.load(&["--probe=76B".to_owned()])?;
    let background = (SHARE * ndr.or(pdr).or(highest).unwrap_or(0.0)).max(1.0).floor();
    let beside = tester.load(&["--probe=76B".to_owned(), format!("--background={}:{background:.0}", plan.size)])?;
    between.check()?;
    let lanes = backgrounds(&beside);
    let sum = |path: &str| lanes.iter().filter_map(|lane| lane.pointer(path)?.as_f64()).sum::<f64>();
    let offered = sum("/sent/frames") + sum("/sent/entrance");
    let lost = sum("/losses/frames") + sum("/sent/entrance");
    Ok(Row {
        device: device.name(),
        mrr: search.pointer("/mrr/mean").and_then(Value::as_f64),
        ndr,
        pdr,
        alone: latency(&alone),
        beside: latency(&beside),
        background,
        lost: if offered > 0.0 { lost / offered } else { 0.0 },
        damaged: damaged(&search) + sum("/damaged") as u64,
        search: search.get("verdict").cloned().unwrap_or(Value::Null),
        spoilt: [("alone", &alone), ("beside a background", &beside)]
            .into_iter()
            .flat_map(|(name, said)| spoilt(said, plan.late_limit).into_iter().map(move |why| format!("{name}: {why}")))
            .collect(),
        missing: None,
    })
}

/// Our tester at the device's other ends.
struct Tester<'a> {
    plan: &'a DevicesPlan,
    folder: &'a Path,
    interrupt: &'a Interrupt,
    netns: Option<&'a str>,
    links: &'a [String; 2],
}

impl Tester<'_> {
    /// NDR, PDR and MRR, by trials that are short.
    fn search(&self) -> Result<Value, Failure> {
        let each = (self.plan.duration / PARTS).max(Duration::from_millis(1));
        let trials = self.plan.trials;
        let words = [
            format!("--stream={}", self.plan.size),
            "--goal=ndr,pdr,mrr".to_owned(),
            format!("--trial={}us,{}us", each.as_micros(), (each * TRIALS_AT_LOAD).as_micros()),
            format!("--width={WIDTH}"),
            format!("--trials={trials}"),
            format!("--late-limit={}%", 100.0 * self.plan.late_limit),
        ];
        let limit = (each + self.drain()) * (u32::from(trials) + OTHER_TRIALS) + PATIENCE;
        self.run("search", &words, limit)
    }

    fn drain(&self) -> Duration {
        (self.plan.duration / PARTS).clamp(Duration::from_millis(1), DRAIN)
    }

    fn load(&self, streams: &[String]) -> Result<Value, Failure> {
        let duration = self.plan.duration;
        let words = [streams, &[format!("--duration={}ms", duration.as_millis())]].concat();
        self.run("load", &words, duration + PATIENCE)
    }

    fn run(&self, what: &str, more: &[String], limit: Duration) -> Result<Value, Failure> {
        let mut words = own(&["packet", what, "--json"])?;
        words.push(format!("--drain={}us", self.drain().as_micros()));
        words.extend(self.links.iter().map(|link| format!("--link={link}")));
        words.extend(more.iter().cloned());
        if let Some(core) = self.plan.core {
            words.extend(["--core".to_owned(), core.to_string()]);
        }
        let mut tester = program("tester", self.netns, words).start(self.folder)?;
        let status = tester.ended(limit, self.interrupt)?;
        // What is INVALID is told with its figures.
        if !status.success() && status.code() != Some(i32::from(MISSED)) {
            return Err(format!("the tester ended ({status}): {}", tester.complaint()).into());
        }
        parse("the tester", &tester.output())
    }
}

/// Streams by direction that are no probes.
fn backgrounds(said: &Value) -> Vec<&Value> {
    let lanes = said.pointer("/result/lanes").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    lanes.iter().filter(|lane| lane.get("probe").and_then(Value::as_bool) == Some(false)).collect()
}

/// Frames that came damaged in a search's trials.
fn damaged(search: &Value) -> u64 {
    let each = |value: &Value, key: &str| value.get(key).and_then(Value::as_array).cloned().unwrap_or_default();
    let lanes = each(search, "trials").into_iter().flat_map(|trial| each(&trial, "lanes"));
    lanes.filter_map(|lane| lane.get("damaged")?.as_u64()).sum()
}

/// Median and 99.9th percentile of the worse direction's probe.
fn latency(said: &Value) -> [Option<f64>; 2] {
    let summary = said.get("summary").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    ["p50_ns", "p99_9_ns"].map(|key| {
        let probes = summary.iter().filter(|lane| lane.get("stream").and_then(Value::as_str) == Some("probe"));
        probes.filter_map(|lane| lane.get(key)?.as_f64()).reduce(f64::max)
    })
}

/// What the tester did wrong in a trial, by what is kept of it.
fn spoilt(said: &Value, late_limit: f64) -> Vec<String> {
    match serde_json::from_value::<TrialResult>(said.get("result").cloned().unwrap_or_default()) {
        Ok(result) => faults(&result, late_limit),
        Err(why) => vec![format!("the tester's result cannot be read: {why}")],
    }
}

/// What the table is worth: what has no row is missing, and what spoilt a search spoilt its row.
fn verdict(rows: &[Row]) -> Validity {
    let mut verdict = missing(rows.iter().map(|row| (row.device, row.missing.as_deref())));
    for row in rows {
        let word = row.search.get("word").and_then(Value::as_str);
        let reasons = row.search.get("reasons").and_then(Value::as_array).into_iter().flatten();
        let why = reasons.filter_map(Value::as_str).next().unwrap_or("its search was not complete");
        match word {
            Some("INVALID") => verdict.fails(format!("{}: {why}", row.device)),
            Some("PARTIAL") => verdict.lacks(format!("{}: {why}", row.device)),
            _ => {}
        }
        row.spoilt.iter().for_each(|why| verdict.fails(format!("{}: probe {why}", row.device)));
    }
    verdict
}

/// What points or devices that could not be had leave out.
pub fn missing<'a>(rows: impl Iterator<Item = (&'a str, Option<&'a str>)>) -> Validity {
    let mut verdict = Validity::default();
    for (name, why) in rows {
        if let Some(why) = why {
            verdict.lacks(format!("{name}: {why}"));
        }
    }
    verdict
}

fn table(plan: &DevicesPlan, rows: &[Row]) -> String {
    let mut lines = vec![format!(
        "{} bytes, both directions at once, frames per second and direction; latency in us, one way, the worse \
         direction; two veth pairs by AF_XDP, or memif; a wire is one of them from port to port",
        plan.size
    )];
    lines.push(format!(
        "{:<13} {:>10} {:>10} {:>10} {:>8} {:>8} {:>10} {:>8} {:>8} {:>9}",
        "device", "MRR", "NDR", "PDR", "p50", "p99.9", "beside", "p50", "p99.9", "lost"
    ));
    let mut notes = Vec::new();
    for row in rows {
        if let Some(why) = &row.missing {
            lines.push(format!("{:<13} n/a: {why}", row.device));
            continue;
        }
        let us = |nanos: Option<f64>| nanos.map_or_else(|| "-".to_owned(), |nanos| digits(nanos / 1e3));
        let rate = |rate: Option<f64>| rate.map_or_else(|| "-".to_owned(), |rate| si(rate, "/s"));
        lines.push(format!(
            "{:<13} {:>10} {:>10} {:>10} {:>8} {:>8} {:>10} {:>8} {:>8} {:>9}",
            row.device,
            rate(row.mrr),
            rate(row.ndr),
            rate(row.pdr),
            us(row.alone[0]),
            us(row.alone[1]),
            rate(Some(row.background)),
            us(row.beside[0]),
            us(row.beside[1]),
            share(row.lost)
        ));
        let reasons = row.search.get("reasons").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
        notes.extend(reasons.iter().filter_map(|why| Some(format!("{}: {}", row.device, why.as_str()?))));
    }
    lines.push(method(plan));
    lines.extend(notes);
    lines.join("\n")
}

/// What rates and backgrounds are.
fn method(plan: &DevicesPlan) -> String {
    let each = (plan.duration / PARTS).as_secs_f64();
    format!(
        "MRR: 10 trials of {each} s; NDR and PDR: CSIT's goals with trials of {each} s, {} s at a load, bounds within \
         {WIDTH}, {} trials at most; beside: {:.0} % of the NDR, or of what there is of PDR and highest rate",
        each * f64::from(TRIALS_AT_LOAD),
        plan.trials,
        100.0 * SHARE
    )
}
