//! From a recording to a topology.

use crate::recording::{PCI_SLOT_NAME, pci_slot};
use crate::{
    Core, Disk, Domain, Interface, MAX_CORES, MAX_DOMAINS, PciLink, PciPlace, Recording, Topology, TopologyError, list,
    plain,
};

const CPU: &str = "sys/devices/system/cpu";
const NODE: &str = "sys/devices/system/node";
const NET: &str = "sys/class/net";
const BLOCK: &str = "sys/block";
const MEMINFO: &str = "proc/meminfo";
const CPUINFO: &str = "proc/cpuinfo";

/// The kernel counts a device's length in these, whatever its own blocks are.
const SECTOR: u64 = 512;

/// The longest name of a disk or processor that is kept.
const NAME_LIMIT: usize = 80;

/// What the kernel says of a domain and itself (ACPI SLIT).
const LOCAL: u16 = 10;
/// What it says of two domains, where the firmware says nothing.
const REMOTE: u16 = 20;

pub fn topology(recording: &Recording, allowed: Option<&[u16]>) -> Result<Topology, TopologyError> {
    let mut domains = domains(recording)?;
    let cores = cores(recording, &domains, allowed)?;
    // A container may see fewer cores than the kernel's nodes have.
    let online = |number: &u16| cores.binary_search_by_key(number, |core| core.number).is_ok_and(|at| cores[at].online);
    domains.iter_mut().for_each(|domain| domain.cores.retain(online));
    let mut domains = if domains.is_empty() { vec![whole(&cores)] } else { domains };
    let memory_unplaced = place_memory(recording, &mut domains)?;
    let [vendor, processor] = ["vendor_id", "model name"].map(|name| processor(recording, name));
    let mut topology = Topology { cores, domains, memory_unplaced, processor, vendor, ..Topology::default() };
    // Off line, with nothing to say which domain it is in.
    if let [only] = topology.domains.as_slice() {
        let number = only.number;
        topology.cores.iter_mut().for_each(|core| core.domain = Some(number));
    }
    let mut misplaced = Vec::new();
    topology.interfaces = interfaces(recording, &topology, &mut misplaced)?;
    topology.disks = disks(recording, &topology, &mut misplaced)?;
    topology.misplaced = misplaced;
    Ok(topology)
}

/// What the first core says of itself: `model name : AMD EPYC 7551`.
fn processor(recording: &Recording, name: &str) -> String {
    let line = recording.get(CPUINFO).and_then(|text| text.lines().find(|line| line.starts_with(name)));
    let value = line.and_then(|line| Some(line.split_once(':')?.1.trim()));
    value.map(|value| plain(&value.chars().take(NAME_LIMIT).collect::<String>())).unwrap_or_default()
}

/// The one domain of a kernel without NUMA.
fn whole(cores: &[Core]) -> Domain {
    let cores = cores.iter().filter(|core| core.online).map(|core| core.number).collect();
    Domain { number: 0, cores, memory_total: 0, memory_free: 0, distances: vec![LOCAL] }
}

fn cores(recording: &Recording, domains: &[Domain], allowed: Option<&[u16]>) -> Result<Vec<Core>, TopologyError> {
    let path = format!("{CPU}/possible");
    let possible = cpu_list(recording, &path)?.ok_or(TopologyError::Missing(path))?;
    // The kernel has the file since 2.6.28; where it is hidden, all run.
    let online = cpu_list(recording, &format!("{CPU}/online"))?.unwrap_or_else(|| possible.clone());
    let isolated = cpu_list(recording, &format!("{CPU}/isolated"))?.unwrap_or_default();
    let mut cores = Vec::with_capacity(possible.len());
    for number in possible {
        let folder = format!("{CPU}/cpu{number}");
        let siblings = cpu_list(recording, &format!("{folder}/topology/thread_siblings_list"))?;
        let package = recording.get(&format!("{folder}/topology/physical_package_id"));
        let domain = domains.iter().find(|domain| domain.cores.binary_search(&number).is_ok());
        let (cache, cache_bytes) = outermost_cache(recording, &folder)?;
        cores.push(Core {
            number,
            online: online.binary_search(&number).is_ok(),
            allowed: allowed.is_none_or(|allowed| allowed.contains(&number)),
            isolated: isolated.binary_search(&number).is_ok(),
            domain: domain.map(|domain| domain.number),
            // -1 where the firmware does not say.
            package: package.and_then(|text| text.parse().ok()),
            siblings: siblings.filter(|all| all.contains(&number)).unwrap_or_else(|| vec![number]),
            cache,
            cache_bytes,
        });
    }
    Ok(cores)
}

/// The cores on a core's cache of the highest level, and its bytes.
fn outermost_cache(recording: &Recording, folder: &str) -> Result<(Vec<u16>, u64), TopologyError> {
    let mut found = (0, Vec::new(), 0);
    for index in recording.names(&format!("{folder}/cache")) {
        let cache = format!("{folder}/cache/{index}");
        let level = recording.get(&format!("{cache}/level")).and_then(|text| text.parse::<u16>().ok()).unwrap_or(0);
        if level > found.0
            && let Some(shared) = cpu_list(recording, &format!("{cache}/shared_cpu_list"))?
        {
            // `22528K`.
            let size = recording.get(&format!("{cache}/size")).and_then(|text| text.strip_suffix('K')?.parse().ok());
            found = (level, shared, size.map_or(0, |kib: u64| kib.saturating_mul(1_024)));
        }
    }
    Ok((found.1, found.2))
}

fn domains(recording: &Recording) -> Result<Vec<Domain>, TopologyError> {
    let names = recording.names(NODE);
    let numbers = names.iter().filter_map(|name| name.strip_prefix("node")?.parse::<u16>().ok());
    let mut numbers: Vec<u16> = numbers.collect();
    numbers.sort_unstable();
    numbers.dedup();
    if numbers.len() > MAX_DOMAINS || numbers.last().is_some_and(|last| usize::from(*last) >= MAX_DOMAINS) {
        return Err(TopologyError::TooMany("NUMA domains"));
    }
    let mut domains = Vec::with_capacity(numbers.len());
    for (at, &number) in numbers.iter().enumerate() {
        let folder = format!("{NODE}/node{number}");
        let (memory_total, memory_free) = memory(recording, &format!("{folder}/meminfo"))?;
        domains.push(Domain {
            number,
            cores: cpu_list(recording, &format!("{folder}/cpulist"))?.unwrap_or_default(),
            memory_total,
            memory_free,
            distances: distances(recording, &format!("{folder}/distance"), at, numbers.len())?,
        });
    }
    Ok(domains)
}

/// A node's MemTotal is what its zones have been given so far, and a kernel that
/// puts off a part of that (deferred struct pages, memory that is accepted
/// later) has counted all of it for the machine. What the nodes lack is free
/// memory of the only one; of several it is told how much no domain has yet.
fn place_memory(recording: &Recording, domains: &mut [Domain]) -> Result<u64, TopologyError> {
    // In a container this may be its limit, which is less.
    let (total, free) = memory(recording, MEMINFO)?;
    let placed = domains.iter().fold(0_u64, |sum, domain| sum.saturating_add(domain.memory_total));
    let missing = total.saturating_sub(placed);
    let [only] = domains else { return Ok(missing) };
    // Without NUMA there is no other account of it.
    let missing_free = if placed == 0 { free } else { missing };
    only.memory_total = only.memory_total.saturating_add(missing);
    only.memory_free = only.memory_free.saturating_add(missing_free);
    Ok(0)
}

/// `Node 0 MemTotal:       24682416 kB`, and so on: total and free, in bytes.
fn memory(recording: &Recording, path: &str) -> Result<(u64, u64), TopologyError> {
    let text = recording.get(path).unwrap_or_default();
    let find = |what: &str| {
        let Some(line) = text.lines().find(|line| line.contains(what)) else { return Ok(0) };
        let after = line.split(what).nth(1).unwrap_or_default();
        let number = after.trim().trim_end_matches("kB").trim().parse::<u64>();
        number.ok().and_then(|kib| kib.checked_mul(1024)).ok_or_else(|| unclear(path, line, "a size in kB"))
    };
    Ok((find("MemTotal:")?, find("MemFree:")?))
}

/// One number for each domain on line, in ascending order of these.
fn distances(recording: &Recording, path: &str, own: usize, count: usize) -> Result<Vec<u16>, TopologyError> {
    let Some(text) = recording.get(path) else {
        return Ok((0..count).map(|at| if at == own { LOCAL } else { REMOTE }).collect());
    };
    let numbers: Result<Vec<u16>, _> = text.split_whitespace().map(str::parse).collect();
    let wrong = || unclear(path, text, "a distance to each domain");
    numbers.ok().filter(|numbers| numbers.len() == count).ok_or_else(wrong)
}

fn interfaces(
    recording: &Recording,
    topology: &Topology,
    misplaced: &mut Vec<(String, u16)>,
) -> Result<Vec<Interface>, TopologyError> {
    let mut interfaces = Vec::new();
    for name in recording.names(NET) {
        let folder = format!("{NET}/{name}");
        let queues = recording.names(&format!("{folder}/queues"));
        if queues.is_empty() {
            // A file, as `bonding_masters`.
            continue;
        }
        let count = |prefix| {
            let count = queues.iter().filter(|queue| queue.starts_with(prefix)).count();
            u16::try_from(count).unwrap_or(u16::MAX)
        };
        let (device, domain) = attached(recording, &folder, topology, misplaced)?;
        let mut interrupts = Vec::new();
        for irq in recording.names(&format!("{folder}/device/msi_irqs")) {
            let Ok(irq) = irq.parse::<u32>() else { continue };
            let cores = cpu_list(recording, &format!("proc/irq/{irq}/smp_affinity_list"))?;
            interrupts.push((irq, cores.unwrap_or_default()));
        }
        interrupts.sort_unstable();
        interfaces.push(Interface {
            name: plain(name),
            domain,
            device,
            rx_queues: count("rx-"),
            tx_queues: count("tx-"),
            interrupts,
            // Megabits; -1 where there is no link.
            speed: recording
                .get(&format!("{folder}/speed"))
                .and_then(|text| text.parse::<u64>().ok())
                // What a driver says that does not know: SPEED_UNKNOWN.
                .filter(|megabits| (1..u64::from(u32::MAX)).contains(megabits))
                .map(|megabits| megabits * 1_000_000),
            pci: pci(recording, &folder),
            slot: slot(recording, &folder),
            running: running(recording, &folder),
        });
    }
    Ok(interfaces)
}

/// Whether there is a link: `unknown` is what a driver says that does not know (RFC 2863,
/// ifOperStatus; Documentation/networking/operstates.rst).
fn running(recording: &Recording, folder: &str) -> Option<bool> {
    match recording.get(&format!("{folder}/operstate"))? {
        "up" => Some(true),
        "down" | "lowerlayerdown" | "notpresent" | "dormant" | "testing" => Some(false),
        _ => None,
    }
}

/// The PCI slot of a device.
fn slot(recording: &Recording, folder: &str) -> Option<String> {
    pci_slot(recording.get(&format!("{folder}/device/{PCI_SLOT_NAME}"))?).map(str::to_owned)
}

/// Whether there is a device behind a network interface or a disk, and its domain.
fn attached(
    recording: &Recording,
    folder: &str,
    topology: &Topology,
    misplaced: &mut Vec<(String, u16)>,
) -> Result<(bool, Option<u16>), TopologyError> {
    let path = format!("{folder}/device/numa_node");
    let node = recording.get(&path);
    let number = node.map(|text| text.parse::<i32>().map_err(|_| unclear(&path, text, "a node's number")));
    let number = number.transpose()?.and_then(|number| u16::try_from(number).ok());
    // A domain that is off line is no place for anything; and where
    // there is one only, everything is there.
    let domain = match topology.domains.as_slice() {
        [only] if node.is_some() => Some(only.number),
        _ => number.filter(|number| topology.domain(*number).is_some()),
    };
    if let (None, Some(number)) = (domain, number) {
        misplaced.push((plain(folder.rsplit('/').next().unwrap_or_default()), number));
    }
    Ok((node.is_some(), domain))
}

fn disks(
    recording: &Recording,
    topology: &Topology,
    misplaced: &mut Vec<(String, u16)>,
) -> Result<Vec<Disk>, TopologyError> {
    let mut disks = Vec::new();
    for name in recording.names(BLOCK) {
        let folder = format!("{BLOCK}/{name}");
        let (device, domain) = attached(recording, &folder, topology, misplaced)?;
        let sectors = recording.get(&format!("{folder}/size")).and_then(|text| text.parse::<u64>().ok());
        // A drive without a medium has none.
        if !device || sectors == Some(0) {
            continue;
        }
        disks.push(Disk {
            name: plain(name),
            model: recording
                .get(&format!("{folder}/device/model"))
                .map(|text| plain(&text.chars().take(NAME_LIMIT).collect::<String>())),
            domain,
            bytes: sectors.unwrap_or(0).saturating_mul(SECTOR),
            rotational: recording.get(&format!("{folder}/queue/rotational")) == Some("1"),
            pci: pci(recording, &folder),
            // The namespaces of a controller, nvme0n1 and nvme0n2, share its link.
            slot: slot(recording, &folder).or_else(|| {
                let controller = name.strip_prefix("nvme")?.split_once('n')?.0;
                Some(format!("nvme{controller}"))
            }),
        });
    }
    Ok(disks)
}

/// The PCI Express link of a device, if it has one.
fn pci(recording: &Recording, folder: &str) -> Option<PciPlace> {
    let link = |which: &str| {
        let get = |what: &str| recording.get(&format!("{folder}/device/{which}_link_{what}"));
        PciLink::read(get("speed")?, get("width")?)
    };
    Some(PciPlace { now: link("current")?, device: link("max"), slot: link("upstream/max") })
}

fn cpu_list(recording: &Recording, path: &str) -> Result<Option<Vec<u16>>, TopologyError> {
    let Some(text) = recording.get(path) else { return Ok(None) };
    list::parse(text, MAX_CORES).map(Some).ok_or_else(|| unclear(path, text, "a list of cores"))
}

fn unclear(path: &str, found: &str, wanted: &'static str) -> TopologyError {
    TopologyError::Unclear { path: path.to_owned(), found: found.chars().take(80).collect(), wanted }
}
