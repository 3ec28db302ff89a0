//! How far field lines reach, in heads that may be incomplete.
//!
//! A line that does not parse is judged only once it is complete, so that the
//! verdict does not depend on how the bytes were split.

use semantics::lines::skip_field;
use semantics::scan::find;

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
    pub fn resume(self, window: &[u8], most_fields: u16) -> Section {
        let checked = usize::from(self.checked);
        if find(window, usize::from(self.scanned), b'\n').is_none() {
            return Section::Incomplete(checked, self.fields);
        }
        if checked == 0 { Section::Complete(0) } else { section(window, checked, self.fields, most_fields) }
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

/// Checks field lines from `at` on, after `count` earlier ones.
pub(crate) fn section(data: &[u8], at: usize, mut count: u16, most: u16) -> Section {
    let mut rest = data.get(at..).unwrap_or_default();
    loop {
        if let [b'\r', b'\n', after @ ..] = rest {
            return Section::Complete(data.len() - after.len());
        }
        let Some(next) = skip_field(rest) else { break };
        if count >= most {
            return Section::TooMany;
        }
        count += 1;
        rest = next;
    }
    let at = data.len() - rest.len();
    if is_complete(data, at) { Section::Malformed } else { Section::Incomplete(at, count) }
}
