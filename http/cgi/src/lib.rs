//! FastCGI, uwsgi and SCGI, the side that asks, without I/O.
//!
//! ```text
//!  Params ─► fastcgi::begin   records ─► … ─► fastcgi::RecordReader ─► stdout ─┐
//!         ─► uwsgi::packet                                                   ▼
//!         ─► scgi::netstring            the answer as it is ───────► HeadReader ─► Head, body
//! ```
//!
//! | module | what it writes and reads |
//! | --- | --- |
//! | [`fastcgi`] | records of a request; records of an answer |
//! | [`uwsgi`] | the packet before a request's body |
//! | [`scgi`] | the netstring before a request's body |
//! | [`head`] | what all three answer with: a CGI head (RFC 3875 section 6) |
//! | [`answer`] | the whole answer: its head, its body, its end |
//!
//! What is read may come in any pieces, and may be anything: an answer is taken or
//! refused, and nothing grows beyond a limit that the caller gives.
#![forbid(unsafe_code)]

pub mod answer;
pub mod fastcgi;
pub mod head;
mod params;
pub mod scgi;
#[cfg(test)]
mod tests;
pub mod uwsgi;

pub use params::{PARAMS_MAX, ParamError, Params};
