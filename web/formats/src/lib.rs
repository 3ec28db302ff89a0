//! Texts as nginx has them: bytes in, bytes out, and nothing of who asks or of a configuration.
//!
//! | module | for |
//! | --- | --- |
//! | [`host`] | the host that a request names |
//! | [`pages`] | pages for statuses |
//! | [`ranges`] | ranges of bytes, and the parts of several |
//! | [`markup`], [`text`] | what stands in HTML, in targets and in fields |
//! | [`written`] | numbers, addresses and times, as variables write them |
//! | [`zone`] | the machine's time zone, and times in it |
#![forbid(unsafe_code)]

pub mod host;
pub mod markup;
pub mod pages;
pub mod ranges;
pub mod text;
pub mod written;
pub mod zone;
