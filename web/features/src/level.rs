//! How bad it is what a line of the error log tells.

/// How bad it is what a line of an error log tells, by nginx's numbers: the least is the
/// worst.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct ErrorLevel(pub u8);

impl ErrorLevel {
    /// Something is wrong that somebody should look at.
    pub const ALERT: Self = Self(2);
    /// What is worse than what clients bring about.
    pub const CRIT: Self = Self(3);
    /// A request fails.
    pub const ERROR: Self = Self(4);
    /// It does not, but something is odd.
    pub const WARN: Self = Self(5);
    /// What happens every day.
    pub const INFO: Self = Self(7);

    /// The next, which is less bad.
    #[must_use]
    pub const fn milder(self) -> Self {
        Self(self.0 + 1)
    }

    /// Its severity (RFC 3164 section 4.1.1).
    #[must_use]
    pub const fn severity(self) -> u8 {
        self.0.saturating_sub(1)
    }

    /// Its word.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self.0 {
            0 | 1 => "emerg",
            2 => "alert",
            3 => "crit",
            4 => "error",
            5 => "warn",
            6 => "notice",
            7 => "info",
            _ => "debug",
        }
    }
}
