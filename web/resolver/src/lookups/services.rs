//! Services, whose hosts DNS names (RFC 2782): these are asked for, and then their
//! addresses.

use super::{AGAIN, Answer, Asking, Lookups, NameAnswer, Outcome, Resolution, ResolveError, TTL_MAX, Waiter};
use crate::message::{HostName, RecordKind, ServiceRecord};
use core::net::{IpAddr, SocketAddr};
use core::time::Duration;
use std::collections::HashMap;
use std::sync::Arc;
use wire::Time;

/// The most addresses of one service.
const ADDRESSES_MAX: usize = 512;

/// One address of a service.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ServiceAddress {
    /// Where.
    pub address: SocketAddr,
    /// Whose address it is.
    pub host: HostName,
    /// Those of the least number are asked first.
    pub priority: u16,
    /// How much of them it is to have, at least 1.
    pub weight: u16,
}

/// The addresses of a service, by priority.
pub type ServiceAddresses = Arc<[ServiceAddress]>;

/// A host of a service that has no addresses, and why.
pub type FailedTarget = (HostName, ResolveError);

/// A service that is asked for.
#[derive(Debug)]
struct ServiceLookup {
    tickets: Vec<u64>,
    /// When it is given up, until its hosts are known: these have their own time.
    until: Time,
    asking: Option<Asking>,
    hosts: Vec<(ServiceRecord, Option<Answer>)>,
    /// Those of which nothing is known yet.
    left: usize,
    valid: Duration,
}

/// Services that are asked for, by their whole names.
#[derive(Debug, Default)]
pub(super) struct Services(HashMap<HostName, ServiceLookup>);

impl Services {
    pub(super) fn asking(&self) -> impl Iterator<Item = &Asking> {
        self.0.values().filter_map(|service| service.asking.as_ref())
    }

    pub(super) fn asking_mut(&mut self, name: &HostName) -> Option<&mut Asking> {
        self.0.get_mut(name)?.asking.as_mut()
    }

    pub(super) fn deadlines(&self) -> impl Iterator<Item = Time> {
        let asked = self.0.values().filter(|service| service.asking.is_some());
        asked.map(|service| service.until).chain(self.asking().map(|asking| asking.deadline))
    }
}

impl Lookups {
    /// Asks for the hosts of a service, as `http` or `_http._tcp`, at a name:
    /// [`Lookups::poll_answer`] tells their addresses with the ticket.
    pub fn ask_service(&mut self, ticket: u64, service: &[u8], name: &[u8], now: Time) {
        let failed = |why| NameAnswer { found: Err(why), valid: AGAIN, failed: Vec::new() };
        let whole = match service.contains(&b'.') {
            true => [service, b".", name].concat(),
            false => [b"_", service, b"._tcp.", name].concat(),
        };
        let Some(name) = HostName::parse(&whole) else {
            return self.answers.push_back((ticket, failed(ResolveError::BadName)));
        };
        if self.waiting >= self.limits.waiting || self.services.0.len() >= self.limits.asked {
            return self.answers.push_back((ticket, failed(ResolveError::Busy)));
        }
        self.waiting += 1;
        if let Some(service) = self.services.0.get_mut(&name) {
            return service.tickets.push(ticket);
        }
        let asking = Some(self.question((&name, &name), RecordKind::Service, (0, u32::MAX), now));
        let (until, hosts) = (now + self.rules.timeout, Vec::new());
        let service = ServiceLookup { tickets: vec![ticket], until, asking, hosts, left: 0, valid: Duration::ZERO };
        self.services.0.insert(name, service);
    }

    /// The question about the hosts of a service is answered, perhaps by another one.
    pub(super) fn finish_service(&mut self, name: &HostName, outcome: Outcome, now: Time) {
        let Some(service) = self.services.0.get_mut(name) else { return };
        service.asking = None;
        match outcome {
            Outcome::Alias(asking) => service.asking = Some(asking),
            Outcome::Failed(why) => self.tell_service(name, Err(why), AGAIN, Vec::new()),
            Outcome::Addresses(..) | Outcome::Nothing(_) => {
                let again = self.rules.valid.unwrap_or(AGAIN);
                self.tell_service(name, Err(ResolveError::NotFound), again, Vec::new());
            }
            Outcome::Services(found, seconds) => {
                let told = Duration::from_secs(seconds.min(TTL_MAX).into());
                service.valid = self.rules.valid.unwrap_or(told);
                // One more, so that nothing is told before all are asked for.
                service.left = found.len() + 1;
                let hosts: Vec<HostName> = found.iter().map(|record| record.target.clone()).collect();
                service.hosts = found.into_iter().map(|record| (record, None)).collect();
                for (place, host) in hosts.iter().enumerate() {
                    self.ask_for(Waiter::Service(name.clone(), place), host, now);
                }
                self.one_less(name);
            }
        }
    }

    /// The addresses of a host of a service are known.
    pub(super) fn on_target(&mut self, name: &HostName, place: usize, answer: Answer, valid: Duration) {
        let Some(service) = self.services.0.get_mut(name) else { return };
        if answer.is_ok() {
            service.valid = service.valid.min(valid);
        }
        if let Some((_, known)) = service.hosts.get_mut(place) {
            *known = Some(answer);
        }
        self.one_less(name);
    }

    fn one_less(&mut self, name: &HostName) {
        let Some(service) = self.services.0.get_mut(name) else { return };
        service.left -= 1;
        if service.left > 0 {
            return;
        }
        let (hosts, valid) = (core::mem::take(&mut service.hosts), service.valid);
        let mut failed: Vec<FailedTarget> = Vec::new();
        let mut found: Vec<(ServiceRecord, Vec<IpAddr>)> = Vec::new();
        for (record, answer) in hosts {
            match answer {
                Some(Ok(addresses)) => found.push((record, addresses.to_vec())),
                Some(Err(why)) => failed.push((record.target, why)),
                None => {}
            }
        }
        let all = self.in_order(found);
        let answer = match all.is_empty() {
            false => Ok(all),
            true => {
                let is_missing = |why: &ResolveError| matches!(why, ResolveError::NotFound | ResolveError::BadName);
                let whys = || failed.iter().map(|(_, why)| *why);
                Err(whys().find(is_missing).or_else(|| whys().next()).unwrap_or(ResolveError::NotFound))
            }
        };
        let valid = if answer.is_ok() { valid } else { self.rules.valid.unwrap_or(AGAIN) };
        self.tell_service(name, answer, valid, failed);
    }

    /// By priority; of one priority, from any of them on, which are likelier the more weight
    /// they have.
    fn in_order(&mut self, mut found: Vec<(ServiceRecord, Vec<IpAddr>)>) -> ServiceAddresses {
        found.sort_by_key(|(record, _)| record.priority);
        let mut all = Vec::new();
        for same in found.chunk_by(|(one, _), (other, _)| one.priority == other.priority) {
            let share = |(record, addresses): &(ServiceRecord, Vec<IpAddr>)| {
                u64::from(record.weight.max(1)) * addresses.len() as u64
            };
            let total: u64 = same.iter().map(share).sum();
            let mut chance = (self.random)().checked_rem(total).unwrap_or(0);
            let first = same.iter().position(|one| match chance.checked_sub(share(one)) {
                Some(rest) => {
                    chance = rest;
                    false
                }
                None => true,
            });
            let first = first.unwrap_or(0);
            for (record, addresses) in same[first..].iter().chain(&same[..first]) {
                let weight = record.weight.max(1);
                all.extend(addresses.iter().map(|address| ServiceAddress {
                    address: SocketAddr::new(*address, record.port),
                    host: record.target.clone(),
                    priority: record.priority,
                    weight,
                }));
            }
        }
        all.truncate(ADDRESSES_MAX);
        all.into()
    }

    fn tell_service(
        &mut self,
        name: &HostName,
        answer: Result<ServiceAddresses, ResolveError>,
        valid: Duration,
        failed: Vec<FailedTarget>,
    ) {
        let Some(service) = self.services.0.remove(name) else { return };
        self.waiting -= service.tickets.len();
        for ticket in service.tickets {
            let found = answer.clone().map(Resolution::Service);
            self.answers.push_back((ticket, NameAnswer { found, valid, failed: failed.clone() }));
        }
    }

    /// Services whose hosts nobody named in time.
    pub(super) fn give_up_services(&mut self, now: Time) {
        let late = |service: &ServiceLookup| service.asking.as_ref().filter(|_| service.until <= now).map(|one| one.id);
        for id in self.services.0.values().filter_map(late).collect::<Vec<_>>() {
            self.finish(id, Outcome::Failed(ResolveError::Timeout), now);
        }
    }
}
