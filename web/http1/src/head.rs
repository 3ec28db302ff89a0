//! The heads of responses, as HTTP/1.1 has them. A field that every response is
//! to have is written here.

use exchange::{CommonFields, Ending, HeadWriter, Meta, Reply};
use h1::response::ResponseHead;
use semantics::Status;
use semantics::date::HttpDate;

/// The `Server` field with our product token (RFC 9110 §10.2.4).
const SERVER: &[u8] = b"Server: nearside\r\n";

/// Starts a head with the fields that every response carries.
fn start(out: &mut Vec<u8>, status: Status, server_header: bool, date: HttpDate) -> ResponseHead<'_, Vec<u8>> {
    let head = ResponseHead::new(out, status).date(&date);
    if server_header { head.lines(SERVER) } else { head }
}

/// The same for a response whose first fields may be those in their place: what an
/// upstream says of the date and of itself, where that is passed on; and for one with a reason
/// phrase of its own.
#[cold]
fn start_beside<'o>(
    out: &'o mut Vec<u8>,
    reply: &Reply<'_>,
    server_header: bool,
    date: HttpDate,
) -> ResponseHead<'o, Vec<u8>> {
    let mut first = reply.fields.split_inclusive(|byte| *byte == b'\n').take(2);
    let mut rest = first.next().unwrap_or_default();
    let has_date = rest.starts_with(b"Date: ");
    if has_date {
        rest = first.next().unwrap_or_default();
    }
    let has_server = rest.starts_with(b"Server: ");
    let head = match reply.reason {
        Some(reason) => ResponseHead::with_reason(out, reply.status, reason),
        None => ResponseHead::new(out, reply.status),
    };
    let head = if has_date { head } else { head.date(&date) };
    if server_header && !has_server { head.lines(SERVER) } else { head }
}

/// Where in a head made by [`start`] the 29 bytes of the date begin.
const fn date_at(status: Status) -> usize {
    let line = match status.line() {
        Some(line) => line.len(),
        None => 0,
    };
    line + b"Date: ".len()
}

/// The head of `reply`, which may be sent in chunks.
pub(crate) fn write(
    out: &mut Vec<u8>,
    reply: &Reply<'_>,
    server_header: bool,
    date: HttpDate,
    (ending, chunked): (Ending, bool),
) {
    let head = match reply.fields.first() {
        Some(b'D' | b'S') => start_beside(out, reply, server_header, date),
        _ if reply.reason.is_some() => start_beside(out, reply, server_header, date),
        _ => start(out, reply.status, server_header, date),
    };
    let (fields, rest) = if !ending.goes_on() { without_keep_alive(reply.fields) } else { (reply.fields, &b""[..]) };
    let head = head.lines(fields).lines(rest);
    let head = match reply.length {
        Some(length) => head.content_length(length),
        None if chunked => head.chunked(),
        None => head,
    };
    head.lines(ending.line()).end();
}

/// Fields before and behind `Keep-Alive`, which says nothing of a connection that ends: whoever wrote it may
/// not have known that.
#[cold]
fn without_keep_alive(fields: &[u8]) -> (&[u8], &[u8]) {
    let mut at = 0;
    for line in fields.split_inclusive(|byte| *byte == b'\n') {
        if line.starts_with(b"Keep-Alive: ") {
            let (before, rest) = fields.split_at(at);
            return (before, rest.get(line.len()..).unwrap_or_default());
        }
        at += line.len();
    }
    (fields, b"")
}

/// Writes the head of a 200 for whole content, on a connection that goes on.
pub fn head_writer(common: CommonFields) -> HeadWriter {
    let going_on = Ending::GOES_ON.saying(common.persistence).line();
    let of_content = move |out: &mut Vec<u8>, meta: &Meta, date: &HttpDate| {
        let head = start(out, Status::OK, common.server, *date)
            .field("Content-Type", meta.content_type.as_bytes())
            .content_length(meta.size);
        let Some(file) = &meta.file else { return head.lines(going_on).end() };
        head.last_modified(&HttpDate::from_unix(file.modified))
            .field("ETag", file.etag.as_bytes())
            // RFC 9110 §14.3: ranges are served for files.
            .field("Accept-Ranges", b"bytes")
            .lines(going_on)
            .end();
    };
    HeadWriter::new(const { date_at(Status::OK) as u16 }, of_content).with_replies(write_going_on, common)
}

fn write_going_on(out: &mut Vec<u8>, reply: &Reply<'_>, date: &HttpDate, common: CommonFields) {
    write(out, reply, common.server, *date, (Ending::GOES_ON.saying(common.persistence), false));
}
