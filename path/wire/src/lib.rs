//! Frames and segments: borrowed views, parsed values, checksums.
//!
//! `parse` takes borrowed bytes and returns a small value and the borrowed
//! payload; every length and checksum that the protocol carries is verified on
//! the way. `emit` writes a value into a borrowed slot and returns the bytes
//! written: nothing is written, and 0 returned, where the slot is too short.
//! No input reaches a panic.
#![forbid(unsafe_code)]

pub mod arp;
pub mod checksum;
mod error;
pub mod ethernet;
pub mod first_piece;
pub mod icmpv4;
pub mod icmpv6;
pub mod ipv4;
pub mod ipv6;
pub mod lacp;
pub mod offload;
mod original;
pub mod plain;
pub mod protocol;
pub mod tcp;
mod time;
pub mod udp;
mod unfinished;

pub use checksum::{LinkVouched, Sum, Verified};
pub use error::WireError;
pub use ethernet::Mac;
pub use offload::Offload;
pub use original::Original;
pub use time::Time;
pub use unfinished::lacks_checksum;
