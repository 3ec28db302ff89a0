//! Pages of experiments, and of two of them compared.

use crate::compare::{self, Comparison};
use crate::curves::charts;
use crate::number::number;
use crate::results::{RESULTS, Results};
use crate::runs::{ArmResults, RunVerdict};
use crate::table;
use environment::ResultOrigin;
use figures::by_word;
use pages::{Bar, Chart, Page, PageHead, PagePart, PageTable, PageVerdict, Series};
use results::Worth;

/// The page of an experiment.
#[must_use]
pub fn page(results: &Results) -> Page {
    let arms: Vec<&str> = results.arms.iter().map(|arm| arm.name.as_str()).collect();
    let mut page = Page::new(PageHead {
        title: results.experiment.title.clone(),
        of: arms.join(", "),
        made: results.origin.made.max(results.began),
        verdict: judged(results.verdict()),
        answer: Vec::new(),
        command: results.origin.command.clone(),
        machine: results.machine.host.told(),
    });
    let checks = results.checks.iter().map(|check| vec![check.what.clone(), check.found.clone()]);
    let words = results.checks.iter().map(|check| table::kept(check).to_owned());
    page.figure(PageTable::new("What was expected", &["", "found"]).with(checks).judged(words));
    let mut comparisons = compare::within(results);
    comparisons.retain(|comparison| comparison.figure.better.is_some());
    if let Some(baseline) = results.baseline().filter(|_| !comparisons.is_empty()) {
        let title =
            format!("Versus {}: ratio of medians over runs, 95 % interval by bootstrap of rounds", baseline.name);
        page.head.answer = answer(&comparisons);
        verdicts(&mut page, (&title, table::ARMS), &comparisons, results.experiment.margin_percent / 100.0);
    }
    let unlike = compare::unlike_arms(results);
    page.figure(PagePart::List(unlike.iter().map(|unlike| format!("Not compared: {unlike}")).collect()));
    figures(&mut page, results);
    charts(results).into_iter().for_each(|chart| page.curve(chart));
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
    let sides = [("before", before.verdict()), ("after", after.verdict())];
    let worst = sides.iter().map(|(_, own)| own).max_by_key(|own| Worth::of(&own.word));
    let mut verdict = judged(worst.cloned().unwrap_or_else(|| after.verdict()));
    verdict.reasons =
        sides.iter().flat_map(|(side, own)| own.reasons.iter().map(move |why| format!("{side}: {why}"))).collect();
    compare::undecided(comparisons).into_iter().for_each(|why| verdict.lacks(why));
    verdict.unless_alike(unlike.iter().map(|unlike| format!("not alike: {unlike}")));
    // What is not alike says nothing of the other, whatever each is worth.
    let void = |one: &Comparison| Comparison { verdict: None, counts: false, ..one.clone() };
    let void: Vec<Comparison> = comparisons.iter().filter(|_| !unlike.is_empty()).map(void).collect();
    let comparisons = if unlike.is_empty() { comparisons } else { &void };
    let mut page = Page::new(PageHead {
        title: format!("Compared: {}", after.experiment.title),
        of: [("before", before), ("after", after)].map(|(side, results)| of_side(side, results)).join("; "),
        made: origin.made,
        verdict,
        answer: answer(comparisons),
        command: origin.command,
        machine: after.machine.host.told(),
    });
    let margin = after.experiment.margin_percent.max(before.experiment.margin_percent) / 100.0;
    let title = "After ÷ before: ratio of medians over runs, 95 % interval by bootstrap of each side apart";
    verdicts(&mut page, (title, table::SIDES), comparisons, margin);
    page.tell(PagePart::List(compare::differences(after, before)));
    page.results = vec![("before.json".to_owned(), before.to_json()), ("after.json".to_owned(), after.to_json())];
    page
}

/// The arms of a side, and which of ours measured them.
fn of_side(side: &str, results: &Results) -> String {
    let arms: Vec<&str> = results.arms.iter().map(|arm| arm.name.as_str()).collect();
    format!("{} ({side}, measured by nearside {})", arms.join(", "), results.nearside)
}

fn judged(RunVerdict { word, reasons }: RunVerdict) -> PageVerdict {
    PageVerdict { word, reasons }
}

/// What is faster, and what is not: a line for each verdict, which names the first figures of it.
fn answer(comparisons: &[Comparison]) -> Vec<String> {
    const NAMED: usize = 6;
    let one = |one: &Comparison| Some((one.verdict?.name().to_owned(), format!("{} of {}", one.figure.name, one.arm)));
    let void = comparisons.iter().any(|one| !one.counts).then(|| results::NO_VERDICT.to_owned());
    void.into_iter().chain(by_word(comparisons.iter().filter_map(one), NAMED)).collect()
}

/// A table of comparisons, and their drawing.
fn verdicts(page: &mut Page, (title, sides): (&str, [&str; 2]), comparisons: &[Comparison], margin: f64) {
    page.figure(PageTable::headed(title, table::verdicts(comparisons, sides)));
    let bar = |one: &Comparison| {
        let (effect, name) = (one.effect?, format!("{}: {}", one.figure.name, one.arm));
        let also = format!(", {}", table::word(one));
        let bar = Bar::ratio(name, Some(effect.ratio), effect.interval, &also)?;
        Some(Bar { counts: one.counts && one.figure.better.is_some(), ..bar })
    };
    // A figure's rows stand together.
    let mut all: Vec<&Comparison> = comparisons.iter().collect();
    all.sort_by_key(|one| comparisons.iter().position(|other| other.figure.name == one.figure.name));
    let bars: Vec<Bar> = all.into_iter().filter_map(bar).collect();
    page.curve(PageTable::ratios(title, &bars, Some((1.0 - margin, 1.0 + margin))));
}

fn figures(page: &mut Page, results: &Results) {
    let arms: Vec<&ArmResults> = results.arms.iter().filter(|arm| !arm.runs.is_empty()).collect();
    if arms.is_empty() {
        return;
    }
    let heads: Vec<&str> = [""].into_iter().chain(arms.iter().map(|arm| arm.name.as_str())).collect();
    let cell = |arm: &ArmResults, figure: &str| match (arm.median(figure), arm.extent(figure)) {
        (None, _) => "-".to_owned(),
        (Some(median), None) => number(median),
        (Some(median), Some((low, high))) => format!("{} ({} to {})", number(median), number(low), number(high)),
    };
    let rows = results.figures.iter().map(|figure| {
        let cells = arms.iter().map(|arm| cell(arm, &figure.name));
        [figure.title()].into_iter().chain(cells).collect::<Vec<_>>()
    });
    page.figure(PageTable::new("All figures: medians, and from the least to the most", &heads).with(rows));
}

/// A chart for each pass, which is named where there are several.
fn latencies(page: &mut Page, results: &Results) {
    let mut passes: Vec<Option<&str>> = results.measured().flat_map(ArmResults::passes).collect();
    passes.sort_unstable();
    passes.dedup();
    for pass in passes {
        let curve = |arm: &ArmResults| {
            let (curve, max) = arm.curve(pass)?;
            let least = arm.latencies(pass).iter().map(|latency| latency.count).min()? as f64;
            let shares = results.percentiles.iter().zip(curve).map(|(percent, micros)| (percent / 100.0, micros * 1e3));
            Some(Series::by_share(&arm.name, shares, least, Some(max * 1e3)).counting(arm.invalid().is_empty()))
        };
        let what = pass.map_or_else(String::new, |pass| format!(": {pass}"));
        let title = format!("Latency by percentile{what}, medians of the runs");
        page.curve(Chart::by_percentile(&title, results.measured().filter_map(curve).collect()));
    }
    for arm in results.measured() {
        if let Some(histogram) = table::histogram(arm) {
            let title = format!("Latency by powers of two: {}", table::heading(results, arm));
            page.curve(PagePart::Whole(title, histogram.render("ms")));
        }
    }
}

fn method(page: &mut Page, results: &Results) {
    page.tell(PagePart::Text(results.experiment.about.trim().to_owned()));
    page.tell(PagePart::Text(table::conditions(results)));
    let mut notes = results.notes.clone();
    let left_out = results.arms.iter().filter_map(|arm| Some((&arm.name, arm.left_out.as_ref()?)));
    notes.extend(left_out.map(|(name, why)| format!("Left out: {name}: {why}")));
    let errors = results.errors().map_or_else(|| "nobody counted them".to_owned(), |errors| errors.to_string());
    notes.push(format!("Failed requests or connections, all runs: {errors}"));
    page.tell(PagePart::List(notes));
    let first = results.measured().filter_map(|arm| Some((arm, arm.runs.first()?)));
    let rows = first.flat_map(|(arm, run)| {
        run.details.iter().map(|(name, value)| vec![arm.name.clone(), name.clone(), value.clone()])
    });
    page.tell(PageTable::new("First run of each", &["arm", "what", "value"]).with(rows));
    let mut all: Vec<(String, String)> = results.machine.told().into_iter().collect();
    all.extend(results.tools.clone());
    page.tell(PageTable::pairs("Settings and versions", ["", "value"], all));
}
