//! What was measured of the servers, as a table, and held against bounds.

use super::{Bounds, Row};
use crate::client::Sample;
use demo::measure::thousands;
use stats::{Centre, Design, Effect, effect, median};

/// For the resampling behind intervals.
const SEED: u64 = 0x6b65_726e;

/// One server's figures over one row's rounds.
pub(super) struct Entry<'a> {
    pub(super) name: &'a str,
    pub(super) samples: &'a [Sample],
}

/// A candidate's figure ÷ a baseline's, by the medians over the rounds, with
/// the interval of 95 %; of fewer than five rounds, least and largest.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct Ratio {
    pub(crate) ratio: f64,
    pub(crate) low: f64,
    pub(crate) high: f64,
}

impl Ratio {
    pub(crate) fn of(above: &[Sample], below: &[Sample], value: fn(&Sample) -> f64) -> Self {
        let values = |samples: &[Sample]| samples.iter().map(value).collect::<Vec<_>>();
        let (above, below) = (values(above), values(below));
        let rounds = above.iter().zip(&below).map(|(above, below)| above / below);
        let (least, most) = rounds.fold((f64::INFINITY, 0.0_f64), |(least, most), r| (least.min(r), most.max(r)));
        match effect(&above, &below, Centre::Median, Design::Rounds, SEED) {
            Some(Effect { ratio, interval, .. }) => {
                let (low, high) = interval.unwrap_or((least, most));
                Self { ratio, low, high }
            }
            None => Self { ratio: f64::NAN, low: f64::NAN, high: f64::NAN },
        }
    }
}

impl core::fmt::Display for Ratio {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "{:.2} ({:.2} to {:.2})", self.ratio, self.low, self.high)
    }
}

/// Prints what one client measured of one row. Returns for each but the first
/// whether its bounds hold.
pub(super) fn print(row: &Row, client: &str, bounds: Bounds, entries: &[Entry<'_>]) -> Vec<bool> {
    println!("\n{}, asked by {client}", row.title);
    println!(
        "  {:10} {:>11} {:>10} {:>8} {:>8} {:>7} {:>7}  {:>11}",
        "", "requests/s", "p99", "process", "softirq", "client", "others", "CPU/request"
    );
    let [nginx, ours @ ..] = entries else { return Vec::new() };
    print_samples(nginx);
    let mut kept = Vec::new();
    for entry in ours {
        print_samples(entry);
        kept.push(hold(bounds, nginx.samples, entry.samples));
    }
    if let [first, others @ ..] = ours {
        for other in others {
            between(first, other);
        }
    }
    kept
}

fn print_samples(entry: &Entry<'_>) {
    let of = |value: fn(&Sample) -> f64| median(&entry.samples.iter().map(value).collect::<Vec<_>>());
    let (rate, p99) = (thousands(of(|sample| sample.rate)), of(|sample| sample.p99));
    let share = |value: fn(&Sample) -> f64| 100.0 * of(value);
    let (server, softirq) = (share(|s| s.server), share(|s| s.softirq));
    let (client, others) = (share(|s| s.client), share(|s| s.others));
    let cost = of(Sample::cost);
    let errors: u64 = entry.samples.iter().map(|sample| sample.errors).sum();
    let errors = if errors > 0 { format!("  {errors} ERRORS") } else { String::new() };
    let shares = format!("{server:>7.0}% {softirq:>7.0}% {client:>6.0}% {others:>6.0}%");
    println!("  {:10} {rate:>11} {p99:>7.0} us {shares}  {cost:>8.2} us{errors}", entry.name);
}

/// Prints how one server stands to nginx. Whether the bounds hold.
fn hold(bounds: Bounds, nginx: &[Sample], ours: &[Sample]) -> bool {
    let rate = Ratio::of(ours, nginx, |sample| sample.rate);
    let work = Ratio::of(ours, nginx, |sample| 1.0 / sample.cost());
    let p99 = Ratio::of(ours, nginx, |sample| sample.p99);
    let clean = ours.iter().chain(nginx).all(|sample| sample.errors == 0);
    let lines = [
        ("requests/s", rate, bounds.rate.map(|least| (format!("at least {least}"), rate.ratio >= least && clean))),
        (
            "",
            rate,
            bounds.rate_low.map(|least| (format!("at least {least} at its lower end"), rate.low >= least && clean)),
        ),
        (
            "requests per server CPU",
            work,
            bounds.work.map(|least| (format!("at least {least}"), work.ratio >= least && clean)),
        ),
        ("p99", p99, bounds.p99.map(|most| (format!("at most {most}"), p99.ratio <= most && clean))),
    ];
    let mut kept = true;
    for (what, ratio, bound) in lines {
        let bound = bound.map(|(text, held)| {
            kept &= held;
            format!("{text}: {}", super::word(held))
        });
        match (what, bound) {
            ("", None) => {}
            ("", Some(bound)) => println!("             {:23}  {bound}", ""),
            (what, bound) => println!(
                "             {what:23}  {ratio} times nginx's{}",
                bound.map(|b| format!(", {b}")).unwrap_or_default()
            ),
        }
    }
    kept
}

/// Prints how one engine stands to another: worse is what its interval puts
/// below.
fn between(first: &Entry<'_>, other: &Entry<'_>) {
    let rate = Ratio::of(other.samples, first.samples, |sample| sample.rate);
    let work = Ratio::of(other.samples, first.samples, |sample| 1.0 / sample.cost());
    let verdict = |ratio: Ratio| if ratio.high < 1.0 { "WORSE" } else { "no worse beyond noise" };
    println!(
        "  {} against {}: requests/s {rate}, {}; requests per server CPU {work}, {}",
        other.name,
        first.name,
        verdict(rate),
        verdict(work)
    );
}
