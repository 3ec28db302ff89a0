//! Who may see a place, and how many at once: the phases before content.

use super::course::{Course, Depends, Loaded};
use super::run::{Flow, Runner};
use super::waits::On;
use crate::access::{Access, AccessRules};
use crate::addresses::forwarded;
use crate::program::{Block, Methods, RealIpHeader};
use core::net::IpAddr;
use features::auth_basic::{self, Login};
use features::limits::Admission;
use features::{ErrorLevel, Value};
use semantics::Request;
use std::cmp::Reverse;
use std::rc::Rc;

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
        let rules = &loaded.program.blocks[at].features.limits;
        if rules.is_empty() {
            return Flow::On;
        }
        self.course.depends.on(Depends::OTHER);
        let now = self.clock.now.as_nanos() / 1_000_000;
        match rules.admit(&loaded.program.declared.zones, &mut self.scope(), now) {
            Admission::Pass => Flow::On,
            Admission::Refuse(status) => Flow::Status(status),
            Admission::Delay(time) => {
                let ticket = self.rest.next_ticket(self.token);
                let at = self.clock.now + time;
                self.course.ticket = Some(ticket);
                self.rest.delayed.push(Reverse((at, ticket)));
                Flow::Waits(On::Clock(at))
            }
        }
    }

    /// Whether its client may see this.
    pub(super) fn access(&mut self) -> Flow {
        let loaded = Rc::clone(&self.loaded);
        let Some(at) = Self::block(&loaded, self.course) else { return Flow::Status(500) };
        let block = &loaded.program.blocks[at];
        let (rules, password): (&AccessRules, _) = (&block.access, block.features.asks_for_password());
        if rules.is_empty() && password.is_none() {
            return Flow::On;
        }
        self.course.depends.on(Depends::OTHER);
        if !rules.permission.uri.is_empty() {
            return self.access_by_permission(rules, password);
        }
        let password = self.realm_of(password);
        match (rules.decide(self.course.peer.map(|peer| peer.ip()), password.is_some()), password) {
            (Access::Granted, _) => Flow::On,
            (Access::Password, Some((realm, file))) => self.password(&realm, file),
            _ => {
                self.tell(ErrorLevel::ERROR, || b"access forbidden by rule".to_vec());
                Flow::Status(403)
            }
        }
    }

    /// The realm that a password is asked for in, and the file of users; nothing where the
    /// realm is `off` for this request.
    pub(super) fn realm_of<'v>(&mut self, password: Option<(&Value, &'v Value)>) -> Option<(Vec<u8>, &'v Value)> {
        let (realm, file) = password?;
        let realm = self.scope().get(realm);
        (realm != b"off").then_some((realm, file))
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

    /// Whether a password that came along is in the file of users that `file` names.
    pub(super) fn password(&mut self, realm: &[u8], file: &Value) -> Flow {
        let credentials = match auth_basic::login(file, &mut self.scope()) {
            Login::Passes => return Flow::On,
            Login::Challenged => return self.challenge(realm),
            Login::Refused(status) => return Flow::Status(status),
            Login::Asks(credentials) => credentials,
        };
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
