//! What is logged of requests: formats, places, conditions.

mod directive;
mod escape;
mod format;
mod syslog;

pub use directive::{AccessLogLine, LogUse, open_log_file_cache};
pub use escape::LogEscape;
pub use format::{HeadPart, LogFormat, QuickLine};

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

#[cfg(test)]
mod tests;
