//! What a reader of the figures must know: the notes below the table, here and
//! in the report.

use crate::field::Generator;
use crate::measure::{Connections, Contender, Content, Scenario, Stage, thousands};
use crate::results::DemoResults;
use crate::summary::{median, summaries};
use std::collections::BTreeMap;
use std::fmt::Write;

/// A part's heading.
pub(crate) fn stage(results: &DemoResults, stage: Stage) -> String {
    match stage {
        Stage::OnePair => format!(
            "Like for like: every server on the same veth pair, asked by the same generator (nearside load over {})",
            match results.generator {
                Generator::Bypass => "AF_XDP",
                Generator::Sockets => "kernel sockets",
            }
        ),
        Stage::SharedMemory if results.nginx.is_empty() => {
            "Nearside over shared memory (memif), asked by nearside load".to_owned()
        }
        Stage::SharedMemory => "Each on its fastest way: Nearside over shared memory (memif), asked by nearside load; \
                                nginx over a veth pair, asked by wrk"
            .to_owned(),
    }
}

/// The same in a few words.
pub(crate) const fn short_stage(results: &DemoResults, stage: Stage) -> &'static str {
    match stage {
        Stage::OnePair => "on the same veth pair, asked by the same generator",
        Stage::SharedMemory if results.nginx.is_empty() => "over shared memory",
        Stage::SharedMemory => "Nearside over shared memory, nginx over veth asked by wrk",
    }
}

/// All of them.
pub(crate) fn all(results: &DemoResults) -> Vec<String> {
    let mut notes = Vec::new();
    let with_nginx = !results.nginx.is_empty();
    notes.push(requests(with_nginx));
    if with_nginx {
        notes.extend(about_links(results));
    }
    let mut latency =
        "Latency: from the first byte of a request to the last of its answer, without the handshake, at full load \
         in a closed loop: each connection asks again when it has its answer. A server that stalls is asked less \
         while it does (coordinated omission), so these latencies compare the rows and promise nothing about a \
         service at a fixed rate."
            .to_owned();
    if with_nginx {
        latency += " wrk adds samples for requests that a stall held back, nearside load adds none.";
    }
    notes.push(latency);
    notes.extend(responses(results));
    notes.push(processor(with_nginx));
    notes.extend(results.configuration.as_deref().map(configuration));
    notes.extend(complaints(results));
    notes
}

fn requests(with_nginx: bool) -> String {
    let mut note = "Requests: short heads have 40 to 150 bytes, browser heads some 600 bytes in twelve fields; each \
                    connection has its own User-Agent and Cookie, and asks for a hundred paths, drawn at random. Equal \
                    heads are the same bytes on every connection and in every request: easier than any real traffic, \
                    and there to compare with other benchmarks."
        .to_owned();
    if with_nginx {
        note.push_str(
            " wrk does not tell its script which connection asks, so there the heads of 1,000 clients take turns on \
             all connections.",
        );
    }
    note
}

fn about_links(results: &DemoResults) -> Vec<String> {
    let mut notes = vec![
        "Link, like for like: a veth pair between two network namespaces, inside the kernel. Each end's received \
         packets are worked on by its own side's core (RPS), so each side pays for its own softirq; but for packets \
         that AF_XDP takes, which are copied on the core that sends them, before RPS."
            .to_owned(),
        "Link, shared memory: Nearside's frames cross memif, memory that two processes share, with every checksum \
         computed and verified; on huge pages where some are free, and those that the demo takes for testpmd are. \
         nginx's packets cross the veth pair, where the kernel computes no checksums and may pass on segments of up \
         to 64 KB, and are received on the core that sends them, which is the kernel's default: part of nginx's \
         softirq is then on the client's core, for nothing, and nginx is faster so."
            .to_owned(),
        "Client: where nginx is asked by wrk (one thread) and Nearside by nearside load, neither client has a core to \
         spare at these rates, so a figure is that of server and client together."
            .to_owned(),
    ];
    if let Some(congestion) = &results.congestion {
        notes.push(format!("Congestion control: CUBIC on both sides; on nginx's connections ss showed {congestion}."));
    }
    notes.extend(server_time(results));
    notes
}

/// What a request costs each server on the one pair.
fn server_time(results: &DemoResults) -> Option<String> {
    let mut parts = Vec::new();
    for scenario in results.scenarios(Stage::OnePair) {
        let times: Vec<String> = summaries(results, scenario)
            .iter()
            .map(|row| format!("{} {:.2}", results.name(row.contender), row.server_time))
            .collect();
        parts.push(format!("{} ({})", times.join(", "), scenario.title()));
    }
    (!parts.is_empty()).then(|| {
        format!(
            "Server time for a request, like for like, in microseconds of its core: {}. Of Nearside the time with \
             something to do by its own account, system calls included; of nginx its process and softirq on its core.",
            parts.join("; ")
        )
    })
}

fn processor(with_nginx: bool) -> String {
    let mut note = "CPU: the process's user and system time as a share of its core, then the share of that core in \
                    softirq, the kernel's packet work. The kernel books most of the latter on the process that it \
                    interrupts, so the two overlap."
        .to_owned();
    if with_nginx {
        note.push_str(
            " Softirq on the server's core is the server's, and on the client's core the client's, but for what the \
             notes on links say.",
        );
    }
    note.push_str(" Nearside polls: its share is near 100% also when less is asked of it.");
    note
}

/// nginx's configuration in a line, without folders.
fn configuration(text: &str) -> String {
    let told = text.lines().map(str::trim).filter(|line| {
        let foreign = ["SCRATCH", "SITE"].iter().any(|folder| line.contains(folder));
        !foreign && !line.is_empty() && !matches!(*line, "}" | "http {" | "server {")
    });
    format!("nginx's configuration (whole in nginx.conf beside the report): {}", told.collect::<Vec<_>>().join(" "))
}

/// Requests as a share of the frames that the link can carry.
pub(crate) fn frames(results: &DemoResults) -> Option<String> {
    let frames = median(&results.frames);
    if frames <= 0.0 {
        return None;
    }
    let mut note = format!(
        "The link's own limit: two testpmd exchange {} frames/s over memif, both ways together.",
        thousands(frames)
    );
    let of_one_frame =
        |s: &Scenario| s.content == Content::Small && s.connections == Connections::KeepAlive && s.count > 1;
    let shares: Vec<String> = results
        .scenarios(Stage::SharedMemory)
        .into_iter()
        .filter(of_one_frame)
        .filter_map(|s| Some(format!("{:.3} ({})", over_memif(results, s)? / frames, s.title())))
        .collect();
    if !shares.is_empty() {
        let _ = write!(
            note,
            " Requests per such frame: {}; 0.5 would be the limit, as a request and its answer are a frame each.",
            shares.join("; ")
        );
    }
    Some(note)
}

fn over_memif(results: &DemoResults, scenario: Scenario) -> Option<f64> {
    let rows = summaries(results, scenario);
    rows.iter().find(|row| row.contender == Contender::Memif).map(|row| row.rate.median)
}

/// What failed, and what a client had to say against its figures.
fn complaints(results: &DemoResults) -> Vec<String> {
    let mut notes = Vec::new();
    let mut warnings: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for scenario in Stage::ALL.into_iter().flat_map(|stage| results.scenarios(stage)) {
        for row in summaries(results, scenario) {
            let (who, what) = (results.name(row.contender), scenario.title());
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
    let told = |(warning, rows): (String, Vec<String>)| match rows.len() {
        0..=2 => format!("{warning} ({}).", rows.join("; ")),
        many => format!("{warning} (in {many} rows)."),
    };
    notes.extend(warnings.into_iter().map(told));
    notes
}

/// How long the answers are; the bodies are the same.
fn responses(results: &DemoResults) -> Option<String> {
    let mut parts: Vec<String> = Vec::new();
    for content in [Content::Small, Content::File] {
        let of = |s: &Scenario| s.content == content && s.connections == Connections::KeepAlive;
        let mut sizes: Vec<String> = Vec::new();
        for scenario in Stage::ALL.into_iter().flat_map(|stage| results.scenarios(stage)).filter(of) {
            for row in summaries(results, scenario) {
                let name = results.name(row.contender);
                if !sizes.iter().any(|known| known.starts_with(&name)) {
                    sizes.push(format!("{name} {:.0} B", row.response_bytes));
                }
            }
        }
        if !sizes.is_empty() {
            parts.push(format!("{} ({})", sizes.join(", "), if content == Content::Small { "small" } else { "file" }));
        }
    }
    let text =
        format!("Answers, head and body: {}. Bodies are the same, heads are each server's own.", parts.join("; "));
    (!parts.is_empty()).then_some(text)
}
