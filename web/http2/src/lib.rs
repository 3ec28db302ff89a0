//! HTTP/2: from a connection's bytes to exchanges with a handler, and back.
//!
//! What frames mean to a connection and its streams is [`h2`]'s; what handlers answer waits with
//! the exchange. This room chooses what is sent next, and when: heads at once, bodies by the
//! priorities of their streams (RFC 9218), no more than the connection takes.
//!
//! | module | for |
//! | --- | --- |
//! | [`begin`] | what a connection begins with |
//! | `protocol` | what its client sends |
//! | `sending` | what is sent, in which order |
//! | `heads` | heads of answers |
//! | `scratch` | memory of one call, for all connections of a thread |
#![forbid(unsafe_code)]

mod heads;
mod protocol;
mod scratch;
mod sending;

pub use h2::frame::PREFACE;
pub use protocol::begin;

/// What clients ask for it by (RFC 9113 section 3.2).
pub const NAME: &[u8] = b"h2";
