//! A group as the configuration has it, which silos share.

use crate::points::Points;
use core::fmt;
use core::net::SocketAddr;
use std::collections::HashMap;
use std::path::PathBuf;

/// Which of a group's peers is asked.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Balancing {
    /// One after the other, by weight.
    #[default]
    RoundRobin,
    /// By the client's address (`ip_hash`).
    ClientAddress,
    /// The one with the fewest connections for its weight (`least_conn`).
    LeastConnections,
    /// By a key (`hash`).
    Key,
    /// By a key, so that few keys change peers where a server is added (`hash … consistent`).
    ConsistentKey,
    /// Any (`random`).
    Random,
    /// Of any two, the one with fewer connections for its weight (`random two`).
    RandomOfTwo,
}

impl Balancing {
    /// Whether there may be backups.
    #[must_use]
    pub const fn has_backups(self) -> bool {
        matches!(self, Self::RoundRobin | Self::LeastConnections)
    }
}

/// Where a peer is.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum PeerAddress {
    /// At an address and a port.
    Inet(SocketAddr),
    /// At a Unix socket.
    Unix(PathBuf),
}

impl PeerAddress {
    /// Whether it is an abstract Unix socket, which is in no folder (unix(7)).
    #[must_use]
    pub fn is_abstract(&self) -> bool {
        matches!(self, Self::Unix(path) if path.as_os_str().as_encoded_bytes().first() == Some(&b'@'))
    }
}

impl fmt::Display for PeerAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Inet(address) => address.fmt(f),
            Self::Unix(path) => write!(f, "unix:{}", path.display()),
        }
    }
}

/// A `server` of a group.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct GroupServer {
    /// As it is written: `127.0.0.1:8080`. Consistent hashing is by it.
    pub name: Box<[u8]>,
    /// Its addresses, each of which is a peer.
    pub addresses: Vec<PeerAddress>,
    /// `weight`, at least 1.
    pub weight: u32,
    /// `max_conns`; 0 is any number.
    pub max_conns: u32,
    /// `max_fails`; 0 is any number.
    pub max_fails: u32,
    /// `fail_timeout`, seconds.
    pub fail_timeout: u32,
    /// Asked where none of the others can be.
    pub backup: bool,
    /// Never asked.
    pub down: bool,
}

impl GroupServer {
    /// One with the settings that a `server` has which says nothing else.
    #[must_use]
    pub fn new(name: &[u8], addresses: Vec<PeerAddress>) -> Self {
        let name = name.into();
        Self { name, addresses, weight: 1, max_conns: 0, max_fails: 1, fail_timeout: 10, backup: false, down: false }
    }
}

/// A peer of a group: its place there.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct PeerId(pub(crate) u16);

impl PeerId {
    /// Its place in [`Group::peers`].
    #[must_use]
    pub const fn place(self) -> usize {
        self.0 as usize
    }
}

/// One address of a server.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct UpstreamPeer {
    /// Where it is.
    pub address: PeerAddress,
    /// Which of the group's servers it belongs to.
    pub server: u16,
    /// The same for all peers at the same address: connections to one serve the
    /// other.
    pub(crate) place: u32,
    pub(crate) weight: u32,
    pub(crate) max_conns: u32,
    pub(crate) max_fails: u32,
    pub(crate) fail_timeout: u32,
    pub(crate) down: bool,
}

/// The peers of one rank, those that are asked first, or the backups.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Rank {
    /// The first of them.
    pub start: usize,
    /// Behind the last of them.
    pub end: usize,
    /// Their weights together.
    pub weight: u64,
    /// How many of them are not down.
    pub tries: u32,
}

impl Rank {
    /// Those that are in it.
    pub const fn places(self) -> core::ops::Range<usize> {
        self.start..self.end
    }
}

/// A group of servers (`upstream`).
#[derive(Clone, Debug)]
pub struct Group {
    /// Its name.
    pub name: Box<[u8]>,
    balancing: Balancing,
    servers: Vec<Box<[u8]>>,
    peers: Vec<UpstreamPeer>,
    first: Rank,
    backup: Option<Rank>,
    /// Where a key's number leads, with consistent hashing.
    pub(crate) points: Points,
}

/// Why servers make no group.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum GroupError {
    /// All are backups, or there is none.
    None,
    /// More peers than are numbered.
    TooMany,
    /// More weight than consistent hashing has points for.
    TooHeavy,
}

/// The most peers of a group.
const PEERS_MAX: usize = 65_535;
/// The most weight of a group with consistent hashing: 84 MB of points.
const CONSISTENT_WEIGHT_MAX: u64 = 65_536;

impl fmt::Display for GroupError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::None => f.write_str("no servers in upstream"),
            Self::TooMany => write!(f, "not supported here: more than {PEERS_MAX} addresses in one upstream"),
            Self::TooHeavy => {
                write!(f, "not supported here: weights of more than {CONSISTENT_WEIGHT_MAX} with \"consistent\"")
            }
        }
    }
}

impl core::error::Error for GroupError {}

impl Group {
    /// A group of these servers.
    ///
    /// # Errors
    /// There are none, or too many.
    pub fn new(name: &[u8], balancing: Balancing, servers: &[GroupServer]) -> Result<Self, GroupError> {
        let group = Self::of(name, balancing, servers, CONSISTENT_WEIGHT_MAX)?;
        if group.first.start == group.first.end { Err(GroupError::None) } else { Ok(group) }
    }

    /// The same, of which there may be none by now.
    pub(crate) fn of(
        name: &[u8],
        balancing: Balancing,
        servers: &[GroupServer],
        consistent_weight_max: u64,
    ) -> Result<Self, GroupError> {
        let mut peers = Vec::new();
        let mut places = HashMap::new();
        let first = rank(&mut peers, &mut places, servers, false);
        let backup = rank(&mut peers, &mut places, servers, true);
        if peers.len() > PEERS_MAX || servers.len() > PEERS_MAX {
            return Err(GroupError::TooMany);
        }
        let points = match balancing {
            Balancing::ConsistentKey if first.weight > consistent_weight_max => return Err(GroupError::TooHeavy),
            Balancing::ConsistentKey => {
                let peers = &peers[first.start..first.end];
                Points::of(
                    peers.iter().map(|peer| (peer.server, &*servers[usize::from(peer.server)].name, peer.weight)),
                )
            }
            _ => Points::default(),
        };
        Ok(Self {
            name: name.into(),
            balancing,
            servers: servers.iter().map(|server| server.name.clone()).collect(),
            peers,
            first,
            backup: (backup.start < backup.end).then_some(backup),
            points,
        })
    }

    /// Its peers: those that are asked first, then the backups.
    #[must_use]
    pub fn peers(&self) -> &[UpstreamPeer] {
        &self.peers
    }

    /// Where a peer is.
    #[must_use]
    pub fn address(&self, peer: PeerId) -> &PeerAddress {
        &self.peers[peer.place()].address
    }

    /// One of its peers at this address, if there is any.
    #[must_use]
    pub fn peer_at(&self, address: &PeerAddress) -> Option<PeerId> {
        self.peers.iter().position(|peer| peer.address == *address).map(|place| PeerId(place as u16))
    }

    /// How its peers are chosen.
    #[must_use]
    pub const fn balancing(&self) -> Balancing {
        self.balancing
    }

    /// Whether it is one peer, which is asked whatever became of it before.
    #[must_use]
    pub const fn is_single(&self) -> bool {
        self.first.end == 1 && self.backup.is_none()
    }

    /// Whether there is anything to choose from by weight.
    pub(crate) const fn has_first(&self) -> bool {
        self.first.weight > 0
    }

    /// What a peer is known by when its group changes.
    pub(crate) fn identity(&self, place: usize) -> (bool, &[u8], &PeerAddress, u32) {
        let peer = &self.peers[place];
        (place >= self.first.end, self.server_name(peer.server), &peer.address, peer.weight)
    }

    /// The peers of a rank.
    pub(crate) fn rank(&self, backup: bool) -> Rank {
        self.backup.filter(|_| backup).unwrap_or(self.first)
    }

    pub(crate) const fn has_backup(&self) -> bool {
        self.backup.is_some()
    }

    /// What the server of a peer is written as.
    pub(crate) fn server_name(&self, number: u16) -> &[u8] {
        &self.servers[usize::from(number)]
    }
}

/// Adds the peers of a rank.
fn rank<'s>(
    peers: &mut Vec<UpstreamPeer>,
    places: &mut HashMap<&'s PeerAddress, u32>,
    servers: &'s [GroupServer],
    backup: bool,
) -> Rank {
    let mut rank = Rank { start: peers.len(), end: 0, weight: 0, tries: 0 };
    for (number, server) in servers.iter().enumerate().filter(|(_, server)| server.backup == backup) {
        for address in &server.addresses {
            let next = places.len() as u32;
            let place = *places.entry(address).or_insert(next);
            let weight = server.weight.max(1);
            rank.weight += u64::from(weight);
            rank.tries += u32::from(!server.down);
            peers.push(UpstreamPeer {
                address: address.clone(),
                // More are refused.
                server: number as u16,
                place,
                weight,
                max_conns: server.max_conns,
                max_fails: server.max_fails,
                fail_timeout: server.fail_timeout,
                down: server.down,
            });
        }
    }
    rank.end = peers.len();
    rank
}
