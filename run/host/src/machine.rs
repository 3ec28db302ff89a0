//! The machine that workers are on: cores, and the kernel's limits.

use crate::cores::{Cores, Workers};
use crate::quota::{self, Heeded, heed};
use cpu::pin::allowed_cores;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use topology::{CpuQuota, Topology};

/// Descriptors of a worker beside its connections: listening sockets, files
/// open for being sent, the log, the engine's own.
const SPARE: usize = 160;

/// Where workers are, and what there is to be said of it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Seating {
    /// The core of each worker; `None` where it is not pinned.
    pub seats: Vec<Option<u16>>,
    /// The cores of each worker that has several, and is not pinned to one of them; none
    /// where any will do.
    pub sets: Vec<Vec<u16>>,
    /// What limits their number, if a control group does.
    pub note: Option<String>,
    /// What is wrong with it.
    pub warning: Option<String>,
}

/// The core of each worker; `None` where it is not pinned.
///
/// # Errors
/// If the kernel does not say which cores there are.
pub fn seats(workers: Workers, cores: &Cores) -> std::io::Result<Vec<Option<u16>>> {
    Ok(seating(workers, cores)?.seats)
}

/// The same, with the reason.
///
/// # Errors
/// As [`seats`].
pub fn seating(workers: Workers, cores: &Cores) -> std::io::Result<Seating> {
    Ok(seating_on(&allowed_cores()?, quota::here().as_ref(), workers, cores))
}

fn seating_on(allowed: &[u16], quota: Option<&CpuQuota>, workers: Workers, cores: &Cores) -> Seating {
    // Everybody's first cores are the same: programs that share a machine by
    // quotas would be on top of each other.
    let shares = quota.is_some_and(|quota| quota.cores() < allowed.len());
    let (all, pinned) = match cores {
        Cores::List(cores) => (cores.as_slice(), true),
        Cores::Allowed => (allowed, !shares),
        Cores::Sets(_) | Cores::NotPinned => (allowed, false),
    };
    let (count, asked) = match workers {
        Workers::PerCore => (all.len().max(1), false),
        Workers::Count(count) => (usize::from(count), true),
    };
    let heeded = heed(quota, count, asked, "workers");
    if let Cores::Sets(sets) = cores {
        return within_sets(allowed, heeded, sets);
    }
    let Heeded { threads, note, warning } = heeded;
    let seat = |index| all.get(index % all.len().max(1)).copied().filter(|_| pinned);
    Seating { seats: (0..threads).map(seat).collect(), sets: vec![Vec::new(); threads], note, warning }
}

/// Each worker on a set of cores. One whose set has none that this process may run on
/// runs anywhere, as nginx's does.
fn within_sets(allowed: &[u16], heeded: Heeded, sets: &[Vec<u16>]) -> Seating {
    let Heeded { threads, note, mut warning } = heeded;
    let of = |index: usize| sets.get(index).or(sets.last()).map_or(&[][..], Vec::as_slice);
    let mine = |index| of(index).iter().copied().filter(|core| allowed.contains(core)).collect::<Vec<u16>>();
    let all: Vec<Vec<u16>> = (0..threads).map(mine).collect();
    let lost = (0..threads).find(|index| all[*index].is_empty() && !of(*index).is_empty());
    if let (Some(index), None) = (lost, &warning) {
        warning = Some(format!(
            "worker_cpu_affinity: this process may run on none of the cores of worker {index}, which runs on any"
        ));
    }
    let seats = all.iter().map(|set| if let [core] = set.as_slice() { Some(*core) } else { None }).collect();
    let sets = all.into_iter().map(|set| if set.len() > 1 { set } else { Vec::new() }).collect();
    Seating { seats, sets, note, warning }
}

/// Where each worker is: its core, and that core's domain where there are
/// several; or its cores.
pub fn places(seats: &[Option<u16>], sets: &[Vec<u16>]) -> Vec<String> {
    // Without sysfs a core's number is all that there is to say.
    let topology = Topology::here().unwrap_or_default();
    let place = |(index, seat): (usize, &Option<u16>)| match (seat, sets.get(index)) {
        (Some(core), _) => topology.describe_core(*core),
        (None, Some(set)) if !set.is_empty() => {
            let cores: Vec<String> = set.iter().map(u16::to_string).collect();
            format!("cores {}", cores.join(" "))
        }
        (None, _) => "not pinned".to_owned(),
    };
    seats.iter().enumerate().map(place).collect()
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
    let limit = format!("the limit on descriptors (RLIMIT_NOFILE) is {soft}");
    warnings.push(if held < connections {
        format!("at most {held} connections of the {connections} asked for: {limit}")
    } else {
        // So few that what does not fit are the workers' own.
        format!("{limit}, and {needed} may be needed: {SPARE} for each worker, beside its connections")
    });
    held.min(connections)
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
        let places = places(&[Some(allowed[0]), None, None], &[Vec::new(), Vec::new(), vec![1, 3]]);
        assert!(places[0].starts_with(&format!("core {}", allowed[0])));
        assert_eq!(places[1..], ["not pinned", "cores 1 3"]);
    }

    #[test]
    fn workers_of_masks_run_on_their_cores_and_the_rest_as_the_last() {
        let seating = |sets: &[&[u16]], workers| {
            let sets = Cores::Sets(sets.iter().map(|set| set.to_vec()).collect());
            seating_on(&[0, 1, 2, 3], None, workers, &sets)
        };
        let found = seating(&[&[1], &[2, 3]], Workers::Count(3));
        assert_eq!(found.seats, [Some(1), None, None]);
        assert_eq!(found.sets, [vec![], vec![2, 3], vec![2, 3]]);
        assert_eq!(found.warning, None);
        assert_eq!(seating(&[&[1]], Workers::PerCore).seats, [Some(1); 4]);
        // A core that is not there leaves the others.
        let found = seating(&[&[0, 9], &[8]], Workers::Count(2));
        assert_eq!((found.seats, found.sets), (vec![Some(0), None], vec![vec![]; 2]));
        assert!(found.warning.is_some_and(|why| why.contains("worker 1")));
    }

    #[test]
    fn a_quota_makes_fewer_workers_and_does_not_pin_them() {
        let quota = |quota| CpuQuota { quota, period: 100_000, file: "/cpu.max".into() };
        let (allowed, most) = ([0, 1, 2, 3], quota(150_000));
        let seats =
            |quota: Option<&CpuQuota>, workers, cores: &Cores| seating_on(&allowed, quota, workers, cores).seats;
        let all = [Some(0), Some(1), Some(2), Some(3)];
        assert_eq!(seats(None, Workers::PerCore, &Cores::Allowed), all);
        assert_eq!(seats(Some(&quota(400_000)), Workers::PerCore, &Cores::Allowed), all);
        assert_eq!(seats(Some(&most), Workers::PerCore, &Cores::Allowed), [None, None]);
        assert_eq!(seats(Some(&most), Workers::Count(3), &Cores::Allowed), [None; 3]);
        // Cores that are named are taken.
        let named = Cores::List(vec![2, 3, 1]);
        assert_eq!(seats(Some(&most), Workers::PerCore, &named), [Some(2), Some(3)]);
        assert_eq!(seats(Some(&most), Workers::Count(1), &named), [Some(2)]);
    }
}
