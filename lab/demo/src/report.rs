//! The report: one page of HTML that needs nothing but itself, in light and
//! in dark.

use crate::measure::{Contender, Latency, Scenario, Stage, thousands};
use crate::notes;
use crate::results::DemoResults;
use crate::summary::{Summary, summaries};
use crate::table;
use std::fmt::Write;

/// The page.
#[must_use]
pub(crate) fn render(results: &DemoResults) -> String {
    let title = escape(&table::title(results));
    let mut page = format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <title>{title}</title>\n<style>\n{}</style>\n</head>\n<body>\n<main>\n<h1>{title}</h1>\n",
        include_str!("report.css")
    );
    if let Some(doubt) = results.doubt() {
        let _ = writeln!(page, "<p class=\"doubt\">{}</p>", escape(&doubt));
    }
    for line in table::conditions(results).lines() {
        let _ = writeln!(page, "<p class=\"lead\">{}</p>", escape(line));
    }
    rates(&mut page, results);
    latencies(&mut page, results);
    figures(&mut page, results);
    footer(&mut page, results);
    page.push_str("</main>\n</body>\n</html>\n");
    page
}

const fn class(contender: Contender) -> &'static str {
    match contender {
        Contender::Nginx => "nginx",
        Contender::OtherNginx => "other",
        Contender::Sockets => "sockets",
        Contender::AfXdp => "xdp",
        Contender::Memif => "near",
    }
}

fn key(page: &mut String, results: &DemoResults, stage: Stage) {
    page.push_str("<div class=\"key\">");
    for contender in stage.contenders() {
        if results.rows.iter().any(|row| row.scenario.stage == stage && row.contender == *contender) {
            let name = escape(&results.name(*contender));
            let _ = write!(page, "<span><i class=\"{}\"></i>{name}</span>", class(*contender));
        }
    }
    page.push_str("</div>\n");
}

/// Bars: each scenario on a scale of its own, because connections and
/// requests differ by two orders of magnitude.
fn rates(page: &mut String, results: &DemoResults) {
    page.push_str("<h2>Requests per second, one core for the server</h2>\n");
    for stage in Stage::ALL.into_iter().filter(|stage| !results.scenarios(*stage).is_empty()) {
        let _ = writeln!(page, "<p class=\"stage\">{}</p>", escape(&notes::stage(results, stage)));
        page.push_str("<div class=\"bars\">\n");
        for scenario in results.scenarios(stage) {
            bars(page, results, scenario);
        }
        page.push_str("</div>\n");
    }
    if let Some(limit) = notes::frames(results) {
        let _ = writeln!(page, "<p class=\"lead\" style=\"margin-top:1rem\">{}</p>", escape(&limit));
    }
}

fn bars(page: &mut String, results: &DemoResults, scenario: Scenario) {
    let rows = summaries(results, scenario);
    let longest = rows.iter().map(|row| row.rate.median).fold(0.0, f64::max);
    let _ = writeln!(page, "<div class=\"card\"><h3>{}</h3>", escape(&scenario.title()));
    for row in &rows {
        let width = 100.0 * row.rate.median / longest.max(1.0);
        let ratio = row.ratio.map_or_else(String::new, |r| format!(" <b>{}×</b>", table::times(r.median)));
        let _ = writeln!(
            page,
            "<div class=\"bar\" title=\"{} to {} requests/s\"><span>{}</span>\
             <div class=\"track\"><div class=\"fill {}\" style=\"width:{width:.2}%\"></div></div>\
             <span class=\"value\">{}{ratio}</span></div>",
            thousands(row.rate.min),
            thousands(row.rate.max),
            escape(&results.name(row.contender)),
            class(row.contender),
            thousands(row.rate.median),
        );
    }
    page.push_str("</div>\n");
}

fn latencies(page: &mut String, results: &DemoResults) {
    page.push_str(
        "<h2>Latency by percentile</h2>\n<p class=\"lead\">Each nine is as wide as the one before; the latency's \
         axis is logarithmic. Points are medians of the rounds, the ring is the largest latency of all.</p>\n",
    );
    for stage in Stage::ALL.into_iter().filter(|stage| !results.scenarios(*stage).is_empty()) {
        let _ = writeln!(page, "<p class=\"stage\">{}</p>", escape(&notes::stage(results, stage)));
        key(page, results, stage);
        page.push_str("<div class=\"charts\">\n");
        for scenario in results.scenarios(stage) {
            let _ = writeln!(page, "<div class=\"card\"><h3>{}</h3>", escape(&scenario.title()));
            chart(page, results, scenario, &summaries(results, scenario));
            page.push_str("</div>\n");
        }
        page.push_str("</div>\n");
    }
}

// The chart's place in its 460 × 250 drawing.
const LEFT: f64 = 52.0;
const RIGHT: f64 = 440.0;
const TOP: f64 = 14.0;
const BOTTOM: f64 = 218.0;
/// Nines that the axis holds, and the place of the maximum behind them.
const NINES: f64 = 5.0;
const MAX_AT: f64 = 5.4;

fn chart(page: &mut String, results: &DemoResults, scenario: Scenario, rows: &[Summary]) {
    let values = || rows.iter().flat_map(|row| row.latency.curve.iter().chain([&row.latency.max]));
    let low = values().copied().filter(|v| *v > 0.0).fold(f64::INFINITY, f64::min).max(0.1).log10().floor();
    let high = values().copied().fold(1.0, f64::max).log10().ceil().max(low + 1.0);
    let y = |micros: f64| BOTTOM - (micros.max(0.1).log10() - low) / (high - low) * (BOTTOM - TOP);
    let x = |nines: f64| LEFT + nines / MAX_AT * (RIGHT - LEFT);
    let _ = writeln!(
        page,
        "<svg viewBox=\"0 0 460 250\" role=\"img\" aria-label=\"Latency by percentile: {}\">",
        escape(&scenario.title())
    );
    for decade in low as i32..=high as i32 {
        let at = y(10_f64.powi(decade));
        let _ = writeln!(page, "<line class=\"grid\" x1=\"{LEFT}\" x2=\"{RIGHT}\" y1=\"{at:.1}\" y2=\"{at:.1}\"/>");
        let text = decade_label(decade);
        let _ = writeln!(page, "<text x=\"{}\" y=\"{:.1}\" text-anchor=\"end\">{text}</text>", LEFT - 7.0, at + 4.0);
    }
    let ticks = [(0.0, "0"), (1.0, "90"), (2.0, "99"), (3.0, "99.9"), (4.0, "99.99"), (5.0, "99.999"), (MAX_AT, "max")];
    for (nines, label) in ticks {
        let at = x(nines);
        // The last two would touch: the maximum's label is a line lower.
        let below = if nines > NINES { 30.0 } else { 17.0 };
        let _ = writeln!(page, "<line class=\"grid\" x1=\"{at:.1}\" x2=\"{at:.1}\" y1=\"{TOP}\" y2=\"{BOTTOM}\"/>");
        let _ = writeln!(page, "<text x=\"{at:.1}\" y=\"{}\" text-anchor=\"middle\">{label}</text>", BOTTOM + below);
    }
    let _ = writeln!(page, "<line class=\"axis\" x1=\"{LEFT}\" x2=\"{RIGHT}\" y1=\"{BOTTOM}\" y2=\"{BOTTOM}\"/>");
    for row in rows {
        let class = class(row.contender);
        let samples = row.rate.median * results.seconds;
        let points = points(&row.latency, &results.percentiles, samples);
        let path: Vec<String> = points.iter().map(|(n, micros)| format!("{:.1},{:.1}", x(*n), y(*micros))).collect();
        let _ = writeln!(page, "<polyline class=\"line {class}\" points=\"{}\"/>", path.join(" "));
        let (at, top) = (x(MAX_AT), y(row.latency.max));
        let _ = writeln!(
            page,
            "<circle class=\"dot {class}\" cx=\"{at:.1}\" cy=\"{top:.1}\" r=\"4\">\
             <title>{} max {} µs</title></circle>",
            escape(&results.name(row.contender)),
            table::micros(row.latency.max)
        );
    }
    page.push_str("</svg>\n");
}

/// The curve up to where at least one sample lies above the percentile.
fn points(latency: &Latency, percentiles: &[f64], samples: f64) -> Vec<(f64, f64)> {
    let above = |percentile: f64| 1.0 - percentile / 100.0;
    let kept = percentiles.iter().zip(&latency.curve).filter(|(p, _)| above(**p) * samples >= 1.0);
    kept.map(|(percentile, micros)| (-above(*percentile).log10(), *micros)).collect()
}

fn decade_label(decade: i32) -> String {
    match decade {
        6.. => format!("{} s", 10_f64.powi(decade - 6)),
        3..=5 => format!("{} ms", 10_f64.powi(decade - 3)),
        _ => format!("{} µs", 10_f64.powi(decade)),
    }
}

fn figures(page: &mut String, results: &DemoResults) {
    page.push_str(
        "<h2>All figures</h2>\n<div class=\"card scroll\"><table>\n<thead><tr><th></th><th>requests/s</th>\
         <th>min – max</th><th>p50 µs</th><th>p99 µs</th><th>p99.9 µs</th><th>max µs</th>\
         <th>server CPU<br>/ softirq</th><th>client CPU<br>/ softirq</th>\
         <th>ratio</th><th>min – max</th></tr></thead>\n<tbody>\n",
    );
    for scenario in Stage::ALL.into_iter().flat_map(|stage| results.scenarios(stage)) {
        let stage = notes::short_stage(results, scenario.stage);
        let _ = writeln!(
            page,
            "<tr class=\"row\"><td colspan=\"11\">{} <span class=\"soft\">{stage}</span></td></tr>",
            escape(&scenario.title())
        );
        for row in summaries(results, scenario) {
            let at = |percentile| row.latency.at(percentile).map_or_else(String::new, table::micros);
            let ratio = row.ratio.map_or_else(String::new, |r| format!("{}×", table::times(r.median)));
            let span =
                row.ratio.map_or_else(String::new, |r| format!("{} – {}", table::times(r.min), table::times(r.max)));
            let cells = [
                escape(&results.name(row.contender)),
                thousands(row.rate.median),
                format!("{} – {}", thousands(row.rate.min), thousands(row.rate.max)),
                at(50.0),
                at(99.0),
                at(99.9),
                table::micros(row.latency.max),
                table::share(row.server_cpu),
                table::share(row.client_cpu),
                ratio,
                span,
            ];
            let _ = writeln!(page, "<tr><td>{}</td></tr>", cells.join("</td><td>"));
        }
    }
    page.push_str("</tbody></table></div>\n");
}

fn footer(page: &mut String, results: &DemoResults) {
    page.push_str("<h2>How it was measured, and what differs between the rows</h2>\n<ul>\n");
    for note in notes::all(results) {
        let _ = writeln!(page, "<li>{}</li>", escape(&note));
    }
    for what in &results.left_out {
        let _ = writeln!(page, "<li>Left out: {}</li>", escape(what));
    }
    page.push_str("</ul>\n");
    if let Some(configuration) = &results.configuration {
        let _ = writeln!(
            page,
            "<details><summary>nginx's configuration</summary><pre class=\"scroll\">{}</pre></details>",
            escape(configuration)
        );
    }
    let _ = writeln!(
        page,
        "<footer>Made by <code>nearside demo</code> (seed {}). Absolute figures belong to this machine; \
         compare ratios. All values are in results.json beside this page.</footer>",
        results.seed
    );
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}
