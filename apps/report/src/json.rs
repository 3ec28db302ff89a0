//! A report as JSON.

use environment::ResultKind;
use load::{Judged, Report};
use serde::Serialize;

/// The report as one JSON object, with its objectives where there are any, and the machine
/// that it belongs to. Times are in nanoseconds, rates per second.
#[must_use]
pub fn render_json(report: &Report, judged: &[Judged], environment: &impl Serialize) -> String {
    let objectives = judged.iter().map(|judged| Objective {
        objective: judged.objective.to_string(),
        measured: judged.measured,
        met: judged.met,
    });
    match serde_json::to_string_pretty(&Whole {
        kind: ResultKind::Load,
        report,
        objectives: objectives.collect(),
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
    report: &'a Report,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    objectives: Vec<Objective>,
    environment: &'a E,
}

#[derive(Serialize)]
struct Objective {
    objective: String,
    measured: Option<f64>,
    met: bool,
}
