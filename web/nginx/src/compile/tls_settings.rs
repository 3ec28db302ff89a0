//! What a block says of handshakes.

use crate::message::{Message, Place};
use core::time::Duration;
use features::Value;
use handshake::ClientMode;
use zeroize::Zeroizing;

/// The settings of a block, with those that are inherited.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct TlsSettings {
    pub certificates: Vec<Vec<u8>>,
    pub keys: Vec<Vec<u8>>,
    pub passwords: Vec<Zeroizing<Vec<u8>>>,
    pub tls12: bool,
    pub tls13: bool,
    /// What is said of older protocols, by who speaks any.
    pub old: Option<Message>,
    pub ciphers: String,
    pub suites13: Option<String>,
    pub curves: String,
    pub prefers_own: bool,
    pub compresses: bool,
    pub kernel: bool,
    pub tickets: bool,
    pub ticket_keys: Vec<(Vec<u8>, Place)>,
    pub cache: Option<(Vec<u8>, u64)>,
    pub certificate_cache: Option<CertificateCache>,
    pub lifetime: u64,
    pub early: bool,
    /// Whether, and how, clients are verified.
    pub verify: Option<ClientMode>,
    pub depth: u32,
    pub client_certificate: Option<Vec<u8>>,
    pub trusted_certificate: Option<Vec<u8>>,
    pub revocations: Option<Vec<u8>>,
    pub staples: bool,
    pub stapled: Option<Vec<u8>>,
    /// `ssl_stapling_responder`
    pub responder: Option<Vec<u8>>,
    pub staples_verified: bool,
    pub rejects: bool,
}

impl Default for TlsSettings {
    fn default() -> Self {
        Self {
            certificates: Vec::new(),
            keys: Vec::new(),
            passwords: Vec::new(),
            tls12: true,
            tls13: true,
            old: None,
            ciphers: "HIGH:!aNULL:!MD5".to_owned(),
            suites13: None,
            curves: "auto".to_owned(),
            prefers_own: false,
            compresses: false,
            kernel: true,
            tickets: true,
            ticket_keys: Vec::new(),
            cache: None,
            certificate_cache: None,
            lifetime: 300,
            early: false,
            verify: None,
            depth: 1,
            client_certificate: None,
            trusted_certificate: None,
            revocations: None,
            staples: false,
            stapled: None,
            responder: None,
            staples_verified: false,
            rejects: false,
        }
    }
}

impl TlsSettings {
    /// Whether it can take part in handshakes.
    pub const fn is_there(&self) -> bool {
        !self.certificates.is_empty() || self.rejects
    }

    /// Whether paths of certificates have variables.
    pub fn by_value(&self) -> bool {
        self.certificates.iter().chain(&self.keys).any(|path| path.contains(&b'$'))
    }
}

/// `ssl_certificate_cache`
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct CertificateCache {
    pub max: usize,
    /// Who is not asked for so long is forgotten.
    pub inactive: Duration,
    /// For so long nobody looks whether the files are others.
    pub valid: Duration,
}

impl CertificateCache {
    /// As nginx has it, where nothing is said.
    pub const BY_DEFAULT: Self = Self { max: 0, inactive: Duration::from_secs(10), valid: Duration::from_secs(60) };
}

impl UpstreamTlsSettings {
    /// The paths of the certificate and of its key, where either has variables.
    pub fn by_value(&self) -> Option<(&[u8], &[u8])> {
        let (certificate, key) = (self.certificate.as_deref()?, self.key.as_deref()?);
        [certificate, key].iter().any(|path| path.contains(&b'$')).then_some((certificate, key))
    }
}

/// What asks upstreams that may be secured.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum SecuredBy {
    Proxy,
    Grpc,
    Uwsgi,
}

impl SecuredBy {
    /// What its directives begin with.
    pub const fn prefix(self) -> &'static str {
        match self {
            Self::Proxy => "proxy_ssl",
            Self::Grpc => "grpc_ssl",
            Self::Uwsgi => "uwsgi_ssl",
        }
    }
}

/// The settings of a block, with those that are inherited.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct UpstreamTlsSettings {
    /// Those that listeners have, too.
    pub common: TlsSettings,
    /// `…_ssl_certificate` and `…_ssl_certificate_key`
    pub certificate: Option<Vec<u8>>,
    pub key: Option<Vec<u8>>,
    /// `…_ssl_name`
    pub name: Option<Value>,
    /// `…_ssl_server_name`
    pub tells_name: bool,
    /// `…_ssl_verify`
    pub verifies: bool,
    /// `…_ssl_session_reuse`
    pub resumes: bool,
    /// HTTP/2 is agreed on in handshakes (ALPN).
    pub speaks_http2: bool,
}

impl Default for UpstreamTlsSettings {
    fn default() -> Self {
        let common = TlsSettings { ciphers: "DEFAULT".to_owned(), ..TlsSettings::default() };
        let (certificate, key, name) = (None, None, None);
        Self { common, certificate, key, name, tells_name: false, verifies: false, resumes: true, speaks_http2: false }
    }
}
