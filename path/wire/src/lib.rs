//! Frames and segments: borrowed views, parsed values, checksums.
#![forbid(unsafe_code)]

pub mod offload;
pub mod tcp;
mod time;

pub use offload::Offload;
pub use time::Time;
