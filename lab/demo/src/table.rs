//! The tables for the terminal.

use crate::measure::{Contender, Stage, thousands};
use crate::notes;
use crate::results::DemoResults;
use crate::summary::{Summary, summaries};
use std::fmt::Write;

/// The table and its notes.
#[must_use]
pub(crate) fn render(results: &DemoResults) -> String {
    let mut text = format!("{}\n", title(results));
    for reason in results.verdict().1 {
        text.push_str(&wrapped(&reason, 100, "! "));
    }
    for line in conditions(results).lines() {
        text.push_str(&wrapped(line, 120, ""));
    }
    for stage in Stage::ALL {
        let scenarios = results.scenarios(stage);
        if scenarios.is_empty() {
            continue;
        }
        let _ = writeln!(text, "\n{}", notes::stage(results, stage));
        line(&mut text, &HEADS.map(str::to_owned));
        for scenario in scenarios {
            let _ = writeln!(text, "{}", scenario.title());
            for row in summaries(results, scenario) {
                line(&mut text, &cells(results, &row));
            }
        }
    }
    let _ = writeln!(text, "{CELLS}");
    if let Some(limit) = notes::frames(results) {
        let _ = write!(text, "\n{}", wrapped(&limit, 100, ""));
    }
    text.push_str("\nHow it was measured, and what differs between the rows\n");
    for note in notes::all(results) {
        text.push_str(&wrapped(&note, 100, "- "));
    }
    for what in &results.left_out {
        text.push_str(&wrapped(&format!("left out: {what}"), 100, "- "));
    }
    text
}

/// The first look: a few lines, while the rest is measured.
#[must_use]
pub(crate) fn first_look(results: &DemoResults) -> String {
    let mut text = String::from("First look: one round of 1 s for each row; the whole table follows\n");
    for reason in results.verdict().1 {
        text.push_str(&wrapped(&reason, 100, "! "));
    }
    for stage in Stage::ALL {
        let scenarios = results.scenarios(stage);
        if scenarios.is_empty() {
            continue;
        }
        let _ = write!(text, "{:<58}", notes::short_stage(results, stage));
        let columns = stage.contenders().iter().filter(|who| results.rows.iter().any(|row| row.contender == **who));
        let columns: Vec<Contender> = columns.copied().collect();
        columns.iter().for_each(|who| _ = write!(text, " {:>18}", results.name(*who)));
        text.push('\n');
        for scenario in scenarios {
            let _ = write!(text, "  {:<56}", scenario.title());
            let rows = summaries(results, scenario);
            for row in columns.iter().filter_map(|who| rows.iter().find(|row| row.contender == *who)) {
                let ratio = row.ratio.map_or_else(String::new, |ratio| format!(" ({}x)", times(ratio.median)));
                let _ = write!(text, " {:>18}", thousands(row.rate.median) + &ratio);
            }
            text.push('\n');
        }
    }
    text.push_str("requests per second, and how many times nginx's\n");
    text
}

/// What was compared.
pub(crate) fn title(results: &DemoResults) -> String {
    let versions: Vec<String> = results.nginx.iter().map(|nginx| format!("nginx {}", nginx.version)).collect();
    match versions.is_empty() {
        false => format!("Nearside {} versus {}", results.nearside, versions.join(" and ")),
        true => format!("Nearside {}", results.nearside),
    }
}

/// On what, and for how long.
pub(crate) fn conditions(results: &DemoResults) -> String {
    let machine = &results.machine;
    format!(
        "{}, {} cores{}, {}, Linux {}; server on core {}, client on core {}\n\
         {} of {} s for each row, in shuffled order; medians of the rounds",
        machine.processor,
        machine.cores.len(),
        if machine.virtual_machine { " of a virtual machine" } else { "" },
        machine.system,
        machine.kernel,
        results.cores.0,
        results.cores.1,
        if results.rounds == 1 { "1 round".to_owned() } else { format!("{} rounds", results.rounds) },
        results.seconds,
    )
}

/// The heads of [`cells`].
pub(crate) const HEADS: [&str; 9] =
    ["", "requests/s", "(min - max)", "p50, µs", "p99, µs", "max, µs", "server", "client", "times nginx's"];

/// What stands in them.
pub(crate) const CELLS: &str = "server and client: the process's share of its core / softirq on it";

pub(crate) fn cells(results: &DemoResults, row: &Summary) -> [String; 9] {
    let at = |percentile| row.latency.at(percentile).map_or_else(|| "-".to_owned(), micros);
    [
        results.name(row.contender),
        thousands(row.rate.median),
        format!("({} - {})", thousands(row.rate.min), thousands(row.rate.max)),
        at(50.0),
        at(99.0),
        micros(row.latency.max),
        share(row.server_cpu),
        share(row.client_cpu),
        row.ratio.map_or_else(String::new, |r| format!("{}x ({} - {})", times(r.median), times(r.min), times(r.max))),
    ]
}

fn line(text: &mut String, cells: &[String; 9]) {
    const WIDTHS: [usize; 8] = [20, 10, 23, 7, 7, 7, 11, 11];
    let mut line = format!("{:<20}", format!("  {}", cells[0]));
    for (cell, width) in cells.iter().zip(WIDTHS).skip(1) {
        let _ = write!(line, " {cell:>width$}");
    }
    let _ = write!(line, "  {}", cells[8]);
    let _ = writeln!(text, "{}", line.trim_end());
}

/// Microseconds, with a decimal below ten.
pub(crate) fn micros(value: f64) -> String {
    if value < 10.0 { format!("{value:.1}") } else { thousands(value) }
}

/// A ratio, with more digits where they matter.
pub(crate) fn times(ratio: f64) -> String {
    if ratio < 10.0 { format!("{ratio:.2}") } else { format!("{ratio:.1}") }
}

/// Process and softirq as percentages of a core.
pub(crate) fn share((process, softirq): (f64, f64)) -> String {
    format!("{:.0}% / {:.0}%", process * 100.0, softirq * 100.0)
}

/// A note as a paragraph behind a mark.
fn wrapped(text: &str, width: usize, mark: &str) -> String {
    let mut out = String::new();
    let mut column = 0;
    let indent = " ".repeat(mark.len());
    for word in text.split(' ') {
        let first = out.is_empty();
        if first {
            out.push_str(mark);
        } else if column + 1 + word.chars().count() > width {
            out.push('\n');
            out.push_str(&indent);
        } else {
            out.push(' ');
            column += 1;
        }
        if first || out.ends_with(&format!("\n{indent}")) {
            column = mark.len();
        }
        out.push_str(word);
        column += word.chars().count();
    }
    out.push('\n');
    out
}
