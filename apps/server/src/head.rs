//! The heads of successful responses: what does not change between two
//! requests for the same content is written once.

use h1::response::Head;
use semantics::Status;
use semantics::date::HttpDate;

/// The product token of the `Server` field (RFC 9110 §10.2.4).
const PRODUCT: &[u8] = b"nearside";

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

/// A file's validators (RFC 9110 §8.8).
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FileMeta {
    /// The strong entity tag, quotes included.
    pub etag: String,
    /// `Last-Modified`, unix seconds.
    pub modified: u64,
}

/// Starts a head with the fields that every response carries.
pub fn start(out: &mut Vec<u8>, status: Status, server_header: bool, date: HttpDate) -> Head<'_, Vec<u8>> {
    let head = Head::new(out, status).date(&date);
    if server_header { head.field("Server", PRODUCT) } else { head }
}

/// Where in a head made by [`start`] the 29 bytes of the date begin.
pub const fn date_at(status: Status) -> usize {
    let line = match status.line() {
        Some(line) => line.len(),
        None => 0,
    };
    line + b"Date: ".len()
}

/// `Last-Modified` and `ETag`, where there are any: those also of a 304
/// (RFC 9110 §15.4.5).
pub fn validators<'s>(head: Head<'s, Vec<u8>>, meta: &Meta) -> Head<'s, Vec<u8>> {
    match &meta.file {
        Some(file) => head.last_modified(&HttpDate::from_unix(file.modified)).field("ETag", file.etag.as_bytes()),
        None => head,
    }
}

/// The head of a 200 for the whole content, without `Connection`.
pub fn whole(out: &mut Vec<u8>, meta: &Meta, server_header: bool, date: HttpDate) {
    let head = start(out, Status::OK, server_header, date)
        .field("Content-Type", meta.content_type.as_bytes())
        .content_length(meta.size);
    let head = validators(head, meta);
    // RFC 9110 §14.3: ranges are served for files.
    if meta.file.is_some() { head.field("Accept-Ranges", b"bytes").end() } else { head.end() }
}
