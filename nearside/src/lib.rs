//! TCP and HTTP services, written once, on either data path: a TCP/IP stack in
//! user space over a link, or kernel sockets.
//!
#![doc = concat!("```no_run\n", include_str!("../examples/first.rs"), "```")]
//!
//! | what | for |
//! | --- | --- |
//! | [`App`], [`Net`] | an application, and what it acts through |
//! | [`Kernel`] | an application on kernel sockets: epoll, io_uring |
//! | `Bypass` | the same application on our own stack, over any link (feature `bypass`) |
//! | [`Service`], [`Http`] | an HTTP/1.1 service: requests in, replies out |
//! | [`query_pairs`], [`percent_decoded`] | what a request's target says |
//! | `ServerTls`, `server_tls` | the same by HTTPS (feature `tls`) |
//! | [`app`], [`silo`], [`sockets`]; `link`, `stack` with `bypass` | the data paths behind them |
//! | [`h1`], [`semantics`], [`wire`] | the protocols |
//! | [`server`] | the web server: files, ranges, several hosts, handlers of one's own |
//! | [`Multiplexed`], [`Io`] | a protocol beside HTTP/1.1 that carries many exchanges ([`server::Server::carrying`]) |
//!
//! # Features
//!
//! | feature | brings |
//! | --- | --- |
//! | `bypass` | our own stack, and the links: `af_packet`, `af_xdp`, `bond`, `dpdk`, `memif`, `steer`, `tap` |
//! | `tls` | HTTPS: [`HttpConfig`]'s `tls`, and `handshake` |
//! | `compress` | [`Reply`]'s `compressed` |
//! | `dpdk` | the distribution's DPDK, for links over it |
//!
//! The first three are on unless `default-features = false` leaves them out.
//!
//! `docs/library.md` is the guide; `examples/` has an echo server and a small
//! HTTP service, each on both data paths.
//!
//! # Threads
//!
//! A [`Kernel`] or [`Bypass`] is one thread and all it owns: make it on the
//! thread that is to run it. Several share nothing; several [`Kernel`]s may
//! listen on one endpoint, each with a queue of its own (SO_REUSEPORT).
//!
//! # Panics
//!
//! Nothing that a peer sends makes this library panic. An application must not
//! either: a panic in one is its own fault, and is not caught, since nobody can
//! say what of its state still holds. It unwinds out of `run`, on its thread. What
//! the thread owned is dropped: over kernel sockets connections end, over a link
//! they fall silent, and the peer's own timers end them. Other threads go on. Whoever wants to
//! start again joins the thread and makes a new application. With
//! `panic = "abort"` the process ends instead.
#![forbid(unsafe_code)]

#[cfg(feature = "bypass")]
mod bypass;
#[cfg(feature = "compress")]
mod compress;
mod decode;
mod error;
mod http;
mod reply;
mod run;
#[cfg(feature = "tls")]
mod tls;

pub use app::{self, App, Body, Closed, ConnId, ConnectError, Net, Opened, Wake};
pub use connections::{self, Io, Multiplexed};
pub use decode::{BadEscape, QueryPair, percent_decoded, query_pairs};
pub use error::RunError;
pub use h1;
pub use http::{Http, HttpConfig, Service};
pub use reply::{BadReply, Reply};
pub use run::{DRAIN, Kernel};
pub use semantics::{self, Method, Request, Status};
pub use server;
pub use silo;
pub use sockets::{self, Endpoint};
pub use wire;

#[cfg(feature = "bypass")]
pub use {
    af_packet, af_xdp, bond,
    bypass::Bypass,
    dpdk, driver, link, memif,
    stack::{self, Address},
    steer, tap,
};
#[cfg(feature = "tls")]
pub use {
    handshake::{self, ServerTls},
    tls::{TlsError, server_tls},
};

#[cfg(all(test, feature = "bypass"))]
mod tests;
