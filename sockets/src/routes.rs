//! Which connections a composite of a stack and kernel sockets opens by which.

use app::Prefix;
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use core::time::Duration;
use std::net::UdpSocket;
use wire::Time;

/// By what a connection is opened.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ConnectBy {
    /// The silo's own stack.
    Stack,
    /// Kernel sockets.
    Kernel,
}

/// Where connections go: what is asked for, else by their destination. What is
/// the host's own (loopback, the addresses of its interfaces) is the kernel's to
/// reach; all else is the stack's, and the kernel's where the stack has no route.
#[derive(Clone, Debug, Default)]
pub struct ConnectRoutes {
    /// What is asked for, the first that holds.
    asked: Vec<(Prefix, ConnectBy)>,
    /// Destinations of late, whether each is the host's, and until when that is
    /// taken as true.
    known: Vec<(SocketAddr, bool, Time)>,
    /// The next of them to be given up for another.
    hand: usize,
}

/// Destinations that are remembered.
const KNOWN_MAX: usize = 64;

/// How long. An address may come and go; asking takes two system calls.
const KNOWN_FOR: Duration = Duration::from_secs(1);

impl ConnectRoutes {
    /// With what is asked for: of these, the first that holds.
    #[must_use]
    pub fn new(asked: Vec<(Prefix, ConnectBy)>) -> Self {
        Self { asked, ..Self::default() }
    }

    /// All by one, whatever the destination.
    #[must_use]
    pub fn all_by(way: ConnectBy) -> Self {
        let every = ["0.0.0.0/0", "::/0"].iter().filter_map(|text| text.parse().ok());
        Self::new(every.map(|prefix| (prefix, way)).collect())
    }

    /// By what to connect; `None`: by the stack, if it has a route, else by the
    /// kernel.
    pub(crate) fn way(&mut self, from: Option<IpAddr>, to: SocketAddr, now: Time) -> Option<ConnectBy> {
        let ip = to.ip().to_canonical();
        if let Some((_, way)) = self.asked.iter().find(|(prefix, _)| prefix.contains(ip)) {
            return Some(*way);
        }
        let inside = |ip: IpAddr| ip.is_loopback() || ip.is_unspecified();
        let hosts = inside(ip) || from.is_some_and(|from| from.to_canonical().is_loopback()) || self.is_hosts(to, now);
        hosts.then_some(ConnectBy::Kernel)
    }

    fn is_hosts(&mut self, mut to: SocketAddr, now: Time) -> bool {
        // With its scope: an address of one link says little without.
        to.set_port(0);
        if let Some((_, hosts, _)) = self.known.iter().find(|(known, _, until)| *known == to && now < *until) {
            return *hosts;
        }
        let hosts = is_hosts(to);
        self.known.retain(|(known, ..)| *known != to);
        let entry = (to, hosts, now + KNOWN_FOR);
        if self.known.len() < KNOWN_MAX {
            self.known.push(entry);
        } else {
            self.hand = (self.hand + 1) % KNOWN_MAX;
            self.known[self.hand] = entry;
        }
        hosts
    }
}

/// Whether the host has the address: a socket can be bound to it. Where a socket
/// can be bound to any (`ip_nonlocal_bind` in the kernel's ip-sysctl.rst, and a
/// namespace without addresses), that tells nothing, but the address that the
/// kernel would send from does.
fn is_hosts(at: SocketAddr) -> bool {
    let Ok(socket) = UdpSocket::bind(at) else { return false };
    if UdpSocket::bind((nobodys(at.ip()), 0)).is_err() {
        return true;
    }
    drop(socket);
    let any: IpAddr = if at.is_ipv4() { Ipv4Addr::UNSPECIFIED.into() } else { Ipv6Addr::UNSPECIFIED.into() };
    // The port is never sent to.
    let probe = UdpSocket::bind((any, 0)).and_then(|socket| {
        let mut to = at;
        to.set_port(9);
        socket.connect(to)?;
        socket.local_addr()
    });
    probe.is_ok_and(|from| from.ip() == at.ip())
}

/// What no host has: class E (RFC 1112 section 4), and what is discarded (RFC
/// 6666).
const fn nobodys(ip: IpAddr) -> IpAddr {
    match ip {
        IpAddr::V4(_) => IpAddr::V4(Ipv4Addr::new(240, 0, 0, 1)),
        IpAddr::V6(_) => IpAddr::V6(Ipv6Addr::new(0x100, 0, 0, 0, 0, 0, 0, 1)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Time = Time::from_millis(1);

    fn way(routes: &mut ConnectRoutes, to: &str) -> Option<ConnectBy> {
        routes.way(None, to.parse().unwrap(), NOW)
    }

    #[test]
    fn what_is_the_hosts_is_the_kernels() {
        let mut routes = ConnectRoutes::default();
        for to in ["127.0.0.1:80", "127.9.9.9:80", "[::1]:80", "[::ffff:127.0.0.1]:80", "0.0.0.0:80"] {
            assert_eq!(way(&mut routes, to), Some(ConnectBy::Kernel), "{to}");
        }
        // TEST-NET-3 (RFC 5737) and documentation (RFC 3849).
        for to in ["203.0.113.77:80", "[2001:db8::77]:80"] {
            assert_eq!(way(&mut routes, to), None, "{to}");
        }
        let from = Some(IpAddr::V4(Ipv4Addr::LOCALHOST));
        assert_eq!(routes.way(from, "203.0.113.77:80".parse().unwrap(), NOW), Some(ConnectBy::Kernel));
        assert!(routes.known.len() <= 3, "ports are no part of it");
    }

    #[test]
    fn what_is_asked_for_comes_first() {
        let asked = [
            ("203.0.113.0/25", ConnectBy::Kernel),
            ("203.0.113.0/24", ConnectBy::Stack),
            ("127.0.0.0/8", ConnectBy::Stack),
        ];
        let mut routes = ConnectRoutes::new(asked.map(|(prefix, way)| (prefix.parse().unwrap(), way)).to_vec());
        assert_eq!(way(&mut routes, "203.0.113.77:80"), Some(ConnectBy::Kernel));
        assert_eq!(way(&mut routes, "203.0.113.200:80"), Some(ConnectBy::Stack));
        assert_eq!(way(&mut routes, "127.0.0.1:80"), Some(ConnectBy::Stack));
        assert_eq!(way(&mut routes, "[::1]:80"), Some(ConnectBy::Kernel));
        let mut all = ConnectRoutes::all_by(ConnectBy::Kernel);
        for to in ["203.0.113.77:80", "[2001:db8::77]:80", "[::ffff:203.0.113.77]:80"] {
            assert_eq!(way(&mut all, to), Some(ConnectBy::Kernel), "{to}");
        }
    }

    #[test]
    fn what_is_remembered_is_bounded_and_ages() {
        let mut routes = ConnectRoutes::default();
        for last in 0..200_u8 {
            let to = SocketAddr::from((Ipv4Addr::new(198, 51, 100, last), 80));
            assert_eq!(routes.way(None, to, NOW), None);
        }
        assert_eq!(routes.known.len(), KNOWN_MAX);
        let to = SocketAddr::from((Ipv4Addr::new(198, 51, 100, 1), 0));
        routes.known[7] = (to, true, NOW + KNOWN_FOR);
        assert_eq!(routes.way(None, to, NOW), Some(ConnectBy::Kernel), "as remembered");
        assert_eq!(routes.way(None, to, NOW + KNOWN_FOR), None, "asked again");
    }
}
