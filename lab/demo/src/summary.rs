//! From rounds to rows: medians, ranges, and the ratio to nginx.

use crate::measure::{Contender, Latency, Measurement, PERCENTILES, Scenario};
use crate::results::{DemoResults, Row};

/// A median with the range that it was taken from.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct Spread {
    pub(crate) median: f64,
    pub(crate) min: f64,
    pub(crate) max: f64,
}

impl Spread {
    /// Of values, at least one.
    fn of(values: &[f64]) -> Self {
        let fold = |pick: fn(f64, f64) -> f64, from: f64| values.iter().copied().fold(from, pick);
        Self { median: median(values), min: fold(f64::min, f64::INFINITY), max: fold(f64::max, f64::NEG_INFINITY) }
    }
}

/// The middle value; the mean of the two middle ones of an even number.
/// Zero without values.
pub(crate) fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_unstable_by(f64::total_cmp);
    let middle = sorted.len() / 2;
    match sorted.len() {
        0 => 0.0,
        n if n % 2 == 1 => sorted[middle],
        _ => f64::midpoint(sorted[middle - 1], sorted[middle]),
    }
}

/// A row over all of its rounds.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Summary {
    pub(crate) contender: Contender,
    pub(crate) rate: Spread,
    /// The median of each percentile over the rounds, the largest maximum.
    pub(crate) latency: Latency,
    pub(crate) response_bytes: f64,
    pub(crate) server_cpu: (f64, f64),
    pub(crate) client_cpu: (f64, f64),
    /// The larger share of either core that others took.
    pub(crate) others: f64,
    pub(crate) errors: u64,
    /// The server's time with something to do for a request, µs.
    pub(crate) server_time: f64,
    /// Requests per second ÷ the first nginx's of the same round.
    pub(crate) ratio: Option<Spread>,
    pub(crate) warnings: Vec<String>,
}

/// The rows of a scenario, nginx first.
pub(crate) fn summaries(results: &DemoResults, scenario: Scenario) -> Vec<Summary> {
    let row = |contender: &Contender| {
        let mut rows = results.rows.iter();
        rows.find(|row| row.scenario == scenario && row.contender == *contender && !row.rounds.is_empty())
    };
    let nginx = row(&Contender::Nginx);
    let rows = scenario.stage.contenders().iter().filter_map(row);
    rows.map(|row| summarise(row, nginx)).collect()
}

fn summarise(row: &Row, nginx: Option<&Row>) -> Summary {
    let all = |figure: fn(&Measurement) -> f64| row.rounds.iter().map(figure).collect::<Vec<f64>>();
    let mid = |figure| median(&all(figure));
    let curve = (0..PERCENTILES.len()).map(|index| {
        let values: Vec<f64> = row.rounds.iter().filter_map(|round| round.latency.curve.get(index).copied()).collect();
        median(&values)
    });
    let base = nginx.filter(|_| row.contender != Contender::Nginx);
    let ratios: Vec<f64> = base.map_or_else(Vec::new, |base| {
        let pairs = row.rounds.iter().zip(&base.rounds);
        pairs.map(|(ours, theirs)| ours.requests_per_second / theirs.requests_per_second).collect()
    });
    let mut warnings: Vec<String> = row.rounds.iter().flat_map(|round| round.warnings.iter().cloned()).collect();
    warnings.sort_unstable();
    warnings.dedup();
    Summary {
        contender: row.contender,
        rate: Spread::of(&all(|m| m.requests_per_second)),
        latency: Latency { curve: curve.collect(), max: all(|m| m.latency.max).into_iter().fold(0.0, f64::max) },
        response_bytes: mid(|m| m.response_bytes),
        server_cpu: (mid(|m| m.server.process), mid(|m| m.server.softirq)),
        client_cpu: (mid(|m| m.client.process), mid(|m| m.client.softirq)),
        others: mid(Measurement::others),
        server_time: mid(|m| 1e6 * m.server_share() / m.requests_per_second),
        errors: row.rounds.iter().map(|m| m.errors).fold(0, u64::saturating_add),
        ratio: (!ratios.is_empty()).then(|| Spread::of(&ratios)),
        warnings,
    }
}
