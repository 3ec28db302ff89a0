//! The socket calls of POSIX and Linux over our own stack.
//!
//! A program that calls `recv`, `writev` and `epoll_wait` gets what it would get of Linux:
//! results, readiness and `errno` are its own, named in the code by the function of Linux that
//! they are from. Here are no descriptors of the system, no threads and no clock: whoever
//! offers the calls gives numbers as descriptors, and takes turns of the silo.
//!
//! ```text
//! the program ─► Calls ─► SocketTable ◄─ App ─ silo ─► stack
//!                  └───────────────────────────────────►┘
//! ```
//!
//! What comes is copied into an inbox of at most [`INBOX`] bytes as it arrives, so that the
//! stack holds nothing of a connection that a program reads at leisure, and keeps its short
//! ways; beyond that it stays with the stack, which closes the window. What is written is copied
//! once into the send queue, for programs use their buffers again at once, and leaves in the
//! next turn.
#![forbid(unsafe_code)]

mod buffers;
mod calls;
mod errno;
mod info;
mod looks;
mod moved;
mod options;
mod slab;
mod socket;
mod table;
mod watches;

pub use buffers::{Gather, Scatter};
pub use calls::{Adopted, Calls, MOST_BYTES, has_no_level};
pub use errno::{Attempt, Errno, Result};
pub use moved::{Bequest, MovedConnection};
pub use socket::INBOX;
pub use table::{Defaults, Ledger, SocketFigures, SocketTable};
