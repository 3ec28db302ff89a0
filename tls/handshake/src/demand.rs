//! Certificates that are found when a client asks for them (`ssl_certificate` with variables).

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
