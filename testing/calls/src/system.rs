//! Calls of the system that come to an [`Outcome`].

use crate::call::Outcome;

/// Polls one descriptor, without waiting.
pub fn poll(fd: i32, events: i16) -> Outcome {
    let mut entry = libc::pollfd { fd, events, revents: 0 };
    // SAFETY: the entry is a local.
    let ready = unsafe { libc::poll(&raw mut entry, 1, 0) };
    let found = u32::from(entry.revents.cast_unsigned());
    let events = if found == 0 { Vec::new() } else { vec![(0, found)] };
    Outcome { events, ..Outcome::of(ready.into()) }
}

/// Two vectors of so many bytes.
pub fn vectors(bytes: &mut [u8], lens: [usize; 2]) -> [libc::iovec; 2] {
    let (one, other) = bytes.split_at_mut(lens[0]);
    let vector = |bytes: &mut [u8]| libc::iovec { iov_base: bytes.as_mut_ptr().cast(), iov_len: bytes.len() };
    [vector(one), vector(other)]
}

/// Closes a descriptor.
pub fn close(fd: i32) -> Outcome {
    // SAFETY: the descriptor is one that this world made, or nobody's.
    result(unsafe { libc::close(fd) })
}

/// What a call that returned this came to.
pub fn result(result: i32) -> Outcome {
    if result < 0 { last_error() } else { Outcome::of(result.into()) }
}

/// A failure, as `errno` has it.
pub fn last_error() -> Outcome {
    Outcome::failed(std::io::Error::last_os_error().raw_os_error().unwrap_or(0))
}
