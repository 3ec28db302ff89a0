//! What a rate asks of each part of a machine, and which part is full first.

use crate::machine::{BudgetMachine, CpuCost, PerSecond};
use crate::passes::{ContentWay, MemoryPass};
use crate::shares::{Shares, Siloing};
use core::fmt;

/// The highest rate that a budget is made for, in bits per second: far above what any machine sends.
pub const RATE_LIMIT: f64 = 1e15;

/// Bytes of a slot that a full frame touches: 1,514, in whole lines of the cache.
const SLOT_BYTES: u64 = 1_536;

/// What passes the cache beside each byte of a slot until the slot's turn comes again: itself, and
/// the content that it was sealed from.
const CACHE_PASSES: u64 = 2;

/// What is asked.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct BudgetAsk {
    /// Bits per second of content.
    pub bits: f64,
    /// Content is encrypted.
    pub tls: bool,
    /// Content comes from disks, rather than from memory.
    pub disk: bool,
    /// What keeps a connection in one domain.
    pub siloing: Siloing,
    /// Processor time that somebody saw; `None`: what the machine's own figures say.
    pub cpu: Option<CpuCost>,
}

/// Why there is no budget.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum BudgetError {
    /// It is no rate: nothing, no number, or beyond [`RATE_LIMIT`].
    Rate(f64),
    /// No domain has both: cores or ports, and memory.
    NoDomain,
    /// Processor time is no share of a machine, or of no rate.
    Cpu,
}

impl fmt::Display for BudgetError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Rate(bits) => write!(f, "{bits} bit/s is no rate to reckon with: above 0, and at most a petabit"),
            Self::NoDomain => f.write_str("no domain has memory and cores: there is nothing that content could pass"),
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
    /// Crossings of each byte sent, by siloing, of the way with the most passes.
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
            Self::PortPci => "PCI Express of",
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
    let shares = Shares::of(machine);
    let ways: Vec<WayCost> =
        ContentWay::all(ask.tls).iter().map(|way| cost(machine, ask, &shares, *way, cpu)).collect();
    let most = if ask.tls { ContentWay::KernelTls } else { ContentWay::IntoSlot };
    let crossings = Siloing::ALL.map(|siloing| (siloing, crossings(&shares, siloing, most, ask.disk)));
    let mut notes = machine.notes.clone();
    notes.extend(shares.notes);
    Ok(Budget { ask: *ask, ways, crossings: crossings.to_vec(), ring_slots: ring_slots(machine), cpu, notes })
}

fn crossings(shares: &Shares, siloing: Siloing, way: ContentWay, disk: bool) -> Crossings {
    let (mut worst, mut expected) = (0.0, 0.0);
    for pass in way.passes(disk) {
        let parts = shares.parts(siloing, pass);
        expected += parts.iter().filter(|part| part.from != part.to).map(|part| part.share).sum::<f64>();
        worst += shares.worst(siloing, pass);
    }
    Crossings { worst, expected }
}

/// So many slots of each silo that what passes between two turns of one fits its share of the cache:
/// the least over the machine's caches, a silo on each physical core.
fn ring_slots(machine: &BudgetMachine) -> Option<u64> {
    let caches = machine.domains.iter().filter_map(|domain| domain.cache);
    caches.map(|(bytes, cores)| bytes / (cores as u64 * CACHE_PASSES * SLOT_BYTES)).min().filter(|slots| *slots > 0)
}

fn cost(machine: &BudgetMachine, ask: &BudgetAsk, shares: &Shares, way: ContentWay, cpu: Option<CpuCost>) -> WayCost {
    let rate = ask.bits / 8.0;
    let count = machine.domains.len();
    let mut memory = vec![0.0; count];
    let mut ways = vec![vec![0.0; count]; count];
    let mut cost = WayCost { way, passes: Vec::new(), reads: 0.0, writes: 0.0, crossing: 0.0, loads: Vec::new() };
    for pass in way.passes(ask.disk) {
        let is_memory = !way.in_cache(pass);
        let mut far = 0.0;
        for part in shares.parts(ask.siloing, pass) {
            let bytes = rate * part.share;
            memory[part.memory] += if is_memory { bytes } else { 0.0 };
            if part.from != part.to {
                ways[part.from][part.to] += bytes;
                far += bytes;
            }
        }
        let touched = if is_memory { rate } else { 0.0 };
        *(if pass.writes() { &mut cost.writes } else { &mut cost.reads }) += touched;
        cost.crossing += far;
        cost.passes.push((pass, touched, far));
    }
    let load = |kind, name: String, asked: f64, carries: Option<PerSecond>| Load {
        kind,
        name,
        asked,
        carries,
        full_at: carries.filter(|_| asked > 0.0).map(|carries| ask.bits * carries.bytes / asked),
    };
    let mut loads = Vec::new();
    for (domain, asked) in machine.domains.iter().zip(&memory) {
        loads.push(load(LoadKind::Memory, domain.number.to_string(), *asked, domain.memory));
    }
    for (from, to, asked) in
        ways.iter().enumerate().flat_map(|(from, to)| to.iter().enumerate().map(move |(to, asked)| (from, to, *asked)))
    {
        let (from, to) = (machine.domains[from].number, machine.domains[to].number);
        let known = machine.fabric.iter().find(|way| (way.from, way.to) == (from, to));
        loads.push(load(LoadKind::Fabric, format!("{from} to {to}"), asked, known.map(|way| way.rate)));
    }
    loads.extend(devices(machine, ask, shares, &load));
    if let Some(cpu) = cpu {
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

/// Ports with their slots, and disks: each has its part of what its domain has.
fn devices(
    machine: &BudgetMachine,
    ask: &BudgetAsk,
    shares: &Shares,
    load: &impl Fn(LoadKind, String, f64, Option<PerSecond>) -> Load,
) -> Vec<Load> {
    let rate = ask.bits / 8.0;
    let at = |domain: Option<u16>| machine.domains.iter().position(|one| Some(one.number) == domain);
    // What leaves at a domain: in disk-centric siloing, its disks' content.
    let mut leaving = vec![0.0; machine.domains.len()];
    for part in shares.parts(ask.siloing, MemoryPass::NicRead) {
        leaving[part.to] += rate * part.share;
    }
    let mut loads = Vec::new();
    let all = machine.ports.iter().all(|port| port.rate.is_some());
    let weight = |port: &crate::BudgetPort| port.rate.filter(|_| all).map_or(1.0, |rate| rate.bytes);
    for port in &machine.ports {
        let Some(place) = at(port.domain) else { continue };
        let those = machine.ports.iter().filter(|other| other.domain == port.domain);
        let asked = leaving[place] * weight(port) / those.map(weight).sum::<f64>();
        loads.push(load(LoadKind::Port, port.name.clone(), asked, port.rate));
        loads.push(load(LoadKind::PortPci, port.name.clone(), asked, port.pci));
    }
    let all = machine.disks.iter().all(|disk| disk.most().is_some());
    let weight = |disk: &crate::BudgetDisk| disk.most().filter(|_| all).map_or(1.0, |most| most.bytes);
    for disk in machine.disks.iter().filter(|_| ask.disk) {
        let Some(place) = at(disk.domain) else { continue };
        let those = machine.disks.iter().filter(|other| other.domain == disk.domain);
        let asked = rate * shares.disks[place] * weight(disk) / those.map(weight).sum::<f64>();
        loads.push(load(LoadKind::Disk, disk.name.clone(), asked, disk.most()));
    }
    loads
}
