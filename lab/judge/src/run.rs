//! One run, as its tool printed it.

use crate::figure::Interval;
use crate::relation::Relation;

/// What a tool or a claim says of one run. Times are in seconds, rates per
/// second, sizes in bytes.
#[derive(Clone, Debug, Default)]
pub struct PublishedRun {
    /// The tool, or the claim's name.
    pub name: String,
    /// The tool; `claim` for a claim.
    pub(crate) tool: &'static str,
    pub(crate) claim: bool,
    /// Of a claim: the comparison that it is a side of.
    pub group: Option<String>,
    pub(crate) connections: Option<Interval>,
    pub(crate) little: Little,
    pub(crate) requests: Option<Interval>,
    pub(crate) failed: Option<Interval>,
    pub(crate) seconds: Option<Interval>,
    pub(crate) rate: Option<Interval>,
    /// All bytes received, or as many of them as the tool counts.
    pub(crate) received: Option<Interval>,
    pub(crate) received_rate: Option<Interval>,
    /// Bytes of one response; `sized_with_head`: with its head.
    pub(crate) size: Option<Interval>,
    pub(crate) sized_with_head: bool,
    /// What was asked for.
    pub(crate) path: Option<String>,
    pub(crate) keep_alive: Option<bool>,
    pub(crate) logs: Option<bool>,
    pub(crate) compression: Option<String>,
    pub(crate) latency: Vec<Latency>,
    /// What holds between figures of this tool alone.
    pub(crate) relations: Vec<Relation>,
}

/// What Little's law says of this tool's figures.
#[derive(Clone, Copy, PartialEq, Default, Debug)]
pub(crate) enum Little {
    /// Rate times mean latency is at most the connections.
    #[default]
    Holds,
    /// At most so many times the connections; from one time on, it is
    /// unproven.
    Batches(f64),
    /// The tool adds samples of its own: what is above is unproven.
    Adds,
    /// Latency has waiting in it that happens on no connection.
    Not,
}

/// A distribution of times, in seconds.
#[derive(Clone, Debug, Default)]
pub(crate) struct Latency {
    pub name: String,
    pub min: Option<Interval>,
    pub mean: Option<Interval>,
    pub median: Option<Interval>,
    pub deviation: Option<Interval>,
    pub max: Option<Interval>,
    /// Shares, as 0.99, and their values; in the order printed.
    pub percentiles: Vec<(f64, Interval)>,
    pub samples: Option<f64>,
    /// How far percentiles may be off, as a share; `None`: they are
    /// interpolated, and nothing but their order is known.
    pub off: Option<f64>,
}

impl Latency {
    /// Of a histogram: its deviation is that of the buckets' middles, each as far from a value as a thousandth of
    /// it, around a mean that may be another.
    pub(crate) fn of_buckets(mut self) -> Self {
        let off = self.max.map_or(0.0, |max| max.high * 1e-3);
        let wider = |all: Interval| Interval { low: (all.low - off).max(0.0), high: all.high + off, ..all };
        self.deviation = self.deviation.map(wider);
        self
    }
}
