//! What HTTP means, whatever carries it: RFC 9110, without I/O.
//!
//! A request is offsets into one head image, `name: value` lines behind a
//! request line ([`Request`]). HTTP/1.1 borrows the image from the frame that it
//! arrived in; a protocol that compresses its heads writes the same image into
//! memory of its own. Known fields, preconditions and ranges are found once
//! for all of them. Framing and persistence are the protocols' own business.
//!
//! | module | for |
//! | --- | --- |
//! | [`request`] | a request's head: [`Request`], [`Known`], [`OwnedRequest`] |
//! | [`authority`] | the host and port that a request is for |
//! | [`conditional`] | `If-*` fields, entity tags (RFC 9110 section 13) |
//! | [`range`] | `Range` (RFC 9110 section 14) |
//! | [`path`] | a target's path, decoded (RFC 3986) |
//! | [`date`] | `Date`, `Last-Modified` and the three date formats |
//! | [`lines`], [`scan`], [`number`] | what fields are made of (RFC 9110 section 5), for engines |
#![forbid(unsafe_code)]

pub mod authority;
pub mod conditional;
pub mod date;
pub mod lines;
pub mod number;
pub mod path;
pub mod range;
pub mod request;
pub mod scan;

mod fields;
mod method;
mod status;

pub use fields::{Field, Fields, Values};
pub use method::Method;
pub use request::{Form, Known, Offsets, OwnedRequest, Request};
pub use status::Status;
