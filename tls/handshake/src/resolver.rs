//! Which certificate a client is shown.

use crate::captured;
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use std::sync::Arc;

/// The certificates of a server.
#[derive(Debug)]
pub(crate) struct Resolver {
    pub keys: Vec<Arc<CertifiedKey>>,
}

impl ResolvesServerCert for Resolver {
    /// The one whose key makes the signature that the client likes best.
    fn resolve(&self, hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        // What rustls reads is to be what the server was chosen by.
        let agrees = captured::note_hello(hello.server_name(), hello.alpn().into_iter().flatten());
        if !agrees {
            return None;
        }
        let can = |key: &&Arc<CertifiedKey>, scheme| key.key.choose_scheme(&[scheme]).is_some();
        let schemes = hello.signature_schemes().iter();
        schemes.flat_map(|scheme| self.keys.iter().find(|key| can(key, *scheme))).next().cloned()
    }
}
