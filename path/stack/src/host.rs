//! A stack on the addresses of a host: what the host knows of its network is
//! asked for and taken here, because its kernel speaks ARP and neighbour
//! discovery, and has the routes.

use crate::config::{Address, Route};
use crate::stack::Stack;
use core::net::IpAddr;
use wire::Mac;

impl Stack {
    /// The next neighbour that the host is to resolve, or to see whether it is
    /// still there; only with [`crate::Config::host_neighbours`].
    #[inline]
    pub fn poll_neighbour_wanted(&mut self) -> Option<IpAddr> {
        self.ip.poll_wanted()
    }

    /// The host knows a neighbour's hardware address; `proven` says that the
    /// neighbour answered lately, rather than that it once did.
    pub fn learn_neighbour(&mut self, ip: IpAddr, mac: Mac, proven: bool) {
        self.ip.on_host(ip, mac, proven);
    }

    /// The host knows a neighbour's hardware address no longer.
    pub fn forget_neighbour(&mut self, ip: IpAddr) {
        self.ip.on_host_lost(ip);
    }

    /// These routes are in force from now on, in place of those of
    /// [`crate::Config::routes`]. Connections keep their next hop.
    pub fn set_routes(&mut self, routes: &[Route]) {
        self.config.routes = routes.to_vec();
        self.ip.set_routes(&self.config);
    }

    /// One more address of ours. An address that went can stay here: nothing
    /// arrives for it.
    pub fn add_address(&mut self, address: Address) {
        self.ip.addresses.add(address);
        self.config.addresses.retain(|known| known.ip != address.ip);
        self.config.addresses.push(address);
        self.ip.set_routes(&self.config);
    }

    /// The link's MTU is this from now on, in bytes. One that is larger than
    /// at the start has no effect: the link's slots are made for that.
    pub fn set_mtu(&mut self, mtu: u16) {
        if let Some(smaller) = self.ip.set_mtu(mtu) {
            self.tcp.shrink_all(&self.ip, smaller);
        }
        self.config.mtu = self.ip.mtu();
    }
}
