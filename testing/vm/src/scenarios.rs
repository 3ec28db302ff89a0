//! What is shown, and in which machines.

mod bond;
mod boot;
mod dpdk_stamps;
mod netem;
mod node;
mod noise;
mod placement;
mod sockets;
mod stamps;
mod start;
mod tls;
mod values;
mod xdp;

use crate::Failure;
use crate::guest::Guest;
use crate::machine::Machine;
use std::time::Duration;

/// Something to prove, and the machines to prove it in.
pub struct Scenario {
    /// Its name on the command line.
    pub name: &'static str,
    /// What it proves.
    pub about: &'static str,
    /// Each of these machines is booted, and has to prove it.
    pub machines: &'static [Machine],
    /// Kernel modules that are loaded before it begins.
    pub modules: &'static [&'static str],
    /// The longest that the proof may take in one machine, boot apart.
    pub limit: Duration,
    /// Proves it, in the machine.
    pub prove: fn(&mut Guest) -> Result<(), Failure>,
}

/// All, the simplest first.
pub const ALL: &[Scenario] = &[
    boot::SCENARIO,
    bond::SCENARIO,
    netem::SCENARIO,
    sockets::SCENARIO,
    stamps::SCENARIO,
    dpdk_stamps::SCENARIO,
    tls::SCENARIO,
    values::SCENARIO,
    xdp::SCENARIO,
    start::SCENARIO,
    placement::SCENARIO,
    node::SCENARIO,
];

/// Those that run in the kernel that is real-time, with devices and programs of
/// their own. They measure, and need a host at rest: they run where they are named.
pub const REAL_TIME: &[Scenario] = &[noise::SCENARIO];

pub use noise::{DEVICES, PROGRAMS, WORDS, inject};

/// Whether it runs in the kernel that is real-time.
pub fn is_real_time(scenario: &Scenario) -> bool {
    REAL_TIME.iter().any(|one| one.name == scenario.name)
}

/// Every scenario, those of the usual kernel first.
pub fn every() -> impl Iterator<Item = &'static Scenario> {
    ALL.iter().chain(REAL_TIME)
}

/// Those of these names; all that need no host at rest, if none is named.
///
/// # Errors
/// If there is none of a name.
pub fn choose(names: &[String]) -> Result<Vec<&'static Scenario>, Failure> {
    if names.is_empty() {
        return Ok(ALL.iter().collect());
    }
    names.iter().map(|name| named(name)).collect()
}

/// The scenario of this name.
///
/// # Errors
/// If there is none.
pub fn named(name: &str) -> Result<&'static Scenario, Failure> {
    let names = || every().map(|scenario| scenario.name).collect::<Vec<_>>().join(", ");
    let found = every().find(|scenario| scenario.name == name);
    found.ok_or_else(|| format!("there is no scenario {name}, but: {}", names()).into())
}
