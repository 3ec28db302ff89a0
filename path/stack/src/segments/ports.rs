//! Outgoing connections: local address, local port, sequence number.

use super::Tcp;
use super::flows::Owner;
use crate::flow::Flow;
use crate::ip::Ip;
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

/// Where answers to outgoing connections arrive, in a host of several silos.
pub trait ReturnPath: core::fmt::Debug + Send {
    /// Whether what `remote` answers to `local` arrives at this silo.
    fn returns_here(&self, remote: SocketAddr, local: SocketAddr) -> bool;
}

/// Where the search for a free port goes on.
#[derive(Debug, Default)]
pub(crate) struct Ports {
    /// Ports taken so far, by all searches.
    next: u32,
    /// The last search's flow without its local port, and where searches for
    /// its like start: most connects go where the one before went.
    last: Option<(Flow, u32)>,
    /// Which ports' answers come back to this silo; all, if none is told.
    path: Option<Box<dyn ReturnPath>>,
}

impl Tcp {
    /// Takes local ports only whose answers come back to this silo, from the
    /// next connection on.
    pub fn set_return_path(&mut self, path: Box<dyn ReturnPath>) {
        self.ports.path = Some(path);
    }

    /// Starts a connection from the local address `from` (the default one of
    /// the family if `None`), and from `port` unless that is 0.
    ///
    /// # Errors
    /// See [`ConnectError`].
    pub fn open(
        &mut self,
        ip: &mut Ip,
        from: Option<IpAddr>,
        port: u16,
        to: SocketAddr,
    ) -> Result<ConnId, ConnectError> {
        if self.slots.is_full() {
            return Err(ConnectError::Full);
        }
        let local = match from {
            Some(from) if from.is_ipv6() == to.is_ipv6() => ip.addresses.index(from),
            Some(_) => None,
            None => ip.addresses.default_index(to.is_ipv6()),
        };
        let local = local.ok_or(ConnectError::NoRoute)?;
        let next_hop = ip.next_hop(to.ip()).ok_or(ConnectError::NoRoute)?;
        let (flow, hash) = if port == 0 { self.free_flow(ip, local, to)? } else { self.flow_from(local, port, to)? };
        let neighbour = ip.neighbours.resolve(next_hop, self.common.now);
        let iss = self.secret.isn(&flow, self.common.now);
        let mtu = ip.path_mtu(to.ip());
        let mut cx = self.common.context(&flow);
        let mut connection = Connection::open(&mut cx, Path { mtu, v6: to.is_ipv6() }, iss);
        if ip.lets_fragment(to.ip()) {
            connection.let_fragment(&self.common.config);
        }
        if let Some(widened) = ip.reordering(to.ip()) {
            connection.expect_reordering(&self.common.config, widened);
        }
        let id = self.slots.insert(flow, neighbour, connection);
        self.sources.opened(to.ip());
        ip.neighbours.pin(neighbour);
        let slot = id.index() as u32;
        if !self.flows.insert(hash, Owner::Connection(slot)) {
            ip.neighbours.unpin(neighbour);
            self.sources.closed(to.ip());
            self.slots.remove(slot);
            return Err(ConnectError::Full);
        }
        self.make_ready(slot);
        Ok(id)
    }

    /// The flow from a port that somebody chose, if nothing owns it.
    fn flow_from(&self, local: u16, port: u16, to: SocketAddr) -> Result<(Flow, u64), ConnectError> {
        let flow = Flow::new(to.ip(), to.port(), local, port);
        let hash = self.flows.hash(&flow);
        if self.find(hash, &flow).is_some() { Err(ConnectError::NoPort) } else { Ok((flow, hash)) }
    }

    /// A flow that nothing owns: double hashing of ports (RFC 6056 section
    /// 3.3.4), so that successive connections to one peer take successive
    /// ports, and a port in TIME-WAIT is passed over.
    fn free_flow(&mut self, ip: &Ip, local: u16, to: SocketAddr) -> Result<(Flow, u64), ConnectError> {
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
            if self.listeners.has(flow.local_port) || !self.returns_here(ip, local, flow.local_port, to) {
                continue;
            }
            let hash = self.flows.hash(&flow);
            if self.find(hash, &flow).is_none() {
                return Ok((flow, hash));
            }
        }
        Err(ConnectError::NoPort)
    }

    /// Whether what `to` answers to a port of ours comes back to this silo.
    #[inline]
    fn returns_here(&self, ip: &Ip, local: u16, port: u16, to: SocketAddr) -> bool {
        let Some(path) = &self.ports.path else { return true };
        ip.addresses.get(local).is_none_or(|own| path.returns_here(to, SocketAddr::new(own, port)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Address, Config, LinkOffload, Seeds, Stack};
    use core::net::Ipv4Addr;
    use std::collections::HashSet;
    use wire::{Mac, Time};

    const OURS: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 1);

    fn stack() -> Stack {
        let mut config = Config::new(Mac([2, 0, 0, 0, 0, 1]), 1_500);
        config.addresses = vec![Address { ip: IpAddr::V4(OURS), prefix_len: 24 }];
        Stack::new(
            config,
            LinkOffload::default(),
            &Seeds { table: [1; 4], secret: [2; 4], timestamps: [9; 2] },
            Time::ZERO,
        )
    }

    /// Every fourth port, as if there were four silos.
    #[derive(Debug)]
    struct Fourth;

    impl ReturnPath for Fourth {
        fn returns_here(&self, remote: SocketAddr, local: SocketAddr) -> bool {
            assert_eq!((remote, local.ip()), (SocketAddr::from(([10, 0, 0, 2], 80)), IpAddr::V4(OURS)));
            local.port() % 4 == 1
        }
    }

    /// A port that somebody chose is taken, once for each peer.
    #[test]
    fn a_chosen_port_is_taken_once() {
        let mut stack = stack();
        let remote = SocketAddr::from(([10, 0, 0, 2], 80));
        let id = stack.open_from(None, 7777, remote).expect("nobody has it");
        assert_eq!(app::Net::local(&stack, id), Some(SocketAddr::from((OURS, 7777))));
        assert_eq!(stack.open_from(None, 7777, remote), Err(ConnectError::NoPort));
        assert!(stack.open_from(None, 7777, SocketAddr::from(([10, 0, 0, 3], 80))).is_ok());
    }

    /// Of the ports whose answers come here, all are found, and no other.
    #[test]
    fn only_ports_whose_answers_return_are_taken() {
        let mut stack = stack();
        stack.set_return_path(Box::new(Fourth));
        let remote = SocketAddr::from(([10, 0, 0, 2], 80));
        let mut ports = HashSet::new();
        while let Ok(id) = stack.open(None, remote) {
            let local = app::Net::local(&stack, id).expect("open");
            assert_eq!(local.port() % 4, 1);
            assert!(ports.insert(local.port()), "each port once");
        }
        assert_eq!(ports.len(), (PORTS / 4) as usize);
    }
}
