//! Names of hosts, resolved while requests wait: a DNS client on a thread of its own
//! (RFC 1034, RFC 1035, RFC 2308, RFC 2782).
//!
//! ```text
//!  silo ── ask(ticket, name) ──► Resolver ─ring─► the thread: Lookups, which decide,
//!       ◄─ take ─ addresses ──           ◄─ring─  and sockets, which carry
//! ```
//!
//! | module | what is in it |
//! | --- | --- |
//! | [`message`] | questions, and what an answer says to one: pure |
//! | [`lookups`] | what is known and what is under way, without I/O or a clock |
//! | the thread | a socket for each question, each with a port of its own |
#![forbid(unsafe_code)]

mod asking;
pub mod lookups;
pub mod message;
mod rings;
mod thread;

pub use asking::{Resolver, ResolverBusy};
pub use lookups::{Addresses, NameAnswer, Resolution, ResolveError, ResolverRules, ServiceAddress};
