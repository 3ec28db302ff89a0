//! The generator in simulated time, as one program: it is compiled and linked once.

mod allocations;
mod calls;
mod closed_loop;
mod dialogue;
mod failures;
mod go_away;
mod held;
mod http2;
mod intervals;
mod mixes;
mod open_loop;
mod report;
mod streaming;
mod streaming_failures;
mod streaming_http2;
mod streaming_requests;
mod world;
