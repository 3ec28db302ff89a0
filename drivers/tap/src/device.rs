//! The device and its interface, as the kernel's ioctls present them.

use crate::config::{Config, KernelAddress};
use crate::header;
use core::ffi::c_int;
use core::fmt;
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use core::time::Duration;
use rustix::fd::OwnedFd;
use rustix::fs::{Mode, OFlags};
use rustix::net::{AddressFamily, SocketFlags, SocketType};
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};

/// One queue of the device: a descriptor that reads and writes frames.
pub(crate) struct Device {
    fd: OwnedFd,
    header_len: usize,
}

impl Device {
    /// Opens a queue of the device, which is made if it does not exist.
    pub(crate) fn open(config: &Config) -> Result<Self, TapError> {
        let fail = |step, e| TapError::new(config, step, e);
        let flags = OFlags::RDWR | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let fd = rustix::fs::open("/dev/net/tun", flags, Mode::empty()).map_err(|e| fail(Step::OpenTun, e.into()))?;
        let offload = config.offload && has_header(fd.as_fd());
        let mut flags = libc::IFF_TAP | libc::IFF_NO_PI;
        if offload {
            flags |= libc::IFF_VNET_HDR;
        }
        if config.queues > 1 {
            flags |= libc::IFF_MULTI_QUEUE;
        }
        let mut request = request(&config.name);
        request.ifr_ifru.ifru_flags = flags as i16;
        // SAFETY: TUNSETIFF reads and writes one `ifreq`, which lives on this
        // frame during the call.
        let set = unsafe { libc::ioctl(fd.as_raw_fd(), libc::TUNSETIFF, &raw mut request) };
        checked(set).map_err(|e| fail(Step::Attach, e))?;
        if offload {
            set_header(fd.as_fd(), config.large).map_err(|e| fail(Step::Offload, e))?;
        }
        Ok(Self { fd, header_len: if offload { header::LEN } else { 0 } })
    }

    /// A queue that another process opened; `text` is what [`Device::text`] told
    /// there.
    pub(crate) fn given(fd: OwnedFd, text: &str) -> Option<Self> {
        let header_len = text.parse().ok().filter(|len| [0, header::LEN].contains(len))?;
        Some(Self { fd, header_len })
    }

    /// What another process is to know of it.
    pub(crate) fn text(&self) -> String {
        self.header_len.to_string()
    }

    /// The descriptor, for another process.
    pub(crate) fn into_fd(self) -> OwnedFd {
        self.fd
    }

    /// Bytes of the kernel's header before each frame: none without offload.
    #[inline]
    pub(crate) fn header_len(&self) -> usize {
        self.header_len
    }
}

impl AsFd for Device {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// Whether the kernel offers the offload header.
fn has_header(tun: BorrowedFd<'_>) -> bool {
    let mut features: c_int = 0;
    // SAFETY: TUNGETFEATURES writes one `int`, which lives during the call.
    let got = unsafe { libc::ioctl(tun.as_raw_fd(), libc::TUNGETFEATURES, &raw mut features) };
    got == 0 && features & libc::IFF_VNET_HDR != 0
}

/// Fixes the header's size, which a persistent device may have otherwise,
/// and says what may be received: frames without checksum, and large ones.
fn set_header(tun: BorrowedFd<'_>, large: bool) -> io::Result<()> {
    let size = header::LEN as c_int;
    // SAFETY: TUNSETVNETHDRSZ reads one `int`, which lives during the call.
    checked(unsafe { libc::ioctl(tun.as_raw_fd(), libc::TUNSETVNETHDRSZ, &raw const size) })?;
    let mut offloads = libc::TUN_F_CSUM;
    if large {
        offloads |= libc::TUN_F_TSO4 | libc::TUN_F_TSO6 | libc::TUN_F_TSO_ECN;
    }
    // SAFETY: TUNSETOFFLOAD takes its flags by value.
    checked(unsafe { libc::ioctl(tun.as_raw_fd(), libc::TUNSETOFFLOAD, libc::c_ulong::from(offloads)) })
}

/// The interface, through a socket of the network namespace that it is in.
pub(crate) struct Control {
    socket: OwnedFd,
    name: String,
}

/// An address that is not settled yet: IFA_F_TENTATIVE (include/uapi/linux/if_addr.h).
const TENTATIVE: u8 = 0x40;

/// How often the kernel's addresses are looked at until they are settled, at most, and after what time
/// each: ten seconds, as the kernel's thread waits for a core like everybody. Where they need longer,
/// nothing is lost but that time.
const SETTLE_LOOKS: u32 = 5_000;
const SETTLE_LOOK: Duration = Duration::from_millis(2);

impl AsFd for Control {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

impl Control {
    pub(crate) fn new(config: &Config) -> Result<Self, TapError> {
        let socket =
            control_socket(AddressFamily::INET).map_err(|e| TapError::new(config, Step::Configure("ask for"), e))?;
        Ok(Self { socket, name: config.name.clone() })
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// Sets MTU and addresses as asked, and the interface up. What already
    /// is as asked is left alone, so that a device which an administrator
    /// has set up works without any right to change it.
    pub(crate) fn configure(&self, config: &Config) -> Result<(), TapError> {
        let fail = |what| move |e| TapError::new(config, Step::Configure(what), e);
        if let Some(mtu) = config.mtu
            && self.get_mtu().map_err(fail("read the MTU of"))? != c_int::from(mtu)
        {
            self.set_mtu(mtu).map_err(fail("set the MTU of"))?;
        }
        if config.addresses.iter().any(|a| a.address.is_ipv6()) {
            // Without this an address rests a second or two in duplicate
            // detection (RFC 4862, section 5.4), on a link that has two
            // hosts. Where it cannot be switched off, that wait remains.
            let knob = format!("/proc/sys/net/ipv6/conf/{}/accept_dad", self.name);
            let _ = std::fs::write(knob, "0");
        }
        for address in &config.addresses {
            if !self.has(*address) {
                self.add(*address).map_err(fail("add an address to"))?;
            }
        }
        let flags = self.flags().map_err(fail("read the flags of"))?;
        if flags & libc::IFF_UP == 0 {
            self.set_flags(flags | libc::IFF_UP).map_err(fail("set up"))?;
        }
        self.settle(config);
        Ok(())
    }

    /// Waits until the kernel has settled the addresses, which a thread of its own does: whoever
    /// connects before has another source, for as long as the connection is tried (::1, where
    /// there is no other).
    fn settle(&self, config: &Config) {
        let is_tentative = |host: &KernelAddress| match host.address {
            IpAddr::V4(_) => false,
            IpAddr::V6(address) => self.inet6(address, host.prefix).is_some_and(|flags| flags & TENTATIVE != 0),
        };
        for _ in 0..SETTLE_LOOKS {
            if !config.addresses.iter().any(is_tentative) {
                return;
            }
            std::thread::sleep(SETTLE_LOOK);
        }
    }

    /// The interface's MTU; what exceeds our type is as good as its maximum.
    pub(crate) fn mtu(&self) -> Result<u16, TapError> {
        match self.get_mtu() {
            Ok(mtu) => Ok(u16::try_from(mtu).unwrap_or(u16::MAX)),
            Err(source) => {
                let name = self.name.clone();
                Err(TapError { name, step: Step::Configure("read the MTU of"), source })
            }
        }
    }

    /// Whether the interface exists, is up, and can pass frames.
    pub(crate) fn is_up(&self) -> bool {
        self.flags().is_ok_and(|f| f & libc::IFF_UP != 0 && f & libc::IFF_RUNNING != 0)
    }

    /// Whether there is an interface of the name.
    pub(crate) fn exists(&self) -> bool {
        self.index().is_ok()
    }

    fn get_mtu(&self) -> io::Result<c_int> {
        let mut request = request(&self.name);
        self.ioctl(libc::SIOCGIFMTU, &mut request)?;
        // SAFETY: SIOCGIFMTU has filled this member.
        Ok(unsafe { request.ifr_ifru.ifru_mtu })
    }

    fn set_mtu(&self, mtu: u16) -> io::Result<()> {
        let mut request = request(&self.name);
        request.ifr_ifru.ifru_mtu = mtu.into();
        self.ioctl(libc::SIOCSIFMTU, &mut request)
    }

    fn flags(&self) -> io::Result<c_int> {
        let mut request = request(&self.name);
        self.ioctl(libc::SIOCGIFFLAGS, &mut request)?;
        // SAFETY: SIOCGIFFLAGS has filled this member.
        Ok(unsafe { request.ifr_ifru.ifru_flags }.into())
    }

    fn set_flags(&self, flags: c_int) -> io::Result<()> {
        let mut request = request(&self.name);
        request.ifr_ifru.ifru_flags = flags as i16;
        self.ioctl(libc::SIOCSIFFLAGS, &mut request)
    }

    fn index(&self) -> io::Result<c_int> {
        let mut request = request(&self.name);
        self.ioctl(libc::SIOCGIFINDEX, &mut request)?;
        // SAFETY: SIOCGIFINDEX has filled this member.
        Ok(unsafe { request.ifr_ifru.ifru_ifindex })
    }

    /// Whether the interface has the address; where that cannot be read, the
    /// attempt to add it will tell.
    fn has(&self, host: KernelAddress) -> bool {
        match host.address {
            IpAddr::V4(address) => {
                let mut request = request(&self.name);
                let got = self.ioctl(libc::SIOCGIFADDR, &mut request);
                // SAFETY: SIOCGIFADDR has filled this member, or it is zero.
                let has = unsafe { request.ifr_ifru.ifru_addr };
                if got.is_err() || has.sa_data[2..6] != socket_address(address).sa_data[2..6] {
                    return false;
                }
                let got = self.ioctl(libc::SIOCGIFNETMASK, &mut request);
                // SAFETY: SIOCGIFNETMASK has filled this member, or it is as
                // SIOCGIFADDR left it.
                let has = unsafe { request.ifr_ifru.ifru_netmask };
                got.is_ok() && has.sa_data[2..6] == socket_address(mask(host.prefix)).sa_data[2..6]
            }
            IpAddr::V6(address) => self.inet6(address, host.prefix).is_some(),
        }
    }

    /// The flags of an IPv6 address of the interface, if it has it.
    fn inet6(&self, address: Ipv6Addr, prefix: u8) -> Option<u8> {
        // Address, interface index, prefix, scope, flags, name; all
        // numbers in hexadecimal (net/ipv6/addrconf.c).
        let list = std::fs::read_to_string("/proc/thread-self/net/if_inet6").ok()?;
        let (address, prefix) = (format!("{:032x}", u128::from(address)), format!("{prefix:02x}"));
        let mut lines = list.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
        let found = lines.find(|fields| {
            fields.len() == 6 && fields[0] == address && fields[2] == prefix && fields[5] == self.name
        })?;
        Some(u8::from_str_radix(found[4], 16).unwrap_or(0))
    }

    fn add(&self, host: KernelAddress) -> io::Result<()> {
        match host.address {
            IpAddr::V4(address) => {
                let mut request = request(&self.name);
                request.ifr_ifru.ifru_addr = socket_address(address);
                self.ioctl(libc::SIOCSIFADDR, &mut request)?;
                request.ifr_ifru.ifru_netmask = socket_address(mask(host.prefix));
                self.ioctl(libc::SIOCSIFNETMASK, &mut request)
            }
            IpAddr::V6(address) => {
                let request = libc::in6_ifreq {
                    ifr6_addr: libc::in6_addr { s6_addr: address.octets() },
                    ifr6_prefixlen: host.prefix.into(),
                    ifr6_ifindex: self.index()?,
                };
                let socket = control_socket(AddressFamily::INET6)?;
                // SAFETY: SIOCSIFADDR on an IPv6 socket reads one
                // `in6_ifreq`, which lives during the call.
                let set = unsafe { libc::ioctl(socket.as_raw_fd(), libc::SIOCSIFADDR, &raw const request) };
                match checked(set) {
                    // A second start finds the address of the first.
                    Err(e) if e.raw_os_error() == Some(libc::EEXIST) => Ok(()),
                    done => done,
                }
            }
        }
    }

    fn ioctl(&self, number: libc::Ioctl, request: &mut libc::ifreq) -> io::Result<()> {
        // SAFETY: the interface ioctls used here read and write one `ifreq`,
        // which is borrowed for the call.
        checked(unsafe { libc::ioctl(self.socket.as_raw_fd(), number, &raw mut *request) })
    }
}

fn control_socket(family: AddressFamily) -> io::Result<OwnedFd> {
    Ok(rustix::net::socket_with(family, SocketType::DGRAM, SocketFlags::CLOEXEC, None)?)
}

/// A request about the interface called `name`, otherwise zero.
fn request(name: &str) -> libc::ifreq {
    // SAFETY: an `ifreq` is plain bytes and pointers; all zero is valid.
    let mut request: libc::ifreq = unsafe { core::mem::zeroed() };
    // A name is shorter than the field, which keeps its NUL at the end.
    for (to, from) in request.ifr_name[..libc::IFNAMSIZ - 1].iter_mut().zip(name.bytes()) {
        *to = from as libc::c_char;
    }
    request
}

/// An IPv4 address in the generic form that an `ifreq` holds.
fn socket_address(address: Ipv4Addr) -> libc::sockaddr {
    let [a, b, c, d] = address.octets().map(|octet| octet as libc::c_char);
    libc::sockaddr {
        sa_family: libc::AF_INET as libc::sa_family_t,
        // As in `sockaddr_in`: a port, the address, and zeros.
        sa_data: [0, 0, a, b, c, d, 0, 0, 0, 0, 0, 0, 0, 0],
    }
}

/// The netmask of a prefix of at most 32 bits.
fn mask(prefix: u8) -> Ipv4Addr {
    u32::MAX.checked_shl(32u32.saturating_sub(prefix.into())).unwrap_or(0).into()
}

fn checked(result: c_int) -> io::Result<()> {
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Why a TAP link could not be opened. The message names what is missing and
/// what to run; trying again helps only after that.
#[derive(Debug)]
pub struct TapError {
    name: String,
    step: Step,
    source: io::Error,
}

/// Where opening failed.
#[derive(Clone, Copy, Debug)]
enum Step {
    OpenTun,
    Attach,
    Offload,
    /// What was attempted with the interface.
    Configure(&'static str),
}

impl TapError {
    fn new(config: &Config, step: Step, source: io::Error) -> Self {
        Self { name: config.name.clone(), step, source }
    }

    /// For a configuration that asks for no queue at all.
    pub(crate) fn no_queue(config: &Config) -> Self {
        Self::new(config, Step::Attach, io::ErrorKind::InvalidInput.into())
    }

    /// For a device that is not to be made and is not there.
    pub(crate) fn no_device(config: &Config) -> Self {
        Self::new(config, Step::Configure("find"), io::ErrorKind::NotFound.into())
    }

    /// Whether a right is missing, rather than something wrong.
    #[must_use]
    #[cfg(test)]
    pub fn is_permission(&self) -> bool {
        self.source.kind() == io::ErrorKind::PermissionDenied
    }
}

impl fmt::Display for TapError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { name, step, source } = self;
        match step {
            Step::OpenTun => write!(f, "cannot open /dev/net/tun: {source}")?,
            Step::Attach => write!(f, "cannot open the tap device {name}: {source}")?,
            Step::Offload => write!(f, "cannot set the offloads of {name}: {source}")?,
            Step::Configure(what) => write!(f, "cannot {what} {name}: {source}")?,
        }
        let hint = match (step, source.raw_os_error()) {
            (Step::OpenTun, Some(libc::ENOENT | libc::ENODEV | libc::ENXIO)) => "; load the driver: modprobe tun",
            (_, Some(libc::EPERM | libc::EACCES)) => {
                return write!(
                    f,
                    "; this needs CAP_NET_ADMIN: run as root, or give it to this one process \
                     (AmbientCapabilities= of systemd, or setpriv --ambient-caps), or let an administrator \
                     prepare the device: ip tuntap add dev {name} \
                     mode tap user USER, ip addr add ADDRESS dev {name}, ip link set {name} up"
                );
            }
            (Step::Attach, Some(libc::EBUSY)) => "; another process has it open",
            (Step::Attach, Some(libc::EINVAL)) => {
                "; an interface of this name exists and is no tap device, or was made with another \
                 number of queues (multi_queue)"
            }
            (Step::Offload, _) => "; try offload=off",
            _ => "",
        };
        f.write_str(hint)
    }
}

impl core::error::Error for TapError {
    fn source(&self) -> Option<&(dyn core::error::Error + 'static)> {
        Some(&self.source)
    }
}
