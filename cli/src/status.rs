//! `nearside status`.

use crate::args::StatusPlan;
use crate::host::Failure;
use core::time::Duration;
use serde_json::{Map, Value, json};
use silo::page::{Kind, PageError, Reader, Snapshot, living, usual_folder};
use std::io::Write;
use std::thread;

/// Over what time rates are taken.
const INTERVAL: Duration = Duration::from_millis(500);

/// Prints the statistics of running processes.
///
/// # Errors
/// If the page named is none, or output cannot be written.
pub fn status(plan: &StatusPlan) -> Result<(), Failure> {
    let readers = match &plan.page {
        Some(path) => vec![Reader::open(path)?],
        None => living(&usual_folder()?)?,
    };
    if readers.is_empty() && !plan.json {
        println!("no process of this user publishes statistics");
        return Ok(());
    }
    let before: Vec<Result<Snapshot, PageError>> = readers.iter().map(Reader::snapshot).collect();
    thread::sleep(INTERVAL);
    let mut out = std::io::stdout().lock();
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

fn page_json(reader: &Reader, snapshot: &Snapshot) -> Value {
    let silos: Vec<Value> = snapshot
        .silos
        .iter()
        .map(|silo| {
            let values = reader.metrics().iter().zip(&silo.values);
            Value::Object(values.map(|((name, _), value)| (name.clone(), json!(value))).collect::<Map<_, _>>())
        })
        .collect();
    json!({ "pid": reader.pid(), "label": reader.label(), "alive": reader.is_alive(), "silos": silos })
}

fn print_page(out: &mut impl Write, reader: &Reader, before: &Snapshot, after: &Snapshot) -> std::io::Result<()> {
    let dead = if reader.is_alive() { "" } else { " (dead)" };
    writeln!(out, "{} {}{dead}", reader.pid(), reader.label())?;
    for (index, (old, new)) in before.silos.iter().zip(&after.silos).enumerate() {
        let span = match (old.time, new.time) {
            (Some(old), Some(new)) => new.since(old).as_secs_f64(),
            _ => 0.0,
        };
        writeln!(out, "  silo {index}")?;
        for (((name, kind), old), new) in reader.metrics().iter().zip(&old.values).zip(&new.values) {
            match kind {
                // What never happened is not worth a line.
                Kind::Counter if *new == 0 => {}
                Kind::Counter if span > 0.0 => {
                    let rate = new.wrapping_sub(*old) as f64 / span;
                    writeln!(out, "    {name:<32} {new:>16} {rate:>14.0}/s")?;
                }
                _ => writeln!(out, "    {name:<32} {new:>16}")?,
            }
        }
    }
    Ok(())
}
