//! What a plan asks of HTTP/2.

use super::{Plan, PlanError, TIMEOUTS};
use crate::grpc::Grpc;
use core::time::Duration;
use serde::Serialize;

/// Requests that may be under way on one connection over HTTP/2.
pub const CONCURRENT_LIMIT: u16 = 250;

/// How HTTP/2 is spoken; the defaults are h2load's.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
pub struct Http2 {
    /// Bytes of an answer that its server may send ahead, for each stream. Default 2^30 - 1: no
    /// answer waits for us.
    pub stream_window: u32,
    /// The same for a connection; at least 65,535. Default 2^30 - 1.
    pub connection_window: u32,
    /// Bytes of the table that the server may keep of its answers' fields, which costs as much
    /// memory for each connection here. Default 4,096.
    pub decoder_table: u32,
    /// Bytes of the table that is kept of requests' fields, if the server allows that. Default
    /// 4,096; 0 has each request say all of its fields.
    pub encoder_table: u32,
    /// Requests are calls of gRPC. Default: they are not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub grpc: Option<Grpc>,
}

impl Default for Http2 {
    fn default() -> Self {
        let h2::ClientSettings { stream_window, connection_window, decoder_table, encoder_table, .. } =
            h2::ClientSettings::default();
        Self { stream_window, connection_window, decoder_table, encoder_table, grpc: None }
    }
}

/// Fields that HTTP/2 does not have (RFC 9113 section 8.2.2), beside those that are ours.
const FORBIDDEN: [&str; 3] = ["keep-alive", "proxy-connection", "upgrade"];

/// Whether HTTP/2 does not have a field: TE it has, to say that trailers are taken, and nothing else.
fn is_forbidden((name, value): &(String, String)) -> bool {
    FORBIDDEN.iter().any(|known| name.eq_ignore_ascii_case(known))
        || name.eq_ignore_ascii_case("te") && value.trim() != "trailers"
}

impl Plan {
    /// How gRPC is spoken, if it is.
    pub(crate) fn grpc(&self) -> Option<Grpc> {
        self.http2.and_then(|http2| http2.grpc)
    }

    /// How long a request is waited for on a connection: until it times out, or until its own
    /// deadline.
    pub(crate) fn patience(&self) -> Duration {
        let deadline = self.grpc().and_then(|grpc| grpc.deadline);
        deadline.map_or(self.timeout, |deadline| deadline.min(self.timeout))
    }

    /// Whether it can be run over HTTP/2, if that is asked for: with so many connections `active`, whether requests
    /// go `early`, whether answers are `read`, and whether the server `closes`.
    pub(super) fn check_http2(&self, active: u32, [early, read, closes]: [bool; 3]) -> Result<(), PlanError> {
        let Some(Http2 { grpc, .. }) = self.http2 else { return Ok(()) };
        let deadline = grpc.and_then(|grpc| grpc.deadline);
        let rules = [
            (
                !(1..=CONCURRENT_LIMIT).contains(&self.pipeline),
                "there must be between 1 and 250 streams on a connection",
            ),
            (
                self.follow > 0 || self.cookies || read,
                "templates, cookies, redirects and checks of fields and content are for HTTP/1.1",
            ),
            (self.held, "a load that waits for its start is one of HTTP/1.1"),
            (closes, "over HTTP/2 servers are not asked to close: the client closes"),
            (active < self.connections, "over HTTP/2 all connections are active"),
            (
                grpc.is_some() && self.requests.iter().any(|one| one.item.method != "POST"),
                "a call of gRPC is a POST (its message is the content)",
            ),
            (
                grpc.is_some() && self.requests.iter().any(|one| one.item.has_field("grpc-timeout")),
                "the deadline of gRPC calls is a setting, not a header",
            ),
            (
                deadline.is_some_and(|deadline| !TIMEOUTS.contains(&deadline)),
                "the deadline must be between 1 ms and 1,000 s",
            ),
            (early || self.parts, "early data, and the forms of ab, are for HTTP/1.1"),
            (
                self.requests.iter().any(|one| one.item.headers.iter().any(is_forbidden)),
                "HTTP/2 has no Keep-Alive, Proxy-Connection or Upgrade, and TE for trailers alone",
            ),
        ];
        rules.into_iter().find(|(broken, _)| *broken).map_or(Ok(()), |(_, reason)| Err(PlanError(reason)))
    }
}
