//! Regular expressions with nginx's meaning: PCRE2, compiled to machine code,
//! with bounds on what one match may cost.
//!
//! An expression is compiled once, by whoever reads a configuration, and shared
//! by all silos ([`Regex`]); what a match needs beside it each silo has for
//! itself ([`Matcher`]). An expression that goes astray in a subject ends at
//! [`MATCH_LIMIT`]: that is an error, as in nginx, and no match.

mod matcher;
mod regex;

pub use matcher::{Groups, MatchError, Matcher};
pub use regex::{Regex, RegexError, RegexOptions};

/// Steps that one match may take (pcre2_set_match_limit(3)): some milliseconds.
/// nginx leaves PCRE2's own ten million, which hold a worker for a second.
pub const MATCH_LIMIT: u32 = 500_000;

/// The most groups that a matcher tells of; nginx has `$1` to `$9`, and names.
pub const GROUPS_MAX: u32 = 64;

#[cfg(test)]
mod tests;
