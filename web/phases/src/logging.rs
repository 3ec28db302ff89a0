//! What is logged of requests: formats, places, conditions.

mod directive;
mod escape;
mod format;
mod syslog;

pub use directive::{AccessLogLine, LogUse, open_log_file_cache};
pub use escape::LogEscape;
pub use format::{HeadPart, LogFormat, QuickLine};
pub use syslog::syslog_place;

use crate::value::Value;
use access_log::LogPlace;

/// Where lines go.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LogTarget {
    /// The place, as who writes there knows it.
    pub place: LogPlace,
    /// The path of the file of each request, where the place is
    /// [`LogPlace::Named`].
    pub path: Option<Value>,
}

/// How bad it is what a line of an error log tells, by nginx's numbers: the least is the
/// worst.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct ErrorLevel(pub u8);

impl ErrorLevel {
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

/// `error_log`: lines about requests that go wrong.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ErrorLogUse {
    /// The place's number in [`crate::Program::logs`].
    pub log: u16,
    /// The least that is told there.
    pub level: ErrorLevel,
}

#[cfg(test)]
mod tests;
