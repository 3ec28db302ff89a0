//! Buffers of C: read, gathered, and received into.

use crate::errno::{Errno, Result};
use crate::instance::{Instance, at_once};
use core::ffi::{c_int, c_void};
use core::{ptr, slice};
use libc::iovec;

/// A buffer to read from.
///
/// # Safety
/// `len` bytes can be read at `at`, unless it is null.
pub(super) unsafe fn bytes<'a>(at: *const c_void, len: usize) -> Result<&'a [u8]> {
    match (at.is_null(), len) {
        (_, 0) => Ok(&[]),
        (true, _) => Err(Errno(libc::EFAULT)),
        // SAFETY: as the caller says.
        (false, _) => Ok(unsafe { slice::from_raw_parts(at.cast(), len) }),
    }
}

/// The vectors of a scattered buffer.
///
/// # Safety
/// `count` vectors can be read at `at`, unless it is null.
pub(super) unsafe fn vectors<'a>(at: *const iovec, count: usize) -> Result<&'a [iovec]> {
    match (at.is_null(), count) {
        (_, 0) => Ok(&[]),
        (_, count) if count > libc::UIO_MAXIOV as usize => Err(Errno(libc::EINVAL)),
        (true, _) => Err(Errno(libc::EFAULT)),
        // SAFETY: as the caller says.
        (false, _) => Ok(unsafe { slice::from_raw_parts(at, count) }),
    }
}

/// Receives into scattered buffers.
///
/// # Safety
/// The vectors can be written to.
pub(super) unsafe fn receive(instance: &Instance, fd: c_int, vectors: &[iovec], flags: c_int) -> Result<i64> {
    if vectors.iter().any(|vector| vector.iov_base.is_null() && vector.iov_len > 0) {
        return Err(Errno(libc::EFAULT));
    }
    let most = vectors.iter().fold(0usize, |sum, vector| sum.saturating_add(vector.iov_len));
    let mut got = Vec::new();
    if waits(instance, fd, flags)? {
        instance.block(None, |host| host.recv(fd, &mut got, most, flags))?;
    } else {
        at_once(instance.call(|host| host.recv(fd, &mut got, most, flags & !libc::MSG_WAITALL)))?;
    }
    let mut rest = &got[..];
    for vector in vectors {
        let (now, later) = rest.split_at(rest.len().min(vector.iov_len));
        rest = later;
        if !now.is_empty() {
            // SAFETY: the caller says that the vector can be written to.
            unsafe { ptr::copy_nonoverlapping(now.as_ptr(), vector.iov_base.cast(), now.len()) };
        }
    }
    Ok(got.len() as i64)
}

pub(super) fn transmit(instance: &Instance, fd: c_int, bytes: &[u8], flags: c_int) -> Result<i64> {
    let mut left = bytes;
    let outcome = if waits(instance, fd, flags)? {
        instance.block(None, |host| host.send(fd, &mut left, flags)).map(|_| ())
    } else {
        at_once(instance.call(|host| host.send(fd, &mut left, flags)))
    };
    // What was taken counts, even if the rest failed.
    match (bytes.len() - left.len(), outcome) {
        (0, Err(error)) => Err(error),
        (sent, _) => Ok(sent as i64),
    }
}

/// Gathers scattered buffers.
///
/// # Safety
/// The vectors can be read.
pub(super) unsafe fn gather(vectors: &[iovec]) -> Result<Vec<u8>> {
    let mut all = Vec::new();
    for vector in vectors {
        // SAFETY: as the caller says.
        all.extend_from_slice(unsafe { bytes(vector.iov_base, vector.iov_len) }?);
    }
    Ok(all)
}

/// Whether a call on this descriptor may block.
pub(super) fn waits(instance: &Instance, fd: c_int, flags: c_int) -> Result<bool> {
    let nonblocking = instance.call(|host| host.silo.app.socket(fd).map(|socket| socket.nonblocking))?;
    Ok(!nonblocking && flags & libc::MSG_DONTWAIT == 0)
}
