//! The demo's page.

use crate::measure::{Contender, PERCENTILES, Scenario, Stage, thousands};
use crate::notes;
use crate::results::DemoResults;
use crate::summary::{Summary, summaries};
use crate::table;
use pages::{Bar, Chart, Page, PageHead, PagePart, PageTable, PageVerdict, Series};

/// The page.
#[must_use]
pub fn page(results: &DemoResults) -> Page {
    let (word, reasons) = results.verdict();
    let mut page = Page::new(PageHead {
        title: table::title(results),
        of: "requests per second, one core for the server".to_owned(),
        made: results.origin.made,
        verdict: PageVerdict { word: word.to_owned(), reasons },
        answer: Vec::new(),
        command: results.origin.command.clone(),
        machine: results.machine.told(),
    });
    for stage in Stage::ALL.into_iter().filter(|stage| !results.scenarios(*stage).is_empty()) {
        page.figure(PagePart::Heading(notes::stage(results, stage)));
        page.curve(PagePart::Heading(notes::stage(results, stage)));
        for (at, scenario) in results.scenarios(stage).into_iter().enumerate() {
            let rows = summaries(results, scenario);
            page.head.answer.extend(answer(results, scenario, &rows).filter(|_| at == 0));
            let cells = rows.iter().map(|row| table::cells(results, row).to_vec());
            page.figure(PageTable::new(scenario.title(), &table::HEADS).with(cells));
            page.curve(bars(results, scenario, &rows));
            page.curve(latencies(results, scenario, &rows));
        }
    }
    page.tell(PagePart::Text(table::CELLS.to_owned()));
    page.tell(PagePart::Text(table::conditions(results)));
    page.tell(PagePart::List(notes::frames(results).into_iter().chain(notes::all(results)).collect()));
    page.tell(PagePart::List(results.left_out.iter().map(|what| format!("Left out: {what}")).collect()));
    if let Some(configuration) = &results.configuration {
        page.tell(PagePart::Whole("nginx's configuration".to_owned(), configuration.clone()));
    }
    let end = format!("Seed {}. Absolute figures belong to this machine; compare ratios.", results.seed);
    page.tell(PagePart::Text(end));
    page.results.push(("results.json".to_owned(), results.to_json()));
    page
}

/// How many times nginx's rate each has.
fn answer(results: &DemoResults, scenario: Scenario, rows: &[Summary]) -> Option<String> {
    let told = |row: &Summary| Some(format!("{} {}×", results.name(row.contender), table::times(row.ratio?.median)));
    let told: Vec<String> = rows.iter().filter_map(told).collect();
    (!told.is_empty()).then(|| format!("{}, times nginx's rate: {}", scenario.title(), told.join(", ")))
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

/// Each scenario on a scale of its own, because connections and requests differ by two orders of
/// magnitude.
fn bars(results: &DemoResults, scenario: Scenario, rows: &[Summary]) -> PageTable {
    let bar = |row: &Summary| {
        let times = row.ratio.map_or_else(String::new, |ratio| format!(" ({}×)", table::times(ratio.median)));
        let told = thousands(row.rate.median) + &times;
        let bar = Bar::new(results.name(row.contender), colour(row.contender), row.rate.median, told);
        Bar { interval: Some((row.rate.min, row.rate.max)), ..bar }
    };
    let label = "requests/s: median, from the least to the most (times nginx's)";
    PageTable::bars(&scenario.title(), label, thousands, &rows.iter().map(bar).collect::<Vec<_>>())
}

fn latencies(results: &DemoResults, scenario: Scenario, rows: &[Summary]) -> Chart {
    let curve = |row: &Summary| {
        let shares =
            PERCENTILES.iter().zip(&row.latency.curve).map(|(percentile, micros)| (percentile / 100.0, micros * 1e3));
        let samples = row.rate.median * results.seconds;
        Series::by_share(&results.name(row.contender), shares, samples, Some(row.latency.max * 1e3))
    };
    Chart::by_percentile(&format!("Latency by percentile: {}", scenario.title()), rows.iter().map(curve).collect())
}
