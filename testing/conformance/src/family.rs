//! What carries the segments, and where to.

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// The peer's address, which the script plays.
pub const PEER_IP: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 2);
/// The same over IPv6.
pub const PEER_IP_V6: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 2);

/// What carries the segments.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Family {
    /// IPv4.
    V4,
    /// IPv6. Its header is 20 bytes longer, so the link's MTU is too: the
    /// same script then sees the same segments.
    V6,
}

impl Family {
    /// The peer's address.
    #[must_use]
    pub const fn peer(self) -> IpAddr {
        match self {
            Self::V4 => IpAddr::V4(PEER_IP),
            Self::V6 => IpAddr::V6(PEER_IP_V6),
        }
    }
}
