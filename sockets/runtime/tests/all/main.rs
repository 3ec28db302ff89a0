//! The kernel data path over real sockets of this machine.

mod serving;
mod steering;
mod support;
