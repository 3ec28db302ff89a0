//! sar of sysstat, in English: tables under a line of names, `Average:` at
//! the end of each kind.

use crate::checks::AT_LIMIT;
use crate::figure::Interval;
use crate::relation::Order::{AtMost, Equal};
use crate::relation::Relation;
use crate::run::PublishedRun;
use crate::text::{AtLine, ReadError, Text};

const PROOF: &str = "sar's recording (sar -o), read with sadf";

/// Rows of one kind, since its last average.
#[derive(Default)]
struct Table {
    names: Vec<String>,
    /// The name of the row, and its columns.
    rows: Vec<(String, Vec<Interval>)>,
}

pub(super) fn parse(text: &Text) -> Result<PublishedRun, ReadError> {
    let mut run = PublishedRun { name: "sar".into(), tool: "sar", ..PublishedRun::default() };
    let mut table = Table::default();
    let (mut header, mut averages, mut rows) = (true, 0, 0);
    // An excerpt begins with a table, and may end in it.
    let whole = text.numbered().find(|(_, line)| !line.trim().is_empty()).is_some_and(|(_, line)| is_head(line));
    for (number, line) in text.numbered() {
        let words: Vec<&str> = line.split_whitespace().collect();
        if words.is_empty() || is_head(line) {
            header = true;
            continue;
        }
        let average = words[0] == "Average:";
        let clock = words[0].len() == 8 && words[0].bytes().filter(|byte| *byte == b':').count() == 2;
        if !average && !clock {
            if words.get(1) == Some(&"LINUX") || words.contains(&"RESTART") {
                return Err(ReadError::new(
                    number,
                    "the machine was started again here: give each run a file of its own",
                ));
            }
            // Prose around an excerpt.
            if !whole {
                continue;
            }
            let why = format!(
                "{:?} is no time and no Average: of another locale (print it with LC_ALL=C), or cut off",
                words[0]
            );
            return Err(ReadError::new(number, why));
        }
        let skip = if words.get(1).is_some_and(|word| is_of_clock(word)) { 2 } else { 1 };
        let cells = &words[skip..];
        // Averages without devices come without names of their own.
        if header && cells.iter().any(|cell| cell.contains(['%', '/']) || cell.starts_with(|c: char| c.is_lowercase()))
        {
            header = false;
            let names: Vec<String> = cells.iter().map(|&name| name.to_owned()).collect();
            if names != table.names {
                table = Table { names, ..Table::default() };
            }
            continue;
        }
        header = false;
        if table.names.is_empty() {
            return Err(ReadError::new(number, "a row without the names of its columns: what they are is above it"));
        }
        let (name, values) = row(&table, cells, number)?;
        columns(&mut run, &table.names, &name, &values);
        if average {
            averages += 1;
            // An excerpt may leave rows out.
            if whole {
                mean(&mut run, &table, &name, &values);
            }
        } else {
            rows += 1;
            table.rows.push((name, values));
        }
    }
    if text.has("%usr") {
        run.name = "mpstat".into();
    }
    match averages {
        0 if whole || rows == 0 => Err(text.cut("a row of averages")),
        _ => Ok(run),
    }
}

/// What stands behind a time in some locales: the half of the day, or the zone.
fn is_of_clock(word: &str) -> bool {
    const NAMES: [&str; 8] = ["CPU", "IFACE", "DEV", "INTR", "TTY", "FAN", "TEMP", "BUS"];
    (2..=5).contains(&word.len()) && word.bytes().all(|byte| byte.is_ascii_uppercase()) && !NAMES.contains(&word)
}

/// The first line of all that sysstat prints.
pub(super) fn is_head(line: &str) -> bool {
    line.starts_with("Linux ") && line.contains(" CPU)")
}

/// Whether a line has the names of columns that an excerpt of sar or mpstat is known by.
pub(super) fn is_names(line: &str) -> bool {
    const NAMES: [&str; 8] = ["%user", "%usr", "%idle", "rxpck/s", "kbmemfree", "cswch/s", "tps", "intr/s"];
    line.split_whitespace().any(|word| NAMES.contains(&word))
        && line.split_whitespace().next().is_some_and(|word| word == "Average:" || word.contains(':'))
}

fn row(table: &Table, cells: &[&str], line: usize) -> Result<(String, Vec<Interval>), ReadError> {
    let named = table.names.first().is_some_and(|name| name.chars().all(char::is_uppercase));
    if cells.len() != table.names.len() {
        let why = format!("{} columns under {} names: it is cut off", cells.len(), table.names.len());
        return Err(ReadError::new(line, why));
    }
    let name = if named { cells[0] } else { "" };
    let values: Result<Vec<Interval>, ReadError> =
        cells[usize::from(named)..].iter().map(|cell| Interval::printed(cell, line).at(line)).collect();
    Ok((name.to_owned(), values?))
}

fn columns(run: &mut PublishedRun, names: &[String], name: &str, values: &[Interval]) {
    let names = &names[names.len() - values.len()..];
    let find = |wanted: &str| names.iter().position(|name| name == wanted).map(|at| values[at]);
    for (column, value) in names.iter().zip(values) {
        if column.starts_with('%') {
            let right = Interval::exact(100.0, value.line);
            let says = format!("{name} {column} is more than all");
            run.relations.push(Relation::new("share", (*value, AtMost, right), says, format!("{value} %"), PROOF));
        }
    }
    if let (Some(user), Some(idle)) = (find("%user").or_else(|| find("%usr")), find("%idle")) {
        let shares = names.iter().zip(values).filter(|(name, _)| name.starts_with('%'));
        let all = shares.fold(Interval::exact(0.0, idle.line), |sum, (_, value)| sum + *value);
        // A core that is off line has no time at all.
        if user.middle() + idle.middle() > 0.0 || all.middle() > 0.0 {
            let right = Interval::exact(100.0, idle.line);
            let says = format!("the shares of {name} do not add up");
            run.relations.push(Relation::new("share", (all, Equal, right), says, format!("{all} %"), PROOF));
        }
    }
    for side in ["rx", "tx"] {
        let (Some(packets), Some(bytes)) = (find(&format!("{side}pck/s")), find(&format!("{side}kB/s"))) else {
            continue;
        };
        let least = packets.times(14.0 / 1024.0);
        let says = format!("{name}: packets of {side} are smaller than an Ethernet header");
        let arithmetic = format!("{packets} packets/s × 14 B = {least} kB/s at least; {bytes} kB/s is said");
        run.relations.push(Relation::new("frame-size", (least, AtMost, bytes), says, arithmetic, PROOF));
    }
    if let Some(used) = find("%ifutil") {
        let right = Interval::exact(AT_LIMIT * 100.0, used.line);
        let says = format!("the link of {name} was at its limit: what is measured over it is the link's figure");
        let proof = "the same load over a faster link";
        run.relations.push(Relation::new("link", (used, AtMost, right), says, format!("{used} %"), proof).unproven());
    }
}

/// Averages lie between the rows that they are of.
fn mean(run: &mut PublishedRun, table: &Table, name: &str, values: &[Interval]) {
    let rows: Vec<&Vec<Interval>> = table.rows.iter().filter(|row| row.0 == name).map(|row| &row.1).collect();
    if rows.is_empty() {
        return;
    }
    for (at, value) in values.iter().enumerate() {
        let column = rows.iter().filter_map(|row| row.get(at));
        let (low, high) =
            column.fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), row| (low.min(row.low), high.max(row.high)));
        let right = Interval { low, high, line: value.line };
        let column = &table.names[table.names.len() - values.len() + at];
        let says = format!("the average of {name} {column} lies outside of all its rows");
        let arithmetic = format!("{value}; the rows lie between {low:.2} and {high:.2}");
        run.relations.push(Relation::new("average", (*value, Equal, right.loose(0.001)), says, arithmetic, PROOF));
    }
}
