//! A run as it goes on: one JSON object in a line for each interval.

use load::{Class, Interval, Latency, Recorder, Stage};
use serde_json::{Map, Value, json};

/// An interval as one line of JSON, its line end included. Times since the
/// start of the run and latencies are in nanoseconds, rates per second.
#[must_use]
pub fn interval_json(interval: &Interval) -> String {
    let counts = &interval.counts;
    let samples = &interval.samples;
    let seconds = interval.length().as_secs_f64();
    let per_second = |n: u64| if seconds > 0.0 { n as f64 / seconds } else { 0.0 };
    let nanos = |span: core::time::Duration| u64::try_from(span.as_nanos()).unwrap_or(u64::MAX);
    let mut classes = Map::new();
    for class in Class::ALL.into_iter().filter(|class| !samples.class(*class).is_empty()) {
        classes.insert(class.name().to_owned(), figures(samples.class(class)));
    }
    let mut line = json!({
        "number": interval.number,
        "stage": stage(interval.stage),
        "start_ns": nanos(interval.start),
        "end_ns": nanos(interval.end),
        "requests_per_second": interval.rate(),
        "received_bytes_per_second": per_second(counts.traffic.received_bytes),
        "latency": figures(&samples.latency()),
        "classes": classes,
        "delay": figures(&samples.delay),
        "traffic": counts.traffic,
        "statuses": counts.statuses,
        "errors": counts.errors,
        "connections": counts.connections,
        "open": interval.open,
        "in_flight": interval.in_flight,
    });
    if let (Some(_), Value::Object(line)) = (counts.grpc.iter().next(), &mut line) {
        line.insert("grpc".into(), json!(counts.grpc));
    }
    let open_loop = interval.due > 0 || interval.backlog > 0 || !samples.lag.is_empty();
    if let (true, Value::Object(line)) = (open_loop, &mut line) {
        line.insert("due_per_second".into(), json!(per_second(interval.due)));
        line.insert("backlog".into(), json!(interval.backlog));
        line.insert("uncorrected".into(), figures(&samples.service));
        line.insert("lag".into(), figures(&samples.lag));
    }
    format!("{line}\n")
}

/// A distribution's figures; `null` without samples.
fn figures(recorder: &Recorder) -> Value {
    if recorder.is_empty() { Value::Null } else { json!(Latency::new(recorder, &recorder.histogram())) }
}

const fn stage(stage: Stage) -> &'static str {
    match stage {
        Stage::Waiting => "waiting",
        Stage::Ramp => "ramp",
        Stage::WarmUp => "warm-up",
        Stage::Measuring => "measuring",
        Stage::Ended => "ended",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::time::Duration;

    #[test]
    fn a_line_for_an_interval() {
        let mut interval =
            Interval { number: 3, stage: Stage::Measuring, end: Duration::from_millis(500), ..Interval::default() };
        interval.counts.traffic.responses = 50;
        interval.counts.errors.timeouts = 2;
        interval.samples.classes[Class::Success as usize].record(1_000_000);
        let text = interval_json(&interval);
        assert!(text.ends_with("}\n") && text.matches('\n').count() == 1, "{text}");
        let line: Value = serde_json::from_str(&text).expect("our own JSON");
        assert_eq!(
            (&line["number"], &line["stage"], &line["end_ns"]),
            (&3.into(), &"measuring".into(), &500_000_000.into())
        );
        assert_eq!(line["requests_per_second"], 100.0);
        assert_eq!((&line["errors"]["timeouts"], &line["classes"]["2xx"]["samples"]), (&2.into(), &1.into()));
        assert!(line["delay"].is_null() && line["classes"]["5xx"].is_null());
        assert!(line.get("lag").is_none(), "a closed loop has no schedule to lag behind");
        interval.due = 60;
        let line: Value = serde_json::from_str(&interval_json(&interval)).expect("our own JSON");
        assert_eq!((&line["due_per_second"], &line["backlog"]), (&120.0.into(), &0.into()));
    }
}
