//! What the specification promises of the demo's rows, and whether this run
//! kept it.

use crate::measure::{Connections, Contender, Content, Heads, PERCENTILES, Scenario, Stage, thousands};
use crate::results::DemoResults;
use crate::summary::{Summary, summaries};

/// A promise and what a run found.
#[derive(Clone, PartialEq, Debug)]
pub struct Promise {
    /// The row, and what of it is promised.
    pub what: String,
    /// What the run found and what is asked for, in words.
    pub found: String,
    /// Whether it holds.
    pub kept: bool,
}

const fn on_pair(contender: Contender, connections: Connections, least: f64) -> (Scenario, Contender, f64) {
    let (content, heads) = (Content::Small, Heads::Short);
    (Scenario { stage: Stage::OnePair, content, heads, connections, count: 64 }, contender, least)
}

const fn memif(content: Content, heads: Heads, count: u32, least: f64) -> (Scenario, Contender, f64) {
    let connections = Connections::KeepAlive;
    (Scenario { stage: Stage::SharedMemory, content, heads, connections, count }, Contender::Memif, least)
}

/// So many times nginx's requests per second, at least.
const RATIOS: [(Scenario, Contender, f64); 12] = [
    on_pair(Contender::AfXdp, Connections::KeepAlive, 4.0),
    on_pair(Contender::Sockets, Connections::KeepAlive, 1.35),
    on_pair(Contender::Sockets, Connections::New, 1.15),
    memif(Content::Small, Heads::Short, 64, 20.0),
    memif(Content::Small, Heads::Short, 1_000, 28.0),
    memif(Content::Small, Heads::Browser, 64, 14.0),
    memif(Content::Small, Heads::Browser, 1_000, 20.0),
    memif(Content::File, Heads::Short, 64, 9.0),
    memif(Content::File, Heads::Short, 1_000, 12.0),
    memif(Content::Small, Heads::Equal, 64, 21.0),
    memif(Content::Small, Heads::Equal, 1_000, 33.0),
    (
        Scenario {
            stage: Stage::SharedMemory,
            content: Content::Small,
            heads: Heads::Short,
            connections: Connections::New,
            count: 64,
        },
        Contender::Memif,
        18.0,
    ),
];

/// The percentile of latency that is to be below nginx's in every row of the
/// stack of our own.
const TAIL: f64 = 99.0;

/// The promises that these results can show; none where nginx was left out.
#[must_use]
pub fn promises(results: &DemoResults) -> Vec<Promise> {
    let mut promises = Vec::new();
    for scenario in Stage::ALL.into_iter().flat_map(|stage| results.scenarios(stage)) {
        let rows = summaries(results, scenario);
        let Some(nginx) = rows.iter().find(|row| row.contender == Contender::Nginx) else { continue };
        for ours in rows.iter().filter(|row| row.contender.nginx().is_none()) {
            let what = format!("{}, {}", results.name(ours.contender), scenario.title());
            let promised = RATIOS.iter().find(|(row, who, _)| *row == scenario && *who == ours.contender);
            let ratio = ours.ratio.zip(promised).map(|(ratio, (_, _, least))| (ratio.median, *least));
            // A row with failures shows how fast a server fails, and is held against none.
            let failed = failures(nginx, ours);
            let (failed, whole) = (failed.as_deref().unwrap_or_default(), failed.is_none());
            promises.extend(ratio.map(|(ratio, least)| Promise {
                what: format!("{what}: requests/s"),
                found: format!("{ratio:.2} times nginx's, at least {least}{failed}"),
                kept: ratio >= least && whole,
            }));
            if ours.contender != Contender::Sockets {
                let (theirs, ours) = (tail(nginx), tail(ours));
                promises.push(Promise {
                    what: format!("{what}: p{TAIL:.0}"),
                    found: format!("{ours:.0} us, below nginx's {theirs:.0} us{failed}"),
                    kept: ours < theirs && whole,
                });
            }
        }
    }
    promises
}

/// What failed on either side, in words; none if nothing did.
fn failures(nginx: &Summary, ours: &Summary) -> Option<String> {
    let told = |whose, errors| format!("; {whose} {} requests or connections failed", thousands(errors as f64));
    match (ours.errors, nginx.errors) {
        (0, 0) => None,
        (0, theirs) => Some(told("of nginx's", theirs)),
        (errors, _) => Some(told("of ours", errors)),
    }
}

fn tail(row: &Summary) -> f64 {
    let at = PERCENTILES.iter().position(|percentile| *percentile == TAIL);
    at.and_then(|at| row.latency.curve.get(at)).copied().unwrap_or(f64::NAN)
}
