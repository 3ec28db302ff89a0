//! The machine that workers are on: cores, and the kernel's limits.

use crate::cores::{Cores, Workers};
use crate::quota::{self, Heeded, heed};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use silo::pin::allowed_cores;
use topology::{CpuQuota, Topology};

/// Descriptors of a worker beside its connections: listening sockets, files
/// open for being sent, the log, the engine's own.
const SPARE: usize = 160;

/// Where workers are, and what there is to be said of it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Seating {
    /// The core of each worker; `None` where it is not pinned.
    pub seats: Vec<Option<u16>>,
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
    let (cores, pinned) = match cores {
        Cores::List(cores) => (cores.as_slice(), true),
        Cores::Allowed => (allowed, !shares),
        Cores::NotPinned => (allowed, false),
    };
    let (count, asked) = match workers {
        Workers::PerCore => (cores.len().max(1), false),
        Workers::Count(count) => (usize::from(count), true),
    };
    let Heeded { threads, note, warning } = heed(quota, count, asked, "workers");
    let seat = |index| cores.get(index % cores.len().max(1)).copied().filter(|_| pinned);
    Seating { seats: (0..threads).map(seat).collect(), note, warning }
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
        let places = places(&[Some(allowed[0]), None]);
        assert!(places[0].starts_with(&format!("core {}", allowed[0])));
        assert_eq!(places[1], "not pinned");
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
