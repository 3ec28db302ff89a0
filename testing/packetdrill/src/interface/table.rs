//! The table of functions, as packetdrill's header has it.

use core::ffi::{c_int, c_long, c_longlong, c_uint, c_ulong, c_void};
use libc::{iovec, msghdr, pollfd, size_t, sockaddr, socklen_t, ssize_t, timeval};

/// The state, as C has it.
pub(super) type Userdata = *mut c_void;

/// What packetdrill asks to be filled in: its state, and functions that get
/// it as their first argument and otherwise are the system calls of the same
/// name.
#[repr(C)]
#[derive(Debug)]
pub struct Interface {
    /// Given to every function.
    pub userdata: Userdata,
    /// Frees `userdata`.
    pub free: unsafe extern "C" fn(Userdata),
    /// `socket`
    pub socket: unsafe extern "C" fn(Userdata, c_int, c_int, c_int) -> c_int,
    /// `bind`
    pub bind: unsafe extern "C" fn(Userdata, c_int, *const sockaddr, socklen_t) -> c_int,
    /// `listen`
    pub listen: unsafe extern "C" fn(Userdata, c_int, c_int) -> c_int,
    /// `accept`
    pub accept: unsafe extern "C" fn(Userdata, c_int, *mut sockaddr, *mut socklen_t) -> c_int,
    /// `connect`
    pub connect: unsafe extern "C" fn(Userdata, c_int, *const sockaddr, socklen_t) -> c_int,
    /// `read`
    pub read: unsafe extern "C" fn(Userdata, c_int, *mut c_void, size_t) -> ssize_t,
    /// `readv`
    pub readv: unsafe extern "C" fn(Userdata, c_int, *const iovec, c_int) -> ssize_t,
    /// `recv`
    pub recv: unsafe extern "C" fn(Userdata, c_int, *mut c_void, size_t, c_int) -> ssize_t,
    /// `recvfrom`
    pub recvfrom:
        unsafe extern "C" fn(Userdata, c_int, *mut c_void, size_t, c_int, *mut sockaddr, *mut socklen_t) -> ssize_t,
    /// `recvmsg`
    pub recvmsg: unsafe extern "C" fn(Userdata, c_int, *mut msghdr, c_int) -> ssize_t,
    /// `write`
    pub write: unsafe extern "C" fn(Userdata, c_int, *const c_void, size_t) -> ssize_t,
    /// `writev`
    pub writev: unsafe extern "C" fn(Userdata, c_int, *const iovec, c_int) -> ssize_t,
    /// `send`
    pub send: unsafe extern "C" fn(Userdata, c_int, *const c_void, size_t, c_int) -> ssize_t,
    /// `sendto`
    pub sendto:
        unsafe extern "C" fn(Userdata, c_int, *const c_void, size_t, c_int, *const sockaddr, socklen_t) -> ssize_t,
    /// `sendmsg`
    pub sendmsg: unsafe extern "C" fn(Userdata, c_int, *const msghdr, c_int) -> ssize_t,
    /// `fcntl`. Variadic in C; on the 64-bit Linux ABIs (System V for x86-64,
    /// AAPCS64) a variadic argument of a word is passed as a named one is.
    pub fcntl: unsafe extern "C" fn(Userdata, c_int, c_int, c_long) -> c_int,
    /// `ioctl`; likewise.
    pub ioctl: unsafe extern "C" fn(Userdata, c_int, c_ulong, *mut c_int) -> c_int,
    /// `close`
    pub close: unsafe extern "C" fn(Userdata, c_int) -> c_int,
    /// `shutdown`
    pub shutdown: unsafe extern "C" fn(Userdata, c_int, c_int) -> c_int,
    /// `getsockopt`
    pub getsockopt: unsafe extern "C" fn(Userdata, c_int, c_int, c_int, *mut c_void, *mut socklen_t) -> c_int,
    /// `setsockopt`
    pub setsockopt: unsafe extern "C" fn(Userdata, c_int, c_int, c_int, *const c_void, socklen_t) -> c_int,
    /// `poll`
    pub poll: unsafe extern "C" fn(Userdata, *mut pollfd, libc::nfds_t, c_int) -> c_int,
    /// An IP packet arrives at the host under test.
    pub netdev_send: unsafe extern "C" fn(Userdata, *const c_void, size_t) -> c_int,
    /// The next IP packet that it sends, with its length and time in
    /// microseconds.
    pub netdev_receive: unsafe extern "C" fn(Userdata, *mut c_void, *mut size_t, *mut c_longlong) -> c_int,
    /// `usleep`
    pub usleep: unsafe extern "C" fn(Userdata, c_uint) -> c_int,
    /// `gettimeofday`
    pub gettimeofday: unsafe extern "C" fn(Userdata, *mut timeval, *mut c_void) -> c_int,
    /// `epoll_create`
    pub epoll_create: unsafe extern "C" fn(Userdata, c_int) -> c_int,
    /// `epoll_ctl`
    pub epoll_ctl: unsafe extern "C" fn(Userdata, c_int, c_int, c_int, *mut libc::epoll_event) -> c_int,
    /// `epoll_wait`
    pub epoll_wait: unsafe extern "C" fn(Userdata, c_int, *mut libc::epoll_event, c_int, c_int) -> c_int,
    /// `pipe`
    pub pipe: unsafe extern "C" fn(Userdata, *mut c_int) -> c_int,
    /// `splice`
    pub splice:
        unsafe extern "C" fn(Userdata, c_int, *mut libc::loff_t, c_int, *mut libc::loff_t, size_t, c_uint) -> ssize_t,
}

// 33 slots: a pointer and 32 functions, and nothing between them.
const _: () = assert!(size_of::<Interface>() == 33 * size_of::<usize>());
