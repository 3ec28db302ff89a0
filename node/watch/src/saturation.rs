//! What was at its limit first, in words.

use crate::change::{Change, Presence};
use crate::show::clock;

/// From what share on something counts as full.
const FULL: f64 = 0.97;

/// Less memory than this share is none.
const MEMORY_LEFT: f64 = 0.03;

/// Segments that are sent again in this share of those sent.
const AGAIN: f64 = 0.01;

/// What was full, in the order in which it became so.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Saturation {
    found: Vec<Found>,
}

/// One thing that was full.
#[derive(Clone, PartialEq, Debug)]
struct Found {
    key: String,
    unix_ms: u64,
    text: String,
    /// How many intervals it was.
    intervals: u64,
}

/// Things told of; machines with thousands of cores fill at once.
const FOUND_LIMIT: usize = 32;

impl Saturation {
    /// Looks at the next change.
    pub fn on_change(&mut self, change: &Change) {
        for (key, text) in full(change) {
            let room = self.found.len() < FOUND_LIMIT;
            match self.found.iter_mut().find(|found| found.key == key) {
                Some(found) => found.intervals += 1,
                None if room => {
                    self.found.push(Found { key, unix_ms: change.unix_ms, text, intervals: 1 });
                }
                None => {}
            }
        }
    }

    /// What was full first, and what then; that nothing was.
    #[must_use]
    pub fn words(&self) -> String {
        let Some((first, later)) = self.found.split_first() else {
            return "nothing was at its limit".to_owned();
        };
        let mut text = format!(
            "first at its limit, at {} UTC: {} (in {} of the intervals)",
            clock(first.unix_ms),
            first.text,
            first.intervals
        );
        for (at, found) in later.iter().take(4).enumerate() {
            let word = if at == 0 { "; then" } else { "," };
            text += &format!("{word} {} at {}", found.text, clock(found.unix_ms));
        }
        match later.len().checked_sub(4) {
            None | Some(0) => {}
            Some(more) => text += &format!(", and {more} more"),
        }
        text
    }
}

/// What is full in an interval: a key for each, and words. Those that stop
/// traffic by themselves stand first: of what fills in one interval they are the
/// cause.
fn full(change: &Change) -> Vec<(String, String)> {
    let mut found = Vec::new();
    let value = |key: &str| change.machine.get(key).and_then(crate::change::Figure::value).unwrap_or(0.0);
    for row in
        change.bypass.iter().filter_map(|row| Some((row, row.busiest.value()?))).filter(|(_, busy)| *busy >= FULL)
    {
        let (row, busy) = row;
        found.push((
            format!("silo {}", row.pid),
            format!("a silo of {} ({}) worked {:.0} % of the time", row.pid, row.label, busy * 100.0),
        ));
    }
    for port in change.ports.iter().filter(|port| port.used.value().is_some_and(|used| used >= FULL)) {
        let used = port.used.value().unwrap_or(1.0) * 100.0;
        found.push((format!("port {}", port.name), format!("the link {} was {used:.0} % used", port.name)));
    }
    for core in change.cores.iter().filter(|core| core.presence == Presence::Here && core.busy() >= FULL) {
        let soft = core.times[5] + core.times[4];
        let what = if soft >= 0.5 { format!(", {:.0} % of it in softirqs", soft * 100.0) } else { String::new() };
        found.push((
            format!("core {}", core.core),
            format!("core {} was {:.0} % busy{what}", core.core, core.busy() * 100.0),
        ));
    }
    for core in change.cores.iter().filter(|core| core.backlog_drops.value().unwrap_or(0.0) > 0.0) {
        found.push((
            format!("backlog {}", core.core),
            format!("the backlog of core {} dropped packets (net.core.netdev_max_backlog)", core.core),
        ));
    }
    if value("overflows") > 0.0 {
        found.push((
            "accept".to_owned(),
            "a queue of connections to accept overflowed (the backlog of listen, net.core.somaxconn)".to_owned(),
        ));
    }
    if let Some(total) =
        change.domains.iter().map(|row| row.memory).reduce(u64::saturating_add).filter(|total| *total > 0)
        && change
            .machine
            .get("memory_free")
            .and_then(crate::change::Figure::value)
            .is_some_and(|free| free / (total as f64) < MEMORY_LEFT)
    {
        found.push(("memory".to_owned(), "less than 3 % of memory was available".to_owned()));
    }
    for port in change.ports.iter().filter(|port| port.outward) {
        let dropped: f64 = port.drops.iter().filter_map(crate::change::Figure::value).sum();
        if dropped > 0.0 {
            found.push((format!("drops {}", port.name), format!("the interface {} dropped packets", port.name)));
        }
    }
    let sent = value("out_packets");
    if sent > 1_000.0 && value("retransmissions") > AGAIN * sent {
        found.push((
            "again".to_owned(),
            format!("{:.1} % of what was sent was sent again", value("retransmissions") / sent * 100.0),
        ));
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample::{CoreCounters, PortCounters, Sample};

    fn change(at: u64, busy: u64, soft: u64, bytes: u64) -> Change {
        let mut before = Sample { at: at * 1_000_000_000, ..Sample::default() };
        let mut now = Sample { at: (at + 1) * 1_000_000_000, unix_ms: (at + 1) * 1_000, ..Sample::default() };
        before.cores.insert(3, CoreCounters::default());
        now.cores.insert(
            3,
            CoreCounters { ticks: [busy, 0, 0, 100 - busy - soft, 0, 0, soft, 0, 0, 0], ..CoreCounters::default() },
        );
        let port =
            |bytes| PortCounters { bytes: [0, bytes], speed: Some(8_000), device: true, ..PortCounters::default() };
        before.ports.insert("eth0".into(), port(0));
        now.ports.insert("eth0".into(), port(bytes));
        Change::between(&before, &now).expect("time passed")
    }

    #[test]
    fn the_first_is_told_with_its_time_and_the_rest_in_order() {
        let mut saturation = Saturation::default();
        saturation.on_change(&change(0, 50, 10, 100));
        assert_eq!(saturation.words(), "nothing was at its limit");
        saturation.on_change(&change(1, 20, 79, 100));
        saturation.on_change(&change(2, 20, 79, 990));
        assert_eq!(
            saturation.words(),
            "first at its limit, at 00:00:02 UTC: core 3 was 99 % busy, 79 % of it in softirqs (in 2 of the intervals); then the \
             link eth0 was 99 % used at 00:00:03"
        );
    }

    #[test]
    fn of_one_interval_the_cause_is_first() {
        let mut saturation = Saturation::default();
        saturation.on_change(&change(1, 99, 0, 1_000));
        assert!(
            saturation
                .words()
                .contains("the link eth0 was 100 % used (in 1 of the intervals); then core 3 was 99 % busy")
        );
    }
}
