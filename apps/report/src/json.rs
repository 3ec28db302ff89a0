//! A report as JSON.

use environment::{ResultKind, ResultOrigin};
use load::{Judged, Report, Setup};
use serde::Serialize;

/// The report as one JSON object, with its objectives where there are any, by which command it
/// came, and the machine that it belongs to. Times are in nanoseconds, rates per second.
#[must_use]
pub fn render_json(report: &Report, judged: &[Judged], environment: &impl Serialize, origin: &ResultOrigin) -> String {
    render_json_of_workers(report, judged, environment, origin, None::<&()>)
}

/// The same of a load by many workers, with what is known of each.
#[must_use]
pub fn render_json_of_workers(
    report: &Report,
    judged: &[Judged],
    environment: &impl Serialize,
    origin: &ResultOrigin,
    workers: Option<&impl Serialize>,
) -> String {
    match serde_json::to_string_pretty(&Whole {
        kind: ResultKind::Load,
        origin,
        report,
        percentiles: percentiles(report),
        objectives: expected(judged),
        workers,
        environment,
    }) {
        Ok(json) => json + "\n",
        Err(_) => unreachable!("the report has only string keys and plain values"),
    }
}

/// What was asked for, as results have it, in a line.
#[must_use]
pub fn setup_json(setup: &Setup) -> String {
    match serde_json::to_string(setup) {
        Ok(json) => json,
        Err(_) => unreachable!("a setup has only string keys and plain values"),
    }
}

#[derive(Serialize)]
struct Whole<'a, E: Serialize, W: Serialize> {
    kind: ResultKind,
    #[serde(flatten)]
    origin: &'a ResultOrigin,
    #[serde(flatten)]
    report: &'a Report,
    /// Shares of requests and the latency that they do not exceed.
    percentiles: Vec<(f64, u64)>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    objectives: Vec<Expected>,
    /// Who generated it, where these were many.
    #[serde(skip_serializing_if = "Option::is_none")]
    workers: Option<&'a W>,
    environment: &'a E,
}

/// Ten for each nine, up to where one sample lies beyond.
fn percentiles(report: &Report) -> Vec<(f64, u64)> {
    let histogram = &report.histogram;
    let shares = (0..100).map(|step| 1.0 - 10_f64.powf(-f64::from(step) / 10.0));
    let known = shares.take_while(|share| (1.0 - share) * histogram.len() as f64 >= 1.0 - 1e-6);
    known.map(|share| (share, histogram.value_at_quantile(share))).collect()
}

/// Objectives, as results have them.
pub(super) fn expected(judged: &[Judged]) -> Vec<Expected> {
    let one = |one: &Judged| Expected {
        objective: one.objective.to_string(),
        measured: one.measured,
        told: one.told(),
        met: one.counts.then_some(one.met),
    };
    judged.iter().map(one).collect()
}

#[derive(Serialize)]
pub(super) struct Expected {
    objective: String,
    measured: Option<f64>,
    told: Option<String>,
    /// `None`: the figure does not count.
    met: Option<bool>,
}
