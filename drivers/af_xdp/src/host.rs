//! The host that an interface belongs to, as its kernel tells by netlink: what
//! addresses it has there, where it sends packets, and who its neighbours are.
//!
//! A stack on the host's own addresses sends no ARP and no neighbour
//! solicitation: it asks here ([`HostView::ask`]), the kernel asks the network
//! as it does for itself, and the answer comes out of [`HostView::poll`].
//!
//! RFC 3549; rtnetlink(7); `include/uapi/linux/{rtnetlink,neighbour}.h`.

use core::net::IpAddr;
use netlink_packet_core::{NLM_F_CREATE, NLM_F_DUMP, NLM_F_REQUEST, NetlinkHeader, NetlinkMessage, NetlinkPayload};
use netlink_packet_route::address::{AddressAttribute, AddressHeaderFlags, AddressMessage};
use netlink_packet_route::link::{LinkAttribute, LinkMessage, LinkXdp};
use netlink_packet_route::neighbour::{
    NeighbourAddress, NeighbourAttribute, NeighbourFlags, NeighbourMessage, NeighbourState,
};
use netlink_packet_route::route::{RouteAddress, RouteAttribute, RouteHeader, RouteMessage, RouteType};
use netlink_packet_route::{AddressFamily, RouteNetlinkMessage as Message};
use rustix::io::Errno;
use rustix::net::netlink::SocketAddrNetlink;
use rustix::net::{RecvFlags, SendFlags, SocketFlags, SocketType};
use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use wire::Mac;

/// Groups whose news are wanted (`RTMGRP_*`): interfaces, neighbours, and
/// addresses and routes of both families.
const GROUPS: u32 = 0x1 | 0x4 | 0x10 | 0x40 | 0x100 | 0x400;

/// Bytes of the largest message: what iproute2 reads with.
const MESSAGE_LIMIT: usize = 32 << 10;

/// Datagrams taken in one poll; more wait for the next.
const POLL_LIMIT: usize = 64;

/// How often a dump that was interrupted by a change is begun again.
const DUMP_TRIES: usize = 8;

/// The kernel's main routing table.
const MAIN_TABLE: u32 = RouteHeader::RT_TABLE_MAIN as u32;

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
        let socket = route_socket(GROUPS)?;
        Ok(Self { interface, socket, events: VecDeque::new(), routes_changed: false, buffer: vec![0; MESSAGE_LIMIT] })
    }

    /// The host's addresses on the interface: those that may be used.
    ///
    /// # Errors
    /// The system's.
    pub fn addresses(&self) -> io::Result<Vec<HostAddress>> {
        let all = dump(Message::GetAddress(AddressMessage::default()), |message| match message {
            Message::NewAddress(message) => self.address(&message),
            _ => None,
        })?;
        Ok(all)
    }

    /// Where the kernel sends packets through the interface, best last: its
    /// main table.
    ///
    /// # Errors
    /// The system's.
    pub fn routes(&self) -> io::Result<Vec<HostRoute>> {
        let routes = dump(Message::GetRoute(RouteMessage::default()), |message| match message {
            Message::NewRoute(message) => self.route(&message),
            _ => None,
        });
        let mut routes = routes?;
        routes.sort_by_key(|route| core::cmp::Reverse(route.metric));
        Ok(routes)
    }

    /// Makes the kernel resolve a neighbour, or see whether it is still there,
    /// and tell what it knows. What the network answers comes when it does.
    pub fn ask(&mut self, ip: IpAddr) {
        let mut message = NeighbourMessage::default();
        message.header.family = family(ip);
        message.header.ifindex = self.interface;
        message.attributes.push(NeighbourAttribute::Destination(match ip {
            IpAddr::V4(ip) => NeighbourAddress::Inet(ip),
            IpAddr::V6(ip) => NeighbourAddress::Inet6(ip),
        }));
        // What is known, then a use of it: that of an entry that is not there
        // makes it (`neigh_add` in net/core/neighbour.c).
        let known = Message::GetNeighbour(message.clone());
        message.header.state = NeighbourState::None;
        message.header.flags = NeighbourFlags::Use;
        // A request that finds no room is made again at the stack's next try.
        let _ = send(&self.socket, known, NLM_F_REQUEST);
        let _ = send(&self.socket, Message::NewNeighbour(message), NLM_F_REQUEST | NLM_F_CREATE);
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
                    each_message(&buffer[..len], |payload| {
                        if let NetlinkPayload::InnerMessage(message) = payload {
                            self.on_message(&message);
                        }
                        true
                    });
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

    fn on_message(&mut self, message: &Message) {
        match message {
            Message::NewNeighbour(entry) => self.events.extend(self.neighbour(entry)),
            Message::DelNeighbour(entry) => {
                let gone = self.neighbour_ip(entry).map(HostEvent::NeighbourGone);
                self.events.extend(gone);
            }
            Message::NewAddress(entry) => self.events.extend(self.address(entry).map(HostEvent::Address)),
            Message::DelAddress(entry) => {
                let gone = self.address(entry).map(|address| HostEvent::AddressGone(address.ip));
                self.events.extend(gone);
            }
            Message::NewRoute(_) | Message::DelRoute(_) => self.routes_changed = true,
            Message::NewLink(link) if link.header.index == self.interface => {
                let mtu = link.attributes.iter().find_map(|attribute| match attribute {
                    LinkAttribute::Mtu(mtu) => Some(HostEvent::Mtu(*mtu)),
                    _ => None,
                });
                self.events.extend(mtu);
            }
            _ => {}
        }
    }

    fn neighbour_ip(&self, entry: &NeighbourMessage) -> Option<IpAddr> {
        if entry.header.ifindex != self.interface {
            return None;
        }
        entry.attributes.iter().find_map(|attribute| match attribute {
            NeighbourAttribute::Destination(NeighbourAddress::Inet(ip)) => Some(IpAddr::V4(*ip)),
            NeighbourAttribute::Destination(NeighbourAddress::Inet6(ip)) => Some(IpAddr::V6(*ip)),
            _ => None,
        })
    }

    fn neighbour(&self, entry: &NeighbourMessage) -> Option<HostEvent> {
        let ip = self.neighbour_ip(entry)?;
        let proven = match entry.header.state {
            NeighbourState::Reachable | NeighbourState::Permanent => true,
            NeighbourState::Stale | NeighbourState::Delay | NeighbourState::Probe => false,
            NeighbourState::Failed => return Some(HostEvent::NeighbourGone(ip)),
            // Being asked for; or of groups, which have no neighbours.
            _ => return None,
        };
        let mac = entry.attributes.iter().find_map(|attribute| match attribute {
            NeighbourAttribute::LinkLayerAddress(bytes) => Some(Mac(bytes.as_slice().try_into().ok()?)),
            _ => None,
        })?;
        Some(HostEvent::Neighbour { ip, mac, proven })
    }

    fn address(&self, entry: &AddressMessage) -> Option<HostAddress> {
        if entry.header.index != self.interface {
            return None;
        }
        // Not before it is known that nobody else has it (RFC 4862 section
        // 5.4); the kernel tells once more when it is.
        if entry.header.flags.intersects(AddressHeaderFlags::Tentative | AddressHeaderFlags::Dadfailed) {
            return None;
        }
        let find = |local: bool| {
            entry.attributes.iter().find_map(|attribute| match attribute {
                AddressAttribute::Local(ip) if local => Some(*ip),
                AddressAttribute::Address(ip) if !local => Some(*ip),
                _ => None,
            })
        };
        // The one is the peer's where there is the other (ifaddrs of a
        // point-to-point interface).
        let ip = find(true).or_else(|| find(false))?;
        Some(HostAddress { ip, prefix_len: entry.header.prefix_len })
    }

    fn route(&self, entry: &RouteMessage) -> Option<HostRoute> {
        let (mut table, mut through, mut gateway, mut destination, mut metric) =
            (u32::from(entry.header.table), None, None, None, 0);
        for attribute in &entry.attributes {
            match attribute {
                RouteAttribute::Table(number) => table = *number,
                RouteAttribute::Oif(index) => through = Some(*index),
                RouteAttribute::Gateway(address) => gateway = route_ip(address),
                RouteAttribute::Destination(address) => destination = route_ip(address),
                RouteAttribute::Priority(number) => metric = *number,
                RouteAttribute::MultiPath(hops) => {
                    // Of several routers the first on this interface.
                    if let Some(hop) = hops.iter().find(|hop| hop.interface_index == self.interface) {
                        through = Some(hop.interface_index);
                        gateway = hop.attributes.iter().find_map(|attribute| match attribute {
                            RouteAttribute::Gateway(address) => route_ip(address),
                            _ => None,
                        });
                    }
                }
                _ => {}
            }
        }
        let any = match entry.header.address_family {
            AddressFamily::Inet => IpAddr::V4(core::net::Ipv4Addr::UNSPECIFIED),
            AddressFamily::Inet6 => IpAddr::V6(core::net::Ipv6Addr::UNSPECIFIED),
            _ => return None,
        };
        let ours = table == MAIN_TABLE && through == Some(self.interface) && entry.header.kind == RouteType::Unicast;
        let prefix_len = entry.header.destination_prefix_length;
        ours.then(|| HostRoute { destination: destination.unwrap_or(any), prefix_len, gateway, metric })
    }
}

/// The number of the XDP program on an interface, if it has one.
pub(crate) fn attached_program(interface: u32) -> Option<u32> {
    let mut message = LinkMessage::default();
    message.header.index = interface;
    let socket = route_socket(0).ok()?;
    send(&socket, Message::GetLink(message), NLM_F_REQUEST).ok()?;
    let mut buffer = vec![0; MESSAGE_LIMIT];
    let (len, _) = rustix::net::recv(&socket, &mut buffer[..], RecvFlags::empty()).ok()?;
    let mut found = None;
    each_message(&buffer[..len.min(MESSAGE_LIMIT)], |payload| {
        if let NetlinkPayload::InnerMessage(Message::NewLink(link)) = payload {
            found = found.or(link.attributes.iter().find_map(program_of));
        }
        true
    });
    found
}

fn program_of(attribute: &LinkAttribute) -> Option<u32> {
    let LinkAttribute::Xdp(attributes) = attribute else { return None };
    attributes.iter().find_map(|attribute| match attribute {
        LinkXdp::ProgId(id) | LinkXdp::DrvProgId(id) | LinkXdp::SkbProgId(id) | LinkXdp::HwProgId(id) => {
            Some(*id).filter(|id| *id != 0)
        }
        _ => None,
    })
}

const fn family(ip: IpAddr) -> AddressFamily {
    if ip.is_ipv4() { AddressFamily::Inet } else { AddressFamily::Inet6 }
}

const fn route_ip(address: &RouteAddress) -> Option<IpAddr> {
    match address {
        RouteAddress::Inet(ip) => Some(IpAddr::V4(*ip)),
        RouteAddress::Inet6(ip) => Some(IpAddr::V6(*ip)),
        _ => None,
    }
}

fn route_socket(groups: u32) -> io::Result<OwnedFd> {
    // Without a number the protocol is NETLINK_ROUTE, which is 0.
    let family = rustix::net::AddressFamily::NETLINK;
    let socket = rustix::net::socket_with(family, SocketType::RAW, SocketFlags::CLOEXEC, None)?;
    rustix::net::bind(&socket, &SocketAddrNetlink::new(0, groups))?;
    Ok(socket)
}

fn send(socket: &OwnedFd, message: Message, flags: u16) -> io::Result<()> {
    let mut header = NetlinkHeader::default();
    header.flags = flags;
    let mut message = NetlinkMessage::new(header, NetlinkPayload::from(message));
    message.finalize();
    let mut bytes = vec![0; message.buffer_len()];
    message.serialize(&mut bytes);
    let kernel = SocketAddrNetlink::new(0, 0);
    rustix::net::sendto(socket, &bytes, SendFlags::DONTWAIT, &kernel)?;
    Ok(())
}

/// All that the kernel has of a kind, as far as `take` wants it.
fn dump<T>(request: Message, mut take: impl FnMut(Message) -> Option<T>) -> io::Result<Vec<T>> {
    let mut buffer = vec![0; MESSAGE_LIMIT];
    for _ in 0..DUMP_TRIES {
        // One of its own, so that no news are taken for answers.
        let socket = route_socket(0)?;
        send(&socket, request.clone(), NLM_F_REQUEST | NLM_F_DUMP)?;
        let (mut all, mut done, mut failure, mut interrupted) = (Vec::new(), false, None, false);
        while !done {
            let (len, _) = rustix::net::recv(&socket, &mut buffer[..], RecvFlags::empty())?;
            if len == 0 || len > buffer.len() {
                return Err(io::ErrorKind::InvalidData.into());
            }
            interrupted |= has_interrupted_flag(&buffer[..len]);
            each_message(&buffer[..len], |payload| {
                match payload {
                    NetlinkPayload::Done(_) => done = true,
                    NetlinkPayload::Error(error) => failure = Some(error.to_io()),
                    NetlinkPayload::InnerMessage(message) => all.extend(take(message)),
                    _ => {}
                }
                !done && failure.is_none()
            });
            if let Some(failure) = failure {
                return Err(failure);
            }
        }
        if !interrupted {
            return Ok(all);
        }
    }
    Err(io::ErrorKind::Interrupted.into())
}

/// Whether the table changed while it was dumped (`NLM_F_DUMP_INTR`): the
/// flags follow four bytes of length and two of type.
fn has_interrupted_flag(bytes: &[u8]) -> bool {
    const DUMP_INTERRUPTED: u16 = 0x10;
    bytes.get(6..8).is_some_and(|flags| u16::from_ne_bytes([flags[0], flags[1]]) & DUMP_INTERRUPTED != 0)
}

/// Gives each message of a datagram to `take`, until it returns false. What
/// cannot be read is left out.
fn each_message(mut bytes: &[u8], mut take: impl FnMut(NetlinkPayload<Message>) -> bool) {
    // A header's length (RFC 3549 section 2.3.2).
    const HEADER: usize = 16;
    while let Some(length) = bytes.first_chunk::<4>() {
        let length = u32::from_ne_bytes(*length) as usize;
        let Some(message) = bytes.get(..length).filter(|_| length >= HEADER) else { return };
        if let Ok(message) = NetlinkMessage::<Message>::deserialize(message)
            && !take(message.payload)
        {
            return;
        }
        bytes = bytes.get(length.next_multiple_of(4)..).unwrap_or_default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn datagrams_that_lie_about_lengths_are_left_out() {
        let mut seen = 0;
        for bytes in [
            &[][..],
            &[0; 3],
            &[0; 16],
            &[15, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0],
            &[255, 255, 255, 255, 28, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0],
            &[17, 0, 0, 0, 28, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 9],
        ] {
            each_message(bytes, |_| {
                seen += 1;
                true
            });
        }
        assert_eq!(seen, 0);
    }

    #[test]
    fn the_loopback_is_known() {
        let view = HostView::open("lo").unwrap();
        // A fresh namespace has its loopback down, and then no address.
        assert!(view.addresses().unwrap().iter().all(|address| address.ip.is_loopback()));
        assert!(view.routes().unwrap().iter().all(|route| route.gateway.is_none()));
        let missing = HostView::open("no-such-nic").unwrap_err();
        assert_eq!(missing.kind(), io::ErrorKind::NotFound);
    }
}
