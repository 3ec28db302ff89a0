//! `nearside packet forward`: threads that poll, and what they tell.

use crate::ends::{self, OverLinks};
use crate::load::{made, replay, surroundings};
use crate::pages::keep_page;
use crate::published::{ThreadCycles, publish, tell};
use crate::{ForwardPlan, place};
use cpu::{Clock, Ticks};
use environment::{ResultKind, SCHEMA};
use figures::si;
use host::stop_signals;
use link::{Link, LinkState};
use packet::forward::{Cycles, Forwarder, Snapshot, statistics};
use packet::verdict::Validity;
use page::Writer;
use say::{Failure, eprintln, print, println};
use serde_json::{Value, json};
use std::io::IsTerminal;
use std::process::ExitCode;
use std::sync::Mutex;
use std::sync::PoisonError;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;
use wire::Time;

/// Turns between two looks at what is beside the packet path: with frames in
/// every turn, some 100 us.
const TURNS: u32 = 128;

/// How often links are looked after, and counts are told.
const LOOK_EVERY: Duration = Duration::from_millis(1);
const TELL_EVERY: Duration = Duration::from_millis(50);

/// How long the clock is measured before anything else.
const CALIBRATION: Duration = Duration::from_millis(50);

/// How long a look for a signal may be late.
const NAP: Duration = Duration::from_millis(20);

/// Forwards until it is told to end, and prints the statistics.
///
/// # Errors
/// What the user is to know.
pub fn forward(plan: &ForwardPlan) -> Result<ExitCode, Failure> {
    place::consider(&plan.pace)?;
    let signals = stop_signals()?;
    let ticks = Ticks::calibrate(CALIBRATION);
    let threads = plan.pace.cores.len();
    let room = Room {
        plan,
        ticks,
        stop: AtomicBool::new(false),
        told: (0..threads).map(|_| Mutex::new(Snapshot::default())).collect(),
        up: (0..threads).map(|_| AtomicUsize::new(0)).collect(),
    };
    let (snapshot, lasted) = ends::over(&plan.links, threads, Forwarding { room: &room, signals: &signals })?;
    let value = to_json(plan, &snapshot, ticks, lasted);
    if let Some(path) = &plan.out {
        results::write_whole(path, &format!("{value:#}\n"))?;
    }
    keep_page(plan.html.as_deref(), &value)?;
    if plan.json {
        println!("{value:#}");
    } else {
        print!("{}", statistics(&snapshot));
    }
    Ok(ExitCode::SUCCESS)
}

/// Threads that forward until they are told to end.
struct Forwarding<'a> {
    room: &'a Room<'a>,
    signals: &'a AtomicUsize,
}

impl OverLinks for Forwarding<'_> {
    type Outcome = (Snapshot, Duration);

    fn run<L: Link + Send>(self, links: Vec<Vec<L>>) -> Result<Self::Outcome, Failure> {
        self.room.run(links, self.signals)
    }
}

/// What all threads have in common.
struct Room<'a> {
    plan: &'a ForwardPlan,
    ticks: Ticks,
    stop: AtomicBool,
    told: Vec<Mutex<Snapshot>>,
    /// Links of each thread that have a peer, or a carrier.
    up: Vec<AtomicUsize>,
}

impl Room<'_> {
    /// Runs a thread for each set of links; what all of them counted.
    fn run<L: Link + Send>(&self, links: Vec<Vec<L>>, signals: &AtomicUsize) -> Result<(Snapshot, Duration), Failure> {
        let began = Clock.now();
        let label = format!("packet forward, {}", self.plan.settings.mode.name());
        // It goes with the last thread.
        let (_page, writers) = publish(&label, links.len(), true).unzip();
        let mut writers = writers.unwrap_or_default().into_iter();
        let outcome = thread::scope(|scope| {
            let start = |(index, links): (usize, Vec<L>)| {
                let name = format!("near-fwd-{index}");
                let writer = writers.next();
                thread::Builder::new().name(name).spawn_scoped(scope, move || self.poll(index, links, writer))
            };
            let threads = links.into_iter().enumerate().map(start).collect::<Result<Vec<_>, _>>();
            self.watch(signals, began);
            self.stop.store(true, Ordering::Relaxed);
            let mut failed = None;
            for thread in threads? {
                match thread.join() {
                    Ok(Ok(())) => {}
                    Ok(Err(why)) => failed = Some(why),
                    Err(_) => failed = Some("a forwarding thread panicked".to_owned()),
                }
            }
            failed.map_or(Ok(()), |why| Err(Failure::from(why)))
        });
        outcome.map(|()| (self.sum(), Clock.now().since(began)))
    }

    fn sum(&self) -> Snapshot {
        let mut sum = Snapshot::default();
        for told in &self.told {
            sum.merge(&told.lock().unwrap_or_else(PoisonError::into_inner));
        }
        sum
    }

    /// Waits for the end, and writes lines on the way.
    fn watch(&self, signals: &AtomicUsize, began: Time) {
        let terminal = std::io::stderr().is_terminal();
        let usual = if terminal { Duration::from_secs(1) } else { Duration::ZERO };
        let period = self.plan.stats_period.unwrap_or(usual);
        let (mut last, mut last_at) = (Snapshot::default(), began);
        while signals.load(Ordering::Relaxed) == 0 && !self.stop.load(Ordering::Relaxed) {
            thread::sleep(NAP);
            let now = Clock.now();
            if self.plan.duration.is_some_and(|duration| now.since(began) >= duration) {
                return;
            }
            if !period.is_zero() && now.since(last_at) >= period {
                let sum = self.sum();
                let up: usize = self.up.iter().map(|up| up.load(Ordering::Relaxed)).sum();
                let links = self.plan.links.len() * self.up.len();
                eprintln!("{}", line(&sum, &last, now.since(last_at), (up, links)));
                (last, last_at) = (sum, now);
            }
        }
    }

    /// One thread's loop. It never sleeps.
    fn poll<L: Link>(&self, index: usize, mut links: Vec<L>, mut writer: Option<Writer>) -> Result<(), String> {
        let ended = place::settle(&self.plan.pace, index);
        if ended.is_err() {
            self.stop.store(true, Ordering::Relaxed);
            return ended;
        }
        let mut forwarder = Forwarder::new(self.plan.settings.clone());
        let mut cycles = Cycles { hz: self.ticks.hz(), ..Cycles::default() };
        let mut now = Clock.now();
        let (mut look_at, mut tell_at) = (now, now);
        let mut before = self.ticks.now();
        loop {
            for _ in 0..TURNS {
                let frames = forwarder.turn(&mut links, now);
                let after = self.ticks.now();
                let took = after.wrapping_sub(before);
                before = after;
                cycles.total += took;
                if frames > 0 {
                    cycles.busy += took;
                }
            }
            now = Clock.now();
            let stop = self.stop.load(Ordering::Relaxed);
            if now >= look_at {
                look_at = now + LOOK_EVERY;
                let states = links.iter_mut().map(|link| link.poll_control(now));
                let up = states.filter(|state| *state == LinkState::Up).count();
                self.up[index].store(up, Ordering::Relaxed);
            }
            if now >= tell_at || stop {
                tell_at = now + TELL_EVERY;
                self.tell(index, &forwarder, &links, (cycles, now, writer.as_mut()));
            }
            if stop {
                return Ok(());
            }
            // What was done beside the packet path is no forwarding.
            before = self.ticks.now();
        }
    }

    fn tell<L: Link>(
        &self,
        index: usize,
        forwarder: &Forwarder,
        links: &[L],
        (cycles, now, writer): (Cycles, Time, Option<&mut Writer>),
    ) {
        let dropped = links.iter().map(|link| {
            let counters = link.counters();
            (counters.rx_dropped, counters.tx_dropped)
        });
        let mut told = self.told[index].lock().unwrap_or_else(PoisonError::into_inner);
        told.lanes.clear();
        told.lanes.extend_from_slice(&forwarder.lanes[..links.len()]);
        told.link_dropped.clear();
        told.link_dropped.extend(dropped);
        told.cycles = cycles;
        if let Some(writer) = writer {
            // What the forwarder dropped itself: no room, or not to be passed on.
            let dropped = told.lanes.iter().map(|lane| lane.no_room.iter().sum::<u64>()).sum();
            let busy_ns = (u128::from(cycles.busy) * 1_000_000_000 / u128::from(cycles.hz.max(1))) as u64;
            let spent = ThreadCycles { busy_ns, busy_cycles: cycles.busy, total_cycles: cycles.total };
            tell(writer, now, links, (0, dropped), spent);
        }
    }
}

/// What passed since the last line.
fn line(sum: &Snapshot, last: &Snapshot, span: Duration, (up, links): (usize, usize)) -> String {
    let seconds = span.as_secs_f64().max(1e-9);
    let rate = |now: u64, before: u64| si(now.saturating_sub(before) as f64 / seconds, "/s");
    let before = last.ports();
    let ports = sum.ports().into_iter().enumerate().map(|(index, port)| {
        let old = before.get(index).copied().unwrap_or_default();
        let dropped = (port.rx_dropped + port.tx_dropped).saturating_sub(old.rx_dropped + old.tx_dropped);
        format!(
            "port {index}: rx {} tx {} dropped {dropped}",
            rate(port.rx_packets, old.rx_packets),
            rate(port.tx_packets, old.tx_packets)
        )
    });
    let ports: Vec<String> = ports.collect();
    let busy = sum.cycles.busy.saturating_sub(last.cycles.busy) as f64;
    let total = sum.cycles.total.saturating_sub(last.cycles.total).max(1) as f64;
    let down = if up < links { format!(", {} of {links} links down", links - up) } else { String::new() };
    format!("{}, busy {:.0} %{down}", ports.join(", "), 100.0 * busy / total)
}

/// Where nothing came and nothing went, there is no figure; what was asked for a time and ended before has a part.
fn verdict(asked: Option<Duration>, snapshot: &Snapshot, lasted: Duration) -> Validity {
    let mut verdict = Validity::default();
    if let Some(asked) = asked.filter(|asked| lasted < *asked) {
        verdict.lacks(format!("it ended early: after {:.1} s of {:.1} s", lasted.as_secs_f64(), asked.as_secs_f64()));
    }
    if snapshot.packets() == (0, 0) {
        verdict.fails("no frame came, and none went: nothing was measured");
    }
    verdict
}

fn to_json(plan: &ForwardPlan, snapshot: &Snapshot, ticks: Ticks, lasted: Duration) -> Value {
    let bursts = |bursts: &packet::forward::Bursts| -> Vec<(usize, u64)> { bursts.sizes().collect() };
    let ports = snapshot.ports();
    let ports: Vec<_> = plan
        .links
        .iter()
        .zip(ports.iter().zip(&snapshot.lanes))
        .map(|(link, (totals, lane))| {
            json!({
                "link": link.name(),
                "totals": totals,
                "refused": lane.refused,
                "rx_bursts": bursts(&lane.bursts),
                "tx_bursts": bursts(&lane.sent_bursts),
            })
        })
        .collect();
    json!({
        "kind": ResultKind::PacketForward,
        "schema": SCHEMA,
        "command": replay(),
        "made": made(),
        "verdict": verdict(plan.duration, snapshot, lasted),
        "environment": surroundings(&plan.links),
        "mode": plan.settings.mode.name(),
        "burst": plan.settings.burst,
        "threads": plan.pace.cores.len(),
        "duration_ns": u64::try_from(lasted.as_nanos()).unwrap_or(u64::MAX),
        "ports": ports,
        "cycles": snapshot.cycles,
        "cycles_per_packet": snapshot.cycles_per_packet(),
        "clock": { "source": format!("{:?}", ticks.source()).to_lowercase(), "hz": ticks.hz() },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_ended_before_its_time_says_so() {
        let of = |asked, lasted| verdict(asked, &Snapshot::default(), Duration::from_secs(lasted)).reasons;
        let early = of(Some(Duration::from_secs(60)), 44);
        assert!(early.iter().any(|why| why == "it ended early: after 44.0 s of 60.0 s"), "{early:?}");
        assert_eq!((of(None, 44).len(), of(Some(Duration::from_secs(44)), 44).len()), (1, 1), "nothing came");
    }
}
