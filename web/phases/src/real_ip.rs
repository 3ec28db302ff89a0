//! Whose client it is: a proxy that is believed tells of another (`real_ip_header`,
//! `set_real_ip_from`).

use super::request_state::{Client, RequestState};
use super::runner::Runner;
use configuration::BlockId;
use configuration::addresses::forwarded;
use configuration::program::{Program, RealIpHeader};
use core::net::{IpAddr, SocketAddr};
use semantics::Request;

/// Sets a client's address to what its connection's `peer` tells, if that is a proxy that is
/// believed in this place.
fn set_real_address(
    (program, place): (&Program, BlockId),
    (client, peer): (&mut Client, Option<SocketAddr>),
    request: &Request<'_>,
) {
    // What was believed once is.
    if client.peer != peer {
        return;
    }
    let Some(rules) = program.block(place).and_then(|block| block.real_ip.as_ref()) else { return };
    let trusts = |address: Option<IpAddr>| match address {
        Some(address) => rules.from.iter().any(|prefix| prefix.contains(address)),
        None => rules.from_unix,
    };
    let from = peer.map(|peer| peer.ip().to_canonical());
    let told = match &rules.header {
        RealIpHeader::ProxyProtocol => client.proxied.as_ref().map(|told| told.source).filter(|_| trusts(from)),
        RealIpHeader::Field(name) => {
            let fields = request.fields().filter(|field| field.name.eq_ignore_ascii_case(name));
            let values: Vec<&[u8]> = fields.map(|field| field.value).collect();
            forwarded(from, values.into_iter(), trusts, rules.recursive)
        }
    };
    client.peer = told.or(client.peer);
}

/// The same of a request that is answered without a look at its places: those of its server
/// come first.
pub(super) fn set_real_address_of_ready(program: &Program, state: &mut RequestState, request: &Request<'_>) {
    let server = program.server(state.route.server).map(|server| server.block);
    for place in server.into_iter().chain([state.route.block]) {
        set_real_address((program, place), (&mut state.client, state.about.peer), request);
    }
}

impl Runner<'_> {
    /// Whose client it is, by the rules of the place that it is in.
    pub(super) fn real_address(&mut self) {
        let state = &mut *self.state;
        let place = (&*self.loaded.program, state.route.block);
        set_real_address(place, (&mut state.client, state.about.peer), self.request);
    }
}
