//! HTTP/2 (RFC 9113) without I/O: frames, and what they mean to a connection and its streams.
//!
//! Bytes are borrowed, time is an argument, and what is to be sent is written where the caller
//! says. Fields are compressed by [`hpack`].
//!
//! | module | for |
//! | --- | --- |
//! | [`frame`] | frames, read and written: for either side |
//! | [`ClientConnection`] | the client's side: requests out, answers in |
//! | [`ErrorCode`], [`FrameError`] | what ends streams and connections |
#![forbid(unsafe_code)]

mod client;
mod error;
pub mod frame;

pub use client::{Asked, ClientConnection, ClientEvent, ClientSettings, DataPiece};
pub use error::{ErrorCode, FrameError};
