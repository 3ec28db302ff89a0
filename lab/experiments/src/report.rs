//! The report: one page of HTML that needs nothing but itself, in light and
//! in dark. Its markup is XML as well, so that any parser checks it.

mod forest;
mod plot;

use crate::compare;
use crate::number::number;
use crate::results::Results;
use crate::runs::ArmResults;
use crate::table;
use std::fmt::Write;

/// The page.
#[must_use]
pub fn render(results: &Results) -> String {
    let title = escape(&results.experiment.title);
    let mut page = format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\"/>\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"/>\n\
         <title>{title}</title>\n<style>\n{}</style>\n</head>\n<body>\n<main>\n<h1>{title}</h1>\n",
        include_str!("report/report.css")
    );
    for doubt in results.verdict().reasons {
        let _ = writeln!(page, "<p class=\"doubt\">{}</p>", escape(&doubt));
    }
    let _ = writeln!(page, "<p class=\"lead\">{}</p>", escape(&table::conditions(results)));
    if !results.experiment.about.is_empty() {
        let _ = writeln!(page, "<p>{}</p>", escape(results.experiment.about.trim()));
    }
    checks(&mut page, results);
    latencies(&mut page, results);
    details(&mut page, results);
    verdicts(&mut page, results);
    figures(&mut page, results);
    histograms(&mut page, results);
    footer(&mut page, results);
    page.push_str("</main>\n</body>\n</html>\n");
    page
}

pub(crate) fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

/// Colours in the order of arms.
const COLOURS: usize = 8;

pub(crate) fn class(index: usize) -> String {
    format!("c{}", index % COLOURS)
}

/// The arms that were measured, the control apart, each with its colour.
pub(crate) fn measured(results: &Results) -> Vec<(String, &ArmResults)> {
    let all = results.arms.iter().enumerate().filter(|(_, arm)| arm.repeats.is_none() && !arm.runs.is_empty());
    all.map(|(index, arm)| (class(index), arm)).collect()
}

fn checks(page: &mut String, results: &Results) {
    if results.checks.is_empty() {
        return;
    }
    page.push_str("<h2>What was expected</h2>\n<ul class=\"checks\">\n");
    for check in &results.checks {
        let (class, word) = match check.kept {
            Some(true) => ("kept", "as expected"),
            Some(false) => ("missed", "not as expected"),
            None => ("open", "not measured"),
        };
        let (what, found) = (escape(&check.what), escape(&check.found));
        let _ = writeln!(page, "<li><b class=\"{class}\">{word}</b> {what}: {found}</li>");
    }
    page.push_str("</ul>\n");
}

/// A chart for each pass, which is named where there are several.
fn latencies(page: &mut String, results: &Results) {
    let arms = measured(results);
    let mut passes: Vec<Option<&str>> = arms.iter().flat_map(|(_, arm)| arm.passes()).collect();
    passes.sort_unstable();
    passes.dedup();
    if passes.is_empty() {
        return;
    }
    page.push_str(
        "<h2>Latency by percentile</h2>\n<p class=\"lead\">Each nine is as wide as the one before; the latency's \
         axis is logarithmic. Points are medians of the runs, rings their largest latencies.</p>\n",
    );
    for pass in passes {
        let drawn: Vec<&(String, &ArmResults)> = arms.iter().filter(|(_, arm)| arm.curve(pass).is_some()).collect();
        page.push_str("<div class=\"card scroll\">\n");
        if let Some(name) = pass {
            let _ = writeln!(page, "<h3>{}</h3>", escape(name));
        }
        page.push_str("<div class=\"key\">");
        for (class, arm) in &drawn {
            let _ = write!(page, "<span><i class=\"{class}\"></i>{}</span>", escape(&arm.name));
        }
        page.push_str("</div>\n");
        plot::percentiles(page, results, &drawn, pass);
        page.push_str("</div>\n");
    }
}

/// What is no number: the first run's; the others stand in the results.
fn details(page: &mut String, results: &Results) {
    let arms = measured(results);
    let rows: Vec<String> = arms
        .iter()
        .filter_map(|(_, arm)| Some((arm, arm.runs.first()?)))
        .flat_map(|(arm, run)| {
            run.details.iter().map(|(name, value)| {
                let cells = [&arm.name, name, value].map(|text| escape(text));
                format!("<tr><td>{}</td><td>{}</td><td class=\"text\">{}</td></tr>", cells[0], cells[1], cells[2])
            })
        })
        .collect();
    if !rows.is_empty() {
        let _ = writeln!(
            page,
            "<h2>First run of each</h2>\n<div class=\"card scroll\"><table class=\"left\">\n{}\n</table></div>",
            rows.join("\n")
        );
    }
}

fn verdicts(page: &mut String, results: &Results) {
    let mut comparisons = compare::within(results);
    comparisons.retain(|comparison| comparison.figure.better.is_some());
    let Some(baseline) = results.baseline().filter(|_| !comparisons.is_empty()) else { return };
    let _ = writeln!(
        page,
        "<h2>Versus {}</h2>\n<p class=\"lead\">Ratio of medians over runs with its 95 % interval (bootstrap by \
         round). Equivalent: the whole interval within {} %. Noise: what the same arm showed versus itself.</p>",
        escape(&baseline.name),
        results.experiment.margin_percent,
    );
    forest::draw(page, results, &comparisons);
    let _ = writeln!(
        page,
        "<div class=\"card scroll\"><table>\n<thead><tr><th>arm</th><th>figure</th><th>{}</th><th>arm's</th>\
         <th>ratio</th><th>interval</th><th>noise</th><th>verdict</th></tr></thead>\n<tbody>",
        escape(&baseline.name),
    );
    for comparison in &comparisons {
        let class = comparison.verdict.map_or("", |verdict| verdict.name());
        let cells = [
            comparison.arm.clone(),
            comparison.figure.title(),
            number(comparison.before),
            number(comparison.after),
            comparison.effect.map_or_else(|| "-".to_owned(), |effect| format!("{:.3}", effect.ratio)),
            table::interval(comparison),
            table::noise(comparison.floor),
        ]
        .map(|cell| escape(&cell));
        let word = escape(&table::word(comparison));
        let _ = writeln!(page, "<tr><td>{}</td><td class=\"{class}\">{word}</td></tr>", cells.join("</td><td>"));
    }
    page.push_str("</tbody></table></div>\n");
    for unlike in compare::unlike_arms(results) {
        let _ = writeln!(page, "<p class=\"missed\">Not compared: {}</p>", escape(&unlike));
    }
}

fn figures(page: &mut String, results: &Results) {
    page.push_str("<h2>All figures</h2>\n<div class=\"card scroll\"><table>\n<thead><tr><th>figure</th>");
    let arms: Vec<&ArmResults> = results.arms.iter().filter(|arm| !arm.runs.is_empty()).collect();
    for arm in &arms {
        let _ = write!(page, "<th>{}</th>", escape(&arm.name));
    }
    page.push_str("</tr></thead>\n<tbody>\n");
    for figure in &results.figures {
        let _ = write!(page, "<tr><td>{}</td>", escape(&figure.title()));
        for arm in &arms {
            let values = arm.values(&figure.name);
            let cell = match values.as_slice() {
                [] => "-".to_owned(),
                [one] => number(*one),
                values => {
                    let low = values.iter().copied().fold(f64::INFINITY, f64::min);
                    let high = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
                    let (median, low, high) = (number(stats::median(values)), number(low), number(high));
                    format!("{median}<br/><span class=\"soft\">{low} – {high}</span>")
                }
            };
            let _ = write!(page, "<td>{cell}</td>");
        }
        page.push_str("</tr>\n");
    }
    page.push_str("</tbody></table></div>\n");
}

fn histograms(page: &mut String, results: &Results) {
    let drawn: Vec<String> = measured(results)
        .iter()
        .filter_map(|(class, arm)| {
            let text = table::histogram(arm)?.render("ms");
            let heading = escape(&table::heading(results, arm));
            Some(format!(
                "<div class=\"card scroll\"><h3><i class=\"{class}\"></i>{heading}</h3>\n<pre>{}</pre></div>",
                escape(&text)
            ))
        })
        .collect();
    if !drawn.is_empty() {
        let _ = writeln!(
            page,
            "<h2>Latency by powers of two</h2>\n<p class=\"lead\">All runs of each together.</p>\n\
             <div class=\"charts\">\n{}\n</div>",
            drawn.join("\n")
        );
    }
}

fn footer(page: &mut String, results: &Results) {
    page.push_str("<h2>Conditions</h2>\n<ul>\n");
    for note in &results.notes {
        let _ = writeln!(page, "<li>{}</li>", escape(note));
    }
    for arm in &results.arms {
        if let Some(why) = &arm.left_out {
            let _ = writeln!(page, "<li>Left out: {}: {}</li>", escape(&arm.name), escape(why));
        }
    }
    let errors = results.errors().map_or_else(|| "nobody counted them".to_owned(), |errors| errors.to_string());
    let _ = writeln!(page, "<li>Failed requests or connections, all runs: {errors}</li>\n</ul>");
    page.push_str("<details><summary>Machine, settings and versions</summary>\n<table class=\"left\">\n");
    let mut rows: Vec<(String, String)> = results.machine.told().into_iter().collect();
    rows.extend(results.tools.clone());
    for (key, value) in rows {
        let _ = writeln!(page, "<tr><td>{}</td><td class=\"text\">{}</td></tr>", escape(&key), escape(&value));
    }
    let _ = writeln!(
        page,
        "</table></details>\n<footer>Made by <code>nearside lab report</code> {} from results.json beside this page \
         (seed {}). Absolute figures belong to this machine; compare ratios.</footer>",
        escape(&results.nearside),
        results.experiment.seed
    );
}
