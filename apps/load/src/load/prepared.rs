//! Requests as HTTP/2 has them.

use crate::grpc::{self, Grpc};
use crate::plan::Request;
use app::Body;
use hpack::Indexing;

/// Fields that are not kept in tables, as their values seldom come again: those that nghttp2 and
/// browsers leave out.
const NOT_INDEXED: [&str; 7] =
    [":path", "age", "content-length", "etag", "if-modified-since", "if-none-match", "location"];

/// A request that was taken apart.
#[derive(Debug)]
pub(super) struct Prepared {
    pub fields: Vec<(String, Vec<u8>)>,
    pub content: Body,
    pub is_head: bool,
}

impl Prepared {
    pub fn new(request: &Request, scheme: &str, grpc: Option<Grpc>) -> Self {
        let text = |name: &str, value: &str| (name.to_owned(), value.as_bytes().to_vec());
        let mut fields = vec![
            text(":method", &request.method),
            text(":scheme", scheme),
            text(":authority", &request.host),
            text(":path", &request.path),
        ];
        if let Some(Grpc { deadline }) = grpc {
            if !request.has_field("te") {
                fields.push(text("te", "trailers"));
            }
            fields.extend(deadline.map(|deadline| text("grpc-timeout", &grpc::timeout(deadline))));
            if !request.has_field("content-type") {
                fields.push(text("content-type", "application/grpc"));
            }
        }
        fields.extend(request.headers.iter().map(|(name, value)| text(&name.to_ascii_lowercase(), value)));
        if grpc.is_some() {
            let content = Body::new(grpc::framed(&request.body));
            return Self { fields, content, is_head: false };
        }
        if !request.body.is_empty() {
            fields.push(text("content-length", &request.body.len().to_string()));
        }
        Self { fields, content: Body::new(request.body.clone()), is_head: request.is_head() }
    }
}

/// The fields of lines of HTTP/1.1, as HTTP/2 has them: names in lower case (RFC 9113 section
/// 8.2), cookies each by itself (section 8.2.3).
pub(super) fn fields_of(lines: &[u8]) -> Vec<(String, Vec<u8>)> {
    let lines = String::from_utf8_lossy(lines);
    let pairs = lines.split("\r\n").filter_map(|line| line.split_once(": "));
    let mut fields = Vec::new();
    for (name, value) in pairs {
        let name = name.to_ascii_lowercase();
        let crumbs = if name == "cookie" { "; " } else { "\0" };
        fields.extend(value.split(crumbs).map(|value| (name.clone(), value.as_bytes().to_vec())));
    }
    fields
}

/// Whether a field is kept in tables.
pub(super) fn indexing(name: &str) -> Indexing {
    if NOT_INDEXED.contains(&name) { Indexing::Without } else { Indexing::Incremental }
}
