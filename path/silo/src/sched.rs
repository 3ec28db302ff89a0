//! A real-time policy for a polling thread.

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

#[cfg(test)]
mod tests {
    use super::*;

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
