//! From when to when: `?start=` and `?end=`.

use core::num::NonZeroU64;

/// Digits behind the point that count: times are in milliseconds.
const POINT: u32 = 3;

/// Which part of a film is wanted, in milliseconds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Span {
    /// Where it begins.
    pub start: u64,
    /// How long it is; none is up to the end.
    pub length: Option<NonZeroU64>,
}

impl Span {
    /// What the query of a request asks for; none if it asks for the file as it is. An end
    /// that is no number, or not behind the start, is that of the film.
    #[must_use]
    pub fn asked(query: &[u8]) -> Option<Self> {
        let start = argument(query, b"start").and_then(milliseconds);
        let end = argument(query, b"end").and_then(milliseconds).filter(|end| *end > 0);
        let begins = start.or(end.map(|_| 0))?;
        let length = end.and_then(|end| end.checked_sub(begins)).and_then(NonZeroU64::new);
        Some(Self { start: begins, length })
    }

    /// Whether it is all of the film.
    #[must_use]
    pub const fn is_whole(&self) -> bool {
        self.start == 0 && self.length.is_none()
    }

    /// The start, in units of which there are so many in a second.
    pub(crate) const fn start_in(&self, timescale: u32) -> u64 {
        self.start.wrapping_mul(timescale as u64) / 1000
    }

    /// The length, likewise.
    pub(crate) fn length_in(&self, timescale: u32) -> Option<u64> {
        self.length.map(|length| length.get().wrapping_mul(u64::from(timescale)) / 1000)
    }

    /// What is left of a duration; none if it is over at the start, or earlier.
    pub(crate) fn left_of(&self, duration: u64, timescale: u32) -> Option<u64> {
        let left = duration.checked_sub(self.start_in(timescale))?;
        Some(self.length_in(timescale).map_or(left, |length| left.min(length)))
    }
}

/// The first argument of this name in a query, as nginx looks for it: names are the same in
/// either case, and one without `=` is none.
#[must_use]
pub fn argument<'a>(query: &'a [u8], name: &[u8]) -> Option<&'a [u8]> {
    query.split(|byte| *byte == b'&').find_map(|one| {
        let (found, rest) = one.split_at_checked(name.len())?;
        rest.strip_prefix(b"=").filter(|_| found.eq_ignore_ascii_case(name))
    })
}

/// A number of seconds, perhaps with a point, in milliseconds. Players send many digits behind
/// the point, of which three count.
fn milliseconds(text: &[u8]) -> Option<u64> {
    const MOST: u64 = i64::MAX as u64;
    if text.is_empty() {
        return None;
    }
    let (mut value, mut left, mut is_behind_point) = (0_u64, POINT, false);
    for byte in text {
        match byte {
            b'.' if is_behind_point => return None,
            b'.' => is_behind_point = true,
            b'0'..=b'9' if left == 0 => {}
            b'0'..=b'9' => {
                value = value.checked_mul(10)?.checked_add(u64::from(byte - b'0')).filter(|value| *value <= MOST)?;
                left -= u32::from(is_behind_point);
            }
            _ => return None,
        }
    }
    (0..left).try_fold(value, |value, _| value.checked_mul(10).filter(|_| value <= MOST / 10))
}
