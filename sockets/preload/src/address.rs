//! Socket addresses between C and Rust.

use crate::kernel::call;
use crate::memory::{self, Access, check};
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
    read((&raw const storage).cast(), len).ok()
}

/// Reads a socket address. An IPv6 address that stands for an IPv4 one
/// (RFC 4291 section 2.5.5.2) is that one: the stack knows packets, and those
/// are IPv4.
///
/// # Errors
/// Linux': `move_addr_to_kernel` in net/socket.c, and then those of `inet_stream_connect` in
/// net/ipv4/af_inet.c.
pub fn read(addr: *const libc::sockaddr, len: libc::socklen_t) -> Result<SocketAddr> {
    let len = len as usize;
    if len > size_of::<libc::sockaddr_storage>() {
        return Err(Errno(libc::EINVAL));
    }
    check(Access::Read, addr.cast(), len)?;
    if len < size_of::<libc::sa_family_t>() {
        return Err(Errno(libc::EINVAL));
    }
    // SAFETY: so much was found there; the address may be unaligned.
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

/// Reads an address that a socket of a family is to be bound to; `v6` tells which.
///
/// # Errors
/// Linux': `move_addr_to_kernel` in net/socket.c, and then those of `inet_bind_sk` in net/ipv4/af_inet.c
/// and of `inet6_bind_sk` in net/ipv6/af_inet6.c.
pub fn read_own(
    addr: *const libc::sockaddr,
    len: libc::socklen_t,
    v6: impl FnOnce() -> Result<bool>,
) -> Result<SocketAddr> {
    let read = read(addr, len);
    if matches!(read, Err(Errno(libc::EFAULT))) {
        return read;
    }
    let v6 = v6()?;
    let least = if v6 { LEAST_V6 } else { size_of::<libc::sockaddr_in>() };
    if !(least..=size_of::<sockaddr_storage>()).contains(&(len as usize)) {
        return Err(Errno(libc::EINVAL));
    }
    // SAFETY: so much was found there; the address may be unaligned.
    let family = i32::from(unsafe { ptr::read_unaligned(addr.cast::<libc::sa_family_t>()) });
    match (family, v6) {
        (libc::AF_INET, false) | (libc::AF_INET6, true) => read,
        _ => Err(Errno(libc::EAFNOSUPPORT)),
    }
}

/// Bytes of an IPv6 address without its scope (Linux: `SIN6_LEN_RFC2133`).
const LEAST_V6: usize = 24;

/// Writes a socket address, cut to the room that `len` says, and its whole
/// length into `len`. `v6` says that the socket is of that family, whatever its
/// packets are.
///
/// # Errors
/// Linux': `move_addr_to_user` in net/socket.c.
pub fn write(address: SocketAddr, v6: bool, addr: *mut libc::sockaddr, len: *mut libc::socklen_t) -> Result<()> {
    // SAFETY: any number is one.
    let room = unsafe { memory::read(len) }?;
    let room = usize::try_from(room.cast_signed()).map_err(|_| Errno(libc::EINVAL))?;
    let put = |bytes: *const u8, size: usize| {
        check(Access::Write, addr.cast(), size.min(room))?;
        // SAFETY: `bytes` is a local of `size` bytes; so many were found at `addr`.
        unsafe { ptr::copy_nonoverlapping(bytes, addr.cast::<u8>(), size.min(room)) };
        memory::write(len, size as libc::socklen_t)
    };
    let port = address.port().to_be();
    match (address.ip(), v6) {
        (IpAddr::V4(ip), false) => {
            let addr = libc::sockaddr_in {
                sin_family: libc::AF_INET as libc::sa_family_t,
                sin_port: port,
                sin_addr: libc::in_addr { s_addr: ip.to_bits().to_be() },
                sin_zero: [0; 8],
            };
            put((&raw const addr).cast(), size_of_val(&addr))
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
            put((&raw const addr).cast(), size_of_val(&addr))
        }
    }
}
