//! Helper threads: they wait, so that a silo does not; and what another process
//! has opened for them.
#![forbid(unsafe_code)]

pub mod opened;

use rustix::thread::CpuSet;
use std::thread::JoinHandle;

/// Starts a helper thread on `cpus`, or where those are empty on the CPUs of
/// the process's main thread: a thread inherits its parent's pinning, and a
/// helper on a spinning silo's core would starve.
///
/// # Errors
/// The system has no more threads.
pub fn spawn(name: &str, cpus: &[usize], run: impl FnOnce() + Send + 'static) -> std::io::Result<JoinHandle<()>> {
    let cpus = cpus.to_vec();
    let (begun, begins) = std::sync::mpsc::sync_channel(1);
    let handle = std::thread::Builder::new().name(name.into()).spawn(move || {
        let _ = begun.send(());
        let set = if cpus.is_empty() {
            rustix::thread::sched_getaffinity(Some(rustix::process::getpid())).ok()
        } else {
            let mut set = CpuSet::new();
            cpus.iter().filter(|&&cpu| cpu < CpuSet::MAX_CPU).for_each(|&cpu| set.set(cpu));
            Some(set)
        };
        // Refused (a cgroup, a CPU that is gone): slower, not wrong.
        let _ = set.map(|set| rustix::thread::sched_setaffinity(None, &set));
        run();
    })?;
    // It has its name by then: what a thread may do goes by that.
    let _ = begins.recv();
    Ok(handle)
}
