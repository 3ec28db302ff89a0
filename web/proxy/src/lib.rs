//! What becomes of a request on its way to an upstream, and of the answer on its way
//! back: targets, fields, redirects, cookies. Pure: bytes in, bytes out.
//!
//! | module | for |
//! | --- | --- |
//! | [`url`] | `http://host:port/uri`, `http://unix:/path:/uri` |
//! | [`target`] | what is asked for there |
//! | [`fields`] | names of fields, and which are of one connection alone |
//! | [`rewrite`] | redirects and cookies that name the upstream |
//! | [`next`] | when another server is asked instead |
//! | [`accel`] | what an upstream may ask of us |
//! | [`slices`] | parts of a long answer |
#![forbid(unsafe_code)]

pub mod accel;
pub mod fields;
pub mod next;
pub mod rewrite;
pub mod slices;
pub mod target;
pub mod url;
