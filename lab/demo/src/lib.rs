//! Nearside versus nginx, in one run on one machine.
//!
//! [`run`] starts the servers, asks all the same things by turns, and prints a
//! first small table and then the whole one; `results.json` keeps every figure
//! and `report.html` draws them. First all are on one veth pair and asked by
//! one generator; then Nearside is over shared memory, by its own generator,
//! and nginx over a veth pair, by wrk. Server and client have one core each.
//! Whatever differs between the rows is named in the output.
//!
//! The modules that are public start and watch programs in namespaces; other
//! experiments use them as well.
#![forbid(unsafe_code)]

pub mod bulk;
pub mod child;
mod error;
pub mod field;
pub mod films;
pub mod frames;
pub mod kernel;
mod limit;
pub mod load;
pub mod machine;
pub mod measure;
pub mod media_site;
pub mod memory_group;
pub mod netns;
mod notes;
pub mod pages;
pub mod played;
mod progress;
mod promises;
pub mod report;
mod results;
mod rounds;
pub mod scratch;
pub mod stand;
mod summary;
mod table;
#[cfg(test)]
mod tests;
pub mod unmodified;
pub mod watched;

pub use error::Error;
pub use limit::requests_and_frames;
pub use promises::{Promise, promises};
pub use results::{DemoResults, Nginx, Row};

use rounds::Measuring;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// What to measure, for how long, and where to put the results.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DemoPlan {
    /// Rounds of each row; the table shows their median, smallest and largest.
    pub rounds: u32,
    /// How long each row is measured in a round, warm-up excluded. The rows
    /// that wrk measures are rounded up to whole seconds: it takes no others.
    pub duration: Duration,
    /// Measure some rows in one short round first, and show them while the
    /// rest is measured.
    pub first_look: bool,
    /// The nginx to measure, of which the first is what ratios are to; empty:
    /// those that are found.
    pub nginx: Vec<PathBuf>,
    /// The server's core and the client's core; `None`: the first two that
    /// this process may use.
    pub cores: Option<(u16, u16)>,
    /// Shuffles the order of the rows within each round.
    pub seed: u64,
    /// The folder for `report.html` and `results.json`; made if missing.
    pub out: PathBuf,
    /// Print the results as JSON in place of the table.
    pub json: bool,
}

/// Prints to standard output; whoever reads it no more has the files.
fn put(text: &str) {
    let _ = std::io::stdout().write_all(text.as_bytes());
}

/// Measures, prints the table to standard output, and writes the results and
/// the report: also those of what was measured until an error or an interrupt.
/// `program` is the `nearside` to run. Progress goes to standard error.
/// Everything started or made is ended and removed, whatever ends it.
///
/// # Errors
/// If Nearside or a row cannot be measured, the results cannot be written, or
/// the user interrupts. What else is missing (root, nginx, wrk, testpmd) is left out
/// and said so.
pub fn run(plan: &DemoPlan, program: &Path) -> Result<DemoResults, Error> {
    let mut parts = rounds::gather(plan, program)?;
    let (results, ended) = look_and_rounds(plan, &mut parts);
    drop(parts);
    if let Some(why) = keep(plan, &results, ended)? {
        return Err(why);
    }
    Ok(results)
}

/// The first look, and all of it; what ended it early, if something did.
fn look_and_rounds(plan: &DemoPlan, parts: &mut rounds::Parts) -> (DemoResults, Option<Error>) {
    if plan.first_look && !plan.json {
        let course = Measuring { rounds: 1, duration: Duration::from_secs(1), first_look: true };
        let (look, ended) = rounds::run(parts, course, plan.seed);
        put(&format!("{}\n", table::first_look(&look)));
        // There is nothing else then.
        if ended.is_some() {
            return (look, ended);
        }
    }
    let course = Measuring { rounds: plan.rounds, duration: plan.duration, first_look: false };
    rounds::run(parts, course, plan.seed)
}

/// Shows and writes what was measured, if anything was; what is to be told as an error of it.
fn keep(plan: &DemoPlan, results: &DemoResults, ended: Option<Error>) -> Result<Option<Error>, Error> {
    let failed = || results.failed.first().map(|row| Error::Machine(format!("given up: {row}")));
    if results.is_empty() && ended.is_some() {
        return Ok(ended);
    }
    let write = |name: &str, text: &str| {
        let path = plan.out.join(name);
        ::results::write_whole(&path, text).map_err(|why| Error::Machine(why.to_string())).map(|()| path)
    };
    fs::create_dir_all(&plan.out).map_err(Error::io(format!("cannot make the folder {}", plan.out.display())))?;
    let json = results.to_json();
    if plan.json {
        put(&format!("{json}\n"));
    } else {
        put(&table::render(results));
    }
    if let Some(configuration) = &results.configuration {
        write("nginx.conf", configuration)?;
    }
    let data = write("results.json", &json)?;
    let page = write("report.html", &report::page(results).render())?;
    eprintln!("wrote {} and {}", page.display(), data.display());
    Ok(ended.or_else(failed))
}
