//! Sockets begin: `bind`, `listen`, `accept`, `connect`.

use crate::address::{self, bound};
use crate::descriptors::let_go;
use crate::flushing::flush_before;
use crate::kernel::{self, call, int, result};
use crate::listeners::{adopt, is_stream, is_to_be_ours, share};
use crate::marks::{Mark, mark, set_mark};
use crate::place::say_once;
use crate::placeholders::placeholder;
use crate::watching::watch_ours;
use crate::worker::{self, patience, place, reset_from_afar, with};
use core::ffi::c_int;
use core::net::{IpAddr, Ipv4Addr, SocketAddr};
use libc::{sa_family_t, sockaddr, sockaddr_storage, socklen_t};
use posix::{Errno, Result};

/// `bind`. An address of ours is not the kernel's: it is to take it all the same.
///
/// # Safety
/// As for bind(2).
#[unsafe(no_mangle)]
unsafe extern "C" fn bind(fd: c_int, addr: *const sockaddr, len: socklen_t) -> c_int {
    if let Some(place) = place()
        && mark(fd) == Mark::Foreign
        && let Ok(address) = address::read(addr, len)
        && place.terms.has(address.ip())
        && is_stream(fd)
    {
        let on: c_int = 1;
        let (level, name) = (libc::IPPROTO_IP, libc::IP_FREEBIND);
        call!(SYS_setsockopt, fd, level, name, &raw const on, size_of::<c_int>());
    }
    if mark(fd) == Mark::Connection {
        let bound = address::read_own(addr, len, || with(|worker| worker.calls().is_v6(fd)));
        return int(result(bound.and_then(|address| with(|worker| worker.calls().bind(fd, address))).map(|()| 0)));
    }
    int(call!(SYS_bind, fd, addr, len))
}

/// `listen`: on the kernel's socket, so that nobody else does; the keeper has a share in it, and
/// resets what comes there.
///
/// # Safety
/// As for listen(2).
#[unsafe(no_mangle)]
unsafe extern "C" fn listen(fd: c_int, backlog: c_int) -> c_int {
    if mark(fd) == Mark::Connection {
        return int(result(with(|worker| worker.calls().listen(fd, backlog)).map(|()| 0)));
    }
    let done = int(call!(SYS_listen, fd, backlog));
    if done == 0 && mark(fd) == Mark::Foreign && is_to_be_ours(fd) {
        set_mark(fd, Mark::Listening);
        share(fd);
    }
    done
}

/// `accept4`.
///
/// # Safety
/// As for accept4(2).
#[unsafe(no_mangle)]
unsafe extern "C" fn accept4(fd: c_int, addr: *mut sockaddr, len: *mut socklen_t, flags: c_int) -> c_int {
    match mark(fd) {
        Mark::Foreign | Mark::Set | Mark::Own => {
            flush_before(fd, libc::POLLIN);
            int(call!(SYS_accept4, fd, addr, len, flags))
        }
        Mark::Connection => int(result(Err(Errno(libc::EINVAL)))),
        Mark::Listener | Mark::Listening => {
            let accepted = accept_ours(fd, flags);
            int(result(accepted.and_then(|(new, peer, v6)| {
                // Who cannot be told of the peer has no connection (Linux: `do_accept` in net/socket.c).
                let told = if addr.is_null() { Ok(()) } else { address::write(peer, v6, addr, len) };
                told.inspect_err(|_| {
                    let_go(new);
                    kernel::close(new);
                })?;
                Ok(new.into())
            })))
        }
    }
}

fn accept_ours(fd: c_int, flags: c_int) -> Result<(c_int, SocketAddr, bool)> {
    if flags & !(libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC) != 0 {
        return Err(Errno(libc::EINVAL));
    }
    adopt(fd)?;
    let accepted = with(|worker| {
        // A listener's flag is the kernel's: another process may have set it.
        if !worker.calls().has_waiting(fd)? {
            let limit = patience(kernel::is_nonblocking(fd), worker.calls().receive_timeout(fd)?);
            worker.block(limit, |calls| Ok(calls.has_waiting(fd)?.then_some(())))?;
        }
        let new = placeholder(flags & libc::SOCK_CLOEXEC != 0)?;
        // What another thread has closed under this number is not what is accepted.
        worker.close_for_others();
        match worker.calls().accept(fd, new, flags & libc::SOCK_NONBLOCK != 0) {
            Ok(Some(peer)) => {
                set_mark(new, Mark::Connection);
                let v6 = worker.calls().is_v6(new)?;
                Ok((new, peer, v6))
            }
            outcome => {
                kernel::close(new);
                Err(outcome.err().unwrap_or(Errno(libc::EAGAIN)))
            }
        }
    });
    if accepted.is_err() && !worker::is_here() {
        // Another thread's, which its client is not to wait for.
        reset_from_afar(fd);
    }
    accepted
}

/// `accept`.
///
/// # Safety
/// As for accept(2).
#[unsafe(no_mangle)]
unsafe extern "C" fn accept(fd: c_int, addr: *mut sockaddr, len: *mut socklen_t) -> c_int {
    // SAFETY: the arguments are those of `accept4`.
    unsafe { accept4(fd, addr, len, 0) }
}

/// Whether what a socket connects to is reached over our link: another host of our networks. What is of other
/// networks is the kernel's to reach, by its own routes.
fn is_over_link(to: IpAddr) -> bool {
    place().is_some_and(|place| {
        let near = place.terms.addresses.iter().any(|own| own.contains(to));
        near && !place.terms.has(to)
    })
}

/// Says once that a program connects to its own address where nobody answers: our stack does not send to itself, and
/// the kernel is at no end of the link. Over a TAP device it is, and sends it back.
#[cold]
fn say_own(to: IpAddr) {
    let sentence = format!(
        "process {}: it connects to {to}, its own address at the link, where the kernel does not reach it: have it \
         listen on a loopback address, too, which is the kernel's, and connect there",
        std::process::id()
    );
    say_once("own address", &sentence);
}

/// Whether an address is our own at a link that the kernel is not behind.
fn is_own_apart(to: IpAddr) -> bool {
    place().is_some_and(|place| place.terms.has(to) && !place.terms.link.starts_with("tap:"))
}

/// `connect`.
///
/// # Safety
/// As for connect(2).
#[unsafe(no_mangle)]
unsafe extern "C" fn connect(fd: c_int, addr: *const sockaddr, len: socklen_t) -> c_int {
    let to = address::read(addr, len);
    let ours = mark(fd) == Mark::Connection;
    match to {
        Ok(to) if ours || (mark(fd) == Mark::Foreign && is_over_link(to.ip()) && is_stream(fd) && is_from_link(fd)) => {
            int(result(connect_ours(fd, to, ours).map(|()| 0)))
        }
        Err(error) if ours => int(result(connect_nowhere(fd, (addr, len), error).map(|()| 0))),
        _ => {
            if let Ok(to) = to
                && mark(fd) == Mark::Foreign
                && is_own_apart(to.ip())
            {
                say_own(to.ip());
            }
            let done = int(call!(SYS_connect, fd, addr, len));
            // A listener that is disconnected is none any more.
            if done == 0 && matches!(mark(fd), Mark::Listener | Mark::Listening) {
                let_go(fd);
            }
            done
        }
    }
}

/// `connect` of a connection with what is no address that it could have: that of no family ends what
/// there is.
fn connect_nowhere(fd: c_int, (addr, len): (*const sockaddr, socklen_t), error: Errno) -> Result<()> {
    let is_there =
        !matches!(error, Errno(libc::EFAULT)) && (2..=size_of::<sockaddr_storage>()).contains(&(len as usize));
    // SAFETY: so much was found there.
    let family = is_there.then(|| unsafe { addr.cast::<sa_family_t>().read_unaligned() });
    with(|worker| match family.map(i32::from) {
        Some(libc::AF_UNSPEC) => worker.calls().disconnect(fd),
        Some(_) => worker.calls().connect_nowhere(fd, error),
        None => Err(error),
    })
}

fn connect_ours(fd: c_int, to: SocketAddr, ours: bool) -> Result<()> {
    if !ours {
        worker::become_worker()?;
        take_over(fd)?;
    }
    with(|worker| {
        let outcome = worker.calls().connect(fd, to);
        worker.turn();
        let nonblocking = worker.calls().is_nonblocking(fd)?;
        match outcome {
            Err(Errno(libc::EINPROGRESS | libc::EALREADY)) if !nonblocking => {
                let limit = worker.calls().send_timeout(fd)?;
                match worker.block(limit, |calls| calls.connected(fd)) {
                    Err(Errno(libc::EAGAIN)) => Err(Errno(libc::EINPROGRESS)),
                    outcome => outcome,
                }
            }
            outcome => outcome,
        }
    })
}

/// Whether a socket of the kernel may connect over our link: one that is bound to an address of the
/// kernel's alone is the kernel's.
fn is_from_link(fd: c_int) -> bool {
    let from = bound(fd).map_or(IpAddr::V4(Ipv4Addr::UNSPECIFIED), |bound| bound.ip());
    from.is_unspecified() || place().is_some_and(|place| place.terms.has(from))
}

/// Options that a socket takes along when it becomes one of ours: programs set them before they
/// connect. Each as long as it is at most.
const CARRIED: [(c_int, c_int, usize); 12] = [
    (libc::SOL_SOCKET, libc::SO_REUSEADDR, 4),
    (libc::SOL_SOCKET, libc::SO_REUSEPORT, 4),
    (libc::SOL_SOCKET, libc::SO_LINGER, 8),
    (libc::SOL_SOCKET, libc::SO_RCVTIMEO, 16),
    (libc::SOL_SOCKET, libc::SO_SNDTIMEO, 16),
    (libc::IPPROTO_TCP, libc::TCP_NODELAY, 4),
    (libc::IPPROTO_TCP, libc::TCP_CORK, 4),
    (libc::IPPROTO_TCP, libc::TCP_USER_TIMEOUT, 4),
    (libc::IPPROTO_TCP, libc::TCP_NOTSENT_LOWAT, 4),
    (libc::IPPROTO_TCP, libc::TCP_INQ, 4),
    (libc::IPPROTO_IP, libc::IP_TOS, 4),
    (libc::IPPROTO_IPV6, libc::IPV6_TCLASS, 4),
];

/// The options of a socket of the kernel that were set, as far as they are carried on.
fn options_of(fd: c_int) -> Vec<(c_int, c_int, Vec<u8>)> {
    let option = |(level, name, room): (c_int, c_int, usize)| {
        let mut value = vec![0u8; room];
        let mut len = room as socklen_t;
        let got = call!(SYS_getsockopt, fd, level, name, value.as_mut_ptr(), &raw mut len);
        value.truncate(len as usize);
        (got == 0 && value.iter().any(|byte| *byte != 0)).then_some((level, name, value))
    };
    CARRIED.into_iter().filter_map(option).collect()
}

/// A fresh socket of the kernel becomes one of ours, with the options that programs set before they
/// connect, and bound to what it was. What watched it watches ours.
fn take_over(fd: c_int) -> Result<()> {
    let v6 = kernel::number_option(fd, libc::SOL_SOCKET, libc::SO_DOMAIN) == Some(libc::AF_INET6);
    let nonblocking = kernel::is_nonblocking(fd);
    let cloexec = call!(SYS_fcntl, fd, libc::F_GETFD, 0) & i64::from(libc::FD_CLOEXEC) != 0;
    let (options, bound) = (options_of(fd), bound(fd).filter(|bound| bound.port() != 0));
    let watches = crate::watches::take(fd);
    let new = placeholder(true)?;
    let flags = if cloexec { libc::O_CLOEXEC } else { 0 };
    let moved = call!(SYS_dup3, new, fd, flags);
    let failed = kernel::errno();
    kernel::close(new);
    if moved < 0 {
        return Err(Errno(failed));
    }
    set_mark(fd, Mark::Connection);
    with(|worker| {
        let mut calls = worker.calls();
        calls.socket(fd, v6, nonblocking);
        for (level, name, value) in &options {
            calls.set_option(fd, *level, *name, value)?;
        }
        bound.map_or(Ok(()), |bound| calls.bind(fd, bound))
    })?;
    watches.into_iter().try_for_each(|watch| watch_ours(watch.set, libc::EPOLL_CTL_ADD, fd, watch.events, watch.data))
}
