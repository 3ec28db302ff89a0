//! What issuers say of a server's certificates (OCSP, RFC 6960), asked for on a thread of its own
//! and shown to clients with the certificates (RFC 6066 section 8): `ssl_stapling`.
//!
//! ```text
//!  a program ── StapleOrder ──► the thread: a name ─► a connection ─► question, answer
//!                                                                         │ verified
//!  handshakes ◄──────────── handshake::Staple, a pointer swapped ◄────────┘
//! ```
//!
//! There is one thread in a process, for all silos and programs. A handshake never waits for it:
//! it shows what is there, or nothing. An order ends with the program that it is of.
//!
//! | module | what is in it |
//! | --- | --- |
//! | `order` | what is asked, of whom, and what came of it |
//! | [`times`] | when it is asked again: pure |
//! | `asking` | a question over HTTP, with a time limit |
//! | `thread` | whose turn it is |
#![forbid(unsafe_code)]

mod asking;
mod order;
mod thread;
pub mod times;

pub use order::{Responder, StapleOrder};
pub use thread::start;
