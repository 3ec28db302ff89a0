//! What the operating system knows of the generator itself: its threads' time
//! and the local ports that it may use.

use core::time::Duration;
use std::fs;
use std::io;

/// The calling thread's time so far.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ThreadTime {
    /// In its own code.
    pub user: Duration,
    /// In the kernel on its behalf. Work that interrupts bring is not part of
    /// it.
    pub system: Duration,
    /// Ready to run, and another thread had the core; `None` if the kernel
    /// does not tell (it lacks CONFIG_SCHED_INFO).
    pub waited: Option<Duration>,
}

impl ThreadTime {
    /// Of the calling thread, until now: two system calls and a small file.
    ///
    /// # Errors
    /// If the kernel refuses getrusage(2).
    pub fn now() -> io::Result<Self> {
        let mut usage = core::mem::MaybeUninit::<libc::rusage>::uninit();
        // SAFETY: the structure is large enough for what the kernel writes.
        if unsafe { libc::getrusage(libc::RUSAGE_THREAD, usage.as_mut_ptr()) } != 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the call succeeded, so it has filled the structure.
        let usage = unsafe { usage.assume_init() };
        let span = |time: libc::timeval| {
            Duration::from_secs(time.tv_sec.unsigned_abs()) + Duration::from_micros(time.tv_usec.unsigned_abs())
        };
        let waited = fs::read_to_string("/proc/thread-self/schedstat").ok().and_then(|text| run_delay(&text));
        Ok(Self { user: span(usage.ru_utime), system: span(usage.ru_stime), waited })
    }

    /// What has passed since `earlier`.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        let waited = self.waited.zip(earlier.waited);
        Self {
            user: self.user.saturating_sub(earlier.user),
            system: self.system.saturating_sub(earlier.system),
            waited: waited.map(|(now, then)| now.saturating_sub(then)),
        }
    }
}

/// The second figure of schedstat: nanoseconds waited on a run queue
/// (Documentation/scheduler/sched-stats.rst).
fn run_delay(text: &str) -> Option<Duration> {
    text.split_whitespace().nth(1)?.parse().ok().map(Duration::from_nanos)
}

/// How many local ports the kernel hands out for each pair of addresses.
#[must_use]
pub fn ephemeral_ports() -> Option<u32> {
    port_range(&fs::read_to_string("/proc/sys/net/ipv4/ip_local_port_range").ok()?)
}

/// First and last, both included (Documentation/networking/ip-sysctl.rst).
fn port_range(text: &str) -> Option<u32> {
    let mut ends = text.split_whitespace().map(str::parse::<u16>);
    let (first, last) = (ends.next()?.ok()?, ends.next()?.ok()?);
    Some(u32::from(last).checked_sub(u32::from(first))? + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_that_is_spent_is_seen() {
        let cpu = |time: ThreadTime| time.user + time.system;
        let before = ThreadTime::now().expect("Linux");
        let mut sum = 0_u64;
        // Until the kernel's account has moved: it does not depend on how
        // fast this machine is.
        while cpu(ThreadTime::now().expect("Linux").since(&before)) < Duration::from_millis(5) {
            sum = core::hint::black_box(sum.wrapping_add(1));
        }
        let spent = ThreadTime::now().expect("Linux").since(&before);
        assert!(cpu(spent) >= Duration::from_millis(5) && cpu(spent) < Duration::from_secs(60), "{spent:?}");
        assert_eq!(cpu(before.since(&before)), Duration::ZERO);
    }

    #[test]
    fn the_kernels_files_are_read() {
        assert_eq!(run_delay("12345 678 9\n"), Some(Duration::from_nanos(678)));
        assert_eq!(port_range("32768\t60999\n"), Some(28_232));
        assert_eq!((run_delay(""), port_range("9 1"), port_range("x 1")), (None, None, None));
    }
}
