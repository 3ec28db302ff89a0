//! What looking costs whoever is looked at.

use crate::counter::{Count, What, Whose};
use crate::{Ring, Tracefs, clock, thread};

/// What a tracepoint costs here each time that it comes by, measured:
/// nanoseconds, where its events are recorded and where they are only counted.
/// A system call of no work is made with one at its entry and without.
#[must_use]
pub fn of_a_tracepoint(recorded: bool) -> Option<f64> {
    // Their records all fit into the ring.
    const CALLS: u32 = 4_000;
    const RING: usize = 4 << 20;
    let format = Tracefs::open().ok()?.format("raw_syscalls/sys_enter").ok()?;
    let core = u16::try_from(thread::core()).ok()?;
    let measured = std::thread::spawn(move || {
        thread::pin(&[core]).ok()?;
        let time = || {
            let before = clock::raw();
            for _ in 0..CALLS {
                std::hint::black_box(std::os::unix::process::parent_id());
            }
            clock::raw().saturating_sub(before) as f64 / f64::from(CALLS)
        };
        // What comes between makes it longer, never shorter.
        let least = || (0..5).map(|_| time()).fold(f64::INFINITY, f64::min);
        let without = least();
        let with = if recorded {
            let (ring, refused) = Ring::of_core(core, &[&format], RING).ok()?;
            let with = least();
            drop(ring);
            refused.is_empty().then_some(with)
        } else {
            let count = Count::start(What::Tracepoint(format.id), Whose::Core(core)).ok()?;
            let with = least();
            drop(count);
            Some(with)
        };
        Some((with? - without).max(0.0))
    });
    measured.join().ok()?
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tracepoint_costs_something_or_is_not_to_be_had() {
        for recorded in [false, true] {
            if let Some(cost) = of_a_tracepoint(recorded) {
                assert!(cost.is_finite() && cost >= 0.0, "{cost}");
            }
        }
    }
}
