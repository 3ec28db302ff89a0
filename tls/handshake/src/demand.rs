//! Certificates that are found when a handshake begins: a client's wish (`ssl_certificate` with
//! variables), or what an upstream is shown (`proxy_ssl_certificate` with variables).

use crate::client::OwnCertificate;
use crate::server::ServerTls;
use core::fmt::Debug;
use std::sync::Arc;

/// Where certificates are found. Asked by whoever works on handshakes, for as long as it takes to read files.
pub trait CertificateSource: Send + Sync + Debug {
    /// `like`, with the certificates and keys of these files.
    ///
    /// # Errors
    /// What is wrong, in the words of the error log.
    fn find(&self, like: &ServerTls, files: &[CertificateFiles]) -> Result<Arc<ServerTls>, String>;
}

/// The paths of a certificate, with its chain, and of its key.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct CertificateFiles {
    /// The certificate's.
    pub certificate: Vec<u8>,
    /// Its key's.
    pub key: Vec<u8>,
}

/// Certificates that a handshake finds before it says anything.
#[derive(Clone, Debug)]
pub struct Demand {
    /// Where they are found.
    pub source: Arc<dyn CertificateSource>,
    /// By these paths.
    pub files: Vec<CertificateFiles>,
}

/// Where what servers are shown is found. Asked by whoever works on handshakes, for as long as it takes to
/// read files.
pub trait OwnCertificateSource: Send + Sync + Debug {
    /// The certificate and the key of these files.
    ///
    /// # Errors
    /// What is wrong, in the words of the error log.
    fn find(&self, files: &CertificateFiles) -> Result<Arc<OwnCertificate>, String>;
}

/// What a server is shown that asks who we are, found before the handshake says anything.
#[derive(Clone, Debug)]
pub struct OwnDemand {
    /// Where it is found.
    pub source: Arc<dyn OwnCertificateSource>,
    /// By these paths.
    pub files: CertificateFiles,
}
