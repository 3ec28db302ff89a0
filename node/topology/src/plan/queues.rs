//! Which queues the silos get.

use super::{Ask, Memory, PlannedSilo, Queue, Queues, Warning};
use crate::Topology;

/// Gives every queue of every port one owner. Returns how many queues each
/// port is to have.
pub fn assign(
    topology: &Topology,
    ask: &Ask,
    ports: &[Option<u16>],
    silos: &mut [PlannedSilo],
    warnings: &mut Vec<Warning>,
) -> Vec<u16> {
    let mut opened = Vec::with_capacity(ask.ports.len());
    for (at, (port, domain)) in ask.ports.iter().zip(ports).enumerate() {
        let eligible = serving(topology, *domain, silos);
        if let Some(domain) = *domain
            && let Some(seat) = eligible.first().and_then(|first| silos.get(*first))
            && !silos.iter().any(|seat| seat.domain == domain)
        {
            let served_by = seat.domain;
            warnings.push(Warning::PortWithoutSilo { port: port.name.clone(), domain, served_by });
        }
        // Bounded by the silos, of which there are fewer.
        let several = u16::try_from(eligible.len()).unwrap_or(u16::MAX).max(1);
        let count = match port.queues {
            Queues::Fixed(count) => count,
            Queues::UpTo(most) => most.min(several),
        };
        if count > several && count % several != 0 {
            warnings.push(Warning::Uneven { port: port.name.clone(), queues: count, silos: several });
        }
        for queue in 0..count {
            let queue = Queue { port: at as u16, queue };
            // The one with the fewest of this port, then of all ports.
            let load = |silo: &&usize| {
                let own = silos.get(**silo).map_or(&[][..], |seat| &seat.queues);
                (own.iter().filter(|other| other.port == queue.port).count(), own.len(), **silo)
            };
            let owner = eligible.iter().min_by_key(load).copied();
            if let Some(seat) = owner.and_then(|owner| silos.get_mut(owner)) {
                seat.queues.push(queue);
            }
        }
        opened.push(count);
    }
    let without: Vec<u16> =
        silos.iter().enumerate().filter(|(_, seat)| seat.queues.is_empty()).map(|(at, _)| at as u16).collect();
    if !without.is_empty() {
        warnings.push(Warning::MoreSilosThanQueues(without));
    }
    opened
}

/// The silos that a port in `domain` goes to: those at home there, or else at
/// the nearest domain that is a home; all for a port that is nowhere.
fn serving(topology: &Topology, domain: Option<u16>, silos: &[PlannedSilo]) -> Vec<usize> {
    let Some(domain) = domain else { return (0..silos.len()).collect() };
    let nearest = topology.nearest(domain);
    let home = nearest.into_iter().find(|near| silos.iter().any(|seat| seat.home == *near));
    silos.iter().enumerate().filter(|(_, seat)| Some(seat.home) == home).map(|(at, _)| at).collect()
}

/// Says which silos are not where their ports are, or their memory is not.
pub fn tell_homes(topology: &Topology, silos: &[PlannedSilo], ports: &[Option<u16>], warnings: &mut Vec<Warning>) {
    for domain in topology.domains.iter().map(|domain| domain.number) {
        let of = |seat: &&PlannedSilo| seat.domain == domain;
        let Some(first) = silos.iter().find(of) else { continue };
        if first.home != domain && ports.contains(&Some(first.home)) {
            let those = silos.iter().enumerate().filter(|(_, seat)| seat.domain == domain);
            let silos = those.map(|(at, _)| at as u16).collect();
            warnings.push(Warning::SiloWithoutPort { silos, domain, home: first.home });
        }
        if let Memory::Domain(instead) = first.memory
            && instead != domain
        {
            warnings.push(Warning::NoMemory { domain, instead });
        }
    }
}
