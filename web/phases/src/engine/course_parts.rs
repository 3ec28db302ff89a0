//! Parts of what is known of a request.

use exchange::ClientSession;
use std::sync::Arc;

/// Whether a target is another than was sent.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Rewritten {
    /// It is.
    pub ever: bool,
    /// The location's prefix is no part of it.
    pub here: bool,
}

/// How a request's connection is secured, and what follows from that.
#[derive(Debug, Default)]
pub(crate) struct SecuredCourse {
    /// What its handshake came to.
    pub session: Option<Arc<ClientSession>>,
    /// What the request is answered with because of that, though what it says is believed.
    pub fault: Option<u16>,
}
