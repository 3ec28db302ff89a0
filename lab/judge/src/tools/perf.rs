//! `perf stat`, in English (`tools/perf/util/stat-display.c`).

use crate::figure::Interval;
use crate::relation::Order::{AtMost, Equal};
use crate::relation::Relation;
use crate::run::PublishedRun;
use crate::text::{AtLine, ReadError, Text};

const PROOF: &str = "perf stat -x, with the time that each counter ran";

/// Whether a line is a counter's, as an excerpt has it: a count in groups, and a known event.
pub(super) fn is_counter(line: &str) -> bool {
    const EVENTS: [&str; 14] = [
        "task-clock",
        "cpu-clock",
        "cycles",
        "instructions",
        "branches",
        "branch-misses",
        "cache-misses",
        "cache-references",
        "context-switches",
        "cpu-migrations",
        "page-faults",
        "dTLB-",
        "iTLB-",
        "L1-dcache-",
    ];
    let mut words = line.split_whitespace();
    let count = words.next().is_some_and(|word| word.starts_with(|c: char| c.is_ascii_digit()));
    let event = words.find(|word| *word != "msec");
    count && event.is_some_and(|event| EVENTS.iter().any(|name| event.starts_with(name)))
}

pub(super) fn is_head(line: &str) -> bool {
    line.starts_with("Performance counter stats for")
}

/// Whether a line ends a run: only its time in user and system follows.
pub(super) fn is_end(line: &str) -> bool {
    line.contains("seconds time elapsed")
}

pub(super) fn parse(text: &Text) -> Result<PublishedRun, ReadError> {
    let mut run = PublishedRun { name: "perf stat".into(), tool: "perf stat", ..PublishedRun::default() };
    let mut rows: Vec<(String, Interval, String)> = Vec::new();
    let (mut elapsed, mut user, mut system) = (None, None, None);
    for (number, line) in text.numbered() {
        let (left, comment) = line.split_once('#').unwrap_or((line, ""));
        let words: Vec<&str> = left.split_whitespace().collect();
        match words.as_slice() {
            [time, "seconds", what @ ..] => {
                let time = Interval::printed(time, number).at(number)?;
                match what {
                    ["time", "elapsed", ..] => elapsed = Some(time),
                    ["user", ..] => user = Some(time),
                    ["sys", ..] => system = Some(time),
                    _ => {}
                }
            }
            [value, "msec", name, ..] => {
                let (groups, after) = value.split_once('.').unwrap_or((value, "0"));
                let digits = format!("{}.{after}", groups.replace(',', ""));
                rows.push((
                    (*name).to_owned(),
                    Interval::printed(&digits, number).at(number)?.times(1e-3),
                    comment.into(),
                ));
            }
            [value, name, ..] if value.starts_with(|c: char| c.is_ascii_digit()) => {
                rows.push(((*name).to_owned(), Interval::count(value, number).at(number)?, comment.into()));
            }
            _ => {}
        }
        // What follows in brackets is the share of time that a counter ran.
        if let Some(at) = line.find('(')
            && let Some(share) = line[at + 1..].strip_suffix("%)")
        {
            let share = Interval::printed(share, number).at(number)?;
            let right = Interval::exact(100.0, number);
            let says = "a counter ran for more than all of the time";
            run.relations.push(Relation::new("share", (share, AtMost, right), says, format!("{share} %"), PROOF));
        }
    }
    // An excerpt has counters, and perhaps no more.
    if elapsed.is_none() && rows.is_empty() {
        return Err(text.cut("the time elapsed"));
    }
    let clock =
        rows.iter().find(|row| row.0.starts_with("task-clock") || row.0.starts_with("cpu-clock")).map(|row| row.1);
    for (name, value, comment) in &rows {
        derived(&mut run, (name, *value, comment), &rows, clock, elapsed)?;
    }
    if let (Some(clock), Some(user), Some(system)) = (clock, user, system) {
        // The scheduler's and the tick's accounts differ a little.
        let right = (user + system).loose(0.1) + Interval { low: -0.02, high: 0.02, line: 0 };
        let says = "the clock of the task is not its time in user and system";
        let arithmetic = format!("{clock} s; {user} s + {system} s");
        run.relations.push(Relation::new("printed-twice", (clock, Equal, right), says, arithmetic, PROOF).unproven());
    }
    Ok(run)
}

/// The comment behind a count is computed from it.
fn derived(
    run: &mut PublishedRun,
    (name, value, comment): (&str, Interval, &str),
    rows: &[(String, Interval, String)],
    clock: Option<Interval>,
    elapsed: Option<Interval>,
) -> Result<(), ReadError> {
    let line = value.line;
    let words: Vec<&str> = comment.split_whitespace().collect();
    let Some(said) = words.first().and_then(|word| Interval::printed(word.trim_end_matches('%'), line).ok()) else {
        return Ok(());
    };
    let find = |wanted: &str| rows.iter().find(|row| row.0.split(':').next() == Some(wanted)).map(|row| row.1);
    // Counters that share the hardware are scaled.
    let loose = |figure: Interval| figure.loose(0.02);
    let (right, how) = match (&words[1..], clock) {
        (["CPUs", "utilized", ..], _) => (elapsed.map(|elapsed| value / elapsed), "clock / time elapsed"),
        (["insn", "per", "cycle", ..], _) => {
            (find("cycles").map(|cycles| loose(value / cycles)), "instructions / cycles")
        }
        (["GHz", ..], Some(clock)) => (Some(loose((value / clock).times(1e-9))), "cycles / clock"),
        ([unit, ..], Some(clock)) if unit.ends_with("/sec") => {
            let power = crate::figure::prefix_power(unit.trim_end_matches("/sec")).unwrap_or(0);
            (Some(loose((value / clock).times(1000_f64.powi(-power)))), "count / clock")
        }
        (["of", "all", "branches", ..], _) => {
            (find("branches").map(|all| loose((value / all).times(100.0))), "of branches")
        }
        _ => (None, ""),
    };
    if let Some(right) = right {
        let says = format!("what is said behind {name} is not what its count makes");
        let arithmetic = format!("{how} = {right}; {said} is said");
        run.relations.push(Relation::new("rate", (said, Equal, right), says, arithmetic, PROOF));
    }
    Ok(())
}
