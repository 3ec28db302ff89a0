//! The crate from outside: known vectors, identities, and bytes that nobody
//! sane would send.

mod checksum;
mod hostile;
mod icmp;
mod identity;
mod ip;
mod lacp;
mod link;
mod plain;
mod seq;
mod strategies;
mod tcp;
mod udp;

use proptest::test_runner::{Config, RngSeed};

/// Every run tests the same cases: a failure is met by whoever runs it next.
fn cases(cases: u32) -> Config {
    Config { cases, rng_seed: RngSeed::Fixed(0x6e65_6172), failure_persistence: None, ..Config::default() }
}
