//! Bad input against the whole server: an attacker shares a wire with a
//! well-behaved client, under virtual time and from a seed.
//!
//! The server is the real one, in a real silo over the in-memory link; so is
//! the client, the load generator, whose every response is checked byte by
//! byte. The attacker is no stack: it forges frames ([`frames`]), makes noise
//! ([`noise`]), or keeps a crowd of connections that it ill-treats
//! ([`crowd`]). What must hold: nothing panics, nothing grows past its limit,
//! the client is served, and in the end nothing is left and the silo sleeps.
//!
//! [`line`] is the same at full rate, in real time: the server as everybody
//! starts it, in a process of its own behind a memif.
#![forbid(unsafe_code)]

pub mod arena;
pub mod checked;
pub mod crowd;
pub mod frames;
pub mod line;
pub mod noise;
pub mod rng;
pub mod server;
pub mod soak;
