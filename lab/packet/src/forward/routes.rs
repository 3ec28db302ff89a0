//! A table of routes, looked up by the longest prefix: a trie of whole bytes,
//! four looks for IPv4 and sixteen for IPv6 at most, usually far fewer.

use core::fmt;
use core::net::IpAddr;
use wire::Mac;

/// The most routes of a table.
pub const TABLE_LIMIT: usize = 1 << 20;

/// Where a packet goes next.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Hop {
    /// The port that it leaves by: 0 or 1.
    pub port: u8,
    /// The Ethernet address of whom it is handed to.
    pub mac: Mac,
}

/// Why a route was not taken.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum BadRoute {
    /// The prefix is longer than an address.
    Prefix,
    /// There is no such port.
    Port,
    /// The table is full.
    Full,
}

impl fmt::Display for BadRoute {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Prefix => f.write_str("the prefix is longer than an address of its family"),
            Self::Port => f.write_str("a route leads to port 0 or 1"),
            Self::Full => write!(f, "a table has at most {TABLE_LIMIT} routes"),
        }
    }
}

impl core::error::Error for BadRoute {}

/// One byte's worth of an address.
#[derive(Clone, Copy, Debug)]
struct Entry {
    /// The node for longer prefixes; 0: none.
    below: u32,
    /// The hop, from 1 on; 0: none.
    hop: u32,
    /// How long the prefix is that brought the hop here.
    prefix: u8,
}

const NOTHING: Entry = Entry { below: 0, hop: 0, prefix: 0 };

type Node = [Entry; 256];

/// The roots: IPv4's, and IPv6's.
const ROOTS: usize = 2;

/// Routes of both families.
#[derive(Clone, Debug)]
pub struct Routes {
    nodes: Vec<Node>,
    hops: Vec<Hop>,
}

impl Default for Routes {
    fn default() -> Self {
        Self { nodes: vec![[NOTHING; 256]; ROOTS], hops: Vec::new() }
    }
}

impl Routes {
    /// Adds a route, or puts another hop in the place of the one that this
    /// very prefix has. Bits of the address beyond the prefix do not matter.
    ///
    /// # Errors
    /// [`BadRoute`]; the table is as before.
    pub fn add(&mut self, network: IpAddr, prefix: u8, hop: Hop) -> Result<(), BadRoute> {
        let (bytes, len) = octets(network);
        if usize::from(prefix) > len * 8 {
            return Err(BadRoute::Prefix);
        }
        if hop.port > 1 {
            return Err(BadRoute::Port);
        }
        if self.hops.len() >= TABLE_LIMIT {
            return Err(BadRoute::Full);
        }
        self.hops.push(hop);
        let number = u32::try_from(self.hops.len()).map_err(|_| BadRoute::Full)?;
        let mut node = usize::from(len != 4);
        let (mut left, mut depth) = (prefix, 0);
        while left > 8 {
            let byte = usize::from(bytes[depth]);
            if self.nodes[node][byte].below == 0 {
                self.nodes[node][byte].below = self.nodes.len() as u32;
                self.nodes.push([NOTHING; 256]);
            }
            node = self.nodes[node][byte].below as usize;
            left -= 8;
            depth += 1;
        }
        // The bytes that begin with the bits that are left.
        let span = 1_usize << (8 - left);
        let first = usize::from(bytes.get(depth).copied().unwrap_or(0)) & !(span - 1);
        for entry in &mut self.nodes[node][first..first + span] {
            if entry.hop == 0 || entry.prefix <= prefix {
                (entry.hop, entry.prefix) = (number, prefix);
            }
        }
        Ok(())
    }

    /// How many there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.hops.len()
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.hops.is_empty()
    }

    /// The hop of the longest prefix of an address: 4 bytes, or 16.
    #[inline]
    #[must_use]
    pub fn find(&self, address: &[u8]) -> Option<Hop> {
        let mut node = usize::from(address.len() != 4);
        let mut hop = 0;
        for byte in address {
            let entry = self.nodes[node][usize::from(*byte)];
            if entry.hop != 0 {
                hop = entry.hop;
            }
            if entry.below == 0 {
                break;
            }
            node = entry.below as usize;
        }
        self.hops.get((hop as usize).wrapping_sub(1)).copied()
    }
}

fn octets(address: IpAddr) -> ([u8; 16], usize) {
    let mut bytes = [0; 16];
    match address {
        IpAddr::V4(v4) => {
            bytes[..4].copy_from_slice(&v4.octets());
            (bytes, 4)
        }
        IpAddr::V6(v6) => (v6.octets(), 16),
    }
}
