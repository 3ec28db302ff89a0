//! The kernel data path over real sockets of this machine.

mod serving;
mod support;
