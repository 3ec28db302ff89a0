//! What HTTP/1.1 alone says with a request.

use crate::{Framing, Version};

/// What a request's head says of its message and of its connection: what
/// other protocols say in other ways.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Transfer {
    /// Bytes of a body that is not chunked.
    pub(super) length: u64,
    pub(super) version: Version,
    pub(super) chunked: bool,
    pub(super) keep_alive: bool,
    pub(super) expect_continue: bool,
    pub(super) bad_host: bool,
}

impl Transfer {
    /// Where parsing begins.
    pub(super) const NONE: Self = Self {
        length: 0,
        version: Version::Http11,
        chunked: false,
        keep_alive: true,
        expect_continue: false,
        bad_host: false,
    };

    /// The version.
    #[inline]
    #[must_use]
    pub const fn version(&self) -> Version {
        self.version
    }

    /// Whether the connection goes on after the response (RFC 9112
    /// section 9.3). Where false, the response should carry
    /// `Connection: close`.
    #[inline]
    #[must_use]
    pub const fn keep_alive(&self) -> bool {
        self.keep_alive
    }

    /// Whether the client waits for `100 Continue` before it sends the body
    /// (RFC 9110 section 10.1.1).
    #[inline]
    #[must_use]
    pub const fn expect_continue(&self) -> bool {
        self.expect_continue
    }

    /// Whether and how a body follows; never `UntilClose`.
    #[inline]
    #[must_use]
    pub const fn framing(&self) -> Framing {
        match (self.chunked, self.length) {
            (true, _) => Framing::Chunked,
            (false, 0) => Framing::None,
            (false, length) => Framing::Length(length),
        }
    }
}
