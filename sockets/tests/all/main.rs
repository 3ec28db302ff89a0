//! The kernel data path over real sockets of this machine, with epoll.
//! `tests/ring` runs the same over io_uring.

mod anything;
mod connecting;
mod ends;
mod files;
mod listening;
mod passing;
mod pressure;
mod resuming;
mod secured;
mod serving;
mod steering;
mod support;
mod timers;
mod unix;

/// What the workers of these tests use.
const ENGINE: sockets::Engine = sockets::Engine::Epoll;

/// They are workers.
const BESIDE: bool = false;
