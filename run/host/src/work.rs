//! Work that requests are to cost, for experiments.

use rustix::time::{ClockId, clock_gettime};
use std::time::Duration;

/// The least and the most that a request may cost. Less is not told from what reading
/// the clocks costs; with more, a silo's connections wait for longer than their peers'
/// stacks do before they send again.
pub const WORK_SPANS: (Duration, Duration) = (Duration::from_micros(1), Duration::from_secs(1));

/// Has the calling thread compute until it has had `span` more of a core: what others, or
/// a hypervisor, take from it does not count, as far as the kernel knows of that.
pub fn burn(span: Duration) {
    let end = time(ClockId::ThreadCPUTime).saturating_add(span);
    loop {
        let left = end.saturating_sub(time(ClockId::ThreadCPUTime));
        if left.is_zero() {
            return;
        }
        // No thread has more of a core than time passes. This clock is read without the
        // kernel, which the thread's is not.
        let soonest = time(ClockId::Monotonic).saturating_add(left);
        while time(ClockId::Monotonic) < soonest {}
    }
}

fn time(clock: ClockId) -> Duration {
    let now = clock_gettime(clock);
    Duration::new(now.tv_sec.unsigned_abs(), u32::try_from(now.tv_nsec).unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// At least as much of the thread's time; how much more is the machine's to say.
    #[test]
    fn a_thread_has_had_what_it_was_to_burn() {
        for micros in [1, 50, 3_000] {
            let before = time(ClockId::ThreadCPUTime);
            burn(Duration::from_micros(micros));
            let had = time(ClockId::ThreadCPUTime).saturating_sub(before);
            assert!(had >= Duration::from_micros(micros), "{had:?} of {micros} us");
        }
    }
}
