//! Text for the terminal.

use crate::compare::{self, Comparison};
use crate::curves::charts;
use crate::latencies;
use crate::number::number;
use crate::results::Results;
use crate::runs::{ArmResults, Check, Distribution};
use stats::{Log2, Verdict};
use std::fmt::Write;

/// A share as a signed percentage.
#[must_use]
pub fn percent(share: f64) -> String {
    let percent = share * 100.0;
    if percent.abs() >= 100.0 { format!("{percent:+.0} %") } else { format!("{percent:+.1} %") }
}

/// Columns, of which the first has names.
#[must_use]
pub fn columns(rows: &[Vec<String>]) -> String {
    ::figures::columns(rows, |column| column == 0)
}

/// All that a result says.
#[must_use]
pub fn render(results: &Results) -> String {
    let mut text = format!("{}\n", results.experiment.title);
    for doubt in results.verdict().reasons {
        let _ = writeln!(text, "! {doubt}");
    }
    let _ = writeln!(text, "{}", conditions(results));
    details(&mut text, results);
    histograms(&mut text, results);
    text.push('\n');
    text.push_str(&columns(&figures(results)));
    for chart in charts(results) {
        text.push('\n');
        text.push_str(&chart.ascii());
    }
    let mut comparisons = compare::within(results);
    // What only describes stands above; the control is the column of noise.
    comparisons.retain(|one| one.verdict.is_some() || (!one.counts && one.figure.better.is_some()));
    if !comparisons.is_empty() {
        text.push('\n');
        text.push_str(&columns(&verdicts(&comparisons, ARMS)));
    }
    for unlike in compare::unlike_arms(results) {
        let _ = writeln!(text, "not compared: {unlike}");
    }
    for note in &results.notes {
        let _ = writeln!(text, "note: {note}");
    }
    for arm in &results.arms {
        if let Some(why) = &arm.left_out {
            let _ = writeln!(text, "left out: {}: {why}", arm.name);
        }
    }
    text.push_str(&checks(&results.checks));
    text
}

/// On what, and how often.
#[must_use]
pub fn conditions(results: &Results) -> String {
    let host = &results.machine.host;
    let rounds = results.arms.iter().map(|arm| arm.runs.len()).max().unwrap_or(0);
    format!(
        "{}, {} cores{}, {}, Linux {}; {} in random order, seed {}; figures are medians of the runs",
        host.processor,
        host.cores.len(),
        if host.virtual_machine { " of a virtual machine" } else { "" },
        host.system,
        host.kernel,
        if rounds == 1 { "1 round".to_owned() } else { format!("{rounds} rounds") },
        results.experiment.seed,
    )
}

/// Details of each arm's first run: the others are in the results.
fn details(text: &mut String, results: &Results) {
    for arm in results.measured() {
        for (name, value) in arm.runs.first().map(|run| &run.details).into_iter().flatten() {
            let _ = writeln!(text, "{} {name}: {value}", arm.name);
        }
    }
}

/// The latencies of all runs of an arm together.
#[must_use]
pub fn histogram(arm: &ArmResults) -> Option<Log2> {
    let kept: Vec<&Distribution> = arm.runs.iter().filter_map(|run| run.latency.as_ref()).collect();
    if kept.is_empty() { None } else { latencies::log2(&kept) }
}

fn histograms(text: &mut String, results: &Results) {
    for arm in results.measured() {
        if let Some(histogram) = histogram(arm) {
            let _ = writeln!(text, "\n{}", heading(results, arm));
            text.push_str(&histogram.render("ms"));
        }
    }
}

/// An arm's name with min avg med max dev, where it has them, and the count.
#[must_use]
pub fn heading(results: &Results, arm: &ArmResults) -> String {
    let mut text = arm.name.clone();
    for (name, short) in [("min", "min"), ("mean", "avg"), ("median", "med"), ("max", "max"), ("dev", "dev")] {
        let known = results.figures.iter().any(|figure| figure.name == name && figure.unit == "ms");
        if let Some(value) = arm.median(name).filter(|_| known) {
            let _ = write!(text, " {short} {value:.2}");
        }
    }
    let count: u64 = arm
        .runs
        .iter()
        .filter_map(|run| run.latency.as_ref())
        .map(|latency| latency.count)
        .fold(0, u64::saturating_add);
    let _ = write!(text, " ms count {count}");
    text
}

/// A row per arm, a column per figure.
fn figures(results: &Results) -> Vec<Vec<String>> {
    let shown: Vec<_> = results
        .figures
        .iter()
        .filter(|figure| results.arms.iter().any(|arm| arm.median(&figure.name).is_some()))
        .collect();
    let mut head = vec![String::new()];
    head.extend(shown.iter().map(|figure| figure.title()));
    let mut rows = vec![head];
    for arm in results.arms.iter().filter(|arm| !arm.runs.is_empty()) {
        let mut row = vec![arm.name.clone()];
        row.extend(shown.iter().map(|figure| arm.median(&figure.name).map_or_else(|| "-".to_owned(), number)));
        rows.push(row);
    }
    // Where there are many figures, they are easier to read downwards.
    if shown.len() > 8 { transposed(&rows) } else { rows }
}

fn transposed(rows: &[Vec<String>]) -> Vec<Vec<String>> {
    let columns = rows.first().map_or(0, Vec::len);
    (0..columns).map(|column| rows.iter().map(|row| row[column].clone()).collect()).collect()
}

/// What the sides are called where two results are compared.
pub const SIDES: [&str; 2] = ["before", "after"];
/// The same of two arms of one result.
pub const ARMS: [&str; 2] = ["baseline", "candidate"];

/// Both sides, by what they are called, ratio, interval, verdict.
#[must_use]
pub fn verdicts(comparisons: &[Comparison], [old, new]: [&str; 2]) -> Vec<Vec<String>> {
    let head = ["", "figure", old, new, "ratio", "95 % interval", "noise", "verdict"];
    let mut rows = vec![head.map(str::to_owned).to_vec()];
    for c in comparisons {
        rows.push(vec![
            format!("{} ÷ {}", c.arm, c.baseline),
            c.figure.title(),
            number(c.before),
            number(c.after),
            c.effect.map_or_else(|| "-".to_owned(), |effect| format!("{:.3}", effect.ratio)),
            interval(c),
            noise(c.floor),
            word(c),
        ]);
    }
    rows
}

/// The interval's ends.
#[must_use]
pub fn interval(comparison: &Comparison) -> String {
    let ends = comparison.effect.and_then(|effect| effect.interval);
    ends.map_or_else(|| "-".to_owned(), |(low, high)| format!("{low:.3} to {high:.3}"))
}

/// What the control showed.
#[must_use]
pub fn noise(floor: f64) -> String {
    if floor.is_finite() { format!("{:.1} %", floor * 100.0) } else { "-".to_owned() }
}

/// The verdict, or what stands in its place.
#[must_use]
pub fn word(comparison: &Comparison) -> String {
    match comparison.verdict {
        Some(verdict @ Verdict::Inconclusive(_)) => verdict.to_string(),
        Some(verdict) => verdict.name().to_owned(),
        None if !comparison.counts => compare::VOID.to_owned(),
        None if comparison.control && comparison.figure.better.is_some() => "control".to_owned(),
        None => String::new(),
    }
}

/// What was expected, and whether it came out.
#[must_use]
pub fn checks(checks: &[Check]) -> String {
    let line = |check: &Check| format!("{}: {}: {}\n", check.what, check.found, kept(check));
    checks.iter().map(line).collect()
}

/// Whether what was expected came out, in words.
#[must_use]
pub const fn kept(check: &Check) -> &'static str {
    match check.kept {
        Some(true) => "as expected",
        Some(false) => "NOT AS EXPECTED",
        None => "not measured",
    }
}
