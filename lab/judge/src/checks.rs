//! What must hold of every run, whatever tool printed it.

pub(crate) mod compare;
mod distribution;

use crate::figure::{Interval, Show};
use crate::relation::Order::{AtMost, Equal};
use crate::relation::Relation;
use crate::run::{Little, PublishedRun};

/// Of a link's rate, what is called its limit.
pub(crate) const AT_LIMIT: f64 = 0.95;

/// Fewer samples than this are no distribution.
const FEW: f64 = 20.0;

/// The share of failures that a rate may have in it.
const FAILURES: f64 = 0.01;

const PROOF_LITTLE: &str = "each request's start and end, or the mean number under way, counted by the load \
    generator; latency and rate of the same run, the same phase and the same requests";
const PROOF_RATE: &str = "count and duration of one and the same phase";
const PROOF_LINK: &str = "the same load over a faster link: where the figure then stays, it is the server's";

/// What must hold of one run.
pub(crate) fn of_run(run: &PublishedRun, link: Option<f64>) -> Vec<Relation> {
    let mut out = run.relations.clone();
    rates(run, &mut out);
    out.extend(link.and_then(|link| limit(run, link)));
    // Tools that interpolate, or round to a neighbour, are off by a sample; of so few that is all.
    let samples = run.latency.iter().filter_map(|latency| latency.samples).reduce(f64::max);
    if let Some(samples) = samples.filter(|samples| *samples < FEW) {
        let says = format!("too few samples: {samples} make no percentile, and hardly a mean");
        let line = run.requests.map_or(0, |requests| requests.line);
        out.push(Relation::missing("samples", line, says, "hundreds of requests for each percentile that is told"));
        return out;
    }
    out.extend(little(run));
    for latency in &run.latency {
        distribution::check(latency, &mut out);
        if let (Some(max), Some(seconds)) = (latency.max, run.seconds)
            && run.little == Little::Holds
        {
            let says = format!("the longest {} is longer than the run", latency.name);
            // Tools end a run a little late, and some count what is on its way.
            let right = seconds.loose(0.05) + Interval { low: 0.0, high: 0.2, line: 0 };
            let arithmetic = format!("{max} s in a run of {seconds} s");
            out.push(Relation::new("duration", (max, AtMost, right), says, arithmetic, PROOF_RATE));
        }
    }
    out
}

/// Rates against counts and durations, transfer against rate and size.
fn rates(run: &PublishedRun, out: &mut Vec<Relation>) {
    if let (Some(rate), Some(requests), Some(seconds)) = (run.rate, run.requests, run.seconds) {
        let arithmetic = format!("{requests} requests / {seconds} s = {}/s; {rate}/s is said", requests / seconds);
        let says = "the rate is not the requests divided by the duration";
        out.push(Relation::new("rate", (rate, Equal, requests / seconds), says, arithmetic, PROOF_RATE));
    }
    if let (Some(received), Some(seconds), Some(rate)) = (run.received, run.seconds, run.received_rate) {
        let arithmetic = format!("{received} B / {seconds} s = {} B/s; {rate} B/s is said", received / seconds);
        let says = "the transfer rate is not the bytes divided by the duration";
        out.push(Relation::new("transfer", (rate, Equal, received / seconds), says, arithmetic, PROOF_RATE));
    }
    if let (Some(received), Some(requests), Some(size)) = (run.received, run.requests, run.size) {
        let arithmetic = format!("{requests} responses × {size} B = {} B; {received} B are said", requests * size);
        let says = "the bytes are not the responses times the size of one";
        let proof = "bytes counted at the interface, and the size of one response with its head";
        let relation = Relation::new("transfer", (received, Equal, requests * size), says, arithmetic, proof);
        if run.failed.is_none_or(|failed| failed.high <= 0.0) {
            out.push(relation);
        }
    }
    if let (Some(failed), Some(requests)) = (run.failed, run.requests) {
        failures(run, failed, requests, out);
    }
}

/// Rates with many failures in them say nothing of the server's work. Some
/// tools count failures that are of no request, so that more of them than
/// requests are possible.
fn failures(run: &PublishedRun, failed: Interval, requests: Interval, out: &mut Vec<Relation>) {
    let share = failed.low / requests.high.max(1.0);
    if run.rate.is_some() && share > FAILURES {
        let percent = Show((share * 1e4).round() / 100.0);
        let says = format!("{failed} failures at {requests} requests ({percent} %), and the rate counts or hides them");
        let proof = "rate and latency of the successful ones alone, or a run without failures";
        out.push(Relation::missing("failures", failed.line, says, proof));
    }
}

/// Little (1961): the mean number under way is rate times mean time; at most
/// one request is under way on each connection.
fn little(run: &PublishedRun) -> Option<Relation> {
    let (rate, connections) = (run.rate?, run.connections?);
    let mean = run.latency.first()?.mean?;
    let batches = match run.little {
        Little::Not => return None,
        Little::Batches(most) => most,
        Little::Holds | Little::Adds => 1.0,
    };
    let under_way = rate * mean;
    let arithmetic = format!(
        "{rate}/s × {} ms = {} under way, on {connections} connections; the mean would have to be {} ms or less",
        Show(mean.middle() * 1e3),
        under_way,
        Show(connections.middle() / rate.middle() * 1e3),
    );
    // What is under way at both ends of the run is in one figure only.
    let most = connections.loose(0.02) + Interval::exact(0.0, 0);
    let says = match run.little {
        Little::Adds => {
            "rate times mean latency is more than the connections can carry: this tool adds samples of its own for \
             requests that it thinks were due, so its mean is not one of requests"
        }
        _ => "rate times mean latency is more than the connections can carry (Little's law)",
    };
    let relation = Relation::new("littles-law", (under_way, AtMost, most), says, arithmetic, PROOF_LITTLE);
    Some(match run.little {
        Little::Adds => relation.unproven(),
        Little::Batches(_) if under_way.low <= most.high * batches => relation.unproven(),
        _ => relation,
    })
}

/// What was received against a link's rate. Frames have more on the wire than
/// the tools count, so that the counted bytes alone must be below it.
fn limit(run: &PublishedRun, link: f64) -> Option<Relation> {
    let bits = run.received_rate?.times(8.0);
    let line = bits.line;
    let arithmetic = format!("{bits} bit/s of {} bit/s: {:.2} %", Show(link), bits.middle() / link * 100.0);
    if bits.low > link {
        let says = "more was received than the link carries";
        let right = Interval::exact(link, line);
        return Some(Relation::new("link", (bits, AtMost, right), says, arithmetic, "the interface's counters"));
    }
    let says = "the link was at its limit: this is its figure, not the server's";
    let right = Interval::exact(link * AT_LIMIT, line);
    Some(Relation::new("link", (bits, AtMost, right), says, arithmetic, PROOF_LINK).unproven())
}
