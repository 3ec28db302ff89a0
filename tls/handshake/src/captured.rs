//! What rustls tells while it works, to whoever has it work on this thread.
//!
//! A resolver of certificates and a log of keys are a server's, and shared by all of its
//! handshakes; what they are told is of one. One handshake at a time is worked on by a
//! thread, so that this is where it lands.

use crate::hello::Hello;
use crate::shown::Shown;
use rustls::KeyLog;
use std::borrow::Cow;
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
    /// What it was shown in the place of what the client sent.
    shown: Vec<Shown>,
}

thread_local! {
    static TOLD: RefCell<Told> = RefCell::new(Told::default());
}

/// Has `work` work on the handshake that began with `hello`, of which rustls was shown `shown`. Returns what
/// it returns, whether rustls read another ClientHello than that, and adds secrets to `secrets`.
pub(crate) fn during<T>(
    hello: &Arc<Hello>,
    secrets: &mut TrafficSecrets,
    shown: &mut Vec<Shown>,
    work: impl FnOnce() -> T,
) -> (T, bool) {
    let (secrets_then, shown_then) = (core::mem::take(secrets), core::mem::take(shown));
    TOLD.set(Told { hello: Some(Arc::clone(hello)), differs: false, secrets: secrets_then, shown: shown_then });
    let result = work();
    let told = TOLD.take();
    (*secrets, *shown) = (told.secrets, told.shown);
    (result, told.differs)
}

/// Whether rustls was shown anything else than its client sent.
pub(crate) fn is_shown_another() -> bool {
    TOLD.with_borrow(|told| !told.shown.is_empty())
}

/// What the client sent where these are bytes that rustls was shown, and the same bytes otherwise.
pub(crate) fn as_sent(bytes: &[u8]) -> Cow<'_, [u8]> {
    TOLD.with_borrow(|told| {
        let sent = told.shown.iter().find_map(|shown| shown.as_sent(bytes));
        sent.map_or(Cow::Borrowed(bytes), Cow::Owned)
    })
}

/// What rustls read of a ClientHello. What was read before, if that is the same.
pub(crate) fn note_hello<'a>(name: Option<&str>, protocols: impl Iterator<Item = &'a [u8]>) -> Option<Arc<Hello>> {
    TOLD.with_borrow_mut(|told| {
        let hello = told.hello.as_ref()?;
        let named = name.map(|name| name.strip_suffix('.').unwrap_or(name).to_ascii_lowercase());
        // One that is none of DNS was not shown.
        let expected = if hello.odd_name.is_some() { None } else { hello.server_name.as_deref() };
        let agrees = named.as_deref() == expected && protocols.eq(hello.protocols.iter().map(|protocol| &**protocol));
        told.differs |= !agrees;
        agrees.then(|| Arc::clone(hello))
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
