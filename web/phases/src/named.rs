//! Names of a program's groups, and what resolves them.

use configuration::program::Program;
use resolver::Resolver;
use rustix::fd::OwnedFd;
use std::sync::Arc;
use upstream::FoundPeer;
use wire::Time;

/// What resolves names for a program, and names of its groups.
#[derive(Debug)]
pub(crate) struct Names {
    pub resolver: Resolver,
    pub hosts: Vec<GroupHost>,
    /// Tickets of requests that wait for the first addresses of a group.
    pub parked: Vec<(u16, u64)>,
}

/// A name of a group.
#[derive(Debug)]
pub(crate) struct GroupHost {
    pub group: u16,
    /// Its place among the group's servers that have names.
    pub place: usize,
    pub found: Vec<FoundPeer>,
    /// Something was said of it, be it that it cannot be.
    pub is_answered: bool,
    /// When it is asked for again; not while it is.
    pub again: Option<Time>,
}

impl Names {
    pub fn new(resolver: Resolver, program: &Program, event: &Arc<OwnedFd>) -> Self {
        resolver.wake_by(event);
        let groups = (0_u16..).zip(&program.upstreams);
        let named = groups.filter_map(|(group, one)| Some((group, one.names.as_ref()?.servers.named.len())));
        let places = named.flat_map(|(group, count)| (0..count).map(move |place| (group, place)));
        let host = |(group, place)| {
            let (found, is_answered, again) = (Vec::new(), false, Some(Time::ZERO));
            GroupHost { group, place, found, is_answered, again }
        };
        Self { resolver, hosts: places.map(host).collect(), parked: Vec::new() }
    }

    /// What is known of a group's names, in their order.
    pub fn found(&self, group: u16) -> Vec<Vec<FoundPeer>> {
        self.hosts.iter().filter(|host| host.group == group).map(|host| host.found.clone()).collect()
    }

    /// Whether something is to be said still of a name of a group.
    pub fn is_pending(&self, group: u16) -> bool {
        self.hosts.iter().any(|host| host.group == group && !host.is_answered)
    }
}
