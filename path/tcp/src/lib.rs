//! One TCP connection: its state machine and its data structures, without
//! addresses, I/O, clock or randomness.
//!
//! Implements RFC 9293 (with 7323 timestamps, window scale and PAWS; 6298 RTO;
//! 2018 SACK and 2883 DSACK; 8985 RACK-TLP, and 6582 NewReno without SACK; 3042
//! limited transmit; 9937 PRR; 4015, 3708 and 5682 for taking back what was
//! needless; 9438 CUBIC with HyStart, 6928 initial window and pacing (the crate `congestion`); 7661 window
//! validation; 5961 blind-attack checks; 4821 and 8899 path MTU discovery). What is left out is in
//! docs/differences.md.
#![forbid(unsafe_code)]

mod acknowledge;
mod agreed;
mod asked;
mod buffers;
mod cold;
pub mod config;
pub mod connection;
mod context;
mod counters;
mod departures;
mod differences;
mod emit;
mod expected;
mod flags;
mod held;
mod incoming;
mod info;
mod input;
mod late;
mod options;
mod orderly;
mod outcome;
mod output;
mod paced;
mod pacing;
mod path_mtu;
mod paws;
mod progress;
mod prr;
mod rack;
mod receive;
mod recovery;
mod reordering;
mod rtt;
mod scoreboard;
mod sealed;
#[cfg(test)]
mod short_ways;
mod sizes;
mod state;
mod steady;
mod text;
mod timer;

pub use agreed::{Agreed, agree_on};
pub use asked::SocketOptions;
pub use cold::HolderMark;
pub use config::Config;
pub use congestion;
pub use connection::{Connection, LastWord};
pub use context::{Context, HOLDS_MUCH, Narrowed, Path, Treatment};
pub use counters::Counters;
pub use emit::{Emit, EmitOptions};
pub use info::{CongestionState, Info};
pub use outcome::{Answer, Light, Outcome};
pub use output::FEW;
pub use receive::ReceiveBuffer;
pub use rope::{Fixed, KEYS_WEAR, Message, QueueFull, Workbench};
pub use rtt::Rtt;
pub use scoreboard::Scoreboard;
pub use state::State;
pub use steady::Steady;
