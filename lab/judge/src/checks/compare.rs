//! What is not alike on the sides of a comparison.

use crate::Source;
use crate::figure::Interval;
use crate::relation::{Finding, Severity, distance};
use crate::run::PublishedRun;

/// Sizes of responses that differ by more are of different responses.
const ALIKE: f64 = 0.01;

/// Every side against the first: the files, and claims of one comparison. Runs that one file has are none: an
/// article shows one after the other whatever it compares.
pub(crate) fn sides<'a>(sources: &'a [Source]) -> Vec<Finding> {
    let of = |(at, source): (usize, &'a Source)| source.runs.iter().map(move |run| (at, source.name.as_str(), run));
    let all: Vec<(usize, &str, &PublishedRun)> = sources.iter().enumerate().flat_map(of).collect();
    let mut found = Vec::new();
    for (at, (source, file, run)) in all.iter().enumerate() {
        // Claims without a comparison stand alone.
        let alike = |(of, _, other): &&(usize, &str, &PublishedRun)| match &run.group {
            Some(_) => other.group == run.group,
            None => !run.claim && !other.claim && of != source,
        };
        let Some((_, first_file, first)) = all[..at].iter().find(alike) else { continue };
        let mut push = |check, line, says: String, by, arithmetic, proof: &str| {
            found.push(Finding {
                severity: Severity::Unproven,
                file: (*file).to_owned(),
                run: run.name.clone(),
                line,
                check,
                says: format!("{says} than on the first side ({first_file}, {})", first.name),
                by,
                arithmetic,
                proof: proof.to_owned(),
            });
        };
        for (check, what, ours, theirs, slack) in numbers(run, first) {
            let (Some(ours), Some(theirs)) = (ours, theirs) else { continue };
            let (a, b) = (ours.loose(slack), theirs);
            if a.low > b.high || b.low > a.high {
                let says = format!("{what} on this side");
                let arithmetic = format!("{ours} here, {theirs} there");
                let by = distance(ours.middle(), theirs.middle());
                push(check, ours.line, says, by, arithmetic, "both sides with the same, in random order of rounds");
            }
        }
        for (check, what, ours, theirs) in words(run, first) {
            let (Some(ours), Some(theirs)) = (ours, theirs) else { continue };
            if ours != theirs {
                let arithmetic = format!("{ours} here, {theirs} there");
                push(check, 0, format!("{what} on this side"), String::new(), arithmetic, "both sides with the same");
            }
        }
    }
    found
}

type Numbers = (&'static str, &'static str, Option<Interval>, Option<Interval>, f64);

fn numbers(run: &PublishedRun, first: &PublishedRun) -> Vec<Numbers> {
    let mut out = vec![("concurrency", "other connections", run.connections, first.connections, 0.0)];
    let each = |run: &PublishedRun| {
        run.size.or_else(|| {
            let figure = run.received? / run.requests?;
            Some(Interval { line: run.received?.line, ..figure })
        })
    };
    // Tools that count heads and tools that do not cannot be compared.
    if run.tool == first.tool || run.sized_with_head == first.sized_with_head {
        out.push(("response-size", "another size of a response", each(run), each(first), ALIKE));
    }
    out
}

type Words = (&'static str, &'static str, Option<String>, Option<String>);

fn words(run: &PublishedRun, first: &PublishedRun) -> Vec<Words> {
    let switch = |on: Option<bool>| on.map(|on| if on { "on" } else { "off" }.to_owned());
    // Other kinds of tools may be of the same run.
    let tool = |run: &PublishedRun| run.rate.map(|_| run.tool.to_owned());
    vec![
        ("tool", "another tool, which counts and times otherwise,", tool(run), tool(first)),
        ("path", "another path", run.path.clone(), first.path.clone()),
        ("keep-alive", "connections are kept otherwise", switch(run.keep_alive), switch(first.keep_alive)),
        ("logs", "logs are set otherwise", switch(run.logs), switch(first.logs)),
        ("compression", "another compression", run.compression.clone(), first.compression.clone()),
    ]
}
