//! Names of upstreams, whose addresses a resolver of the silo's finds out: for requests
//! that wait for them, and for groups that change by them.
//!
//! ```text
//!  ask_next ── a name ─────────────► Resolver ─► on_names ─► servers of the request's own
//!           └─ a group that has none yet                        and ask_next again
//!  turn ───── names of groups, as their answers end ─► the group changes
//! ```

use super::Engine;
use super::course::{Course, Loaded};
use super::named::{GroupHost, Names};
use super::run::{Flow, Runner};
use super::values::Clock;
use super::waits::On;
use crate::logging::ErrorLevel;
use crate::program::GroupNames;
use app::Wake;
use asking::{Ask, IDLE, NamedHost, Servers};
use core::net::SocketAddr;
use core::time::Duration;
use exchange::Replies;
use resolver::{NameAnswer, Resolution, ResolveError, ServiceAddress};
use std::rc::Rc;
use upstream::{Balancing, FoundPeer, Group, GroupServer, PeerAddress};
use wire::Time;

/// How soon a name is asked for again at the least.
const AGAIN_MIN: Duration = Duration::from_secs(1);
/// Requests that wait for a group's first addresses, at most.
const PARKED_MAX: usize = 4_096;

/// What a request waited for.
enum NameNews {
    Found(Result<Resolution, ResolveError>),
    /// A group may have peers by now.
    Group(u16),
}

impl Loaded {
    /// When a name of a group is to be asked for.
    pub(super) fn names_wake(&self) -> Wake {
        let names = self.names.borrow();
        let again = names.as_ref().and_then(|names| names.hosts.iter().filter_map(|host| host.again).min());
        again.map_or(Wake::Idle, Wake::At)
    }

    /// What is known of the same names of the program before this one serves until they are
    /// resolved anew.
    pub(super) fn take_names_of(&self, old: &Self) {
        let (mut names, old_names) = (self.names.borrow_mut(), old.names.borrow());
        let (Some(names), Some(old_names)) = (names.as_mut(), old_names.as_ref()) else { return };
        let mut changed = Vec::new();
        for host in &mut names.hosts {
            let known = old_names.hosts.iter().find(|known| old.is_same(known, self, host));
            let Some(known) = known.filter(|known| known.is_answered) else { continue };
            (host.found, host.is_answered) = (known.found.clone(), true);
            host.again = known.again.or(host.again);
            changed.push(host.group);
        }
        changed.dedup();
        let mut groups = self.groups.list.borrow_mut();
        for group in changed {
            // What fitted then may not now, with other servers beside it.
            if let Some((place, rules)) = groups.get_mut(usize::from(group)).zip(self.names_of(group)) {
                place.is_pending = names.is_pending(group);
                let _ = rules.servers.group(&names.found(group)).map(|group| place.change(group));
            }
        }
    }

    fn names_of(&self, group: u16) -> Option<&GroupNames> {
        self.program.upstreams.get(usize::from(group))?.names.as_deref()
    }

    /// Whether a name of one program is one of another, in a group of the same name.
    fn is_same(&self, host: &GroupHost, other: &Self, others: &GroupHost) -> bool {
        let server = |loaded: &Self, host: &GroupHost| {
            let servers = &loaded.names_of(host.group)?.servers;
            let named = servers.named.get(host.place)?;
            Some((servers.name.clone(), named.host.clone(), named.service.clone()))
        };
        server(self, host) == server(other, others)
    }

    /// Tells what is no request's.
    fn tell_of_names(&self, clock: &Clock, text: &str) {
        super::errors::tell_of_process(self, clock, ErrorLevel::ERROR, text.as_bytes());
    }

    /// Asks for those names of groups whose time has come.
    fn ask_for_groups(&self, now: Time) {
        let mut names = self.names.borrow_mut();
        let Some(Names { resolver, hosts, .. }) = names.as_mut() else { return };
        for (number, host) in (0_u64..).zip(hosts) {
            if host.again.is_none_or(|again| again > now) {
                continue;
            }
            let Some(rules) = self.names_of(host.group) else { continue };
            let Some(server) = rules.servers.named.get(host.place) else { continue };
            let ticket = number | u64::from(IDLE);
            let asked = resolver.ask(ticket, &rules.resolver, &server.host, server.service.as_deref());
            // So many requests wait that the next is asked later.
            host.again = asked.is_err().then(|| now + AGAIN_MIN);
        }
    }

    /// What was found out about a name of a group. The group, if requests may go on now.
    fn take_group_name(&self, number: usize, answer: NameAnswer, clock: &Clock) -> Option<u16> {
        let mut names = self.names.borrow_mut();
        let names = names.as_mut()?;
        let host = names.hosts.get_mut(number)?;
        let (group, rules) = (host.group, self.names_of(host.group)?);
        let server = rules.servers.named.get(host.place)?;
        let name = String::from_utf8_lossy(&server.host);
        let service = server.service.as_deref().map(String::from_utf8_lossy);
        for (target, why) in &answer.failed {
            let (target, service) = (String::from_utf8_lossy(target.text()), service.as_deref().unwrap_or_default());
            let text = format!("{target} could not be resolved ({why}) while resolving service {service} of {name}");
            self.tell_of_names(clock, &text);
        }
        host.is_answered = true;
        let mut span = answer.valid + AGAIN_MIN;
        match answer.found {
            Ok(found) => host.found = peers_of(found),
            Err(why) => {
                let text = match &service {
                    Some(service) => format!("service {service} of {name} could not be resolved ({why})"),
                    None => format!("{name} could not be resolved ({why})"),
                };
                self.tell_of_names(clock, &text);
                match why {
                    ResolveError::NotFound | ResolveError::BadName => host.found.clear(),
                    // What is known serves as long as nobody can be asked.
                    _ => span = rules.resolver.timeout.max(AGAIN_MIN),
                }
            }
        }
        host.again = Some(clock.now + span);
        let changed = rules.servers.group(&names.found(group));
        let is_pending = names.is_pending(group);
        match (changed, self.groups.list.borrow_mut().get_mut(usize::from(group))) {
            (Ok(changed), Some(place)) => {
                place.is_pending = is_pending;
                place.change(changed);
            }
            (Err(why), _) => self.tell_of_names(clock, &format!("upstream \"{name}\" stays as it is: {why}")),
            (Ok(_), None) => {}
        }
        Some(group).filter(|_| !is_pending)
    }
}

fn peers_of(found: Resolution) -> Vec<FoundPeer> {
    match found {
        Resolution::Addresses(addresses) => {
            // In the same order, whatever turn they were told in.
            let mut addresses = addresses.to_vec();
            addresses.sort_unstable();
            let peer = |ip| FoundPeer { address: SocketAddr::new(ip, 0), service: None };
            addresses.into_iter().map(peer).collect()
        }
        Resolution::Service(all) => {
            let peer = |one: &ServiceAddress| FoundPeer {
                address: one.address,
                service: Some((one.host.text().into(), one.priority, one.weight)),
            };
            all.iter().map(peer).collect()
        }
    }
}

impl Runner<'_> {
    /// Waits for addresses of the servers that the request goes to.
    pub(super) fn wait_for_names(&mut self) -> Flow {
        let Some(relay) = self.course.relay.as_deref() else { return Flow::Waits(On::Source) };
        let loaded = Rc::clone(&self.loaded);
        let group = match relay.ask.servers() {
            Servers::Group(group) => *group,
            Servers::Named(named) => {
                let named = named.clone();
                return self.wait_for_host(&loaded, &named);
            }
            Servers::Own(_) => return self.ask_step(Ask::ask_now),
        };
        let mut names = loaded.names.borrow_mut();
        let Some(names) = names.as_mut().filter(|names| names.parked.len() < PARKED_MAX) else {
            return self.ask_step(Ask::ask_now);
        };
        names.parked.push((group, self.wait_for_name()));
        Flow::Waits(On::Helper)
    }

    fn wait_for_host(&mut self, loaded: &Loaded, named: &NamedHost) -> Flow {
        let ticket = self.wait_for_name();
        let asked = match loaded.names.borrow_mut().as_mut() {
            Some(names) => names.resolver.ask(ticket, &named.resolver, &named.host, None).is_ok(),
            None => false,
        };
        if asked { Flow::Waits(On::Helper) } else { self.on_addresses(Err(ResolveError::Busy)) }
    }

    fn wait_for_name(&mut self) -> u64 {
        let ticket = self.rest.next_ticket(self.token);
        self.course.ticket = Some(ticket);
        ticket
    }

    /// What the request waited for is known.
    fn on_names(&mut self, news: NameNews) -> Flow {
        match news {
            NameNews::Found(found) => self.on_addresses(found),
            NameNews::Group(group) => {
                let servers = Servers::Group(group);
                let value = self.balancing_value(&servers);
                let key = self.balancing_key(&servers, value.as_deref());
                self.ask_step(|ask, turn| ask.group_found(turn, key))
            }
        }
    }

    /// The addresses of the host that the request goes to, or why there are none.
    fn on_addresses(&mut self, found: Result<Resolution, ResolveError>) -> Flow {
        let named = match self.course.relay.as_deref().map(|relay| relay.ask.servers()) {
            Some(Servers::Named(named)) => named.clone(),
            _ => return self.ask_step(Ask::ask),
        };
        let addresses = match found {
            Ok(Resolution::Addresses(addresses)) => Ok(addresses),
            Ok(Resolution::Service(_)) => Err(ResolveError::NotFound),
            Err(why) => Err(why),
        };
        let addresses = match addresses {
            Ok(addresses) => addresses,
            Err(why) => {
                let host = String::from_utf8_lossy(&named.host).into_owned();
                self.tell(ErrorLevel::ERROR, || format!("{host} could not be resolved ({why})").into_bytes());
                self.give_up_relay();
                return Flow::Status(502);
            }
        };
        let at = |ip: &core::net::IpAddr| PeerAddress::Inet(SocketAddr::new(*ip, named.port));
        let server = GroupServer::new(&named.host, addresses.iter().map(at).collect());
        let Ok(group) = Group::new(&named.host, Balancing::RoundRobin, &[server]) else {
            self.give_up_relay();
            return Flow::Status(500);
        };
        self.ask_step(|ask, turn| ask.found(turn, group))
    }
}

impl Engine {
    /// Names that were resolved: requests go on, and groups change. Whether any request
    /// went on.
    pub(super) fn take_names(&mut self, replies: &mut dyn Replies) -> bool {
        let (mut any, now) = (false, replies.now());
        self.rest.clock.now = now;
        for at in 0..=self.retired.len() {
            let loaded = Rc::clone(self.retired.get(at).unwrap_or(&self.loaded));
            if !loaded.names.borrow_mut().as_mut().is_some_and(|names| names.resolver.arrived()) {
                continue;
            }
            // Not readable, if another helper's answer took its signal along.
            let _ = rustix::io::read(&self.event, &mut [0_u8; 8]);
            loop {
                let next = loaded.names.borrow_mut().as_mut().and_then(|names| names.resolver.take());
                let Some((ticket, answer)) = next else { break };
                any |= self.take_name(replies, &loaded, ticket, answer);
            }
        }
        if !self.loaded.names.borrow().is_none() {
            self.loaded.ask_for_groups(now);
        }
        any
    }

    fn take_name(&mut self, replies: &mut dyn Replies, loaded: &Loaded, ticket: u64, answer: NameAnswer) -> bool {
        if ticket & u64::from(IDLE) == 0 {
            return self.with_ticket(replies, ticket, NameNews::Found(answer.found));
        }
        let number = (ticket & !u64::from(IDLE)) as usize;
        let done = loaded.take_group_name(number, answer, &self.rest.clock);
        self.rest.kept.close_gone(&loaded.groups, replies);
        let Some(group) = done else { return false };
        let parked = |names: &mut Names| {
            let (now, later) = names.parked.drain(..).partition(|(of, _)| *of == group);
            names.parked = later;
            now
        };
        let parked: Vec<(u16, u64)> = loaded.names.borrow_mut().as_mut().map(parked).unwrap_or_default();
        let mut any = false;
        for (_, ticket) in parked {
            any |= self.with_ticket(replies, ticket, NameNews::Group(group));
        }
        any
    }

    /// A request that waits by this ticket goes on; whether it is still there.
    fn with_ticket(&mut self, replies: &mut dyn Replies, ticket: u64, news: NameNews) -> bool {
        let token = ticket as u32;
        let course = self.rest.courses.get_mut(token as usize).and_then(Option::as_deref_mut);
        let Some(course) = course.filter(|course: &&mut Course| course.ticket == Some(ticket)) else { return false };
        course.ticket = None;
        match self.rest.sub_at(token) {
            Some(sub) => {
                self.with_sub(replies, sub, |engine, within, token| {
                    engine.run_early(within, token, |runner| runner.on_names(news));
                });
            }
            None => self.run_early(replies, token, |runner| runner.on_names(news)),
        }
        true
    }
}
