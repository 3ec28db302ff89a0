//! Reads of files, many at a time (io_uring(7)): one that a disk takes long for holds up neither
//! those behind it nor what else their thread does.
//!
//! ```text
//!  thread                              kernel
//!  start(ticket, file, ...) ──► ring ──► page cache, disk, file server
//!  wait() ◄── done, or woken ◄──┘
//!  take() ─► ticket, buffer, how it went
//! ```
//!
//! A ring does what no filter of system calls sees. So it is restricted before anybody reads by it
//! (IORING_REGISTER_RESTRICTIONS, Linux 5.10): it reads, and waits for what wakes its thread;
//! it opens, writes, sends and connects nothing, whoever fills its queue.
#![deny(unsafe_code)]

#[allow(unsafe_code, reason = "buffers are the kernel's while it reads into them")]
mod reads;
mod waker;

pub use reads::{ReadDone, ReadRange, Reads};
pub use waker::Waker;
