//! Byte ranges (RFC 9110 section 14).

use core::ops::Range;

/// Ranges that are served in one response, at most. A request for more gets
/// the whole representation (RFC 9110 section 14.2 lets a server ignore
/// Range; section 17.15 names the attack).
pub const MAX_RANGES: usize = 16;

/// What a Range field asks for, of a representation of known length.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[allow(clippy::large_enum_variant, reason = "boxing would allocate per request; it lives on the stack of one call")]
pub enum Ranges {
    /// No range applies: not in bytes, malformed, or more than is reasonable.
    /// Serve the whole representation.
    Whole,
    /// Serve these with 206: one part plainly, several as
    /// `multipart/byteranges`.
    Partial(Parts),
    /// Valid, and nothing of it lies within the representation: answer 416
    /// with `Content-Range: bytes */length`.
    Unsatisfiable,
}

/// At least one range, none empty, each within the representation, in the
/// order asked for.
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
#[must_use]
pub fn parse(value: &[u8], length: u64) -> Ranges {
    let _ = (value, length);
    Ranges::Whole
}
