//! Where a worker over kernel sockets is, and where its packets come in.
//!
//! The kernel tells of a connection on which core it took in the last packet,
//! and nothing of the memory that it had it in. So this is looked at now and
//! then, and is not an account of every byte as that of a silo.

use super::near::TOLD_MAX;
use crate::published::Take;
use core::time::Duration;
use server::Server;
use sockets::Worker;
use std::sync::Arc;
use topology::Topology;
use wire::Time;

/// How often a worker looks.
const EVERY: Duration = Duration::from_millis(100);

/// Connections that it looks at then, a system call each: 640 in a second.
const AT_ONCE: usize = 64;

/// What the number of connections found with their packets coming in on a
/// domain's cores is called.
pub const SEEN: &str = "numa.seen";

/// One worker's part.
pub struct Arrivals {
    /// Pinned or not, core, domain.
    place: [u64; 3],
    domains: Arc<Domains>,
    /// How often a connection was found with its packets on each domain.
    seen: Vec<u64>,
    /// The slot to look at next.
    slot: usize,
    due: Time,
}

/// The machine's domains, where it has several.
struct Domains {
    /// The index of each core's domain.
    of_core: Vec<Option<usize>>,
    names: Vec<&'static str>,
}

impl Arrivals {
    /// For workers on these cores.
    pub fn at(seats: &[Option<u16>]) -> Vec<Self> {
        // Without sysfs, everything is in one place as far as anyone knows.
        Self::on(&Topology::here().unwrap_or_default(), seats)
    }

    /// For workers on these cores of a machine.
    pub fn on(topology: &Topology, seats: &[Option<u16>]) -> Vec<Self> {
        let domains = Arc::new(Domains::of(topology));
        let one = |core: &Option<u16>| {
            let number = |value: Option<u16>| value.map_or(0, u64::from);
            let domain = core.and_then(|core| topology.domain_of(core));
            Self {
                place: [u64::from(core.is_some()), number(*core), number(domain)],
                seen: vec![0; domains.names.len()],
                domains: Arc::clone(&domains),
                slot: 0,
                due: Time::ZERO,
            }
        };
        seats.iter().map(one).collect()
    }

    /// Looks at some connections, if it is time, and the machine has several
    /// domains.
    pub fn look(&mut self, now: Time, worker: &Worker<Server>) {
        if self.seen.is_empty() || now < self.due {
            return;
        }
        self.due = now + EVERY;
        let Self { domains, seen, .. } = self;
        self.slot = worker.incoming(self.slot, AT_ONCE, &mut |core| domains.note(seen, core));
    }

    /// Tells every value with its name.
    pub fn values(&self, take: Take<'_>) {
        ["silo.pinned", "silo.core", "silo.domain"].into_iter().zip(self.place).for_each(|(name, it)| take(name, it));
        self.domains.names.iter().zip(&self.seen).for_each(|(name, count)| take(name, *count));
    }
}

impl Domains {
    fn of(topology: &Topology) -> Self {
        let told = &topology.domains[..topology.domains.len().min(TOLD_MAX)];
        if told.len() < 2 {
            return Self { of_core: Vec::new(), names: Vec::new() };
        }
        let place = |core: u16| {
            let domain = topology.domain_of(core)?;
            told.iter().position(|other| other.number == domain)
        };
        let last = topology.cores.iter().map(|core| core.number).max();
        // The page keeps the names for as long as the process lives.
        let name = |domain: &topology::Domain| &*format!("{SEEN}.{}", domain.number).leak();
        Self {
            of_core: last.map_or(Vec::new(), |last| (0..=last).map(place).collect()),
            names: told.iter().map(name).collect(),
        }
    }

    fn note(&self, seen: &mut [u64], core: u32) {
        let place = usize::try_from(core).ok().and_then(|core| *self.of_core.get(core)?);
        if let Some(count) = place.and_then(|place| seen.get_mut(place)) {
            *count += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use topology::Recording;

    #[test]
    fn packets_are_counted_by_the_domain_of_their_core() {
        let text = "sys/devices/system/cpu/possible 0-3\n\
                    sys/devices/system/node/node0/cpulist 0-1\nsys/devices/system/node/node4/cpulist 2-3\n";
        let topology = Topology::of(&Recording::parse(text).unwrap(), None).unwrap();
        let mut workers = Arrivals::on(&topology, &[Some(3), None]);
        let first = &mut workers[0];
        // The last is of a core that nobody knows.
        [0, 2, 3, 3, 900].into_iter().for_each(|core| first.domains.note(&mut first.seen, core));
        let mut values = Vec::new();
        workers.iter().for_each(|worker| worker.values(&mut |name, value| values.push((name, value))));
        assert_eq!(values[..3], [("silo.pinned", 1), ("silo.core", 3), ("silo.domain", 4)]);
        assert_eq!(values[3..5], [("numa.seen.0", 1), ("numa.seen.4", 3)]);
        assert_eq!((values[5], values[8]), (("silo.pinned", 0), ("numa.seen.0", 0)));
    }

    #[test]
    fn one_domain_has_nothing_to_look_for() {
        let text = "sys/devices/system/cpu/possible 0-1\nsys/devices/system/node/node0/cpulist 0-1\n";
        let topology = Topology::of(&Recording::parse(text).unwrap(), None).unwrap();
        let workers = Arrivals::on(&topology, &[Some(1)]);
        let mut names = Vec::new();
        workers[0].values(&mut |name, _| names.push(name));
        assert_eq!(names, ["silo.pinned", "silo.core", "silo.domain"]);
    }
}
