//! A forwarder between two links, or back to the one: the modes of testpmd,
//! and its statistics.
//!
//! A frame is read where the driver put it, and written once, into a slot of
//! the other link: there are no packet buffers in between. What finds the
//! other ring full is dropped and counted, as by a NIC.

mod counts;
mod engine;
mod flows;
mod mode;
mod rewrite;
mod routes;
mod show;
#[cfg(test)]
mod tests;

pub use counts::{BURST_LIMIT, Bursts, Cycles, Lane, PortTotals, Refused, Snapshot};
pub use engine::{Forwarder, Settings};
pub use mode::Mode;
pub use routes::{BadRoute, Hop, Routes, TABLE_LIMIT};
pub use show::statistics;
