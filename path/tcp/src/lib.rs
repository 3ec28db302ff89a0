//! One TCP connection: its state machine and its data structures, without
//! addresses, I/O, clock or randomness.
//!
//! Implements RFC 9293 (with 7323 timestamps, window scale and PAWS; 6298 RTO;
//! 2018 SACK and 2883 DSACK; 8985 RACK-TLP, and 6582 NewReno without SACK; 3042
//! limited transmit; 9937 PRR; 4015, 3708 and 5682 for taking back what was
//! needless; 9438 CUBIC with 9406 HyStart++; 6928 initial window; 7661 window
//! validation; 5961 blind-attack checks). What is left out is in
//! docs/differences.md.
#![forbid(unsafe_code)]

mod cold;
pub mod config;
pub mod congestion;
pub mod connection;
mod counters;
mod differences;
mod input;
mod options;
mod orderly;
mod output;
mod rack;
mod receive;
mod recovery;
mod rtt;
mod scoreboard;
#[cfg(test)]
mod short_ways;
mod state;
mod timer;

pub use cold::HolderMark;
pub use config::Config;
pub use connection::{
    Agreed, CongestionState, Connection, Context, HOLDS_MUCH, Info, LastWord, Path, WheelMark, agree_on,
};
pub use counters::Counters;
pub use input::{Answer, Light, Outcome};
pub use options::SocketOptions;
pub use output::{Emit, EmitOptions};
pub use receive::ReceiveBuffer;
pub use rope::QueueFull;
pub use rtt::Rtt;
pub use scoreboard::Scoreboard;
pub use state::State;
