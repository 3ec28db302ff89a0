//! The packet lab: frames forwarded, sent at exact rates, and followed one by
//! one; searches for the rate that a device bears; verdicts that fail closed.
//!
//! Nothing here does I/O of its own, reads a clock or starts a thread: links,
//! time (in ticks of whatever clock the caller has) and seeds are arguments.
//! So the very code that measures runs against simulated devices with known
//! faults, in virtual time.
//!
//! | module | for |
//! | --- | --- |
//! | [`forward`] | a forwarder between two links, with testpmd's modes and statistics |
//! | [`stream`], [`mark`] | frames of a test, and what each carries |
//! | [`replay`] | frames of a capture file, sent again |
//! | [`modifiers`] | broadcasts, queries and routing updates among them |
//! | [`schedule`] | when they are due |
//! | [`spec`] | how streams are written |
//! | [`track`] | which of them came |
//! | [`tester`] | sends and follows streams |
//! | [`search`], [`soak`] | which load a device bears |
//! | [`table`] | results as lines for people |
//! | [`rfc2544`] | the whole method: throughput, latency, loss, bursts, recovery, reset |
//! | [`stamps`] | latency by stamps of the kernel or a NIC |
//! | [`trial`], [`log`], [`expect`] | what came of it, and what was to come |
//! | [`verdict`], [`pause`] | what a result is worth |
//! | [`kept`], [`compare`] | what a run keeps; runs compared |
#![forbid(unsafe_code)]

pub mod compare;
pub mod expect;
pub mod forward;
pub mod kept;
mod layers;
pub mod log;
pub mod mark;
pub mod modifiers;
pub mod pause;
mod ptp;
pub mod replay;
pub mod rfc2544;
pub mod schedule;
pub mod search;
pub mod soak;
pub mod spec;
pub mod stamps;
pub mod stream;
pub mod table;
pub mod tester;
pub mod track;
pub mod trial;
pub mod verdict;
