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
    let parsed = text::Text::read(input).and_then(tools::parse);
    let mut runs = parsed.map_err(|error| ReadError { why: obeyed_by_none(&error.why), ..error })?;
    runs.iter_mut().for_each(|run| run.name = obeyed_by_none(&run.name));
    Ok(Source { name: name.to_owned(), runs })
}

/// What a terminal would obey is shown as it is written elsewhere: lines have lost it, but TOML and
/// JSON can name it. Messages of their readers have lines.
fn obeyed_by_none(text: &str) -> String {
    let one = |char: char| match char {
        '\n' => "\n".to_owned(),
        char if char.is_control() => char.escape_default().to_string(),
        char => char.to_string(),
    };
    text.chars().map(one).collect()
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
    for finding in &mut found {
        for words in [&mut finding.run, &mut finding.says, &mut finding.by, &mut finding.arithmetic, &mut finding.proof]
        {
            *words = obeyed_by_none(words);
        }
    }
    found.sort_by_key(|finding| core::cmp::Reverse(finding.severity));
    found
}
