//! Where the upstreams of a configuration are.

use crate::program::Program;
use std::net::SocketAddr;
use upstream::PeerAddress;

impl Program {
    /// Where all upstreams are; `None` for one at a Unix socket, that has a name which is
    /// resolved, or that each request computes.
    pub fn upstream_addresses(&self) -> impl Iterator<Item = Option<SocketAddr>> {
        let known = self.upstreams.iter().flat_map(|upstream| upstream.group.peers()).map(|peer| match &peer.address {
            PeerAddress::Inet(address) => Some(*address),
            PeerAddress::Unix(_) => None,
        });
        // Nobody knows where names will lead.
        let named = self.upstreams.iter().filter(|upstream| upstream.names.is_some());
        let computed = self.blocks.iter().filter(|block| block.content.computes_upstream());
        known.chain(named.map(|_| None)).chain(computed.map(|_| None))
    }
}
