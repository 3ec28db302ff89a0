//! Programs that were not made for it, on our own stack: a library that is preloaded.
//!
//! The dynamic linker takes the socket calls of such a program from here. What concerns a
//! connection over our link goes to [`posix`]; everything else goes to the kernel, as it came.
//!
//! ```text
//! the program ─► opening, data, watching ─► worker ─► posix ─► silo, stack
//!                      │                      ├──► sharing ─► other workers, the link
//!                      │                      └──► seats ─► the keeper (nearside run)
//!                      └──► kernel: what is not ours
//! ```
//!
//! - A **listener** is a socket of the kernel, which listens there too: so nobody else gets its
//!   port, and it is told as what it is after fork(2) and execve(2). The keeper resets what
//!   connects to it from the kernel's side.
//! - A process that watches a listener, accepts or connects is a **worker**: it gets a seat at the
//!   link from the keeper, beside those of others, and has stack and timers in its own thread. A
//!   process that only listens, such as nginx's master, never does.
//! - A **connection's descriptor** is one of the kernel's that nothing can be done with (`O_PATH`):
//!   its number is nobody else's.
//! - A child that fork(2) makes of a worker owns nothing of it but listeners.
//! - A worker that **ends** leaves what its peers have not taken to a child of its own. One that is
//!   killed is seen by the keeper, and its peers are reset.
//!
//! One thread of a process, the one that took the seat, has the connections; calls of others on
//! them fail with `EOPNOTSUPP`, and the operator is told. They may close what they cannot use, and send
//! files: they read, and the worker sends what they have read. While it
//! is in no call of ours, the **deputy**, a thread of this library's, takes the stack's turns.

#[cfg(not(all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64"))))]
compile_error!("`fcntl` and `ioctl` rely on how x86-64 and AArch64 Linux pass variadic arguments");

mod address;
mod afar;
mod any_link;
mod checked;
mod controls;
mod data;
mod deputy;
mod descriptors;
mod ending;
mod executing;
mod figures;
mod files;
mod flushing;
mod given;
mod inherited;
mod kernel;
mod listeners;
mod many;
mod marks;
mod memory;
mod next;
mod opening;
mod place;
mod placeholders;
mod places;
mod printing;
mod process;
mod refusals;
mod resting;
mod rights;
mod selecting;
mod signals;
mod streams;
mod waited;
mod watches;
mod watching;
mod worker;
