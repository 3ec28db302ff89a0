//! What results of `nearside packet` have that can be compared: of trials, searches,
//! RFC 2544 and factors.

use packet::compare::{Better, RunFigure, figures};
use packet::page::Kept;
use serde_json::Value;

/// The figures of a result, whichever command it is of; `None`: it is of none.
///
/// # Errors
/// If what is to be a trial is none.
pub fn of_result(value: &Value) -> Result<Option<Vec<RunFigure>>, serde_json::Error> {
    let list = |name: &str| value.get(name).and_then(Value::as_array);
    if value.get("result").is_some() {
        let kept: Kept = serde_json::from_value(value.clone())?;
        return Ok(Some(figures(&kept.result)));
    }
    if let Some(runs) = list("runs") {
        return of_runs(runs).map(Some);
    }
    if let Some(found) = list("found") {
        return Ok(Some(of_search(value, found)));
    }
    if let (Some(results), true) = (list("results"), value.get("latency_definition").is_some()) {
        return Ok(Some(results.iter().flat_map(of_size).collect()));
    }
    Ok(list("points").map(|points| points.iter().flat_map(of_point).collect()))
}

/// A trial beside each background.
fn of_runs(runs: &[Value]) -> Result<Vec<RunFigure>, serde_json::Error> {
    let mut all = Vec::new();
    for run in runs {
        let (name, kept): (String, Kept) = serde_json::from_value(run.clone())?;
        all.extend(figures(&kept.result).into_iter().map(|one| RunFigure { of: format!("{name}: {}", one.of), ..one }));
    }
    Ok(all)
}

/// A figure that a result has at `path`, if it has.
fn at(value: &Value, path: &str, of: &str, (figure, better): (&'static str, Better)) -> Option<RunFigure> {
    let value = value.pointer(path)?.as_f64()?;
    Some(RunFigure { of: of.to_owned(), figure, better, value })
}

/// Of each goal what is an answer.
fn of_search(value: &Value, found: &[Value]) -> Vec<RunFigure> {
    let mut all: Vec<RunFigure> = Vec::new();
    for (path, name) in [("/highest_sent", "highest sent"), ("/highest_received", "highest received")] {
        all.extend(at(value, path, "all streams", (name, Better::Higher)));
    }
    for one in found.iter().filter(|one| one.get("open").is_some_and(Value::is_null)) {
        let goal = one.pointer("/goal/name").and_then(Value::as_str).unwrap_or("a goal");
        all.extend(at(one, "/lower", goal, ("rate", Better::Higher)));
        all.extend(at(one, "/conditional_throughput", goal, ("conditional throughput", Better::Higher)));
    }
    all
}

/// A frame size of RFC 2544.
fn of_size(size: &Value) -> Vec<RunFigure> {
    let condition =
        size.get("condition").map_or_else(String::new, |it| it.as_str().map_or(it.to_string(), str::to_owned));
    let of = format!("{} bytes, {condition}", size.get("size").and_then(Value::as_u64).unwrap_or(0));
    let mut all = Vec::new();
    if size.pointer("/throughput/open").is_some_and(Value::is_null) {
        all.extend(at(size, "/throughput/lower", &of, ("throughput", Better::Higher)));
    }
    for way in size.get("latency").and_then(Value::as_array).into_iter().flatten() {
        let of = format!("{of}, {}", way.get("way").and_then(Value::as_str).unwrap_or(""));
        for (path, name) in
            [("/mean_ns", "latency mean"), ("/typical_ns", "latency typical"), ("/worst_ns", "latency worst")]
        {
            all.extend(at(way, path, &of, (name, Better::Lower)));
        }
    }
    for point in size.get("loss").and_then(Value::as_array).into_iter().flatten() {
        let figure = |name: &str| point.get(name).and_then(Value::as_f64);
        if let (Some(share), Some(offered), Some(lost)) = (figure("share"), figure("offered"), figure("lost"))
            && offered > 0.0
        {
            let of = format!("{of}, at {:.0} % of the highest rate", share * 100.0);
            all.push(RunFigure { of, figure: "loss", better: Better::Lower, value: lost / offered });
        }
    }
    all
}

/// A value of a factor.
fn of_point(point: &Value) -> Vec<RunFigure> {
    if !point.get("missing").is_some_and(Value::is_null) {
        return Vec::new();
    }
    let of = point.get("point").and_then(Value::as_str).unwrap_or("a point");
    let figures = [
        ("/rate", "rate", Better::Higher),
        ("/cpu_ns", "processor time", Better::Lower),
        ("/energy_uj", "energy", Better::Lower),
    ];
    figures.into_iter().filter_map(|(path, name, better)| at(point, path, of, (name, better))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn named(value: &Value) -> Vec<(String, &'static str, f64)> {
        let all = of_result(value).expect("a result").expect("of a known command");
        all.into_iter().map(|one| (one.of, one.figure, one.value)).collect()
    }

    #[test]
    fn each_commands_figures_are_found_and_what_is_no_answer_is_left_out() {
        let search = json!({ "highest_sent": 9.0, "found": [
            { "goal": { "name": "ndr" }, "lower": 5.0, "open": null, "conditional_throughput": 4.5 },
            { "goal": { "name": "pdr" }, "lower": 7.0, "open": "it was stopped" },
        ] });
        assert_eq!(
            named(&search),
            [
                ("all streams".to_owned(), "highest sent", 9.0),
                ("ndr".into(), "rate", 5.0),
                ("ndr".into(), "conditional throughput", 4.5)
            ]
        );
        let method = json!({ "latency_definition": "", "results": [
            { "size": 64, "condition": "Plain", "throughput": { "lower": 3.0, "open": null },
              "latency": [{ "way": "0 to 1", "mean_ns": 8.0, "typical_ns": 7, "worst_ns": null }],
              "loss": [{ "share": 0.9, "rate": 1.0, "offered": 100, "lost": 5 }] },
            { "size": 128, "condition": "Plain", "throughput": { "lower": 3.0, "open": "late" } },
        ] });
        assert_eq!(
            named(&method),
            [
                ("64 bytes, Plain".to_owned(), "throughput", 3.0),
                ("64 bytes, Plain, 0 to 1".into(), "latency mean", 8.0),
                ("64 bytes, Plain, 0 to 1".into(), "latency typical", 7.0),
                ("64 bytes, Plain, at 90 % of the highest rate".into(), "loss", 0.05)
            ]
        );
        let factors = json!({ "points": [
            { "point": "burst=1", "rate": 2.0, "cpu_ns": 3.0, "energy_uj": null, "missing": null },
            { "point": "burst=9", "rate": 0.0, "cpu_ns": 0.0, "energy_uj": null, "missing": "refused" },
        ] });
        assert_eq!(named(&factors), [("burst=1".to_owned(), "rate", 2.0), ("burst=1".into(), "processor time", 3.0)]);
        assert_eq!(of_result(&json!({ "complete": false })).expect("JSON"), None);
        assert!(of_result(&json!({ "result": 7 })).is_err());
    }
}
