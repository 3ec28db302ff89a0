//! Which certificate a client is shown.

use crate::captured;
use crate::staple::Staple;
use rustls::SignatureScheme;
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use std::sync::Arc;

/// The certificates of a server.
#[derive(Debug)]
pub(crate) struct Resolver {
    pub keys: Vec<Arc<Staple>>,
}

impl Resolver {
    /// The one whose key makes the signature that the client likes best.
    pub fn find(&self, schemes: &[SignatureScheme]) -> Option<&Arc<Staple>> {
        let can = |key: &&Arc<Staple>, scheme| key.key().key.choose_scheme(&[scheme]).is_some();
        schemes.iter().flat_map(|scheme| self.keys.iter().find(|key| can(key, *scheme))).next()
    }
}

impl ResolvesServerCert for Resolver {
    fn resolve(&self, hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        // What rustls reads is to be what the server was chosen by.
        let agrees = captured::note_hello(hello.server_name(), hello.alpn().into_iter().flatten());
        if !agrees {
            return None;
        }
        self.find(hello.signature_schemes()).map(|staple| staple.current())
    }
}
