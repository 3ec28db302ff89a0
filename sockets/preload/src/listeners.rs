//! Listeners: the kernel's sockets, whose connections come by our stack.

use crate::address::bound;
use crate::kernel;
use crate::marks::{Mark, mark, set_mark};
use crate::worker::{self, Place, place, with};
use core::ffi::c_int;
use posix::{Adopted, Result};
use seats::Ask;
use std::os::fd::BorrowedFd;

/// Whether a descriptor is a stream of TCP.
pub fn is_stream(fd: c_int) -> bool {
    let domain = kernel::number_option(fd, libc::SOL_SOCKET, libc::SO_DOMAIN);
    matches!(domain, Some(libc::AF_INET | libc::AF_INET6))
        && kernel::number_option(fd, libc::SOL_SOCKET, libc::SO_PROTOCOL) == Some(libc::IPPROTO_TCP)
}

/// Whether a listening socket of the kernel is one whose connections are to come by our stack.
pub fn is_to_be_ours(fd: c_int) -> bool {
    let Some(place) = place() else { return false };
    kernel::number_option(fd, libc::SOL_SOCKET, libc::SO_ACCEPTCONN) == Some(1)
        && is_stream(fd)
        && bound(fd).is_some_and(|address| place.terms.takes(address.ip(), address.port()))
}

/// The keeper has a share in a listening socket.
pub fn share(fd: c_int) {
    let Some(Place { channel, .. }) = place() else { return };
    // SAFETY: both are open: one is the caller's, the other the constructor's.
    let (channel, fd) = unsafe { (BorrowedFd::borrow_raw(*channel), BorrowedFd::borrow_raw(fd)) };
    if let Err(why) = seats::ask(channel, &Ask::Listening, Some(fd)) {
        worker::say(&format!("a listener is not shared, and who connects to it at this host waits: {why}"));
    }
}

/// A descriptor that this process was given: by who started it, or by another process. A listener of
/// ours is known as one from now on.
pub fn note_given(fd: c_int) {
    if mark(fd) == Mark::Foreign && is_to_be_ours(fd) {
        set_mark(fd, Mark::Listening);
        share(fd);
    }
}

/// A descriptor that somebody looks for connections of: one of ours from now on, if it is to be.
/// Whether it is.
pub fn adopt(fd: c_int) -> Result<bool> {
    match mark(fd) {
        Mark::Connection | Mark::Listener => return Ok(true),
        Mark::Set | Mark::Own => return Ok(false),
        // After execve(2) nobody knows it but the kernel.
        Mark::Foreign if !is_to_be_ours(fd) => return Ok(false),
        Mark::Foreign | Mark::Listening => {}
    }
    let Some(address) = bound(fd) else { return Ok(false) };
    worker::become_worker()?;
    let v6 = kernel::number_option(fd, libc::SOL_SOCKET, libc::SO_DOMAIN) == Some(libc::AF_INET6);
    // An address of IPv4 that was written as one of IPv6 is read as what it is.
    let only = kernel::number_option(fd, libc::IPPROTO_IPV6, libc::IPV6_V6ONLY) == Some(1);
    let adopted = Adopted {
        address,
        v6,
        v6_only: v6 && only,
        nonblocking: kernel::is_nonblocking(fd),
        no_delay: kernel::number_option(fd, libc::IPPROTO_TCP, libc::TCP_NODELAY) == Some(1),
        // The kernel does not say how many may wait: as many as it lets.
        backlog: c_int::MAX,
    };
    with(|worker| {
        worker.calls().adopt_listener(fd, &adopted);
        worker.tell_doors();
        Ok(())
    })?;
    set_mark(fd, Mark::Listener);
    Ok(true)
}
