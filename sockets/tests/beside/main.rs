//! Kernel sockets beside a silo's own connections: the tests of `tests/all`, which
//! must not tell the difference, and those of both at once.

#[path = "../all/anything.rs"]
mod anything;
mod both;
mod by_destination;
#[path = "../all/ends.rs"]
mod ends;
#[path = "../all/files.rs"]
mod files;
#[path = "../all/passing.rs"]
mod passing;
#[path = "../all/pressure.rs"]
mod pressure;
mod relay;
#[path = "../all/secured.rs"]
mod secured;
#[expect(dead_code, reason = "the workers' tests that are not run here use the rest")]
#[path = "../all/support/mod.rs"]
mod support;
#[path = "../all/timers.rs"]
mod timers;
#[path = "../all/unix.rs"]
mod unix;

/// There is no other.
const ENGINE: sockets::Engine = sockets::Engine::Epoll;

/// Nothing here is a worker.
const BESIDE: bool = true;
