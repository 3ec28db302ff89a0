//! What clients of HTTPS shake hands with.

use core::fmt;
use handshake::{Groups, Identity, ServerError, ServerRules, ServerTls, Suites, TicketKeys};
use std::sync::Arc;
use x509::LibraryError;

/// Seconds for which a session goes on.
const LIFETIME: u32 = 300;

/// Those of TLS 1.2, as OpenSSL names them.
const SUITES: &str = "HIGH:!aNULL:!MD5";

/// Why there is nothing to shake hands with: the operator's to mend.
#[derive(Debug)]
pub enum TlsError {
    /// The certificates cannot be read.
    Certificates(LibraryError),
    /// The key cannot be read.
    Key(LibraryError),
    /// No server can be made of them.
    Server(ServerError),
}

impl fmt::Display for TlsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Certificates(why) => write!(f, "cannot read the certificates: {why}"),
            Self::Key(why) => write!(f, "cannot read the key: {why}"),
            Self::Server(why) => write!(f, "no server can be made of certificates and key: {why}"),
        }
    }
}

impl core::error::Error for TlsError {}

/// A server that speaks TLS 1.2 and 1.3 with one certificate: `chain` is the certificate and
/// those of who issued it, `key` its key, both PEM, the key not encrypted. Sessions go on for
/// five minutes by tickets. [`ServerTls::new`] makes any other.
///
/// # Errors
/// See [`TlsError`].
pub fn server_tls(chain: &[u8], key: &[u8]) -> Result<Arc<ServerTls>, TlsError> {
    let chain = x509::read_certificates(chain).map_err(TlsError::Certificates)?;
    let key = x509::read_key(key, &[]).map_err(TlsError::Key)?;
    let suites12 = Suites::of_tls12(SUITES).map_err(|_| TlsError::Server(ServerError::NoSuite))?;
    let rules = ServerRules {
        identities: vec![Identity { chain, key, stapled: None }],
        tls12: true,
        tls13: true,
        suites12,
        suites13: Suites::all_tls13(),
        groups: Groups::auto(),
        prefers_own: false,
        tickets: Some(Arc::new(TicketKeys::rotating())),
        sessions: None,
        early: None,
        lifetime: LIFETIME,
        clients: None,
        rejects: false,
        protocols: vec![b"http/1.1".to_vec()],
        compresses: None,
        kernel: true,
    };
    ServerTls::new(rules).map(Arc::new).map_err(TlsError::Server)
}
