//! Who is at the ends: the 4-tuple of a flow, and what a frame around a packet
//! said of its sender. Any transport's.

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use wire::Mac;

/// What tells one connection from another. The local address is an index into
/// the stack's own addresses, so that the key is 22 bytes.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Flow {
    /// The remote address; IPv4 as IPv4-mapped (RFC 4291 section 2.5.5.2).
    pub remote_high: u64,
    pub remote_low: u64,
    pub remote_port: u16,
    pub local_port: u16,
    /// Index of the local address.
    pub local: u16,
}

/// The upper 32 bits of the lower half of an IPv4-mapped address.
const MAPPED: u64 = 0xffff_0000_0000;

impl Flow {
    #[inline]
    pub fn v4(remote: Ipv4Addr, remote_port: u16, local: u16, local_port: u16) -> Self {
        let remote_low = MAPPED | u64::from(remote.to_bits());
        Self { remote_high: 0, remote_low, remote_port, local_port, local }
    }

    #[inline]
    pub fn v6(remote: Ipv6Addr, remote_port: u16, local: u16, local_port: u16) -> Self {
        let bits = remote.to_bits();
        Self { remote_high: (bits >> 64) as u64, remote_low: bits as u64, remote_port, local_port, local }
    }

    pub fn new(remote: IpAddr, remote_port: u16, local: u16, local_port: u16) -> Self {
        match remote {
            IpAddr::V4(ip) => Self::v4(ip, remote_port, local, local_port),
            IpAddr::V6(ip) => Self::v6(ip, remote_port, local, local_port),
        }
    }

    /// Whether this is an IPv4 flow. IPv4-mapped addresses on the wire are
    /// refused at ingress, so the two cannot be mixed up.
    #[inline]
    pub const fn is_v4(&self) -> bool {
        self.remote_high == 0 && self.remote_low & !0xffff_ffff == MAPPED
    }

    #[inline]
    pub const fn remote_v4(&self) -> Ipv4Addr {
        Ipv4Addr::from_bits(self.remote_low as u32)
    }

    #[inline]
    pub const fn remote_v6(&self) -> Ipv6Addr {
        Ipv6Addr::from_bits(((self.remote_high as u128) << 64) | self.remote_low as u128)
    }

    pub const fn remote(&self) -> IpAddr {
        if self.is_v4() { IpAddr::V4(self.remote_v4()) } else { IpAddr::V6(self.remote_v6()) }
    }
}

/// A packet's addresses and what the frame around it said.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Envelope {
    pub src: IpAddr,
    /// Index of the destination among our addresses.
    pub local: u16,
    /// Where the frame came from: replies without a connection go there.
    pub mac: Mac,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_survive_the_key() {
        let v4: Ipv4Addr = "192.0.2.7".parse().unwrap();
        let v6: Ipv6Addr = "2001:db8::7".parse().unwrap();
        assert_eq!(Flow::v4(v4, 1, 2, 3).remote(), IpAddr::V4(v4));
        assert_eq!(Flow::v6(v6, 1, 2, 3).remote(), IpAddr::V6(v6));
        assert!(!Flow::v6("::1".parse().unwrap(), 1, 2, 3).is_v4());
    }
}
