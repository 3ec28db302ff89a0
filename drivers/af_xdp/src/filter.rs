//! Which frames are taken: the XDP programs and their maps.
//!
//! The programs stand in `programs/`, as text.

use crate::error::XdpError;
use crate::stamps;
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use driver::Claim;
use ebpf::{Assembly, Map, MapKind, Program};
use std::os::fd::BorrowedFd;

const HOST: &str = include_str!("../programs/host.bpf");
const OWN: &str = include_str!("../programs/own.bpf");
const WHOLE: &str = include_str!("../programs/whole.bpf");
const STAMPED: &str = include_str!("../programs/stamped.bpf");

/// Bytes of the map of ports: a bit for each.
const PORTS_LEN: usize = (1 << 16) / 8;

/// Most addresses of each family. The maps grow as they are filled; 65,536 is
/// what a stack has.
pub const ADDRESSES_LIMIT: u32 = 1 << 16;

/// In place of a VLAN: frames without a tag. No tag's number.
const UNTAGGED: i64 = 0x1000;

/// In place of an Ether type: that of no frame.
const NO_ETHER_TYPE: i64 = 0x1_0000;

/// What becomes of a frame that would be taken on a queue without a socket
/// (`enum xdp_action`).
const XDP_PASS: i64 = 2;

/// A program with its maps, before and while it is attached.
#[derive(Debug)]
pub(crate) struct Filter {
    pub program: Program,
    queues: Map,
    addresses4: Map,
    addresses6: Map,
    /// The solicited-node groups are wanted too.
    groups: bool,
    /// What stands before frames that have a stamp.
    mark: Option<u64>,
}

impl Filter {
    /// The program for `claim`, which takes from queues below `queues` and,
    /// without a VLAN, untagged frames only.
    pub fn load(claim: &Claim, vlan: Option<u16>, queues: u32) -> Result<Self, XdpError> {
        Self::load_with(claim, vlan, queues, XDP_PASS)
    }

    /// The program for the interface of this number that takes every frame from
    /// queues below `queues`, with the NIC's stamp.
    pub fn load_stamped(interface: u32, queues: u32) -> Result<Self, XdpError> {
        Self::load_stamping(STAMPED, Some(interface), queues)
    }

    fn load_stamping(text: &str, interface: Option<u32>, queues: u32) -> Result<Self, XdpError> {
        let random = |source| XdpError::System { what: "get a random number", source };
        let mark = stamps::new_mark().map_err(random)?;
        let constants = [("OTHERWISE", XDP_PASS), ("MARK", mark.cast_signed())];
        let assembly = Assembly::new(text, &constants).map_err(XdpError::Assembly)?;
        let sockets = Map::create("queues", MapKind::XdpSockets, 4, 4, queues)?;
        let (name, maps) = ("nearside_stamped", [&sockets]);
        let program = match interface {
            Some(interface) => Program::load_bound(name, &assembly, &maps, interface)?,
            None => Program::load(name, &assembly, &maps)?,
        };
        let addresses4 = Map::create("addresses4", MapKind::Hash, 4, 1, 1)?;
        let addresses6 = Map::create("addresses6", MapKind::Hash, 16, 1, 1)?;
        Ok(Self { program, queues: sockets, addresses4, addresses6, groups: false, mark: Some(mark) })
    }

    /// The same without a NIC, for any interface: of frames whose fifteenth byte is
    /// even the stamp is the kernel's monotonic time, and the others have none.
    #[cfg(test)]
    pub fn load_stamped_by_clock(queues: u32) -> Result<Self, XdpError> {
        const CLOCK: &str = "
            r0 = -1
            r2 = *(u32 *)(r6 + 0)
            r3 = *(u32 *)(r6 + 4)
            r4 = r2
            r4 += 15
            if r4 > r3 goto room
            r5 = *(u8 *)(r2 + 14)
            r5 &= 1
            if r5 != 0 goto room
            call bpf_ktime_get_ns
            *(u64 *)(r10 - 8) = r0
            r0 = 0";
        let text = STAMPED.replace(".extern bpf_xdp_metadata_rx_timestamp", "");
        Self::load_stamping(&text.replace("call bpf_xdp_metadata_rx_timestamp", CLOCK), None, queues)
    }

    /// What stands before frames that have a stamp; `None`: none has one.
    pub const fn mark(&self) -> Option<u64> {
        self.mark
    }

    fn load_with(claim: &Claim, vlan: Option<u16>, queues: u32, otherwise: i64) -> Result<Self, XdpError> {
        let slow = matches!(claim, Claim::Own { aggregated: true, .. });
        let constants = [
            ("TAG", vlan.map_or(UNTAGGED, |id| i64::from(id & 0xfff))),
            ("UNTAGGED", UNTAGGED),
            ("OTHERWISE", otherwise),
            ("SLOW", if slow { i64::from(wire::lacp::ETHER_SLOW) } else { NO_ETHER_TYPE }),
        ];
        let (name, text) = match claim {
            Claim::Host { .. } => ("nearside_host", HOST),
            Claim::Own { .. } => ("nearside_own", OWN),
            Claim::Whole => ("nearside_whole", WHOLE),
        };
        let assembly = Assembly::new(text, &constants).map_err(XdpError::Assembly)?;
        let sockets = Map::create("queues", MapKind::XdpSockets, 4, 4, queues)?;
        let entries = match claim {
            Claim::Host { .. } => ADDRESSES_LIMIT / 64,
            // Each IPv6 address has a group besides.
            Claim::Whole => 1,
            Claim::Own { addresses, .. } => (2 * addresses.len() as u32).clamp(16, 2 * ADDRESSES_LIMIT),
        };
        let addresses4 = Map::create("addresses4", MapKind::Hash, 4, 1, entries)?;
        let addresses6 = Map::create("addresses6", MapKind::Hash, 16, 1, entries)?;
        let program = match claim {
            Claim::Host { ports } => {
                let served = Map::create("ports", MapKind::Array, 4, PORTS_LEN as u32, 1)?;
                served.set(&0_u32.to_ne_bytes(), &bits(ports))?;
                Program::load(name, &assembly, &[&sockets, &addresses4, &addresses6, &served])?
            }
            Claim::Own { .. } => Program::load(name, &assembly, &[&sockets, &addresses4, &addresses6])?,
            Claim::Whole => Program::load(name, &assembly, &[&sockets])?,
        };
        let groups = matches!(claim, Claim::Own { .. });
        let this = Self { program, queues: sockets, addresses4, addresses6, groups, mark: None };
        if let Claim::Own { addresses, .. } = claim {
            for address in addresses {
                this.add(*address)?;
            }
        }
        Ok(this)
    }

    /// Takes frames for `address` from now on.
    pub fn add(&self, address: IpAddr) -> Result<(), ebpf::Error> {
        match address {
            IpAddr::V4(ip) => self.addresses4.set(&key4(ip), &[1]),
            IpAddr::V6(ip) => {
                if self.groups {
                    self.addresses6.set(&wire::ipv6::solicited_node(ip).octets(), &[1])?;
                }
                self.addresses6.set(&ip.octets(), &[1])
            }
        }
    }

    /// Leaves frames for `address` to the kernel from now on.
    pub fn remove(&self, address: IpAddr) -> Result<(), ebpf::Error> {
        match address {
            IpAddr::V4(ip) => self.addresses4.remove(&key4(ip)).map(drop),
            IpAddr::V6(ip) => self.addresses6.remove(&ip.octets()).map(drop),
        }
    }

    /// Hands `queue`'s frames to `socket`.
    pub fn set_queue(&self, queue: u32, socket: BorrowedFd<'_>) -> Result<(), ebpf::Error> {
        self.queues.set_xdp_socket(queue, socket)
    }
}

/// As the address lies in a frame.
fn key4(ip: Ipv4Addr) -> [u8; 4] {
    ip.octets()
}

fn bits(ports: &[u16]) -> [u8; PORTS_LEN] {
    let mut bits = [0; PORTS_LEN];
    for port in ports {
        bits[usize::from(port >> 3)] |= 1 << (port & 7);
    }
    bits
}

/// The Ethernet group of an address's neighbour solicitations.
pub(crate) fn solicited_mac(ip: Ipv6Addr) -> wire::Mac {
    wire::ipv6::multicast_mac(wire::ipv6::solicited_node(ip))
}

#[cfg(test)]
mod tests;
