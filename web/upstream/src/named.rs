//! Servers that are known by names, whose addresses are found out while they serve.

use crate::group::{Balancing, Group, GroupError, GroupServer, PeerAddress};
use core::net::SocketAddr;

/// A `server` whose addresses are found out (`resolve`).
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NamedServer {
    /// What is set for each of its addresses. It has none itself.
    pub settings: GroupServer,
    /// Its name.
    pub host: Box<[u8]>,
    /// The port of its addresses, where no service says one.
    pub port: u16,
    /// The service whose hosts are asked for (`service`).
    pub service: Option<Box<[u8]>>,
}

/// An address that was found.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FoundPeer {
    /// Where; of a host that is no service's, the port counts for nothing.
    pub address: SocketAddr,
    /// The host of a service whose it is, with what that said of it: those of the least
    /// priority are asked first.
    pub service: Option<(Box<[u8]>, u16, u16)>,
}

/// A group of which some servers are known by names.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NamedServers {
    /// The group's name.
    pub name: Box<[u8]>,
    /// How its peers are chosen.
    pub balancing: Balancing,
    /// Servers whose addresses are known.
    pub fixed: Vec<GroupServer>,
    /// The others.
    pub named: Vec<NamedServer>,
}

/// The most weight of a group with consistent hashing that changes while it serves: its
/// points are found within a few milliseconds.
const CONSISTENT_WEIGHT_MAX: u64 = 256;

impl NamedServers {
    /// The group as it is with these addresses, a list for each server that has a name. It
    /// may have no peers.
    ///
    /// # Errors
    /// There are too many.
    pub fn group(&self, found: &[Vec<FoundPeer>]) -> Result<Group, GroupError> {
        let mut servers = self.fixed.clone();
        for (server, found) in self.named.iter().zip(found) {
            match server.service {
                None => {
                    let at = |one: &FoundPeer| PeerAddress::Inet(SocketAddr::new(one.address.ip(), server.port));
                    let addresses = found.iter().map(at).collect();
                    servers.push(GroupServer { addresses, ..server.settings.clone() });
                }
                Some(_) => self.add_service(server, found, &mut servers),
            }
        }
        Group::of(&self.name, self.balancing, &servers, CONSISTENT_WEIGHT_MAX)
    }

    /// Hosts of a service: those of more than the least priority are backups.
    fn add_service(&self, server: &NamedServer, found: &[FoundPeer], servers: &mut Vec<GroupServer>) {
        let told = |one: &FoundPeer| one.service.as_ref().map(|(_, priority, _)| *priority);
        let least = found.iter().filter_map(told).min();
        for one in found {
            let Some((host, priority, weight)) = &one.service else { continue };
            let is_later = Some(*priority) != least;
            // There is no place behind backups, and those by a key or by chance have none.
            if is_later && (server.settings.backup || !self.balancing.has_backups()) {
                continue;
            }
            let weight = if server.settings.weight == 1 { u32::from(*weight) } else { server.settings.weight };
            servers.push(GroupServer {
                name: host.clone(),
                addresses: vec![PeerAddress::Inet(one.address)],
                weight,
                backup: server.settings.backup || is_later,
                ..server.settings.clone()
            });
        }
    }
}
