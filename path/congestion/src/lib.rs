//! Congestion control and pacing, without a transport: how much may be under
//! way, and when it leaves.
//!
//! Knows neither TCP nor QUIC: positions are counts of bytes from where a
//! connection began, times are arguments, nothing is sent or received here.
//! Loss detection, proportional rate reduction and recovery stay with the
//! transport, which tells a [`Controller`] of deliveries and of congestion:
//!
//! ```text
//! on_ack* ─► on_congestion(Loss) ─► on_recovery_end ─► on_ack*
//!        └─► on_congestion(Timeout) ─► on_ack* (slow start again)
//! ```
//!
//! Implements NewReno's and CUBIC's congestion avoidance (RFC 5681, RFC 9438),
//! HyStart with HyStart++'s measure of round trips (RFC 9406), pacing, delivery
//! rate samples, the initial window of RFC 6928 and window validation after RFC
//! 7661.
#![forbid(unsafe_code)]

mod controller;
mod cubic;
mod delivery;
mod hystart;
mod newreno;
mod pacer;
mod sampler;
mod signal;
mod window;

pub use controller::{Algorithm, Controller};
pub use delivery::Delivery;
pub use pacer::Pacer;
pub use sampler::{RateSample, Sampler, SendState};
pub use signal::Signal;
pub use window::{MAX_WINDOW, initial_window};

#[cfg(test)]
mod tests;
