//! Two results of `nearside load --json`, compared where they may be.

use super::ComparisonPlan;
use environment::{Fingerprint, Unlike, unlike};
use load::units::{seconds, si};
use say::{Failure, print, println};
use serde_json::{Value, json};
use std::fs::File;
use std::io::Read;
use std::path::Path;
use std::process::ExitCode;

/// The longest result that is read, in bytes: a thousand URLs with rows of their own are far less.
const RESULT_LIMIT: u64 = 16 << 20;

/// What was asked for: loads that differ in one of these are not one measured twice.
const ASKED: [&str; 13] = [
    "scheme",
    "method",
    "path",
    "connections",
    "active",
    "pipeline",
    "reuse",
    "requests",
    "heads",
    "arrival",
    "request_bytes",
    "body_bytes",
    "way",
];

/// A figure: its name, where it stands, and how it is shown.
type Figure = (&'static str, &'static str, fn(f64) -> String);

/// What is compared.
const FIGURES: [Figure; 10] = [
    ("rate", "/throughput/requests_per_second", |value| si(value, "/s")),
    ("received", "/throughput/received_bytes_per_second", |value| si(value, "B/s")),
    ("latency mean", "/latency/mean_ns", seconds),
    ("latency 50 %", "/latency/p50_ns", seconds),
    ("latency 99 %", "/latency/p99_ns", seconds),
    ("latency 99.9 %", "/latency/p999_ns", seconds),
    ("latency max", "/latency/max_ns", seconds),
    ("up", "/up/bits_per_second", |value| si(value, "bit/s")),
    ("down", "/down/bits_per_second", |value| si(value, "bit/s")),
    ("retransmitted", "/up/retransmits", |value| format!("{value:.0}")),
];

/// One result.
#[derive(Debug)]
struct LoadResult {
    whole: Value,
    machine: Fingerprint,
}

impl LoadResult {
    fn read(path: &Path) -> Result<Self, Failure> {
        let named = |why: &dyn core::fmt::Display| Failure::from(format!("{}: {why}", path.display()));
        let mut bytes = Vec::new();
        let read = File::open(path).and_then(|file| file.take(RESULT_LIMIT + 1).read_to_end(&mut bytes));
        read.map_err(|why| named(&why))?;
        if bytes.len() as u64 > RESULT_LIMIT {
            return Err(named(&"it is longer than 16 MiB"));
        }
        let whole: Value = serde_json::from_slice(&bytes).map_err(|why| named(&why))?;
        if whole.get("setup").is_none() {
            return Err(named(&"this is no result of nearside load --json"));
        }
        let machine = whole
            .get("environment")
            .cloned()
            .ok_or_else(|| named(&"it does not tell of its machine: results of earlier versions cannot be compared"))?;
        let machine = serde_json::from_value(machine).map_err(|why| named(&format!("environment: {why}")))?;
        Ok(Self { whole, machine })
    }

    fn figure(&self, place: &str) -> Option<f64> {
        self.whole.pointer(place).and_then(Value::as_f64)
    }
}

/// Whether a side is a file rather than a folder of an experiment.
pub fn is_one(plan: &ComparisonPlan) -> bool {
    [&plan.before, &plan.after].into_iter().any(|side| side.arm.is_none() && side.folder.is_file())
}

/// Compares two results; refuses those of unlike loads or machines, and says which of it.
///
/// # Errors
/// If one cannot be read, or they are not alike and nobody insists.
pub fn compare(plan: &ComparisonPlan) -> Result<ExitCode, Failure> {
    let (before, after) = (LoadResult::read(&plan.before.folder)?, LoadResult::read(&plan.after.folder)?);
    let (matters, others): (Vec<Unlike>, Vec<Unlike>) = {
        let mut all = asked(&before, &after);
        all.extend(unlike(&before.machine, &after.machine));
        all.into_iter().partition(|one| one.matters)
    };
    if !matters.is_empty() && !plan.force {
        let list: Vec<String> = matters.iter().map(ToString::to_string).collect();
        let list = list.join("\n  ");
        return Err(format!(
            "these are not alike, so that a difference would say nothing (--force compares them \
             nevertheless):\n  {list}"
        )
        .into());
    }
    let rows: Vec<(&Figure, f64, f64)> =
        FIGURES.iter().filter_map(|figure| Some((figure, before.figure(figure.1)?, after.figure(figure.1)?))).collect();
    let ratio = |before: f64, after: f64| (before > 0.0).then(|| after / before);
    if plan.json {
        let figures = rows.iter().map(|((name, ..), before, after)| {
            json!({ "figure": name, "before": before, "after": after, "ratio": ratio(*before, *after) })
        });
        let words = |all: &[Unlike]| all.iter().map(ToString::to_string).collect::<Vec<_>>();
        let whole =
            json!({ "figures": figures.collect::<Vec<_>>(), "not_alike": words(&matters), "differs": words(&others) });
        println!("{whole:#}");
        return Ok(ExitCode::SUCCESS);
    }
    let mut table = vec![["", "before", "after", "ratio"].map(str::to_owned).to_vec()];
    table.extend(rows.iter().map(|((name, _, show), before, after)| {
        let ratio = ratio(*before, *after).map_or_else(|| "-".to_owned(), |ratio| format!("{ratio:.3}"));
        vec![(*name).to_owned(), show(*before), show(*after), ratio]
    }));
    print!("{}", ::lab::table::columns(&table));
    for (side, result) in [("before", &before), ("after", &after)] {
        if let Some("no") = result.whole.pointer("/verdict/trust").and_then(Value::as_str) {
            println!("{side}: the figures cannot be trusted");
        }
    }
    println!("one run of each: how much chance there is in it, several alone tell (nearside lab run)");
    matters.iter().for_each(|one| println!("not alike: {one}"));
    others.iter().for_each(|one| println!("differs: {one}"));
    Ok(ExitCode::SUCCESS)
}

/// What differs in what was asked for.
fn asked(before: &LoadResult, after: &LoadResult) -> Vec<Unlike> {
    let of = |result: &LoadResult, key: &str| {
        result.whole["setup"].get(key).map(|value| match value {
            Value::String(text) => text.clone(),
            other => other.to_string(),
        })
    };
    let pair = |key: &&str| (of(before, key), of(after, key));
    let differing = ASKED.iter().filter(|key| {
        let (before, after) = pair(key);
        before != after
    });
    let told = |value: Option<String>| value.unwrap_or_else(|| "not there".to_owned());
    let one = |key: &&str| {
        let (before, after) = pair(key);
        Unlike { what: format!("load: {key}"), before: told(before), after: told(after), matters: true, why: "" }
    };
    differing.map(one).collect()
}

#[cfg(test)]
mod tests {
    use super::super::ResultsSide;
    use super::*;

    fn written(name: &str, whole: &Value) -> std::path::PathBuf {
        let path = std::env::temp_dir().join(format!("nearside-loads-{name}-{}.json", std::process::id()));
        std::fs::write(&path, whole.to_string()).expect("a file");
        path
    }

    fn result(processor: &str, connections: u32) -> Value {
        let machine = Fingerprint { processor: processor.into(), cores: vec![0], ..Fingerprint::default() };
        json!({
            "setup": { "path": "/", "connections": connections },
            "throughput": { "requests_per_second": 1_000.0 },
            "latency": { "p99_ns": 5_000 },
            "environment": machine,
        })
    }

    #[test]
    fn unlike_results_are_refused_and_it_is_said_why() {
        let side = |path: &Path| ResultsSide { folder: path.into(), arm: None };
        let plan = |before: &Path, after: &Path, force| ComparisonPlan {
            before: side(before),
            after: side(after),
            force,
            json: false,
        };
        let same = written("same", &result("A", 64));
        let other = written("other", &result("B", 8));
        let none = written("none", &json!({ "setup": {} }));
        assert!(is_one(&plan(&same, &other, false)));
        assert!(compare(&plan(&same, &same, false)).is_ok());
        let why = compare(&plan(&same, &other, false)).expect_err("they differ").to_string();
        assert!(why.contains("load: connections: 64 and 8") && why.contains("processor: A and B ("), "{why}");
        assert!(compare(&plan(&same, &other, true)).is_ok());
        let why = compare(&plan(&none, &same, false)).expect_err("it tells of no machine").to_string();
        assert!(why.contains("does not tell of its machine"), "{why}");
        assert!(compare(&plan(Path::new("/dev/zero"), &same, false)).is_err());
        [same, other, none].into_iter().for_each(|file| std::fs::remove_file(file).expect("it was made"));
    }
}
