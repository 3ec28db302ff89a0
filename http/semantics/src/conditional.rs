//! Conditional requests (RFC 9110 section 13) and entity tags (section 8.8.3).

use crate::{Method, Values, date};

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
pub fn evaluate(method: Method, preconditions: &Preconditions<'_>, validators: &Validators<'_>, now: u64) -> Verdict {
    let get_or_head = matches!(method, Method::Get | Method::Head);
    // Steps 1 and 2: If-Unmodified-Since counts only without If-Match.
    if let Some(tags) = &preconditions.if_match {
        if !any_match(tags.clone(), validators.etag, strong_match) {
            return Verdict::PreconditionFailed;
        }
    } else if let Some(since) = preconditions.if_unmodified_since.and_then(|text| date::parse(text, now))
        // Section 13.1.4: to be ignored without a modification date.
        && validators.last_modified.is_some_and(|modified| modified > since)
    {
        return Verdict::PreconditionFailed;
    }
    // Steps 3 and 4: If-Modified-Since counts only without If-None-Match, and
    // for GET and HEAD.
    if let Some(tags) = &preconditions.if_none_match {
        if any_match(tags.clone(), validators.etag, weak_match) {
            return if get_or_head { Verdict::NotModified } else { Verdict::PreconditionFailed };
        }
    } else if get_or_head
        && let Some(since) = preconditions.if_modified_since.and_then(|text| date::parse(text, now))
        // Section 13.1.3: to be ignored without a modification date.
        && validators.last_modified.is_some_and(|modified| modified <= since)
    {
        return Verdict::NotModified;
    }
    // Step 5: Range is defined for GET alone (section 14.2).
    match preconditions.if_range {
        Some(condition) if method == Method::Get && !if_range_holds(condition, validators, now) => {
            Verdict::ProceedWhole
        }
        _ => Verdict::Proceed,
    }
}

/// RFC 9110 section 13.1.5: a strong entity tag, or a date that is exactly
/// the modification date.
fn if_range_holds(condition: &[u8], validators: &Validators<'_>, now: u64) -> bool {
    if condition.starts_with(b"\"") || condition.starts_with(b"W/") {
        return validators.etag.is_some_and(|etag| strong_match(etag, condition));
    }
    let Some(modified) = validators.last_modified else { return false };
    // Section 8.8.2.2: a date validates strongly only where the file cannot
    // have changed twice within its second: it is at least one second old.
    date::parse(condition, now) == Some(modified) && modified < now
}

/// Whether a member of the list, or `*`, matches the representation
/// (RFC 9110 sections 13.1.1 and 13.1.2).
fn any_match(mut lines: Values<'_>, etag: Option<&[u8]>, matches: fn(&[u8], &[u8]) -> bool) -> bool {
    lines.any(|line| {
        line == b"*" || etag.is_some_and(|etag| Tags { rest: line }.any(|candidate| matches(etag, candidate)))
    })
}

/// The entity tags of a list; ends at what is none.
struct Tags<'a> {
    rest: &'a [u8],
}

impl<'a> Iterator for Tags<'a> {
    type Item = &'a [u8];

    fn next(&mut self) -> Option<&'a [u8]> {
        while let [b' ' | b'\t' | b',', rest @ ..] = self.rest {
            self.rest = rest;
        }
        let prefix = if self.rest.starts_with(b"W/") { 3 } else { 1 };
        let opaque = self.rest.get(prefix..)?;
        if self.rest.get(prefix - 1) != Some(&b'"') {
            return None;
        }
        // A comma may be part of a tag, a quote may not.
        let quote = opaque.iter().position(|&byte| byte == b'"')?;
        let (tag, rest) = self.rest.split_at_checked(prefix + quote + 1)?;
        self.rest = rest;
        Some(tag)
    }
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

#[cfg(test)]
mod tests;
