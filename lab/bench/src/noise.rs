//! Disturbances that are made on purpose, and what `nearside node noise` calls
//! them: the loop of [`noise`] runs in this process on one core, and something
//! disturbs it there that says when it did.
//!
//! | module | for |
//! | --- | --- |
//! | `inject` | what disturbs |
//! | `storm` | packets that the kernel steers to the core |

mod inject;
mod storm;

use crate::BenchError;
use clap::ValueEnum;
use core::time::Duration;
use demo::machine::allowed_cores;
use inject::{Disturbance, Injector};
use noise::{Gap, Named};
use serde::Serialize;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

/// What is measured.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Plan {
    /// The core that is disturbed.
    pub core: Option<u16>,
    /// Each kind by turns, this often.
    pub rounds: u32,
    /// For so long each time.
    pub duration: Duration,
    /// What disturbs.
    pub kinds: Vec<DisturbanceKind>,
    /// Whether the result is printed as JSON.
    pub json: bool,
}

/// A kind of disturbance.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum DisturbanceKind {
    /// A timer that expires on the core
    Timer,
    /// Packets that receive packet steering has the core handle
    NetRx,
    /// A thread of SCHED_FIFO, 200 us each 10 ms, and once 5 ms
    Fifo,
    /// Interrupts from another core, by membarrier(2)
    Ipi,
    /// Eight pages that the loop touches for the first time
    Faults,
    /// A disk's interrupts, where they are the core's
    Disk,
}

impl DisturbanceKind {
    /// The kind of cause that it is to be called.
    const fn cause(self) -> &'static str {
        match self {
            Self::Timer => "timer",
            Self::NetRx => "softirq",
            Self::Fifo => "thread",
            Self::Ipi => "ipi",
            Self::Faults => "page-fault",
            Self::Disk => "interrupt",
        }
    }

    const fn name(self) -> &'static str {
        match self {
            Self::Timer => "a timer",
            Self::NetRx => "NET_RX by RPS on veth",
            Self::Fifo => "a FIFO thread",
            Self::Ipi => "IPIs by membarrier",
            Self::Faults => "page faults",
            Self::Disk => "a disk's interrupts",
        }
    }

    /// Whether what is made lasts as long as what is found of it: of the others
    /// only their number is known.
    const fn has_length(self) -> bool {
        matches!(self, Self::Fifo)
    }
}

/// At least so many of the disturbances that were made must be named rightly.
pub const NAMED: f64 = 0.95;

/// The time that is found may differ by so much from what was made.
pub const TIME: f64 = 0.10;

/// Shorter gaps are not looked at.
const THRESHOLD: Duration = Duration::from_nanos(500);

/// A disturbance may be felt so much earlier or later than its maker says,
/// nanoseconds: it takes the time before and after calling the kernel.
const SLACK: u64 = 100_000;

/// What was found of one kind, over all rounds.
#[derive(Clone, Debug, Default, Serialize)]
struct Found {
    kind: String,
    made: u64,
    /// Those besides that came upon a core that was away already, and disturbed
    /// somebody else, or nobody: the kernel counted none.
    away: u64,
    /// With a gap in the time in which each was made.
    seen: u64,
    /// With one that is called what it was.
    named: u64,
    /// With one that is called something that took longer, and has it among its
    /// parts.
    beside: u64,
    /// Nanoseconds that were made; of those that last as long as they are told.
    made_nanos: u64,
    /// Nanoseconds that gaps went to it.
    found_nanos: u64,
    /// What the others were called.
    miscalled: Vec<String>,
    left_out: Option<String>,
}

/// Makes all kinds by turns, and prints what they were called.
///
/// # Errors
/// If there is no core to disturb.
pub fn run(plan: &Plan) -> Result<bool, BenchError> {
    let cores = allowed_cores();
    let core = plan.core.or_else(|| cores.last().copied()).ok_or("there is no core")?;
    let other = cores.iter().copied().find(|other| *other != core);
    let other = other.ok_or("what disturbs needs a second core")?;
    let mut all: Vec<Found> =
        plan.kinds.iter().map(|kind| Found { kind: kind.name().to_owned(), ..Found::default() }).collect();
    for round in 0..plan.rounds {
        for (kind, found) in plan.kinds.iter().zip(&mut all) {
            if found.left_out.is_some() {
                continue;
            }
            if let Err(why) = one(plan, *kind, core, other, found) {
                found.left_out = Some(why);
            }
        }
        eprintln!("round {} of {}", round + 1, plan.rounds);
    }
    if plan.json {
        println!("{}", serde_json::to_string_pretty(&all)?);
    } else {
        print(&all, core);
    }
    let kept = |(kind, found): (&DisturbanceKind, &Found)| found.left_out.is_some() || found.keeps(*kind);
    Ok(plan.kinds.iter().zip(&all).all(kept))
}

impl Found {
    fn keeps(&self, kind: DisturbanceKind) -> bool {
        let named = self.made > 0 && (self.named + self.beside) as f64 / (self.made.max(1)) as f64 >= NAMED;
        let ratio = self.found_nanos as f64 / (self.made_nanos.max(1)) as f64;
        named && (!kind.has_length() || (ratio - 1.0).abs() <= TIME)
    }
}

/// One round of one kind.
fn one(plan: &Plan, kind: DisturbanceKind, core: u16, other: u16, found: &mut Found) -> Result<(), String> {
    let injector = Injector::new(kind, core, other, plan.duration)?;
    let (each, running) = injector.start()?;
    let stop = Arc::new(AtomicBool::new(false));
    let asked = noise::Plan {
        cores: vec![core],
        // It is stopped when all are made.
        time: Duration::from_secs(600),
        threshold: THRESHOLD,
        fifo: None,
        plain: false,
        osnoise: false,
    };
    let listening = {
        let stop = Arc::clone(&stop);
        thread::spawn(move || {
            let each = std::sync::Mutex::new(Some(each));
            let mut gaps: Vec<Named> = Vec::new();
            let taken = |_| each.lock().ok()?.take();
            let report = noise::run(&asked, &stop, taken, &mut |_, named| gaps.push(named.clone()));
            (report.map_err(|why| why.to_string()), gaps)
        })
    };
    let made = running.finish();
    stop.store(true, Ordering::Relaxed);
    let (report, gaps) = listening.join().map_err(|_| "the loop panicked".to_owned())?;
    let report = report?;
    if let Some(note) = report.notes.iter().find(|note| note.starts_with("no tracepoints")) {
        return Err(note.clone());
    }
    found.judge(kind, &made?, &gaps);
    Ok(())
}

impl Found {
    fn judge(&mut self, kind: DisturbanceKind, made: &[Disturbance], gaps: &[Named]) {
        let (Some(from), Some(until)) = (gaps.first(), gaps.last()) else { return };
        // Those that came while the loop was there.
        let span = Gap { from: from.gap.from, until: until.gap.until };
        let mut counted = 0;
        for one in made.iter().filter(|one| one.from > span.from + SLACK && one.until + SLACK < span.until) {
            let within: Vec<&Named> = gaps_in(gaps, one.from - SLACK, one.until + SLACK);
            let was_away = |named: &&Named| named.gap.from + SLACK < one.from && named.gap.until > one.from;
            if !one.came || within.iter().any(was_away) {
                self.away += 1;
                continue;
            }
            let named = within.iter().any(|named| one.is_called(kind, &named.verdict.cause));
            self.made += 1;
            self.seen += u64::from(!within.is_empty());
            let parts = || within.iter().flat_map(|named| &named.verdict.parts);
            let beside = !named && parts().any(|(cause, _)| one.is_called(kind, cause));
            self.named += u64::from(named);
            self.beside += u64::from(beside);
            if !named && !beside && self.miscalled.len() < 8 {
                let called: Vec<String> = within.iter().map(|named| told(named)).collect();
                let called = if called.is_empty() { "no gap".to_owned() } else { called.join("; ") };
                self.miscalled.push(format!("{:.3} s: {called}", (one.from - span.from) as f64 / 1e9));
            }
            self.made_nanos += one.nanos;
            // A gap may be that of several.
            let new = within.iter().filter(|named| named.gap.from >= counted);
            let new = new.flat_map(|named| &named.verdict.parts);
            self.found_nanos +=
                new.filter(|(cause, _)| one.is_called(kind, cause)).map(|(_, nanos)| nanos).sum::<u64>();
            counted = within.last().map_or(counted, |last| last.gap.until);
        }
    }
}

/// What a gap went to, in words.
fn told(named: &Named) -> String {
    let part = |(cause, nanos): &(noise::Cause, u64)| format!("{cause} {}", noise::nanos(*nanos as f64));
    named.verdict.parts.iter().map(part).collect::<Vec<String>>().join(" + ")
}

/// Gaps that overlap a time; they are in their order.
fn gaps_in(gaps: &[Named], from: u64, until: u64) -> Vec<&Named> {
    let first = gaps.partition_point(|named| named.gap.until < from);
    gaps.iter().skip(first).take_while(|named| named.gap.from <= until).collect()
}

fn print(all: &[Found], core: u16) {
    println!("disturbances made on core {core}, and what they were called");
    println!(
        "{:<24} {:>7} {:>7} {:>7} {:>7} {:>7} {:>8}  {:>9} {:>9} {:>6}",
        "", "away", "made", "seen", "named", "beside", "share", "made", "found", "ratio"
    );
    for found in all {
        if let Some(why) = &found.left_out {
            println!("{:<24} left out: {why}", found.kind);
            continue;
        }
        let share = (found.named + found.beside) as f64 / found.made.max(1) as f64 * 100.0;
        let ratio = found.found_nanos as f64 / found.made_nanos.max(1) as f64;
        println!(
            "{:<24} {:>7} {:>7} {:>7} {:>7} {:>7} {share:>6.1} %  {:>9} {:>9} {ratio:>6.3}",
            found.kind,
            found.away,
            found.made,
            found.seen,
            found.named,
            found.beside,
            noise::nanos(found.made_nanos as f64),
            noise::nanos(found.found_nanos as f64),
        );
        for called in &found.miscalled {
            println!("{:<24} called instead: {called}", "");
        }
    }
    println!("away: the core was somebody else's when it came, which is not counted");
    println!("named: a gap is called so; beside: something took longer in the same gap, and it is among its parts");
    println!("promised: {:.0} % named rightly; a FIFO thread's time within {:.0} %", NAMED * 100.0, TIME * 100.0);
}

#[cfg(test)]
mod tests {
    use super::*;
    use noise::{Attribution, Cause};

    fn gap(from: u64, nanos: u64, cause: Cause) -> Named {
        let verdict =
            Attribution { cause: cause.clone(), parts: vec![(cause, nanos)], interrupted: vec![], incomplete: false };
        Named { gap: Gap { from, until: from + nanos }, verdict }
    }

    #[test]
    fn what_was_made_is_held_against_what_it_was_called() {
        let ms = 1_000_000;
        let fifo = |thread| Cause::Thread { thread, name: "x".into(), work: None };
        let gaps = [
            gap(ms, 1_000, Cause::Tick),
            gap(10 * ms, 200_000, fifo(7)),
            gap(20 * ms, 200_000, fifo(8)),
            gap(30 * ms, 190_000, fifo(7)),
            gap(50 * ms, 1_000, Cause::Tick),
        ];
        let at = |from: u64| Disturbance { from, until: from + 200_000, nanos: 200_000, thread: Some(7), came: true };
        // The last one came when the loop was gone.
        let spared = Disturbance { came: false, ..at(45 * ms) };
        let made = [at(10 * ms), at(20 * ms), at(30 * ms), at(40 * ms), spared, at(60 * ms)];
        let mut found = Found::default();
        found.judge(DisturbanceKind::Fifo, &made, &gaps);
        assert_eq!((found.made, found.seen, found.named, found.away), (4, 3, 2, 1));
        assert_eq!((found.made_nanos, found.found_nanos), (800_000, 390_000));
        assert_eq!(found.miscalled, ["0.019 s: thread x (8) 200 us", "0.039 s: no gap"]);
        assert!(!found.keeps(DisturbanceKind::Fifo));
        let good = Found { made: 100, named: 95, made_nanos: 100, found_nanos: 91, ..Found::default() };
        assert!(good.keeps(DisturbanceKind::Fifo) && good.keeps(DisturbanceKind::Timer));
        assert!(!Found { found_nanos: 80, ..good.clone() }.keeps(DisturbanceKind::Fifo));
        assert!(!Found { named: 94, ..good }.keeps(DisturbanceKind::Timer));
    }
}
