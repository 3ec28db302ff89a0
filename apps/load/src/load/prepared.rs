//! Requests as HTTP/2 has them.

use crate::grpc::{self, Grpc};
use crate::heads::{UserAgent, choose, number};
use crate::plan::{Plan, Request};
use app::{Body, ConnId};
use h2::Asked;
use hpack::{HeaderField, Indexing};

/// Fields that are not kept in tables, as their values seldom come again: those that nghttp2 and
/// browsers leave out.
const NOT_INDEXED: [&str; 7] =
    [":path", "age", "content-length", "etag", "if-modified-since", "if-none-match", "location"];

/// A request that was taken apart.
#[derive(Debug)]
pub(crate) struct Prepared {
    fields: Vec<(String, Vec<u8>)>,
    pub content: Body,
    is_head: bool,
}

/// Fields that each connection has of its own, where heads differ.
#[derive(Debug)]
pub(crate) struct OwnFields {
    agents: Vec<UserAgent>,
    seed: u64,
}

impl OwnFields {
    pub fn new(plan: &Plan) -> Self {
        let requests = plan.requests.iter();
        let named: Vec<&str> =
            requests.flat_map(|request| request.item.headers.iter().map(|(name, _)| name.as_str())).collect();
        // As where heads of HTTP/1.1 differ.
        Self { agents: UserAgent::all(plan.heads, &named), seed: plan.seed ^ 0x6865_6164_7300_0000 }
    }

    /// A connection's.
    pub fn of(&self, id: ConnId) -> Vec<(String, Vec<u8>)> {
        let number = number(self.seed, id);
        let Some(agent) = choose(&self.agents, number) else { return Vec::new() };
        let mut lines = Vec::new();
        agent.write(number, &mut lines);
        fields_of(&lines)
    }
}

impl Prepared {
    /// The plan's requests.
    pub fn all(plan: &Plan) -> Vec<Self> {
        let scheme = if plan.secured.is_some() { "https" } else { "http" };
        plan.requests.iter().map(|request| Self::new(&request.item, scheme, plan.grpc())).collect()
    }

    /// What the engine is told of it, as the request of this number.
    #[inline]
    pub fn asked(&self, number: u16) -> Asked {
        Asked { number: number.into(), content: self.content.len().into(), is_head: self.is_head }
    }

    /// Its fields, and the connection's own.
    #[inline]
    pub fn fields<'a>(
        &'a self,
        own: &'a [(String, Vec<u8>)],
    ) -> impl Iterator<Item = (HeaderField<'a>, Indexing)> + 'a {
        self.fields.iter().chain(own).map(|(name, value)| {
            (HeaderField { name: name.as_bytes(), value, sensitive: name == "authorization" }, indexing(name))
        })
    }

    fn new(request: &Request, scheme: &str, grpc: Option<Grpc>) -> Self {
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
fn fields_of(lines: &[u8]) -> Vec<(String, Vec<u8>)> {
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
fn indexing(name: &str) -> Indexing {
    if NOT_INDEXED.contains(&name) { Indexing::Without } else { Indexing::Incremental }
}
