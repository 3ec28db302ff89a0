//! Our own addresses.

use crate::config::{Address, MAX_ADDRESSES};
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Our addresses by index, and the index by address. IPv4 addresses in a row
/// are one range, so that a load generator's thousands cost one comparison.
#[derive(Debug)]
pub(crate) struct Addresses {
    all: Vec<Address>,
    v4: Vec<Range>,
    v6: Vec<(Ipv6Addr, u16)>,
}

#[derive(Clone, Copy, Debug)]
struct Range {
    first: u32,
    count: u32,
    index: u16,
}

impl Addresses {
    /// Duplicates, and what is beyond [`MAX_ADDRESSES`], are left out.
    pub fn new(addresses: &[Address]) -> Self {
        let mut this = Self { all: Vec::new(), v4: Vec::new(), v6: Vec::new() };
        for address in addresses {
            this.add(*address);
        }
        this
    }

    /// Adds an address, behind the others; nothing happens if it is there, or
    /// there are [`MAX_ADDRESSES`].
    pub fn add(&mut self, address: Address) {
        if self.all.len() >= MAX_ADDRESSES || self.index(address.ip).is_some() {
            return;
        }
        let index = self.all.len() as u16;
        match address.ip {
            IpAddr::V4(ip) => self.add_v4(ip.to_bits(), index),
            IpAddr::V6(ip) => self.v6.push((ip, index)),
        }
        self.all.push(address);
    }

    fn add_v4(&mut self, bits: u32, index: u16) {
        if let Some(last) = self.v4.last_mut()
            && last.first.wrapping_add(last.count) == bits
            && u32::from(last.index) + last.count == u32::from(index)
        {
            last.count += 1;
            return;
        }
        self.v4.push(Range { first: bits, count: 1, index });
    }

    #[inline]
    pub fn index_v4(&self, ip: Ipv4Addr) -> Option<u16> {
        let bits = ip.to_bits();
        for range in &self.v4 {
            let offset = bits.wrapping_sub(range.first);
            if offset < range.count {
                return Some(range.index + offset as u16);
            }
        }
        None
    }

    #[inline]
    pub fn index_v6(&self, ip: Ipv6Addr) -> Option<u16> {
        self.v6.iter().find(|(own, _)| *own == ip).map(|(_, index)| *index)
    }

    pub fn index(&self, ip: IpAddr) -> Option<u16> {
        match ip {
            IpAddr::V4(ip) => self.index_v4(ip),
            IpAddr::V6(ip) => self.index_v6(ip),
        }
    }

    /// The IPv4 address at `index`; unspecified if there is none.
    #[inline]
    pub fn v4(&self, index: u16) -> Ipv4Addr {
        match self.all.get(usize::from(index)) {
            Some(Address { ip: IpAddr::V4(ip), .. }) => *ip,
            _ => Ipv4Addr::UNSPECIFIED,
        }
    }

    /// The IPv6 address at `index`; unspecified if there is none.
    #[inline]
    pub fn v6(&self, index: u16) -> Ipv6Addr {
        match self.all.get(usize::from(index)) {
            Some(Address { ip: IpAddr::V6(ip), .. }) => *ip,
            _ => Ipv6Addr::UNSPECIFIED,
        }
    }

    pub fn get(&self, index: u16) -> Option<IpAddr> {
        self.all.get(usize::from(index)).map(|address| address.ip)
    }

    pub fn iter(&self) -> impl Iterator<Item = &Address> {
        self.all.iter()
    }

    /// The default source address of a family: the first that is not
    /// link-local, if there is one.
    pub fn default_index(&self, v6: bool) -> Option<u16> {
        let of_family = |(_, address): &(usize, &Address)| address.ip.is_ipv6() == v6;
        let global = |(_, address): &(usize, &Address)| match address.ip {
            IpAddr::V4(_) => true,
            IpAddr::V6(ip) => !ip.is_unicast_link_local(),
        };
        let mut candidates = self.all.iter().enumerate().filter(of_family);
        let first = candidates.clone().next();
        candidates.find(global).or(first).map(|(index, _)| index as u16)
    }

    /// Whether an IPv6 group is one that our addresses joined: all nodes, or
    /// the solicited-node group of one of them (RFC 4291 section 2.8).
    pub fn is_group_v6(&self, group: Ipv6Addr) -> bool {
        group == ALL_NODES || self.v6.iter().any(|(own, _)| wire::ipv6::solicited_node(*own) == group)
    }
}

/// All nodes of a link (RFC 4291 section 2.7.1).
pub(crate) const ALL_NODES: Ipv6Addr = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 1);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_is_one_range() {
        let list: Vec<Address> = (0..300u32)
            .map(|i| Address { ip: IpAddr::V4(Ipv4Addr::from_bits(0x0a00_0001 + i)), prefix_len: 16 })
            .chain([Address { ip: "fe80::1".parse().unwrap(), prefix_len: 64 }])
            .chain([Address { ip: "10.9.9.9".parse().unwrap(), prefix_len: 16 }])
            .chain([Address { ip: "2001:db8::1".parse().unwrap(), prefix_len: 64 }])
            .collect();
        let addresses = Addresses::new(&list);
        assert_eq!(addresses.v4.len(), 2);
        for (index, address) in list.iter().enumerate() {
            assert_eq!(addresses.index(address.ip), Some(index as u16));
            assert_eq!(addresses.get(index as u16), Some(address.ip));
        }
        assert_eq!(addresses.index("10.0.1.45".parse().unwrap()), None);
        assert_eq!(addresses.default_index(true), Some(302));
        assert_eq!(addresses.default_index(false), Some(0));
    }
}
