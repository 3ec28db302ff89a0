//! The functions that packetdrill calls: arguments from C to Rust, results back.
//!
//! Descriptors are real ones, of `/dev/null`: packetdrill closes those that a
//! script left open by the system's own `close`.

mod buffers;
mod table;

pub use table::Interface;

use crate::address;
use crate::errno::{self, Errno, Result};
use crate::instance::{Instance, at_once};
use crate::preload;
use crate::ready::MOST_WATCHED;
use crate::settings::Settings;
use buffers::{bytes, gather, receive, transmit, vectors, waits};
use core::ffi::{CStr, c_char, c_int, c_long, c_longlong, c_short, c_uint, c_ulong, c_void};
use core::time::Duration;
use core::{ptr, slice};
use libc::{iovec, msghdr, pollfd, size_t, sockaddr, socklen_t, ssize_t, timeval};
use std::fs::File;
use std::os::fd::{FromRawFd, IntoRawFd, OwnedFd, RawFd};
use table::Userdata;

#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
compile_error!("`fcntl` and `ioctl` rely on how x86-64 and AArch64 Linux pass variadic arguments");

/// Fills in the table with functions on a new host. The calling thread is the
/// one that moves its time. Flags that cannot be read end the process, since
/// there is no other way to refuse.
///
/// # Safety
/// `flags` is null or a string; `interface` can be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn packetdrill_interface_init(flags: *const c_char, interface: *mut Interface) {
    let flags = if flags.is_null() {
        String::new()
    } else {
        // SAFETY: the caller says that it is a string.
        unsafe { CStr::from_ptr(flags) }.to_string_lossy().into_owned()
    };
    let settings = Settings::parse(&flags).unwrap_or_else(|why| {
        eprintln!("packetdrill_interface_init: in the flags, {why}");
        std::process::exit(2);
    });
    let userdata = Box::into_raw(Box::new(Instance::new(settings))).cast();
    let table = Interface {
        userdata,
        free,
        socket,
        bind,
        listen,
        accept,
        connect,
        read,
        readv,
        recv,
        recvfrom,
        recvmsg,
        write,
        writev,
        send,
        sendto,
        sendmsg,
        fcntl,
        ioctl,
        close,
        shutdown,
        getsockopt,
        setsockopt,
        poll,
        netdev_send,
        netdev_receive,
        usleep,
        gettimeofday,
        epoll_create,
        epoll_ctl,
        epoll_wait,
        pipe,
        splice,
    };
    // SAFETY: the caller says that it can be written.
    unsafe { interface.write(table) }
}

/// The instance behind `userdata`.
///
/// # Safety
/// `userdata` is from [`packetdrill_interface_init`] and not freed.
unsafe fn instance<'a>(userdata: Userdata) -> &'a Instance {
    // SAFETY: as the caller says; the instance is shared by threads and has its own lock.
    unsafe { &*userdata.cast::<Instance>() }
}

/// A C result: -1 and `errno` on failure.
fn result(result: Result<i64>) -> i64 {
    result.unwrap_or_else(|error| {
        errno::set(error);
        -1
    })
}

fn int(value: Result<i64>) -> c_int {
    result(value) as c_int
}

/// A descriptor that nothing else has.
fn new_descriptor() -> Result<RawFd> {
    let null = File::open("/dev/null").map_err(|error| Errno(error.raw_os_error().unwrap_or(libc::EMFILE)))?;
    Ok(null.into_raw_fd())
}

/// Gives a descriptor back, if it is still the one that was taken: the caller
/// may have closed it by other means.
fn give_back(fd: RawFd) {
    preload::given_back(fd);
    if std::fs::read_link(format!("/proc/self/fd/{fd}")).is_ok_and(|path| path.as_os_str() == "/dev/null") {
        // SAFETY: it is open, and one of those that this library opened and owns.
        drop(unsafe { OwnedFd::from_raw_fd(fd) });
    }
}

unsafe extern "C" fn free(userdata: Userdata) {
    // SAFETY: the caller gives back what init made, once.
    let instance = unsafe { Box::from_raw(userdata.cast::<Instance>()) };
    for fd in instance.call(|host| host.silo.app.open.keys().copied().collect::<Vec<_>>()) {
        give_back(fd);
    }
    preload::gone(&instance);
}

unsafe extern "C" fn socket(userdata: Userdata, domain: c_int, kind: c_int, protocol: c_int) -> c_int {
    // SAFETY: `userdata` is ours.
    let instance = unsafe { instance(userdata) };
    int(with_new(instance, |fd| instance.call(|host| host.socket(fd, domain, kind, protocol)).map(|()| fd.into())))
}

/// Runs a call that makes a descriptor.
fn with_new(instance: &Instance, call: impl FnOnce(RawFd) -> Result<i64>) -> Result<i64> {
    let fd = new_descriptor()?;
    preload::made(fd, instance);
    call(fd).inspect_err(|_| give_back(fd))
}

unsafe extern "C" fn bind(userdata: Userdata, fd: c_int, addr: *const sockaddr, len: socklen_t) -> c_int {
    // SAFETY: `userdata` is ours, and the address is as long as the caller says.
    let (instance, address) = unsafe { (instance(userdata), address::read(addr, len)) };
    int(address.and_then(|address| instance.call(|host| host.bind(fd, address))).map(|()| 0))
}

unsafe extern "C" fn listen(userdata: Userdata, fd: c_int, backlog: c_int) -> c_int {
    // SAFETY: `userdata` is ours.
    let instance = unsafe { instance(userdata) };
    int(instance.call(|host| host.listen(fd, backlog)).map(|()| 0))
}

unsafe extern "C" fn accept(userdata: Userdata, fd: c_int, addr: *mut sockaddr, len: *mut socklen_t) -> c_int {
    // SAFETY: `userdata` is ours.
    let instance = unsafe { instance(userdata) };
    int(with_new(instance, |new| {
        let peer = if waits(instance, fd, 0)? {
            at_once(instance.block(None, |host| host.accept(fd, new)))?
        } else {
            at_once(instance.call(|host| host.accept(fd, new)))?
        };
        let v6 = instance.call(|host| host.silo.app.socket(fd).is_ok_and(|socket| socket.v6));
        // SAFETY: the caller gives room for an address and its length, or null.
        unsafe { address::write(peer, v6, addr, len) };
        Ok(new.into())
    }))
}

unsafe extern "C" fn connect(userdata: Userdata, fd: c_int, addr: *const sockaddr, len: socklen_t) -> c_int {
    // SAFETY: `userdata` is ours, and the address is as long as the caller says.
    let (instance, address) = unsafe { (instance(userdata), address::read(addr, len)) };
    int(address.and_then(|address| {
        instance.call(|host| host.connect(fd, address))?;
        if waits(instance, fd, 0)? {
            instance.block(None, |host| host.connected(fd)).map(|_| 0)
        } else {
            match instance.call(|host| host.connected(fd))? {
                Some(()) => Ok(0),
                None => Err(Errno(libc::EINPROGRESS)),
            }
        }
    }))
}

unsafe extern "C" fn read(userdata: Userdata, fd: c_int, buf: *mut c_void, len: size_t) -> ssize_t {
    // SAFETY: the arguments are those of `recv`.
    unsafe { recv(userdata, fd, buf, len, 0) }
}

unsafe extern "C" fn readv(userdata: Userdata, fd: c_int, iov: *const iovec, count: c_int) -> ssize_t {
    let count = usize::try_from(count).map_err(|_| Errno(libc::EINVAL));
    // SAFETY: `userdata` is ours; the caller gives vectors that can be written to.
    let got = unsafe {
        count.and_then(|count| vectors(iov, count)).and_then(|vectors| receive(instance(userdata), fd, vectors, 0))
    };
    result(got) as ssize_t
}

unsafe extern "C" fn recv(userdata: Userdata, fd: c_int, buf: *mut c_void, len: size_t, flags: c_int) -> ssize_t {
    let vector = iovec { iov_base: buf, iov_len: len };
    // SAFETY: `userdata` is ours; the caller gives room for `len` bytes.
    result(unsafe { receive(instance(userdata), fd, &[vector], flags) }) as ssize_t
}

unsafe extern "C" fn recvfrom(
    userdata: Userdata,
    fd: c_int,
    buf: *mut c_void,
    len: size_t,
    flags: c_int,
    _addr: *mut sockaddr,
    addr_len: *mut socklen_t,
) -> ssize_t {
    if !addr_len.is_null() {
        // SAFETY: not null; a stream's peer is not told, so the address has no length.
        unsafe { *addr_len = 0 };
    }
    // SAFETY: the arguments are those of `recv`.
    unsafe { recv(userdata, fd, buf, len, flags) }
}

unsafe extern "C" fn recvmsg(userdata: Userdata, fd: c_int, msg: *mut msghdr, flags: c_int) -> ssize_t {
    // SAFETY: the caller gives a message header; its vectors and its room for
    // control messages can be written to.
    let got = unsafe {
        let Some(msg) = msg.as_mut() else { return result(Err(Errno(libc::EFAULT))) as ssize_t };
        let instance = instance(userdata);
        let got = vectors(msg.msg_iov, msg.msg_iovlen).and_then(|vectors| receive(instance, fd, vectors, flags));
        let left = got.ok().and_then(|_| instance.call(|host| host.left_to_read(fd)));
        write_left(msg, left);
        msg.msg_flags = 0;
        msg.msg_namelen = 0;
        got
    };
    result(got) as ssize_t
}

/// Adds the control message that says what is left to be read, if it is to be
/// said and there is room (`TCP_CM_INQ`).
///
/// # Safety
/// `msg_controllen` bytes can be written at `msg_control`.
unsafe fn write_left(msg: &mut msghdr, left: Option<c_int>) {
    // SAFETY: the macros only count, and find the first message's place in the
    // room that the caller vouches for, which is checked to be large enough.
    unsafe {
        let len = libc::CMSG_SPACE(size_of::<c_int>() as c_uint) as usize;
        let room = if msg.msg_control.is_null() { 0 } else { msg.msg_controllen };
        msg.msg_controllen = 0;
        let Some(left) = left.filter(|_| room >= len) else { return };
        msg.msg_controllen = len;
        let head = libc::CMSG_FIRSTHDR(msg);
        (*head).cmsg_level = libc::IPPROTO_TCP;
        (*head).cmsg_type = libc::TCP_CM_INQ;
        (*head).cmsg_len = libc::CMSG_LEN(size_of::<c_int>() as c_uint) as usize;
        libc::CMSG_DATA(head).cast::<c_int>().write_unaligned(left);
    }
}

unsafe extern "C" fn write(userdata: Userdata, fd: c_int, buf: *const c_void, len: size_t) -> ssize_t {
    // SAFETY: the arguments are those of `send`.
    unsafe { send(userdata, fd, buf, len, 0) }
}

unsafe extern "C" fn writev(userdata: Userdata, fd: c_int, iov: *const iovec, count: c_int) -> ssize_t {
    let count = usize::try_from(count).map_err(|_| Errno(libc::EINVAL));
    // SAFETY: `userdata` is ours; the caller gives vectors that can be read.
    let sent = unsafe {
        count
            .and_then(|count| vectors(iov, count))
            .and_then(|vectors| gather(vectors))
            .and_then(|bytes| transmit(instance(userdata), fd, &bytes, 0))
    };
    result(sent) as ssize_t
}

unsafe extern "C" fn send(userdata: Userdata, fd: c_int, buf: *const c_void, len: size_t, flags: c_int) -> ssize_t {
    // SAFETY: `userdata` is ours; the caller gives `len` bytes.
    let sent = unsafe { bytes(buf, len).and_then(|bytes| transmit(instance(userdata), fd, bytes, flags)) };
    result(sent) as ssize_t
}

/// The address is not looked at: a connected stream has one peer.
unsafe extern "C" fn sendto(
    userdata: Userdata,
    fd: c_int,
    buf: *const c_void,
    len: size_t,
    flags: c_int,
    _addr: *const sockaddr,
    _addr_len: socklen_t,
) -> ssize_t {
    // SAFETY: the arguments are those of `send`.
    unsafe { send(userdata, fd, buf, len, flags) }
}

unsafe extern "C" fn sendmsg(userdata: Userdata, fd: c_int, msg: *const msghdr, flags: c_int) -> ssize_t {
    // SAFETY: the caller gives a message header; its vectors can be read.
    let sent = unsafe {
        let Some(msg) = msg.as_ref() else { return result(Err(Errno(libc::EFAULT))) as ssize_t };
        vectors(msg.msg_iov, msg.msg_iovlen)
            .and_then(|vectors| gather(vectors))
            .and_then(|bytes| transmit(instance(userdata), fd, &bytes, flags))
    };
    result(sent) as ssize_t
}

unsafe extern "C" fn fcntl(userdata: Userdata, fd: c_int, command: c_int, argument: c_long) -> c_int {
    // SAFETY: `userdata` is ours.
    let instance = unsafe { instance(userdata) };
    int(instance.call(|host| {
        let socket = host.silo.app.socket_mut(fd)?;
        match command {
            libc::F_GETFL => Ok(i64::from(libc::O_RDWR | if socket.nonblocking { libc::O_NONBLOCK } else { 0 })),
            libc::F_SETFL => {
                // Flags are an int, whatever lies in the word's upper half.
                socket.nonblocking = argument as c_int & libc::O_NONBLOCK != 0;
                Ok(0)
            }
            _ => Err(Errno(libc::EINVAL)),
        }
    }))
}

/// Linux: include/uapi/linux/sockios.h.
const SIOCOUTQNSD: c_ulong = 0x894b;

unsafe extern "C" fn ioctl(userdata: Userdata, fd: c_int, request: c_ulong, out: *mut c_int) -> c_int {
    // SAFETY: `userdata` is ours.
    let instance = unsafe { instance(userdata) };
    let count = instance.call(|host| match request {
        libc::FIONREAD => host.readable(fd),
        libc::TIOCOUTQ => host.unacknowledged(fd),
        SIOCOUTQNSD => host.unsent(fd),
        _ => Err(Errno(libc::ENOTTY)),
    });
    int(count.and_then(|count| {
        if out.is_null() {
            return Err(Errno(libc::EFAULT));
        }
        // SAFETY: not null; for these requests the caller gives room for an int.
        unsafe { *out = c_int::try_from(count).unwrap_or(c_int::MAX) };
        Ok(0)
    }))
}

unsafe extern "C" fn close(userdata: Userdata, fd: c_int) -> c_int {
    // SAFETY: `userdata` is ours.
    let instance = unsafe { instance(userdata) };
    let closed = instance.call(|host| host.close(fd));
    if closed.is_ok() {
        give_back(fd);
    }
    int(closed.map(|()| 0))
}

unsafe extern "C" fn shutdown(userdata: Userdata, fd: c_int, how: c_int) -> c_int {
    // SAFETY: `userdata` is ours.
    let instance = unsafe { instance(userdata) };
    int(instance.call(|host| host.shutdown(fd, how)).map(|()| 0))
}

unsafe extern "C" fn getsockopt(
    userdata: Userdata,
    fd: c_int,
    level: c_int,
    name: c_int,
    value: *mut c_void,
    len: *mut socklen_t,
) -> c_int {
    // SAFETY: `userdata` is ours; the caller gives room for `len` bytes.
    unsafe { option_of(instance(userdata), fd, level, name, value, len) }
}

/// `getsockopt` on an instance.
///
/// # Safety
/// `len` bytes can be written at `value`, unless one of the two is null.
pub unsafe fn option_of(
    instance: &Instance,
    fd: c_int,
    level: c_int,
    name: c_int,
    value: *mut c_void,
    len: *mut socklen_t,
) -> c_int {
    if value.is_null() || len.is_null() {
        return int(Err(Errno(libc::EFAULT)));
    }
    // SAFETY: not null; the caller gives a length to be changed.
    let room = unsafe { *len } as usize;
    int(instance.call(|host| host.option(fd, level, name, room)).map(|option| {
        let count = option.len().min(room);
        // SAFETY: not null; the caller gives room for `len` bytes.
        unsafe {
            ptr::copy_nonoverlapping(option.as_ptr(), value.cast(), count);
            *len = count as socklen_t;
        }
        0
    }))
}

unsafe extern "C" fn setsockopt(
    userdata: Userdata,
    fd: c_int,
    level: c_int,
    name: c_int,
    value: *const c_void,
    len: socklen_t,
) -> c_int {
    // SAFETY: `userdata` is ours; the caller gives `len` bytes.
    let (instance, value) = unsafe { (instance(userdata), bytes(value, len as usize)) };
    int(value.and_then(|value| instance.call(|host| host.set_option(fd, level, name, value))).map(|()| 0))
}

/// A timeout in milliseconds, negative for none.
fn timeout(milliseconds: c_int) -> Option<Duration> {
    u64::try_from(milliseconds).ok().map(Duration::from_millis)
}

unsafe extern "C" fn poll(userdata: Userdata, fds: *mut pollfd, count: libc::nfds_t, wait: c_int) -> c_int {
    let count = count as usize;
    if count > MOST_WATCHED {
        return int(Err(Errno(libc::EINVAL)));
    }
    // SAFETY: `userdata` is ours; the caller gives `count` entries.
    let (instance, fds) = unsafe {
        let fds = if fds.is_null() || count == 0 { &mut [] } else { slice::from_raw_parts_mut(fds, count) };
        (instance(userdata), fds)
    };
    for entry in fds.iter_mut() {
        entry.revents = 0 as c_short;
    }
    int(instance.block(timeout(wait), |host| host.poll(fds)).map(|ready| ready.unwrap_or(0) as i64))
}

unsafe extern "C" fn netdev_send(userdata: Userdata, packet: *const c_void, len: size_t) -> c_int {
    // SAFETY: `userdata` is ours; the caller gives `len` bytes.
    let (instance, packet) = unsafe { (instance(userdata), bytes(packet, len)) };
    int(packet.map(|packet| {
        instance.netdev_send(packet);
        0
    }))
}

unsafe extern "C" fn netdev_receive(
    userdata: Userdata,
    packet: *mut c_void,
    len: *mut size_t,
    time: *mut c_longlong,
) -> c_int {
    // SAFETY: `userdata` is ours.
    let instance = unsafe { instance(userdata) };
    let (at, sent) = instance.netdev_receive().unwrap_or_else(|| (instance.look(), Vec::new()));
    // SAFETY: the caller gives room for `len` bytes, and for length and time.
    unsafe {
        let count = sent.len().min(*len);
        ptr::copy_nonoverlapping(sent.as_ptr(), packet.cast(), count);
        *len = count;
        *time = at.as_micros() as c_longlong;
    }
    0
}

unsafe extern "C" fn usleep(userdata: Userdata, microseconds: c_uint) -> c_int {
    // SAFETY: `userdata` is ours.
    unsafe { instance(userdata) }.sleep(Duration::from_micros(microseconds.into()));
    0
}

unsafe extern "C" fn gettimeofday(userdata: Userdata, tv: *mut timeval, _zone: *mut c_void) -> c_int {
    // SAFETY: `userdata` is ours.
    let now = unsafe { instance(userdata) }.look().as_micros();
    if tv.is_null() {
        return int(Err(Errno(libc::EFAULT)));
    }
    let value = timeval { tv_sec: (now / 1_000_000) as libc::time_t, tv_usec: (now % 1_000_000) as libc::suseconds_t };
    // SAFETY: not null; the caller gives room for a time.
    unsafe { tv.write(value) };
    0
}

unsafe extern "C" fn epoll_create(userdata: Userdata, size: c_int) -> c_int {
    if size <= 0 {
        return int(Err(Errno(libc::EINVAL)));
    }
    // SAFETY: `userdata` is ours.
    let instance = unsafe { instance(userdata) };
    int(with_new(instance, |fd| {
        instance.call(|host| host.epoll_create(fd));
        Ok(fd.into())
    }))
}

unsafe extern "C" fn epoll_ctl(
    userdata: Userdata,
    epfd: c_int,
    op: c_int,
    fd: c_int,
    event: *mut libc::epoll_event,
) -> c_int {
    // SAFETY: `userdata` is ours; the caller gives an event or null.
    let (instance, event) = unsafe { (instance(userdata), event.as_ref()) };
    let (events, data) = match event {
        Some(event) => (event.events, event.u64),
        None if op == libc::EPOLL_CTL_DEL => (0, 0),
        None => return int(Err(Errno(libc::EFAULT))),
    };
    int(instance.call(|host| host.epoll_ctl(epfd, op, fd, events, data)).map(|()| 0))
}

unsafe extern "C" fn epoll_wait(
    userdata: Userdata,
    epfd: c_int,
    events: *mut libc::epoll_event,
    most: c_int,
    wait: c_int,
) -> c_int {
    // SAFETY: `userdata` is ours.
    let instance = unsafe { instance(userdata) };
    let most = match usize::try_from(most) {
        Ok(most) if most > 0 && !events.is_null() => most,
        _ => return int(Err(Errno(libc::EINVAL))),
    };
    int(instance.block(timeout(wait), |host| host.epoll_wait(epfd, most)).map(|ready| {
        let ready = ready.unwrap_or_default();
        for (index, &(bits, data)) in ready.iter().enumerate() {
            // SAFETY: there are at most `most` of them, for which the caller gives room.
            unsafe { events.add(index).write(libc::epoll_event { events: bits, u64: data }) };
        }
        ready.len() as i64
    }))
}

/// There are no pipes here: data does not move between descriptors without
/// being copied.
unsafe extern "C" fn pipe(_userdata: Userdata, _fds: *mut c_int) -> c_int {
    int(Err(Errno(libc::ENOSYS)))
}

unsafe extern "C" fn splice(
    _userdata: Userdata,
    _from: c_int,
    _from_at: *mut libc::loff_t,
    _to: c_int,
    _to_at: *mut libc::loff_t,
    _len: size_t,
    _flags: c_uint,
) -> ssize_t {
    result(Err(Errno(libc::ENOSYS))) as ssize_t
}
