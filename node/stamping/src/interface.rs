//! An interface, as the kernel's ioctls present it.

use rustix::fd::OwnedFd;
use rustix::net::{AddressFamily, SocketFlags, SocketType};
use std::io;
use std::os::fd::AsRawFd;

/// An interface of the network namespace that it was asked for in.
#[derive(Debug)]
pub struct InterfaceControl {
    socket: OwnedFd,
    name: String,
}

/// `struct ethtool_ts_info` (`include/uapi/linux/ethtool.h`).
#[repr(C)]
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct StampFacts {
    cmd: u32,
    /// What SO_TIMESTAMPING can be asked for.
    pub flags: u32,
    /// The number of the PTP clock; -1: there is none.
    pub clock: i32,
    /// How frames that leave can be stamped, a bit for each.
    pub departing: u32,
    reserved: [u32; 3],
    /// Which frames that come can be stamped, a bit for each filter.
    pub coming: u32,
    reserved_too: [u32; 3],
}

/// `struct hwtstamp_config` (`include/uapi/linux/net_tstamp.h`).
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(crate) struct StampConfig {
    flags: i32,
    /// How frames that leave are stamped; 0: not at all.
    pub departing: i32,
    /// Which frames that come are; 0: none.
    pub coming: i32,
}

const SIOCSHWTSTAMP: libc::Ioctl = 0x89b0;
const SIOCGHWTSTAMP: libc::Ioctl = 0x89b1;
const SIOCETHTOOL: libc::Ioctl = 0x8946;
const ETHTOOL_GET_TS_INFO: u32 = 0x41;

impl InterfaceControl {
    /// The interface of this name.
    ///
    /// # Errors
    /// If there is no socket to ask by.
    pub fn new(name: &str) -> io::Result<Self> {
        let socket = rustix::net::socket_with(AddressFamily::INET, SocketType::DGRAM, SocketFlags::CLOEXEC, None)?;
        Ok(Self { socket, name: name.to_owned() })
    }

    /// Its number.
    ///
    /// # Errors
    /// If there is no such interface.
    pub fn index(&self) -> io::Result<i32> {
        let mut request = self.request();
        self.ioctl(libc::SIOCGIFINDEX, &mut request)?;
        // SAFETY: SIOCGIFINDEX has filled this member.
        Ok(unsafe { request.ifr_ifru.ifru_ifindex })
    }

    /// The MTU; what exceeds our type is as good as its maximum.
    ///
    /// # Errors
    /// If there is no such interface.
    pub fn mtu(&self) -> io::Result<u16> {
        let mut request = self.request();
        self.ioctl(libc::SIOCGIFMTU, &mut request)?;
        // SAFETY: SIOCGIFMTU has filled this member.
        let mtu = unsafe { request.ifr_ifru.ifru_mtu };
        Ok(u16::try_from(mtu).unwrap_or(u16::MAX))
    }

    /// Whether it exists, is up, and can pass frames.
    #[must_use]
    pub fn is_up(&self) -> bool {
        let mut request = self.request();
        if self.ioctl(libc::SIOCGIFFLAGS, &mut request).is_err() {
            return false;
        }
        // SAFETY: SIOCGIFFLAGS has filled this member.
        let flags = i32::from(unsafe { request.ifr_ifru.ifru_flags });
        flags & libc::IFF_UP != 0 && flags & libc::IFF_RUNNING != 0
    }

    /// What its driver can stamp.
    pub(crate) fn stamp_facts(&self) -> io::Result<StampFacts> {
        let mut facts = StampFacts { cmd: ETHTOOL_GET_TS_INFO, clock: -1, ..StampFacts::default() };
        let mut request = self.request();
        request.ifr_ifru.ifru_data = (&raw mut facts).cast();
        self.ioctl(SIOCETHTOOL, &mut request)?;
        Ok(facts)
    }

    /// What its NIC stamps now.
    pub(crate) fn stamp_config(&self) -> io::Result<StampConfig> {
        self.stamp_ioctl(SIOCGHWTSTAMP, StampConfig::default())
    }

    /// Has its NIC stamp frames. What it stamps then, which may be more.
    pub(crate) fn set_stamp_config(&self, departing: i32, coming: i32) -> io::Result<StampConfig> {
        self.stamp_ioctl(SIOCSHWTSTAMP, StampConfig { flags: 0, departing, coming })
    }

    fn stamp_ioctl(&self, number: libc::Ioctl, mut config: StampConfig) -> io::Result<StampConfig> {
        let mut request = self.request();
        request.ifr_ifru.ifru_data = (&raw mut config).cast();
        self.ioctl(number, &mut request)?;
        Ok(config)
    }

    fn ioctl(&self, number: libc::Ioctl, request: &mut libc::ifreq) -> io::Result<()> {
        // SAFETY: all ioctls read and write one `ifreq`, which is borrowed for the call, and some the structure that
        // it points to, which its caller has on the stack in the size that they expect.
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
