//! What we say and do in handshakes with servers, and whom of them we trust.

use crate::clients::ClientVerifier;
use crate::peers::PeerSessions;
use crate::random;
use crate::server::{Identity, certified};
use crate::suites::{Groups, Suites};
use crate::tickets::unix_second;
use core::fmt;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{ClientConfig, ResolvesClientCert, Resumption};
use rustls::crypto::aws_lc_rs::default_provider;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::sign::CertifiedKey;
use rustls::version::{TLS12, TLS13};
use rustls::{DigitallySignedStruct, Error, SignatureScheme};
use std::sync::Arc;
use x509::{Certificate, Store, VerifyError};

/// What a client is told.
#[derive(Debug)]
pub struct ClientRules {
    /// What servers are shown that ask who we are.
    pub identity: Option<Identity>,
    /// Whether it speaks TLS 1.2.
    pub tls12: bool,
    /// Whether it speaks TLS 1.3.
    pub tls13: bool,
    /// The suites of TLS 1.2.
    pub suites12: Suites,
    /// Those of TLS 1.3.
    pub suites13: Suites,
    /// The groups that keys are exchanged in.
    pub groups: Groups,
    /// Whom it trusts; none: whoever answers.
    pub servers: Option<Servers>,
    /// Tickets of each server that are kept, for later connections to go on with its sessions; each of
    /// TLS 1.3 is used once (RFC 8446 appendix C.4). None: each handshake is a full one.
    pub tickets: usize,
    /// Protocols above TLS that are offered (RFC 7301).
    pub protocols: Vec<Vec<u8>>,
}

/// How servers are verified.
#[derive(Debug)]
pub struct Servers {
    /// Who is trusted, and who is not any more.
    pub store: Store,
    /// The most certificates between a server's and one that is trusted.
    pub depth: u32,
    /// Whether a name that is an IP address is looked for among the certificate's addresses, too
    /// (RFC 2818 section 3.1). nginx does not.
    pub by_address: bool,
}

/// What came of a server's certificate.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ServerVerdict {
    /// It does not matter.
    NotAsked,
    /// It is trusted, and has the name that was looked for.
    Trusted,
    /// It is not trusted.
    Refused(VerifyError),
    /// It is, and has another name.
    Misnamed,
}

impl Servers {
    /// Whether a server with these certificates is `name`, and trusted now.
    pub(crate) fn verdict(&self, chain: &[CertificateDer<'_>], name: &[u8]) -> ServerVerdict {
        let parsed: Result<Vec<_>, _> = chain.iter().map(|one| Certificate::from_der(one)).collect();
        let now = i64::try_from(unix_second()).unwrap_or(i64::MAX);
        let Ok(parsed) = parsed else { return ServerVerdict::Refused(VerifyError::UNSPECIFIED) };
        match self.store.verify_server(&parsed, self.depth, now) {
            Err(why) => ServerVerdict::Refused(why),
            Ok(()) if parsed.first().is_some_and(|leaf| leaf.is_of_host(name)) => ServerVerdict::Trusted,
            Ok(()) if self.by_address && parsed.first().is_some_and(|leaf| leaf.is_of_address(name)) => {
                ServerVerdict::Trusted
            }
            Ok(()) => ServerVerdict::Misnamed,
        }
    }
}

/// Why a client cannot be made.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ClientError {
    /// Its key is of a kind that signs no handshakes here.
    Key,
    /// No suite is there for the versions that it speaks.
    NoSuite,
    /// It speaks no version.
    NoVersion,
}

impl fmt::Display for ClientError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Key => "keys are RSA of 2048 to 8192 bits, ECDSA on P-256, P-384 or P-521, or Ed25519",
            Self::NoSuite => "no cipher suite is left for the protocols",
            Self::NoVersion => "there is TLS 1.2 and 1.3 alone",
        })
    }
}

impl std::error::Error for ClientError {}

/// A client, as handshakes see it. Shared by all silos, and so are its sessions.
pub struct ClientTls {
    config: ClientConfig,
    pub(crate) servers: Option<Servers>,
    sessions: Option<Arc<crate::peers::PeerCache>>,
}

impl fmt::Debug for ClientTls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClientTls").field("verifies", &self.verifies()).finish_non_exhaustive()
    }
}

impl ClientTls {
    /// The client that rules describe.
    ///
    /// # Errors
    /// See [`ClientError`]: the operator's to mend.
    pub fn new(rules: ClientRules) -> Result<Self, ClientError> {
        random::seed();
        let mut provider = default_provider();
        let used = |on: bool, suites: &Suites| if on { suites.0.clone() } else { Vec::new() };
        provider.cipher_suites = [used(rules.tls13, &rules.suites13), used(rules.tls12, &rules.suites12)].concat();
        provider.kx_groups = rules.groups.0;
        let versions: Vec<_> = match (rules.tls13, rules.tls12) {
            (true, true) if rules.suites12 == Suites::none() => vec![&TLS13],
            (true, true) => vec![&TLS13, &TLS12],
            (true, false) => vec![&TLS13],
            (false, true) => vec![&TLS12],
            (false, false) => return Err(ClientError::NoVersion),
        };
        let own = match &rules.identity {
            Some(identity) => OwnCertificate::new(identity)?,
            None => OwnCertificate(None),
        };
        let builder = ClientConfig::builder_with_provider(Arc::new(provider))
            .with_protocol_versions(&versions)
            .map_err(|_| ClientError::NoSuite)?;
        let verifier = Arc::new(ServerVerifier(ClientVerifier::new(None)));
        let builder = builder.dangerous().with_custom_certificate_verifier(verifier);
        let mut config = builder.with_client_cert_resolver(Arc::new(own));
        config.alpn_protocols = rules.protocols;
        config.enable_secret_extraction = true;
        config.resumption = Resumption::disabled();
        let sessions = (rules.tickets > 0).then(|| Arc::new(crate::peers::PeerCache::new(rules.tickets)));
        Ok(Self { config, servers: rules.servers, sessions })
    }

    /// The same, but that data may come before a handshake that goes on with a session of TLS 1.3 is over
    /// (RFC 8446 section 2.3), where there is some ([`crate::Connector::with_early`]).
    #[must_use]
    pub const fn sending_early(mut self) -> Self {
        self.config.enable_early_data = true;
        self
    }

    /// Whether it may.
    #[must_use]
    pub const fn sends_early(&self) -> bool {
        self.config.enable_early_data
    }

    /// Whether servers are asked who they are.
    #[must_use]
    pub const fn verifies(&self) -> bool {
        self.servers.is_some()
    }

    /// What rustls is told for one connection, whose sessions are those of `peer`, and whose server is shown
    /// `own` if it asks, in place of what the rules had.
    pub(crate) fn config_for(&self, peer: &[u8], own: Option<Arc<OwnCertificate>>) -> Arc<ClientConfig> {
        let mut config = self.config.clone();
        if let Some(own) = own {
            config.client_auth_cert_resolver = own;
        }
        if let Some(sessions) = &self.sessions {
            config.resumption = Resumption::store(Arc::new(PeerSessions::new(Arc::clone(sessions), peer)));
        }
        Arc::new(config)
    }
}

/// Holds servers against the signatures that they make; who is trusted is found out by
/// [`Servers::verdict`], when the handshake is over.
#[derive(Debug)]
struct ServerVerifier(ClientVerifier);

impl ServerCertVerifier for ServerVerifier {
    fn verify_server_cert(
        &self,
        _end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.0.verify12(message, certificate, signed)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.0.verify13(message, certificate, signed)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.schemes()
    }
}

/// What servers are shown that ask who we are.
pub struct OwnCertificate(Option<Arc<CertifiedKey>>);

/// No log tells keys.
impl fmt::Debug for OwnCertificate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("OwnCertificate").field(&self.0.is_some()).finish()
    }
}

impl OwnCertificate {
    /// A certificate with its chain, and its key.
    ///
    /// # Errors
    /// The key is of a kind that signs no handshakes here.
    pub fn new(identity: &Identity) -> Result<Self, ClientError> {
        Ok(Self(Some(Arc::new(certified(identity).ok_or(ClientError::Key)?))))
    }
}

impl ResolvesClientCert for OwnCertificate {
    /// Whichever authorities a server names: as OpenSSL has it.
    fn resolve(&self, _authorities: &[&[u8]], schemes: &[SignatureScheme]) -> Option<Arc<CertifiedKey>> {
        self.0.as_ref().filter(|own| own.key.choose_scheme(schemes).is_some()).map(Arc::clone)
    }

    fn has_certs(&self) -> bool {
        self.0.is_some()
    }
}
