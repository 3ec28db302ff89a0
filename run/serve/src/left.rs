//! What a process leaves to the one that it starts to serve in its place or beside it, and
//! that lies in no file: bytes in memory of the kernel's, under a number.

use rustix::fs::{MemfdFlags, memfd_create};
use std::fs::File;
use std::io::{self, Seek, Write};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::process::Command;
use std::sync::{Mutex, PoisonError};

/// Names to a process who left it something, and under which number.
const VARIABLE: &str = "NEARSIDE_LEFT";

/// What is left to the next process that is started.
static LEFT: Mutex<Option<File>> = Mutex::new(None);

/// Leaves `bytes` to the next process that is started, in place of what was left before.
///
/// # Errors
/// There is no memory for them.
pub fn leave(bytes: &[u8]) -> io::Result<()> {
    let mut file = File::from(memfd_create("left", MemfdFlags::CLOEXEC)?);
    file.write_all(bytes)?;
    file.rewind()?;
    *LEFT.lock().unwrap_or_else(PoisonError::into_inner) = Some(file);
    Ok(())
}

/// Has `command` start a process with what is left, if anything is. What is returned is to
/// be dropped once it was started.
///
/// # Errors
/// There are no more descriptors.
pub fn hand_on(command: &mut Command) -> io::Result<Option<OwnedFd>> {
    let left = LEFT.lock().unwrap_or_else(PoisonError::into_inner).take();
    // Without close-on-exec, unlike what is duplicated.
    let Some(handed) = left.map(rustix::io::dup).transpose()? else {
        command.env_remove(VARIABLE);
        return Ok(None);
    };
    command.env(VARIABLE, format!("{}:{}", std::process::id(), handed.as_raw_fd()));
    Ok(Some(handed))
}

/// Nobody is started: nothing is left.
pub fn forget() {
    *LEFT.lock().unwrap_or_else(PoisonError::into_inner) = None;
}

/// What the process that started this one has left it. To be asked once.
#[must_use]
pub fn left() -> Option<File> {
    let told = std::env::var(VARIABLE).ok()?;
    let (whose, number) = told.split_once(':')?;
    let (whose, number) = (whose.parse::<u32>().ok()?, number.parse::<i32>().ok()?);
    if whose != std::os::unix::process::parent_id() || number < 3 {
        return None;
    }
    // What a variable says is looked at before it is believed.
    rustix::fs::readlink(format!("/proc/self/fd/{number}"), Vec::new())
        .ok()
        .filter(|path| path.to_bytes().starts_with(b"/memfd:left"))?;
    // SAFETY: it is open, and nobody in this process has it: the one that started this one
    // has opened it for this, and this is asked once, before anything else is opened.
    Some(File::from(unsafe { OwnedFd::from_raw_fd(number) }))
}
