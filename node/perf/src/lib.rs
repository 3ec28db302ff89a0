//! What the kernel tells of itself while it works: tracepoints and counters of
//! perf_event_open(2), and clocks fine enough to hold them against.
//!
//! The thin and only part with unsafe code under `nearside node noise` and
//! `nearside watch`; what events mean is told elsewhere. All times are
//! nanoseconds of CLOCK_MONOTONIC_RAW, which nobody slews: events carry them,
//! and [`clock::Scale`] turns ticks of the processor into them.

pub mod clock;
pub mod cost;
pub mod counter;
pub mod format;
pub mod osnoise;
pub mod places;
pub mod ring;
pub mod symbols;
pub mod thread;
mod tracefs;

pub use counter::Count;
pub use format::{Field, Format};
pub use osnoise::Osnoise;
pub use places::{Caller, Place, Places};
pub use ring::{Record, Ring, TraceEvent};
pub use symbols::Symbols;
pub use tracefs::Tracefs;

/// Why something cannot be had, as a sentence's end: "not permitted (…)".
pub type Why = String;

/// Why an event is not to be had that a processor counts.
pub const NO_PMU: &str = "this processor, or its hypervisor, has none";

/// What an error of perf_event_open(2) means for who asked.
#[must_use]
pub fn explain(error: &std::io::Error) -> Why {
    match error.raw_os_error() {
        Some(libc::EACCES | libc::EPERM) => {
            let level = std::fs::read_to_string("/proc/sys/kernel/perf_event_paranoid").unwrap_or_default();
            format!("not permitted: needs root or CAP_PERFMON (kernel.perf_event_paranoid is {})", level.trim())
        }
        Some(libc::ENOENT | libc::EOPNOTSUPP | libc::ENODEV) => NO_PMU.to_owned(),
        Some(libc::ENOSYS) => "the kernel was built without perf events".to_owned(),
        Some(libc::EMFILE) => "too many open files (ulimit -n)".to_owned(),
        _ => error.to_string(),
    }
}
