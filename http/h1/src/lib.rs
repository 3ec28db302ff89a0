//! HTTP/1.1, both ends, without I/O: RFC 9112.
//!
//! An engine is told what bytes are there and answers what they mean; it never
//! buffers, allocates or waits. Unconsumed bytes are offered again by the
//! caller, contiguous with what follows, so a message head is always parsed
//! where it lies, and everything an event holds borrows from the caller's
//! bytes.
//!
//! | module | for |
//! | --- | --- |
//! | [`server`] | requests in: [`server::RequestReader`], limits, timeouts |
//! | [`response`] | response heads out, chunked bodies out |
//! | [`client`] | requests out, responses in: [`client::ResponseReader`] |
//!
//! What a request means is in the crate `semantics`; here is how it is sent.
//!
//! What it costs, in instructions on x86-64, caller's loop included
//! (`examples/instructions.rs` under callgrind):
//!
//! | what | bytes | instructions |
//! | --- | --- | --- |
//! | the smallest HTTP/1.1 request | 44 | 328 |
//! | curl's request | 82 | 540 |
//! | a browser's request, ten fields | 386 | 2,469 |
//! | a response of seven fields, counted, head as the last one's | 224 | 150 |
//! | the same, parsed | 224 | 1,869 |
#![forbid(unsafe_code)]

pub mod client;
pub mod response;
pub mod server;

mod chunked;
mod lines;
pub use lines::canonical;
mod refused;
pub use refused::RefusedHead;

#[cfg(test)]
mod random;

/// A protocol version. Any other major version is refused with 505
/// (RFC 9110 section 15.6.6).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Version {
    /// HTTP/1.0: not persistent unless asked for.
    Http10,
    /// HTTP/1.1, and HTTP/1.x with x above 1, which is handled as HTTP/1.1
    /// (RFC 9110 section 2.5).
    Http11,
}

/// How the end of a message body is found (RFC 9112 section 6.3).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Framing {
    /// There is no body, or an empty one: no body events follow.
    None,
    /// Exactly this many bytes, at least one.
    Length(u64),
    /// Chunks until the last one (RFC 9112 section 7.1).
    Chunked,
    /// Everything until the connection ends: responses only.
    UntilClose,
}
