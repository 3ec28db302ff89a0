//! `nearside status`: the statistics of running processes, from the pages that they
//! publish; listening sockets; and whether a server is well.
//!
//! | module | for |
//! | --- | --- |
//! | `whose` | which processes' pages are read |
//! | `change` | what a process did between two looks |
//! | `connections` | a few connections of each silo, as `ss -ti` shows the kernel's |
//! | `program` | what a page tells of a program that runs on our stack |
//! | `follow` | look after look, as text or lines of JSON |
//! | `listening` | the machine's listening sockets, by netlink |
//! | `health` | whether a server is well, by its own word |

mod change;
mod connections;
mod follow;
mod health;
mod listening;
mod program;
mod whose;

pub use change::{PlaceChange, ProcessChange, SiloChange};
pub use follow::{Firsts, Looks, stopped_by_signals};
pub use whose::Whose;

use core::net::SocketAddr;
use core::time::Duration;
use host::aggregation::{self, BondPort};
use latency::Series;
use page::{MetricKind, Note, PageError, Reader, SiloSnapshot, Snapshot};
use program::{Program, what_is_a_silo};
use say::{Failure, println};
use serde_json::{Map, Value, json};
use std::io::{IsTerminal, Write, stderr, stdin, stdout};
use std::thread;

/// Over what time rates are taken.
const INTERVAL: Duration = Duration::from_millis(500);

/// What is asked for.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct StatusPlan {
    /// The pages to read.
    pub whose: Whose,
    /// A few connections of each silo instead.
    pub connections: bool,
    /// The machine's listening sockets instead.
    pub listening: bool,
    /// Whether the server that tells metrics here is well, instead.
    pub health: Option<SocketAddr>,
    /// Print JSON.
    pub json: bool,
    /// Print all counters once, also where the output is a terminal.
    pub counters: bool,
    /// Tell what they do, look by look; without this and the above, where there is a terminal.
    pub live: bool,
    /// The same, a line of JSON for each process and look.
    pub ndjson: bool,
    /// How long it is from one look to the next.
    pub interval: Duration,
    /// How many of them; `None`: until somebody ends it.
    pub count: Option<u64>,
}

impl StatusPlan {
    /// Whether it is shown on a terminal's screen, key by key: by
    /// `console::status`, which this crate need not know.
    #[must_use]
    pub fn has_screen(&self) -> bool {
        self.is_watched(stdout().is_terminal() && stderr().is_terminal() && stdin().is_terminal())
    }

    /// Whether somebody sits before it who asked for this, or for nothing in particular.
    const fn is_watched(&self, has_terminal: bool) -> bool {
        let once = self.json || self.counters || self.listening || self.connections || self.health.is_some();
        has_terminal && !self.ndjson && !once
    }
}

/// Prints the statistics of running processes.
///
/// # Errors
/// If the page named is none, or output cannot be written.
pub fn status(plan: &StatusPlan) -> Result<(), Failure> {
    if let Some(address) = plan.health {
        return health::health(address);
    }
    if plan.listening {
        return listening(plan.json);
    }
    if plan.live || plan.ndjson {
        return follow::follow(plan);
    }
    let readers = plan.whose.readers()?;
    if plan.connections {
        return connections::connections(&readers, plan.json);
    }
    if readers.is_empty() && !plan.json {
        println!("no process of this user publishes statistics");
        return Ok(());
    }
    let before: Vec<Result<Snapshot, PageError>> = readers.iter().map(Reader::snapshot).collect();
    thread::sleep(INTERVAL);
    let mut out = stdout().lock();
    let mut pages = Vec::new();
    for (reader, before) in readers.iter().zip(before) {
        let (Ok(before), Ok(after)) = (before, reader.snapshot()) else { continue };
        if plan.json {
            pages.push(page_json(reader, &after));
        } else {
            print_page(&mut out, reader, &before, &after)?;
        }
    }
    if plan.json {
        writeln!(out, "{}", Value::Array(pages))?;
    }
    Ok(())
}

/// Listening sockets of all processes, and how full their queues are.
fn listening(json: bool) -> Result<(), Failure> {
    let (listeners, lost) = (listening::listeners()?, listening::lost());
    let mut out = stdout().lock();
    if json {
        let listeners: Vec<Value> = listeners.iter().map(listening::ListeningSocket::json).collect();
        let lost = json!({ "overflows": lost.overflows, "drops": lost.drops });
        writeln!(out, "{}", json!({ "listeners": listeners, "lost": lost }))?;
        return Ok(());
    }
    writeln!(out, "{:>8} {:>8}  {:<28} process", "waiting", "room", "address")?;
    for listener in &listeners {
        writeln!(out, "{listener}")?;
    }
    writeln!(
        out,
        "since boot {} handshakes found a queue full (ListenOverflows), {} were dropped in all (ListenDrops)",
        lost.overflows, lost.drops
    )?;
    Ok(())
}

fn page_json(reader: &Reader, snapshot: &Snapshot) -> Value {
    let program = Program::of(reader);
    let silos: Vec<Value> = snapshot
        .silos
        .iter()
        .filter(|silo| program.as_ref().is_none_or(|program| program.process(silo).is_some()))
        .map(|silo| {
            let values = reader.metrics().iter().zip(&silo.values);
            Value::Object(values.map(|((name, _), value)| (name.clone(), json!(value))).collect::<Map<_, _>>())
        })
        .collect();
    let reload = note(reader).map(|note| json!({ "at": note.at.as_secs(), "done": note.well, "text": note.text }));
    let mut page = json!({
        "pid": reader.pid(), "label": reader.label(), "alive": reader.is_alive(), "reload": reload, "silos": silos
    });
    if let Some(calls) = program.and_then(|program| program.calls_per_exchange(&snapshot.silos)) {
        page["calls_per_request"] = json!(calls);
    }
    let places: Vec<Value> = metrics::places(reader).iter().map(place_json).collect();
    if !places.is_empty() {
        page["places"] = Value::Array(places);
    }
    let ports: Vec<Value> = BondPort::all(reader, snapshot).iter().map(BondPort::json).collect();
    if !ports.is_empty() {
        page["ports"] = Value::Array(ports);
    }
    page
}

/// A host and a location with what was counted of them since the start.
fn place_json(place: &Series) -> Value {
    let [ok, redirected, refused, failed] = place.classes;
    let micros = |share: f64| place.latency.quantile(share).map(|nanos| nanos as f64 / 1e3);
    let buckets: Vec<Value> = place
        .latency
        .counts
        .iter()
        .enumerate()
        .filter(|(_, count)| **count > 0)
        .map(|(bucket, count)| json!([latency::upper_bound(bucket), count]))
        .collect();
    json!({
        "host": place.host, "location": place.location, "bytes": place.bytes,
        "responses": { "2xx": ok, "3xx": redirected, "4xx": refused, "5xx": failed },
        "latency_us": { "p50": micros(0.5), "p90": micros(0.9), "p99": micros(0.99), "p999": micros(0.999) },
        "latency_sum_ns": place.latency.sum,
        "latency_buckets_ns": buckets,
    })
}

/// What became of the last reload, if there was one.
fn note(reader: &Reader) -> Option<Note> {
    // A page that went away has none.
    reader.note().ok().flatten()
}

fn print_page(out: &mut impl Write, reader: &Reader, before: &Snapshot, after: &Snapshot) -> std::io::Result<()> {
    let dead = if reader.is_alive() { "" } else { " (dead)" };
    writeln!(out, "{} {}{dead}", reader.pid(), reader.label())?;
    if let Some(Note { well, text, .. }) = note(reader) {
        writeln!(out, "  last reload{}: {text}", if well { "" } else { " (failed)" })?;
    }
    let program = Program::of(reader);
    let both = before.silos.iter().zip(&after.silos).enumerate();
    let columns: Vec<Column<'_>> = both
        .filter(|(_, (_, new))| program.as_ref().is_none_or(|program| program.process(new).is_some()))
        .map(|(index, (old, new))| Column { index, old, new })
        .collect();
    let what = what_is_a_silo(program.as_ref());
    print_places(out, reader, program.as_ref(), (&columns, after))?;
    for port in BondPort::all(reader, after) {
        writeln!(out, "  {port}")?;
    }
    let several = columns.len() > 1;
    if several {
        let heads: String =
            columns.iter().map(|column| format!(" {:>12}", format!("{what} {}", column.index))).collect();
        writeln!(out, "    {:<32} {:>16} {:>16}{heads}", "", "together", "")?;
    }
    for (at, (name, kind)) in reader.metrics().iter().enumerate() {
        // Where a silo is stands above, and a sum of places is none; so do the
        // ports of an aggregation.
        let is_told = PLACE.contains(&name.as_str()) || name == program::PROCESS;
        if is_told || aggregation::is_gauge(name).is_some() {
            continue;
        }
        let values = columns.iter().map(|column| column.value(at));
        let sum = if program::IS_LONGEST.contains(&name.as_str()) {
            values.max().unwrap_or(0)
        } else {
            values.fold(0_u64, u64::wrapping_add)
        };
        let each: String = match several {
            true => columns.iter().map(|column| format!(" {:>12}", column.value(at))).collect(),
            false => String::new(),
        };
        let rates: Option<Vec<f64>> = columns.iter().map(|column| column.rate(at)).collect();
        match (kind, rates) {
            // What never happened is not worth a line.
            (MetricKind::Counter, _) if sum == 0 => {}
            (MetricKind::Counter, Some(rates)) => {
                let rate: f64 = rates.iter().sum();
                writeln!(out, "    {name:<32} {sum:>16} {rate:>14.0}/s{each}")?;
            }
            _ if several => writeln!(out, "    {name:<32} {sum:>16} {:>16}{each}", "")?,
            _ => writeln!(out, "    {name:<32} {sum:>16}")?,
        }
    }
    Ok(())
}

/// Where each silo is, or whose each seat.
fn print_places(
    out: &mut impl Write,
    reader: &Reader,
    program: Option<&Program>,
    (columns, now): (&[Column<'_>], &Snapshot),
) -> std::io::Result<()> {
    for column in columns {
        let what = what_is_a_silo(program);
        let process = program.and_then(|program| program.process(column.new));
        let process = process.map(|process| format!(": process {process}")).unwrap_or_default();
        writeln!(out, "  {what} {}{process}{}", column.index, place(reader, column.new))?;
    }
    let Some(program) = program else { return Ok(()) };
    writeln!(out, "  {} of {} seats are taken", columns.len(), now.silos.len())?;
    if let Some(calls) = program.calls_per_exchange(&now.silos) {
        writeln!(out, "  {calls:.2} calls per request")?;
    }
    Ok(())
}

/// One silo's values, at two times.
struct Column<'a> {
    index: usize,
    old: &'a SiloSnapshot,
    new: &'a SiloSnapshot,
}

impl Column<'_> {
    fn value(&self, at: usize) -> u64 {
        self.new.values.get(at).copied().unwrap_or(0)
    }

    /// How much it grew per second, if that is known.
    fn rate(&self, at: usize) -> Option<f64> {
        let (new, old) = (self.new.time?, self.old.time?);
        if new == old {
            // Nothing was published, for nothing happened.
            return Some(0.0);
        }
        let span = new.since(old).as_secs_f64();
        // A seat of a program that another process has by now begins anew.
        let grown = self.value(at).saturating_sub(self.old.values.get(at).copied()?);
        (span > 0.0).then(|| grown as f64 / span)
    }
}

/// What says where a silo is, in this order: whether it is pinned, its core,
/// and that core's domain.
const PLACE: [&str; 3] = ["silo.pinned", "silo.core", "silo.domain"];

fn place(reader: &Reader, silo: &SiloSnapshot) -> String {
    let value = |name: &str| {
        let at = reader.metrics().iter().position(|(other, _)| other == name)?;
        silo.values.get(at).copied()
    };
    match PLACE.map(value) {
        [Some(1), Some(core), Some(domain)] => format!(": core {core}, domain {domain}"),
        _ => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_terminal_shows_what_happens_unless_something_else_was_asked_for() {
        let plan = StatusPlan {
            whose: Whose::All,
            connections: false,
            listening: false,
            health: None,
            json: false,
            counters: false,
            live: false,
            ndjson: false,
            interval: INTERVAL,
            count: None,
        };
        assert!(plan.is_watched(true) && !plan.is_watched(false));
        assert!(!StatusPlan { json: true, ..plan.clone() }.is_watched(true));
        assert!(!StatusPlan { listening: true, ..plan.clone() }.is_watched(true));
        assert!(!StatusPlan { connections: true, ..plan.clone() }.is_watched(true));
        assert!(!StatusPlan { counters: true, ..plan }.is_watched(true));
    }
}
