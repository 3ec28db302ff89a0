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
//! | [`Window`], [`Stream`] | a stream and what may be sent on it: for either side |
//! | [`StreamPriority`] | how urgent it is (RFC 9218) |
//! | [`ServerConnection`] | the server's side: what its client sends, and what it answers |
//! | [`HeadMemory`], [`HeadLimits`] | heads of requests, as all protocols have them |
//! | [`BlockWriter`] | heads of answers |
//! | [`UpstreamConnection`] | a proxy's side: questions of many, whose answers are taken as they like |
//! | [`Flood`] | what peers can have us do for little, and how much of that is taken |
#![forbid(unsafe_code)]

mod body;
mod client;
mod connection;
mod control;
mod error;
mod flood;
pub mod frame;
mod head;
mod priority;
mod requests;
mod sending;
mod server;
mod stream;
mod upstream;

pub use client::{Asked, ClientConnection, ClientEvent, ClientSettings, DataPiece};
pub use connection::{Failure, Offer, ServerConnection, ServerEvent, ServerSettings};
pub use error::{ErrorCode, FrameError};
pub use flood::Flood;
pub use head::{HeadFacts, HeadFault, HeadLimits, HeadMemory};
pub use priority::StreamPriority;
pub use sending::BlockWriter;
pub use stream::{FIRST_WINDOW, Stream, WINDOW_MAX, Window};
pub use upstream::{Question, UpstreamConnection, UpstreamFault, UpstreamSettings, UpstreamTold};

#[cfg(test)]
mod tests;
