//! Where a thread runs.

pub use cpu::pin::allowed_cores as allowed;

use rustix::thread::{CpuSet, sched_setaffinity};
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

/// The cores that are on line, ascending.
#[must_use]
pub fn online() -> Vec<u16> {
    let text = std::fs::read_to_string("/sys/devices/system/cpu/online").unwrap_or_default();
    topology::parse_list(&text, CpuSet::MAX_CPU).unwrap_or_default()
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
