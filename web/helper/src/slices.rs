//! A place behind others on a core that they share.
//!
//! nice(2) alone has a helper get little, and those who wake beside it wait for it all the same:
//! since Linux 6.6 whoever runs keeps the core until its slice is over, which is looked at with the
//! timer, each 4 ms where that has 250 Hz. One that wakes takes the core at once where its slice is
//! the shorter one (Linux 6.12, "PREEMPT_SHORT"): so a helper asks for the longest there is.

use std::io;

/// The longest slice that the kernel gives (`kernel/sched/syscalls.c`), in nanoseconds.
const LONGEST: u64 = 100_000_000;

/// Has the calling thread be `nice`, never take a core from who runs, and leave it to who wakes.
///
/// # Errors
/// The call is refused, as by a filter of system calls; of kernels before 6.12 none, which know no
/// such slices and take the rest.
pub(crate) fn stay_behind(nice: i32) -> io::Result<()> {
    let attributes = libc::sched_attr {
        size: size_of::<libc::sched_attr>() as u32,
        sched_policy: libc::SCHED_BATCH as u32,
        sched_flags: 0,
        sched_nice: nice,
        sched_priority: 0,
        sched_runtime: LONGEST,
        sched_deadline: 0,
        sched_period: 0,
    };
    // SAFETY: 0 is the calling thread, and the kernel only reads the structure, whose size it is
    // told, and which lives until the call returns.
    let done = unsafe { libc::syscall(libc::SYS_sched_setattr, 0, &raw const attributes, 0) };
    if done == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_stays_behind_alone() {
        let policy = |id: i32| {
            let mut attributes: libc::sched_attr = libc::sched_attr {
                size: 0,
                sched_policy: 0,
                sched_flags: 0,
                sched_nice: 0,
                sched_priority: 0,
                sched_runtime: 0,
                sched_deadline: 0,
                sched_period: 0,
            };
            let size = size_of::<libc::sched_attr>();
            // SAFETY: the kernel writes no more than `size` bytes into the structure.
            let done = unsafe { libc::syscall(libc::SYS_sched_getattr, id, &raw mut attributes, size, 0) };
            assert_eq!(done, 0);
            (attributes.sched_policy as i32, attributes.sched_nice)
        };
        let before = policy(0);
        let behind = std::thread::spawn(move || {
            stay_behind(10).expect("no thread is refused less");
            policy(0)
        });
        assert_eq!(behind.join().expect("a thread"), (libc::SCHED_BATCH, 10));
        assert_eq!(policy(0), before, "of the calling thread alone");
    }
}
