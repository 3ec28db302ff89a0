//! Which cores the silos get.

use super::{Ask, PlanError, Queues, Silos, Warning};
use crate::{Core, Topology};
use core::cmp::Reverse;
use std::collections::VecDeque;

/// The cores of the silos, in their order.
pub fn choose(
    topology: &Topology,
    ask: &Ask,
    ports: &[Option<u16>],
    warnings: &mut Vec<Warning>,
) -> Result<Vec<u16>, PlanError> {
    let usable: Vec<&Core> = topology.cores.iter().filter(|core| core.is_usable()).collect();
    if usable.is_empty() {
        return Err(PlanError::NoCores);
    }
    let mut pools = Pools::new(topology, ask, ports, &usable);
    let cores = match &ask.silos {
        Silos::On(cores) => listed(&usable, cores)?,
        Silos::Count(count) => pools.take(usize::from(*count)),
        Silos::Auto => pools.take_auto(),
    };
    warn(topology, &usable, &cores, warnings);
    Ok(cores)
}

/// What the user named, if it can be had.
fn listed(usable: &[&Core], cores: &[u16]) -> Result<Vec<u16>, PlanError> {
    for (at, core) in cores.iter().enumerate() {
        if cores.iter().take(at).any(|earlier| earlier == core) {
            return Err(PlanError::Twice(*core));
        }
        if !usable.iter().any(|usable| usable.number == *core) {
            return Err(PlanError::NotUsable { core: *core, usable: usable.iter().map(|core| core.number).collect() });
        }
    }
    Ok(cores.to_vec())
}

/// Says where silos are in each other's way.
fn warn(topology: &Topology, usable: &[&Core], cores: &[u16], warnings: &mut Vec<Warning>) {
    let mut distinct = cores.to_vec();
    distinct.sort_unstable();
    distinct.dedup();
    if distinct.len() < cores.len() {
        warnings.push(Warning::CoresShared { silos: cores.len(), cores: distinct.len() });
    }
    let physical = |core: &u16| topology.core(*core).and_then(|core| core.siblings.first().copied());
    let mut places: Vec<_> = distinct.iter().map(physical).collect();
    places.sort_unstable();
    places.dedup();
    if places.len() < distinct.len() {
        warnings.push(Warning::SiblingsShared { cores: distinct.len(), physical: places.len() });
    }
    if distinct.len() == usable.len() {
        warnings.push(Warning::NoCoreLeft);
    }
}

/// The cores that are not taken yet.
struct Pools {
    pools: Vec<Pool>,
    /// Silos for each queue that is worth one.
    queues: usize,
}

/// Those of one domain; or all, where domains are not looked at.
struct Pool {
    /// Best first, or by number where domains are not looked at: rank among the threads of its
    /// physical core, and number.
    cores: VecDeque<(usize, u16)>,
    /// Queues of its ports; zero if it has none.
    queues: usize,
    /// How far it is from those that have ports: 0 is one of them.
    away: usize,
    /// Whether the machine's first core is in it.
    has_first: bool,
    taken: usize,
}

impl Pools {
    fn new(topology: &Topology, ask: &Ask, ports: &[Option<u16>], usable: &[&Core]) -> Self {
        let queues = |domain: Option<u16>| {
            let those = ask.ports.iter().zip(ports).filter(|(_, at)| domain.is_none() || **at == domain);
            let count = |queues| match queues {
                Queues::Fixed(count) | Queues::UpTo(count) => usize::from(count),
            };
            those.map(|(port, _)| count(port.queues)).sum()
        };
        let all = queues(None);
        if !ask.numa {
            let mut cores = ranked(usable, usable);
            cores.make_contiguous().sort_unstable_by_key(|(_, number)| *number);
            let pool = Pool { cores, queues: all, away: 0, has_first: true, taken: 0 };
            return Self { pools: vec![pool], queues: all };
        }
        // Without a port that is anywhere, silos at least are near each other.
        let origin = ports.iter().flatten().next().copied().or_else(|| usable.first()?.domain).unwrap_or(0);
        let order = topology.nearest(origin);
        let pools = order.iter().enumerate().map(|(away, &domain)| {
            let own: Vec<&Core> = usable.iter().filter(|core| core.domain == Some(domain)).copied().collect();
            let has_port = ports.contains(&Some(domain));
            let away = if has_port { 0 } else { away + 1 };
            let has_first = own.iter().any(|core| Some(core.number) == first_of(usable));
            Pool { cores: ranked(&own, usable), queues: queues(Some(domain)), away, has_first, taken: 0 }
        });
        Self { pools: pools.collect(), queues: all }
    }

    /// So many cores, the best first; from the start again when all are taken.
    fn take(&mut self, count: usize) -> Vec<u16> {
        let mut cores: Vec<u16> = Vec::with_capacity(count);
        while cores.len() < count {
            match self.take_one() {
                Some(core) => cores.push(core),
                None => break,
            }
        }
        let distinct = cores.len();
        while distinct > 0 && cores.len() < count {
            cores.push(cores[cores.len() - distinct]);
        }
        cores
    }

    /// The next best core: in a domain with ports, then one of a physical core
    /// that no silo is on, then where a silo would have the most queues.
    fn take_one(&mut self) -> Option<u16> {
        let spread = self.pools.iter().any(|pool| pool.away == 0);
        let key = |pool: &Pool| {
            let rank = pool.cores.front().map_or(usize::MAX, |(rank, _)| *rank);
            // Near ports a sibling is better than the farther physical core;
            // where nothing is near a port, it is not.
            let (first, second) = if spread { (pool.away, rank) } else { (rank, pool.away) };
            // As in dividing seats by highest averages (d'Hondt), each domain
            // with a port having one first.
            let share = pool.queues * SCALE / (pool.taken + 1);
            (first, second, pool.taken > 0, Reverse(share))
        };
        let best = self.pools.iter_mut().filter(|pool| !pool.cores.is_empty()).min_by_key(|pool| key(pool))?;
        best.taken += 1;
        best.cores.pop_front().map(|(_, core)| core)
    }

    /// See [`Silos::Auto`].
    fn take_auto(&mut self) -> Vec<u16> {
        let nowhere = self.pools.iter().all(|pool| pool.away != 0);
        let physical = |pool: &Pool| pool.cores.iter().filter(|(rank, _)| *rank == 0).count();
        let total: usize = self.pools.iter().map(physical).sum();
        let mut all = self.queues;
        let mut wanted = 0;
        for pool in &mut self.pools {
            // What is left for the rest of the machine is last of its rank.
            pool.cores.retain(|(rank, _)| *rank == 0);
            if total > 2 && pool.cores.len() > 1 && pool.has_first {
                pool.cores.pop_back();
            }
            if !nowhere && pool.away != 0 {
                continue;
            }
            pool.cores.truncate(if nowhere { all } else { pool.queues });
            all -= if nowhere { pool.cores.len() } else { 0 };
            wanted += pool.cores.len();
        }
        // Where the ports' domains have no core to use, one elsewhere serves.
        self.take(wanted.max(1))
    }
}

/// Keeps the fractions of a division by silos apart.
const SCALE: usize = 1 << 16;

/// Where interrupts and helper threads are, unless somebody saw to it that
/// they are not.
fn first_of(usable: &[&Core]) -> Option<u16> {
    usable.iter().find(|core| !core.isolated).map(|core| core.number)
}

/// Cores, best first: one thread of each physical core before any second one,
/// isolated ones before those with other work, the machine's first core last.
fn ranked(cores: &[&Core], usable: &[&Core]) -> VecDeque<(usize, u16)> {
    let first = first_of(usable);
    let key = |core: &&Core| {
        let is_usable = |number: &u16| usable.iter().any(|other| other.number == *number);
        let before = core.siblings.iter().filter(|number| **number < core.number && is_usable(number));
        let with_first = first.is_some_and(|first| core.siblings.contains(&first));
        (before.count(), !core.isolated, with_first, core.number)
    };
    let mut keys: Vec<_> = cores.iter().map(key).collect();
    keys.sort_unstable();
    keys.into_iter().map(|(rank, _, _, number)| (rank, number)).collect()
}
