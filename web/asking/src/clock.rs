//! Times as whole numbers.

use wire::Time;

/// Whole seconds, of a clock that does not go back.
pub(crate) fn seconds(now: Time) -> i64 {
    i64::try_from(now.as_nanos() / 1_000_000_000).unwrap_or(i64::MAX)
}

pub(crate) fn millis(now: Time) -> u64 {
    now.as_nanos() / 1_000_000
}
