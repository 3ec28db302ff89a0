//! A certificate of a server's, with what its issuer says of it (RFC 6066 section 8), which
//! changes while handshakes go on.

use crate::tickets::unix_second;
use rustls::sign::CertifiedKey;
use std::sync::{Arc, PoisonError, RwLock};

/// A certificate with its chain and key, and the newest answer of its issuer. Shared by all silos.
#[derive(Debug)]
pub struct Staple {
    /// As it is shown without an answer.
    bare: Arc<CertifiedKey>,
    told: RwLock<Told>,
}

#[derive(Debug)]
struct Told {
    key: Arc<CertifiedKey>,
    /// The unix second up to which the answer may be passed on.
    until: u64,
}

impl Staple {
    pub(crate) fn new(key: CertifiedKey) -> Self {
        // One that an operator has put there is passed on as it is.
        let told = RwLock::new(Told { key: Arc::new(key.clone()), until: u64::MAX });
        Self { bare: Arc::new(CertifiedKey { ocsp: None, ..key }), told }
    }

    /// Passes `answer` on from now on, up to the unix second `until`; `None` for none.
    pub fn put(&self, answer: Option<Vec<u8>>, until: u64) {
        let key = match answer {
            Some(answer) => Arc::new(CertifiedKey { ocsp: Some(answer), ..(*self.bare).clone() }),
            None => Arc::clone(&self.bare),
        };
        *self.told.write().unwrap_or_else(PoisonError::into_inner) = Told { key, until };
    }

    /// Whether an answer is passed on at present.
    #[must_use]
    pub fn is_told(&self) -> bool {
        self.current().ocsp.is_some()
    }

    /// The key, whatever is said of it.
    pub(crate) fn key(&self) -> &CertifiedKey {
        &self.bare
    }

    /// What a client is shown now.
    pub(crate) fn current(&self) -> Arc<CertifiedKey> {
        let told = self.told.read().unwrap_or_else(PoisonError::into_inner);
        let is_valid = told.until == u64::MAX || told.until > unix_second();
        Arc::clone(if is_valid { &told.key } else { &self.bare })
    }
}
