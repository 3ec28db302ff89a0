//! What the interop tests stand on: a network namespace for each test, the
//! real program as a child process, and other people's programs beside it.
//!
//! Every test runs on a thread in a network namespace of its own, and what it
//! starts is in that namespace too. So tests may use the same names and
//! addresses at the same time, and nothing is left behind: the namespace and
//! its devices end with the last process in it.

pub mod cable;
pub mod fuse;
mod keep_alive;
mod namespace;
mod program;
mod raised;
mod site;
pub mod testpmd;
pub mod veth;

pub use keep_alive::ask;
pub use namespace::{Program, in_namespace, ip, leave_out, wait_for};
pub use program::{Nearside, Running, has_libdpdk, output};
pub use raised::Raised;
pub use site::{SITE_LARGE, SITE_SMALL, copy_program, scratch, scratch_of, sha256, site};

/// The kernel's side of the TAP, which the program sets up itself.
pub const TAP: &str = "tap:near0,addr=10.9.0.1/24,addr=fd09::1/64";
/// The kernel's addresses.
pub const KERNEL: [&str; 2] = ["10.9.0.1", "[fd09::1]"];
/// Our stack's addresses, as URLs write them.
pub const STACK: [&str; 2] = ["10.9.0.2", "[fd09::2]"];
/// Our stack's addresses, as the command line takes them.
pub const ADDRESSES: [&str; 4] = ["--addr", "10.9.0.2/24", "--addr", "fd09::2/64"];
