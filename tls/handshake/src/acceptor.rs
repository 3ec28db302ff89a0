//! One handshake, seen from the server.

use crate::captured::{TrafficSecrets, during};
use crate::clients::ClientVerdict;
use crate::demand::Demand;
use crate::early::EarlyRecords;
use crate::effort::Effort;
use crate::failure::Failure;
use crate::hello::Hello;
use crate::odd::{Held, Release};
use crate::secured::{Cipher, Direction, Secured, Session, SuiteHash, Version};
use crate::server::ServerTls;
use crate::shown::Shown;
use crate::suites::{group_name, suite_name};
use rustls::pki_types::CertificateDer;
use rustls::server::UnbufferedServerConnection;
use rustls::unbuffered::{ConnectionState, EncodeError, UnbufferedStatus};
use rustls::{ConnectionTrafficSecrets, HandshakeKind, ProtocolVersion, SupportedCipherSuite};
use std::borrow::Cow;
use std::sync::Arc;
use zeroize::Zeroizing;

/// Bytes that a client may send before its handshake is over: a ClientHello, or two, and
/// certificates.
pub(crate) const RECEIVED_MAX: usize = 160 << 10;

/// Records in which it may send them: enough for a certificate and a ClientHello or two of which each
/// has a byte.
pub(crate) const RECORDS_MAX: u32 = 8_192;

/// The longest record there is (RFC 5246 section 6.2.3), with its head.
pub(crate) const RECORD_MAX: usize = 5 + (1 << 14) + 2_048;

/// A handshake under way. It is moved to whoever works on it.
pub struct Acceptor {
    /// Nothing once it is over.
    connection: Option<Box<UnbufferedServerConnection>>,
    server: Arc<ServerTls>,
    /// Certificates that are to be found first.
    demand: Option<Demand>,
    hello: Arc<Hello>,
    /// What an answer to the ClientHello takes.
    effort: Effort,
    /// Data that comes before the client has had an answer may be taken.
    takes_early: bool,
    /// What rustls still looks at.
    waiting: Vec<u8>,
    /// What of a ClientHello it is not given yet, and what it was given for one.
    held: Held,
    shown: Vec<Shown>,
    received: usize,
    records: u32,
    secrets: TrafficSecrets,
}

impl core::fmt::Debug for Acceptor {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Acceptor").field("received", &self.received).finish_non_exhaustive()
    }
}

/// What came of the bytes that a handshake was given.
#[derive(Debug)]
pub struct Step {
    /// How many of them it took: whole records from the front.
    pub consumed: usize,
    /// What is to be sent, whatever the outcome.
    pub out: Vec<u8>,
    /// How it goes on.
    pub outcome: Outcome,
}

/// How a handshake goes on.
#[derive(Debug)]
pub enum Outcome {
    /// It waits for more from its client.
    Waits,
    /// It is over: what follows is sealed.
    Done(Box<Secured>),
    /// It failed; after what is to be sent, the connection ends.
    Failed(Failure),
}

impl Acceptor {
    /// A handshake that begins with `hello`, whose bytes follow by [`Acceptor::on_bytes`].
    #[must_use]
    pub fn new(server: Arc<ServerTls>, mut hello: Hello) -> Self {
        let (config, takes_early) = server.config(&hello);
        let connection = UnbufferedServerConnection::new(config).ok().map(Box::new);
        let effort = server.effort(&hello);
        // It is not needed again, and may be long.
        hello.ticket = None;
        let (hello, secrets) = (Arc::new(hello), TrafficSecrets::default());
        Self {
            connection,
            server,
            demand: None,
            hello,
            effort,
            takes_early,
            waiting: Vec::new(),
            held: Held::default(),
            shown: Vec::new(),
            received: 0,
            records: 0,
            secrets,
        }
    }

    /// The same, whose certificates are found first, by whoever works on it.
    #[must_use]
    pub fn on_demand(server: Arc<ServerTls>, hello: Hello, demand: Demand) -> Self {
        Self {
            connection: None,
            server,
            demand: Some(demand),
            hello: Arc::new(hello),
            // There are files to be read.
            effort: Effort::Long,
            takes_early: false,
            waiting: Vec::new(),
            held: Held::default(),
            shown: Vec::new(),
            received: 0,
            records: 0,
            secrets: TrafficSecrets::default(),
        }
    }

    /// How long the next step takes.
    #[must_use]
    pub fn effort(&self) -> Effort {
        let Some(connection) = &self.connection else {
            return if self.demand.is_some() { self.effort } else { Effort::Short };
        };
        match (connection.handshake_kind(), connection.protocol_version()) {
            // Nothing was answered, or that another ClientHello is to come.
            (None | Some(HandshakeKind::FullWithHelloRetryRequest), _) => self.effort,
            (Some(HandshakeKind::Resumed), _) => Effort::Short,
            _ if self.server.asks_clients() => Effort::Long,
            (_, Some(ProtocolVersion::TLSv1_3)) => Effort::Short,
            // The keys of TLS 1.2 are exchanged by now.
            _ => Effort::Middle,
        }
    }

    /// Whether `bytes`, which begin where the last were consumed up to, hold a whole record: what is to be
    /// worked on.
    #[must_use]
    pub fn has_record(bytes: &[u8]) -> bool {
        record(bytes).is_some()
    }

    /// Takes whole records from the front of `bytes`, up to the last of the handshake: no byte
    /// behind it is touched.
    pub fn on_bytes(&mut self, bytes: &[u8]) -> Step {
        wiping::during(|| self.take(bytes))
    }

    fn take(&mut self, bytes: &[u8]) -> Step {
        let mut out = Vec::new();
        let mut consumed = 0;
        if let Some(demand) = self.demand.take() {
            match demand.source.find(&self.server, &demand.files) {
                Ok(server) => *self = Self::new(server, Hello::clone(&self.hello)),
                Err(why) => {
                    // As OpenSSL tells it (RFC 8446 section 6.2).
                    out.extend_from_slice(&clear_alert(80));
                    return Step { consumed, out, outcome: Outcome::Failed(Failure::Certificates(why.into())) };
                }
            }
        }
        if self.server.rejects() && self.connection.take().is_some() {
            // As nginx tells it (RFC 6066 section 3).
            out.extend_from_slice(&clear_alert(112));
            return Step { consumed, out, outcome: Outcome::Failed(Failure::Rejected) };
        }
        let outcome = loop {
            let Some(one) = bytes.get(consumed..).and_then(record) else { break Outcome::Waits };
            consumed += one.len();
            if let Err(why) = self.note(one) {
                break Outcome::Failed(why);
            }
            match self.work(&mut out) {
                Outcome::Waits if self.goes_early() => break self.early(),
                Outcome::Waits => self.drop_unwanted(one.len()),
                over => break over,
            }
        };
        Step { consumed, out, outcome }
    }

    /// Takes a record in, if there are not too many.
    fn note(&mut self, one: &[u8]) -> Result<(), Failure> {
        self.received += one.len();
        self.records += 1;
        let fits = one.len() <= RECORD_MAX && self.received <= RECEIVED_MAX && self.records <= RECORDS_MAX;
        let given = match fits {
            false => Err(Failure::TooLong),
            true if self.is_of_hello(one) => match self.held.take(one, &mut self.shown) {
                Release::Nothing => Ok(Cow::default()),
                Release::Records(records) => Ok(Cow::Owned(records)),
                Release::Differs => Err(Failure::Differs),
            },
            true => Ok(Cow::Borrowed(one)),
        };
        match given {
            Ok(records) => self.waiting.extend_from_slice(&records),
            Err(why) => {
                self.connection = None;
                return Err(why);
            }
        }
        Ok(())
    }

    /// Whether a record is of a ClientHello whose name rustls would refuse: of the first, or of the second,
    /// where that was asked for.
    fn is_of_hello(&self, one: &[u8]) -> bool {
        let retried = |connection: &UnbufferedServerConnection| {
            connection.handshake_kind() == Some(HandshakeKind::FullWithHelloRetryRequest)
        };
        let expects = match self.shown.len() {
            0 => true,
            1 => self.connection.as_deref().is_some_and(retried),
            _ => false,
        };
        self.hello.odd_name.is_some() && expects && one.first() == Some(&22)
    }

    /// Takes a record of `length` bytes away that is data from before the handshake, and not wanted (RFC 8446
    /// section 4.2.10). rustls passes it over, but tries it again with each record behind it, and counts it
    /// each time towards what it passes over at most. What could not be opened was made zeros; a part of a
    /// message, which stays there, too, has its type.
    fn drop_unwanted(&mut self, length: usize) {
        const HEAD: usize = 5;
        const TAG: usize = 16;
        let Some(start) = self.waiting.len().checked_sub(length) else { return };
        let record = &self.waiting[start..];
        let sealed = record.get(HEAD..length.saturating_sub(TAG)).unwrap_or_default();
        let is_of_data = self.hello.early_data && record.first() == Some(&23);
        if is_of_data && !sealed.is_empty() && sealed.iter().all(|byte| *byte == 0) {
            self.waiting.truncate(start);
        }
    }

    /// Whether what follows may be data of a session that goes on, before the handshake is over.
    fn goes_early(&self) -> bool {
        let goes_on = |connection: &UnbufferedServerConnection| {
            connection.handshake_kind() == Some(HandshakeKind::Resumed)
                && connection.protocol_version() == Some(ProtocolVersion::TLSv1_3)
        };
        let has_secrets = self.secrets.client.is_some() && self.secrets.server.is_some();
        self.takes_early && has_secrets && self.connection.as_deref().is_some_and(goes_on)
    }

    /// All that is sent from here on is sealed with its last keys; what comes is opened by rustls still.
    fn early(&mut self) -> Outcome {
        let refused = Outcome::Failed(Failure::Over);
        let (Some(connection), Some(client), Some(server)) =
            (self.connection.take(), self.secrets.client.take(), self.secrets.server.take())
        else {
            return refused;
        };
        let Some((mut session, suite)) = self.session(&connection) else { return refused };
        let Some(cipher) = cipher_of(suite) else { return refused };
        session.early = Some(Arc::default());
        let rest = Self {
            connection: Some(connection),
            server: Arc::clone(&self.server),
            demand: None,
            hello: Arc::clone(&self.hello),
            effort: self.effort,
            takes_early: false,
            waiting: core::mem::take(&mut self.waiting),
            held: Held::default(),
            shown: core::mem::take(&mut self.shown),
            received: self.received,
            records: self.records,
            secrets: TrafficSecrets::default(),
        };
        let direction = |secret| Direction {
            sequence: 0,
            key: Zeroizing::default(),
            iv: Zeroizing::default(),
            secret: Some(secret),
        };
        Outcome::Done(Box::new(Secured {
            transmit: direction(server),
            receive: direction(client),
            cipher,
            hash: hash_of(suite),
            session,
            kernel: self.server.kernel(),
            early: Some(Box::new(rest)),
        }))
    }

    /// Has rustls look at what waits.
    fn work(&mut self, out: &mut Vec<u8>) -> Outcome {
        let Some(connection) = self.connection.as_mut() else { return Outcome::Failed(Failure::Over) };
        let waiting = &mut self.waiting;
        let mut early = Vec::new();
        let work = || drive(connection, waiting, out, &mut early);
        let (result, differs) = during(&self.hello, &mut self.secrets, &mut self.shown, work);
        debug_assert!(early.is_empty(), "see `goes_early`");
        if differs {
            self.connection = None;
            return Outcome::Failed(Failure::Differs);
        }
        match result {
            Ok(false) => Outcome::Waits,
            Ok(true) => self.over(),
            Err(why) => {
                self.connection = None;
                Outcome::Failed(why)
            }
        }
    }

    /// The handshake is over: what it came to.
    fn over(&mut self) -> Outcome {
        let Some(connection) = self.connection.take() else { return Outcome::Failed(Failure::Over) };
        match self.secured(*connection) {
            Some(secured) => Outcome::Done(Box::new(secured)),
            None => Outcome::Failed(Failure::Over),
        }
    }

    /// What is told of a handshake that is over, or nearly.
    fn session(&self, connection: &UnbufferedServerConnection) -> Option<(Session, SupportedCipherSuite)> {
        let version = match connection.protocol_version()? {
            ProtocolVersion::TLSv1_2 => Version::Tls12,
            ProtocolVersion::TLSv1_3 => Version::Tls13,
            _ => return None,
        };
        let suite = connection.negotiated_cipher_suite()?;
        let chain = connection.peer_certificates().unwrap_or_default();
        let verdict = self.server.clients().map_or(ClientVerdict::NotAsked, |clients| clients.verdict(chain));
        let mut id = [0; 32];
        aws_lc_rs::rand::fill(&mut id).ok()?;
        let session = Session {
            version,
            id,
            suite: suite_name(suite.suite()),
            group: connection.negotiated_key_exchange_group().map_or("", |group| group_name(group.name())),
            protocol: connection.alpn_protocol().map(Into::into),
            server_name: self.hello.server_name.clone(),
            resumed: connection.handshake_kind() == Some(HandshakeKind::Resumed),
            client: chain.iter().map(|one: &CertificateDer<'_>| Box::from(one.as_ref())).collect(),
            verdict,
            offered: self.hello.suites.as_slice().into(),
            groups: self.hello.groups.as_slice().into(),
            early: None,
        };
        Some((session, suite))
    }

    fn secured(&mut self, connection: UnbufferedServerConnection) -> Option<Secured> {
        let (session, suite) = self.session(&connection)?;
        let (secrets, _) = connection.dangerous_into_kernel_connection().ok()?;
        let (cipher, transmit) = direction(secrets.tx, self.secrets.server.take())?;
        let (_, receive) = direction(secrets.rx, self.secrets.client.take())?;
        Some(Secured {
            transmit,
            receive,
            cipher,
            hash: hash_of(suite),
            session,
            kernel: self.server.kernel(),
            early: None,
        })
    }
}

impl EarlyRecords for Acceptor {
    /// What rustls would send is not: all that it has to say was said, but for alerts, which are not its own
    /// to number any more.
    fn on_record(&mut self, one: &[u8], plain: &mut Vec<u8>) -> Result<bool, Failure> {
        self.note(one)?;
        let Some(connection) = self.connection.as_mut() else { return Err(Failure::Over) };
        let (waiting, mut unsent) = (&mut self.waiting, Vec::new());
        let work = || drive(connection, waiting, &mut unsent, plain);
        let (result, _) = wiping::during(|| during(&self.hello, &mut self.secrets, &mut self.shown, work));
        if result == Ok(true) {
            // With what rustls has of keys.
            wiping::during(|| self.connection = None);
        }
        result
    }
}

/// The first record of `bytes`, if it is whole, or is none that may be.
pub(crate) fn record(bytes: &[u8]) -> Option<&[u8]> {
    let [_, _, _, high, low] = bytes.get(..5)? else { return None };
    let length = 5 + usize::from(u16::from_be_bytes([*high, *low]));
    if length > RECORD_MAX { Some(bytes) } else { bytes.get(..length) }
}

/// Has rustls go on as far as it can. Whether the handshake is over.
fn drive(
    connection: &mut UnbufferedServerConnection,
    waiting: &mut Vec<u8>,
    out: &mut Vec<u8>,
    early: &mut Vec<u8>,
) -> Result<bool, Failure> {
    loop {
        let UnbufferedStatus { mut discard, state } = connection.process_tls_records(waiting);
        let mut failed = None;
        let mut result = None;
        match state {
            Ok(ConnectionState::EncodeTlsData(mut data)) => {
                let start = out.len();
                if let Err(EncodeError::InsufficientSize(size)) = data.encode(&mut []) {
                    out.resize(start + size.required_size, 0);
                    if data.encode(&mut out[start..]).is_err() {
                        result = Some(Err(Failure::Over));
                    }
                }
            }
            Ok(ConnectionState::TransmitTlsData(data)) => data.done(),
            Ok(ConnectionState::BlockedHandshake) => result = Some(Ok(false)),
            Ok(ConnectionState::WriteTraffic(_)) => result = Some(Ok(true)),
            Ok(ConnectionState::PeerClosed | ConnectionState::Closed) => result = Some(Err(Failure::Closed)),
            Ok(ConnectionState::ReadEarlyData(mut data)) => {
                while let Some(record) = data.next_record() {
                    match record {
                        Ok(record) => {
                            early.extend_from_slice(record.payload);
                            discard += record.discard;
                        }
                        Err(why) => failed = Some(why),
                    }
                }
            }
            // No record behind the last of the handshake is given to it.
            Ok(_) => result = Some(Err(Failure::Over)),
            Err(why) => failed = Some(why),
        }
        waiting.drain(..discard.min(waiting.len()));
        if let Some(why) = failed {
            let why = Failure::Library(why);
            if why.is_of_certificates() {
                // OpenSSL chooses by suites, and finds none then.
                out.extend_from_slice(&clear_alert(40));
            } else if !alert(connection, out) && is_clear(connection) {
                out.extend_from_slice(&clear_alert(10));
            }
            return Err(why);
        }
        if let Some(result) = result {
            return result;
        }
    }
}

/// Whether an alert is read in clear: until its client has sent Finished, where TLS 1.2 is spoken and it
/// does not go on with a session.
fn is_clear(connection: &UnbufferedServerConnection) -> bool {
    connection.protocol_version() == Some(ProtocolVersion::TLSv1_2)
        && connection.handshake_kind() == Some(HandshakeKind::Full)
}

/// A fatal alert before anything is sealed (RFC 8446 section 6).
const fn clear_alert(description: u8) -> [u8; 7] {
    [21, 3, 3, 0, 2, 2, description]
}

/// What rustls has to say of a failure: whether that is anything.
///
/// It is asked only while it has something: it would go on with the messages that stood
/// behind the one that it failed by, in bytes that are not there, and panic.
fn alert(connection: &mut UnbufferedServerConnection, out: &mut Vec<u8>) -> bool {
    let before = out.len();
    while connection.wants_write()
        && let UnbufferedStatus { state: Ok(ConnectionState::EncodeTlsData(mut data)), .. } =
            connection.process_tls_records(&mut [])
    {
        let start = out.len();
        if let Err(EncodeError::InsufficientSize(size)) = data.encode(&mut []) {
            out.resize(start + size.required_size, 0);
            let _ = data.encode(&mut out[start..]);
        }
    }
    out.len() > before
}

pub(crate) fn direction(
    (sequence, secrets): (u64, ConnectionTrafficSecrets),
    secret: Option<Zeroizing<Vec<u8>>>,
) -> Option<(Cipher, Direction)> {
    let (cipher, key, iv) = match &secrets {
        ConnectionTrafficSecrets::Aes128Gcm { key, iv } => (Cipher::Aes128Gcm, key, iv),
        ConnectionTrafficSecrets::Aes256Gcm { key, iv } => (Cipher::Aes256Gcm, key, iv),
        ConnectionTrafficSecrets::Chacha20Poly1305 { key, iv } => (Cipher::ChaCha20Poly1305, key, iv),
        _ => return None,
    };
    let iv = Zeroizing::new(iv.as_ref().try_into().ok()?);
    Some((cipher, Direction { sequence, key: Zeroizing::new(key.as_ref().to_vec()), iv, secret }))
}

fn cipher_of(suite: SupportedCipherSuite) -> Option<Cipher> {
    let name = suite.suite().as_str().unwrap_or_default();
    [
        ("AES_128_GCM", Cipher::Aes128Gcm),
        ("AES_256_GCM", Cipher::Aes256Gcm),
        ("CHACHA20_POLY1305", Cipher::ChaCha20Poly1305),
    ]
    .into_iter()
    .find_map(|(part, cipher)| name.contains(part).then_some(cipher))
}

fn hash_of(suite: SupportedCipherSuite) -> SuiteHash {
    let name = suite.suite().as_str().unwrap_or_default();
    if name.ends_with("SHA384") { SuiteHash::Sha384 } else { SuiteHash::Sha256 }
}
