//! Pinning: a silo stays on one core, and so its caches and its memory do.

use core::fmt;
use rustix::thread::{CpuSet, sched_getaffinity, sched_getcpu, sched_setaffinity};
use std::io;

/// The cores that this thread may run on: those of the machine less what
/// affinity, cgroup cpusets and containers take away. Ascending.
///
/// # Errors
/// If the kernel does not tell, as on a machine with more than
/// [`CpuSet::MAX_CPU`] cores.
pub fn allowed_cores() -> io::Result<Vec<u16>> {
    let set = sched_getaffinity(None)?;
    let cores = (0..CpuSet::MAX_CPU).filter(|core| set.is_set(*core));
    Ok(cores.filter_map(|core| u16::try_from(core).ok()).collect())
}

/// The core that this thread runs on at this moment.
#[must_use]
pub fn current_core() -> u16 {
    u16::try_from(sched_getcpu()).unwrap_or(u16::MAX)
}

/// Pins this thread to `core`, and checks that it runs there.
///
/// Memory that the thread touches first from now on comes from the core's
/// NUMA domain (the kernel's default policy), so a silo pins itself before it
/// builds its tables.
///
/// # Errors
/// See [`PinError`]; the thread stays where it may run.
pub fn pin(core: u16) -> Result<(), PinError> {
    let fail = |source| PinError { core, allowed: Vec::new(), source: Some(source) };
    let allowed = allowed_cores().map_err(fail)?;
    if !allowed.contains(&core) {
        return Err(PinError { core, allowed, source: None });
    }
    let mut set = CpuSet::new();
    set.set(usize::from(core));
    sched_setaffinity(None, &set).map_err(|e| fail(e.into()))?;
    // The call returns once the thread has moved, so this holds at once; a
    // sandbox that only pretends is found out here.
    if allowed_cores().map_err(fail)? != [core] || current_core() != core {
        return Err(fail(io::ErrorKind::Unsupported.into()));
    }
    Ok(())
}

/// Has this thread run on these cores alone; on any of them.
///
/// # Errors
/// The kernel's: none of them is one that this process may run on.
pub fn bind(cores: &[u16]) -> io::Result<()> {
    let mut set = CpuSet::new();
    let known = cores.iter().map(|core| usize::from(*core)).filter(|core| *core < CpuSet::MAX_CPU);
    known.for_each(|core| set.set(core));
    Ok(sched_setaffinity(None, &set)?)
}

/// Why a thread could not be pinned.
#[derive(Debug)]
pub struct PinError {
    core: u16,
    /// Where it may run, if `core` is not among it.
    allowed: Vec<u16>,
    source: Option<io::Error>,
}

impl fmt::Display for PinError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.source {
            Some(source) => write!(f, "cannot pin to core {}: {source}", self.core),
            None => {
                let (core, allowed) = (self.core, Ranges(&self.allowed));
                write!(f, "cannot pin to core {core}: this process may run on cores {allowed}")
            }
        }
    }
}

impl core::error::Error for PinError {
    fn source(&self) -> Option<&(dyn core::error::Error + 'static)> {
        Some(self.source.as_ref()?)
    }
}

/// Ascending numbers as the kernel writes them: `0-3,8`.
struct Ranges<'a>(&'a [u16]);

impl fmt::Display for Ranges<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, range) in self.0.chunk_by(|a, b| a + 1 == *b).enumerate() {
            let comma = if i == 0 { "" } else { "," };
            match range {
                [one] => write!(f, "{comma}{one}")?,
                _ => write!(f, "{comma}{}-{}", range[0], range[range.len() - 1])?,
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_is_pinned_to_each_allowed_core() {
        for core in allowed_cores().unwrap() {
            std::thread::spawn(move || {
                pin(core).unwrap();
                assert_eq!(allowed_cores().unwrap(), [core]);
                assert_eq!(current_core(), core);
            })
            .join()
            .unwrap();
        }
    }

    #[test]
    fn a_core_that_is_not_ours_is_refused_with_those_that_are() {
        let first = allowed_cores().unwrap()[0];
        std::thread::spawn(move || {
            pin(first).unwrap();
            for core in [first + 1, 1023, u16::MAX] {
                let error = pin(core).unwrap_err().to_string();
                let expected = format!("cannot pin to core {core}: this process may run on cores {first}");
                assert_eq!(error, expected);
            }
            assert_eq!(allowed_cores().unwrap(), [first]);
        })
        .join()
        .unwrap();
    }

    #[test]
    fn cores_are_written_as_ranges() {
        assert_eq!(Ranges(&[0, 1, 2, 5, 7, 8]).to_string(), "0-2,5,7-8");
        assert_eq!(Ranges(&[]).to_string(), "");
    }
}
