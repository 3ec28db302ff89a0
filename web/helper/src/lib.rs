//! Helper threads: they wait, so that a silo does not; and what another process
//! has opened for them.
#![deny(unsafe_code)]

pub mod opened;
#[allow(unsafe_code, reason = "a system call that no crate has")]
mod slices;
mod twin;
pub mod waits;

pub use twin::{Sleeper, Twin, inline, is_inline};

use rustix::thread::CpuSet;
use std::thread::JoinHandle;

/// How far behind others a helper is that shares a core with them (nice(2)).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Behind {
    /// It gets a tenth of what they get, where they want all.
    Tenth = 10,
    /// Next to nothing; they wait for it least.
    Last = 19,
}

/// As [`spawn`], for work that takes long: where it shares a core with a silo or
/// worker, that goes first, and has the core as soon as it wakes.
///
/// # Errors
/// As [`spawn`].
pub fn spawn_behind(
    name: &str,
    cpus: &[usize],
    behind: Behind,
    run: impl FnOnce() + Send + 'static,
) -> std::io::Result<JoinHandle<()>> {
    spawn(name, cpus, move || {
        // Refused: others wait longer, and nothing is wrong.
        if slices::stay_behind(behind as i32).is_err() {
            // Of the calling thread alone (setpriority(2), "C library/kernel differences").
            let _ = rustix::process::setpriority_process(None, behind as i32);
        }
        run();
    })
}

/// Whether a helper on `cpus` ([`spawn`]) may run beside the calling thread, which stays on its own:
/// where both share all of theirs, it runs in its place.
#[must_use]
pub fn has_others(cpus: &[usize]) -> bool {
    let Ok(own) = rustix::thread::sched_getaffinity(None) else { return false };
    let is_other = |cpu: usize| cpu < CpuSet::MAX_CPU && !own.is_set(cpu);
    if !cpus.is_empty() {
        return cpus.iter().any(|cpu| is_other(*cpu));
    }
    let main = rustix::thread::sched_getaffinity(Some(rustix::process::getpid()));
    main.is_ok_and(|main| (0..CpuSet::MAX_CPU).any(|cpu| main.is_set(cpu) && is_other(cpu)))
}

/// Starts a helper thread on `cpus`, or where those are empty on the CPUs of
/// the process's main thread: a thread inherits its parent's pinning, and a
/// helper on a spinning silo's core would starve.
///
/// # Errors
/// The system has no more threads; or there are to be none now ([`inline`]), and this one is not
/// among those that may be one all the same.
pub fn spawn(name: &str, cpus: &[usize], run: impl FnOnce() + Send + 'static) -> std::io::Result<JoinHandle<()>> {
    if twin::is_missing(name) {
        return Err(std::io::Error::other(format!("{name} has no twin")));
    }
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
