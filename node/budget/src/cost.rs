//! What a rate asks of each part of a machine, and which part is full first.

use crate::ask::BudgetAsk;
use crate::fabric::FabricRoutes;
use crate::framing::{DISK_TO_PCI, FRAME, MEMORY_TO_PCI};
use crate::machine::{BudgetMachine, CpuCost, PerSecond};
use crate::passes::{ContentWay, MemoryPass};
use crate::shares::Shares;
use crate::siloing::Siloing;
use core::fmt;
use topology::plain;

/// The highest rate that a budget is made for, in bits per second: far above what any machine sends.
pub const RATE_LIMIT: f64 = 1e15;

/// Bytes of a slot that a full frame touches: 1,514, in whole lines of the cache.
const SLOT_BYTES: u64 = 1_536;

/// What passes the cache beside each byte of a slot until the slot's turn comes again: itself, and
/// the content that it was sealed from.
const CACHE_PASSES: u64 = 2;

/// Why there is no budget.
#[derive(Clone, PartialEq, Debug)]
pub enum BudgetError {
    /// It is no rate: nothing, no number, or beyond [`RATE_LIMIT`].
    Rate(f64),
    /// No domain has both: cores or ports, and memory.
    NoDomain,
    /// Processor time is no share of a machine, or of no rate.
    Cpu,
    /// There is no port, or no disk, of this name.
    NoDevice(String),
}

impl fmt::Display for BudgetError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Rate(bits) => write!(f, "{bits} bit/s is no rate to reckon with: above 0, and at most a petabit"),
            Self::NoDomain => f.write_str("no domain has memory and cores: there is nothing that content could pass"),
            Self::NoDevice(name) => write!(f, "there is no {} among its ports or disks", plain(name)),
            Self::Cpu => f.write_str("processor time is above 0 and at most 100 % of all cores, at a rate above 0"),
        }
    }
}

impl core::error::Error for BudgetError {}

/// What a rate costs.
#[derive(Clone, PartialEq, Debug)]
pub struct Budget {
    /// What was asked.
    pub ask: BudgetAsk,
    /// The ways that content is sent, in the order of [`ContentWay::all`].
    pub ways: Vec<WayCost>,
    /// The way that crossings are of: that with the most passes.
    pub crossed: ContentWay,
    /// Crossings of each byte sent, by siloing.
    pub crossings: Vec<(Siloing, Crossings)>,
    /// The slots of each silo's ring up to which they stay in the cache; `None` where no cache is known.
    pub ring_slots: Option<u64>,
    /// Processor time.
    pub cpu: Option<CpuCost>,
    /// What was taken for granted.
    pub notes: Vec<String>,
}

/// How often a byte sent goes from one domain to another.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Crossings {
    /// If every choice falls badly.
    pub worst: f64,
    /// By chance.
    pub expected: f64,
}

/// What one way of sending costs.
#[derive(Clone, PartialEq, Debug)]
pub struct WayCost {
    /// Which.
    pub way: ContentWay,
    /// Each pass, with the bytes in a second that memory has of it, and those that cross.
    pub passes: Vec<(MemoryPass, f64, f64)>,
    /// Bytes read from memory in a second.
    pub reads: f64,
    /// Bytes written to it.
    pub writes: f64,
    /// Bytes of all passes that go from one domain to another in a second.
    pub crossing: f64,
    /// What each part of the machine is asked to carry, the fullest first; those of which it is not
    /// known what they carry last.
    pub loads: Vec<Load>,
}

/// What a part of the machine is asked to carry.
#[derive(Clone, PartialEq, Debug)]
pub struct Load {
    /// Which kind of part.
    pub kind: LoadKind,
    /// Which: a domain's number, `0 to 1`, a name.
    pub name: String,
    /// Bytes per second, or percent of processor time.
    pub asked: f64,
    /// What it carries.
    pub carries: Option<PerSecond>,
    /// The content's rate at which it is full, in bits per second.
    pub full_at: Option<f64>,
}

/// A kind of part.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LoadKind {
    /// A domain's memory, reads and writes together.
    Memory,
    /// From one domain to another.
    Fabric,
    /// A port's slot.
    PortPci,
    /// A disk's controller's.
    DiskPci,
    /// A port's link.
    Port,
    /// A disk.
    Disk,
    /// All cores together.
    Cpu,
}

impl LoadKind {
    /// What it is called.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Memory => "memory of domain",
            Self::Fabric => "fabric, domain",
            Self::PortPci | Self::DiskPci => "PCI Express of",
            Self::Port => "port",
            Self::Disk => "disk",
            Self::Cpu => "processor time,",
        }
    }
}

impl WayCost {
    /// What is full first, of what it is known.
    #[must_use]
    pub fn first_limit(&self) -> Option<&Load> {
        self.loads.first().filter(|load| load.full_at.is_some())
    }

    /// All that is full at the rate at which the first is.
    #[must_use]
    pub fn first_limits(&self) -> &[Load] {
        let first = self.first_limit().and_then(|load| load.full_at);
        let alike = |load: &&Load| load.full_at.zip(first).is_some_and(|(rate, first)| rate <= first * (1.0 + 1e-9));
        let count = self.loads.iter().take_while(alike).count();
        &self.loads[..count]
    }

    /// What is asked to carry something, and it is not known how much it carries.
    pub fn unknown(&self) -> impl Iterator<Item = &Load> {
        self.loads.iter().filter(|load| load.full_at.is_none())
    }

    /// Whether what was seen of processor time holds for it.
    #[must_use]
    pub fn has_cpu(&self) -> bool {
        self.loads.iter().any(|load| load.kind == LoadKind::Cpu)
    }

    /// The share of bytes read from memory and written to it that are another domain's.
    #[must_use]
    pub fn remote_share(&self) -> f64 {
        let of = |pass: &(MemoryPass, f64, f64)| if pass.1 > 0.0 { pass.2 } else { 0.0 };
        let (far, all) = (self.passes.iter().map(of).sum::<f64>(), self.reads + self.writes);
        if all > 0.0 { far / all } else { 0.0 }
    }
}

/// Adds up what a rate costs.
///
/// # Errors
/// See [`BudgetError`].
pub fn budget(machine: &BudgetMachine, ask: &BudgetAsk) -> Result<Budget, BudgetError> {
    if !(ask.bits.is_finite() && ask.bits > 0.0 && ask.bits <= RATE_LIMIT) {
        return Err(BudgetError::Rate(ask.bits));
    }
    let works = |domain: &crate::BudgetDomain| domain.cores > 0;
    if !machine.domains.iter().any(works) || !machine.domains.iter().any(|domain| domain.has_memory) {
        return Err(BudgetError::NoDomain);
    }
    let cpu = ask.cpu.or(machine.cpu);
    if cpu.is_some_and(|cpu| !(cpu.percent > 0.0 && cpu.percent <= 100.0 && cpu.bits > 0.0 && cpu.bits <= RATE_LIMIT)) {
        return Err(BudgetError::Cpu);
    }
    let shares = Shares::of(machine, ask.split);
    let routes = FabricRoutes::of(machine);
    let ring_slots = ring_slots(machine);
    let course = Course {
        machine,
        ask,
        shares: &shares,
        routes: &routes,
        ring_fits: ring_slots.is_none_or(|most| ask.ring <= most),
    };
    let ways: Vec<WayCost> = ContentWay::all(ask.tls).iter().map(|way| course.cost(*way, cpu)).collect();
    let crossed = if ask.tls { ContentWay::KernelTls } else { ContentWay::IntoSlot };
    let crossings = Siloing::ALL.map(|siloing| (siloing, course.crossings(siloing, crossed)));
    let mut notes = machine.notes.clone();
    notes.extend(shares.notes.iter().cloned());
    if ways.iter().any(|cost| cost.crossing > 0.0) {
        notes.extend(routes.notes.iter().cloned());
    }
    notes.push(format!(
        "a port's frames are content by {:.1} % at an MTU of {}{}; PCI Express carries packets of 256 bytes with 20 \
         more of what a NIC reads, 24 of what a disk writes",
        100.0 / ask.wire(),
        ask.mtu,
        if ask.tls { " and records of TLS of 16 KiB" } else { "" }
    ));
    Ok(Budget { ask: *ask, ways, crossed, crossings: crossings.to_vec(), ring_slots, cpu, notes })
}

/// So many slots of each silo that what passes between two turns of one fits its share of the cache:
/// the least over the machine's caches, a silo on each physical core.
fn ring_slots(machine: &BudgetMachine) -> Option<u64> {
    let caches = machine.domains.iter().filter_map(|domain| domain.cache);
    caches.map(|(bytes, cores)| bytes / (cores as u64 * CACHE_PASSES * SLOT_BYTES)).min().filter(|slots| *slots > 0)
}

/// What the cost of each way is reckoned from.
struct Course<'a> {
    machine: &'a BudgetMachine,
    ask: &'a BudgetAsk,
    shares: &'a Shares,
    routes: &'a FabricRoutes,
    /// Whether what is sealed into a slot stays in the cache until the NIC has read it.
    ring_fits: bool,
}

impl Course<'_> {
    fn crossings(&self, siloing: Siloing, way: ContentWay) -> Crossings {
        let far = |pass| {
            let parts = self.shares.parts(self.ask, siloing, way, pass);
            parts.iter().filter(|part| part.from != part.to).map(|part| part.share).sum::<f64>()
        };
        // A sum of nothing is -0, which is shown with its sign.
        let expected = way.passes(self.ask.disk).map(far).sum::<f64>() + 0.0;
        Crossings { worst: self.shares.worst(self.ask, siloing, way), expected }
    }

    fn cost(&self, way: ContentWay, cpu: Option<CpuCost>) -> WayCost {
        let Self { machine, ask, shares, routes, .. } = self;
        let rate = ask.bits / 8.0;
        let mut memory = vec![0.0; machine.domains.len()];
        let mut fabric = vec![0.0; routes.parts.len()];
        let mut cost = WayCost { way, passes: Vec::new(), reads: 0.0, writes: 0.0, crossing: 0.0, loads: Vec::new() };
        for pass in way.passes(ask.disk) {
            let is_memory = !(way.in_cache(pass) && self.ring_fits);
            let mut far = 0.0;
            for part in shares.parts(ask, ask.siloing, way, pass) {
                let bytes = rate * part.share;
                memory[part.memory] += if is_memory { bytes } else { 0.0 };
                if part.from != part.to {
                    routes.between(part.from, part.to).iter().for_each(|at| fabric[*at] += bytes);
                    far += bytes;
                }
            }
            let touched = if is_memory { rate } else { 0.0 };
            *(if pass.writes() { &mut cost.writes } else { &mut cost.reads }) += touched;
            cost.crossing += far;
            cost.passes.push((pass, touched, far));
        }
        let mut loads = Vec::new();
        for (domain, asked) in machine.domains.iter().zip(&memory) {
            loads.push(self.load(LoadKind::Memory, domain.number.to_string(), *asked, domain.memory));
        }
        for (part, asked) in routes.parts.iter().zip(&fabric) {
            loads.push(self.load(LoadKind::Fabric, part.name.clone(), *asked, part.carries));
        }
        self.ports(way, &mut loads);
        if ask.disk {
            self.disks(&mut loads);
        }
        if let Some(cpu) = cpu.filter(|cpu| cpu.way.is_none_or(|seen| seen == way)) {
            let asked = cpu.percent_per_gbit() * ask.bits / 1e9;
            let full_at = Some(ask.bits * 100.0 / asked);
            loads.push(Load { kind: LoadKind::Cpu, name: "% of all cores".to_owned(), asked, carries: None, full_at });
        }
        loads.retain(|load| load.asked > 0.0);
        // A sort that keeps the order of equals.
        loads.sort_by(|a, b| a.full_at.unwrap_or(f64::INFINITY).total_cmp(&b.full_at.unwrap_or(f64::INFINITY)));
        cost.loads = loads;
        cost
    }

    fn load(&self, kind: LoadKind, name: String, asked: f64, carries: Option<PerSecond>) -> Load {
        let full_at = carries.filter(|_| asked > 0.0).map(|carries| self.ask.bits * carries.bytes / asked);
        Load { kind, name, asked, carries, full_at }
    }

    /// Each port's link, and each slot's, for which all of its ports count.
    fn ports(&self, way: ContentWay, loads: &mut Vec<Load>) {
        let (ask, ports) = (self.ask, &self.machine.ports);
        let rate = ask.bits / 8.0;
        // What leaves at a domain: in disk-centric siloing, its disks' content.
        let mut leaving = vec![0.0; self.machine.domains.len()];
        for part in self.shares.parts(ask, ask.siloing, way, MemoryPass::NicRead) {
            leaving[part.to] += rate * part.share;
        }
        if ports.is_empty() {
            loads.push(self.load(LoadKind::Port, "(none is known)".to_owned(), rate * ask.wire(), None));
        }
        let all = &self.shares.ports;
        let of = |shares: &Vec<f64>| {
            let parts = shares.iter().zip(&all.domains).zip(&leaving);
            parts.map(|((share, all), leaving)| if *all > 0.0 { leaving * share / all } else { 0.0 }).sum::<f64>()
        };
        let content: Vec<f64> = all.devices.iter().map(of).collect();
        for (port, content) in ports.iter().zip(&content) {
            loads.push(self.load(LoadKind::Port, port.name.clone(), content * ask.wire(), port.rate));
        }
        let slots = ports.iter().zip(&content).map(|(port, content)| Link {
            name: &port.name,
            slot: port.slot.as_deref(),
            carries: port.pci,
            asked: content * ask.frames(FRAME) * MEMORY_TO_PCI,
        });
        for (name, asked, carries) in by_slot(slots) {
            loads.push(self.load(LoadKind::PortPci, name, asked, carries));
        }
    }

    /// Each disk, and each controller's link, for which all of its disks count.
    fn disks(&self, loads: &mut Vec<Load>) {
        let rate = self.ask.bits / 8.0;
        let disks = &self.machine.disks;
        if disks.is_empty() {
            loads.push(self.load(LoadKind::Disk, "(none is known)".to_owned(), rate, None));
        }
        let shares = self.shares.disks.devices.iter().map(|shares| shares.iter().sum::<f64>());
        let shares: Vec<f64> = shares.collect();
        for (disk, share) in disks.iter().zip(&shares) {
            // What is known of a drive by its link alone is told of the link.
            if disk.rate.is_some() || disk.pci.is_none() {
                loads.push(self.load(LoadKind::Disk, disk.name.clone(), rate * share, disk.rate));
            }
        }
        let slots = disks.iter().zip(&shares).filter(|(disk, _)| disk.pci.is_some()).map(|(disk, share)| Link {
            name: &disk.name,
            slot: disk.slot.as_deref(),
            carries: disk.pci,
            asked: rate * share * DISK_TO_PCI,
        });
        for (name, asked, carries) in by_slot(slots) {
            loads.push(self.load(LoadKind::DiskPci, name, asked, carries));
        }
    }
}

/// A device's link of PCI Express, and what the device is asked.
struct Link<'a> {
    name: &'a str,
    slot: Option<&'a str>,
    carries: Option<PerSecond>,
    asked: f64,
}

/// Links by their slots: names, what is asked of all, and what carries it.
fn by_slot<'a>(links: impl Iterator<Item = Link<'a>>) -> Vec<(String, f64, Option<PerSecond>)> {
    let mut found: Vec<(Vec<&str>, Link<'a>)> = Vec::new();
    for link in links {
        match found.iter_mut().find(|(_, first)| first.slot.is_some() && first.slot == link.slot) {
            Some((names, first)) => {
                names.push(link.name);
                first.asked += link.asked;
                first.carries = first.carries.or(link.carries);
            }
            None => found.push((vec![link.name], link)),
        }
    }
    found.into_iter().map(|(names, link)| (names.join(" and "), link.asked, link.carries)).collect()
}
