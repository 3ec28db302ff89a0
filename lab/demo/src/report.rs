//! The demo's page.

use crate::measure::{Contender, PERCENTILES, Scenario, Stage, thousands};
use crate::notes;
use crate::results::DemoResults;
use crate::summary::{Summary, summaries};
use crate::table;
use pages::{AxisScale, Bar, Bars, Chart, Page, PageHead, PagePart, PageTable, PageVerdict, Series, Tone, nines};

/// The page.
#[must_use]
pub fn page(results: &DemoResults) -> Page {
    let doubt = results.doubt();
    let (word, tone) = if doubt.is_some() { ("PARTIAL", Tone::Mind) } else { ("COMPLETE", Tone::Good) };
    let mut page = Page::new(PageHead {
        title: table::title(results),
        of: "requests per second, one core for the server".to_owned(),
        made: Some(results.origin.made).filter(|made| *made > 0),
        verdict: PageVerdict { word: word.to_owned(), tone, reasons: doubt.into_iter().collect() },
        answer: Vec::new(),
        command: results.origin.command.clone(),
        machine: results.machine.told(),
    });
    for stage in Stage::ALL.into_iter().filter(|stage| !results.scenarios(*stage).is_empty()) {
        page.figures.push(PagePart::Heading(notes::stage(results, stage)));
        page.curves.push(PagePart::Heading(notes::stage(results, stage)));
        for scenario in results.scenarios(stage) {
            let rows = summaries(results, scenario);
            page.figures.push(figures(results, scenario, &rows).into());
            page.curves.push(bars(results, scenario, &rows).into());
            page.curves.push(latencies(results, scenario, &rows).into());
        }
    }
    page.method.push(PagePart::Text(table::conditions(results)));
    page.method.push(PagePart::List(notes::frames(results).into_iter().chain(notes::all(results)).collect()));
    page.method.push(PagePart::List(results.left_out.iter().map(|what| format!("Left out: {what}")).collect()));
    if let Some(configuration) = &results.configuration {
        page.method.push(PagePart::Whole("nginx's configuration".to_owned(), configuration.clone()));
    }
    let end = format!("Seed {}. Absolute figures belong to this machine; compare ratios.", results.seed);
    page.method.push(PagePart::Text(end));
    page.results.push(("results.json".to_owned(), results.to_json()));
    page
}

/// A colour for each, the same in every drawing.
const fn colour(contender: Contender) -> usize {
    match contender {
        Contender::Memif => 0,
        Contender::Nginx => 1,
        Contender::Sockets => 2,
        Contender::AfXdp => 3,
        Contender::OtherNginx => 4,
    }
}

fn times(row: &Summary) -> String {
    row.ratio.map_or_else(|| "-".to_owned(), |ratio| format!("{}×", table::times(ratio.median)))
}

/// Each scenario on a scale of its own, because connections and requests differ by two orders of
/// magnitude.
fn bars(results: &DemoResults, scenario: Scenario, rows: &[Summary]) -> Bars {
    let bar = |row: &Summary| Bar {
        group: String::new(),
        name: results.name(row.contender),
        colour: colour(row.contender),
        value: row.rate.median,
        interval: Some((row.rate.min, row.rate.max)),
        told: [thousands(row.rate.median), row.ratio.map_or_else(String::new, |_| format!(" ({})", times(row)))]
            .concat(),
        tone: Tone::Plain,
        counts: true,
    };
    Bars {
        title: scenario.title(),
        label: "requests/s: median, from the least to the most (times nginx's)".to_owned(),
        scale: AxisScale::Linear,
        format: thousands,
        rows: rows.iter().map(bar).collect(),
        band: None,
    }
}

fn latencies(results: &DemoResults, scenario: Scenario, rows: &[Summary]) -> Chart {
    let curve = |row: &Summary| {
        let samples = row.rate.median * results.seconds;
        let shares = PERCENTILES.iter().map(|percentile| percentile / 100.0).zip(&row.latency.curve);
        let kept = shares.filter(|(share, _)| (1.0 - share) * samples >= 10.0 - 1e-6);
        let mut series =
            Series::new(results.name(row.contender), kept.map(|(share, micros)| (nines(share), micros * 1e3)));
        series.largest = Some(row.latency.max * 1e3);
        series
    };
    Chart::by_percentile(&format!("Latency by percentile: {}", scenario.title()), rows.iter().map(curve).collect())
}

fn figures(results: &DemoResults, scenario: Scenario, rows: &[Summary]) -> PageTable {
    let heads = [
        "",
        "requests/s",
        "from – to",
        "p50 µs",
        "p99 µs",
        "max µs",
        "server CPU / softirq",
        "client CPU / softirq",
        "times nginx's",
        "from – to",
    ];
    let row = |row: &Summary| {
        let at = |percentile| row.latency.at(percentile).map_or_else(|| "-".to_owned(), table::micros);
        let span =
            row.ratio.map_or_else(|| "-".to_owned(), |r| format!("{} – {}", table::times(r.min), table::times(r.max)));
        vec![
            results.name(row.contender),
            thousands(row.rate.median),
            format!("{} – {}", thousands(row.rate.min), thousands(row.rate.max)),
            at(50.0),
            at(99.0),
            table::micros(row.latency.max),
            table::share(row.server_cpu),
            table::share(row.client_cpu),
            times(row),
            span,
        ]
    };
    PageTable::new(scenario.title(), &heads).with(rows.iter().map(row))
}
