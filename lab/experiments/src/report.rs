//! Pages of experiments, and of two of them compared.

use crate::compare::{self, Comparison};
use crate::number::number;
use crate::results::{RESULTS, Results};
use crate::runs::{ArmResults, RunVerdict};
use crate::table;
use environment::ResultOrigin;
use pages::{Bar, Bars, Chart, Page, PageHead, PagePart, PageTable, PageVerdict, Series, TableRow, Tone, nines};
use results::Worth;

/// The page of an experiment.
#[must_use]
pub fn page(results: &Results) -> Page {
    let arms: Vec<&str> = results.arms.iter().map(|arm| arm.name.as_str()).collect();
    let mut page = Page::new(PageHead {
        title: results.experiment.title.clone(),
        of: arms.join(", "),
        made: Some(results.origin.made.max(results.began)).filter(|made| *made > 0),
        verdict: judged(results.verdict()),
        answer: Vec::new(),
        command: results.origin.command.clone(),
        machine: results.machine.host.told(),
    });
    checks(&mut page, results);
    let mut comparisons = compare::within(results);
    comparisons.retain(|comparison| comparison.figure.better.is_some());
    if let Some(baseline) = results.baseline().filter(|_| !comparisons.is_empty()) {
        let title = format!("Versus {}: ratio of medians over runs, 95 % interval by bootstrap", baseline.name);
        verdicts(&mut page, &title, &comparisons, results.experiment.margin_percent / 100.0);
    }
    let unlike = compare::unlike_arms(results);
    page.figures.push(PagePart::List(unlike.iter().map(|unlike| format!("Not compared: {unlike}")).collect()));
    figures(&mut page, results);
    latencies(&mut page, results);
    method(&mut page, results);
    page.results.push((RESULTS.to_owned(), results.to_json()));
    page
}

/// The page of two results compared, with both in it; what is not alike, by [`compare::unlike`].
#[must_use]
pub fn compared(
    (before, after): (&Results, &Results),
    comparisons: &[Comparison],
    unlike: &[String],
    origin: ResultOrigin,
) -> Page {
    let worse = |one: &RunVerdict| Worth::of(&one.word);
    let sides = [("before", before.verdict()), ("after", after.verdict())];
    let mut verdict = judged(if worse(&sides[0].1) > worse(&sides[1].1) { before.verdict() } else { after.verdict() });
    let told = sides.iter().flat_map(|(side, own)| own.reasons.iter().map(move |why| format!("{side}: {why}")));
    verdict.reasons = unlike.iter().map(|unlike| format!("not alike: {unlike}")).chain(told).collect();
    if !unlike.is_empty() {
        (verdict.word, verdict.tone) = ("NOT ALIKE".to_owned(), Tone::Bad);
    }
    let judged = comparisons.iter().filter(|one| one.verdict.is_some());
    let mut page = Page::new(PageHead {
        title: format!("Compared: {}", after.experiment.title),
        of: format!("{} (before) and {} (after)", before.nearside, after.nearside),
        made: Some(origin.made),
        verdict,
        answer: judged.map(|one| format!("{}, {}: {}", one.arm, one.figure.name, table::word(one))).collect(),
        command: origin.command,
        machine: after.machine.host.told(),
    });
    let margin = after.experiment.margin_percent.max(before.experiment.margin_percent) / 100.0;
    verdicts(&mut page, "After ÷ before: ratio of medians over runs, 95 % interval by bootstrap", comparisons, margin);
    page.method.push(PagePart::List(compare::differences(after, before)));
    page.results = vec![("before.json".to_owned(), before.to_json()), ("after.json".to_owned(), after.to_json())];
    page
}

fn judged(verdict: RunVerdict) -> PageVerdict {
    let tone = match Worth::of(&verdict.word) {
        Worth::Complete => Tone::Good,
        Worth::Partial => Tone::Mind,
        Worth::Invalid => Tone::Bad,
    };
    PageVerdict { word: verdict.word, tone, reasons: verdict.reasons }
}

fn checks(page: &mut Page, results: &Results) {
    let row = |check: &crate::runs::Check| {
        let (tone, word) = match check.kept {
            Some(true) => (Tone::Good, "as expected"),
            Some(false) => (Tone::Bad, "not as expected"),
            None => (Tone::Mind, "not measured"),
        };
        TableRow { cells: vec![check.what.clone(), check.found.clone(), word.to_owned()], tone }
    };
    let rows = results.checks.iter().map(row);
    page.figures.push(PageTable::new("What was expected", &["", "found", "verdict"]).with(rows).into());
}

/// A table of comparisons, and their drawing.
fn verdicts(page: &mut Page, title: &str, comparisons: &[Comparison], margin: f64) {
    let tone = |one: &Comparison| match one.verdict.map(|verdict| verdict.name()) {
        Some("faster") => Tone::Good,
        Some("slower") => Tone::Bad,
        _ => Tone::Plain,
    };
    let rows = table::verdicts(comparisons).into_iter().skip(1).zip(comparisons);
    let rows = rows.map(|(cells, one)| TableRow { cells, tone: tone(one) });
    let heads = ["arms", "figure", "before", "after", "ratio", "95 % interval", "noise", "verdict"];
    page.figures.push(PageTable::new(title, &heads).with(rows).into());
    let mut bars: Vec<Bar> = Vec::new();
    for one in comparisons {
        let Some(effect) = one.effect.filter(|effect| effect.ratio.is_finite() && effect.ratio > 0.0) else { continue };
        let interval = effect.interval.filter(|(low, high)| *low > 0.0 && high.is_finite());
        let ends = interval.map_or_else(String::new, |(low, high)| format!(" ({low:.3} to {high:.3})"));
        bars.push(Bar {
            group: one.figure.name.clone(),
            name: one.arm.clone(),
            colour: 0,
            value: effect.ratio,
            interval,
            told: format!("{:.3}{ends}, {}", effect.ratio, table::word(one)),
            tone: tone(one),
            counts: one.verdict.is_some() || one.figure.better.is_some(),
        });
    }
    // A figure's rows stand together.
    let order: Vec<String> = bars.iter().map(|bar| bar.group.clone()).collect();
    bars.sort_by_key(|bar| order.iter().position(|group| *group == bar.group));
    page.curves.push(Bars::ratios(title, bars, Some((1.0 - margin, 1.0 + margin))).into());
}

fn figures(page: &mut Page, results: &Results) {
    let arms: Vec<&ArmResults> = results.arms.iter().filter(|arm| !arm.runs.is_empty()).collect();
    let heads: Vec<&str> = [""].into_iter().chain(arms.iter().map(|arm| arm.name.as_str())).collect();
    let cell = |values: Vec<f64>| match values.as_slice() {
        [] => "-".to_owned(),
        [one] => number(*one),
        values => {
            let low = values.iter().copied().fold(f64::INFINITY, f64::min);
            let high = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
            format!("{} ({} to {})", number(stats::median(values)), number(low), number(high))
        }
    };
    let rows = results.figures.iter().map(|figure| {
        let cells = arms.iter().map(|arm| cell(arm.values(&figure.name)));
        [figure.title()].into_iter().chain(cells).collect::<Vec<_>>()
    });
    page.figures.push(PageTable::new("All figures: medians, and from the least to the most", &heads).with(rows).into());
}

/// A chart for each pass, which is named where there are several.
fn latencies(page: &mut Page, results: &Results) {
    let arms = || results.arms.iter().filter(|arm| arm.repeats.is_none() && !arm.runs.is_empty());
    let mut passes: Vec<Option<&str>> = arms().flat_map(ArmResults::passes).collect();
    passes.sort_unstable();
    passes.dedup();
    for pass in passes {
        let curve = |arm: &ArmResults| {
            let (curve, max) = arm.curve(pass)?;
            let least = arm.latencies(pass).iter().map(|latency| latency.count).min()? as f64;
            let shares = results.percentiles.iter().map(|percentile| percentile / 100.0).zip(curve);
            let kept = shares.filter(|(share, _)| (1.0 - share) * least >= 10.0 - 1e-6);
            let mut series = Series::new(arm.name.clone(), kept.map(|(share, micros)| (nines(share), micros * 1e3)));
            series.largest = Some(max * 1e3);
            series.points.iter_mut().for_each(|point| point.counts = arm.invalid().is_empty());
            Some(series)
        };
        let what = pass.map_or_else(String::new, |pass| format!(": {pass}"));
        let title = format!("Latency by percentile{what}, medians of the runs");
        page.curves.push(Chart::by_percentile(&title, arms().filter_map(curve).collect()).into());
    }
    for arm in arms() {
        if let Some(histogram) = table::histogram(arm) {
            let title = format!("Latency by powers of two: {}", table::heading(results, arm));
            page.curves.push(PagePart::Whole(title, histogram.render("ms")));
        }
    }
}

fn method(page: &mut Page, results: &Results) {
    page.method.push(PagePart::Text(results.experiment.about.trim().to_owned()));
    page.method.push(PagePart::Text(table::conditions(results)));
    let mut notes = results.notes.clone();
    let left_out = results.arms.iter().filter_map(|arm| Some((&arm.name, arm.left_out.as_ref()?)));
    notes.extend(left_out.map(|(name, why)| format!("Left out: {name}: {why}")));
    let errors = results.errors().map_or_else(|| "nobody counted them".to_owned(), |errors| errors.to_string());
    notes.push(format!("Failed requests or connections, all runs: {errors}"));
    page.method.push(PagePart::List(notes));
    let arms = results.arms.iter().filter(|arm| arm.repeats.is_none());
    let first = arms.filter_map(|arm| Some((arm, arm.runs.first()?)));
    let rows = first.flat_map(|(arm, run)| {
        run.details.iter().map(|(name, value)| vec![arm.name.clone(), name.clone(), value.clone()])
    });
    page.method.push(PageTable::new("First run of each", &["arm", "what", "value"]).with(rows).into());
    let mut all: Vec<(String, String)> = results.machine.told().into_iter().collect();
    all.extend(results.tools.clone());
    page.method.push(PageTable::pairs("Settings and versions", ["", "value"], all).into());
}
