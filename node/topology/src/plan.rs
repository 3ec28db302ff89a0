//! Who works where: the silos' cores, memory and queues.

mod cores;
mod error;
mod queues;
#[cfg(test)]
mod tests;

pub use error::{PlanError, Warning};

use crate::Topology;

/// The most silos of one process.
pub const MAX_SILOS: usize = 1_024;

/// The most ports of one process.
pub const MAX_PORTS: usize = 64;

/// What is wanted.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Ask {
    /// The ports that frames come from and go to; at least one.
    pub ports: Vec<Port>,
    /// How many silos, or where.
    pub silos: Silos,
    /// Whether silos, queues and memory are kept together by domain. If not,
    /// silos take the cores in the order of their numbers, queues go round all
    /// silos, and memory is interleaved over all domains: what a server does
    /// that knows nothing of them, for comparison.
    pub numa: bool,
}

/// A NIC's port, or another link.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Port {
    /// Its name, for messages.
    pub name: String,
    /// The domain that it is attached to; `None` for one that is nowhere in
    /// particular, such as shared memory.
    pub domain: Option<u16>,
    /// Its queue pairs.
    pub queues: Queues,
}

/// How many queue pairs a port has.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Queues {
    /// So many, each of which must be served: frames come by all.
    Fixed(u16),
    /// As many as are wanted, up to this; the plan says how many.
    UpTo(u16),
}

/// How many silos, or where.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Silos {
    /// One for each physical core of the ports' domains, but no more than
    /// there are queues. Where there are more than two physical cores, the
    /// first is left for interrupts and helper threads.
    Auto,
    /// So many, on the best cores: physical cores of the ports' domains first
    /// (the machine's first core last of them, as it has other work), then
    /// these cores' siblings, then other domains, then cores once more.
    Count(u16),
    /// One on each of these cores, in this order.
    On(Vec<u16>),
}

/// Who works where.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Plan {
    /// The silos, by index; at least one.
    pub silos: Vec<PlannedSilo>,
    /// The queue pairs to open on each port, in the order of [`Ask::ports`]:
    /// at least one each. Each of these has exactly one owner.
    pub queues: Vec<u16>,
    /// What is not as one would wish it, and why.
    pub warnings: Vec<Warning>,
}

/// Where a silo is.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PlannedSilo {
    /// The core it is pinned to.
    pub core: u16,
    /// That core's domain.
    pub domain: u16,
    /// Where its memory is to be.
    pub memory: Memory,
    /// The domain whose ports it serves: its own where that has any.
    pub home: u16,
    /// Its queues; it has none where there are fewer queues than silos.
    pub queues: Vec<Queue>,
    /// The ports that its connections' frames leave by: those of its home,
    /// and those that are nowhere in particular; all ports if there are none.
    /// Indices into [`Ask::ports`], ascending.
    pub egress: Vec<u16>,
}

/// Where memory is to be.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Memory {
    /// In this domain.
    Domain(u16),
    /// Page by page over all domains.
    Interleave,
}

/// A queue pair of a port.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Queue {
    /// The port's index in [`Ask::ports`].
    pub port: u16,
    /// The queue pair's number, from zero.
    pub queue: u16,
}

/// Assigns cores, domains and queues to silos.
///
/// Silos sit on cores of the ports' domains, and a port's queues go to silos
/// of its domain, evenly. Where a domain has ports and no silo, or a silo and
/// no port, the nearest is taken instead, and said so in a warning: each frame
/// of it crosses. Every queue has one owner; no silo is without queue while
/// another of its home has two of one port.
///
/// # Errors
/// See [`PlanError`]: what is wanted cannot be had at all.
pub fn plan(topology: &Topology, ask: &Ask) -> Result<Plan, PlanError> {
    check(ask)?;
    let ports = placed(topology, ask);
    let mut warnings = Vec::new();
    let cores = cores::choose(topology, ask, &ports, &mut warnings)?;
    let mut silos: Vec<PlannedSilo> = cores.into_iter().map(|core| seat(topology, ask, &ports, core)).collect();
    queues::tell_homes(topology, &silos, &ports, &mut warnings);
    let queues = queues::assign(topology, ask, &ports, &mut silos, &mut warnings);
    Ok(Plan { silos, queues, warnings })
}

impl Plan {
    /// The queues whose port is in another domain than the silo that owns
    /// them.
    #[must_use]
    pub fn crossing(&self, ports: &[Port]) -> usize {
        let crosses = |seat: &PlannedSilo, queue: &Queue| {
            let domain = ports.get(usize::from(queue.port)).and_then(|port| port.domain);
            domain.is_some_and(|domain| domain != seat.domain)
        };
        self.silos.iter().map(|seat| seat.queues.iter().filter(|queue| crosses(seat, queue)).count()).sum()
    }

    /// The silo that owns a queue.
    #[must_use]
    pub fn owner(&self, queue: Queue) -> Option<usize> {
        self.silos.iter().position(|seat| seat.queues.contains(&queue))
    }
}

/// What can be said to be impossible without looking at the machine.
fn check(ask: &Ask) -> Result<(), PlanError> {
    if ask.ports.is_empty() || ask.ports.len() > MAX_PORTS {
        return Err(PlanError::Ports(ask.ports.len()));
    }
    let empty = |port: &&Port| matches!(port.queues, Queues::Fixed(0) | Queues::UpTo(0));
    if let Some(port) = ask.ports.iter().find(empty) {
        return Err(PlanError::NoQueues(port.name.clone()));
    }
    let count = match &ask.silos {
        Silos::Auto => 1,
        Silos::Count(count) => usize::from(*count),
        Silos::On(cores) => cores.len(),
    };
    if count == 0 || count > MAX_SILOS { Err(PlanError::Silos(count)) } else { Ok(()) }
}

/// The ports' domains as far as they count: those of this machine, and none
/// where domains are not to be looked at.
fn placed(topology: &Topology, ask: &Ask) -> Vec<Option<u16>> {
    let known = |port: &Port| port.domain.filter(|domain| ask.numa && topology.domain(*domain).is_some());
    ask.ports.iter().map(known).collect()
}

fn seat(topology: &Topology, ask: &Ask, ports: &[Option<u16>], core: u16) -> PlannedSilo {
    // Every usable core has one, but where sysfs contradicts itself.
    let domain = topology.domain_of(core).unwrap_or_else(|| topology.domains.first().map_or(0, |first| first.number));
    let nearest = topology.nearest(domain);
    let home = nearest.iter().copied().find(|near| ports.contains(&Some(*near))).unwrap_or(domain);
    let has_memory = |number: &u16| topology.domain(*number).is_some_and(|domain| domain.memory_total > 0);
    let memory = match ask.numa {
        true => Memory::Domain(nearest.iter().copied().find(has_memory).unwrap_or(domain)),
        false => Memory::Interleave,
    };
    let all = 0..ports.len() as u16;
    let near = |port: &u16| ports.get(usize::from(*port)).is_some_and(|at| at.is_none_or(|at| at == home));
    let egress: Vec<u16> = all.clone().filter(near).collect();
    let egress = if egress.is_empty() { all.collect() } else { egress };
    PlannedSilo { core, domain, memory, home, queues: Vec::new(), egress }
}
