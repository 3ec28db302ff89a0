//! A deterministic simulator: many hosts, each the real stack in a real silo,
//! on faulty links over virtual time.
//!
//! A seed stands for a whole [`Scenario`]: hosts and their settings, the
//! network's faults, and what the applications do. [`simulate`] runs it, and
//! the same seed at the same commit runs the same to the last frame. It must
//! hold that every byte arrives exactly once, in order and intact; that no
//! connection is stuck; that everything closes, and as it was meant to; and
//! that no memory is left. And wherever a segment or frame takes a short way,
//! the general one must have done the same ([`shadow`]).
#![forbid(unsafe_code)]

pub mod fabric;
pub mod fleet;
pub mod internet;
pub mod peer;
pub mod proxied;
pub mod quiet;
pub mod rng;
pub mod scenario;
pub mod sealer;
pub mod shadow;
pub mod stream;
pub mod switch;
pub mod talk;
pub mod transfer;
pub mod world;

pub use proxied::simulate_proxied;
pub use scenario::Scenario;
pub use world::{Outcome, simulate, simulate_bare, simulate_paced, simulate_sealed, simulate_silos};
