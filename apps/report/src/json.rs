//! A report as JSON.

use load::{Judged, Report};
use serde_json::{Value, json};

/// The report as one JSON object, with its objectives where there are any.
/// Times are in nanoseconds, rates per second.
#[must_use]
pub fn render_json(report: &Report, judged: &[Judged]) -> String {
    let Ok(Value::Object(mut object)) = serde_json::to_value(report) else {
        unreachable!("the report has only string keys and plain values");
    };
    if !judged.is_empty() {
        object.insert("objectives".into(), judged.iter().map(objective).collect());
    }
    format!("{:#}\n", Value::Object(object))
}

fn objective(judged: &Judged) -> Value {
    json!({ "objective": judged.objective.to_string(), "measured": judged.measured, "met": judged.met })
}
