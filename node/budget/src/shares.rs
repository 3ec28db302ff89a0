//! Which part of the content is at which domain, on its way from the disk to the port.

use crate::ask::BudgetAsk;
use crate::machine::BudgetMachine;
use crate::passes::{ContentWay, MemoryPass};
use crate::siloing::{PortSplit, Siloing};

/// Shares of one of devices, and of their domains.
pub struct Placed {
    /// Of each device and domain: of a device whose domain is not known, of several.
    pub devices: Vec<Vec<f64>>,
    /// By domain, in the order of [`BudgetMachine::domains`].
    pub domains: Vec<f64>,
}

/// Shares of one by domain, in the order of [`BudgetMachine::domains`].
pub struct Shares {
    /// Of what comes from disks.
    pub disks: Placed,
    /// Of what leaves by ports.
    pub ports: Placed,
    /// Of cores that work.
    cores: Vec<f64>,
    /// Of memory, page by page over all domains that have some.
    memory: Vec<f64>,
    /// For each domain the nearest with cores: where a silo for it is.
    worker: Vec<usize>,
    /// For each domain the nearest with memory: where buffers for its cores are.
    home: Vec<usize>,
    /// What was not known, and taken for even.
    pub notes: Vec<String>,
}

/// A part of what passes: from a domain, to a domain, of the memory of a domain, by index.
pub struct Part {
    pub from: usize,
    pub to: usize,
    pub memory: usize,
    pub share: f64,
    /// What it belongs to: the port's domain, the content's, or everything.
    of: usize,
}

impl Shares {
    pub fn of(machine: &BudgetMachine, split: PortSplit) -> Self {
        let domains = &machine.domains;
        let mut notes = Vec::new();
        let cores = normal(domains.iter().map(|domain| domain.cores as f64).collect());
        let memory = normal(domains.iter().map(|domain| f64::from(u8::from(domain.has_memory))).collect());
        let rates: Vec<Option<f64>> = machine.ports.iter().map(|port| port.rate.map(|rate| rate.bytes)).collect();
        let ports = machine.ports.iter().zip(&rates).map(|(port, rate)| Device {
            name: &port.name,
            domain: port.domain,
            weight: if split == PortSplit::Even { Some(1.0) } else { *rate },
        });
        let ports = placed(machine, &ports.collect::<Vec<_>>(), "port", &cores, &mut notes);
        let (least, most) =
            rates.iter().flatten().fold((f64::MAX, 0.0_f64), |(a, b), rate| (a.min(*rate), b.max(*rate)));
        if split == PortSplit::Even && most > least * (1.0 + 1e-9) {
            notes.push(
                "traffic is split evenly over ports that are not equal, as a hash of flows does: the slowest is full \
                 first; --split rate for one by their rates (--bond with weights=, and the other side alike)"
                    .to_owned(),
            );
        }
        let disks = machine.disks.iter().map(|disk| Device {
            name: &disk.name,
            domain: disk.domain,
            weight: machine.content_of(disk),
        });
        let disks = placed(machine, &disks.collect::<Vec<_>>(), "disk", &cores, &mut notes);
        let nearest = |has: &dyn Fn(usize) -> bool| {
            let find = |from: usize| {
                let there = (0..domains.len()).filter(|to| has(*to));
                there.min_by_key(|to| (machine.steps(from, *to), *to)).unwrap_or(from)
            };
            (0..domains.len()).map(find).collect::<Vec<usize>>()
        };
        let worker = nearest(&|at| domains[at].cores > 0);
        let home = nearest(&|at| domains[at].has_memory);
        Self { disks, ports, cores, memory, worker, home, notes }
    }

    /// How often a byte crosses if every choice falls badly.
    pub fn worst(&self, ask: &BudgetAsk, siloing: Siloing, way: ContentWay) -> f64 {
        let mut crossings = vec![0.0; self.cores.len()];
        for pass in way.passes(ask.disk) {
            let mut is_far = vec![false; self.cores.len()];
            for part in self.parts(ask, siloing, way, pass) {
                is_far[part.of] |= part.from != part.to && part.share > 0.0;
            }
            crossings.iter_mut().zip(is_far).for_each(|(sum, far)| *sum += f64::from(u8::from(far)));
        }
        crossings.into_iter().fold(0.0, f64::max)
    }

    /// Where the content goes in a pass.
    pub fn parts(&self, ask: &BudgetAsk, siloing: Siloing, way: ContentWay, pass: MemoryPass) -> Vec<Part> {
        let disks = &self.disks.domains;
        match siloing {
            Siloing::No => match pass {
                MemoryPass::DiskWrite => across(disks, &self.memory, true),
                MemoryPass::CipherRead => across(&self.memory, &self.cores, false),
                MemoryPass::CipherWrite => across(&self.cores, &self.memory, true),
                MemoryPass::NicRead => across(&self.memory, &self.ports.domains, false),
            },
            Siloing::Network => {
                let ports = self.ports.domains.iter().enumerate().filter(|(_, share)| **share > 0.0);
                ports.flat_map(|(port, share)| self.of_port(ask, way, pass, port, *share)).collect()
            }
            Siloing::Disk => {
                let content = if ask.disk { disks } else { &self.memory };
                let content = content.iter().enumerate().filter(|(_, share)| **share > 0.0);
                content.flat_map(|(at, share)| self.of_content(ask, way, pass, at, *share)).collect()
            }
        }
    }

    /// What leaves by a domain's ports, from the silos that are nearest to it, and their memory.
    fn of_port(&self, ask: &BudgetAsk, way: ContentWay, pass: MemoryPass, port: usize, share: f64) -> Vec<Part> {
        let worker = self.worker[port];
        let home = self.home[worker];
        let part = |from, to, memory, share| Part { from, to, memory, share, of: port };
        // A page of content lies once, wherever that was, unless each domain has its own copy.
        let lies_once = !ask.disk && !ask.copies;
        let pages = |to: usize| {
            let pages = self.memory.iter().enumerate();
            pages.map(|(page, of)| part(page, to, page, share * of)).collect()
        };
        match pass {
            MemoryPass::DiskWrite => {
                let disks = self.disks.domains.iter().enumerate();
                disks.map(|(disk, of)| part(disk, home, home, share * of)).collect()
            }
            MemoryPass::CipherRead if lies_once => pages(worker),
            MemoryPass::CipherRead => vec![part(home, worker, home, share)],
            MemoryPass::CipherWrite => vec![part(worker, home, home, share)],
            MemoryPass::NicRead if lies_once && way == ContentWay::Sendfile => pages(port),
            MemoryPass::NicRead => vec![part(home, port, home, share)],
        }
    }

    /// What comes from a domain's disks, or lies in its memory. It leaves by that domain's ports; by
    /// all, where that has none.
    fn of_content(&self, ask: &BudgetAsk, way: ContentWay, pass: MemoryPass, at: usize, share: f64) -> Vec<Part> {
        let worker = self.worker[at];
        let home = self.home[worker];
        let content = if ask.disk { home } else { at };
        let part = |from, to, memory, share| Part { from, to, memory, share, of: at };
        match pass {
            MemoryPass::DiskWrite => vec![part(at, content, content, share)],
            MemoryPass::CipherRead => vec![part(content, worker, content, share)],
            MemoryPass::CipherWrite => vec![part(worker, home, home, share)],
            MemoryPass::NicRead => {
                let from = if way == ContentWay::Sendfile { content } else { home };
                if self.ports.domains[at] > 0.0 {
                    return vec![part(from, at, from, share)];
                }
                let ports = self.ports.domains.iter().enumerate();
                ports.map(|(to, of)| part(from, to, from, share * of)).collect()
            }
        }
    }
}

/// Each end by its own shares, the memory at the second end, or at the first.
fn across(first: &[f64], second: &[f64], memory_second: bool) -> Vec<Part> {
    let mut parts = Vec::with_capacity(first.len() * second.len());
    for (from, a) in first.iter().enumerate() {
        for (to, b) in second.iter().enumerate() {
            parts.push(Part { from, to, memory: if memory_second { to } else { from }, share: a * b, of: 0 });
        }
    }
    parts
}

/// A port or a disk: what is known of it.
struct Device<'a> {
    name: &'a str,
    domain: Option<u16>,
    weight: Option<f64>,
}

/// Shares of devices by their weights; one whose weight is not known has the others' average, and
/// one whose domain is not known is in each as the cores are.
fn placed(
    machine: &BudgetMachine,
    devices: &[Device<'_>],
    what: &str,
    cores: &[f64],
    notes: &mut Vec<String>,
) -> Placed {
    if devices.is_empty() {
        notes.push(format!("no {what} is known: content is spread as the cores are"));
        return Placed { devices: Vec::new(), domains: cores.to_vec() };
    }
    let known: Vec<f64> = devices.iter().filter_map(|device| device.weight).collect();
    let usual = if known.is_empty() { 1.0 } else { known.iter().sum::<f64>() / known.len() as f64 };
    let weights = normal(devices.iter().map(|device| device.weight.unwrap_or(usual)).collect());
    let names = |lacks: &dyn Fn(&Device<'_>) -> bool| {
        let those: Vec<&str> = devices.iter().filter(|device| lacks(device)).map(|device| device.name).collect();
        (!those.is_empty()).then(|| those.join(", "))
    };
    match names(&|device| device.weight.is_none()) {
        Some(_) if known.is_empty() => notes.push(format!("no rate of a {what} is known: each has the same share")),
        Some(those) => notes.push(format!("the rate of {what} {those} is not known: taken as the others' average")),
        None => {}
    }
    let place = |device: &Device<'_>| machine.domains.iter().position(|one| Some(one.number) == device.domain);
    if let Some(those) = names(&|device| place(device).is_none()) {
        notes.push(format!("the domain of {what} {those} is not known: it is taken to be in each, as the cores are"));
    }
    let one = |(device, weight): (&Device<'_>, f64)| match place(device) {
        Some(at) => (0..cores.len()).map(|other| if other == at { weight } else { 0.0 }).collect(),
        None => cores.iter().map(|share| share * weight).collect(),
    };
    let devices: Vec<Vec<f64>> = devices.iter().zip(weights).map(one).collect();
    let sum = |at: usize| devices.iter().map(|shares| shares[at]).sum();
    let domains = (0..cores.len()).map(sum).collect();
    Placed { devices, domains }
}

/// Shares that are one together; even ones of nothing.
fn normal(mut weights: Vec<f64>) -> Vec<f64> {
    let sum: f64 = weights.iter().sum();
    let even = 1.0 / weights.len().max(1) as f64;
    let is_sum = sum.is_finite() && sum > 0.0;
    weights.iter_mut().for_each(|weight| *weight = if is_sum { *weight / sum } else { even });
    weights
}
