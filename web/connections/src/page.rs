//! What the log says of a request.

use access_log::Line;
use app::{ConnId, Net};
use semantics::{Known, Request, Status};

/// What the log says of a request.
pub fn line<'a, N: Net + ?Sized>(net: &N, id: ConnId, request: &Request<'a>, status: Status) -> Line<'a> {
    Line {
        peer: net.peer(id),
        request: request.line(),
        status: status.code(),
        referer: request.known(Known::Referer),
        agent: request.known(Known::UserAgent),
    }
}
