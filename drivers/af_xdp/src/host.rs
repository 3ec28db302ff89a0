//! The host that an interface belongs to, as its kernel tells by netlink: what
//! addresses it has there, where it sends packets, and who its neighbours are.
//!
//! A stack on the host's own addresses sends no ARP and no neighbour
//! solicitation: it asks here ([`HostView::ask`]), the kernel asks the network
//! as it does for itself, and the answer comes out of [`HostView::poll`].
//!
//! RFC 3549; rtnetlink(7); `include/uapi/linux/{rtnetlink,neighbour}.h`.

use crate::netlink::{self, Message, attribute, attributes, byte, long, short};
use core::net::IpAddr;
use rustix::io::Errno;
use rustix::net::RecvFlags;
use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use wire::Mac;

/// Groups whose news are wanted (`RTMGRP_*`): interfaces, neighbours, and
/// addresses and routes of both families.
const GROUPS: u32 = 0x1 | 0x4 | 0x10 | 0x40 | 0x100 | 0x400;

/// Datagrams taken in one poll; more wait for the next.
const POLL_LIMIT: usize = 64;

/// Kinds of messages (`RTM_*`).
const NEW_LINK: u16 = 16;
const GET_LINK: u16 = 18;
const NEW_ADDRESS: u16 = 20;
const DEL_ADDRESS: u16 = 21;
const GET_ADDRESS: u16 = 22;
const NEW_ROUTE: u16 = 24;
const DEL_ROUTE: u16 = 25;
const GET_ROUTE: u16 = 26;
const NEW_NEIGHBOUR: u16 = 28;
const DEL_NEIGHBOUR: u16 = 29;
const GET_NEIGHBOUR: u16 = 30;

/// Lengths of their headers: `struct ifinfomsg`, `ifaddrmsg`, `rtmsg`, `ndmsg`.
const LINK: usize = 16;
const ADDRESS: usize = 8;
const ROUTE: usize = 12;
const NEIGHBOUR: usize = 12;

/// Of a link: its MTU, and the program that it has (`IFLA_*`), which is by number one of
/// these (`IFLA_XDP_*`): any, the driver's, the kernel's, the NIC's.
const MTU: u16 = 4;
const XDP: u16 = 43;
const PROGRAMS: core::ops::RangeInclusive<u16> = 4..=7;

/// Of an address: itself, or its peer's on a link of two (`IFA_*`); not to be used, as it
/// is not known yet that nobody else has it, or somebody has (`IFA_F_*`).
const IFA_ADDRESS: u16 = 1;
const IFA_LOCAL: u16 = 2;
const TENTATIVE: u8 = 0x40;
const DAD_FAILED: u8 = 0x08;

/// Of a route (`RTA_*`).
const DESTINATION: u16 = 1;
const OUT: u16 = 4;
const GATEWAY: u16 = 5;
const PRIORITY: u16 = 6;
const MULTIPATH: u16 = 9;
const TABLE: u16 = 15;
/// One that leads somewhere (`RTN_UNICAST`).
const UNICAST: u8 = 1;
/// The kernel's main routing table (`RT_TABLE_MAIN`).
const MAIN_TABLE: u32 = 254;
/// `struct rtnexthop`, before what belongs to one of several ways.
const HOP: usize = 8;

/// Of a neighbour (`NDA_*`), and its states (`NUD_*`).
const NEIGHBOUR_IP: u16 = 1;
const NEIGHBOUR_MAC: u16 = 2;
const REACHABLE: u16 = 0x02;
const STALE: u16 = 0x04;
const DELAY: u16 = 0x08;
const PROBE: u16 = 0x10;
const FAILED: u16 = 0x20;
const PERMANENT: u16 = 0x80;
/// It is used (`NTF_USE`).
const USE: u8 = 1;

/// Families of addresses, as these messages have them.
const INET: u8 = 2;
const INET6: u8 = 10;

/// An address of the host on the interface, with its prefix length.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct HostAddress {
    /// The address.
    pub ip: IpAddr,
    /// Length of its prefix, in bits.
    pub prefix_len: u8,
}

/// Where the kernel sends packets through the interface.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct HostRoute {
    /// The network.
    pub destination: IpAddr,
    /// Length of its prefix, in bits.
    pub prefix_len: u8,
    /// The router; `None` for a network that the interface is on.
    pub gateway: Option<IpAddr>,
    /// Of several routes to a network the one with the least counts.
    pub metric: u32,
}

/// What changed at the host.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum HostEvent {
    /// A neighbour has this hardware address; `proven` lately, or it is what
    /// the kernel knew.
    Neighbour {
        /// The neighbour.
        ip: IpAddr,
        /// Its hardware address.
        mac: Mac,
        /// It answered the kernel, or was set by the administrator.
        proven: bool,
    },
    /// The kernel knows no hardware address of this neighbour, or no longer.
    NeighbourGone(IpAddr),
    /// The host has one more address.
    Address(HostAddress),
    /// The host has this address no longer.
    AddressGone(IpAddr),
    /// These are the routes from now on, best last.
    Routes(Vec<HostRoute>),
    /// The interface's MTU may have changed, and is this, in bytes.
    Mtu(u32),
}

/// One interface of the host, watched. Its descriptor is readable when there is
/// something to [`HostView::poll`].
#[derive(Debug)]
pub struct HostView {
    interface: u32,
    socket: OwnedFd,
    events: VecDeque<HostEvent>,
    /// Routes changed: they are read again when all news are read.
    routes_changed: bool,
    buffer: Vec<u8>,
}

impl AsFd for HostView {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

impl HostView {
    /// Watches the interface called `name`, of this thread's network
    /// namespace. From here on nothing is missed.
    ///
    /// # Errors
    /// The system's; of kind `NotFound` if there is no such interface.
    pub fn open(name: &str) -> io::Result<Self> {
        let interface = crate::interface::Interface::open(name)?.index();
        let socket = netlink::socket(GROUPS)?;
        Ok(Self {
            interface,
            socket,
            events: VecDeque::new(),
            routes_changed: false,
            buffer: vec![0; netlink::DATAGRAM_LIMIT],
        })
    }

    /// The host's addresses on the interface: those that may be used.
    ///
    /// # Errors
    /// The system's.
    pub fn addresses(&self) -> io::Result<Vec<HostAddress>> {
        netlink::dump(GET_ADDRESS, &[0; ADDRESS], |message| match message.kind {
            NEW_ADDRESS => self.address(message.body),
            _ => None,
        })
    }

    /// Where the kernel sends packets through the interface, best last: its
    /// main table.
    ///
    /// # Errors
    /// The system's.
    pub fn routes(&self) -> io::Result<Vec<HostRoute>> {
        let mut routes = netlink::dump(GET_ROUTE, &[0; ROUTE], |message| match message.kind {
            NEW_ROUTE => self.route(message.body),
            _ => None,
        })?;
        routes.sort_by_key(|route| core::cmp::Reverse(route.metric));
        Ok(routes)
    }

    /// Makes the kernel resolve a neighbour, or see whether it is still there,
    /// and tell what it knows. What the network answers comes when it does.
    pub fn ask(&mut self, ip: IpAddr) {
        let about = |flags: u8| {
            let mut body = vec![if ip.is_ipv4() { INET } else { INET6 }, 0, 0, 0];
            body.extend(self.interface.to_ne_bytes());
            // No state, and no type.
            body.extend([0, 0, flags, 0]);
            netlink::put_address(&mut body, NEIGHBOUR_IP, ip);
            body
        };
        // What is known, then a use of it: that of an entry that is not there
        // makes it (`neigh_add` in net/core/neighbour.c).
        // A request that finds no room is made again at the stack's next try.
        let _ = netlink::send(&self.socket, GET_NEIGHBOUR, netlink::REQUEST, &about(0));
        let _ = netlink::send(&self.socket, NEW_NEIGHBOUR, netlink::REQUEST | netlink::CREATE, &about(USE));
    }

    /// The next of what changed; `None` if nothing did. Never blocks.
    pub fn poll(&mut self) -> Option<HostEvent> {
        if let Some(event) = self.events.pop_front() {
            return Some(event);
        }
        for _ in 0..POLL_LIMIT {
            match rustix::net::recv(&self.socket, &mut self.buffer[..], RecvFlags::DONTWAIT) {
                Ok((len, _)) => {
                    let len = len.min(self.buffer.len());
                    let buffer = core::mem::take(&mut self.buffer);
                    netlink::messages(&buffer[..len]).for_each(|message| self.on_message(message));
                    self.buffer = buffer;
                }
                // More happened than fits: what neighbours there are is asked
                // for again by those who use them.
                Err(Errno::NOBUFS) => {
                    self.routes_changed = true;
                    let addresses = self.addresses().unwrap_or_default();
                    self.events.extend(addresses.into_iter().map(HostEvent::Address));
                }
                Err(Errno::INTR) => {}
                Err(_) => break,
            }
        }
        if core::mem::take(&mut self.routes_changed)
            && let Ok(routes) = self.routes()
        {
            self.events.push_back(HostEvent::Routes(routes));
        }
        self.events.pop_front()
    }

    fn on_message(&mut self, Message { kind, body, .. }: Message<'_>) {
        match kind {
            NEW_NEIGHBOUR => self.events.extend(self.neighbour(body)),
            DEL_NEIGHBOUR => {
                let gone = self.neighbour_ip(body).map(HostEvent::NeighbourGone);
                self.events.extend(gone);
            }
            NEW_ADDRESS => self.events.extend(self.address(body).map(HostEvent::Address)),
            DEL_ADDRESS => {
                let gone = self.address(body).map(|address| HostEvent::AddressGone(address.ip));
                self.events.extend(gone);
            }
            NEW_ROUTE | DEL_ROUTE => self.routes_changed = true,
            NEW_LINK if long(body, 4) == Some(self.interface) => {
                let mtu = body.get(LINK..).and_then(|body| long(attribute(body, MTU)?, 0));
                self.events.extend(mtu.map(HostEvent::Mtu));
            }
            _ => {}
        }
    }

    /// Whose entry it is, if that is behind this interface.
    fn neighbour_ip(&self, body: &[u8]) -> Option<IpAddr> {
        if long(body, 4)? != self.interface {
            return None;
        }
        netlink::address(attribute(body.get(NEIGHBOUR..)?, NEIGHBOUR_IP)?)
    }

    fn neighbour(&self, body: &[u8]) -> Option<HostEvent> {
        let ip = self.neighbour_ip(body)?;
        let proven = match short(body, 8)? {
            REACHABLE | PERMANENT => true,
            STALE | DELAY | PROBE => false,
            FAILED => return Some(HostEvent::NeighbourGone(ip)),
            // Being asked for; or of groups, which have no neighbours.
            _ => return None,
        };
        let mac = Mac(attribute(body.get(NEIGHBOUR..)?, NEIGHBOUR_MAC)?.try_into().ok()?);
        Some(HostEvent::Neighbour { ip, mac, proven })
    }

    fn address(&self, body: &[u8]) -> Option<HostAddress> {
        if long(body, 4)? != self.interface {
            return None;
        }
        // Not before it is known that nobody else has it (RFC 4862 section
        // 5.4); the kernel tells once more when it is.
        if byte(body, 2)? & (TENTATIVE | DAD_FAILED) != 0 {
            return None;
        }
        let of = |kind| netlink::address(attribute(body.get(ADDRESS..)?, kind)?);
        // The one is the peer's where there is the other (ifaddrs of a
        // point-to-point interface).
        let ip = of(IFA_LOCAL).or_else(|| of(IFA_ADDRESS))?;
        Some(HostAddress { ip, prefix_len: byte(body, 1)? })
    }

    fn route(&self, body: &[u8]) -> Option<HostRoute> {
        let (mut table, mut through, mut gateway, mut destination, mut metric) =
            (u32::from(byte(body, 4)?), None, None, None, 0);
        for (kind, value) in attributes(body.get(ROUTE..)?) {
            match kind {
                TABLE => table = long(value, 0)?,
                OUT => through = long(value, 0),
                GATEWAY => gateway = netlink::address(value),
                DESTINATION => destination = netlink::address(value),
                PRIORITY => metric = long(value, 0)?,
                MULTIPATH => {
                    // Of several routers the first on this interface.
                    if let Some(hop) = hops(value).find(|hop| long(hop, 4) == Some(self.interface)) {
                        through = Some(self.interface);
                        gateway = hop.get(HOP..).and_then(|hop| netlink::address(attribute(hop, GATEWAY)?));
                    }
                }
                _ => {}
            }
        }
        let any = match byte(body, 0)? {
            INET => IpAddr::V4(core::net::Ipv4Addr::UNSPECIFIED),
            INET6 => IpAddr::V6(core::net::Ipv6Addr::UNSPECIFIED),
            _ => return None,
        };
        let ours = table == MAIN_TABLE && through == Some(self.interface) && byte(body, 7)? == UNICAST;
        ours.then_some(HostRoute {
            destination: destination.unwrap_or(any),
            prefix_len: byte(body, 1)?,
            gateway,
            metric,
        })
    }
}

/// Each of several ways of a route, as far as lengths are true.
fn hops(mut bytes: &[u8]) -> impl Iterator<Item = &[u8]> {
    core::iter::from_fn(move || {
        let length = usize::from(short(bytes, 0)?);
        let hop = bytes.get(..length).filter(|_| length >= HOP)?;
        bytes = bytes.get(length.next_multiple_of(4)..).unwrap_or_default();
        Some(hop)
    })
}

/// The number of the XDP program on an interface, if it has one.
pub(crate) fn attached_program(interface: u32) -> Option<u32> {
    let socket = netlink::socket(0).ok()?;
    let mut body = [0; LINK];
    body[4..8].copy_from_slice(&interface.to_ne_bytes());
    netlink::send(&socket, GET_LINK, netlink::REQUEST, &body).ok()?;
    let mut buffer = vec![0; netlink::DATAGRAM_LIMIT];
    let (len, _) = rustix::net::recv(&socket, &mut buffer[..], RecvFlags::empty()).ok()?;
    let mut links = netlink::messages(&buffer[..len.min(buffer.len())]).filter(|message| message.kind == NEW_LINK);
    links.find_map(|link| {
        let mut all = attributes(attribute(link.body.get(LINK..)?, XDP)?);
        all.find_map(|(kind, value)| long(value, 0).filter(|id| PROGRAMS.contains(&kind) && *id != 0))
    })
}

#[cfg(test)]
mod tests;
