//! Socket addresses between C and Rust.

use crate::kernel::call;
use core::ffi::c_int;
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use core::ptr;
use libc::{sockaddr_storage, socklen_t};
use posix::{Errno, Result};

/// What a socket of the kernel is bound to.
pub fn bound(fd: c_int) -> Option<SocketAddr> {
    // SAFETY: zeros are a valid storage.
    let mut storage: sockaddr_storage = unsafe { core::mem::zeroed() };
    let mut len = size_of::<sockaddr_storage>() as socklen_t;
    if call!(SYS_getsockname, fd, &raw mut storage, &raw mut len) < 0 {
        return None;
    }
    // SAFETY: the storage is a local of at least the length that the kernel says.
    unsafe { read((&raw const storage).cast(), len) }.ok()
}

/// Reads a socket address. An IPv6 address that stands for an IPv4 one
/// (RFC 4291 section 2.5.5.2) is that one: the stack knows packets, and those
/// are IPv4.
///
/// # Safety
/// `len` bytes can be read at `addr`.
pub unsafe fn read(addr: *const libc::sockaddr, len: libc::socklen_t) -> Result<SocketAddr> {
    if addr.is_null() {
        return Err(Errno(libc::EFAULT));
    }
    let len = len as usize;
    if len < size_of::<libc::sa_family_t>() {
        return Err(Errno(libc::EINVAL));
    }
    // SAFETY: the caller says that so much can be read; the address may be unaligned.
    let family = unsafe { ptr::read_unaligned(addr.cast::<libc::sa_family_t>()) };
    match i32::from(family) {
        libc::AF_INET if len >= size_of::<libc::sockaddr_in>() => {
            // SAFETY: as above; any bytes are a valid `sockaddr_in`.
            let addr = unsafe { ptr::read_unaligned(addr.cast::<libc::sockaddr_in>()) };
            let ip = Ipv4Addr::from_bits(u32::from_be(addr.sin_addr.s_addr));
            Ok(SocketAddr::new(IpAddr::V4(ip), u16::from_be(addr.sin_port)))
        }
        libc::AF_INET6 if len >= size_of::<libc::sockaddr_in6>() => {
            // SAFETY: as above; any bytes are a valid `sockaddr_in6`.
            let addr = unsafe { ptr::read_unaligned(addr.cast::<libc::sockaddr_in6>()) };
            let ip = IpAddr::V6(Ipv6Addr::from(addr.sin6_addr.s6_addr)).to_canonical();
            Ok(SocketAddr::new(ip, u16::from_be(addr.sin6_port)))
        }
        libc::AF_INET | libc::AF_INET6 => Err(Errno(libc::EINVAL)),
        _ => Err(Errno(libc::EAFNOSUPPORT)),
    }
}

/// Writes a socket address, cut to the room that `len` says, and its whole
/// length into `len`, as `accept` does; nothing where `addr` is null. `v6`
/// says that the socket is of that family, whatever its packets are.
///
/// # Safety
/// `len` is null or can be written, and then so many bytes at `addr`.
pub unsafe fn write(address: SocketAddr, v6: bool, addr: *mut libc::sockaddr, len: *mut libc::socklen_t) {
    if addr.is_null() || len.is_null() {
        return;
    }
    // SAFETY: the caller says that `len` can be read and written.
    let room = unsafe { *len } as usize;
    let port = address.port().to_be();
    let put = |bytes: *const u8, size: usize| {
        // SAFETY: `bytes` is a local of `size` bytes; the caller says that
        // `room` bytes can be written at `addr`, and that `len` can be.
        unsafe {
            ptr::copy_nonoverlapping(bytes, addr.cast::<u8>(), size.min(room));
            *len = size as libc::socklen_t;
        }
    };
    match (address.ip(), v6) {
        (IpAddr::V4(ip), false) => {
            let addr = libc::sockaddr_in {
                sin_family: libc::AF_INET as libc::sa_family_t,
                sin_port: port,
                sin_addr: libc::in_addr { s_addr: ip.to_bits().to_be() },
                sin_zero: [0; 8],
            };
            put((&raw const addr).cast(), size_of_val(&addr));
        }
        (ip, _) => {
            let ip = match ip {
                IpAddr::V4(ip) => ip.to_ipv6_mapped(),
                IpAddr::V6(ip) => ip,
            };
            let addr = libc::sockaddr_in6 {
                sin6_family: libc::AF_INET6 as libc::sa_family_t,
                sin6_port: port,
                sin6_flowinfo: 0,
                sin6_addr: libc::in6_addr { s6_addr: ip.octets() },
                sin6_scope_id: 0,
            };
            put((&raw const addr).cast(), size_of_val(&addr));
        }
    }
}
