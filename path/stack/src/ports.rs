//! Outgoing connections: local address, local port, sequence number.

use crate::Stack;
use crate::flow::{Flow, Owner};
use app::{ConnId, ConnectError};
use core::net::{IpAddr, SocketAddr};
use tcp::{Connection, Path};

/// First port of the ephemeral range (RFC 6335 section 6 begins it at 49152;
/// Linux and most others at 32768; a load generator wants more).
const FIRST_PORT: u32 = 10_000;
/// How many there are.
const PORTS: u32 = 65_536 - FIRST_PORT;
/// Ports tried before giving up: at a load that leaves one port in a
/// thousand, the search still finds it nearly always.
const TRIES: u32 = 8_192;

/// Where the search for a free port goes on.
#[derive(Debug, Default)]
pub(crate) struct Ports {
    /// Ports taken so far, by all searches.
    next: u32,
    /// The last search's flow without its local port, and where searches for
    /// its like start: most connects go where the one before went.
    last: Option<(Flow, u32)>,
}

impl Stack {
    /// Starts a connection from the local address `from` (the default one of
    /// the family if `None`).
    ///
    /// # Errors
    /// See [`ConnectError`].
    pub fn open(&mut self, from: Option<IpAddr>, to: SocketAddr) -> Result<ConnId, ConnectError> {
        if self.slots.is_full() {
            return Err(ConnectError::Full);
        }
        let local = match from {
            Some(ip) if ip.is_ipv6() == to.is_ipv6() => self.addresses.index(ip),
            Some(_) => None,
            None => self.addresses.default_index(to.is_ipv6()),
        };
        let local = local.ok_or(ConnectError::NoRoute)?;
        let next_hop = self.routes.next_hop(to.ip()).ok_or(ConnectError::NoRoute)?;
        let (flow, hash) = self.free_flow(local, to)?;
        let neighbour = self.neighbours.resolve(next_hop, self.now);
        let iss = self.secret.isn(&flow, self.now);
        let mtu = self.path_mtus.get(to.ip(), self.now).unwrap_or(self.config.mtu).min(self.config.mtu);
        let mut cx = context!(self, &flow);
        let connection = Connection::open(&mut cx, Path { mtu, v6: to.is_ipv6() }, iss);
        let id = self.slots.insert(flow, neighbour, connection);
        self.neighbours.pin(neighbour);
        let slot = id.index() as u32;
        if !self.table.insert(hash, Owner::Connection(slot)) {
            self.neighbours.unpin(neighbour);
            self.slots.remove(slot);
            return Err(ConnectError::Full);
        }
        self.make_ready(slot);
        Ok(id)
    }

    /// A flow that nothing owns: double hashing of ports (RFC 6056 section
    /// 3.3.4), so that successive connections to one peer take successive
    /// ports, and a port in TIME-WAIT is passed over.
    fn free_flow(&mut self, local: u16, to: SocketAddr) -> Result<(Flow, u64), ConnectError> {
        let mut flow = Flow::new(to.ip(), to.port(), local, 0);
        let offset = match &self.ports.last {
            Some((last, offset)) if *last == flow => *offset,
            _ => {
                let offset = self.secret.port_offset(&flow);
                self.ports.last = Some((flow, offset));
                offset
            }
        };
        for _ in 0..TRIES {
            self.ports.next = self.ports.next.wrapping_add(1);
            let port = FIRST_PORT + offset.wrapping_add(self.ports.next) % PORTS;
            flow.local_port = port as u16;
            if self.config.listen.contains(&flow.local_port) {
                continue;
            }
            let hash = self.hasher.hash(&flow);
            if self.find(hash, &flow).is_none() {
                return Ok((flow, hash));
            }
        }
        Err(ConnectError::NoPort)
    }
}
