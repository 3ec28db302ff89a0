//! The C library's streams on connections: `fdopen` and `fileno`.
//!
//! Its own streams read and write past the names that this library has taken. One on a socket that is
//! ours, or may become so by connect(2), is therefore one whose reading and writing is the program's
//! own affair (fopencookie(3)), which is these calls. What a program prints to a connection that it
//! has made its standard output by dup2(2) stays with the C library's stream there, and fails.

use crate::data::{read, write};
use crate::kernel::{errno, set_errno};
use crate::listeners::is_stream;
use crate::marks::{Mark, mark};
use crate::next::next;
use crate::place::place;
use core::ffi::{c_char, c_int, c_void};
use core::ptr;
use core::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use libc::{FILE, off64_t, size_t, ssize_t};
use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

/// What a stream of one's own does (`cookie_io_functions_t` of stdio.h).
#[repr(C)]
struct Functions {
    read: unsafe extern "C" fn(*mut c_void, *mut c_char, size_t) -> ssize_t,
    write: unsafe extern "C" fn(*mut c_void, *const c_char, size_t) -> ssize_t,
    seek: unsafe extern "C" fn(*mut c_void, *mut off64_t, c_int) -> c_int,
    close: unsafe extern "C" fn(*mut c_void) -> c_int,
}

unsafe extern "C" {
    fn fopencookie(cookie: *mut c_void, mode: *const c_char, functions: Functions) -> *mut FILE;
}

/// The descriptors of such streams, by the streams' addresses.
static STREAMS: Mutex<BTreeMap<usize, c_int>> = Mutex::new(BTreeMap::new());
/// How many there are: a program that has none looks for none.
static COUNT: AtomicUsize = AtomicUsize::new(0);
/// They are flushed at exit(3).
static ENDS_FLUSHED: AtomicBool = AtomicBool::new(false);

/// `fdopen`.
///
/// # Safety
/// As for fdopen(3).
#[unsafe(no_mangle)]
unsafe extern "C" fn fdopen(fd: c_int, mode: *const c_char) -> *mut FILE {
    let is_ours = match mark(fd) {
        Mark::Connection => true,
        Mark::Foreign => place().is_some() && is_stream(fd),
        _ => false,
    };
    if !is_ours {
        let next = next!(c"fdopen", unsafe extern "C" fn(c_int, *const c_char) -> *mut FILE);
        // SAFETY: the arguments are the caller's.
        return unsafe { next(fd, mode) };
    }
    let functions = Functions { read: read_some, write: write_all, seek: seek_nowhere, close: close_stream };
    // SAFETY: the mode is the caller's string; the functions take a number for what it is.
    let stream = unsafe { fopencookie(ptr::without_provenance_mut(fd as usize), mode, functions) };
    if !stream.is_null() {
        let mut streams = STREAMS.lock().unwrap_or_else(PoisonError::into_inner);
        streams.insert(stream.expose_provenance(), fd);
        COUNT.store(streams.len(), Ordering::Relaxed);
        if !ENDS_FLUSHED.swap(true, Ordering::Relaxed) {
            // SAFETY: the function is one of this library, which is not unloaded.
            unsafe { libc::atexit(flush_all) };
        }
    }
    stream
}

/// The descriptor of one of our streams.
fn descriptor(stream: *mut FILE) -> Option<c_int> {
    if COUNT.load(Ordering::Relaxed) == 0 {
        return None;
    }
    STREAMS.lock().unwrap_or_else(PoisonError::into_inner).get(&stream.addr()).copied()
}

/// `fileno`.
///
/// # Safety
/// As for fileno(3).
#[unsafe(no_mangle)]
unsafe extern "C" fn fileno(stream: *mut FILE) -> c_int {
    descriptor(stream).unwrap_or_else(|| {
        let next = next!(c"fileno", unsafe extern "C" fn(*mut FILE) -> c_int);
        // SAFETY: the stream is the caller's.
        unsafe { next(stream) }
    })
}

/// `fileno_unlocked`.
///
/// # Safety
/// As for fileno(3).
#[unsafe(no_mangle)]
unsafe extern "C" fn fileno_unlocked(stream: *mut FILE) -> c_int {
    descriptor(stream).unwrap_or_else(|| {
        let next = next!(c"fileno_unlocked", unsafe extern "C" fn(*mut FILE) -> c_int);
        // SAFETY: the stream is the caller's.
        unsafe { next(stream) }
    })
}

/// What is buffered in such streams is written: the process is about to end, and the C library would
/// do so when the connections are no more.
extern "C" fn flush_all() {
    let streams: Vec<usize> = STREAMS.lock().unwrap_or_else(PoisonError::into_inner).keys().copied().collect();
    for stream in streams {
        // SAFETY: the stream is open: closing one takes it out of the table.
        unsafe { libc::fflush(ptr::with_exposed_provenance_mut(stream)) };
    }
}

fn number(cookie: *mut c_void) -> c_int {
    cookie.addr() as c_int
}

unsafe extern "C" fn read_some(cookie: *mut c_void, buffer: *mut c_char, room: size_t) -> ssize_t {
    // SAFETY: the C library has so much room there.
    unsafe { read(number(cookie), buffer.cast(), room) }
}

/// Writes all, or as much as goes: less says that the rest failed.
unsafe extern "C" fn write_all(cookie: *mut c_void, bytes: *const c_char, len: size_t) -> ssize_t {
    let mut done = 0;
    while done < len {
        // SAFETY: the C library has so many bytes there.
        let wrote = unsafe { write(number(cookie), bytes.wrapping_add(done).cast(), len - done) };
        match usize::try_from(wrote) {
            Ok(wrote) if wrote > 0 => done += wrote,
            _ => break,
        }
    }
    done as ssize_t
}

/// As a socket has it.
unsafe extern "C" fn seek_nowhere(_cookie: *mut c_void, _offset: *mut off64_t, _from: c_int) -> c_int {
    set_errno(libc::ESPIPE);
    -1
}

unsafe extern "C" fn close_stream(cookie: *mut c_void) -> c_int {
    let fd = number(cookie);
    let mut streams = STREAMS.lock().unwrap_or_else(PoisonError::into_inner);
    streams.retain(|_, known| *known != fd);
    COUNT.store(streams.len(), Ordering::Relaxed);
    drop(streams);
    let saved = errno();
    // SAFETY: the descriptor was given to the stream, whose it is.
    let done = unsafe { libc::close(fd) };
    if done == 0 {
        set_errno(saved);
    }
    done
}
