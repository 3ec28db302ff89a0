//! Which servers a request is passed on to.

use super::runner::Runner;
use asking::{NamedHost, Servers};
use configuration::program::{Program, UpstreamGroup};
use features::ErrorLevel;
use proxy::url::{UpstreamPlace, parse_port};
use std::rc::Rc;
use std::sync::Arc;
use upstream::{Balancer, Balancing, BalancingKey, Group, GroupServer, PeerAddress};

impl Runner<'_> {
    /// The name of a group of the program's.
    pub(super) fn group_name(&self, number: u16) -> Vec<u8> {
        let group = self.loaded.program.upstreams.get(usize::from(number));
        group.map_or_else(Vec::new, |group| group.group.name.to_vec())
    }

    /// Who is meant by an address; where nothing says which `port`, it is one that has
    /// none. The status if nobody is.
    pub(super) fn choice_of(&mut self, place: UpstreamPlace<'_>, port: Option<u16>) -> Result<Servers, u16> {
        if let Some(group) = named(&self.loaded.program, &place, port) {
            return Ok(Servers::Group(group));
        }
        if let (UpstreamPlace::Host { name, port: None }, None) = (&place, port) {
            let name = String::from_utf8_lossy(name).into_owned();
            self.tell(ErrorLevel::ERROR, || format!("no port in upstream \"{name}\"").into_bytes());
            return Err(500);
        }
        let address = match place {
            UpstreamPlace::Unix { path } => Some(PeerAddress::Unix(path_of(path))),
            UpstreamPlace::Host { .. } => place.literal(port.unwrap_or(80)).map(PeerAddress::Inet),
        };
        if let Some(address) = address {
            let server = GroupServer::new(address.to_string().as_bytes(), vec![address]);
            let group = Group::new(&server.name.clone(), Balancing::RoundRobin, &[server]).map_err(|_| 500_u16)?;
            return Ok(Servers::Own(Box::new(Balancer::new(Arc::new(group)))));
        }
        let UpstreamPlace::Host { name, port: told } = place else { return Err(502) };
        let block = self.loaded.program.block(self.state.route.block);
        if let Some(resolver) = block.and_then(|block| block.resolver.clone()) {
            // Where none is written, it is that of the scheme.
            let port = told.and_then(parse_port).or(port).unwrap_or_default();
            let host = name.strip_suffix(b".").unwrap_or(name).into();
            return Ok(Servers::Named(Box::new(NamedHost { host, port, resolver })));
        }
        let name = String::from_utf8_lossy(name).into_owned();
        self.tell(ErrorLevel::ERROR, || format!("no resolver defined to resolve {name}").into_bytes());
        Err(502)
    }

    /// The value that servers of a group are chosen by (`hash`), if they are by one.
    pub(super) fn balancing_value(&mut self, servers: &Servers) -> Option<Vec<u8>> {
        let Servers::Group(number) = servers else { return None };
        let loaded = Rc::clone(&self.loaded);
        let key = loaded.program.upstreams.get(usize::from(*number))?.key.as_ref()?;
        Some(self.scope().get(key))
    }

    /// What servers are chosen by, where something of the request decides; with that value.
    pub(super) fn balancing_key<'v>(&self, servers: &Servers, value: Option<&'v [u8]>) -> BalancingKey<'v> {
        let Servers::Group(number) = servers else { return BalancingKey::None };
        let rules = self.loaded.program.upstreams.get(usize::from(*number));
        match (rules.map(|rules| rules.group.balancing()), value) {
            (Some(Balancing::ClientAddress), _) => BalancingKey::Client(self.state.client.peer.map(|peer| peer.ip())),
            (_, Some(value)) => BalancingKey::Value(value),
            _ => BalancingKey::None,
        }
    }
}

/// The group of this name: an `upstream`, if no port is told, or one of a host that stands
/// elsewhere with its port; `usual` is that of hosts that have none.
fn named(program: &Program, place: &UpstreamPlace<'_>, usual: Option<u16>) -> Option<u16> {
    let UpstreamPlace::Host { name, port } = place else { return None };
    let told = port.and_then(parse_port);
    let is_meant = |one: &UpstreamGroup| match one.port {
        None => told.is_none(),
        port => port == told.or(usual),
    };
    let found = |one: &UpstreamGroup| is_meant(one) && one.group.name.eq_ignore_ascii_case(name);
    program.upstreams.iter().position(found).map(|at| at as u16)
}

fn path_of(bytes: &[u8]) -> std::path::PathBuf {
    use std::os::unix::ffi::OsStrExt;
    std::path::PathBuf::from(std::ffi::OsStr::from_bytes(bytes))
}
