//! Statistics as testpmd prints them, so that its users find their way, and
//! programs that read testpmd's output read ours.

use super::counts::{Bursts, PortTotals, Snapshot};
use core::fmt::Write;

/// The sizes that are named, of those that occurred; the rest is one share.
const NAMED: usize = 3;

/// The forward statistics of all ports.
#[must_use]
pub fn statistics(snapshot: &Snapshot) -> String {
    let mut out = String::new();
    let mut all = PortTotals::default();
    for (index, port) in snapshot.ports().iter().enumerate() {
        let _ = writeln!(out, "\n  ---------------------- Forward statistics for port {index}  ----------------------");
        totals(&mut out, port);
        let lane = &snapshot.lanes[index];
        bursts(&mut out, "RX", &lane.bursts);
        bursts(&mut out, "TX", &lane.sent_bursts);
        let refused = &lane.refused;
        for (name, count) in [
            ("too long for the other link", refused.too_long),
            ("without a route", refused.no_route),
            ("hop limit reached", refused.expired),
            ("Bad-ipcsum", refused.bad_ip_checksum),
            ("Bad-l4csum", refused.bad_l4_checksum),
            ("taken by the mode", refused.consumed),
        ] {
            if count > 0 {
                let _ = writeln!(out, "  {name}: {count}");
            }
        }
        let _ = writeln!(out, "  {}", "-".repeat(76));
        all.rx_packets += port.rx_packets;
        all.rx_dropped += port.rx_dropped;
        all.tx_packets += port.tx_packets;
        all.tx_dropped += port.tx_dropped;
    }
    let _ = writeln!(out, "\n  +++++++++++++++ Accumulated forward statistics for all ports+++++++++++++++");
    totals(&mut out, &all);
    let _ = writeln!(out, "  {}", "+".repeat(76));
    cycles(&mut out, snapshot);
    out
}

fn totals(out: &mut String, port: &PortTotals) {
    for (side, packets, dropped) in [("RX", port.rx_packets, port.rx_dropped), ("TX", port.tx_packets, port.tx_dropped)]
    {
        let total = packets + dropped;
        let _ = writeln!(out, "  {side}-packets: {packets:<14} {side}-dropped: {dropped:<13} {side}-total: {total}");
    }
}

/// `RX-bursts : 770000000 [82% of 0 pkts + 18% of 1 pkts]`
fn bursts(out: &mut String, side: &str, bursts: &Bursts) {
    let total = bursts.total();
    if total == 0 {
        return;
    }
    let mut sizes: Vec<(usize, u64)> = bursts.sizes().collect();
    sizes.sort_by_key(|(size, count)| (core::cmp::Reverse(*count), *size));
    let share = |count: u64| 100.0 * count as f64 / total as f64;
    let named = sizes.iter().take(NAMED).map(|(size, count)| format!("{:.0}% of {size} pkts", share(*count)));
    let mut parts: Vec<String> = named.collect();
    let rest: u64 = sizes.iter().skip(NAMED).map(|(_, count)| count).sum();
    if rest > 0 {
        parts.push(format!("{:.0}% of others", share(rest)));
    }
    let _ = writeln!(out, "  {side}-bursts : {total} [{}]", parts.join(" + "));
}

fn cycles(out: &mut String, snapshot: &Snapshot) {
    let Some(each) = snapshot.cycles_per_packet() else { return };
    let (received, sent) = snapshot.packets();
    let (what, packets) = if received > 0 { ("RX", received) } else { ("TX", sent) };
    let cycles = snapshot.cycles;
    let busy = 100.0 * cycles.busy as f64 / cycles.total.max(1) as f64;
    let _ = writeln!(
        out,
        "\n  CPU cycles/packet={each:.2} (busy cycles={} / total {what} packets={packets}) at {} MHz Clock\n  busy for \
         {busy:.1}% of {} cycles",
        cycles.busy,
        (cycles.hz + 500_000) / 1_000_000,
        cycles.total
    );
}
