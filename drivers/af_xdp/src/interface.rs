//! The network interface, as the kernel's ioctls present it.

use core::ffi::c_int;
use rustix::fd::OwnedFd;
use rustix::net::{AddressFamily, SocketFlags, SocketType};
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use wire::Mac;

/// Requests of `SIOCETHTOOL` (`linux/ethtool.h`).
const SIOCETHTOOL: libc::Ioctl = 0x8946 as libc::Ioctl;
const ETHTOOL_GDRVINFO: u32 = 0x03;
const ETHTOOL_GRXFH: u32 = 0x29;
const ETHTOOL_GCHANNELS: u32 = 0x3c;
const ETHTOOL_GRSSH: u32 = 0x46;

/// Most words of an indirection table with its key that are asked for: several
/// times what any driver has.
const RSS_WORDS: u32 = 1 << 16;

/// `struct ethtool_drvinfo`.
#[repr(C)]
struct DriverInfo {
    cmd: u32,
    driver: [u8; 32],
    version: [u8; 32],
    firmware: [u8; 32],
    bus: [u8; 32],
    rest: [u8; 64],
}

/// `struct ethtool_channels`.
#[repr(C)]
#[derive(Default)]
struct Channels {
    cmd: u32,
    max: [u32; 4],
    receive: u32,
    transmit: u32,
    other: u32,
    combined: u32,
}

/// The first members of `struct ethtool_rxnfc`, which are all for this request.
#[repr(C)]
struct FlowHash {
    cmd: u32,
    flow: u32,
    fields: u64,
}

const _: () = assert!(size_of::<DriverInfo>() == 196 && size_of::<Channels>() == 36 && size_of::<FlowHash>() == 16);

/// Words of `struct ethtool_rxfh` before the table: request, context, entries
/// of the table, bytes of the key, functions, reserved.
pub(crate) const RSS_HEAD: usize = 6;

/// An interface of the network namespace in which this was opened.
#[derive(Debug)]
pub(crate) struct Interface {
    socket: OwnedFd,
    name: String,
    index: u32,
}

/// What an interface is like now.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Presence {
    /// Up, with a carrier, and with this MTU in bytes.
    Up(u32),
    /// Down, or without a carrier.
    Down,
    /// Deleted, or moved to another namespace.
    Gone,
}

impl AsFd for Interface {
    /// What the kernel is asked by.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

impl Interface {
    /// The interface called `name`; an error of kind `NotFound` if there is
    /// none.
    pub fn open(name: &str) -> io::Result<Self> {
        let socket = rustix::net::socket_with(AddressFamily::INET, SocketType::DGRAM, SocketFlags::CLOEXEC, None)?;
        let mut this = Self { socket, name: name.to_owned(), index: 0 };
        this.index = match this.read_index() {
            Err(e) if e.raw_os_error() == Some(libc::ENODEV) => return Err(io::ErrorKind::NotFound.into()),
            other => other?,
        };
        Ok(this)
    }

    /// The interface that has the name now, in the same namespace.
    pub fn again(&self) -> io::Result<Self> {
        let mut this = Self { socket: self.socket.try_clone()?, name: self.name.clone(), index: 0 };
        this.index = this.read_index()?;
        Ok(this)
    }

    pub fn name(&self) -> &str {
        &self.name
    }

    pub const fn index(&self) -> u32 {
        self.index
    }

    pub fn mac(&self) -> io::Result<Mac> {
        let mut request = self.request();
        self.ioctl(libc::SIOCGIFHWADDR as libc::Ioctl, &mut request)?;
        // SAFETY: SIOCGIFHWADDR has filled this member.
        let address = unsafe { request.ifr_ifru.ifru_hwaddr };
        if address.sa_family != libc::ARPHRD_ETHER {
            return Err(io::Error::new(io::ErrorKind::Unsupported, "it is no Ethernet interface"));
        }
        let mut mac = Mac::ZERO;
        for (to, from) in mac.0.iter_mut().zip(address.sa_data) {
            *to = from as u8;
        }
        Ok(mac)
    }

    pub fn mtu(&self) -> io::Result<u32> {
        let mut request = self.request();
        self.ioctl(libc::SIOCGIFMTU as libc::Ioctl, &mut request)?;
        // SAFETY: SIOCGIFMTU has filled this member.
        Ok(unsafe { request.ifr_ifru.ifru_mtu }.max(0) as u32)
    }

    /// What has become of it.
    pub fn look(&self) -> Presence {
        // Another one may have taken the name.
        if self.read_index().ok() != Some(self.index) {
            return Presence::Gone;
        }
        match (self.flags(), self.mtu()) {
            (Ok(flags), Ok(mtu)) if flags & libc::IFF_UP != 0 && flags & libc::IFF_RUNNING != 0 => Presence::Up(mtu),
            _ => Presence::Down,
        }
    }

    /// The driver's name and the device's place on its bus; empty where the
    /// driver does not say.
    pub fn driver(&self) -> (String, String) {
        let none = DriverInfo {
            cmd: ETHTOOL_GDRVINFO,
            driver: [0; 32],
            version: [0; 32],
            firmware: [0; 32],
            bus: [0; 32],
            rest: [0; 64],
        };
        let mut info = none;
        if self.ethtool(&mut info).is_err() {
            return (String::new(), String::new());
        }
        (text(&info.driver), text(&info.bus))
    }

    /// Receive queues in use; one where the driver does not say.
    pub fn queues(&self) -> u32 {
        let mut channels = Channels { cmd: ETHTOOL_GCHANNELS, ..Channels::default() };
        match self.ethtool(&mut channels) {
            Ok(()) => channels.combined.saturating_add(channels.receive).max(1),
            Err(_) => 1,
        }
    }

    /// The indirection table and the key behind their `struct ethtool_rxfh`,
    /// as the driver tells them.
    pub fn rss(&self) -> io::Result<Vec<u32>> {
        let mut head = [ETHTOOL_GRSSH, 0, 0, 0, 0, 0];
        self.ethtool(&mut head)?;
        let [_, _, entries, key, ..] = head;
        let words = entries.saturating_add(key.div_ceil(4));
        if words > RSS_WORDS {
            return Err(io::ErrorKind::InvalidData.into());
        }
        let mut all = vec![0; RSS_HEAD + words as usize];
        (all[0], all[2], all[3]) = (ETHTOOL_GRSSH, entries, key);
        self.ethtool(&mut all[..])?;
        Ok(all)
    }

    /// The fields that a kind of flow (`TCP_V4_FLOW`) is hashed by, as bits
    /// (`RXH_IP_SRC`).
    pub fn hashed_fields(&self, flow: u32) -> io::Result<u64> {
        let mut hash = FlowHash { cmd: ETHTOOL_GRXFH, flow, fields: 0 };
        self.ethtool(&mut hash)?;
        Ok(hash.fields)
    }

    /// The NUMA domain of the device; `None` for one that is in none, as a
    /// virtual one, or where there is one domain.
    pub fn domain(&self) -> Option<u16> {
        let (_, bus) = self.driver();
        // By the bus, because /sys/class/net shows the namespace that it was
        // mounted in, and not ours.
        if bus.is_empty() || bus.contains('/') {
            return None;
        }
        let node = std::fs::read_to_string(format!("/sys/bus/pci/devices/{bus}/numa_node")).ok()?;
        node.trim().parse().ok()
    }

    fn read_index(&self) -> io::Result<u32> {
        let mut request = self.request();
        self.ioctl(libc::SIOCGIFINDEX as libc::Ioctl, &mut request)?;
        // SAFETY: SIOCGIFINDEX has filled this member.
        Ok(unsafe { request.ifr_ifru.ifru_ifindex } as u32)
    }

    fn flags(&self) -> io::Result<c_int> {
        let mut request = self.request();
        self.ioctl(libc::SIOCGIFFLAGS as libc::Ioctl, &mut request)?;
        // SAFETY: SIOCGIFFLAGS has filled this member.
        Ok(unsafe { request.ifr_ifru.ifru_flags }.into())
    }

    /// `command` begins with the number of a request that fits its type.
    fn ethtool<C: ?Sized>(&self, command: &mut C) -> io::Result<()> {
        let mut request = self.request();
        request.ifr_ifru.ifru_data = core::ptr::from_mut(command).cast();
        self.ioctl(SIOCETHTOOL, &mut request)
    }

    /// A request about this interface, otherwise zero.
    fn request(&self) -> libc::ifreq {
        // SAFETY: an `ifreq` is plain bytes and pointers; all zero is valid.
        let mut request: libc::ifreq = unsafe { core::mem::zeroed() };
        // A name is shorter than the field, which keeps its NUL at the end.
        for (to, from) in request.ifr_name[..libc::IFNAMSIZ - 1].iter_mut().zip(self.name.bytes()) {
            *to = from as libc::c_char;
        }
        request
    }

    fn ioctl(&self, number: libc::Ioctl, request: &mut libc::ifreq) -> io::Result<()> {
        // SAFETY: the interface ioctls used here read and write one `ifreq`,
        // which is borrowed for the call, and what its data points to, which
        // is as large as the request says.
        let result = unsafe { libc::ioctl(self.socket.as_raw_fd(), number, core::ptr::from_mut(request)) };
        if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
    }
}

/// A field's text, up to its NUL.
fn text(field: &[u8]) -> String {
    let end = field.iter().position(|byte| *byte == 0).unwrap_or(field.len());
    String::from_utf8_lossy(&field[..end]).into_owned()
}
