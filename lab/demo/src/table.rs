//! The table for the terminal, and the notes that stand below it here and in
//! the report.

use crate::measure::{Connections, Contender, Content, SCENARIOS, Scenario, thousands};
use crate::results::Results;
use crate::summary::{Summary, median, summaries};
use std::collections::BTreeMap;
use std::fmt::Write;

/// The table and its notes.
#[must_use]
pub(crate) fn render(results: &Results) -> String {
    let mut text = format!("{}\n{}\n\n", title(results), conditions(results));
    let head = ["", "requests/s", "(min - max)", "p50", "p99", "p99.9", "max", "server", "client", "ratio"];
    line(&mut text, &head.map(str::to_owned));
    for scenario in SCENARIOS {
        let rows = summaries(results, scenario);
        if !rows.is_empty() {
            let _ = writeln!(text, "{}", scenario.title());
        }
        for row in rows {
            line(&mut text, &cells(&row));
        }
    }
    text.push_str("latencies in microseconds; server and client: the process's share of its core / softirq on it\n");
    if let Some(limit) = frames_note(results) {
        let _ = writeln!(text, "\n{limit}");
    }
    text.push_str("\nWhat differs between the rows\n");
    for note in notes(results) {
        text.push_str(&wrapped(&note, 100));
    }
    for what in &results.left_out {
        text.push_str(&wrapped(&format!("left out: {what}"), 100));
    }
    text
}

/// What was compared.
pub(crate) fn title(results: &Results) -> String {
    match &results.nginx {
        Some(version) => format!("Nearside {} beside nginx {version} on kernel sockets", results.nearside),
        None => format!("Nearside {}", results.nearside),
    }
}

/// On what, and for how long.
pub(crate) fn conditions(results: &Results) -> String {
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

fn cells(row: &Summary) -> [String; 10] {
    let at = |percentile| row.latency.at(percentile).map_or_else(|| "-".to_owned(), micros);
    [
        format!("  {}", row.contender.name()),
        thousands(row.rate.median),
        format!("({} - {})", thousands(row.rate.min), thousands(row.rate.max)),
        at(50.0),
        at(99.0),
        at(99.9),
        micros(row.latency.max),
        share(row.server_cpu),
        share(row.client_cpu),
        row.ratio
            .map_or_else(String::new, |ratio| format!("{:.1}x ({:.1} - {:.1})", ratio.median, ratio.min, ratio.max)),
    ]
}

fn line(text: &mut String, cells: &[String; 10]) {
    const WIDTHS: [usize; 9] = [10, 11, 25, 9, 9, 9, 10, 11, 11];
    let _ = write!(text, "{:<10}", cells[0]);
    for (cell, width) in cells.iter().zip(WIDTHS).skip(1) {
        let _ = write!(text, " {cell:>width$}");
    }
    let _ = writeln!(text, "  {}", cells[9]);
}

/// Microseconds, with a decimal below ten.
pub(crate) fn micros(value: f64) -> String {
    if value < 10.0 { format!("{value:.1}") } else { thousands(value) }
}

/// Process and softirq as percentages of a core.
pub(crate) fn share((process, softirq): (f64, f64)) -> String {
    format!("{:.0}% / {:.0}%", process * 100.0, softirq * 100.0)
}

/// Requests as a share of the frames that the link can carry.
pub(crate) fn frames_note(results: &Results) -> Option<String> {
    let frames = median(&results.frames);
    if frames <= 0.0 {
        return None;
    }
    let mut note = format!(
        "The link's own limit: two testpmd exchange {} frames/s over memif, both ways together.",
        thousands(frames)
    );
    let of_one_frame = |s: &&Scenario| s.content == Content::Small && s.connections == Connections::KeepAlive;
    let shares: Vec<String> = SCENARIOS
        .iter()
        .filter(of_one_frame)
        .filter_map(|s| Some(format!("{:.3} with {}", nearside(results, *s)? / frames, thousands(s.count.into()))))
        .collect();
    if !shares.is_empty() {
        let _ = write!(
            note,
            " Requests per such frame, small response, keep-alive: {} connections; 0.5 would be the limit, as a \
             request and its answer are a frame each.",
            shares.join(", ")
        );
    }
    Some(note)
}

fn nearside(results: &Results, scenario: Scenario) -> Option<f64> {
    let rows = summaries(results, scenario);
    rows.iter().find(|row| row.contender == Contender::Nearside).map(|row| row.rate.median)
}

/// A share of a core that others may take without a word.
const MAX_OTHERS: f64 = 0.08;

/// What differs between the contenders beside their names.
pub(crate) fn notes(results: &Results) -> Vec<String> {
    let mut notes = Vec::new();
    if let Some(congestion) = &results.congestion {
        notes.push(
            "Link: nginx's packets cross a veth pair between two network namespaces, inside the kernel, which \
             computes no checksums on it and may pass on segments of up to 64 KB. Nearside's frames cross memif, \
             memory that two processes share, with every checksum computed and verified; on huge pages where some \
             are free, and those that the demo takes for testpmd are."
                .to_owned(),
        );
        notes.push(
            "Client: nginx is asked by wrk (one thread), Nearside by nearside load. Neither client has a core to \
             spare at these rates, so a figure is that of server and client together."
                .to_owned(),
        );
        notes.push(format!("Congestion control: CUBIC on both sides; on nginx's connections ss showed {congestion}."));
    }
    notes.push(
        "Latency: from the first byte of a request to the last of its answer, without the handshake, at full load \
         in a closed loop: each connection asks again when it has its answer. A server that stalls is asked less \
         while it does (coordinated omission), so these latencies compare the rows and promise nothing about a \
         service at a fixed rate. wrk adds samples for requests that a stall held back, nearside load adds none."
            .to_owned(),
    );
    notes.extend(response_note(results));
    notes.push(
        "CPU: the process's user and system time as a share of its core, then the share of that core in softirq, the \
         kernel's packet work. The kernel books most of the latter on the process that it interrupts, so the two \
         overlap. Nearside polls: its share is near 100% also when less is asked of it."
            .to_owned(),
    );
    let worst = SCENARIOS.iter().flat_map(|s| summaries(results, *s)).map(|row| row.others).fold(0.0, f64::max);
    if worst > MAX_OTHERS {
        notes.push(format!(
            "Not alone: other programs or the hypervisor took up to {:.0}% of a core while a row was measured. Rates \
             are too low, latencies too long, and ratios of different moments; measure again on a quiet machine.",
            worst * 100.0
        ));
    }
    notes.extend(complaints(results));
    notes
}

/// What failed, and what a client had to say against its figures.
fn complaints(results: &Results) -> Vec<String> {
    let mut notes = Vec::new();
    let mut warnings: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for scenario in SCENARIOS {
        for row in summaries(results, scenario) {
            let (who, what) = (row.contender.name(), scenario.title());
            if row.errors > 0 {
                notes.push(format!("{who}, {what}: {} requests or connections failed.", thousands(row.errors as f64)));
            }
            // That the client is at its limit is said of all rows above.
            for kind in row.warnings.iter().filter(|kind| !kind.starts_with("client")) {
                let warning = format!("{who}'s client warns of {}", kind.replace('-', " "));
                warnings.entry(warning).or_default().push(what.clone());
            }
        }
    }
    notes.extend(warnings.into_iter().map(|(warning, rows)| format!("{warning} ({}).", rows.join("; "))));
    notes
}

/// How long the answers are; the bodies are the same.
fn response_note(results: &Results) -> Option<String> {
    let mut parts = Vec::new();
    for scenario in SCENARIOS.iter().filter(|s| s.count == 64) {
        let sizes: Vec<String> = summaries(results, *scenario)
            .iter()
            .map(|row| format!("{} {:.0} B", row.contender.name(), row.response_bytes))
            .collect();
        if !sizes.is_empty() {
            parts.push(format!("{} ({})", sizes.join(", "), scenario.title()));
        }
    }
    let text =
        format!("Answers, head and body: {}. Bodies are the same, heads are each server's own.", parts.join("; "));
    (!parts.is_empty()).then_some(text)
}

/// A note as an indented paragraph.
fn wrapped(text: &str, width: usize) -> String {
    let mut out = String::new();
    let mut column = 0;
    for word in text.split(' ') {
        if column == 0 {
            out.push_str("- ");
            column = 2;
        } else if column + 1 + word.len() > width {
            out.push_str("\n  ");
            column = 2;
        } else {
            out.push(' ');
            column += 1;
        }
        out.push_str(word);
        column += word.chars().count();
    }
    out.push('\n');
    out
}
