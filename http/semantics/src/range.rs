//! Byte ranges (RFC 9110 section 14).

use core::ops::Range;

use crate::lines::trim;
use crate::number;

/// Ranges that are served in one response, at most. A request for more gets
/// the whole representation (RFC 9110 section 14.2 lets a server ignore
/// Range; section 17.15 names the attack).
pub const MAX_RANGES: usize = 16;

/// What a Range field asks for, of a representation of known length.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[allow(clippy::large_enum_variant, reason = "boxing would allocate per request; it lives on the stack of one call")]
pub enum Ranges {
    /// No range applies: not in bytes, malformed, or more than is reasonable. Serve the whole representation.
    Whole,
    /// Serve these with 206: one part plainly, several as
    /// `multipart/byteranges`.
    Partial(Parts),
    /// Valid, and nothing of it lies within the representation: answer 416
    /// with `Content-Range: bytes */length`.
    Unsatisfiable,
}

/// At least one range, none empty, each within the representation, no more bytes than that has, in the order
/// asked for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Parts {
    ranges: [(u64, u64); MAX_RANGES],
    count: u8,
}

impl Parts {
    /// How many there are; never 0.
    #[must_use]
    #[allow(clippy::len_without_is_empty, reason = "never empty")]
    pub const fn len(&self) -> usize {
        self.count as usize
    }

    /// The ranges, first byte included and last excluded.
    pub fn iter(&self) -> impl Iterator<Item = Range<u64>> + '_ {
        self.ranges.iter().take(self.len()).map(|&(start, end)| start..end)
    }

    /// The only range, if there is just one.
    #[must_use]
    pub fn single(&self) -> Option<Range<u64>> {
        (self.count == 1).then(|| self.ranges[0].0..self.ranges[0].1)
    }
}

/// Reads a Range field's value for a representation of `length` bytes.
///
/// Ranges that lie outside are left out. To more than [`MAX_RANGES`], or such as have more bytes together than
/// the representation, as overlapping ones may, the answer is `Whole`, which costs least and is always right
/// (RFC 9110 sections 14.2 and 17.15).
#[must_use]
pub fn parse(value: &[u8], length: u64) -> Ranges {
    // Section 14.1: range units are case-insensitive.
    let Some((unit, set)) = value.split_at_checked(6) else { return Ranges::Whole };
    if !unit.eq_ignore_ascii_case(b"bytes=") {
        return Ranges::Whole;
    }
    let mut parts = Parts { ranges: [(0, 0); MAX_RANGES], count: 0 };
    let mut asked = 0;
    // Section 5.6.1: empty members of a list are ignored.
    for member in set.split(|&byte| byte == b',').map(trim).filter(|member| !member.is_empty()) {
        asked += 1;
        if asked > MAX_RANGES {
            return Ranges::Whole;
        }
        match spec(member, length) {
            None => return Ranges::Whole,
            Some((start, end)) if start < end => {
                parts.ranges[usize::from(parts.count)] = (start, end);
                parts.count += 1;
            }
            Some(_) => {}
        }
    }
    match (asked, parts.count) {
        (0, _) => Ranges::Whole,
        (_, 0) => Ranges::Unsatisfiable,
        _ if exceeds(&parts, length) => Ranges::Whole,
        _ => Ranges::Partial(parts),
    }
}

/// `first "-" [last]` or `"-" suffix-length` (RFC 9110 section 14.1.2), as
/// first byte and the byte after the last; empty where nothing of it exists.
fn spec(member: &[u8], length: u64) -> Option<(u64, u64)> {
    let dash = member.iter().position(|&byte| byte == b'-')?;
    let (first, last) = (member.get(..dash)?, member.get(dash + 1..)?);
    if first.is_empty() {
        return Some((length.saturating_sub(position(last)?), length));
    }
    let first = position(first)?;
    let end = if last.is_empty() {
        length
    } else {
        let last = position(last)?;
        // Section 14.1.1: invalid, not empty.
        if last < first {
            return None;
        }
        last.saturating_add(1).min(length)
    };
    Some((first, end))
}

/// A number of any length; one that does not fit lies beyond every
/// representation, and so does the largest that does.
fn position(digits: &[u8]) -> Option<u64> {
    let valid = !digits.is_empty() && digits.iter().all(u8::is_ascii_digit);
    valid.then(|| number::parse(digits).unwrap_or(u64::MAX))
}

/// Whether there are more bytes in them than in the representation: some are there twice.
fn exceeds(parts: &Parts, length: u64) -> bool {
    parts.iter().map(|range| range.end - range.start).try_fold(0_u64, u64::checked_add).is_none_or(|all| all > length)
}

#[cfg(test)]
mod tests;
