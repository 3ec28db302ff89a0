//! The process begins, and has children.

use crate::deputy;
use crate::descriptors::let_go;
use crate::ending::{end_lost, end_orderly};
use crate::executing::keep_variables;
use crate::inherited;
use crate::kernel::{self, call};
use crate::listeners::note_given;
use crate::marks::{Mark, close_between, marked, set_mark};
use crate::placeholders;
use crate::worker::{self, Place, is_heir, is_here, place, watched_listeners};
use core::ffi::{CStr, c_int};
use libc::pid_t;
use seats::{CHANNEL, ENDS_LOST, LIBRARY_WORDS, TERMS, Terms, VERSION};
use std::ffi::CString;

/// By what this library is known ([`seats::LIBRARY_SYMBOL`]): words and its version, between zeros.
#[unsafe(export_name = "nearside_preload_version")]
static LIBRARY: [u8; LIBRARY_WORDS.len() + VERSION.len() + 2] = {
    let mut text = [0; LIBRARY_WORDS.len() + VERSION.len() + 2];
    let (_, behind) = text.split_at_mut(1);
    let (words, version) = behind.split_at_mut(LIBRARY_WORDS.len());
    words.copy_from_slice(LIBRARY_WORDS.as_bytes());
    version.split_at_mut(VERSION.len()).0.copy_from_slice(VERSION.as_bytes());
    text
};

/// Called by the dynamic linker before the program begins.
#[used]
#[unsafe(link_section = ".init_array")]
static BEGIN: extern "C" fn() = begin;

extern "C" fn begin() {
    // The program may take its environment away later: what it says is read now.
    if let Some(place) = place_from_environment() {
        let kept = OWN.iter().filter_map(|name| CString::new(format!("{name}={}", variable(name)?)).ok());
        keep_variables(kept);
        set_mark(place.channel, Mark::Own);
        worker::set_place(place);
        if variable(ENDS_LOST).is_some() {
            end_lost();
        }
        // Whoever started it may have listened already (socket activation).
        let given = std::fs::read_dir("/proc/self/fd").into_iter().flatten().filter_map(Result::ok);
        given.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).for_each(note_given);
        // SAFETY: the functions are of this library, which is not unloaded.
        unsafe { libc::pthread_atfork(Some(before_fork), Some(after_fork), Some(on_child)) };
    }
}

/// What a program that is started by one of ours needs in its environment, to be on our stack, too.
const OWN: [&str; 3] = ["LD_PRELOAD", CHANNEL, TERMS];

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

/// A child owns nothing of its parent's connections; listeners are its own, too, and sets that watch
/// nothing else.
extern "C" fn on_child() {
    if is_heir() {
        return;
    }
    deputy::forget();
    for (fd, _) in marked(0, u32::MAX).filter(|(_, mark)| *mark == Mark::Set) {
        if let Some(listeners) = watched_listeners(fd) {
            inherited::note(fd, listeners);
            set_mark(fd, Mark::Foreign);
        }
    }
    worker::forget();
    placeholders::forget();
    for (fd, mark) in marked(0, u32::MAX) {
        match mark {
            // Calls on them fail by that, and the operator is told: the child has no worker that knows
            // them.
            Mark::Connection | Mark::Set => {}
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

/// `daemon`: the C library's ends the parent past the names that this library has taken.
///
/// # Safety
/// As for daemon(3).
#[unsafe(no_mangle)]
unsafe extern "C" fn daemon(stays: c_int, keeps: c_int) -> c_int {
    // SAFETY: as the caller says.
    match unsafe { libc::fork() } {
        0 => {}
        -1 => return -1,
        _ => end_orderly(0),
    }
    // SAFETY: takes nothing; no memory is involved but constants.
    unsafe {
        if libc::setsid() < 0 || (stays == 0 && libc::chdir(c"/".as_ptr()) < 0) {
            return -1;
        }
        if keeps == 0 {
            let null = libc::open(c"/dev/null".as_ptr(), libc::O_RDWR);
            if null < 0 || (0..3).any(|fd| libc::dup2(null, fd) < 0) {
                return -1;
            }
            if null > 2 {
                libc::close(null);
            }
        }
    }
    0
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
