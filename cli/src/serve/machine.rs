//! The machine that workers are on: cores, and the kernel's limits.

use crate::args::{Cores, Workers};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use silo::pin::allowed_cores;
use topology::Topology;

/// Descriptors of a worker beside its connections: listening sockets, files
/// open for being sent, the log, the engine's own.
const SPARE: usize = 160;

/// The core of each worker; `None` where it is not pinned.
///
/// # Errors
/// If the kernel does not say which cores there are.
pub fn seats(workers: Workers, cores: &Cores) -> std::io::Result<Vec<Option<u16>>> {
    let pinned = *cores != Cores::NotPinned;
    let cores = match cores {
        Cores::List(cores) => cores.clone(),
        Cores::Allowed | Cores::NotPinned => allowed_cores()?,
    };
    let count = match workers {
        Workers::PerCore => cores.len().max(1),
        Workers::Count(count) => usize::from(count),
    };
    let seat = |index| cores.get(index % cores.len().max(1)).copied().filter(|_| pinned);
    Ok((0..count).map(seat).collect())
}

/// Where each worker is: its core, and that core's domain where there are
/// several.
pub fn places(seats: &[Option<u16>]) -> Vec<String> {
    // Without sysfs a core's number is all that there is to say.
    let topology = Topology::here().unwrap_or_default();
    let place = |seat: &Option<u16>| seat.map_or("not pinned".to_owned(), |core| topology.describe_core(core));
    seats.iter().map(place).collect()
}

/// What the kernel cuts backlogs to.
pub fn somaxconn() -> Option<u32> {
    std::fs::read_to_string("/proc/sys/net/core/somaxconn").ok()?.trim().parse().ok()
}

/// Raises the soft limit on descriptors as far as `connections` need, and
/// returns how many connections it allows, with a warning if those are fewer.
pub fn raise_descriptors(connections: usize, workers: usize, warnings: &mut Vec<String>) -> usize {
    let spare = SPARE * workers;
    let needed = (connections + spare) as u64;
    let limit = getrlimit(Resource::Nofile);
    let (soft, hard) = (limit.current.unwrap_or(u64::MAX), limit.maximum.unwrap_or(u64::MAX));
    if soft >= needed {
        return connections;
    }
    let raised = needed.min(hard);
    let wanted = Rlimit { current: Some(raised), maximum: limit.maximum };
    let soft = if raised > soft && setrlimit(Resource::Nofile, wanted).is_ok() { raised } else { soft };
    if soft >= needed {
        return connections;
    }
    let held = usize::try_from(soft).unwrap_or(usize::MAX).saturating_sub(spare).max(workers);
    warnings.push(format!(
        "at most {held} connections of the {connections} asked for: the limit on descriptors (RLIMIT_NOFILE) is {soft}"
    ));
    held
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn workers_sit_on_cores_by_turns() {
        let list = Cores::List(vec![4, 6]);
        assert_eq!(seats(Workers::PerCore, &list).unwrap(), [Some(4), Some(6)]);
        assert_eq!(seats(Workers::Count(3), &list).unwrap(), [Some(4), Some(6), Some(4)]);
        assert_eq!(seats(Workers::Count(2), &Cores::NotPinned).unwrap(), [None, None]);
        let allowed = allowed_cores().unwrap();
        assert_eq!(seats(Workers::PerCore, &Cores::Allowed).unwrap().len(), allowed.len());
        let places = places(&[Some(allowed[0]), None]);
        assert!(places[0].starts_with(&format!("core {}", allowed[0])));
        assert_eq!(places[1], "not pinned");
    }
}
