//! The machine is what it was asked to be.

use super::Scenario;
use crate::Failure;
use crate::guest::{Guest, nearside, output};
use crate::machine::{Domain, Machine, Port};
use serde_json::Value;
use std::fs;
use std::path::Path;
use std::time::Duration;

pub const SCENARIO: Scenario = Scenario {
    name: "boot",
    about: "domains, their cores, memory and ports, as the kernel sees them",
    machines: &[
        Machine {
            name: "two domains with a port each",
            domains: &[Domain { cores: 2, memory: 384 }; 2],
            ports: &[Port::virtio(0, 1), Port::virtio(1, 1)],
        },
        Machine {
            name: "four domains, one of them without memory",
            domains: &[
                Domain { cores: 1, memory: 256 },
                Domain { cores: 1, memory: 256 },
                Domain { cores: 1, memory: 0 },
                Domain { cores: 1, memory: 256 },
            ],
            ports: &[],
        },
    ],
    modules: &["virtio_net"],
    limit: Duration::from_secs(120),
    prove,
};

/// The kernel's view of a domain.
const NODES: &str = "/sys/devices/system/node";

fn prove(guest: &mut Guest) -> Result<(), Failure> {
    let machine = guest.machine;
    for (node, domain) in machine.domains.iter().enumerate() {
        let folder = Path::new(NODES).join(format!("node{node}"));
        let cores = fs::read_to_string(folder.join("cpulist"))?;
        let range = machine.cores_of(node);
        let want = match domain.cores {
            1 => range.start.to_string(),
            _ => format!("{}-{}", range.start, range.end - 1),
        };
        if cores.trim() != want {
            return Err(format!("domain {node} has the cores {}, not {want}", cores.trim()).into());
        }
        let memory = memory_of(&folder)?;
        // The kernel keeps some for itself.
        if (memory == 0) != (domain.memory == 0) || memory > domain.memory || memory < domain.memory / 2 {
            return Err(format!("domain {node} has {memory} MiB, not about {}", domain.memory).into());
        }
        guest.say(format!("domain {node}: cores {want}, {memory} MiB"))?;
    }
    for (index, port) in machine.ports.iter().enumerate() {
        // The PCI device, above the virtio device.
        let node = fs::read_to_string(format!("/sys/class/net/port{index}/device/../numa_node"))?;
        if node.trim() != port.domain.to_string() {
            return Err(format!("port {index} is in domain {}, not {}", node.trim(), port.domain).into());
        }
        guest.say(format!("port {index}: domain {}", port.domain))?;
    }
    agree(machine)?;
    guest.say("nearside numa --topology says the same")
}

/// Our own reading of the machine is that too.
fn agree(machine: &Machine) -> Result<(), Failure> {
    let topology: Value = serde_json::from_str(&output(&mut nearside(["numa", "--topology", "--json"]))?)?;
    let domains = topology["domains"].as_array().ok_or("no domains")?;
    let fits = |(node, (domain, want)): (usize, (&Value, &Domain))| {
        let cores: Vec<u64> = machine.cores_of(node).map(u64::from).collect();
        let found: Option<Vec<u64>> =
            domain["cores"].as_array().map(|all| all.iter().filter_map(Value::as_u64).collect());
        domain["domain"] == node
            && found == Some(cores)
            && domain["memory_total"].as_u64().is_some_and(|bytes| (bytes == 0) == (want.memory == 0))
    };
    let interface = |(index, port): (usize, &Port)| {
        let mut all = topology["interfaces"].as_array().into_iter().flatten();
        all.any(|found| found["name"] == format!("port{index}") && found["domain"] == port.domain)
    };
    let right = domains.len() == machine.domains.len()
        && domains.iter().zip(machine.domains).enumerate().all(fits)
        && machine.ports.iter().enumerate().all(interface);
    if right { Ok(()) } else { Err(format!("nearside numa --topology sees another machine:\n{topology:#}").into()) }
}

/// MiB of memory that the kernel counts in a domain.
fn memory_of(folder: &Path) -> Result<u32, Failure> {
    let text = fs::read_to_string(folder.join("meminfo"))?;
    let line = text.lines().find(|line| line.contains("MemTotal:")).ok_or("a domain without MemTotal")?;
    let kib: u32 = line.split_whitespace().rev().nth(1).ok_or("MemTotal without a number")?.parse()?;
    Ok(kib / 1024)
}
