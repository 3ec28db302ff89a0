//! A polling thread's place.

use crate::Pace;
use cpu::pin::pin;
use host::sched::Scheduling;
use say::{Failure, eprintln};
use std::path::Path;

/// Says what a real-time policy means here, before a thread has it.
///
/// # Errors
/// Where it would stop the machine.
pub fn consider(pace: &Pace) -> Result<(), Failure> {
    if let Some(priority) = pace.fifo {
        let said = Scheduling::read(Path::new("/")).allows(priority, &pace.cores)?;
        eprintln!("nearside: --sched: {said}");
    }
    Ok(())
}

/// Puts this thread, the `index`th, where it is to be.
///
/// # Errors
/// A sentence for the user.
pub fn settle(pace: &Pace, index: usize) -> Result<(), String> {
    if let Some(core) = pace.cores.get(index).copied().flatten() {
        pin(core).map_err(|why| why.to_string())?;
    }
    if let Some(priority) = pace.fifo {
        cpu::sched::fifo(priority)
            .map_err(|why| format!("--sched fifo:{priority}: {why} (CAP_SYS_NICE, or ulimit -r, is needed)"))?;
    }
    Ok(())
}
