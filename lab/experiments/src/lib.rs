//! Experiments: described in files, run in interleaved rounds, judged over
//! runs, kept as directories.
//!
//! An experiment compares *arms*. Each round runs every arm once, in random
//! order from a seed, so that what the machine does beside it falls on all
//! alike; one arm is run twice (the A/A control), which shows what difference
//! the machine makes between things that are the same. The run is the unit of
//! statistics (crate `stats`).
//!
//! | module | for |
//! | --- | --- |
//! | [`experiment`] | what a file may say |
//! | [`builtin`] | the experiments that come with the program |
//! | [`procedure`] | what an experiment does: the trait |
//! | [`procedures`] | those that there are |
//! | [`runner`] | rounds, order, Ctrl-C |
//! | [`runs`] | what runs measured |
//! | [`results`] | what was found, and what speaks against it |
//! | `worth` | the verdict on the whole, and the result's directory |
//! | [`fingerprint`] | the machine that a figure belongs to |
//! | [`compare`] | effect, interval and verdict; what may not be compared |
//! | [`report`] | one page of HTML |
//! | [`table`] | text for the terminal |
#![forbid(unsafe_code)]

mod builds;
pub mod builtin;
pub mod compare;
mod curves;
pub mod experiment;
pub mod fingerprint;
pub mod latencies;
mod number;
pub mod procedure;
pub mod procedures;
pub mod report;
pub mod results;
pub mod runner;
pub mod runs;
pub mod table;
#[cfg(test)]
mod tests;
mod worth;

/// What ends an experiment: a sentence for the user.
pub type Failure = Box<dyn std::error::Error>;
