//! Which answer a request for content that exists gets: preconditions first,
//! then ranges (RFC 9110 section 13.2.2), the same for every carrier and
//! handler.

use crate::FieldLines;
use core::ops::Range;
use semantics::conditional::{Validators, Verdict, evaluate};
use semantics::date::HttpDate;
use semantics::range::{Parts, Ranges};
use semantics::{Method, Request, Status};
use std::collections::VecDeque;

/// What a response says about its content.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Meta {
    /// Content length, bytes.
    pub size: u64,
    /// `Content-Type`.
    pub content_type: String,
    /// The validators; none for content that is no file.
    pub file: Option<FileMeta>,
}

/// A file's validators (RFC 9110 section 8.8).
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FileMeta {
    /// The strong entity tag, quotes included.
    pub etag: String,
    /// `Last-Modified`, unix seconds.
    pub modified: u64,
}

impl Meta {
    /// `Last-Modified` and `ETag`, where there are any: those also of a 304
    /// (RFC 9110 section 15.4.5).
    fn validators(&self, lines: &mut FieldLines) {
        if let Some(file) = &self.file {
            lines.last_modified(&HttpDate::from_unix(file.modified)).field("ETag", file.etag.as_bytes());
        }
    }
}

/// Where the bytes of a response body come from, in order.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Part {
    /// Delimiters between ranges.
    Bytes(Vec<u8>),
    /// Some of the content.
    Content(Range<u64>),
}

/// A reply to a request for content.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Composed {
    /// The status.
    pub status: Status,
    /// Bytes of the body, where it is told.
    pub length: Option<u64>,
    /// The fields.
    pub fields: FieldLines,
    /// The body; empty also where it is not wanted.
    pub parts: VecDeque<Part>,
}

/// Which response a request for existing content gets.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[allow(clippy::large_enum_variant, reason = "boxing would allocate; it lives on the stack of one call")]
enum Selected {
    Whole,
    Partial(Parts),
    NotModified,
    PreconditionFailed,
    Unsatisfiable,
}

/// Whether the whole content is the answer: what is [ready](crate::Ready).
#[must_use]
pub fn is_selected_whole(meta: &Meta, request: &Request<'_>, second: u64) -> bool {
    matches!(select(meta, request, second), Selected::Whole)
}

/// Which response `request` gets for content that exists.
fn select(meta: &Meta, request: &Request<'_>, second: u64) -> Selected {
    if request.is_plain() {
        return Selected::Whole;
    }
    let validators = Validators {
        etag: meta.file.as_ref().map(|file| file.etag.as_bytes()),
        last_modified: meta.file.as_ref().map(|file| file.modified),
    };
    match evaluate(request.method(), &request.preconditions(), &validators, second) {
        Verdict::NotModified => Selected::NotModified,
        Verdict::PreconditionFailed => Selected::PreconditionFailed,
        Verdict::ProceedWhole => Selected::Whole,
        // RFC 9110 section 14.2: a Range field is for GET only.
        Verdict::Proceed if request.method() == Method::Get && meta.file.is_some() => match request.range() {
            Some(range) => match semantics::range::parse(range, meta.size) {
                Ranges::Whole => Selected::Whole,
                Ranges::Partial(parts) => Selected::Partial(parts),
                Ranges::Unsatisfiable => Selected::Unsatisfiable,
            },
            None => Selected::Whole,
        },
        Verdict::Proceed => Selected::Whole,
    }
}

/// The reply to `request` for content that exists, in unix second `second`.
/// `serial` makes the boundaries of several ranges differ.
///
/// # Errors
/// The status that it is refused with, and the fields to be told with that.
pub fn compose(meta: &Meta, request: &Request<'_>, second: u64, serial: u32) -> Result<Composed, (Status, FieldLines)> {
    let mut fields = FieldLines::new();
    let (status, parts, length) = match select(meta, request, second) {
        Selected::PreconditionFailed => return Err((Status::PRECONDITION_FAILED, fields)),
        Selected::Unsatisfiable => {
            // RFC 9110 section 15.5.17: should say how much there is.
            fields.content_range_unsatisfied(meta.size);
            return Err((Status::RANGE_NOT_SATISFIABLE, fields));
        }
        Selected::NotModified => (Status::NOT_MODIFIED, VecDeque::new(), None),
        Selected::Whole => {
            fields.field("Content-Type", meta.content_type.as_bytes()).field("Accept-Ranges", b"bytes");
            let parts = if meta.size == 0 { VecDeque::new() } else { [Part::Content(0..meta.size)].into() };
            (Status::OK, parts, Some(meta.size))
        }
        Selected::Partial(ranges) => match ranges.single() {
            Some(range) => {
                fields.field("Content-Type", meta.content_type.as_bytes()).content_range(&range, meta.size);
                let length = range.end - range.start;
                (Status::PARTIAL_CONTENT, [Part::Content(range)].into(), Some(length))
            }
            None => {
                let (boundary, parts, length) = multipart(meta, &ranges, serial);
                let content_type = [b"multipart/byteranges; boundary=", boundary.as_slice()].concat();
                fields.field("Content-Type", &content_type);
                // The validators of the whole say nothing wrong here, but no
                // one asks for them.
                return Ok(Composed { status: Status::PARTIAL_CONTENT, length: Some(length), fields, parts });
            }
        },
    };
    meta.validators(&mut fields);
    let parts = if request.method() == Method::Head { VecDeque::new() } else { parts };
    Ok(Composed { status, length, fields, parts })
}

/// The body of several ranges (RFC 9110 section 14.6), its boundary and its
/// length.
fn multipart(meta: &Meta, ranges: &Parts, serial: u32) -> (Vec<u8>, VecDeque<Part>, u64) {
    let boundary = format!("{serial:020}").into_bytes();
    let mut parts = VecDeque::with_capacity(2 * ranges.len() + 1);
    let mut length = 0;
    let mut bytes = |parts: &mut VecDeque<Part>, bytes: Vec<u8>, content: u64| {
        length += bytes.len() as u64 + content;
        parts.push_back(Part::Bytes(bytes));
    };
    for range in ranges.iter() {
        let delimiter = format!(
            "\r\n--{serial:020}\r\nContent-Type: {}\r\nContent-Range: bytes {}-{}/{}\r\n\r\n",
            meta.content_type,
            range.start,
            range.end - 1,
            meta.size
        );
        bytes(&mut parts, delimiter.into_bytes(), range.end - range.start);
        parts.push_back(Part::Content(range));
    }
    bytes(&mut parts, format!("\r\n--{serial:020}--\r\n").into_bytes(), 0);
    (boundary, parts, length)
}
