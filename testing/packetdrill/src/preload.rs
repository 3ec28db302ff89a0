//! `getsockopt` for the code blocks of scripts.
//!
//! A block such as `%{ assert tcpi_snd_cwnd == 10 }%` gets `TCP_INFO` by the
//! system's own `getsockopt`, also where a library is under test. Where this
//! library is preloaded as well (`LD_PRELOAD`), it answers for the descriptors
//! that it made, and hands all others to the system.

use crate::instance::Instance;
use crate::interface;
use core::ffi::{c_int, c_void};
use libc::socklen_t;
use std::collections::BTreeMap;
use std::os::fd::RawFd;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// An instance that is there.
struct Owner(*const Instance);

// SAFETY: instances are called from several threads, and have a lock of their
// own for that.
unsafe impl Send for Owner {}

/// Whose a descriptor is.
static OWNERS: Mutex<BTreeMap<RawFd, Owner>> = Mutex::new(BTreeMap::new());

fn owners() -> MutexGuard<'static, BTreeMap<RawFd, Owner>> {
    OWNERS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// An instance made a descriptor.
pub fn made(fd: RawFd, by: &Instance) {
    owners().insert(fd, Owner(by));
}

/// A descriptor is given back.
pub fn given_back(fd: RawFd) {
    owners().remove(&fd);
}

/// An instance is about to go.
pub fn gone(instance: &Instance) {
    owners().retain(|_, owner| !core::ptr::eq(owner.0, instance));
}

/// getsockopt(2).
///
/// # Safety
/// As for getsockopt(2): `value` has room for as many bytes as `len` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn getsockopt(
    fd: c_int,
    level: c_int,
    name: c_int,
    value: *mut c_void,
    len: *mut socklen_t,
) -> c_int {
    // Locked during the call: the instance cannot go meanwhile.
    let owners = owners();
    match owners.get(&fd) {
        // SAFETY: the instance is there, as `gone` would have removed it; the
        // rest is as the caller says.
        Some(owner) => unsafe { interface::option_of(&*owner.0, fd, level, name, value, len) },
        // SAFETY: the system checks its arguments.
        None => unsafe { libc::syscall(libc::SYS_getsockopt, fd, level, name, value, len) as c_int },
    }
}
