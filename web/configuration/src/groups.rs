//! Groups of servers that requests are passed on to.

use features::Value;
use resolver::ResolverRules;
use std::sync::Arc;
use upstream::{Group, IdleRules, NamedServers};

/// A group of servers that requests are passed on to: `upstream`, or the addresses of
/// a host that one is passed to.
#[derive(Clone, Debug)]
pub struct UpstreamGroup {
    /// The servers, and how one of them is chosen.
    pub group: Arc<Group>,
    /// What it is chosen by: the key of `hash`.
    pub key: Option<Value>,
    /// How connections to them are kept (`keepalive`); none are not.
    pub idle: Option<IdleRules>,
    /// The port, where it is that of a host and no `upstream`.
    pub port: Option<u16>,
    /// Servers whose names are resolved while they serve; the group is how it begins.
    pub names: Option<Arc<GroupNames>>,
}

/// Servers of a group whose names are resolved while they serve (`server … resolve`).
#[derive(Clone, Debug)]
pub struct GroupNames {
    /// Who is asked for addresses.
    pub resolver: Arc<ResolverRules>,
    /// The servers.
    pub servers: NamedServers,
}
