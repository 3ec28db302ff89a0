//! The heads of responses, as HTTP/1.1 has them. A field that every response is
//! to have is written here.

use exchange::{Ending, HeadWriter, Meta, Reply};
use h1::response::ResponseHead;
use semantics::Status;
use semantics::date::HttpDate;

/// The product token of the `Server` field (RFC 9110 §10.2.4).
const PRODUCT: &[u8] = b"nearside";

/// Starts a head with the fields that every response carries.
fn start(out: &mut Vec<u8>, status: Status, server_header: bool, date: HttpDate) -> ResponseHead<'_, Vec<u8>> {
    let head = ResponseHead::new(out, status).date(&date);
    if server_header { head.field("Server", PRODUCT) } else { head }
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
pub fn write(
    out: &mut Vec<u8>,
    reply: &Reply<'_>,
    server_header: bool,
    date: HttpDate,
    (ending, chunked): (Ending, bool),
) {
    let head = start(out, reply.status, server_header, date).lines(reply.fields);
    let head = match reply.length {
        Some(length) => head.content_length(length),
        None if chunked => head.chunked(),
        None => head,
    };
    head.lines(ending.line()).end();
}

/// Writes the head of a 200 for whole content, without `Connection`.
pub fn writer(server_header: bool) -> HeadWriter {
    let of_content = move |out: &mut Vec<u8>, meta: &Meta, date: &HttpDate| {
        let head = start(out, Status::OK, server_header, *date)
            .field("Content-Type", meta.content_type.as_bytes())
            .content_length(meta.size);
        let Some(file) = &meta.file else { return head.end() };
        head.last_modified(&HttpDate::from_unix(file.modified))
            .field("ETag", file.etag.as_bytes())
            // RFC 9110 §14.3: ranges are served for files.
            .field("Accept-Ranges", b"bytes")
            .end();
    };
    HeadWriter::new(const { date_at(Status::OK) as u16 }, of_content).with_replies(write_going_on, server_header)
}

fn write_going_on(out: &mut Vec<u8>, reply: &Reply<'_>, date: &HttpDate, server_header: bool) {
    write(out, reply, server_header, *date, (Ending::GOES_ON, false));
}
