//! Where a thread runs, and before whom.

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use std::io;

/// Keeps this thread on these cores.
///
/// # Errors
/// If the kernel refuses: none of them is on line and allowed.
pub fn pin(cores: &[u16]) -> io::Result<()> {
    let mut set = CpuSet::new();
    for core in cores {
        if usize::from(*core) < CpuSet::MAX_CPU {
            set.set(usize::from(*core));
        }
    }
    Ok(sched_setaffinity(None, &set)?)
}

/// The cores that this thread may run on, ascending.
///
/// # Errors
/// If the kernel does not tell.
pub fn allowed() -> io::Result<Vec<u16>> {
    let set = sched_getaffinity(None)?;
    let cores = (0..CpuSet::MAX_CPU).filter(|core| set.is_set(*core));
    Ok(cores.filter_map(|core| u16::try_from(core).ok()).collect())
}

/// The cores that are on line, ascending.
#[must_use]
pub fn online() -> Vec<u16> {
    let text = std::fs::read_to_string("/sys/devices/system/cpu/online").unwrap_or_default();
    let part = |part: &str| {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        Some(first.trim().parse::<u16>().ok()?..=last.trim().parse().ok()?)
    };
    text.split(',').filter_map(part).flatten().collect()
}

/// This thread's number.
#[must_use]
pub fn own() -> u32 {
    rustix::thread::gettid().as_raw_nonzero().get().unsigned_abs()
}

/// The core that this thread is on, at the moment.
#[must_use]
pub fn core() -> usize {
    rustix::thread::sched_getcpu()
}

/// Puts this thread before all that share time (SCHED_FIFO), at a priority of 1
/// to 99.
///
/// # Errors
/// If it is not permitted: that needs root, CAP_SYS_NICE or RLIMIT_RTPRIO.
pub fn first_in_first_out(priority: u8) -> io::Result<()> {
    let parameter = libc::sched_param { sched_priority: i32::from(priority) };
    // SAFETY: zero is this thread, and the parameter lives through the call.
    match unsafe { libc::sched_setscheduler(0, libc::SCHED_FIFO, &raw const parameter) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_is_where_it_was_put() {
        std::thread::spawn(|| {
            let cores = allowed().expect("the kernel tells");
            let last = *cores.last().expect("it runs somewhere");
            pin(&[last]).expect("it may");
            assert_eq!(allowed().expect("the kernel tells"), [last]);
            assert!(pin(&[]).is_err());
        })
        .join()
        .expect("no panic");
        assert!(own() > 0);
    }
}
