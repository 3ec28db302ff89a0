//! A polling thread's place.

use crate::Pace;
use silo::pin::pin;

/// Puts this thread, the `index`th, where it is to be.
///
/// # Errors
/// A sentence for the user.
pub fn settle(pace: &Pace, index: usize) -> Result<(), String> {
    if let Some(core) = pace.cores.get(index).copied().flatten() {
        pin(core).map_err(|why| why.to_string())?;
    }
    if let Some(priority) = pace.fifo {
        let param = libc::sched_param { sched_priority: i32::from(priority) };
        // SAFETY: the structure is whole and outlives the call, which changes nothing but this thread's policy.
        if unsafe { libc::sched_setscheduler(0, libc::SCHED_FIFO, &raw const param) } != 0 {
            let why = std::io::Error::last_os_error();
            return Err(format!("--sched fifo:{priority}: {why} (CAP_SYS_NICE, or ulimit -r, is needed)"));
        }
    }
    Ok(())
}
