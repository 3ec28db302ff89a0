//! Published results of measurements, held against what is possible.
//!
//! [`read`] takes what a tool printed (ab, wrk, wrk2, hey, oha, k6, vegeta,
//! fortio, nighthawk, testpmd, iperf3, perf stat, sar, our own JSON) or a file
//! of claims in TOML, and refuses whatever is none of them; [`judge`] finds
//! what cannot be true, and what is not shown.
//!
//! A printed figure stands for all values that print so ([`Interval`]): two
//! figures contradict each other only where no values behind them agree.

#![forbid(unsafe_code)]

mod checks;
mod figure;
mod relation;
mod run;
mod text;
mod tools;

pub use figure::Interval;
pub use relation::{Finding, Severity};
pub use run::PublishedRun;
pub use text::{LONGEST_FILE, LONGEST_LINE, ReadError};
pub use tools::{MOST_RUNS, TOOLS};

use std::io::BufRead;

/// What one file says.
#[derive(Clone, Debug)]
pub struct Source {
    /// Its name, as findings call it.
    pub name: String,
    /// The runs in it, at least one: of a tool's output at most [`MOST_RUNS`], of claims any number.
    pub runs: Vec<PublishedRun>,
}

/// Reads one file.
///
/// # Errors
/// If it is of no known tool, cut off, of another locale, not text, or longer
/// than [`LONGEST_FILE`]: the line, and what is wrong with it.
pub fn read(name: &str, input: impl BufRead) -> Result<Source, ReadError> {
    let text = text::Text::read(input)?;
    Ok(Source { name: name.to_owned(), runs: tools::parse(text)? })
}

/// What is impossible or unproven in these files, taken as the sides of one
/// comparison; `link` is the rate of the link between, in bits per second.
#[must_use]
pub fn judge(sources: &[Source], link: Option<f64>) -> Vec<Finding> {
    let mut found = Vec::new();
    for source in sources {
        for run in &source.runs {
            let relations = checks::of_run(run, link);
            found.extend(relations.iter().filter_map(|relation| relation.finding(&source.name, &run.name)));
        }
    }
    found.extend(checks::compare::sides(sources));
    found.sort_by_key(|finding| core::cmp::Reverse(finding.severity));
    found
}
