//! TLS handshakes, without I/O: bytes in, bytes out, and at the end
//! what the records that follow are sealed with.
//!
//! ```text
//! first bytes ─► hello::first ─► a server is chosen by the name ─► Acceptor ─► Secured
//!                                                                   ▲   │
//!                                        records of the client ─────┘   └─► ours
//! ```
//!
//! rustls does the handshakes, by AWS-LC, and nothing of it is seen outside of this crate:
//! what comes of one is a [`seal::Layer`] ([`Secured::into_layer`]).
//! It is given one record at a time, so that no record behind the last of the handshake is
//! opened by it: those are the record layer's.
//!
//! | module | for |
//! | --- | --- |
//! | [`hello`] | what a client says first |
//! | [`ServerTls`] | what a server says and does |
//! | [`Acceptor`] | one handshake |
//! | [`ClientTls`], [`Connector`] | the same of who connects |
//! | [`Secured`], [`Session`] | what it comes to |
//! | [`TicketKeys`], [`SessionCache`] | sessions that go on |
//! | [`Suites`], [`Groups`] | by the names that OpenSSL has |
#![forbid(unsafe_code)]

mod acceptor;
mod captured;
mod client;
mod clients;
mod compressed;
mod connector;
mod demand;
mod early;
mod effort;
mod failure;
pub mod hello;
mod layer;
mod odd;
mod peers;
mod resolver;
mod secured;
mod server;
mod sessions;
mod shown;
mod staple;
mod suites;
mod tickets;

pub use acceptor::{Acceptor, Outcome, Step};
pub use client::{ClientError, ClientRules, ClientTls, OwnCertificate, ServerVerdict, Servers};
pub use clients::{ClientMode, ClientVerdict, Clients};
pub use connector::{ConnectOutcome, ConnectStep, Connected, Connector, EarlySent, ServerSession, Sought};
pub use demand::{CertificateFiles, CertificateSource, Demand, OwnCertificateSource, OwnDemand};
pub use effort::Effort;
pub use failure::Failure;
pub use hello::{First, HELLO_MAX, Hello, HelloError, OddName};
pub use secured::{Cipher, Direction, Secured, Session, SuiteHash, Version};
pub use server::{Identity, ServerError, ServerRules, ServerTls};
pub use sessions::SessionCache;
pub use staple::Staple;
pub use suites::{Groups, GroupsError, Suites, SuitesError, group_name_of, suite_name_of};
pub use tickets::{TicketKeyLength, TicketKeys};
