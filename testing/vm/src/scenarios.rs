//! What is shown, and in which machines.

mod bond;
mod boot;
mod netem;
mod node;
mod placement;
mod sockets;
mod start;
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
    xdp::SCENARIO,
    start::SCENARIO,
    placement::SCENARIO,
    node::SCENARIO,
];

/// Those of these names; all, if none is named.
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
    let names = || ALL.iter().map(|scenario| scenario.name).collect::<Vec<_>>().join(", ");
    let found = ALL.iter().find(|scenario| scenario.name == name);
    found.ok_or_else(|| format!("there is no scenario {name}, but: {}", names()).into())
}
