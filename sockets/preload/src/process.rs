//! The process begins, and has children.

use crate::descriptors::let_go;
use crate::kernel::call;
use crate::marks::{Mark, marked, set_mark};
use crate::worker::{self, Place};
use core::ffi::{CStr, c_int};
use libc::pid_t;
use seats::{CHANNEL, TERMS, Terms};

/// Called by the dynamic linker before the program begins.
#[used]
#[unsafe(link_section = ".init_array")]
static BEGIN: extern "C" fn() = begin;

extern "C" fn begin() {
    // The program may take its environment away later: what it says is read now.
    if let Some(place) = place_from_environment() {
        worker::set_place(place);
        // SAFETY: the function is one of this library, which is not unloaded.
        unsafe { libc::pthread_atfork(None, None, Some(on_child)) };
    }
}

fn place_from_environment() -> Option<Place> {
    let channel: c_int = variable(CHANNEL)?.parse().ok()?;
    // Closed, or another's by now: a program that was not to run on our stack.
    if call!(SYS_fcntl, channel, libc::F_GETFD, 0) < 0 {
        return None;
    }
    let terms: Terms = variable(TERMS)?.parse().ok()?;
    Some(Place { terms, channel })
}

fn variable(name: &str) -> Option<String> {
    let name = std::ffi::CString::new(name).ok()?;
    // SAFETY: the name is a string; the value is one of the environment, which nobody changes yet.
    let value = unsafe { libc::getenv(name.as_ptr()) };
    if value.is_null() {
        return None;
    }
    // SAFETY: not null, and a string of the environment.
    Some(unsafe { CStr::from_ptr(value) }.to_string_lossy().into_owned())
}

/// A child owns nothing of its parent's connections; listeners are its own, too.
extern "C" fn on_child() {
    worker::forget();
    for (fd, mark) in marked(0, u32::MAX) {
        match mark {
            Mark::Connection | Mark::Set => set_mark(fd, Mark::Foreign),
            Mark::Listener => set_mark(fd, Mark::Listening),
            Mark::Listening | Mark::Foreign => {}
        }
    }
}

/// `vfork`: as fork(2). A child in its parent's memory would close the parent's connections.
///
/// # Safety
/// As for fork(2).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn vfork() -> pid_t {
    // SAFETY: as the caller says.
    unsafe { libc::fork() }
}

/// `closefrom`.
///
/// # Safety
/// As for closefrom(3).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn closefrom(first: c_int) {
    let first = first.max(0).cast_unsigned();
    marked(first, u32::MAX).for_each(|(fd, _)| let_go(fd));
    call!(SYS_close_range, first, u32::MAX, 0);
}
