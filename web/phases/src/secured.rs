//! Connections that are secured: with whom their clients shake hands, what their requests
//! may not ask for, and what is told of them.

use super::Engine;
use super::errors::{tell, tell_of_process};
use super::loaded::Loaded;
use super::request_state::RequestState;
use super::scope::{Clock, Scope};
use configuration::program::{CertificatesByValue, ListenerRules, ServerId, VirtualServer};
use configuration::variables::TlsValue;
use core::sync::atomic::Ordering;
use exchange::{
    Asked, ChooseTls, ChosenTls, ClientSession, ExchangeId, HandshakeFault, HttpOpening, Listeners, LocalAddress,
    Replies, Speaks, Transport, Turn,
};
use features::ErrorLevel;
use features::compression::class_of;
use formats::host::host_of;
use formats::written::put;
use handshake::{
    CertificateFiles, ClientMode, ClientVerdict, Demand, Failure, Hello, ServerTls, Session, Version, group_name_of,
    suite_name_of,
};
use semantics::path::percent_encode;
use semantics::{Known, Request};
use std::rc::Rc;
use std::sync::Arc;
use x509::{Certificate, NameForm};

/// Of a class of requests: they come over TLS.
pub(super) const TLS_CLASS: u8 = 0x80;

/// nginx's numbers for requests that it answers with 400.
const CERTIFICATE_ERROR: u16 = 495;
const NO_CERTIFICATE: u16 = 496;
const TO_HTTPS: u16 = 497;
const MISDIRECTED: u16 = 421;

impl RequestState {
    /// Whether it came over TLS.
    pub fn is_secured(&self) -> bool {
        self.about.transport == Transport::Tls
    }

    /// `$scheme`
    pub fn scheme(&self) -> &'static [u8] {
        if self.is_secured() { b"https" } else { b"http" }
    }

    /// The server that its client shook hands with, by the name that it asked for then.
    fn negotiated(&self, listener: &ListenerRules, loaded: &Loaded) -> Option<u16> {
        let session = self.client.session.as_ref().filter(|session| session.chosen.by_name)?;
        let name = session.session.server_name.as_deref()?;
        Some(listener.names.find(name.as_bytes(), |expression, name| loaded.matches(expression, name)))
    }

    /// The place of the server that a request of this connection is for, where `place` is
    /// that of the host that it names; and whether it may not ask for that here.
    pub fn secured_place(
        &mut self,
        listener: &ListenerRules,
        loaded: &Loaded,
        request: &Request<'_>,
        place: u16,
    ) -> u16 {
        if self.about.transport == Transport::Plain {
            return place;
        }
        let Some(negotiated) = self.negotiated(listener, loaded) else { return place };
        if request.authority().is_empty() {
            return negotiated;
        }
        let mut host = Vec::new();
        host_of(request.authority(), &mut host);
        let session = self.client.session.as_ref();
        let named = session.and_then(|session| session.session.server_name.as_deref());
        // What its client showed was for the host that it named then, and for no other.
        let asked = session.is_some_and(|session| session.chosen.tls.asks_clients());
        let verifies = asked || server_at(listener, loaded, place).is_some_and(|server| server.verifies.is_some());
        if verifies && named.is_none_or(|named| named.as_bytes() != host) {
            self.client.fault = Some(MISDIRECTED);
            return negotiated;
        }
        place
    }

    /// Whether a request that its server would take is answered with something else all the
    /// same, for how its connection is secured; the error log is told.
    #[inline]
    pub fn is_at_fault(
        &mut self,
        listener: &ListenerRules,
        loaded: &Loaded,
        request: &Request<'_>,
        clock: &Clock,
    ) -> bool {
        if self.about.transport == Transport::Plain || self.is_refused() {
            return false;
        }
        self.find_fault(listener, loaded);
        self.tell_of_fault(loaded, request, clock);
        self.client.fault.is_some()
    }

    fn find_fault(&mut self, listener: &ListenerRules, loaded: &Loaded) {
        if self.about.transport == Transport::Misplaced {
            self.client.fault = Some(TO_HTTPS);
            return;
        }
        let server = loaded.program.server(self.route.server);
        let Some((server, mode)) = server.and_then(|server| Some((server, server.verifies?))) else { return };
        let Some(session) = self.client.session.as_deref().filter(|_| self.client.fault.is_none()) else { return };
        let own = server.security.as_ref().or_else(|| server_at(listener, loaded, 0)?.security.as_ref());
        let is_own = own.is_some_and(|own| own.is_like(&session.chosen.tls));
        self.client.fault = match session.session.verdict {
            // Another server's authorities said so.
            ClientVerdict::Trusted | ClientVerdict::Refused(_) if !is_own => Some(MISDIRECTED),
            ClientVerdict::Refused(why) if mode != ClientMode::OptionalNoAuthority || !why.is_of_trust_alone() => {
                Some(CERTIFICATE_ERROR)
            }
            ClientVerdict::None | ClientVerdict::NotAsked if mode == ClientMode::Required => Some(NO_CERTIFICATE),
            _ => None,
        };
    }

    /// Tells the error log of it.
    fn tell_of_fault(&self, loaded: &Loaded, request: &Request<'_>, clock: &Clock) {
        let Some(fault) = self.client.fault else { return };
        tell(
            (loaded, self),
            request,
            clock,
            (ErrorLevel::INFO, || {
                let verdict = self.client.session.as_ref().map(|session| session.session.verdict);
                let text = match (fault, verdict) {
                    (TO_HTTPS, _) => "client sent plain HTTP request to HTTPS port".to_owned(),
                    (NO_CERTIFICATE, _) => "client sent no required SSL certificate".to_owned(),
                    (CERTIFICATE_ERROR, Some(ClientVerdict::Refused(why))) => {
                        format!("client SSL certificate verify error: ({}:{why})", why.number())
                    }
                    _ => {
                        let what =
                            "client attempted to request the server name different from the one that was negotiated";
                        what.to_owned()
                    }
                };
                [text.as_bytes(), b" while reading client request headers"].concat()
            }),
        );
    }
}

/// The server at this place of a listener.
fn server_at<'a>(listener: &ListenerRules, loaded: &'a Loaded, place: u16) -> Option<&'a VirtualServer> {
    let server = listener.servers.get(usize::from(place))?;
    loaded.program.server(*server)
}

/// With whom clients of a listener shake hands, by a silo's program.
#[derive(Debug)]
struct ListenerTls {
    loaded: Rc<Loaded>,
    listener: u16,
}

impl ChooseTls for ListenerTls {
    /// By the name that it asks for.
    fn choose(&self, local: LocalAddress, hello: &Hello, turn: &Turn) -> Option<ChosenTls> {
        let listener = self.loaded.program.listeners.get(usize::from(self.listener))?;
        let mut by_name = false;
        let place = hello.server_name.as_deref().map_or(0, |name| {
            let matches = |expression, name: &[u8]| self.loaded.matches(expression, name);
            match listener.names.find_known(name.as_bytes(), matches) {
                Some(place) => {
                    by_name = true;
                    place
                }
                None => 0,
            }
        });
        // One without certificates of its own has those of the first.
        let has_own = server_at(listener, &self.loaded, place)?.security.is_some();
        let place = if has_own { place } else { 0 };
        let (id, server) = (*listener.servers.get(usize::from(place))?, server_at(listener, &self.loaded, place)?);
        let tls = Arc::clone(server.security.as_ref()?);
        let by_value = server.certificates.as_ref().filter(|_| !tls.rejects());
        let demand = by_value.map(|by_value| Box::new(self.demand((id, server), by_value, (local, &tls, hello), turn)));
        Some(ChosenTls { tls, by_name, demand })
    }
}

impl ListenerTls {
    /// Which certificates a client is shown that says this: their paths, by what is known of its handshake.
    #[cold]
    fn demand(
        &self,
        (id, server): (ServerId, &VirtualServer),
        by_value: &CertificatesByValue,
        (local, tls, hello): (LocalAddress, &Arc<ServerTls>, &Hello),
        turn: &Turn,
    ) -> Demand {
        let version = if hello.versions.contains(&0x0304) { Version::Tls13 } else { Version::Tls12 };
        let session = Session {
            version,
            suite: "",
            group: "",
            protocol: None,
            server_name: hello.server_name.clone(),
            id: [0; 32],
            resumed: false,
            client: Box::default(),
            verdict: ClientVerdict::NotAsked,
            offered: hello.suites.as_slice().into(),
            groups: hello.groups.as_slice().into(),
            early: None,
        };
        let chosen = ChosenTls { tls: Arc::clone(tls), by_name: false, demand: None };
        // As nginx has it: by a request that nobody made.
        let mut state = RequestState::new(Rc::clone(&self.loaded), ExchangeId::NOBODY);
        state.values.slots.resize(self.loaded.program.variables.slots(), None);
        (state.about.local, state.about.transport) = (local, Transport::Tls);
        state.route.listener = self.listener;
        state.route.server = id;
        state.route.settle(server.block);
        state.client.session = Some(Arc::new(ClientSession { chosen, session }));
        let (request, clock) = (Request::NONE, Clock::new(turn.second, turn.date, turn.now));
        let (loaded, state) = (&*self.loaded, &mut state);
        let mut scope = Scope::new((loaded, state), &request, &clock);
        let mut path = |value| {
            let path = scope.get(value);
            if path.starts_with(b"/") { path } else { [&by_value.folder, &*path].concat() }
        };
        let files = by_value.files.iter();
        let files = files.map(|(certificate, key)| CertificateFiles { certificate: path(certificate), key: path(key) });
        Demand { source: Arc::clone(&by_value.source), files: files.collect() }
    }
}

impl Engine {
    /// What clients speak, by where they connect.
    #[must_use]
    pub fn listeners(&self) -> Listeners {
        let program = &self.loaded.program;
        let speaks = |(at, rules): (usize, &ListenerRules)| {
            let listener = at as u16;
            let tls: Option<Rc<dyn ChooseTls>> = match rules.tls {
                true => Some(Rc::new(ListenerTls { loaded: Rc::clone(&self.loaded), listener })),
                false => None,
            };
            let terms = program.terms.of_listener(listener);
            (rules.at(), Speaks::Http(HttpOpening { proxied: rules.proxy_protocol, tls, terms, http2: rules.http2 }))
        };
        let mut listeners = Listeners::new(program.listeners.iter().enumerate().map(speaks).collect());
        if self.moved {
            listeners.look_for_all();
        }
        listeners.fronts.clone_from(&self.loaded.fronts);
        listeners.secures = program.speaks_tls();
        listeners
    }
}

impl Engine {
    /// What class of clients a request's is of, for what may be ready.
    #[inline]
    pub(super) fn class<'a>(&self, known: impl Fn(Known) -> Option<&'a [u8]>, transport: Transport) -> u8 {
        let codes = if self.codes { class_of(known) } else { 0 };
        codes | if transport == Transport::Tls { TLS_CLASS } else { 0 }
    }

    /// The same, and how its connection is secured; nothing is asked where it is the same for
    /// all.
    #[inline]
    pub(super) fn class_asked<A: Asked>(&self, asked: &A) -> (u8, Transport) {
        if !self.classes {
            return (0, Transport::Plain);
        }
        let transport = if self.secures { asked.transport() } else { Transport::Plain };
        (self.class(|known| asked.known(known), transport), transport)
    }

    /// Whether what is ready is for a connection that is secured, or ought to be: not where
    /// clients are verified, by the server asked or by the one that shook hands, and requests
    /// are looked at for that.
    #[cold]
    pub(super) fn may_be_ready(&self, transport: Transport, server: ServerId) -> bool {
        let server = self.loaded.program.server(server);
        transport == Transport::Tls && server.is_some_and(|server| server.verifies.is_none())
    }

    /// Responders are asked from a silo's first second on, not while a configuration is tested. The
    /// error log is told of those that gave no answer.
    #[cold]
    pub(super) fn tend_staples(&self) {
        for order in &self.loaded.program.staples {
            order.begin();
            for fault in order.take_faults() {
                tell_of_process(&self.loaded, &self.rest.clock, ErrorLevel::ERROR, fault.as_bytes());
            }
        }
    }

    /// Tells the error log of a handshake that came to nothing.
    pub(super) fn tell_of_handshake(&self, replies: &dyn Replies, id: ExchangeId, fault: &HandshakeFault) {
        let level = match fault {
            HandshakeFault::Failed(Failure::Over) => ErrorLevel::CRIT,
            HandshakeFault::Failed(Failure::Certificates(_)) => ErrorLevel::ERROR,
            _ => ErrorLevel::INFO,
        };
        self.tell_of_connection(replies, id, level, |line| {
            put(line, format_args!("{fault} while SSL handshaking"));
        });
    }
}

impl Scope<'_> {
    /// A variable of the connection's handshake.
    pub(super) fn of_handshake(&self, value: TlsValue, out: &mut Vec<u8>) -> bool {
        let Some(session) = self.state.client.session.as_deref() else { return false };
        let start = out.len();
        let told = match value {
            TlsValue::Protocol => put(out, session.session.version.name()),
            TlsValue::Cipher => put(out, session.session.suite),
            TlsValue::Curve => put(out, session.session.group),
            TlsValue::Ciphers => put_list(&session.session.offered, suite_name_of, out),
            TlsValue::Curves => put_list(&session.session.groups, group_name_of, out),
            TlsValue::ServerName => put(out, session.session.server_name.as_deref().unwrap_or_default()),
            TlsValue::AlpnProtocol => {
                out.extend_from_slice(session.session.protocol.as_deref().unwrap_or_default());
                true
            }
            TlsValue::EarlyData => {
                let over = session.session.early.as_ref().is_none_or(|over| over.load(Ordering::Relaxed));
                !over && put(out, "1")
            }
            TlsValue::SessionReused => put(out, if session.session.resumed { "r" } else { "." }),
            TlsValue::SessionId => {
                put_hexadecimal(&session.session.id, out);
                true
            }
            TlsValue::ClientVerify => put_verdict(session.session.verdict, out),
            _ => return self.of_client(value, session, out),
        };
        told && out.len() > start
    }

    /// A variable of the client's certificate.
    fn of_client(&self, value: TlsValue, session: &ClientSession, out: &mut Vec<u8>) -> bool {
        let Some(der) = session.session.client.first() else { return false };
        let Ok(certificate) = Certificate::from_der(der) else { return false };
        let told = match value {
            TlsValue::ClientSDn => certificate.subject(NameForm::Rfc2253),
            TlsValue::ClientIDn => certificate.issuer(NameForm::Rfc2253),
            TlsValue::ClientSDnLegacy => certificate.subject(NameForm::Slashes),
            TlsValue::ClientIDnLegacy => certificate.issuer(NameForm::Slashes),
            TlsValue::ClientSerial => certificate.serial(),
            TlsValue::ClientFingerprint => {
                let mut all = Vec::new();
                put_hexadecimal(&passwords::sha1(der), &mut all);
                all
            }
            TlsValue::ClientVStart => certificate.valid_from(),
            TlsValue::ClientVEnd => certificate.valid_to(),
            TlsValue::ClientVRemain => {
                let now = i64::try_from(self.clock.second).unwrap_or(i64::MAX);
                let Some(until) = certificate.valid_to_second() else { return false };
                ((until - now).max(0) / 86_400).to_string().into_bytes()
            }
            TlsValue::ClientRawCert => certificate.pem(),
            // In a field: lines that go on begin with a tab, and the last has no end.
            TlsValue::ClientCert => without_end(certificate.pem()).split_inclusive(|byte| *byte == b'\n').fold(
                Vec::new(),
                |mut all: Vec<u8>, line| {
                    if !all.is_empty() {
                        all.push(b'\t');
                    }
                    all.extend_from_slice(line);
                    all
                },
            ),
            // But for what may stand in a component of an address (RFC 3986 section 2.3).
            TlsValue::ClientEscapedCert => {
                let is_encoded = |byte: u8| !byte.is_ascii_alphanumeric() && !b"-._~".contains(&byte);
                let mut all = Vec::new();
                percent_encode(&certificate.pem(), is_encoded, &mut all);
                all
            }
            _ => return false,
        };
        out.extend_from_slice(&told);
        !told.is_empty()
    }
}

fn without_end(mut pem: Vec<u8>) -> Vec<u8> {
    if pem.last() == Some(&b'\n') {
        pem.pop();
    }
    pem
}

fn put_hexadecimal(bytes: &[u8], out: &mut Vec<u8>) {
    bytes.iter().for_each(|byte| _ = put(out, format_args!("{byte:02x}")));
}

/// `$ssl_client_verify`
fn put_verdict(verdict: ClientVerdict, out: &mut Vec<u8>) -> bool {
    match verdict {
        ClientVerdict::NotAsked | ClientVerdict::None => put(out, "NONE"),
        ClientVerdict::Trusted => put(out, "SUCCESS"),
        ClientVerdict::Refused(why) => put(out, format_args!("FAILED:{why}")),
    }
}

/// Names of numbers, those without one as numbers, with colons between.
fn put_list(numbers: &[u16], name: fn(u16) -> Option<&'static str>, out: &mut Vec<u8>) -> bool {
    for (at, number) in numbers.iter().enumerate() {
        if at > 0 {
            out.push(b':');
        }
        match name(*number) {
            Some(name) => _ = put(out, name),
            None => _ = put(out, format_args!("0x{number:04x}")),
        }
    }
    !numbers.is_empty()
}
