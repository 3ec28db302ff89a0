//! What was measured, for people and for programs.

use super::OfferedRow;
use super::contender::{Contender, Kind};
use crate::kernel::{spread, word};
use demo::measure::thousands;
use demo::stand::OTHERS;
use serde::Serialize;

/// What one measurement gave: times in microseconds.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct Sample {
    /// Answers in a second.
    pub(super) rate: f64,
    /// Of the server's core for a request: its processes, and softirq beyond them.
    pub(super) cost: f64,
    /// Of that, softirq.
    pub(super) softirq: f64,
    /// Sleeps for a request.
    pub(super) wakeups: f64,
    /// What is left of the core.
    pub(super) left: f64,
    pub(super) p50: f64,
    pub(super) p99: f64,
    /// Other programs' share of either core.
    pub(super) others: f64,
    pub(super) errors: u64,
}

/// One row at one load.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub(super) struct Table {
    row: &'static str,
    /// Percent of nginx's best, where the rate comes of that.
    load_percent: Option<u32>,
    /// Requests offered in a second.
    rate: u32,
    servers: Vec<Entry>,
}

/// A server's medians.
#[derive(Clone, PartialEq, Debug, Serialize)]
struct Entry {
    server: String,
    rate: f64,
    us_per_request: f64,
    softirq_us_per_request: f64,
    /// Its share of nginx's time by turns: median, least, largest.
    of_nginx: [f64; 3],
    wakeups_per_request: f64,
    calls_per_request: Option<f64>,
    core_left: f64,
    p50_us: f64,
    p99_us: f64,
    others: f64,
    errors: u64,
    /// What its share is to be at most, and whether it was.
    bound: Option<(f64, bool)>,
}

/// Less of what is offered than this was not carried.
const CARRIED: f64 = 0.98;

impl Table {
    /// Of samples by contender, nginx's first.
    pub(super) fn new(
        row: OfferedRow,
        (load_percent, rate): (Option<u32>, u32),
        contenders: &[Contender],
        samples: &[Vec<Sample>],
        calls: &[Option<f64>],
    ) -> Self {
        let nginx = samples.first().map_or(&[][..], Vec::as_slice);
        let entry = |((contender, samples), calls): ((&Contender, &Vec<Sample>), &Option<f64>)| {
            let middle = |value: fn(&Sample) -> f64| spread(samples.iter().map(value).collect()).1;
            let shares = samples.iter().zip(nginx).map(|(own, nginx)| own.cost / nginx.cost).collect();
            let (low, share, high) = spread(shares);
            let ours = matches!(contender.kind, Kind::Ours { idle: None } | Kind::OursByIoUring);
            let errors = samples.iter().map(|sample| sample.errors).sum();
            let carried = middle(|sample| sample.rate) >= CARRIED * f64::from(rate);
            let keeps = |bound| (bound, share <= bound && errors == 0 && carried);
            Entry {
                server: contender.name.clone(),
                rate: middle(|sample| sample.rate),
                us_per_request: middle(|sample| sample.cost),
                softirq_us_per_request: middle(|sample| sample.softirq),
                of_nginx: [share, low, high],
                wakeups_per_request: middle(|sample| sample.wakeups),
                calls_per_request: *calls,
                core_left: middle(|sample| sample.left),
                p50_us: middle(|sample| sample.p50),
                p99_us: middle(|sample| sample.p99),
                others: middle(|sample| sample.others),
                errors,
                bound: row.bound(contender.link).filter(|_| ours).map(keeps),
            }
        };
        let servers = contenders.iter().zip(samples).zip(calls).map(entry).collect();
        Self { row: row.title(), load_percent, rate, servers }
    }

    pub(super) fn is_kept(&self) -> bool {
        self.servers.iter().all(|entry| entry.bound.is_none_or(|(_, kept)| kept))
    }

    pub(super) fn print(&self, rounds: u32) {
        let load = self.load_percent.map(|load| format!(" ({load} % of nginx's best)")).unwrap_or_default();
        println!("{}: {} requests/s{load}, medians of {rounds} rounds by turns", self.row, thousands(self.rate.into()));
        println!(
            "  {:24} {:>9} {:>6} {:>7} {:>6} {:>7} {:>8} {:>8}  of nginx's time",
            "", "us each", "irq", "sleeps", "calls", "left", "p50", "p99"
        );
        for entry in &self.servers {
            let Entry {
                server, us_per_request: each, softirq_us_per_request: irq, wakeups_per_request: sleeps, ..
            } = entry;
            let calls = entry.calls_per_request.map_or_else(|| "-".to_owned(), |calls| format!("{calls:.2}"));
            let [share, low, high] = entry.of_nginx;
            let bound =
                entry.bound.map(|(bound, kept)| format!(", at most {bound}: {}", word(kept))).unwrap_or_default();
            let carried = if entry.rate < CARRIED * f64::from(self.rate) {
                format!("  CARRIED ONLY {}", thousands(entry.rate))
            } else {
                String::new()
            };
            let errors = if entry.errors > 0 { format!("  {} ERRORS", entry.errors) } else { String::new() };
            println!(
                "  {server:24} {each:>9.2} {irq:>6.2} {sleeps:>7.2} {calls:>6} {:>6.1}% {:>5.0} us {:>5.0} us  \
                 {share:.2} ({low:.2} to {high:.2}){bound}{carried}{errors}",
                100.0 * entry.core_left,
                entry.p50_us,
                entry.p99_us,
            );
        }
        let others = self.servers.iter().map(|entry| entry.others).fold(0.0, f64::max);
        if others >= OTHERS {
            println!("  Other programs had {:.0} % of a core: latencies are theirs as well.", 100.0 * others);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use demo::field::Link;

    fn sample(cost: f64, errors: u64) -> Sample {
        let (wakeups, left, p50, p99, softirq, others) = (1.0, 0.5, 30.0, 60.0, 1.0, 0.0);
        Sample { rate: 1_000.0, cost, softirq, wakeups, left, p50, p99, others, errors }
    }

    fn table(ours: [f64; 3], errors: u64, rate: u32) -> Table {
        let kinds = [("nginx", Kind::Nginx), ("sockets", Kind::Ours { idle: None })];
        let contenders = kinds.map(|(name, kind)| Contender { name: name.to_owned(), link: Link::Kernel, kind });
        let samples =
            [vec![sample(10.0, 0), sample(20.0, 0), sample(30.0, 0)], ours.map(|cost| sample(cost, errors)).to_vec()];
        Table::new(OfferedRow::File, (Some(5), rate), &contenders, &samples, &[None, Some(2.0)])
    }

    #[test]
    fn shares_are_taken_turn_by_turn_and_held_against_the_bound() {
        let kept = table([7.0, 15.0, 21.0], 0, 1_000);
        assert!(kept.is_kept());
        assert!((kept.servers[1].of_nginx[0] - 0.7).abs() < 1e-9, "{kept:?}");
        assert!(!table([7.0, 16.0, 24.0], 0, 1_000).is_kept(), "0.8 of nginx's");
        assert!(!table([7.0, 15.0, 21.0], 1, 1_000).is_kept(), "a request failed");
        assert!(!table([7.0, 15.0, 21.0], 0, 1_100).is_kept(), "it did not carry what was offered");
    }
}
