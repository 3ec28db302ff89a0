//! What is logged of requests: formats, places, conditions.

mod directive;
mod escape;
mod format;
mod syslog;

pub use directive::{AccessLogLine, LogUse, open_log_file_cache};
pub use escape::LogEscape;
pub use format::{HeadPart, LogFormat, PutPart, QuickLine};
pub use syslog::syslog_place;

use access_log::LogPlace;
use features::{ErrorLevel, Value};

/// Where lines go.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LogTarget {
    /// The place, as who writes there knows it.
    pub place: LogPlace,
    /// The path of the file of each request, where the place is
    /// [`LogPlace::Named`].
    pub path: Option<Value>,
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
