//! Where a packet goes next, and how large it may be on the way.

use super::remembered::Remembered;
use crate::config::Config;
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use wire::Time;

/// Routes; more are refused, and the caller is told. A host has its on-link
/// prefixes and a gateway or two.
pub(crate) const MAX_ROUTES: usize = 256;

/// Smaller MTUs are taken as this: a router that claims less is not believed
/// (Linux's `ip_rt_min_pmtu`, net/ipv4/route.c).
pub(super) const LEAST_MTU_V4: u32 = 552;

/// What is of the link's own scope lies in these 64 bits (RFC 4291 section 2.5.6).
const LINK_LOCAL: Ipv6Addr = Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 0);

/// Routes by longest prefix (RFC 1122 section 3.3.1).
#[derive(Debug, Default)]
pub(crate) struct Routes {
    /// Longest prefix first, so that the first match is the best.
    v4: Vec<Route>,
    v6: Vec<Route>,
    /// Addresses of on-link networks that no host has.
    broadcasts: Vec<u32>,
}

/// A prefix and the neighbour that packets to it are handed to: the
/// destination itself where there is no gateway.
#[derive(Clone, Copy, Debug)]
struct Route {
    /// The prefix, in the upper bits of 128.
    bits: u128,
    /// The bits that count.
    mask: u128,
    len: u8,
    gateway: Option<IpAddr>,
}

impl Route {
    #[inline]
    fn contains(&self, bits: u128) -> bool {
        bits & self.mask == self.bits
    }
}

impl Routes {
    pub fn new() -> Self {
        let mut routes = Self::default();
        // On every link, whatever its addresses: who has no other yet asks from one of these.
        routes.add_on_link(IpAddr::V6(LINK_LOCAL), 64);
        routes
    }

    /// Those that a stack's settings say.
    pub fn of(config: &Config) -> Self {
        let mut routes = Self::new();
        for address in &config.addresses {
            routes.add_on_link(address.ip, address.prefix_len);
        }
        for gateway in &config.gateways {
            routes.add_default(*gateway);
        }
        for route in &config.routes {
            routes.add(route.destination, route.prefix_len, route.gateway);
        }
        routes
    }

    /// Makes the prefix of `len` bits around `ip` on-link. Whether there was
    /// room (see [`MAX_ROUTES`]); adding a prefix again replaces it.
    pub fn add_on_link(&mut self, ip: IpAddr, len: u8) -> bool {
        self.add(ip, len, None)
    }

    /// Sends what no other route matches to `gateway`. Whether there was
    /// room.
    pub fn add_default(&mut self, gateway: IpAddr) -> bool {
        let any = match gateway {
            IpAddr::V4(_) => IpAddr::V4(Ipv4Addr::UNSPECIFIED),
            IpAddr::V6(_) => IpAddr::V6(core::net::Ipv6Addr::UNSPECIFIED),
        };
        self.add(any, 0, Some(gateway))
    }

    fn add(&mut self, ip: IpAddr, len: u8, gateway: Option<IpAddr>) -> bool {
        let len = len.min(width(ip));
        let mask = !u128::MAX.unbounded_shr(u32::from(len));
        let route = Route { bits: bits(ip) & mask, mask, len, gateway };
        let routes = match ip {
            IpAddr::V4(_) => &mut self.v4,
            IpAddr::V6(_) => &mut self.v6,
        };
        if let Some(same) = routes.iter_mut().find(|other| other.len == len && other.bits == route.bits) {
            *same = route;
            return true;
        }
        if routes.len() >= MAX_ROUTES {
            return false;
        }
        let at = routes.partition_point(|other| other.len >= len);
        routes.insert(at, route);
        if ip.is_ipv4() {
            self.note_broadcasts(&route);
        }
        true
    }

    /// The neighbour to hand a packet for `dst` to; `None` without a route.
    #[inline]
    pub fn next_hop(&self, dst: IpAddr) -> Option<IpAddr> {
        let routes = match dst {
            IpAddr::V4(_) => &self.v4,
            IpAddr::V6(_) => &self.v6,
        };
        let bits = bits(dst);
        let route = routes.iter().find(|route| route.contains(bits))?;
        Some(route.gateway.unwrap_or(dst))
    }

    /// Whether `ip` is on the link: in a prefix that is or, without a route,
    /// of the link's own scope (RFC 4291 section 2.5.6).
    pub fn is_on_link(&self, ip: IpAddr) -> bool {
        self.next_hop(ip).map_or_else(|| is_link_local(ip), |hop| hop == ip)
    }

    /// Whether `ip` is the broadcast address of an on-link prefix, or its
    /// network address, which some take for one (RFC 1122 section 3.2.1.3).
    /// Prefixes of 31 and 32 bits have neither (RFC 3021).
    #[inline]
    pub fn is_broadcast(&self, ip: Ipv4Addr) -> bool {
        self.broadcasts.contains(&ip.to_bits())
    }

    /// Notes a new on-link prefix's addresses without a host.
    fn note_broadcasts(&mut self, route: &Route) {
        if route.gateway.is_none() && route.len <= 30 {
            let network = (route.bits >> 96) as u32;
            self.broadcasts.extend([network, network | u32::MAX.unbounded_shr(u32::from(route.len))]);
        }
    }
}

/// Path MTUs that routers told us of (RFC 1191, RFC 8201), or that were found
/// where none did (RFC 4821).
#[derive(Debug, Default)]
pub(crate) struct PathMtus {
    paths: Remembered<PathMtu>,
}

#[derive(Clone, Copy, Debug)]
struct PathMtu {
    mtu: u16,
    /// It is less than the least that is believed.
    below_least: bool,
}

impl PathMtus {
    pub fn new() -> Self {
        Self::default()
    }

    /// The MTU of the path to `dst`, if it is known to be smaller than the
    /// link's.
    #[inline]
    pub fn get(&self, dst: IpAddr, now: Time) -> Option<u16> {
        self.paths.get(dst, now).map(|path| path.mtu)
    }

    /// Whether packets to `dst` may be fragmented on their way.
    #[inline]
    pub fn is_below_least(&self, dst: IpAddr, now: Time) -> bool {
        self.paths.get(dst, now).is_some_and(|path| path.below_least)
    }

    /// Notes that the path to `dst` carries packets of `mtu` bytes, and fewer
    /// where it is `below_least`. The caller has checked that the report
    /// quotes a segment in flight (RFC 5927 section 7). While a smaller MTU is
    /// believed, this is no news: a report never raises it (RFC 1191 section
    /// 3, RFC 8201 section 4). Returns what is believed.
    pub fn learn(&mut self, dst: IpAddr, mtu: u16, below_least: bool, now: Time) -> (u16, bool) {
        let known = self.paths.get(dst, now).copied();
        if let Some(known) = known
            && known.mtu < mtu
        {
            return (known.mtu, known.below_least);
        }
        let below_least = below_least || known.is_some_and(|known| known.mtu == mtu && known.below_least);
        self.paths.keep(dst, PathMtu { mtu, below_least }, now);
        (mtu, below_least)
    }

    /// Notes what was found by what arrives: that the path to `dst` carries
    /// packets of `mtu` bytes and no more, or of no less than our link does,
    /// where that is `None` (RFC 4821 section 5.1, RFC 8899 section 3).
    pub fn find(&mut self, dst: IpAddr, mtu: Option<u16>, now: Time) {
        match mtu {
            Some(mtu) => self.paths.keep(dst, PathMtu { mtu, below_least: false }, now),
            None => self.paths.forget(dst),
        }
    }
}

const fn is_link_local(ip: IpAddr) -> bool {
    matches!(ip, IpAddr::V6(ip) if ip.is_unicast_link_local())
}

/// Bits of an address of this family.
const fn width(ip: IpAddr) -> u8 {
    match ip {
        IpAddr::V4(_) => 32,
        IpAddr::V6(_) => 128,
    }
}

/// The address in the upper bits.
#[inline]
fn bits(ip: IpAddr) -> u128 {
    match ip {
        IpAddr::V4(ip) => u128::from(ip.to_bits()) << 96,
        IpAddr::V6(ip) => ip.to_bits(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ip::remembered::LIFETIME;

    fn ip(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    fn next(routes: &Routes, dst: &str) -> Option<IpAddr> {
        routes.next_hop(ip(dst))
    }

    #[test]
    fn longest_prefix_wins_in_any_order() {
        let mut routes = Routes::new();
        assert!(routes.add_default(ip("10.0.0.254")));
        assert!(routes.add(ip("172.16.0.0"), 12, Some(ip("10.0.0.253"))));
        assert!(routes.add_on_link(ip("10.0.0.1"), 24));
        assert!(routes.add(ip("172.16.5.0"), 24, Some(ip("10.0.0.252"))));
        assert_eq!(next(&routes, "10.0.0.77"), Some(ip("10.0.0.77")));
        assert_eq!(next(&routes, "10.0.1.77"), Some(ip("10.0.0.254")));
        assert_eq!(next(&routes, "172.31.255.255"), Some(ip("10.0.0.253")));
        assert_eq!(next(&routes, "172.16.5.9"), Some(ip("10.0.0.252")));
        // The families are apart, and what is of the link's own scope stays on it.
        assert_eq!(next(&routes, "2001:db8::1"), None);
        assert_eq!(next(&routes, "fe80::98"), Some(ip("fe80::98")));
        assert!(routes.add_default(ip("fe80::2")));
        assert_eq!(next(&routes, "2001:db8::1"), Some(ip("fe80::2")));
        assert_eq!(next(&routes, "fe80::99"), Some(ip("fe80::99")));
        assert_eq!(next(&routes, "fe80:0:0:1::99"), Some(ip("fe80::2")));
    }

    #[test]
    fn no_route_without_default() {
        let mut routes = Routes::new();
        assert_eq!(next(&routes, "10.0.0.1"), None);
        routes.add_on_link(ip("10.0.0.1"), 32);
        assert_eq!(next(&routes, "10.0.0.1"), Some(ip("10.0.0.1")));
        assert_eq!(next(&routes, "10.0.0.2"), None);
        let on_link = |routes: &Routes, dst: &str| routes.is_on_link(ip(dst));
        assert!(on_link(&routes, "10.0.0.1") && !on_link(&routes, "10.0.0.2"));
        assert!(on_link(&routes, "fe80::7") && !on_link(&routes, "fd00::7"));
        // A length beyond the family's is its whole width.
        routes.add_on_link(ip("10.0.0.9"), 200);
        assert_eq!(next(&routes, "10.0.0.9"), Some(ip("10.0.0.9")));
        assert_eq!(next(&routes, "10.0.0.8"), None);
    }

    #[test]
    fn routes_are_bounded_and_replaced() {
        let mut routes = Routes::new();
        for _ in 0..MAX_ROUTES * 2 {
            assert!(routes.add_on_link(ip("192.0.2.1"), 24));
        }
        assert_eq!(routes.v4.len(), 1);
        for n in 1..MAX_ROUTES as u32 {
            assert!(routes.add_on_link(IpAddr::V4(Ipv4Addr::from_bits(n << 8)), 24));
        }
        assert!(!routes.add_on_link(ip("10.0.0.1"), 24));
        assert!(routes.add_on_link(ip("192.0.2.7"), 24));
    }

    /// RFC 1122 section 3.2.1.3 and RFC 3021.
    #[test]
    fn broadcast_addresses() {
        let is = |routes: &Routes, text: &str| routes.is_broadcast(text.parse().unwrap());
        let mut routes = Routes::new();
        routes.add_on_link(ip("10.1.0.5"), 22);
        routes.add_on_link(ip("192.0.2.0"), 31);
        routes.add_default(ip("10.1.0.1"));
        assert!(is(&routes, "10.1.3.255") && is(&routes, "10.1.0.0"));
        assert!(!is(&routes, "10.1.0.255") && !is(&routes, "10.1.4.255"));
        assert!(!is(&routes, "192.0.2.0") && !is(&routes, "192.0.2.1"));
        // Not on-link: another network's matter.
        assert!(!is(&routes, "0.0.0.0"));
    }

    /// RFC 8201 section 4.
    #[test]
    fn path_mtu_is_believed_for_a_while() {
        let mut paths = PathMtus::new();
        assert_eq!(paths.get(ip("10.0.0.1"), Time::ZERO), None);
        assert_eq!(paths.learn(ip("10.0.0.1"), 1400, false, Time::ZERO), (1400, false));
        assert_eq!(paths.learn(ip("10.0.0.1"), 1280, false, Time::ZERO), (1280, false));
        // No report raises it, or makes it be believed for longer.
        assert_eq!(paths.learn(ip("10.0.0.1"), 1400, false, Time::from_millis(300_000)), (1280, false));
        let last = Time::ZERO + LIFETIME;
        assert_eq!(paths.get(ip("10.0.0.1"), Time::from_nanos(last.as_nanos() - 1)), Some(1280));
        assert_eq!(paths.get(ip("10.0.0.1"), last), None);
        assert_eq!(paths.get(ip("10.0.0.2"), Time::ZERO), None);
        // Then a larger one is taken as any.
        assert_eq!(paths.learn(ip("10.0.0.1"), 1400, false, last), (1400, false));
        assert_eq!(paths.learn(ip("10.0.0.1"), 552, true, last), (552, true));
        // Told again, it is believed from then on.
        let later = last + LIFETIME / 2;
        assert_eq!(paths.learn(ip("10.0.0.1"), 552, false, later), (552, true));
        assert_eq!(paths.get(ip("10.0.0.1"), last + LIFETIME), Some(552));
        assert!(paths.is_below_least(ip("10.0.0.1"), last) && !paths.is_below_least(ip("10.0.0.2"), last));
    }

    /// What arrives is believed before what was: up and down.
    #[test]
    fn what_was_found_of_a_path_takes_the_place_of_what_was_known() {
        let mut paths = PathMtus::new();
        let known = |paths: &PathMtus, ms| paths.get(ip("10.0.0.1"), Time::from_millis(ms));
        paths.find(ip("10.0.0.1"), Some(1_200), Time::ZERO);
        paths.find(ip("10.0.0.1"), Some(1_380), Time::from_millis(10));
        assert_eq!(known(&paths, 20), Some(1_380));
        // Known for as long as any.
        assert_eq!((known(&paths, 600_009), known(&paths, 600_010)), (Some(1_380), None));
        paths.find(ip("10.0.0.1"), None, Time::from_millis(30));
        assert_eq!(known(&paths, 40), None);
    }
}
