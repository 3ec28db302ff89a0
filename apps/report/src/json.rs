//! A report as JSON.

use environment::{ResultKind, ResultOrigin};
use load::{Judged, Report};
use serde::Serialize;

/// The report as one JSON object, with its objectives where there are any, by which command it
/// came, and the machine that it belongs to. Times are in nanoseconds, rates per second.
#[must_use]
pub fn render_json(report: &Report, judged: &[Judged], environment: &impl Serialize, origin: &ResultOrigin) -> String {
    match serde_json::to_string_pretty(&Whole {
        kind: ResultKind::Load,
        origin,
        report,
        percentiles: percentiles(report),
        objectives: expected(judged),
        environment,
    }) {
        Ok(json) => json + "\n",
        Err(_) => unreachable!("the report has only string keys and plain values"),
    }
}

#[derive(Serialize)]
struct Whole<'a, E: Serialize> {
    kind: ResultKind,
    #[serde(flatten)]
    origin: &'a ResultOrigin,
    #[serde(flatten)]
    report: &'a Report,
    /// Shares of requests and the latency that they do not exceed.
    percentiles: Vec<(f64, u64)>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    objectives: Vec<Expected>,
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
        met: one.met,
    };
    judged.iter().map(one).collect()
}

#[derive(Serialize)]
pub(super) struct Expected {
    objective: String,
    measured: Option<f64>,
    told: Option<String>,
    met: bool,
}
