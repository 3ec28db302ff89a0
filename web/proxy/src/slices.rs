//! Parts of a long answer: what of it a client begins with, which part one is, and which is asked for next.

use crate::fields::NameSet;
use core::ops::Range;
use semantics::Fields;

/// Where in an answer the part stands that came (`Content-Range`, RFC 9110
/// section 14.4).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ContentRange {
    /// Its first byte.
    pub start: u64,
    /// The byte behind its last.
    pub end: u64,
    /// Bytes of the whole, if these are told.
    pub complete: Option<u64>,
}

impl ContentRange {
    /// Reads the value of a field, as nginx does: with spaces between any of its parts.
    #[must_use]
    pub fn parse(value: &[u8]) -> Option<Self> {
        let (start, rest) = number(skip_spaces(value.strip_prefix(b"bytes ")?))?;
        let rest = skip_spaces(rest).strip_prefix(b"-")?;
        let (last, rest) = number(skip_spaces(rest))?;
        let rest = skip_spaces(skip_spaces(rest).strip_prefix(b"/")?);
        let (complete, rest) = match rest.strip_prefix(b"*") {
            Some(rest) => (None, rest),
            None => number(rest).map(|(complete, rest)| (Some(complete), rest))?,
        };
        skip_spaces(rest).is_empty().then_some(Self { start, end: last + 1, complete })
    }
}

/// The first byte that the value of a `Range` field asks for; 0 where it does not say, or
/// says it of the end, or of several ranges.
#[must_use]
pub fn first_byte(range: &[u8]) -> u64 {
    let Some((unit, rest)) = range.split_at_checked(6) else { return 0 };
    if !unit.eq_ignore_ascii_case(b"bytes=") || rest.contains(&b',') {
        return 0;
    }
    number(skip_spaces(rest)).map_or(0, |(start, _)| start)
}

fn skip_spaces(text: &[u8]) -> &[u8] {
    let start = text.iter().position(|byte| *byte != b' ').unwrap_or(text.len());
    text.get(start..).unwrap_or_default()
}

/// A number of bytes, as many as a file may have, and what follows it.
fn number(text: &[u8]) -> Option<(u64, &[u8])> {
    let digits = text.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let (digits, rest) = text.split_at_checked(digits).filter(|(digits, _)| !digits.is_empty())?;
    let value = digits.iter().try_fold(0_u64, |value, digit| {
        value.checked_mul(10)?.checked_add(u64::from(digit - b'0')).filter(|value| *value <= i64::MAX as u64)
    })?;
    Some((value, rest))
}

/// What an answer says that is a part of a whole.
pub const PARTIAL: u16 = 206;

/// A slice that is asked for.
#[derive(Clone, Debug)]
pub struct SliceAsked {
    /// Bytes of each.
    size: u64,
    /// Where it begins; once it came, where the next does.
    start: u64,
    /// What `$slice_range` stands for.
    pub range: Vec<u8>,
    /// The tag that all of them have; empty until one had any.
    etag: Vec<u8>,
    /// Its head came, and is that of a slice.
    pub came: bool,
}

impl SliceAsked {
    fn new(size: u64, start: u64, etag: Vec<u8>) -> Self {
        let range = format!("bytes={start}-{}", start.saturating_add(size - 1)).into_bytes();
        Self { size, start, range, etag, came: false }
    }

    /// Takes the head of an answer with this status and these fields, of which some are
    /// hidden: which bytes it has, of how many; or what is wrong with it, for people.
    pub fn take(&mut self, status: u16, fields: &[u8], hidden: &NameSet) -> Result<(Range<u64>, u64), String> {
        if status != PARTIAL {
            return Err(format!("unexpected status code {status} in slice response"));
        }
        let field = |name: &str| {
            let named = Fields::new(fields).filter(|field| field.is(name) && !hidden.has(field.name));
            named.last().map(|field| field.value)
        };
        let etag = field("etag");
        if !self.etag.is_empty() && etag != Some(&self.etag) {
            return Err("etag mismatch in slice response".to_owned());
        }
        let told = field("content-range").and_then(ContentRange::parse);
        let Some(ContentRange { start, end, complete }) = told.filter(|told| told.start < told.end) else {
            return Err("invalid range in slice response".to_owned());
        };
        let Some(complete) = complete else { return Err("no complete length in slice response".to_owned()) };
        let expected = start.saturating_add(self.size).min(complete);
        if (start, end) != (self.start, expected) {
            let asked = self.start;
            return Err(format!("unexpected range in slice response: {start}-{end}, expected: {asked}-{expected}"));
        }
        if let Some(etag) = etag {
            self.etag = etag.to_vec();
        }
        (self.start, self.came) = (end, true);
        Ok((start..end, complete))
    }
}

/// A request whose answer is asked for by slices.
#[derive(Debug)]
pub struct Slices {
    /// The slice that is asked for.
    pub asked: SliceAsked,
    /// What of the whole goes to the client; and whether it goes as it is, so that places in
    /// it are places in the whole.
    window: Range<u64>,
    exact: bool,
    /// What of the whole is still to come of the slice that comes.
    pub comes: Range<u64>,
    /// The first slice is none of what goes to the client.
    drops: bool,
}

impl Slices {
    /// Those of `size` bytes, of which the one comes first that has the byte `first`.
    pub fn new(size: u64, first: u64) -> Self {
        let asked = SliceAsked::new(size, first / size * size, Vec::new());
        Self { asked, window: 0..0, exact: false, comes: 0..0, drops: false }
    }

    /// The client gets `window`, which goes as it `is_exact`.
    pub fn begin(&mut self, window: Range<u64>, is_exact: bool) {
        let size = self.asked.size;
        let begun_late = window.start < self.comes.start;
        if begun_late || self.asked.start.saturating_add(size) <= window.start {
            // It goes on where the client's part begins.
            self.asked.start = window.start / size * size;
        }
        (self.drops, self.window, self.exact) = (begun_late, window, is_exact);
    }

    /// What of the next so many bytes goes on.
    fn next(&mut self, length: usize) -> Range<usize> {
        if !self.exact {
            return 0..length;
        }
        let at = self.comes.start;
        let within = |place: u64| usize::try_from(place.saturating_sub(at)).unwrap_or(usize::MAX).min(length);
        self.comes.start = at.saturating_add(length as u64);
        let end = within(self.window.end.min(self.comes.end));
        within(self.window.start).min(end)..end
    }

    /// What of some content of the first slice goes on.
    pub fn cut<'b>(&mut self, bytes: &'b [u8]) -> &'b [u8] {
        if self.drops {
            return &[];
        }
        let kept = self.next(bytes.len());
        bytes.get(kept).unwrap_or_default()
    }

    /// The same of a part of what came of the next.
    pub fn cut_of(&mut self, range: Range<u32>) -> Range<u32> {
        let kept = self.next(range.len());
        range.start + kept.start as u32..range.start + kept.end as u32
    }

    /// The slice that is next, if there is one.
    pub fn ask(&mut self) -> Option<SliceAsked> {
        let (size, start) = (self.asked.size, self.asked.start);
        if start >= self.window.end {
            return None;
        }
        self.asked = SliceAsked::new(size, start, core::mem::take(&mut self.asked.etag));
        self.comes = start..start.saturating_add(size);
        Some(self.asked.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_says_where_it_stands() {
        let told = |start, end, complete| Some(ContentRange { start, end, complete });
        for (value, expected) in [
            ("bytes 0-4/10", told(0, 5, Some(10))),
            ("bytes  0 - 4 / 10 ", told(0, 5, Some(10))),
            ("bytes 0-4/*", told(0, 5, None)),
            ("bytes 5-4/10", told(5, 5, Some(10))),
            ("bytes */10", None),
            ("bytes 0-4", None),
            ("bytes 0-4/10;", None),
            ("bytes=0-4/10", None),
            ("Bytes 0-4/10", None),
            ("bytes -4/10", None),
            ("bytes 0-9223372036854775807/9223372036854775808", None),
            ("bytes 0-9223372036854775807/*", told(0, 1 << 63, None)),
            ("", None),
        ] {
            assert_eq!(ContentRange::parse(value.as_bytes()), expected, "{value}");
        }
    }

    #[test]
    fn a_client_begins_with_the_first_byte_that_it_tells() {
        for (value, expected) in [
            ("bytes=5-", 5),
            ("Bytes= 5-9", 5),
            ("bytes=-5", 0),
            ("bytes=5-6,8-9", 0),
            ("bytes=x", 0),
            ("bytes=", 0),
            ("items=5-", 0),
            ("bytes=9223372036854775807-", i64::MAX as u64),
            ("bytes=9223372036854775808-", 0),
        ] {
            assert_eq!(first_byte(value.as_bytes()), expected, "{value}");
        }
    }
}
