//! Ports of one aggregation that are not alike, by what the machine says of them.

use crate::plan::HostPlan;
use bond::{PortRates, judge_ports};
use driver::Kernel;
use say::Failure;
use topology::Topology;

/// What is to be told of the ports of a plan.
///
/// # Errors
/// If they cannot be one: LACP joins ports of one speed, and each port has a weight or none has.
pub fn check(host: &HostPlan, topology: &Topology) -> Result<Vec<String>, Failure> {
    let ports = host.links.iter().map(|link| {
        let interface = match link.driver.kernel() {
            Kernel::Beside(name) => topology.interface(name),
            _ => None,
        };
        PortRates {
            name: link.name(),
            speed: interface.and_then(|interface| interface.speed),
            slot: interface.and_then(|interface| Some(interface.pci?.now.bytes() * 8)),
        }
    });
    Ok(judge_ports(&ports.collect::<Vec<_>>(), &host.bond)?)
}
