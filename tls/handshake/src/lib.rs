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
//! All of that is behind the feature `tls`, which is on unless it is left out: without it
//! there are the same names without values (`absent.rs`), [`hello`] and [`Effort`], and no rustls
//! is built.
#![forbid(unsafe_code)]

#[cfg(not(feature = "tls"))]
mod absent;
#[cfg(feature = "tls")]
mod acceptor;
#[cfg(feature = "tls")]
mod captured;
#[cfg(feature = "tls")]
mod client;
#[cfg(feature = "tls")]
mod clients;
#[cfg(feature = "tls")]
mod compressed;
#[cfg(feature = "tls")]
mod connector;
#[cfg(feature = "tls")]
mod demand;
#[cfg(feature = "tls")]
mod early;
mod effort;
#[cfg(feature = "tls")]
mod failure;
pub mod hello;
#[cfg(feature = "tls")]
mod layer;
#[cfg(feature = "tls")]
mod odd;
#[cfg(feature = "tls")]
mod peers;
#[cfg(feature = "tls")]
mod random;
#[cfg(feature = "tls")]
mod resolver;
#[cfg(feature = "tls")]
mod secured;
#[cfg(feature = "tls")]
mod server;
#[cfg(feature = "tls")]
mod sessions;
#[cfg(feature = "tls")]
mod shown;
#[cfg(feature = "tls")]
mod staple;
#[cfg(feature = "tls")]
mod suites;
#[cfg(feature = "tls")]
mod tickets;

#[cfg(not(feature = "tls"))]
pub use absent::{
    Acceptor, ClientTls, ConnectOutcome, ConnectStep, Connected, Connector, Demand, Failure, Outcome, Secured,
    ServerSession, ServerTls, Session, Sought, Step,
};
#[cfg(feature = "tls")]
pub use acceptor::{Acceptor, Outcome, Step};
#[cfg(feature = "tls")]
pub use client::{ClientError, ClientRules, ClientTls, OwnCertificate, ServerVerdict, Servers};
#[cfg(feature = "tls")]
pub use clients::{ClientMode, ClientVerdict, Clients};
#[cfg(feature = "tls")]
pub use compressed::CertificateBrotli;
#[cfg(feature = "tls")]
pub use connector::{ConnectOutcome, ConnectStep, Connected, Connector, EarlySent, ServerSession, Sought};
#[cfg(feature = "tls")]
pub use demand::{CertificateFiles, CertificateSource, Demand, OwnCertificateSource, OwnDemand};
pub use effort::Effort;
#[cfg(feature = "tls")]
pub use failure::Failure;
pub use hello::{First, HELLO_MAX, Hello, HelloError, OddName};
#[cfg(feature = "tls")]
pub use secured::{Cipher, Direction, Secured, Session, SuiteHash, Version};
#[cfg(feature = "tls")]
pub use server::{Identity, ServerError, ServerRules, ServerTls};
#[cfg(feature = "tls")]
pub use sessions::SessionCache;
#[cfg(feature = "tls")]
pub use staple::Staple;
#[cfg(feature = "tls")]
pub use suites::{Groups, GroupsError, Suites, SuitesError, group_name_of, suite_name_of};
#[cfg(feature = "tls")]
pub use tickets::{TicketKeyLength, TicketKeys};
