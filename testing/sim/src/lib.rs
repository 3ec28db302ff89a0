//! A deterministic simulator: many hosts, each the real stack in a real silo,
//! on faulty links over virtual time.
#![forbid(unsafe_code)]

pub mod peer;
pub mod rng;
pub mod stream;
pub mod switch;
pub mod talk;
