//! Frames and segments: borrowed views, parsed values, checksums.
#![forbid(unsafe_code)]

pub mod offload;
mod time;

pub use offload::Offload;
pub use time::Time;
