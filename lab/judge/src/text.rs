//! Files, read line by line within limits.

use crate::figure::Interval;
use core::fmt;
use std::io::{BufRead, Read};

/// Files that are longer are refused at this many bytes.
pub const LONGEST_FILE: usize = 8 << 20;

/// Lines that are longer are refused: JSON in one line fits.
pub const LONGEST_LINE: usize = 4 << 20;

/// Why a file cannot be read.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ReadError {
    /// From 1; 0 if it is about no line.
    pub line: usize,
    /// What is wrong there.
    pub why: String,
}

impl ReadError {
    pub(crate) fn new(line: usize, why: impl Into<String>) -> Self {
        Self { line, why: why.into() }
    }
}

impl fmt::Display for ReadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            0 => write!(f, "{}", self.why),
            line => write!(f, "line {line}: {}", self.why),
        }
    }
}

impl core::error::Error for ReadError {}

/// A file's lines, without control characters.
#[derive(Debug)]
pub(crate) struct Text {
    /// How many lines of the file stand above these.
    pub above: usize,
    pub lines: Vec<String>,
}

impl Text {
    pub(crate) fn read(mut input: impl BufRead) -> Result<Self, ReadError> {
        let (mut lines, mut total) = (Vec::new(), 0);
        loop {
            let number = lines.len() + 1;
            let mut bytes = Vec::new();
            let limit = LONGEST_LINE as u64 + 1;
            let read = (&mut input).take(limit).read_until(b'\n', &mut bytes);
            let read = read.map_err(|why| ReadError::new(number, why.to_string()))?;
            if read == 0 {
                break;
            }
            total += read;
            if read > LONGEST_LINE {
                return Err(ReadError::new(number, format!("longer than {LONGEST_LINE} bytes: this is no result")));
            }
            if total > LONGEST_FILE {
                let why = format!("the file is longer than {LONGEST_FILE} bytes: no tool's result is");
                return Err(ReadError::new(number, why));
            }
            if bytes.contains(&0) {
                return Err(ReadError::new(number, "this is not text"));
            }
            let line = String::from_utf8(bytes).map_err(|_| ReadError::new(number, "this is not UTF-8"))?;
            // Editors of another system begin files with a byte order mark.
            lines.push(plain(line.trim_start_matches('\u{feff}')));
        }
        match lines.iter().all(|line| line.trim().is_empty()) {
            true => Err(ReadError::new(lines.len().max(1), "the file is empty")),
            false => Ok(Self { above: 0, lines }),
        }
    }

    /// Lines with their numbers, from 1.
    pub(crate) fn numbered(&self) -> impl Iterator<Item = (usize, &str)> {
        self.lines.iter().enumerate().map(|(at, line)| (self.above + at + 1, line.as_str()))
    }

    pub(crate) fn has(&self, part: &str) -> bool {
        self.lines.iter().any(|line| line.contains(part))
    }

    pub(crate) fn starts(&self, part: &str) -> bool {
        self.lines.iter().any(|line| line.trim_start().starts_with(part))
    }

    /// Without what quotes most of its lines: `> ` of mails, `// ` and `# ` of comments, the time
    /// that a log puts before each.
    pub(crate) fn unquoted(mut self) -> Self {
        // Prose stands around them; of what fortio prints, many lines begin with a hash.
        let marks: [(Mark, usize); 4] = [(quotes, 50), (comments, 50), (hashes, 90), (stamps, 50)];
        for (mark, percent) in marks {
            let all = self.lines.iter().filter(|line| !line.trim().is_empty()).count();
            let marked = self.lines.iter().filter(|line| mark(line).is_some()).count();
            if marked * 100 <= all * percent {
                continue;
            }
            for line in &mut self.lines {
                if let Some(rest) = mark(line) {
                    *line = rest.to_owned();
                }
            }
        }
        self
    }

    /// Where a file that lacks something ends.
    pub(crate) fn cut(&self, lacks: &str) -> ReadError {
        ReadError::new(
            self.above + self.lines.len(),
            format!("the file ends without {lacks}: it is cut off, or another version's"),
        )
    }
}

/// A line without colours and other control characters, so that none reaches
/// a terminal.
fn plain(line: &str) -> String {
    let mut out = String::with_capacity(line.len());
    let mut letters = line.trim_end_matches(['\n', '\r']).chars();
    while let Some(letter) = letters.next() {
        if letter == '\u{1b}' {
            // ECMA-48: CSI, parameters, and one final byte from @ to ~.
            if letters.next() == Some('[') {
                letters.by_ref().find(|letter| ('@'..='~').contains(letter));
            }
        } else if letter == '\t' || !letter.is_control() {
            out.push(letter);
        }
    }
    out
}

/// What a line is without the mark that quotes it, if it has it.
type Mark = fn(&str) -> Option<&str>;

/// `> ` of mails and of Markdown, once for each that passed it on.
fn quotes(line: &str) -> Option<&str> {
    let line = line.trim_start();
    let rest = line.trim_start_matches(['>', ' ']);
    // The blanks behind the last mark belong to the line.
    let marks = line[..line.len() - rest.len()].rfind('>')? + 1;
    Some(line[marks..].strip_prefix(' ').unwrap_or(&line[marks..]))
}

fn comments(line: &str) -> Option<&str> {
    let rest = line.trim_start().strip_prefix("//")?;
    Some(rest.strip_prefix(' ').unwrap_or(rest))
}

/// Lines of hashes alone are a tool's own.
fn hashes(line: &str) -> Option<&str> {
    let rest = line.trim_start().strip_prefix('#')?;
    if rest.is_empty() { Some(rest) } else { rest.strip_prefix(' ') }
}

/// `2022-11-28T12:54:33.9711964Z `: RFC 3339, as logs of containers and builds have it.
fn stamps(line: &str) -> Option<&str> {
    let (stamp, rest) = line.split_once(' ').unwrap_or((line, ""));
    let digits = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
    let (date, time) = stamp.split_once('T')?;
    let date = date.len() == 10 && date.split('-').all(digits);
    let time = time.strip_suffix('Z')?;
    (date && time.len() >= 8 && time.split([':', '.']).all(digits)).then_some(rest)
}

/// What was found, once: a second value in one file is another run's.
pub(crate) fn once(place: &mut Option<Interval>, value: Interval, what: &str) -> Result<(), ReadError> {
    if let Some(first) = place {
        let why = format!("{what} a second time (first in line {}): give each run a file of its own", first.line);
        return Err(ReadError::new(value.line, why));
    }
    *place = Some(value);
    Ok(())
}

/// An error with its line.
pub(crate) trait AtLine<T> {
    fn at(self, line: usize) -> Result<T, ReadError>;
}

impl<T> AtLine<T> for Result<T, String> {
    fn at(self, line: usize) -> Result<T, ReadError> {
        self.map_err(|why| ReadError { line, why })
    }
}
