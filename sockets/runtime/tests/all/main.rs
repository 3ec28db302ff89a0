//! The kernel data path over real sockets of this machine.

mod connecting;
mod ends;
mod files;
mod listening;
mod pressure;
mod serving;
mod steering;
mod support;
mod timers;
mod unix;
