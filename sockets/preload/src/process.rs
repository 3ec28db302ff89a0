//! The process begins, and has children.

use crate::deputy;
use crate::descriptors::{close_between, let_go};
use crate::kernel::{self, call, int};
use crate::marks::{Mark, marked, set_mark};
use crate::placeholders;
use crate::worker::{self, Place, is_here, place};
use core::ffi::{CStr, c_char, c_int};
use libc::pid_t;
use seats::{CHANNEL, TERMS, Terms};
use std::ffi::CString;
use std::sync::OnceLock;

/// Called by the dynamic linker before the program begins.
#[used]
#[unsafe(link_section = ".init_array")]
static BEGIN: extern "C" fn() = begin;

extern "C" fn begin() {
    // The program may take its environment away later: what it says is read now.
    if let Some(place) = place_from_environment() {
        let kept = OWN.iter().filter_map(|name| CString::new(format!("{name}={}", variable(name)?)).ok());
        KEPT.get_or_init(|| kept.collect());
        set_mark(place.channel, Mark::Own);
        worker::set_place(place);
        // SAFETY: the functions are of this library, which is not unloaded.
        unsafe { libc::pthread_atfork(Some(before_fork), Some(after_fork), Some(on_child)) };
    }
}

/// What a program that is started by one of ours needs in its environment, to be on our stack, too.
const OWN: [&str; 3] = ["LD_PRELOAD", CHANNEL, TERMS];

/// The same as this process had it, `NAME=value` each.
static KEPT: OnceLock<Vec<CString>> = OnceLock::new();

/// Variables of an environment that is put together without taking memory: a child of many threads
/// may not.
const MOST_VARIABLES: usize = 1024;

/// `execve`: programs that make their environment themselves (nginx, when it changes its binary)
/// leave out what they do not know.
///
/// # Safety
/// As for execve(2).
#[unsafe(no_mangle)]
unsafe extern "C" fn execve(
    path: *const c_char,
    arguments: *const *const c_char,
    environment: *const *const c_char,
) -> c_int {
    let mut whole = [core::ptr::null::<c_char>(); MOST_VARIABLES];
    let mut count = 0;
    if let Some(kept) = KEPT.get()
        && !environment.is_null()
    {
        // SAFETY: the caller gives an environment, which ends with a null.
        while let Some(variable) = unsafe { environment.add(count).read().as_ref() }
            && count + kept.len() + 1 < MOST_VARIABLES
        {
            whole[count] = variable;
            count += 1;
        }
        let given = count;
        for one in kept {
            let name = one.to_bytes().split(|byte| *byte == b'=').next().unwrap_or_default();
            let is_it = |variable: &*const c_char| {
                // SAFETY: the variables are the caller's strings.
                let variable = unsafe { CStr::from_ptr(*variable) }.to_bytes();
                variable.strip_prefix(name).is_some_and(|rest| rest.first() == Some(&b'='))
            };
            if !whole[..given].iter().any(is_it) {
                whole[count] = one.as_ptr();
                count += 1;
            }
        }
        // SAFETY: it is read where the caller's environment goes on, or ends.
        if unsafe { environment.add(given).read() }.is_null() {
            return int(call!(SYS_execve, path, arguments, whole.as_ptr()));
        }
        // More variables than are looked at: as they came.
    }
    int(call!(SYS_execve, path, arguments, environment))
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
    let name = CString::new(name).ok()?;
    // SAFETY: the name is a string; the value is one of the environment, which nobody changes yet.
    let value = unsafe { libc::getenv(name.as_ptr()) };
    if value.is_null() {
        return None;
    }
    // SAFETY: not null, and a string of the environment.
    Some(unsafe { CStr::from_ptr(value) }.to_string_lossy().into_owned())
}

extern "C" fn before_fork() {
    if is_here() {
        deputy::begin_fork();
    }
}

extern "C" fn after_fork() {
    if is_here() {
        deputy::end_fork();
    }
}

/// A child owns nothing of its parent's connections; listeners are its own, too.
extern "C" fn on_child() {
    worker::forget();
    placeholders::forget();
    for (fd, mark) in marked(0, u32::MAX) {
        match mark {
            Mark::Connection | Mark::Set => set_mark(fd, Mark::Foreign),
            Mark::Listener => set_mark(fd, Mark::Listening),
            Mark::Own if place().is_some_and(|place| place.channel != fd) => {
                // The seat is free when its process ends, whatever children it has.
                set_mark(fd, Mark::Foreign);
                kernel::close(fd);
            }
            Mark::Own | Mark::Listening | Mark::Foreign => {}
        }
    }
}

/// `vfork`: as fork(2). A child in its parent's memory would close the parent's connections.
///
/// # Safety
/// As for fork(2).
#[unsafe(no_mangle)]
unsafe extern "C" fn vfork() -> pid_t {
    // SAFETY: as the caller says.
    unsafe { libc::fork() }
}

/// `closefrom`.
///
/// # Safety
/// As for closefrom(3).
#[unsafe(no_mangle)]
unsafe extern "C" fn closefrom(first: c_int) {
    let first = first.max(0).cast_unsigned();
    marked(first, u32::MAX).for_each(|(fd, _)| let_go(fd));
    close_between(first, u32::MAX, 0);
}
