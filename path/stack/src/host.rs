//! A stack on the addresses of a host: what the host knows of its network is
//! asked for and taken here, because its kernel speaks ARP and neighbour
//! discovery, and has the routes.

use crate::route::Routes;
use crate::{Address, Route, Stack};
use app::ConnId;
use core::net::IpAddr;
use tcp::Path;
use wire::Mac;

/// Neighbours that wait to be asked for. More are asked for at their next try,
/// a second later.
const WANTED_LIMIT: usize = 1_024;

/// The smallest MTU that is taken over: IPv4's least (RFC 791 section 3.2).
const MTU_LEAST: u16 = 68;

impl Stack {
    /// The next neighbour that the host is to resolve, or to see whether it is
    /// still there; only with [`crate::Config::host_neighbours`].
    #[inline]
    pub fn poll_neighbour_wanted(&mut self) -> Option<IpAddr> {
        self.neighbours_wanted.pop_front()
    }

    /// The host knows a neighbour's hardware address; `proven` says that the
    /// neighbour answered lately, rather than that it once did.
    pub fn learn_neighbour(&mut self, ip: IpAddr, mac: Mac, proven: bool) {
        self.neighbours.on_host(ip, mac, proven, self.now);
    }

    /// The host knows a neighbour's hardware address no longer.
    pub fn forget_neighbour(&mut self, ip: IpAddr) {
        self.neighbours.on_host_lost(ip, self.now);
    }

    /// These routes are in force from now on, in place of those of
    /// [`crate::Config::routes`]. Connections keep their next hop.
    pub fn set_routes(&mut self, routes: &[Route]) {
        self.config.routes = routes.to_vec();
        self.routes = Routes::of(&self.config);
    }

    /// One more address of ours. An address that went can stay here: nothing
    /// arrives for it.
    pub fn add_address(&mut self, address: Address) {
        self.addresses.add(address);
        self.config.addresses.retain(|known| known.ip != address.ip);
        self.config.addresses.push(address);
        self.routes = Routes::of(&self.config);
    }

    /// The link's MTU is this from now on, in bytes. One that is larger than
    /// at the start has no effect: the link's slots are made for that.
    pub fn set_mtu(&mut self, mtu: u16) {
        let mtu = mtu.clamp(MTU_LEAST, self.link_mtu.max(MTU_LEAST));
        let smaller = mtu < self.config.mtu;
        self.config.mtu = mtu;
        if !smaller {
            return;
        }
        let ids: Vec<ConnId> = self.slots.ids().collect();
        for id in ids {
            let slot = id.index() as u32;
            let v6 = !self.slots.at(slot).flow().is_v4();
            self.shrink_segments(slot, Path { mtu, v6 });
        }
    }

    pub(crate) fn want_neighbour(&mut self, ip: IpAddr) {
        if self.neighbours_wanted.len() < WANTED_LIMIT {
            self.neighbours_wanted.push_back(ip);
        }
    }
}
