//! The interface, as the kernel's ioctls present it.

use rustix::fd::OwnedFd;
use rustix::net::{AddressFamily, SocketFlags, SocketType};
use std::io;
use std::os::fd::AsRawFd;

/// An interface of the network namespace that it was asked for in.
pub(crate) struct Interface {
    socket: OwnedFd,
    name: String,
}

impl Interface {
    pub(crate) fn new(name: &str) -> io::Result<Self> {
        let socket = rustix::net::socket_with(AddressFamily::INET, SocketType::DGRAM, SocketFlags::CLOEXEC, None)?;
        Ok(Self { socket, name: name.to_owned() })
    }

    pub(crate) fn index(&self) -> io::Result<i32> {
        let mut request = self.request();
        self.ioctl(libc::SIOCGIFINDEX, &mut request)?;
        // SAFETY: SIOCGIFINDEX has filled this member.
        Ok(unsafe { request.ifr_ifru.ifru_ifindex })
    }

    /// The MTU; what exceeds our type is as good as its maximum.
    pub(crate) fn mtu(&self) -> io::Result<u16> {
        let mut request = self.request();
        self.ioctl(libc::SIOCGIFMTU, &mut request)?;
        // SAFETY: SIOCGIFMTU has filled this member.
        let mtu = unsafe { request.ifr_ifru.ifru_mtu };
        Ok(u16::try_from(mtu).unwrap_or(u16::MAX))
    }

    /// Whether it exists, is up, and can pass frames.
    pub(crate) fn is_up(&self) -> bool {
        let mut request = self.request();
        if self.ioctl(libc::SIOCGIFFLAGS, &mut request).is_err() {
            return false;
        }
        // SAFETY: SIOCGIFFLAGS has filled this member.
        let flags = i32::from(unsafe { request.ifr_ifru.ifru_flags });
        flags & libc::IFF_UP != 0 && flags & libc::IFF_RUNNING != 0
    }

    fn ioctl(&self, number: libc::Ioctl, request: &mut libc::ifreq) -> io::Result<()> {
        // SAFETY: the interface ioctls used here read and write one `ifreq`, which is borrowed for the call.
        let done = unsafe { libc::ioctl(self.socket.as_raw_fd(), number, &raw mut *request) };
        if done < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
    }

    fn request(&self) -> libc::ifreq {
        // SAFETY: an `ifreq` is plain bytes and pointers; all zero is valid.
        let mut request: libc::ifreq = unsafe { core::mem::zeroed() };
        // A name is shorter than the field, which keeps its NUL at the end.
        for (to, from) in request.ifr_name[..libc::IFNAMSIZ - 1].iter_mut().zip(self.name.bytes()) {
            *to = from as libc::c_char;
        }
        request
    }
}
