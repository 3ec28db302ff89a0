//! `upstream`: groups of servers that requests are passed on to.

use super::arguments::{argument, count, duration, inside, told};
use super::resolvers::{resolver_timeout, with_timeout};
use super::url::{Tail, Url, UrlHost};
use super::{Compiler, Step, nowhere};
use crate::message::{Message, Place};
use crate::reader::Directive;
use configuration::UpstreamGroupId;
use configuration::program::{GroupNames, ResolverRules, UpstreamGroup};
use features::Value;
use features::units::{number, size, time};
use std::sync::Arc;
use upstream::{Balancing, Group, GroupServer, IdleRules, NamedServer, NamedServers, PeerAddress};

/// The port of servers that name none.
const PORT: u16 = 80;
/// The smallest zone that nginx takes.
const ZONE_MIN: u64 = 8 * 4_096;

/// An upstream that is known by its name.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Known {
    /// Its name, in small letters.
    name: Vec<u8>,
    /// The port that is meant, where no `upstream` has this name.
    port: Option<u16>,
    id: UpstreamGroupId,
}

/// A block that is being compiled.
#[derive(Default)]
struct Draft {
    servers: Vec<GroupServer>,
    balancing: Option<Balancing>,
    key: Option<Value>,
    idle: Option<u32>,
    requests: Option<u32>,
    time: Option<core::time::Duration>,
    timeout: Option<core::time::Duration>,
    /// Servers whose names are resolved while they serve.
    named: Vec<NamedServer>,
    resolver: Option<Arc<ResolverRules>>,
    resolver_timeout: Option<core::time::Duration>,
    has_zone: bool,
}

impl Compiler<'_> {
    /// An `upstream`.
    pub(super) fn upstream(&mut self, directive: &Directive) -> Step {
        let written = argument(directive, 0);
        let name = written.to_ascii_lowercase();
        if self.upstreams.iter().any(|known| known.name == name) {
            return Err(self.refused(directive.place, format!("duplicate upstream \"{}\"", told(written))));
        }
        let (mut draft, before) = (Draft::default(), self.errors.len());
        for one in inside(directive) {
            let taken = match self.has_effect(one) {
                Ok(true) => self.upstream_rule(&mut draft, one),
                taken => taken.map(drop),
            };
            self.note(taken);
        }
        if self.errors.len() > before && draft.servers.is_empty() && draft.named.is_empty() {
            // One whose servers are wrong has been told of; who names it is right.
            draft.servers.push(GroupServer::new(b"", vec![PeerAddress::Unix(std::path::PathBuf::new())]));
        }
        if draft.servers.is_empty() && draft.named.is_empty() {
            return Err(self.refused(directive.place, "no servers are inside upstream".to_owned()));
        }
        let idle = draft.idle.filter(|connections| *connections > 0).map(|connections| {
            let usual = IdleRules::new(connections);
            IdleRules {
                connections,
                requests: draft.requests.unwrap_or(usual.requests),
                time: draft.time.unwrap_or(usual.time),
                timeout: draft.timeout.unwrap_or(usual.timeout),
            }
        });
        let names = self.group_names(written, &mut draft, directive.place)?;
        let group = match &names {
            Some(names) => names.servers.group(&vec![Vec::new(); names.servers.named.len()]),
            None => Group::new(written, draft.balancing.unwrap_or_default(), &draft.servers),
        };
        let group = group.map_err(|why| {
            let what = match why {
                upstream::GroupError::None => format!("{why} \"{}\"", told(written)),
                _ => why.to_string(),
            };
            self.refused(directive.place, what)
        })?;
        let group = UpstreamGroup { group: Arc::new(group), key: draft.key, idle, port: None, names };
        let id = self.add_group(group, directive.place)?;
        self.upstreams.push(Known { name, port: None, id });
        Ok(())
    }

    fn add_group(&mut self, group: UpstreamGroup, place: Place) -> Step<UpstreamGroupId> {
        let number = u16::try_from(self.program.upstreams.len());
        let number = number.map_err(|_| self.refused(place, "too many upstreams: at most 65536".to_owned()))?;
        self.program.upstreams.push(group);
        Ok(UpstreamGroupId(number))
    }

    fn upstream_rule(&mut self, draft: &mut Draft, directive: &Directive) -> Step {
        let place = directive.place;
        match directive.name.as_slice() {
            b"server" => self.upstream_server(draft, directive)?,
            b"ip_hash" => self.balance(draft, Balancing::ClientAddress, place),
            b"least_conn" => self.balance(draft, Balancing::LeastConnections, place),
            b"hash" => {
                draft.key = Some(self.value(argument(directive, 0), place)?);
                let balancing = match directive.arguments.get(1).map(Vec::as_slice) {
                    None => Balancing::Key,
                    Some(b"consistent") => Balancing::ConsistentKey,
                    Some(other) => return Err(self.invalid_parameter(other, place)),
                };
                self.balance(draft, balancing, place);
            }
            b"random" => {
                let words: Vec<&[u8]> = directive.arguments.iter().map(Vec::as_slice).collect();
                let balancing = match words[..] {
                    [] => Balancing::Random,
                    [b"two"] | [b"two", b"least_conn"] => Balancing::RandomOfTwo,
                    [b"two", b"least_time=header" | b"least_time=last_byte"] => {
                        return Err(self.unsupported(place, "\"least_time\" of the \"random\" directive"));
                    }
                    [b"two", other] | [other, ..] => return Err(self.invalid_parameter(other, place)),
                };
                self.balance(draft, balancing, place);
            }
            b"keepalive" => {
                let text = argument(directive, 0);
                let connections = number(text).map_err(|_| {
                    self.refused(place, format!("invalid value \"{}\" in \"keepalive\" directive", told(text)))
                })?;
                match directive.arguments.get(1).map(Vec::as_slice) {
                    // Nothing is shared: each location has the same connections anyway.
                    None | Some(b"local") => {}
                    Some(other) => return Err(self.invalid_parameter(other, place)),
                }
                draft.idle = Some(u32::try_from(connections).unwrap_or(u32::MAX));
            }
            b"keepalive_requests" => draft.requests = Some(count(directive)),
            b"keepalive_time" => draft.time = Some(duration(directive)),
            b"keepalive_timeout" => draft.timeout = Some(duration(directive)),
            b"zone" => {
                draft.has_zone = true;
                self.upstream_zone(directive)?;
            }
            b"resolver" => draft.resolver = Some(self.resolver(directive)?),
            b"resolver_timeout" => draft.resolver_timeout = Some(resolver_timeout(directive)),
            // There is no other.
            _ => {}
        }
        Ok(())
    }

    fn balance(&mut self, draft: &mut Draft, balancing: Balancing, place: Place) {
        if draft.balancing.replace(balancing).is_some() {
            self.warn(place, "load balancing method redefined".to_owned());
        }
        if !matches!(balancing, Balancing::Key | Balancing::ConsistentKey) {
            draft.key = None;
        }
    }

    fn invalid_parameter(&self, word: &[u8], place: Place) -> Message {
        self.refused(place, format!("invalid parameter \"{}\"", told(word)))
    }

    /// What is counted in it is counted by each silo for itself.
    fn upstream_zone(&mut self, directive: &Directive) -> Step {
        let place = directive.place;
        let name = argument(directive, 0);
        if name.is_empty() {
            return Err(self.refused(place, "invalid zone name \"\"".to_owned()));
        }
        if let Some(text) = directive.arguments.get(1) {
            match size(text) {
                Err(_) => return Err(self.refused(place, format!("invalid zone size \"{}\"", told(text)))),
                Ok(bytes) if bytes < ZONE_MIN => {
                    return Err(self.refused(place, format!("zone \"{}\" is too small", told(name))));
                }
                Ok(bytes) => _ = self.program.shared_memory.insert(name.to_vec(), bytes),
            }
        }
        self.remark("zone", place, "each worker counts failures and connections for itself");
        Ok(())
    }

    fn upstream_server(&self, draft: &mut Draft, directive: &Directive) -> Step {
        let place = directive.place;
        let written = argument(directive, 0);
        let mut server = GroupServer::new(written, Vec::new());
        // Those by a key or by chance have no backups.
        let has_backups = draft.balancing.unwrap_or_default().has_backups();
        let (mut resolves, mut service) = (false, None);
        for word in &directive.arguments[1..] {
            let (name, value) = match word.iter().position(|byte| *byte == b'=') {
                Some(at) => word.split_at(at + 1),
                None => (word.as_slice(), &b""[..]),
            };
            let count = || number(value).map(|count| u32::try_from(count).unwrap_or(u32::MAX));
            let known = match name {
                b"weight=" => count().ok().filter(|weight| *weight > 0).map(|weight| server.weight = weight).is_some(),
                b"max_conns=" => count().map(|most| server.max_conns = most).is_ok(),
                b"max_fails=" => count().map(|most| server.max_fails = most).is_ok(),
                b"fail_timeout=" => {
                    let seconds = time(value, true).map(|millis| u32::try_from(millis / 1_000).unwrap_or(u32::MAX));
                    seconds.map(|seconds| server.fail_timeout = seconds).is_ok()
                }
                b"backup" if !has_backups => {
                    let what = format!("balancing method does not support parameter \"{}\"", told(word));
                    return Err(self.refused(place, what));
                }
                b"backup" => {
                    server.backup = true;
                    true
                }
                b"down" => {
                    server.down = true;
                    true
                }
                b"resolve" => {
                    resolves = true;
                    true
                }
                b"service=" if value.is_empty() => {
                    return Err(self.refused(place, "service is empty".to_owned()));
                }
                b"service=" => {
                    service = Some(value.into());
                    true
                }
                b"drain" | b"route=" | b"slow_start=" => {
                    return Err(self.unsupported(place, &format!("\"{}\" of the \"server\" directive", told(word))));
                }
                _ => false,
            };
            if !known {
                return Err(self.invalid_parameter(word, place));
            }
        }
        match resolves {
            true => self.named_server(draft, (server, service), directive),
            false if service.is_some() => {
                let what = format!("service upstream \"{}\" requires \"resolve\" parameter", told(written));
                Err(self.refused(place, what))
            }
            false => {
                server.addresses = self.peer_addresses(written, place)?;
                draft.servers.push(server);
                Ok(())
            }
        }
    }

    /// One whose name is resolved while it serves, unless it is an address.
    fn named_server(
        &self,
        draft: &mut Draft,
        (mut settings, service): (GroupServer, Option<Box<[u8]>>),
        directive: &Directive,
    ) -> Step {
        let (place, text) = (directive.place, argument(directive, 0));
        let refused = |what: &str| self.refused(place, format!("{what} in upstream \"{}\"", told(text)));
        let url = Url::parse(text, Tail::None).map_err(refused)?;
        let of_service = |what: &str| self.refused(place, format!("service upstream \"{}\" {what}", told(text)));
        if service.is_some() && url.port.is_some() {
            return Err(of_service("may not have port"));
        }
        if let UrlHost::Name(host) = url.host {
            let (host, port) = (host.into(), url.port.unwrap_or(PORT));
            draft.named.push(NamedServer { settings, host, port, service });
            return Ok(());
        }
        if service.is_some() {
            return Err(of_service("requires domain name"));
        }
        settings.addresses = self.peer_addresses(text, place)?;
        draft.servers.push(settings);
        Ok(())
    }

    /// The servers of a group that have names which are resolved.
    fn group_names(&self, name: &[u8], draft: &mut Draft, place: Place) -> Step<Option<Arc<GroupNames>>> {
        let named = core::mem::take(&mut draft.named);
        if named.is_empty() {
            return Ok(None);
        }
        let at = || {
            let path = self.configuration.path(place.file).map_or_else(String::new, |path| path.display().to_string());
            format!("in upstream \"{}\" in {path}:{}", told(name), place.line)
        };
        if !draft.has_zone {
            let upstream = at().replacen("in ", "", 1);
            let what = format!("resolving names at run time requires {upstream} to be in shared memory");
            return Err(nowhere(what));
        }
        let Some(resolver) = draft.resolver.clone().or_else(|| self.outer_resolver.clone()) else {
            return Err(nowhere(format!("no resolver defined to resolve names at run time {}", at())));
        };
        if !draft.servers.iter().any(|server| !server.backup) && named.iter().all(|one| one.settings.backup) {
            return Err(self.refused(place, format!("no servers in upstream \"{}\"", told(name))));
        }
        let timeout = draft.resolver_timeout.unwrap_or(self.outer_timeout);
        let (fixed, balancing) = (core::mem::take(&mut draft.servers), draft.balancing.unwrap_or_default());
        let servers = NamedServers { name: name.into(), balancing, fixed, named };
        Ok(Some(Arc::new(GroupNames { resolver: with_timeout(resolver, timeout), servers })))
    }

    fn peer_addresses(&self, text: &[u8], place: Place) -> Step<Vec<PeerAddress>> {
        let found = Url::parse(text, Tail::None).and_then(|url| url.addresses(PORT, self.around.resolve));
        found.map_err(|what| self.refused(place, format!("{what} in upstream \"{}\"", told(text))))
    }

    /// The upstream that an address in a `*_pass` means: the `upstream` of this name,
    /// or a group of the host's own addresses. `port` is that of hosts that name none;
    /// 0 is none.
    pub(super) fn upstream_of(&mut self, url: &Url<'_>, port: u16, place: Place) -> Step<UpstreamGroupId> {
        let name = url.name.to_ascii_lowercase();
        let text = told(url.name);
        let named = self.upstreams.iter().find(|known| known.name == name && known.port.is_none());
        if let Some(known) = named {
            return match url.port {
                Some(port) => Err(self.refused(place, format!("upstream \"{text}\" may not have port {port}"))),
                None => Ok(known.id),
            };
        }
        let port = url.port.unwrap_or(port);
        if let Some(known) = self.upstreams.iter().find(|known| known.name == name && known.port == Some(port)) {
            return Ok(known.id);
        }
        if port == 0 && !matches!(url.host, super::url::UrlHost::Unix(_)) {
            return Err(self.refused(place, format!("no port in upstream \"{text}\"")));
        }
        let addresses = url.addresses(port, self.around.resolve);
        let addresses = addresses.map_err(|what| self.refused(place, format!("{what} in upstream \"{text}\"")))?;
        let server = GroupServer::new(url.name, addresses);
        let group = Group::new(url.name, Balancing::RoundRobin, &[server]).map_err(|why| nowhere(why.to_string()))?;
        let group = UpstreamGroup { group: Arc::new(group), key: None, idle: None, port: Some(port), names: None };
        let id = self.add_group(group, place)?;
        self.upstreams.push(Known { name, port: Some(port), id });
        Ok(id)
    }
}
