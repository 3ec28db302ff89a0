//! Names of upstreams, whose addresses a resolver of the silo's finds out: for requests
//! that wait for them, and for groups that change by them.
//!
//! ```text
//!  ask_next ── a name ─────────────► Resolver ─► on_names ─► servers of the request's own
//!           └─ a group that has none yet                        and ask_next again
//!  turn ───── names of groups, as their answers end ─► the group changes
//! ```

use super::Engine;
use super::loaded::Loaded;
use super::named::Names;
use super::relay_run::NameNews;
use super::scope::Clock;
use app::Wake;
use asking::IDLE;
use core::net::SocketAddr;
use core::time::Duration;
use exchange::Replies;
use features::ErrorLevel;
use resolver::{NameAnswer, Resolution, ResolveError, ServiceAddress};
use std::rc::Rc;
use upstream::FoundPeer;
use wire::Time;

/// How soon a name is asked for again at the least.
const AGAIN_MIN: Duration = Duration::from_secs(1);
impl Loaded {
    /// When a name of a group is to be asked for.
    pub(super) fn names_wake(&self) -> Wake {
        let names = self.names.borrow();
        let again = names.as_ref().and_then(|names| names.hosts.iter().filter_map(|host| host.again).min());
        again.map_or(Wake::Idle, Wake::At)
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
        let Some((token, _)) = self.rest.requests.by_ticket(ticket) else { return false };
        self.with_any(replies, token, |engine, replies| {
            engine.run_early(replies, token, |runner| runner.on_names(news));
        });
        true
    }
}
