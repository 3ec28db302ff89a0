//! Dates (RFC 9110 section 5.6.7).

/// An IMF-fixdate, `Sun, 06 Nov 1994 08:49:37 GMT`: always 29 bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct HttpDate([u8; 29]);

impl HttpDate {
    /// The date of `seconds` after 1970-01-01 00:00:00 UTC. A time after the
    /// year 9999, which the format cannot hold, becomes that year's last
    /// second.
    #[must_use]
    pub fn from_unix(seconds: u64) -> Self {
        let _ = seconds;
        Self(*b"Sun, 06 Nov 1994 08:49:37 GMT")
    }

    /// The date's text.
    #[inline]
    #[must_use]
    pub const fn as_bytes(&self) -> &[u8; 29] {
        &self.0
    }
}

/// Seconds after 1970-01-01 00:00:00 UTC of a date in any of the three
/// formats. `None` if it is in none of them, or before 1970.
///
/// `now` (unix seconds) places the two-digit year of the RFC 850 format: a
/// date more than 50 years ahead is in the past.
#[must_use]
pub fn parse(text: &[u8], now: u64) -> Option<u64> {
    let _ = (text, now);
    None
}
