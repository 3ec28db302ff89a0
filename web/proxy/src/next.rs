//! When another server is asked instead (`proxy_next_upstream`).

/// What went wrong with one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Failure {
    /// It could not be reached, or its connection broke.
    Error,
    /// It took too long.
    Timeout,
    /// What it sent is no answer.
    InvalidHeader,
    /// It answered with this status.
    Status(u16),
}

/// Failures after which another is asked, as a set of these bits.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct NextOn(u16);

/// Names of the parameters, and their bits.
const NAMES: [(&[u8], u16); 12] = [
    (b"error", 1),
    (b"timeout", 1 << 1),
    (b"invalid_header", 1 << 2),
    (b"http_500", 1 << 3),
    (b"http_502", 1 << 4),
    (b"http_503", 1 << 5),
    (b"http_504", 1 << 6),
    (b"http_403", 1 << 7),
    (b"http_404", 1 << 8),
    (b"http_429", 1 << 9),
    (b"non_idempotent", 1 << 10),
    (b"off", 1 << 11),
];

impl Default for NextOn {
    /// `error timeout`
    fn default() -> Self {
        Self(3)
    }
}

impl NextOn {
    /// Of parameters. What is no parameter, and what is one of caches alone (`updating`),
    /// counts for nothing.
    pub fn of<'a>(words: impl IntoIterator<Item = &'a [u8]>) -> Self {
        let bit = |word: &[u8]| NAMES.iter().find(|(name, _)| *name == word).map_or(0, |(_, bit)| *bit);
        Self(words.into_iter().map(bit).fold(0, |all, one| all | one))
    }

    fn bit(failure: Failure) -> Option<u16> {
        Some(match failure {
            Failure::Error => 1,
            Failure::Timeout => 1 << 1,
            Failure::InvalidHeader => 1 << 2,
            Failure::Status(500) => 1 << 3,
            Failure::Status(502) => 1 << 4,
            Failure::Status(503) => 1 << 5,
            Failure::Status(504) => 1 << 6,
            Failure::Status(403) => 1 << 7,
            Failure::Status(404) => 1 << 8,
            Failure::Status(429) => 1 << 9,
            Failure::Status(_) => return None,
        })
    }

    /// Whether another is asked after this; `repeats` tells of a request that was sent
    /// and may do twice what it does (POST, LOCK, PATCH).
    #[must_use]
    pub fn has(self, failure: Failure, repeats: bool) -> bool {
        const NON_IDEMPOTENT: u16 = 1 << 10;
        const OFF: u16 = 1 << 11;
        let Some(bit) = Self::bit(failure) else { return false };
        self.0 & OFF == 0 && self.0 & bit != 0 && (!repeats || self.0 & NON_IDEMPOTENT != 0)
    }
}

impl Failure {
    /// The status that a client is told if nobody else is asked.
    #[must_use]
    pub const fn status(self) -> u16 {
        match self {
            Self::Timeout => 504,
            Self::Status(status) => status,
            Self::Error | Self::InvalidHeader => 502,
        }
    }

    /// Whether the server is to blame: what was found missing or forbidden was an answer.
    #[must_use]
    pub const fn blames(self) -> bool {
        !matches!(self, Self::Status(403 | 404))
    }
}

/// Whether sending a request of this method twice may do twice what it does
/// (`non_idempotent`).
#[must_use]
pub fn is_unrepeatable(method: &[u8]) -> bool {
    matches!(method, b"POST" | b"LOCK" | b"PATCH")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_are_a_set() {
        let usual = NextOn::default();
        assert!(usual.has(Failure::Error, false) && usual.has(Failure::Timeout, false));
        assert!(!usual.has(Failure::InvalidHeader, false) && !usual.has(Failure::Error, true));
        let some = NextOn::of([&b"http_503"[..], b"non_idempotent", b"updating"]);
        assert!(some.has(Failure::Status(503), true) && !some.has(Failure::Status(502), false));
        assert!(!some.has(Failure::Status(200), false));
        let off = NextOn::of([&b"error"[..], b"off"]);
        assert!(!off.has(Failure::Error, false));
        assert_eq!((Failure::Timeout.status(), Failure::InvalidHeader.status()), (504, 502));
        assert!(!Failure::Status(404).blames() && Failure::Status(500).blames());
    }
}
