//! What the scheduler is asked for: a real-time policy, or the core as soon as a thread wakes.

use std::io;

/// Gives this thread SCHED_FIFO with `priority` (sched_setscheduler(2)): no
/// ordinary thread runs on its core any more until it sleeps, but for what
/// throttling or the deadline server leave them. Threads that it starts are
/// ordinary ones again.
///
/// # Errors
/// Without CAP_SYS_NICE or RLIMIT_RTPRIO; if the priority is none of 1 to 99;
/// where the control group has no real-time bandwidth.
pub fn fifo(priority: u8) -> io::Result<()> {
    let parameters = libc::sched_param { sched_priority: i32::from(priority) };
    let policy = libc::SCHED_FIFO | libc::SCHED_RESET_ON_FORK;
    // SAFETY: 0 is this thread, and the kernel only reads the structure, which
    // lives until the call returns.
    let done = unsafe { libc::sched_setscheduler(0, policy, &raw const parameters) };
    if done == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// The shortest slice that the kernel gives (`kernel/sched/syscalls.c`), in nanoseconds.
const SHORTEST: u64 = 100_000;

/// Has this thread take the core as soon as it wakes, from any ordinary one that runs there: since
/// Linux 6.6 that keeps it until its slice is over, which is looked at with the timer, each 4 ms
/// where that has 250 Hz; one whose slice is shorter need not wait (6.12, "`PREEMPT_SHORT`"). Its share
/// of the core is the same. Threads of another policy are left as they are, and kernels that know
/// no such slices take the rest.
///
/// # Errors
/// The calls are refused, as by a filter of system calls: then it waits.
pub fn wake_at_once() -> io::Result<()> {
    let Some(now) = attributes().filter(|now| now.sched_policy == libc::SCHED_OTHER as u32) else {
        return Err(io::Error::other("the thread's policy is another, or not known"));
    };
    let asked = libc::sched_attr { sched_runtime: SHORTEST, sched_deadline: 0, sched_period: 0, ..now };
    // SAFETY: 0 is this thread, and the kernel only reads the structure, whose size it is told, and
    // which lives until the call returns.
    let done = unsafe { libc::syscall(libc::SYS_sched_setattr, 0, &raw const asked, 0) };
    if done == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// What this thread has.
fn attributes() -> Option<libc::sched_attr> {
    let mut now = libc::sched_attr {
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
    // SAFETY: 0 is this thread; the kernel writes no more than `size` bytes into the structure.
    let done = unsafe { libc::syscall(libc::SYS_sched_getattr, 0, &raw mut now, size, 0) };
    (done == 0).then_some(now)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_wakes_at_once_is_as_nice_as_before() {
        let before = attributes().expect("attributes");
        let after = std::thread::spawn(|| wake_at_once().map(|()| attributes().expect("attributes")));
        let after = after.join().expect("a thread").expect("no rights are needed");
        let told = |of: &libc::sched_attr| (of.sched_policy, of.sched_nice, of.sched_flags);
        assert_eq!(told(&after), told(&before));
        // Kernels before 6.12 tell of none.
        assert!([0, SHORTEST].contains(&after.sched_runtime), "{}", after.sched_runtime);
        assert_eq!(attributes().expect("attributes").sched_runtime, before.sched_runtime, "of one thread alone");
    }

    #[test]
    fn a_priority_that_is_none_is_refused() {
        // On a thread of its own: the policy is a thread's.
        std::thread::spawn(|| {
            assert!(fifo(0).is_err());
            assert!(fifo(100).is_err());
        })
        .join()
        .expect("a thread");
    }
}
