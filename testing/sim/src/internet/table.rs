//! The table of paths: what our stack makes of each.

use super::{Change, Flow, Internet, PathChange, Queue, Ran};
use core::fmt::Write;
use core::time::Duration;
use link::{Impairment, Probability};

/// A path by name, and from when on its flows are looked at.
pub(super) struct Row {
    pub name: &'static str,
    pub path: Internet,
    pub from: Duration,
}

const fn secs(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

const fn millis(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

/// So many flows that begin one after the other, this far apart.
fn flows(count: u32, apart: Duration) -> Vec<Flow> {
    (0..count).map(|index| Flow { at: apart * index, ..Flow::default() }).collect()
}

/// A path that nothing is amiss with, of this rate in Mbit/s, round trip in
/// milliseconds and queue in kB.
fn path(mbit: u64, rtt_ms: u64, queue_kb: u64) -> Internet {
    Internet {
        rate: Some(mbit * 1_000_000),
        rtt: millis(rtt_ms),
        queue: Queue::Bytes(queue_kb * 1_000),
        ..Internet::default()
    }
}

fn with_loss(percent: f64, path: Internet) -> Internet {
    Internet { there: Impairment { loss: Probability::new(percent / 100.0), ..Impairment::default() }, ..path }
}

/// Frames that are held back for up to half a round trip.
fn reordered(percent: f64, path: Internet) -> Internet {
    let reorder = Probability::new(percent / 100.0);
    Internet { there: Impairment { reorder, reorder_by: path.rtt / 2, ..Impairment::default() }, ..path }
}

fn changing(changes: &[(u64, PathChange)], path: Internet) -> Internet {
    let changes = changes.iter().map(|&(ms, what)| Change { at: millis(ms), what }).collect();
    Internet { changes, ..path }
}

/// An answer of 100 kB through a queue of so many packets.
fn answer(packets: u32) -> Internet {
    let flows = vec![Flow { bytes: 100_000, ..Flow::default() }];
    Internet { queue: Queue::Frames(packets), flows, ..path(20, 40, 0) }
}

/// Rows that take long, and are shown where they are asked for: flows that share a path and its
/// queue of one bandwidth-delay product, of which each has 20 segments or more.
fn long_rows() -> Vec<Row> {
    let row = |name, count, path| {
        let path = Internet { flows: flows(count, millis(50)), until: secs(80), ..path };
        Row { name, path, from: secs(20) }
    };
    vec![
        row("2 flows, 20 to 80 s", 2, path(20, 40, 100)),
        row("10 flows, 20 to 80 s", 10, path(24, 100, 300)),
        row("100 flows, 20 to 80 s", 100, path(240, 100, 3_000)),
    ]
}

/// The rows: what flows begin with, what they share, and what befalls them.
pub(super) fn rows() -> Vec<Row> {
    let row = |name, path, from| Row { name, path, from };
    let whole = |name, path| row(name, path, Duration::ZERO);
    vec![
        whole("start, 20M 40 ms, 100 kB", Internet { until: millis(2_500), ..path(20, 40, 100) }),
        whole("start, 100M 40 ms, 250 kB", Internet { until: millis(2_500), ..path(100, 40, 250) }),
        whole("100 kB through 10 packets", answer(10)),
        whole("100 kB through 20 packets", answer(20)),
        whole("100 kB through 50 packets", answer(50)),
        row(
            "2 flows at once",
            Internet { flows: flows(2, Duration::ZERO), until: secs(30), ..path(20, 40, 100) },
            secs(20),
        ),
        row("2 flows, 5 s apart", Internet { flows: flows(2, secs(5)), until: secs(30), ..path(10, 40, 50) }, secs(20)),
        row(
            "10 flows, 1 s apart",
            Internet { flows: flows(10, secs(1)), until: secs(30), ..path(30, 100, 375) },
            secs(20),
        ),
        whole("1 % loss, 20 ms", with_loss(1.0, path(100, 20, 125))),
        whole("1 % loss, 100 ms", with_loss(1.0, path(100, 100, 600))),
        whole("3 % loss, 40 ms", with_loss(3.0, path(20, 40, 100))),
        whole("5 % reordered, 40 ms", reordered(5.0, path(50, 40, 250))),
        whole("30 % reordered, 40 ms", reordered(30.0, path(50, 40, 250))),
        whole("upload of 50 MB, 100 ms", {
            Internet { flows: vec![Flow { bytes: 50_000_000, ..Flow::default() }], ..path(200, 100, 2_500) }
        }),
        row(
            "outage of 2 s",
            changing(&[(3_000, PathChange::Outage), (5_000, PathChange::Mended)], path(20, 40, 100)),
            secs(3),
        ),
        row("black hole at 1,400", changing(&[(3_000, PathChange::BlackHole(1_400))], path(20, 40, 100)), secs(3)),
        row(
            "black hole from the start",
            changing(&[(0, PathChange::BlackHole(1_400))], path(20, 40, 100)),
            Duration::ZERO,
        ),
        row(
            "route from 100 to 20 ms",
            changing(&[(4_000, PathChange::Route(millis(20)))], path(20, 100, 250)),
            secs(4),
        ),
        row(
            "route from 20 to 100 ms",
            changing(&[(4_000, PathChange::Route(millis(100)))], path(20, 20, 250)),
            secs(4),
        ),
    ]
}

/// Flows share fairly from this index on.
const FAIR: f64 = 0.95;
/// In each stretch of this.
const STRETCH: Duration = secs(5);

fn line(out: &mut String, row: &Row, ran: &Ran) {
    let to = ran.took;
    let sum = |count: fn(&tcp::Counters) -> u64| ran.flows.iter().map(|flow| count(&flow.counters)).sum::<u64>();
    let rate: f64 = ran.flows.iter().map(|flow| flow.goodput(row.from, to)).sum();
    let gap = ran.flows.iter().map(|flow| flow.longest_gap(row.from, to)).max().unwrap_or_default();
    // Before it opens a connection has none.
    let least = ran.flows.iter().flat_map(|flow| &flow.mss).filter(|mss| **mss > 0).min().copied().unwrap_or(0);
    let (jain, settled) = if ran.flows.len() > 1 {
        let settled = ran.convergence(FAIR, STRETCH).map_or("never".into(), |at| format!("{:.1}", at.as_secs_f64()));
        (format!("{:.3}", ran.jain(row.from, to)), settled)
    } else {
        ("-".into(), "-".into())
    };
    let _ = writeln!(
        out,
        "{:26} {:8.2} {:8.3} {:7} {:9.1} {:7} {:5} {:6.1} {:6} {jain:>6} {settled:>6}",
        row.name,
        rate / 1e6,
        to.as_secs_f64(),
        ran.drops(),
        ran.mean_queue() / 1e3,
        sum(|counters| counters.retransmits),
        sum(|counters| counters.timeouts),
        gap.as_secs_f64(),
        least,
    );
}

/// The table of paths, of those whose names have `part` in them; where all are asked for, without
/// those that take long.
#[must_use]
pub fn table(part: &str) -> String {
    let mut out = String::from(
        "# Flows over emulated paths, in virtual time. Rates are of payload, all flows together, from when the row\n\
         # says what befalls the path; drops are of the bottleneck's queue, whose mean is over the whole time; the gap\n\
         # is the longest time without a byte; fair is from when on Jain's index is 0.95 in any 5 s.\n\
         # path                       Mbit/s  seconds   drops  queue kB  resent   RTO  gap s    MSS   Jain   fair\n",
    );
    let long = if part.is_empty() { Vec::new() } else { long_rows() };
    for row in rows().into_iter().chain(long).filter(|row| row.name.contains(part)) {
        line(&mut out, &row, &row.path.run());
    }
    out
}
