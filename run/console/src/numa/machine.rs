//! A machine's topology as text and as JSON.

use super::remembered::pairs_json;
use super::si;
use core::fmt;
use figures::seconds;
use reach::Reaches;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use topology::{Disk, Interface, PciPlace, Ranges, Topology};

/// A machine's domains, ports and disks, and what was measured between domains.
pub struct NumaMachine<'a> {
    pub topology: &'a Topology,
    pub reaches: &'a Reaches,
}

impl fmt::Display for NumaMachine<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { topology, reaches } = self;
        if !topology.processor.is_empty() {
            writeln!(f, "processor: {}", topology.processor)?;
        }
        let mib = |bytes: u64| bytes >> 20;
        for domain in &topology.domains {
            let cores = if domain.cores.is_empty() { "none".to_owned() } else { Ranges(&domain.cores).to_string() };
            let distances: Vec<String> = domain.distances.iter().map(ToString::to_string).collect();
            writeln!(
                f,
                "domain {}: cores {cores}; memory {} MiB, {} free; distances {}",
                domain.number,
                mib(domain.memory_total),
                mib(domain.memory_free),
                distances.join(" ")
            )?;
        }
        if topology.memory_unplaced > 0 {
            let unplaced = mib(topology.memory_unplaced);
            writeln!(f, "no domain: memory {unplaced} MiB, which the kernel has not given to one yet")?;
        }
        sockets(f, topology)?;
        let usable: Vec<u16> = topology.cores.iter().filter(|core| core.is_usable()).map(|core| core.number).collect();
        let physical = topology.cores.iter().filter(|core| core.is_usable()).map(|core| core.siblings.first());
        let physical: BTreeSet<_> = physical.collect();
        writeln!(f, "cores to use: {} ({} physical)", Ranges(&usable), physical.len())?;
        topology.interfaces.iter().try_for_each(|interface| port(f, interface))?;
        topology.disks.iter().try_for_each(|one| disk(f, one))?;
        between(f, topology, reaches)?;
        topology.doubts().iter().try_for_each(|doubt| writeln!(f, "note: {doubt}"))
    }
}

/// Sockets that are several domains, by their maker's word.
fn sockets(f: &mut fmt::Formatter<'_>, topology: &Topology) -> fmt::Result {
    let Some(division) = topology.division() else { return Ok(()) };
    for (package, domains) in topology.packages() {
        writeln!(f, "socket {package}: domains {}; {division}", Ranges(&domains))?;
    }
    Ok(())
}

/// A row for each domain's cores, a column for each domain's memory.
fn between(f: &mut fmt::Formatter<'_>, topology: &Topology, reaches: &Reaches) -> fmt::Result {
    if !reaches.pairs.is_empty() {
        writeln!(f, "measured, as latency and bandwidth of all cores' reads (and firmware's distance):")?;
        write!(f, "  {:<14}", "cores of")?;
        topology
            .domains
            .iter()
            .try_for_each(|domain| write!(f, "  {:>28}", format!("memory of domain {}", domain.number)))?;
        writeln!(f)?;
        for from in &topology.domains {
            write!(f, "  {:<14}", format!("domain {}", from.number))?;
            for to in &topology.domains {
                let pair = reaches.pairs.iter().find(|pair| (pair.from, pair.to) == (from.number, to.number));
                let distance = topology.distance(from.number, to.number).unwrap_or(0);
                let cell = pair.map_or_else(
                    || format!("- ({distance})"),
                    |pair| format!("{}, {} ({distance})", seconds(pair.nanos), si(pair.bytes, "B/s")),
                );
                write!(f, "  {cell:>28}")?;
            }
            writeln!(f)?;
        }
    }
    reaches.missing.iter().try_for_each(|why| writeln!(f, "note: not measured: {why}"))
}

fn port(f: &mut fmt::Formatter<'_>, interface: &Interface) -> fmt::Result {
    let place = match (interface.domain, interface.device) {
        (Some(domain), _) => format!("domain {domain}"),
        (None, true) => "domain unknown".to_owned(),
        (None, false) => "virtual".to_owned(),
    };
    let speed = interface.speed.map_or_else(String::new, |bits| format!(", {}", si(bits as f64, "bit/s")));
    let (rx, tx) = (interface.rx_queues, interface.tx_queues);
    let link = link(interface.pci.as_ref());
    writeln!(f, "{}: {place}{speed}{link}, {rx} receive and {tx} transmit queues", interface.name)?;
    faults(f, &interface.name, interface.pci.as_ref())
}

fn disk(f: &mut fmt::Formatter<'_>, disk: &Disk) -> fmt::Result {
    let place = disk.domain.map_or("domain unknown".to_owned(), |domain| format!("domain {domain}"));
    let (link, size) = (link(disk.pci.as_ref()), si(disk.bytes as f64, "B"));
    let model = disk.model.as_ref().map_or_else(String::new, |model| format!(", {model}"));
    writeln!(f, "{}: {place}, {} of {size}{link}{model}", disk.name, kind(disk))?;
    faults(f, &disk.name, disk.pci.as_ref())
}

fn kind(disk: &Disk) -> &'static str {
    match disk {
        Disk { rotational: true, .. } => "disk",
        disk if disk.is_nvme() => "NVMe",
        _ => "block device",
    }
}

fn link(pci: Option<&PciPlace>) -> String {
    pci.map_or_else(String::new, |pci| format!(", {} ({} each way)", pci.now, si(pci.now.bytes() as f64, "B/s")))
}

fn faults(f: &mut fmt::Formatter<'_>, name: &str, pci: Option<&PciPlace>) -> fmt::Result {
    pci.map(PciPlace::faults).unwrap_or_default().iter().try_for_each(|fault| writeln!(f, "note: {name} {fault}"))
}

// The shape of `nearside numa --topology --json`, which other programs read, beside the head that
// all results have:
//
// ```text
// { "processor", "vendor", "division" or null,
//   "cores": [ { "core", "online", "allowed", "isolated", "domain" or null, "package" or null,
//                "siblings": [], "cache": [], "cache_bytes" } ],
//   "domains": [ { "domain", "cores": [], "memory_total", "memory_free", "distances": [] } ],
//   "memory_unplaced",
//   "interfaces": [ { "name", "domain" or null, "device", "speed_bits" or null, "pci" or null,
//                     "rx_queues", "tx_queues", "interrupts": [ { "number", "cores" } ] } ],
//   "disks": [ { "name", "kind", "model" or null, "domain" or null, "bytes", "pci" or null } ],
//   "reach": [ { "from", "to", "latency_nanos", "bytes_per_second" } ], "not_measured": [],
//   "notes": [] }
//
// "pci": { "link", "bytes_per_second", "device" or null, "device_bytes" or null, "slot" or null,
//          "faults": [] }
// ```

pub fn topology_json(topology: &Topology, reaches: &Reaches) -> Value {
    let core = |core: &topology::Core| {
        json!({
            "core": core.number,
            "online": core.online,
            "allowed": core.allowed,
            "isolated": core.isolated,
            "domain": core.domain,
            "package": core.package,
            "siblings": core.siblings,
            "cache": core.cache,
            "cache_bytes": core.cache_bytes,
        })
    };
    let domain = |domain: &topology::Domain| {
        json!({
            "domain": domain.number,
            "cores": domain.cores,
            "memory_total": domain.memory_total,
            "memory_free": domain.memory_free,
            "distances": domain.distances,
        })
    };
    let interface = |interface: &Interface| {
        let interrupts = interface.interrupts.iter().map(|(number, cores)| json!({ "number": number, "cores": cores }));
        json!({
            "name": interface.name,
            "domain": interface.domain,
            "device": interface.device,
            "speed_bits": interface.speed,
            "pci": interface.pci.as_ref().map(pci_json),
            "rx_queues": interface.rx_queues,
            "tx_queues": interface.tx_queues,
            "interrupts": interrupts.collect::<Vec<_>>(),
        })
    };
    let disk = |disk: &Disk| {
        json!({
            "name": disk.name,
            "kind": kind(disk),
            "model": disk.model,
            "domain": disk.domain,
            "bytes": disk.bytes,
            "pci": disk.pci.as_ref().map(pci_json),
        })
    };
    json!({
        "processor": topology.processor,
        "vendor": topology.vendor,
        "division": topology.division(),
        "cores": topology.cores.iter().map(core).collect::<Vec<_>>(),
        "domains": topology.domains.iter().map(domain).collect::<Vec<_>>(),
        "memory_unplaced": topology.memory_unplaced,
        "interfaces": topology.interfaces.iter().map(interface).collect::<Vec<_>>(),
        "disks": topology.disks.iter().map(disk).collect::<Vec<_>>(),
        "reach": pairs_json(&reaches.pairs),
        "not_measured": reaches.missing,
        "notes": topology.doubts().iter().map(ToString::to_string).collect::<Vec<_>>(),
    })
}

fn pci_json(pci: &PciPlace) -> Value {
    json!({
        "link": pci.now.to_string(),
        "bytes_per_second": pci.now.bytes(),
        "device": pci.device.map(|link| link.to_string()),
        "device_bytes": pci.device.map(topology::PciLink::bytes),
        "slot": pci.slot.map(|link| link.to_string()),
        "faults": pci.faults(),
    })
}
