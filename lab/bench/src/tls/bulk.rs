//! What a long answer costs the server, over TLS and in the clear: the figure that operators
//! of such servers go by, CPU per cent for each Gbit/s.

use super::{Asked, Bound, Contender, LARGE, Plan, Row, SUITE, ask};
use crate::BenchError;
use crate::client::{Place, Sample, by_turns};
use crate::kernel::table::Ratio;
use crate::kernel::word;
use crate::sealing;
use stats::median;
use std::path::Path;
use std::time::Duration;

/// Frames of 9,000 bytes, as both ends of a link take them.
pub(super) const LARGE_FRAMES: &str = ",mtu=9000,buffer=9088";
/// Frames that hold the largest record, with its head and its tag, as a link through memory
/// can have them.
pub(super) const RECORD_FRAMES: &str = ",mtu=16500,buffer=16576";

const ROW: Row = Row {
    title: "1 MB from memory, 16 connections kept",
    path: "large.bin",
    flags: "",
    connections: 16,
    bound: Bound::Rate { sockets: None, memif: LEAST },
};

/// How often nginx's rate over TLS, at least.
const LEAST: f64 = 2.5;
/// Gigabytes for a second of the server's CPU, at least, over TLS; or this share of what
/// sealing alone reaches, if that is less.
const LEAST_RATE: f64 = 4.0;
const LEAST_SHARE: f64 = 0.8;

/// Tries of sealing alone, before and after.
const TRIES: u32 = 15;

/// How often a byte that is sent is read from memory and written to it, by a count of the
/// passes over it. What a pass leaves in a scratch that all connections share stays in the
/// core's caches, and counts as nothing; buffers of a connection's own do not.
fn passes(name: &str, tls: bool) -> (u32, u32, &'static str) {
    match (name, tls) {
        ("nginx", false) => (0, 0, "sendfile: pages are lent"),
        ("nginx", true) => (3, 3, "read, encrypted, copied by send"),
        ("sockets", false) => (0, 0, "sendfile: pages are lent"),
        ("sockets", true) => (1, 1, "sealed in a scratch, copied by send"),
        (_, false) => (1, 1, "copied into the slot"),
        (_, true) => (1, 1, "sealed into the slot, or in a scratch and copied"),
    }
}

/// Measures and prints. Whether the bounds hold.
pub(super) fn run(
    plan: &Plan,
    nearside: &Path,
    contenders: &mut [Contender],
    at: Place<'_>,
) -> Result<bool, BenchError> {
    let duration = Duration::from_secs(plan.seconds);
    let before = sealing::rate(TRIES)?;
    // Each over TLS and in the clear.
    let samples = by_turns(plan.rounds, 2 * contenders.len(), |index| {
        let contender = &mut contenders[index / 2];
        let over_tls = contender.asked(&ROW, SUITE);
        let asked = match index % 2 {
            0 => over_tls,
            _ => Asked { url: format!("http://{}/{}", contender.plain, ROW.path), ..over_tls },
        };
        let sample = ask((nearside, duration), &asked, at)?;
        contender.running.still_runs()?;
        Ok(Some(sample))
    })?;
    let sealing = before.min(sealing::rate(TRIES)?);
    println!("\n{}", ROW.title);
    println!(
        "  {:28} {:>8} {:>7} {:>7} {:>9} {:>9}  read + written for each byte, by model",
        "", "MB/s", "CPU", "client", "%/Gbit/s", "GB/CPU s"
    );
    let mut kept = true;
    for (index, contender) in contenders.iter().enumerate() {
        for (tls, samples) in [true, false].into_iter().zip(&samples[2 * index..]) {
            kept &= line(contender.name, tls, samples);
        }
    }
    println!("  sealing alone, AES-128-GCM, records of 16 KB: {sealing:.2} GB/s");
    let wanted = LEAST_RATE.min(LEAST_SHARE * sealing);
    let [nginx, ..] = &samples[..] else { return Ok(false) };
    let ours = contenders.iter().enumerate().filter(|(_, contender)| contender.link.is_some());
    let mut reached = false;
    for (index, contender) in ours {
        let samples = &samples[2 * index];
        let rate = Ratio::of(samples, nginx, |sample| sample.rate);
        let each = Ratio::of(samples, nginx, Sample::cost);
        let goodput = median(&samples.iter().map(per_second).collect::<Vec<_>>());
        println!("  {}: rate {rate}, CPU for each {each} times nginx's, {goodput:.2} GB/CPU s", contender.name);
        reached |= rate.ratio >= LEAST && goodput >= wanted;
    }
    println!("  over a link, rate at least {LEAST} times nginx's and {wanted:.2} GB/CPU s: {}", word(reached));
    Ok(kept && reached)
}

/// Gigabytes for a second of the server's CPU.
fn per_second(sample: &Sample) -> f64 {
    LARGE as f64 / sample.cost() / 1e3
}

/// Prints a line of the table. Whether nothing failed.
fn line(name: &str, tls: bool, samples: &[Sample]) -> bool {
    let of = |value: fn(&Sample) -> f64| median(&samples.iter().map(value).collect::<Vec<_>>());
    let errors: u64 = samples.iter().map(|sample| sample.errors).sum();
    let (read, written, why) = passes(name, tls);
    let told = format!("{name}, {}", if tls { "TLS" } else { "clear" });
    println!(
        "  {told:28} {:>8.0} {:>6.0}% {:>6.0}% {:>9.2} {:>9.2}  {read} + {written}: {why}{}",
        of(|sample| sample.rate * LARGE as f64 / 1e6),
        of(|sample| 100.0 * (sample.server + sample.softirq)),
        of(|sample| 100.0 * sample.client),
        of(|sample| 100.0 * (sample.server + sample.softirq) / (sample.rate * LARGE as f64 * 8.0 / 1e9)),
        of(per_second),
        if errors > 0 { format!("  {errors} ERRORS") } else { String::new() }
    );
    errors == 0
}
