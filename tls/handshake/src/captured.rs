//! What rustls tells while it works, to whoever has it work on this thread.
//!
//! A resolver of certificates and a log of keys are a server's, and shared by all of its
//! handshakes; what they are told is of one. One handshake at a time is worked on by a
//! thread, so that this is where it lands.

use crate::hello::Hello;
use rustls::KeyLog;
use std::cell::RefCell;
use std::sync::Arc;
use zeroize::Zeroizing;

/// Secrets of both directions that records of application data begin with (RFC 8446
/// section 7.1); none with TLS 1.2.
#[derive(Default)]
pub(crate) struct TrafficSecrets {
    pub client: Option<Zeroizing<Vec<u8>>>,
    pub server: Option<Zeroizing<Vec<u8>>>,
}

#[derive(Default)]
struct Told {
    /// What the server was chosen by, and whether rustls read the same.
    hello: Option<Arc<Hello>>,
    differs: bool,
    secrets: TrafficSecrets,
}

thread_local! {
    static TOLD: RefCell<Told> = RefCell::new(Told::default());
}

/// Has `work` work on the handshake that began with `hello`. Returns what it returns, whether rustls
/// read another ClientHello than that, and adds secrets to `secrets`.
pub(crate) fn during<T>(hello: &Arc<Hello>, secrets: &mut TrafficSecrets, work: impl FnOnce() -> T) -> (T, bool) {
    TOLD.set(Told { hello: Some(Arc::clone(hello)), differs: false, secrets: core::mem::take(secrets) });
    let result = work();
    let told = TOLD.take();
    *secrets = told.secrets;
    (result, told.differs)
}

/// What rustls read of a ClientHello; whether that is what was read before.
pub(crate) fn note_hello<'a>(name: Option<&str>, protocols: impl Iterator<Item = &'a [u8]>) -> bool {
    TOLD.with_borrow_mut(|told| {
        let Some(hello) = &told.hello else { return false };
        let named = name.map(|name| name.strip_suffix('.').unwrap_or(name).to_ascii_lowercase());
        let agrees = named.as_deref() == hello.server_name.as_deref()
            && protocols.eq(hello.protocols.iter().map(|protocol| &**protocol));
        told.differs |= !agrees;
        agrees
    })
}

/// Notes the secrets that key updates begin with.
#[derive(Debug)]
pub(crate) struct Captured;

const CLIENT: &str = "CLIENT_TRAFFIC_SECRET_0";
const SERVER: &str = "SERVER_TRAFFIC_SECRET_0";

impl KeyLog for Captured {
    fn log(&self, label: &str, _client_random: &[u8], secret: &[u8]) {
        let secret = Some(Zeroizing::new(secret.to_vec()));
        TOLD.with_borrow_mut(|told| match label {
            CLIENT => told.secrets.client = secret,
            SERVER => told.secrets.server = secret,
            _ => {}
        });
    }

    fn will_log(&self, label: &str) -> bool {
        matches!(label, CLIENT | SERVER)
    }
}
