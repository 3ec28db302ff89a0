//! What a ready answer may depend on.

use core::net::SocketAddr;

/// A plain request, as far as a ready answer may depend on it: it is looked at
/// where it lies, as little of it as an answer takes.
pub trait Asked {
    /// The path as sent, without query.
    fn path(&self) -> &[u8];

    /// Whether the client speaks HTTP/1.0.
    fn is_http10(&self) -> bool;

    /// Whether there is a query.
    fn has_query(&self) -> bool;

    /// The host and port asked for.
    fn authority(&self) -> &[u8];

    /// The field of this name, in lower case, if it is there.
    fn field(&self, name: &[u8]) -> Option<&[u8]>;

    /// The address that the client connected to.
    fn local(&self) -> Option<SocketAddr>;
}
