//! How far field lines reach, in heads that may be incomplete.
//!
//! A line that does not parse is judged only once it is complete, so that the
//! verdict does not depend on how the bytes were split.

use semantics::lines::skip_field;
use semantics::scan::{find, is_field_byte, token_len};

/// Whether the line that begins at `start` is complete: then it is malformed,
/// if it could not be parsed.
#[cold]
pub(crate) fn is_complete(data: &[u8], start: usize) -> bool {
    find(data, start, b'\n').is_some()
}

/// How far an incomplete head was looked at, so that the work is in proportion
/// to its bytes however slowly they arrive.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Progress {
    /// Bytes that were looked at, 0 for none yet.
    pub scanned: u16,
    /// How far complete and valid lines reach in them.
    pub checked: u16,
    /// Field lines among these.
    fields: u16,
}

impl Progress {
    /// Nothing was looked at.
    pub const NONE: Self = Self { scanned: 0, checked: 0, fields: 0 };

    /// All of `window` was looked at: complete lines end at `checked` (0 within
    /// the first line), and `fields` of them are field lines.
    pub const fn at(window: &[u8], checked: usize, fields: u16) -> Self {
        Self { scanned: window.len() as u16, checked: checked as u16, fields }
    }

    /// Whether nothing was looked at.
    #[inline]
    pub const fn is_none(self) -> bool {
        self.scanned == 0
    }

    /// Goes on with what is new in `window`. `Complete` when the head may be
    /// there as a whole, to be parsed from its start.
    #[cold]
    pub fn resume(self, window: &[u8], most_fields: u16, ends: LineEnds) -> Section {
        let checked = usize::from(self.checked);
        if find(window, usize::from(self.scanned), b'\n').is_none() {
            return Section::Incomplete(checked, self.fields);
        }
        if checked == 0 { Section::Complete(0) } else { section(window, checked, self.fields, most_fields, ends) }
    }
}

/// How far complete field lines reach.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Section {
    /// The empty line was found; the section ends before this position.
    Complete(usize),
    /// All complete lines are valid; they end here, and there are this many.
    Incomplete(usize, u16),
    /// A complete line is no field line.
    Malformed,
    /// More lines than `most`.
    TooMany,
}

/// How the lines of a head may end.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum LineEnds {
    /// In CR LF.
    CrLf,
    /// In LF alone, too (RFC 9112 section 2.2 allows a recipient this).
    LineFeeds,
}

impl LineEnds {
    /// By a head's limits.
    pub const fn of(line_feeds: bool) -> Self {
        if line_feeds { Self::LineFeeds } else { Self::CrLf }
    }

    /// What follows the empty line that `rest` begins with.
    fn skip_empty(self, rest: &[u8]) -> Option<&[u8]> {
        match rest {
            [b'\r', b'\n', after @ ..] => Some(after),
            [b'\n', after @ ..] if self == Self::LineFeeds => Some(after),
            _ => None,
        }
    }

    /// What follows the field line that `rest` begins with.
    fn skip_field(self, rest: &[u8]) -> Option<&[u8]> {
        skip_field(rest).or_else(|| if self == Self::LineFeeds { skip_bare_field(rest) } else { None })
    }
}

/// What follows a field line that ends in LF alone; a CR in it is refused.
#[cold]
fn skip_bare_field(rest: &[u8]) -> Option<&[u8]> {
    let (line, after) = rest.split_at_checked(find(rest, 0, b'\n')?)?;
    let (name, value) = line.split_at_checked(token_len(line))?;
    let value = value.strip_prefix(b":").filter(|_| !name.is_empty())?;
    value.iter().all(|&byte| is_field_byte(byte)).then_some(after.get(1..)?)
}

/// What a head is that is no head of lines that end in CR LF, where they may end in
/// LF alone.
#[cold]
pub(crate) fn section_of_line_feeds(window: &[u8], first: usize, most: u16) -> Option<Section> {
    let found = section(window, first, 0, most, LineEnds::LineFeeds);
    match found {
        // Each line ends as it should: something else is wrong.
        Section::Complete(end) if !has_bare_line_feed(window.get(..end)?) => None,
        found => Some(found),
    }
}

fn has_bare_line_feed(head: &[u8]) -> bool {
    head.split_inclusive(|&byte| byte == b'\n').any(|line| !line.ends_with(b"\r\n"))
}

/// A head whose lines may end in LF alone, with CR LF at the end of each, and without
/// the empty lines before it. A CR elsewhere stays where it is, for the parser to refuse.
#[cold]
#[must_use]
pub fn canonical(head: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(head.len() + head.len() / 8);
    for line in head.split_inclusive(|&byte| byte == b'\n') {
        let line = line.strip_suffix(b"\n").unwrap_or(line);
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        if !(line.is_empty() && out.is_empty()) {
            out.extend_from_slice(line);
            out.extend_from_slice(b"\r\n");
        }
    }
    out
}

/// Checks field lines from `at` on, after `count` earlier ones.
pub(crate) fn section(data: &[u8], at: usize, mut count: u16, most: u16, ends: LineEnds) -> Section {
    let mut rest = data.get(at..).unwrap_or_default();
    loop {
        if let Some(after) = ends.skip_empty(rest) {
            return Section::Complete(data.len() - after.len());
        }
        let Some(next) = ends.skip_field(rest) else { break };
        if count >= most {
            return Section::TooMany;
        }
        count += 1;
        rest = next;
    }
    let at = data.len() - rest.len();
    if is_complete(data, at) { Section::Malformed } else { Section::Incomplete(at, count) }
}
