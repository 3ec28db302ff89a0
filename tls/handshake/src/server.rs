//! What a server says and does in handshakes: its certificates, versions, suites, groups,
//! tickets, and whether it verifies its clients.

use crate::captured::Captured;
use crate::clients::{ClientVerifier, Clients};
use crate::compressed::{self, CertificateBrotli};
use crate::effort::Effort;
use crate::hello::Hello;
use crate::odd::with_transcript;
use crate::random;
use crate::resolver::{Preference, Resolver};
use crate::sessions::{BoundSessions, SessionCache};
use crate::staple::Staple;
use crate::suites::{Groups, Suites};
use crate::tickets::{TicketKeys, Ticketer};
use aws_lc_rs::digest::{Context, SHA256};
use core::fmt;
use rustls::crypto::aws_lc_rs::{default_provider, sign};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};
use rustls::server::{NoServerSessionStorage, ProducesTickets, ServerConfig};
use rustls::sign::CertifiedKey;
use rustls::version::{TLS12, TLS13};
use rustls::{ProtocolVersion, SignatureScheme, SupportedCipherSuite};
use std::sync::Arc;
use x509::{Certificate, KeyDer};

/// What a server is told.
#[derive(Debug)]
pub struct ServerRules {
    /// Its certificates, one for each type of key: of two of one type the later counts. A client's order of
    /// signatures chooses among them, and with TLS 1.2 that of suites.
    pub identities: Vec<Identity>,
    /// Whether it speaks TLS 1.2.
    pub tls12: bool,
    /// Whether it speaks TLS 1.3.
    pub tls13: bool,
    /// The suites of TLS 1.2.
    pub suites12: Suites,
    /// Those of TLS 1.3.
    pub suites13: Suites,
    /// `ssl_ecdh_curve`.
    pub groups: Groups,
    /// `ssl_prefer_server_ciphers`.
    pub prefers_own: bool,
    /// `ssl_session_tickets`, with the keys.
    pub tickets: Option<Arc<TicketKeys>>,
    /// `ssl_session_cache`.
    pub sessions: Option<Arc<SessionCache>>,
    /// `ssl_early_data`, with the sessions of TLS 1.3 then: each is gone on with once.
    pub early: Option<Arc<SessionCache>>,
    /// `ssl_session_timeout`, seconds.
    pub lifetime: u32,
    /// `ssl_verify_client` and what belongs to it.
    pub clients: Option<Clients>,
    /// `ssl_reject_handshake`.
    pub rejects: bool,
    /// Protocols above TLS (RFC 7301), in the order in which they are preferred.
    pub protocols: Vec<Vec<u8>>,
    /// `ssl_certificate_compression`: by zlib, and by this.
    pub compresses: Option<&'static CertificateBrotli>,
    /// Whether the kernel may be lent the keys that answers are sealed with.
    pub kernel: bool,
}

/// A certificate with who issued it, and its key.
#[derive(Debug)]
pub struct Identity {
    /// The certificate, then those of who issued it.
    pub chain: Vec<Certificate>,
    /// Its key.
    pub key: KeyDer,
    /// What its issuer says of it (`ssl_stapling_file`): an OCSP response, DER.
    pub stapled: Option<Vec<u8>>,
}

/// Why a server cannot be made.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ServerError {
    /// A key is of a kind that signs no handshakes here.
    Key(usize),
    /// No suite is there for the versions that it speaks.
    NoSuite,
    /// It speaks no version.
    NoVersion,
}

impl fmt::Display for ServerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Key(_) => "keys are RSA of 2048 to 8192 bits, ECDSA on P-256, P-384 or P-521, or Ed25519",
            Self::NoSuite => "no cipher suite is left for the protocols",
            Self::NoVersion => "there is TLS 1.2 and 1.3 alone",
        })
    }
}

impl std::error::Error for ServerError {}

/// A server, as handshakes see it. Shared by all silos.
pub struct ServerTls {
    /// For who begins a session.
    config: Arc<ServerConfig>,
    /// For who goes on with one.
    resuming: Arc<ServerConfig>,
    early: Option<EarlySessions>,
    resolver: Arc<Resolver>,
    ticketer: Option<Arc<Ticketer>>,
    /// What others are made of: without tickets and sessions.
    bare: Arc<ServerConfig>,
    shared: Shared,
    /// Its certificates, for `$ssl_server_…`; by their places in the rules.
    certificates: usize,
    binding: [u8; 32],
}

/// What servers have in common that differ in their certificates alone.
#[derive(Clone)]
struct Shared {
    tickets: Option<Arc<TicketKeys>>,
    sessions: Option<Arc<SessionCache>>,
    early: Option<Arc<SessionCache>>,
    lifetime: u32,
    clients: Option<Arc<Clients>>,
    rejects: bool,
    kernel: bool,
    preference: Preference,
}

impl fmt::Debug for ServerTls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ServerTls")
            .field("certificates", &self.certificates)
            .field("rejects", &self.shared.rejects)
            .finish()
    }
}

impl ServerTls {
    /// The server that rules describe.
    ///
    /// # Errors
    /// See [`ServerError`]: the operator's to mend.
    pub fn new(rules: ServerRules) -> Result<Self, ServerError> {
        random::seed();
        let mut provider = default_provider();
        let used = |on: bool, suites: &Suites| if on { suites.0.clone() } else { Vec::new() };
        let suites = [used(rules.tls13, &rules.suites13), used(rules.tls12, &rules.suites12)].concat();
        provider.cipher_suites = suites.into_iter().map(with_transcript).collect();
        provider.kx_groups = rules.groups.0;
        let preference = Preference {
            suites: rules.suites12.0.iter().map(SupportedCipherSuite::suite).collect(),
            prefers_own: rules.prefers_own,
            tls13: rules.tls13,
        };
        let versions: Vec<_> = match (rules.tls13, rules.tls12) {
            (true, true) if rules.suites12 == Suites::none() => vec![&TLS13],
            (true, true) => vec![&TLS13, &TLS12],
            (true, false) => vec![&TLS13],
            (false, true) => vec![&TLS12],
            (false, false) => return Err(ServerError::NoVersion),
        };
        let builder = ServerConfig::builder_with_provider(Arc::new(provider))
            .with_protocol_versions(&versions)
            .map_err(|_| ServerError::NoSuite)?;
        let verifier = Arc::new(ClientVerifier::new(rules.clients.as_ref()));
        let resolver = Arc::new(Resolver { keys: Vec::new(), preference: Preference::default() });
        let mut config = builder.with_client_cert_verifier(verifier).with_cert_resolver(resolver);
        config.cert_compressors = rules.compresses.map(compressed::compressors).unwrap_or_default();
        config.ignore_client_order = rules.prefers_own;
        config.alpn_protocols = rules.protocols;
        config.enable_secret_extraction = true;
        config.key_log = Arc::new(Captured);
        let shared = Shared {
            tickets: rules.tickets,
            sessions: rules.sessions,
            early: rules.early.filter(|_| rules.tls13),
            lifetime: rules.lifetime,
            clients: rules.clients.map(Arc::new),
            rejects: rules.rejects,
            kernel: rules.kernel,
            preference,
        };
        Self::of(config, &rules.identities, shared)
    }

    /// The same server with other certificates. Their sessions are their own.
    ///
    /// # Errors
    /// A key is of a kind that signs no handshakes here.
    pub fn with_identities(&self, identities: &[Identity]) -> Result<Self, ServerError> {
        Self::of(ServerConfig::clone(&self.bare), identities, self.shared.clone())
    }

    /// `config` has all but what depends on certificates.
    fn of(mut config: ServerConfig, identities: &[Identity], shared: Shared) -> Result<Self, ServerError> {
        let mut keys = Vec::new();
        for (at, identity) in identities.iter().enumerate() {
            keys.push(Arc::new(Staple::new(certified(identity).ok_or(ServerError::Key(at))?)));
        }
        let (certificates, bare) = (keys.len(), Arc::new(config.clone()));
        let (lifetime, binding) = (shared.lifetime, binding(identities, shared.clients.as_deref()));
        let resolver = Arc::new(Resolver { keys, preference: shared.preference.clone() });
        config.cert_resolver = resolver.clone();
        let early = shared.early.clone().map(|cache| EarlySessions::new(&config, cache, (binding, lifetime)));
        let ticketer = shared.tickets.clone().map(|keys| Arc::new(Ticketer { keys, binding, lifetime }));
        if let Some(ticketer) = &ticketer {
            config.ticketer = ticketer.clone();
        }
        config.session_storage = match shared.sessions.clone() {
            Some(cache) => Arc::new(BoundSessions { cache: Some(cache), binding, lifetime }),
            None => Arc::new(NoServerSessionStorage {}),
        };
        // As OpenSSL has it: who uses a ticket up is given another.
        let resuming = with_tickets(&config, 1);
        let config = Arc::new(config);
        Ok(Self { config, resuming, early, resolver, ticketer, bare, shared, certificates, binding })
    }

    /// How its clients are verified.
    pub(crate) fn clients(&self) -> Option<&Clients> {
        self.shared.clients.as_deref()
    }

    /// Whether the kernel may be lent the keys that answers are sealed with.
    pub(crate) const fn kernel(&self) -> bool {
        self.shared.kernel
    }

    /// What rustls is to do for who says this first, and whether data may come before the handshake is over.
    pub(crate) fn config(&self, hello: &Hello) -> (Arc<ServerConfig>, bool) {
        let newest = hello.versions.contains(&u16::from(ProtocolVersion::TLSv1_3));
        if let Some(early) = self.early.as_ref().filter(|_| newest)
            && let Some(chosen) = early.config(hello)
        {
            return chosen;
        }
        (Arc::clone(if hello.ticket.is_some() { &self.resuming } else { &self.config }), false)
    }

    /// How long an answer to this takes to make.
    pub(crate) fn effort(&self, hello: &Hello) -> Effort {
        if self.shared.rejects {
            return Effort::Short;
        }
        let quick = [SignatureScheme::ECDSA_NISTP256_SHA256, SignatureScheme::ED25519];
        let found = self.resolver.find(hello);
        if found.is_none_or(|key| key.key().key.choose_scheme(&quick).is_some()) {
            return Effort::Middle;
        }
        // To look costs less than the way to another thread. What is found is a session's secret, and wiped.
        let goes_on = hello.ticket.as_deref().zip(self.ticketer.as_deref());
        let is_ours = |(ticket, ticketer): (&[u8], &Ticketer)| wiping::during(|| ticketer.decrypt(ticket).is_some());
        match goes_on.is_some_and(is_ours) {
            true => Effort::Middle,
            false => Effort::Long,
        }
    }

    /// Whether it verifies its clients, or asks for their certificates at all.
    #[must_use]
    pub const fn asks_clients(&self) -> bool {
        self.shared.clients.is_some()
    }

    /// Whether it has the certificates of `other`, and verifies clients as that does: a
    /// client of one is a client of the other.
    #[must_use]
    pub fn is_like(&self, other: &Self) -> bool {
        self.binding == other.binding
    }

    /// Its certificates, in the order of its rules, with what is said of them.
    #[must_use]
    pub fn staples(&self) -> &[Arc<Staple>] {
        &self.resolver.keys
    }

    /// Whether it ends all handshakes (`ssl_reject_handshake`).
    #[must_use]
    pub const fn rejects(&self) -> bool {
        self.shared.rejects
    }
}

/// The same, but that so many tickets are given.
fn with_tickets(config: &ServerConfig, tickets: usize) -> Arc<ServerConfig> {
    let mut config = config.clone();
    config.send_tls13_tickets = tickets;
    Arc::new(config)
}

/// Sessions that may begin with data: kept here, so that each is gone on with once, whoever repeats
/// what was sent (RFC 8446 section 8.1). All silos share them.
struct EarlySessions {
    sessions: Arc<BoundSessions>,
    /// For who has none of them.
    config: Arc<ServerConfig>,
    /// For who goes on with one, and sends data. It is given no other session: that would be sealed by
    /// rustls, under numbers that are the record layer's by then.
    resuming: Arc<ServerConfig>,
}

impl EarlySessions {
    /// Most data that comes before a handshake is over, in bytes: as OpenSSL has it.
    const MOST: u32 = 1 << 14;

    /// Bytes of the name that rustls gives a session that is kept.
    const NAME: usize = 32;

    /// `config` is without tickets.
    fn new(config: &ServerConfig, cache: Arc<SessionCache>, (binding, lifetime): ([u8; 32], u32)) -> Self {
        let sessions = Arc::new(BoundSessions { cache: Some(cache), binding, lifetime });
        let mut config = config.clone();
        config.max_early_data_size = Self::MOST;
        config.session_storage = sessions.clone();
        let resuming = with_tickets(&config, 0);
        Self { sessions, config: Arc::new(config), resuming }
    }

    /// None for who has a ticket of another kind.
    fn config(&self, hello: &Hello) -> Option<(Arc<ServerConfig>, bool)> {
        match hello.ticket.as_deref() {
            Some(ticket) if ticket.len() != Self::NAME => None,
            Some(ticket) if hello.early_data && self.sessions.has(ticket) => Some((Arc::clone(&self.resuming), true)),
            _ => Some((Arc::clone(&self.config), false)),
        }
    }
}

/// A certificate with its key, as rustls has it. What is known of it is not held against
/// what webpki expects of a server's: one of version 1, or with CA:TRUE, is as good.
pub(crate) fn certified(identity: &Identity) -> Option<CertifiedKey> {
    let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(identity.key.secret_bytes()));
    let key = sign::any_supported_type(&key).ok()?;
    let chain = identity.chain.iter().map(|one| CertificateDer::from(one.der())).collect();
    let mut certified = CertifiedKey::new(chain, key);
    certified.ocsp.clone_from(&identity.stapled);
    Some(certified)
}

/// What sessions of a server are bound to: its certificates, and how it verifies clients.
fn binding(identities: &[Identity], clients: Option<&Clients>) -> [u8; 32] {
    let mut hash = Context::new(&SHA256);
    let mut add = |bytes: &[u8]| {
        hash.update(&(bytes.len() as u64).to_be_bytes());
        hash.update(bytes);
    };
    for identity in identities {
        add(&identity.chain.first().map(Certificate::der).unwrap_or_default());
    }
    if let Some(clients) = clients {
        add(clients.mode.name());
        add(&clients.depth.to_be_bytes());
        for authority in &clients.authorities {
            add(authority);
        }
    }
    let mut binding = [0; 32];
    binding.copy_from_slice(hash.finish().as_ref());
    binding
}
