//! From frames to connections and back, by layers: IP with its neighbours,
//! routes and errors (`ip`), TCP with its listeners, handshakes, connections,
//! TIME-WAIT and timers (`segments`), and the turn that joins them
//! ([`Stack`]).
//!
//! The stack takes borrowed frames and writes frames into slots that it is
//! lent ([`Egress`]); it owns no packet buffers. It calls nobody: what a frame
//! means for an application is the return value, and what else happened is
//! asked for. Call order of a turn:
//!
//! ```text
//! begin_turn
//!   ─► on_frame for each frame of the burst          ─► Arrived
//!   ─► (the application takes it), settle if it was Data  a frame into a slot
//!   ─► on_timers, then poll_app_timer until None     ─► ConnId
//!   ─► (the application acts, through app::Net)
//!   ─► poll_resumed until None                       ─► ConnId
//!   ─► poll_transmit                                   frames into slots
//!   ─► poll_closed until None                        ─► ConnId, reason
//! ```
#![forbid(unsafe_code)]

mod config;
mod counters;
mod egress;
mod flow;
mod host;
mod ip;
mod limit;
mod memory;
mod net;
mod reading;
mod reset_limit;
mod sample;
mod secret;
mod segments;
pub mod shadow;
mod stack;

pub use config::{Address, Config, Detection, MAX_ADDRESSES, ResetRate, Route, Seeds};
pub use counters::Counters;
pub use egress::{Egress, LinkOffload, Rehearsal, Watched};
pub use ip::Conflict;
pub use sample::{ConnectionSample, SAMPLE_WORDS};
pub use segments::{Arrival, Arrived, Glance, Migrant, ReturnPath, Slot};
pub use stack::Stack;

/// What each value of a stack counts: its layers' names, and their values'.
pub const HELP: [(&str, &[(&str, &str)]); 4] = [
    ("stack", Counters::HELP),
    ("tcp", tcp::Counters::HELP),
    ("neighbour", ip::NEIGHBOUR_HELP),
    ("fragments", ip::FRAGMENTS_HELP),
];

#[cfg(test)]
mod tests;
