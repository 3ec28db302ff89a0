//! What the specification promises of the demo's rows, and whether this run
//! kept it.

use crate::measure::{Connections, Content, PERCENTILES, Scenario};
use crate::results::Results;
use crate::summary::{Summary, summaries};

/// A promise beside what a run found.
#[derive(Clone, PartialEq, Debug)]
pub struct Promise {
    /// The row, and what of it is promised.
    pub what: String,
    /// What the run found and what is asked for, in words.
    pub found: String,
    /// Whether it holds.
    pub kept: bool,
}

/// So many times nginx's requests per second, at least.
const RATIOS: [(Scenario, f64); 3] = [
    (Scenario { content: Content::Small, connections: Connections::KeepAlive, count: 64 }, 15.0),
    (Scenario { content: Content::Small, connections: Connections::KeepAlive, count: 1_000 }, 20.0),
    (Scenario { content: Content::Small, connections: Connections::New, count: 64 }, 30.0),
];

/// The percentile of latency that is to be below nginx's in every row.
const TAIL: f64 = 99.0;

/// The promises that these results can show; none where nginx was left out.
#[must_use]
pub fn promises(results: &Results) -> Vec<Promise> {
    let mut scenarios: Vec<Scenario> = Vec::new();
    for row in &results.rows {
        if !scenarios.contains(&row.scenario) {
            scenarios.push(row.scenario);
        }
    }
    let mut promises = Vec::new();
    for scenario in scenarios {
        let rows = summaries(results, scenario);
        let [nginx, ours] = rows.as_slice() else { continue };
        let least = RATIOS.iter().find(|(promised, _)| *promised == scenario);
        let ratio = ours.ratio.zip(least).map(|(ratio, (_, least))| (ratio.median, *least));
        promises.extend(ratio.map(|(ratio, least)| Promise {
            what: format!("{}: requests/s", scenario.title()),
            found: format!("{ratio:.1} times nginx's, at least {least:.0}"),
            kept: ratio >= least,
        }));
        let (theirs, ours) = (tail(nginx), tail(ours));
        promises.push(Promise {
            what: format!("{}: p{TAIL:.0}", scenario.title()),
            found: format!("{ours:.0} us, below nginx's {theirs:.0} us"),
            kept: ours < theirs,
        });
    }
    promises
}

fn tail(row: &Summary) -> f64 {
    let at = PERCENTILES.iter().position(|percentile| *percentile == TAIL);
    at.and_then(|at| row.latency.curve.get(at)).copied().unwrap_or(f64::NAN)
}
