//! Which certificate a client is shown.

use crate::captured;
use crate::hello::Hello;
use crate::staple::Staple;
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use rustls::{CipherSuite, ProtocolVersion, SignatureAlgorithm, SignatureScheme};
use std::sync::Arc;

/// The certificates of a server.
#[derive(Debug)]
pub(crate) struct Resolver {
    /// In their order: of two whose keys sign alike the later counts, as with OpenSSL, where it takes the
    /// place of the former.
    pub keys: Vec<Arc<Staple>>,
    pub preference: Preference,
}

/// What a certificate is chosen by with TLS 1.2, where a suite says how its key signs.
#[derive(Clone, Debug, Default)]
pub(crate) struct Preference {
    /// The server's suites, in its order.
    pub suites: Vec<CipherSuite>,
    /// Its order counts, and not the client's.
    pub prefers_own: bool,
    /// It speaks TLS 1.3 with whoever does.
    pub tls13: bool,
}

impl Resolver {
    /// With TLS 1.2 the one that the first suite goes with that both have and there is a certificate for, as
    /// OpenSSL has it; with TLS 1.3 the one whose key makes the signature that the client likes best.
    pub fn find(&self, hello: &Hello) -> Option<&Arc<Staple>> {
        let schemes: Vec<_> = hello.schemes.iter().map(|scheme| SignatureScheme::from(*scheme)).collect();
        let best = || {
            let can = |key: &&Arc<Staple>, scheme| key.key().key.choose_scheme(&[scheme]).is_some();
            schemes.iter().flat_map(|scheme| self.keys.iter().rfind(|key| can(key, *scheme))).next()
        };
        let is_newest = self.preference.tls13 && hello.versions.contains(&u16::from(ProtocolVersion::TLSv1_3));
        if is_newest || self.keys.len() < 2 {
            return best();
        }
        let theirs: Vec<_> = hello.suites.iter().map(|suite| CipherSuite::from(*suite)).collect();
        let ours = &self.preference.suites;
        let (order, others) = if self.preference.prefers_own { (ours, &theirs) } else { (&theirs, ours) };
        let mut common = order.iter().filter(|suite| others.contains(suite));
        common.find_map(|suite| self.keys.iter().rfind(|key| goes_with(key, *suite, &schemes))).or_else(best)
    }
}

/// Whether a key signs as a suite of TLS 1.2 says, in a way that the client verifies.
fn goes_with(key: &Staple, suite: CipherSuite, schemes: &[SignatureScheme]) -> bool {
    let key = &key.key().key;
    let signs_by_rsa = key.algorithm() == SignatureAlgorithm::RSA;
    let wants_rsa = suite.as_str().is_some_and(|name| name.contains("_RSA_"));
    signs_by_rsa == wants_rsa && key.choose_scheme(schemes).is_some()
}

impl ResolvesServerCert for Resolver {
    fn resolve(&self, hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        // What rustls reads is to be what the server was chosen by.
        let hello = captured::note_hello(hello.server_name(), hello.alpn().into_iter().flatten())?;
        self.find(&hello).map(|staple| staple.current())
    }
}
