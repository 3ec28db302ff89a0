//! Fuzz targets: what a peer may send, or a user may paste, against an invariant.
//!
//! A target is a plain function over bytes that panics if what it asserts does
//! not hold. `cargo test -p fuzz` replays the committed inputs
//! (`corpus/<target>/`) and some ten thousand mutations of them; the binary
//! goes on for as long as it is told to, and looks for inputs that reach new
//! code where it was built with `coverage`. libFuzzer runs the same targets
//! (`make fuzz-libfuzzer NAME=stack`).
//!
//! ```text
//! cargo run --release -p fuzz -- all --seconds 60
//! cargo run --release -p fuzz -- stack --replay fuzz-stack-0123456789abcdef.bin
//! ```

pub mod corpus;
#[cfg(not(fuzzing))]
pub mod coverage;
#[cfg(not(fuzzing))]
pub mod hunt;
#[cfg(fuzzing)]
mod libfuzzer;
pub mod mutate;
pub mod packets;
pub mod targets;

/// A target.
#[derive(Clone, Copy)]
pub struct Target {
    /// Its name, also of its folder in `corpus/`.
    pub name: &'static str,
    /// What it asserts, in a line.
    pub about: &'static str,
    /// Runs one input.
    ///
    /// # Panics
    /// If the invariant does not hold.
    pub run: fn(&[u8]),
    /// Inputs to begin with, made by our own code.
    pub seeds: fn() -> Vec<Vec<u8>>,
    /// Pieces that the mutator puts in.
    pub dictionary: &'static [&'static [u8]],
    /// Mutated inputs in `cargo test`: as many as take about a second.
    pub test_runs: u32,
    /// Inputs are made no longer than this.
    pub max_len: usize,
}

/// All targets.
pub const TARGETS: &[Target] = &[
    targets::frame::TARGET,
    targets::tcp_options::TARGET,
    targets::checksum::TARGET,
    targets::lacp::TARGET,
    targets::stack::TARGET,
    targets::http_server::TARGET,
    targets::h2_server::TARGET,
    targets::http_client::TARGET,
    targets::http_values::TARGET,
    targets::hpack::TARGET,
    targets::cgi_answer::TARGET,
    targets::dns_answer::TARGET,
    targets::nginx_compile::TARGET,
    targets::nginx_conf::TARGET,
    targets::proxy_header::TARGET,
    targets::request_fields::TARGET,
    targets::site_toml::TARGET,
    targets::ssi::TARGET,
    targets::mp4_cut::TARGET,
    targets::certificates::TARGET,
    targets::tls_hello::TARGET,
    targets::tls_records::TARGET,
    targets::excerpts::TARGET,
    targets::results::TARGET,
];
