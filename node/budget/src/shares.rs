//! Which part of the content is at which domain, on its way from the disk to the port.

use crate::machine::BudgetMachine;
use crate::passes::MemoryPass;

/// What keeps a connection's work in one domain.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Siloing {
    /// Nothing does.
    No,
    /// Memory, cores and port are those of the domain that a connection's packets come to.
    Network,
    /// They are those of the domain that the content's disk is in. A model only.
    Disk,
}

impl Siloing {
    /// All, as they are compared.
    pub const ALL: [Self; 3] = [Self::No, Self::Network, Self::Disk];

    /// As an option has it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::No => "no",
            Self::Network => "network",
            Self::Disk => "disk",
        }
    }

    /// Why nobody serves in this way, if so.
    #[must_use]
    pub const fn why_not(self) -> Option<&'static str> {
        match self {
            Self::Disk => Some(
                "a model only, which cannot be served: which content is asked for is known after the connection has \
                 come to a domain; the partner of the aggregation (LACP) chose the port by its own hash; and a client \
                 asks for the next content on the same connection",
            ),
            _ => None,
        }
    }
}

/// Shares of one by domain, in the order of [`BudgetMachine::domains`].
pub struct Shares {
    /// Of what comes from disks.
    pub disks: Vec<f64>,
    /// Of what leaves by ports.
    pub ports: Vec<f64>,
    /// Of cores that work.
    cores: Vec<f64>,
    /// Of memory, page by page over all domains that have some.
    memory: Vec<f64>,
    /// What was not known, and taken for even.
    pub notes: Vec<String>,
}

/// A part of what passes: from a domain, to a domain, of the memory of a domain, by index.
pub struct Part {
    pub from: usize,
    pub to: usize,
    pub memory: usize,
    pub share: f64,
}

impl Shares {
    pub fn of(machine: &BudgetMachine) -> Self {
        let domains = &machine.domains;
        let mut notes = Vec::new();
        let cores: Vec<f64> = domains.iter().map(|domain| domain.cores as f64).collect();
        let cores = normal(cores);
        let memory = normal(domains.iter().map(|domain| f64::from(u8::from(domain.has_memory))).collect());
        let ports = machine.ports.iter().map(|port| (port.domain, port.rate.map(|rate| rate.bytes)));
        let ports = placed(machine, ports.collect(), "port", &cores, &mut notes);
        let disks = machine.disks.iter().map(|disk| (disk.domain, disk.most().map(|most| most.bytes)));
        let disks = placed(machine, disks.collect(), "disk", &cores, &mut notes);
        Self { disks, ports, cores, memory, notes }
    }

    /// Whether content can be in one domain at one end of a pass and in another at the other.
    pub fn worst(&self, siloing: Siloing, pass: MemoryPass) -> f64 {
        let crosses = self.parts(siloing, pass).iter().any(|part| part.from != part.to && part.share > 0.0);
        f64::from(u8::from(crosses))
    }

    /// Where the content goes in a pass.
    pub fn parts(&self, siloing: Siloing, pass: MemoryPass) -> Vec<Part> {
        let near = |shares: &[f64]| {
            shares.iter().enumerate().map(|(at, share)| Part { from: at, to: at, memory: at, share: *share }).collect()
        };
        match (siloing, pass) {
            (Siloing::No, MemoryPass::DiskWrite) => across(&self.disks, &self.memory, true),
            (Siloing::No, MemoryPass::CipherRead) => across(&self.memory, &self.cores, false),
            (Siloing::No, MemoryPass::CipherWrite) => across(&self.cores, &self.memory, true),
            (Siloing::No, MemoryPass::NicRead) => across(&self.memory, &self.ports, false),
            (Siloing::Network, MemoryPass::DiskWrite) => across(&self.disks, &self.ports, true),
            (Siloing::Network, _) => near(&self.ports),
            (Siloing::Disk, MemoryPass::NicRead) => self.leaving(),
            (Siloing::Disk, _) => near(&self.disks),
        }
    }

    /// Content of a disk leaves by its domain's ports; by all, where that has none.
    fn leaving(&self) -> Vec<Part> {
        let mut parts = Vec::new();
        for (from, share) in self.disks.iter().enumerate() {
            if self.ports.get(from).is_some_and(|port| *port > 0.0) {
                parts.push(Part { from, to: from, memory: from, share: *share });
                continue;
            }
            let ports = self.ports.iter().enumerate();
            parts.extend(ports.map(|(to, port)| Part { from, to, memory: from, share: share * port }));
        }
        parts
    }
}

/// Each end by its own shares, the memory at the second end, or at the first.
fn across(first: &[f64], second: &[f64], memory_second: bool) -> Vec<Part> {
    let mut parts = Vec::with_capacity(first.len() * second.len());
    for (from, a) in first.iter().enumerate() {
        for (to, b) in second.iter().enumerate() {
            parts.push(Part { from, to, memory: if memory_second { to } else { from }, share: a * b });
        }
    }
    parts
}

/// Shares of devices by domain, by their rates where all of these are known; as the cores are,
/// where no device is known to be anywhere.
fn placed(
    machine: &BudgetMachine,
    devices: Vec<(Option<u16>, Option<f64>)>,
    what: &str,
    cores: &[f64],
    notes: &mut Vec<String>,
) -> Vec<f64> {
    let mut shares = vec![0.0; machine.domains.len()];
    let all_known = devices.iter().all(|(_, rate)| rate.is_some());
    for (domain, rate) in &devices {
        let at = machine.domains.iter().position(|one| Some(one.number) == *domain);
        if let Some(share) = at.and_then(|at| shares.get_mut(at)) {
            *share += rate.filter(|_| all_known).unwrap_or(1.0);
        }
    }
    if shares.iter().all(|share| *share <= 0.0) {
        notes.push(format!("no {what} is known to be in a domain: content is spread as the cores are"));
        return cores.to_vec();
    }
    if !all_known {
        notes.push(format!("the rate of a {what} is not known: each {what} has the same share"));
    }
    normal(shares)
}

/// Shares that are one together; even ones of nothing.
fn normal(mut weights: Vec<f64>) -> Vec<f64> {
    let sum: f64 = weights.iter().sum();
    let even = 1.0 / weights.len().max(1) as f64;
    let is_sum = sum.is_finite() && sum > 0.0;
    weights.iter_mut().for_each(|weight| *weight = if is_sum { *weight / sum } else { even });
    weights
}
