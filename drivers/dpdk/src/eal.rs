//! DPDK's environment: started once in a process, by the first port.

use crate::config::EalOptions;
use crate::error::{DpdkError, Step};
use crate::{ffi, log};
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use std::cell::Cell;
use std::ffi::CString;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Held while ports are opened and closed: these calls are not made for
/// several threads.
static STARTED: Mutex<Option<EalOptions>> = Mutex::new(None);

/// The environment, running, and this thread the one that may change ports.
pub(crate) struct Eal(MutexGuard<'static, Option<EalOptions>>);

impl Eal {
    /// Starts it with these options, or finds it started with the same.
    pub(crate) fn start(options: &EalOptions) -> Result<Self, DpdkError> {
        let mut started = STARTED.lock().unwrap_or_else(PoisonError::into_inner);
        match &*started {
            Some(running) if *options == EalOptions::default() || running == options => return Ok(Self(started)),
            Some(_) => return Err(DpdkError::of(Step::OtherOptions)),
            None => {}
        }
        // The main thread is pinned by the start, and so would be all threads
        // that it makes later.
        let affinity = sched_getaffinity(None).ok();
        let core = affinity.as_ref().and_then(first_core).unwrap_or(0);
        let (result, said) = log::kept(|| init(&options.command_line(core)));
        if let Some(affinity) = affinity {
            let _ = sched_setaffinity(None, &affinity);
        }
        result.map_err(|code| DpdkError::said(Step::Start, code, said))?;
        *started = Some(options.clone());
        Ok(Self(started))
    }

    /// The environment that a port was opened in.
    pub(crate) fn running() -> Self {
        Self(STARTED.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Whether packet memory is on huge pages.
    pub(crate) fn is_huge(&self) -> bool {
        self.0.as_ref().is_some_and(|options| options.huge)
    }
}

fn first_core(set: &CpuSet) -> Option<usize> {
    (0..CpuSet::MAX_CPU).find(|core| set.is_set(*core))
}

fn init(line: &[String]) -> Result<(), i32> {
    // DPDK keeps pointers into its command line, and moves them about.
    let line: Vec<CString> = line.iter().map(|a| CString::new(a.as_str()).unwrap_or_default()).collect();
    let mut pointers: Vec<*mut core::ffi::c_char> = line.into_iter().map(CString::into_raw).collect();
    let count = pointers.len() as core::ffi::c_int;
    pointers.push(core::ptr::null_mut());
    let pointers = pointers.leak();
    // SAFETY: `take` is a function and lives on.
    let logging = unsafe { ffi::near_log_to(log::take) };
    if logging < 0 {
        return Err(logging);
    }
    // SAFETY: `count` pointers to NUL-terminated texts that are never freed,
    // and a null pointer behind them, as main() has them.
    let failed = unsafe { ffi::near_start(count, pointers.as_mut_ptr()) };
    if failed < 0 { Err(failed) } else { Ok(()) }
}

/// DPDK's version, as `DPDK 22.11.11`.
#[must_use]
pub fn version() -> String {
    ffi::text(ffi::near_version())
}

/// Makes the calling thread known to DPDK, which then keeps packet buffers at
/// hand for it. Where it has no more room for threads (RTE_MAX_LCORE), it
/// works as well, and slower.
pub(crate) fn enter_thread() {
    /// What came of the attempt, if it was made. Leaves with the thread.
    struct Entered(Cell<Option<bool>>);
    impl Drop for Entered {
        fn drop(&mut self) {
            if self.0.get() == Some(true) {
                ffi::near_leave_thread();
            }
        }
    }
    thread_local!(static ENTERED: Entered = const { Entered(Cell::new(None)) });
    let _ = ENTERED.try_with(|entered| {
        if entered.0.get().is_none() {
            entered.0.set(Some(ffi::near_enter_thread() == 1));
        }
    });
}
