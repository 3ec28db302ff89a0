//! TCP and HTTP services, written once, on either data path: a TCP/IP stack in
//! user space over a link, or kernel sockets.
//!
//! ```no_run
//! use nearside::{App, ConnId, Kernel, Net};
//! use std::sync::atomic::AtomicBool;
//!
//! struct Echo;
//!
//! impl App for Echo {
//!     fn on_data<N: Net>(&mut self, net: &mut N, id: ConnId, data: &[u8]) -> usize {
//!         net.send_bytes(id, data);
//!         data.len()
//!     }
//! }
//!
//! static STOP: AtomicBool = AtomicBool::new(false);
//! let echo = Kernel::listen(&["127.0.0.1:7007".parse()?], Echo)?;
//! echo.run(&STOP)?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! | what | for |
//! | --- | --- |
//! | [`App`], [`Net`] | an application, and what it acts through |
//! | [`Kernel`] | an application on kernel sockets: epoll, io_uring |
//! | [`Bypass`] | the same application on our own stack, over any [`link::Link`] |
//! | [`Service`], [`Http`] | an HTTP/1.1 service: requests in, replies out |
//! | [`app`], [`link`], [`stack`], [`silo`], [`sockets`] | the data paths behind them |
//! | [`h1`], [`semantics`], [`wire`] | the protocols |
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

mod error;
mod http;
mod run;

pub use app::{self, App, Body, Closed, ConnId, ConnectError, Net, Opened, Wake};
pub use error::RunError;
pub use h1;
pub use http::{BadField, Http, Reply, Service};
pub use link;
pub use run::{Bypass, DRAIN, Kernel};
pub use semantics::{self, Request, Status};
pub use silo;
pub use sockets::{self, Endpoint};
pub use stack::{self, Address};
pub use wire;

#[cfg(test)]
mod tests;
