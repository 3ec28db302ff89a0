//! Who may see a place, and how many at once: the phases before content.

use super::course::{Course, Depends, Loaded};
use super::errors::MISSING;
use super::run::{Flow, Runner};
use super::waits::On;
use crate::access::{Access, AccessRules, BasicAuth, basic_credentials};
use crate::addresses::forwarded;
use crate::limits::{LimitDecision, LimitStatus, Limited, Zone};
use crate::logging::ErrorLevel;
use crate::program::{Block, Methods, RealIpHeader};
use core::net::IpAddr;
use passwords::{Credentials, Verdict};
use semantics::Request;
use std::cmp::Reverse;
use std::rc::Rc;

/// `limiting requests, excess: 1.250 by zone "one"`
fn of_zone(what: &str, comma: &str, limited: &Limited, zones: &[Zone]) -> Vec<u8> {
    let (whole, rest) = (limited.excess / 1_000, limited.excess % 1_000);
    let mut text = format!("{what}, excess: {whole}.{rest:03}{comma} by zone \"").into_bytes();
    if let Some(zone) = limited.zone.and_then(|zone| zones.get(usize::from(zone))) {
        text.extend_from_slice(&zone.name);
    }
    text.push(b'"');
    text
}

/// Sets the client's address to what a proxy that is believed tells, by the rules of the
/// place that the request is in.
pub(super) fn set_real_address(loaded: &Loaded, course: &mut Course, request: &Request<'_>) {
    let block = loaded.program.blocks.get(course.block.0 as usize);
    set_address_by(block, course, request);
}

/// The same of a request that is answered without a look at its places: those of its server
/// come first.
pub(super) fn set_real_address_of_ready(loaded: &Loaded, course: &mut Course, request: &Request<'_>) {
    let server = loaded.program.servers.get(usize::from(course.server.0));
    let block = server.and_then(|server| loaded.program.blocks.get(server.block.0 as usize));
    set_address_by(block, course, request);
    if course.peer == course.about.peer {
        set_real_address(loaded, course, request);
    }
}

fn set_address_by(block: Option<&Block>, course: &mut Course, request: &Request<'_>) {
    let Some(rules) = block.and_then(|block| block.real_ip.as_ref()) else { return };
    let trusts = |address: Option<IpAddr>| match address {
        Some(address) => rules.from.iter().any(|prefix| prefix.contains(address)),
        None => rules.from_unix,
    };
    let from = course.about.peer.map(|peer| peer.ip().to_canonical());
    let told = match &rules.header {
        RealIpHeader::ProxyProtocol => course.proxied.as_ref().map(|told| told.source).filter(|_| trusts(from)),
        RealIpHeader::Field(name) => {
            let fields = request.fields().filter(|field| field.name.eq_ignore_ascii_case(name));
            let values: Vec<&[u8]> = fields.map(|field| field.value).collect();
            forwarded(from, values.into_iter(), trusts, rules.recursive)
        }
    };
    if told.is_some() {
        course.peer = told;
    }
}

impl Runner<'_> {
    /// Whose client it is: a proxy that is believed tells of another.
    pub(super) fn real_address(&mut self) {
        // What was believed once is.
        if self.course.peer == self.course.about.peer {
            let loaded = Rc::clone(&self.loaded);
            set_real_address(&loaded, self.course, self.request);
        }
    }

    /// Whether it may come so soon, and with so many others.
    pub(super) fn limits(&mut self) -> Flow {
        let loaded = Rc::clone(&self.loaded);
        let Some(at) = Self::block(&loaded, self.course) else { return Flow::Status(500) };
        let rules = &loaded.program.blocks[at].limits;
        if rules.is_empty() {
            return Flow::On;
        }
        self.course.depends.on(Depends::OTHER);
        let zones = &loaded.program.zones;
        // Each is asked once for a request, wherever it is redirected to.
        if self.course.limits_said.requests.is_none() && !rules.requests.is_empty() {
            let now = self.clock.now.as_nanos() / 1_000_000;
            let mut scope = self.scope();
            let limited = rules.request(zones, &mut |value, out| scope.write(value, out), now);
            self.course.limits_said.requests = limited.status;
            match limited.decision {
                LimitDecision::Pass => match limited.status {
                    Some(LimitStatus::DelayedDryRun) => self.tell(rules.requests_level.milder(), || {
                        of_zone("delaying request, dry run", ",", &limited, zones)
                    }),
                    Some(LimitStatus::RejectedDryRun) => {
                        self.tell(rules.requests_level, || of_zone("limiting requests, dry run", "", &limited, zones))
                    }
                    _ => {}
                },
                LimitDecision::Delay(time) => {
                    self.tell(rules.requests_level.milder(), || of_zone("delaying request", ",", &limited, zones));
                    let ticket = self.rest.next_ticket(self.token);
                    let at = self.clock.now + time;
                    self.course.ticket = Some(ticket);
                    self.rest.delayed.push(Reverse((at, ticket)));
                    return Flow::Waits(On::Clock(at));
                }
                LimitDecision::Refuse => {
                    self.tell(rules.requests_level, || of_zone("limiting requests", "", &limited, zones));
                    return Flow::Status(rules.requests_status);
                }
            }
        }
        if self.course.limits_said.connections.is_none() && !rules.connections.is_empty() {
            let mut held = core::mem::take(&mut self.course.held);
            let mut scope = self.scope();
            let limited = rules.connection(zones, &mut |value, out| scope.write(value, out), &mut held);
            self.course.held = held;
            self.course.limits_said.connections = limited.status;
            let is_refused = limited.decision == LimitDecision::Refuse;
            if is_refused || limited.status == Some(LimitStatus::RejectedDryRun) {
                self.tell(rules.connections_level, || {
                    let zone = limited.zone.and_then(|zone| zones.get(usize::from(zone)));
                    let zone = zone.map_or(&b""[..], |zone| &zone.name);
                    let what = if is_refused { "limiting connections" } else { "limiting connections, dry run," };
                    [what.as_bytes(), b" by zone \"", zone, b"\""].concat()
                });
            }
            if is_refused {
                return Flow::Status(rules.connections_status);
            }
        }
        Flow::On
    }

    /// Whether its client may see this.
    pub(super) fn access(&mut self) -> Flow {
        let loaded = Rc::clone(&self.loaded);
        let Some(at) = Self::block(&loaded, self.course) else { return Flow::Status(500) };
        let block = &loaded.program.blocks[at];
        let rules: &AccessRules = &block.access;
        if rules.is_empty() {
            return Flow::On;
        }
        self.course.depends.on(Depends::OTHER);
        if !rules.permission.uri.is_empty() {
            return self.access_by_permission(rules);
        }
        let realm = rules.basic.as_ref().map(|basic| self.scope().get(&basic.realm)).filter(|realm| realm != b"off");
        match (rules.decide(self.course.peer.map(|peer| peer.ip()), realm.is_some()), &rules.basic, realm) {
            (Access::Granted, ..) => Flow::On,
            (Access::Password, Some(basic), Some(realm)) => self.password(basic, &realm),
            _ => {
                self.tell(ErrorLevel::ERROR, || b"access forbidden by rule".to_vec());
                Flow::Status(403)
            }
        }
    }

    /// Whether its method is one of these.
    pub(super) fn is_among(&self, methods: &Methods) -> bool {
        let name = match self.course.method {
            semantics::Method::Other => self.request.method_name(),
            method => method.name().as_bytes(),
        };
        let has = |wanted: &[u8]| methods.0.iter().any(|method| **method == *wanted);
        has(name) || (name == b"HEAD" && has(b"GET"))
    }

    /// Whether a password that came along is right.
    pub(super) fn password(&mut self, basic: &BasicAuth, realm: &[u8]) -> Flow {
        let file = self.scope().get(&basic.file);
        if self.course.known_to.as_deref() == Some(&*file) {
            return Flow::On;
        }
        match self.course.verdict.take() {
            Some(Verdict::Right) => {
                self.course.known_to = Some(file);
                return Flow::On;
            }
            Some(verdict @ (Verdict::Mismatch | Verdict::NoUser | Verdict::Unusable)) => {
                let field = self.request.fields().find(|field| field.is("authorization")).map(|field| field.value);
                let (user, _) = field.and_then(basic_credentials).unwrap_or_default();
                self.tell(ErrorLevel::ERROR, || match verdict {
                    Verdict::NoUser => [b"user \"", &user[..], b"\" was not found in \"", &file, b"\""].concat(),
                    _ => [b"user \"", &user[..], b"\": password mismatch"].concat(),
                });
                return self.challenge(realm);
            }
            Some(Verdict::NoFile) => {
                self.tell(ErrorLevel::ERROR, || {
                    [b"open() \"", &file[..], b"\" failed (", MISSING.as_bytes(), b")"].concat()
                });
                return Flow::Status(403);
            }
            Some(Verdict::Unreadable) => return Flow::Status(500),
            None => {}
        }
        let field = self.request.fields().find(|field| field.is("authorization")).map(|field| field.value);
        let Some((user, password)) = field.and_then(basic_credentials) else {
            let text = b"no user/password was provided for basic authentication";
            self.tell(ErrorLevel::INFO, || text.to_vec());
            return self.challenge(realm);
        };
        let credentials = Credentials { file: file.into(), user: user.into(), password: password.into() };
        let ticket = self.rest.next_ticket(self.token);
        let source = self.course.peer.map(|peer| peer.ip());
        let Some(verifier) = &mut self.rest.verifier else { return Flow::Status(500) };
        if verifier.submit(ticket, source, credentials, self.clock.now).is_err() {
            return Flow::Status(503);
        }
        self.course.ticket = Some(ticket);
        Flow::Waits(On::Helper)
    }

    /// Asks for a password.
    fn challenge(&mut self, realm: &[u8]) -> Flow {
        let fields = &mut self.course.kept_fields;
        fields.extend_from_slice(b"WWW-Authenticate: Basic realm=\"");
        super::text::field_value(realm, fields);
        fields.extend_from_slice(b"\"\r\n");
        Flow::Status(401)
    }
}
