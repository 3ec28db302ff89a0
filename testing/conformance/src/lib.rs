//! Conformance scripts: packets in, packets out, one behaviour per file.
//!
//! The same script runs against our stack under virtual time and, where the
//! behaviour is common, against Linux through a TAP device in real time.

pub mod frames;
pub mod run;
pub mod script;
