//! Several runs in one paste, as articles print them: where one ends and the next begins.

use crate::text::{ReadError, Text};

/// More runs in one file are refused.
pub const MOST_RUNS: usize = 100;

/// How runs of one tool follow each other.
#[derive(Clone, Copy)]
pub(super) enum Follows {
    /// One is all that a file has, or a table with parts that belong together.
    Never,
    /// Each has a line that begins so, and may have those before it. What stands above the first is prose, or of
    /// a run whose head was cut.
    Key { key: fn(&str) -> bool, heads: &'static [&'static str] },
    /// What begins a run follows what ends one, or has a head of its own.
    After { head: fn(&str) -> bool, end: fn(&str) -> bool, row: fn(&str) -> bool },
}

impl Follows {
    /// The places of the lines with which runs begin, at least one.
    fn begins(self, lines: &[String]) -> Vec<usize> {
        let mut begins = Vec::new();
        match self {
            Self::Never => {}
            Self::Key { key, heads } => {
                let mut head = None;
                for (at, line) in lines.iter().enumerate() {
                    let line = line.trim_start();
                    if key(line) {
                        begins.push(head.take().unwrap_or(at));
                    } else if heads.iter().any(|begin| line.starts_with(begin)) {
                        head = head.or(Some(at));
                    }
                }
            }
            Self::After { head, end, row } => {
                let (mut under_way, mut ended) = (false, false);
                begins.push(0);
                for (at, line) in lines.iter().enumerate() {
                    let line = line.trim_start();
                    // What ends a run has several lines.
                    if end(line) {
                        ended = true;
                    } else if (head(line) && under_way) || (row(line) && ended) {
                        begins.push(at);
                        (under_way, ended) = (true, false);
                    } else {
                        under_way |= head(line) || row(line);
                    }
                }
            }
        }
        if begins.is_empty() {
            begins.push(0);
        }
        begins
    }

    /// The runs of a file, each with its lines.
    pub(super) fn split(self, text: Text) -> Result<Vec<Text>, ReadError> {
        let mut begins = self.begins(&text.lines);
        if let Some(begin) = begins.get(MOST_RUNS) {
            let why = format!("more than {MOST_RUNS} runs: give them files of their own");
            return Err(ReadError::new(text.above + begin + 1, why));
        }
        let Text { above, mut lines } = text;
        let mut runs = Vec::with_capacity(begins.len());
        while let Some(begin) = begins.pop() {
            runs.push(Text { above: above + begin, lines: lines.split_off(begin) });
        }
        runs.reverse();
        Ok(runs)
    }
}
