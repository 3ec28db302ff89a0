//! One handshake, seen from the client.

use crate::acceptor::{RECEIVED_MAX, RECORD_MAX, RECORDS_MAX, direction, record};
use crate::client::{ClientTls, ServerVerdict};
use crate::demand::OwnDemand;
use crate::failure::Failure;
use crate::secured::{Cipher, Direction, Version};
use crate::suites::suite_name;
use record::{Afterwards, Established, Keeper, KeyedWay, RecordKeys, RecordLayer, TlsSide, TlsVersion};
use rustls::client::{ClientConnectionData, UnbufferedClientConnection};
use rustls::kernel::KernelConnection;
use rustls::pki_types::{IpAddr, Ipv4Addr, ServerName};
use rustls::unbuffered::{ConnectionState, EncodeError, UnbufferedStatus};
use rustls::{ConnectionTrafficSecrets, Error, HandshakeKind, ProtocolVersion};
use seal::{Layer, MAX_PLAINTEXT};
use std::sync::Arc;

/// Whom a connection is to lead to.
#[derive(Clone, Debug)]
pub struct Sought {
    /// What is said and done.
    pub tls: Arc<ClientTls>,
    /// The name that the server's certificate is to have, where that matters.
    pub name: Box<[u8]>,
    /// The name that it is told (RFC 6066 section 3), if any.
    pub told: Option<Box<str>>,
    /// What it is shown where that is not what all are, if it asks who we are.
    pub shows: Option<OwnDemand>,
    /// What sessions go on by: the same for all connections to one server, by these names, that are shown
    /// the same.
    pub peer: Box<[u8]>,
}

/// A handshake under way. It is moved to whoever works on it.
pub struct Connector {
    sought: Sought,
    /// None before it began, and once it is over.
    connection: Option<Box<UnbufferedClientConnection>>,
    began: bool,
    /// What rustls still looks at.
    waiting: Vec<u8>,
    received: usize,
    records: u32,
    early: Early,
}

/// What is to be sent before the handshake is over, and what came of it.
#[derive(Default)]
struct Early {
    data: Option<Box<[u8]>>,
    /// So many of its bytes were sent: a server may take less.
    sent: usize,
    accepted: bool,
}

impl core::fmt::Debug for Connector {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Connector").field("received", &self.received).finish_non_exhaustive()
    }
}

/// What came of the bytes that a handshake was given.
#[derive(Debug)]
pub struct ConnectStep {
    /// How many of them it took: whole records from the front.
    pub consumed: usize,
    /// What is to be sent, whatever the outcome.
    pub out: Vec<u8>,
    /// How it goes on.
    pub outcome: ConnectOutcome,
}

/// How a handshake goes on.
#[derive(Debug)]
pub enum ConnectOutcome {
    /// It waits for more from its server.
    Waits,
    /// It is over: what follows is sealed.
    Done(Box<Connected>),
    /// It failed; after what is to be sent, the connection ends.
    Failed(Failure),
}

/// A connection whose handshake is over.
pub struct Connected {
    transmit: Direction,
    receive: Direction,
    cipher: Cipher,
    kernel: Box<KernelConnection<ClientConnectionData>>,
    /// What is told of it.
    pub session: ServerSession,
}

/// No log tells keys.
impl core::fmt::Debug for Connected {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Connected").field("session", &self.session).finish_non_exhaustive()
    }
}

/// What is told of a handshake with a server.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ServerSession {
    /// The version that was agreed on.
    pub version: Version,
    /// The suite.
    pub suite: &'static str,
    /// The protocol above TLS that was agreed on.
    pub protocol: Option<Box<[u8]>>,
    /// Whether it goes on with a session from before.
    pub resumed: bool,
    /// What came of data that was sent before the handshake was over, if any was.
    pub early: Option<EarlySent>,
    /// Whether the server is who it is to be.
    pub verdict: ServerVerdict,
}

/// Data that was sent before its handshake was over.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct EarlySent {
    /// Bytes of it.
    pub bytes: usize,
    /// Whether the server took it; else it read none of it.
    pub accepted: bool,
}

impl Connector {
    /// One that is to be begun by [`Connector::on_bytes`] with no bytes: that makes keys, and
    /// what is to be sent first.
    #[must_use]
    pub const fn new(sought: Sought) -> Self {
        let early = Early { data: None, sent: 0, accepted: false };
        Self { sought, connection: None, began: false, waiting: Vec::new(), received: 0, records: 0, early }
    }

    /// The same, with what is to be sent with its first bytes if it goes on with a session whose server takes
    /// that: whoever sees them may send them again (RFC 8446 section 8).
    #[must_use]
    pub fn with_early(mut self, data: Box<[u8]>) -> Self {
        self.early.data = Some(data);
        self
    }

    /// Bytes of it that were sent with the first.
    #[must_use]
    pub const fn sent_early(&self) -> usize {
        self.early.sent
    }

    /// Whether `bytes`, which begin where the last were consumed up to, hold a whole record: what is to be
    /// worked on.
    #[must_use]
    pub fn has_record(bytes: &[u8]) -> bool {
        is_foreign(bytes) || record(bytes).is_some()
    }

    /// Takes whole records from the front of `bytes`, up to the last of the handshake: no byte
    /// behind it is touched.
    pub fn on_bytes(&mut self, bytes: &[u8]) -> ConnectStep {
        wiping::during(|| self.take(bytes))
    }

    fn take(&mut self, bytes: &[u8]) -> ConnectStep {
        let (mut out, mut consumed) = (Vec::new(), 0);
        if !self.began {
            self.began = true;
            let outcome = self.begin(&mut out);
            return ConnectStep { consumed, out, outcome };
        }
        let outcome = loop {
            let rest = bytes.get(consumed..).unwrap_or_default();
            if is_foreign(rest) {
                self.connection = None;
                break ConnectOutcome::Failed(Failure::Foreign);
            }
            let Some(one) = record(rest) else { break ConnectOutcome::Waits };
            consumed += one.len();
            self.received += one.len();
            self.records += 1;
            if one.len() > RECORD_MAX || self.received > RECEIVED_MAX || self.records > RECORDS_MAX {
                self.connection = None;
                break ConnectOutcome::Failed(Failure::TooLong);
            }
            self.waiting.extend_from_slice(one);
            match self.work(&mut out) {
                ConnectOutcome::Waits => {}
                over => break over,
            }
        };
        ConnectStep { consumed, out, outcome }
    }

    fn begin(&mut self, out: &mut Vec<u8>) -> ConnectOutcome {
        let own = match &self.sought.shows {
            None => None,
            Some(demand) => match demand.source.find(&demand.files) {
                Ok(own) => Some(own),
                Err(why) => return ConnectOutcome::Failed(Failure::Certificates(why.into())),
            },
        };
        let config = self.sought.tls.config_for(&self.sought.peer, own);
        let told = self.sought.told.as_deref().and_then(|name| ServerName::try_from(name).ok());
        // Addresses are told to nobody (RFC 6066 section 3).
        let nobody = ServerName::IpAddress(IpAddr::V4(Ipv4Addr::from([0; 4])));
        let name = told.map_or(nobody, |name| name.to_owned());
        match UnbufferedClientConnection::new(config, name) {
            Ok(connection) => self.connection = Some(Box::new(connection)),
            Err(why) => return ConnectOutcome::Failed(Failure::Library(why)),
        }
        self.work(out)
    }

    /// Has rustls look at what waits.
    fn work(&mut self, out: &mut Vec<u8>) -> ConnectOutcome {
        let Some(connection) = self.connection.as_mut() else { return ConnectOutcome::Failed(Failure::Over) };
        match drive(connection, &mut self.waiting, out, &mut self.early) {
            Ok(false) => ConnectOutcome::Waits,
            Ok(true) => match self.connection.take().and_then(|connection| self.connected(*connection)) {
                Some(connected) => ConnectOutcome::Done(Box::new(connected)),
                None => ConnectOutcome::Failed(Failure::Over),
            },
            Err(why) => {
                self.connection = None;
                ConnectOutcome::Failed(why)
            }
        }
    }

    /// The handshake is over: what it came to.
    fn connected(&self, connection: UnbufferedClientConnection) -> Option<Connected> {
        let version = match connection.protocol_version()? {
            ProtocolVersion::TLSv1_2 => Version::Tls12,
            ProtocolVersion::TLSv1_3 => Version::Tls13,
            _ => return None,
        };
        // Of a session that goes on it is who it was then, and its certificate may have ended.
        let chain = connection.peer_certificates().unwrap_or_default();
        let servers = self.sought.tls.servers.as_ref();
        let session = ServerSession {
            version,
            suite: suite_name(connection.negotiated_cipher_suite()?.suite()),
            protocol: connection.alpn_protocol().map(Into::into),
            resumed: connection.handshake_kind() == Some(HandshakeKind::Resumed),
            early: (self.early.sent > 0).then_some(EarlySent { bytes: self.early.sent, accepted: self.early.accepted }),
            verdict: servers.map_or(ServerVerdict::NotAsked, |servers| servers.verdict(chain, &self.sought.name)),
        };
        let (secrets, kernel) = connection.dangerous_into_kernel_connection().ok()?;
        let (cipher, transmit) = direction(secrets.tx, None)?;
        let (_, receive) = direction(secrets.rx, None)?;
        Some(Connected { transmit, receive, cipher, kernel: Box::new(kernel), session })
    }
}

impl Connected {
    /// What secures the connection from here on, and what is told of that; `None` where keys
    /// are not as long as their ciphers have them.
    #[must_use]
    pub fn into_layer(self) -> Option<(Box<dyn Layer>, ServerSession)> {
        let Self { transmit, receive, cipher, kernel, session } = self;
        let way = |direction: &Direction| {
            let keys = RecordKeys::new(cipher.of_records(), &direction.key, *direction.iv)?;
            Some(KeyedWay { keys, number: direction.sequence })
        };
        let (version, afterwards) = match session.version {
            Version::Tls12 => (TlsVersion::V12, Afterwards::Nothing),
            Version::Tls13 => (TlsVersion::V13, Afterwards::Keeper(Box::new(Kept(kernel)))),
        };
        let established = Established {
            version,
            side: TlsSide::Client,
            sends: way(&transmit)?,
            receives: way(&receive)?,
            afterwards,
            most: MAX_PLAINTEXT,
        };
        Some((Box::new(RecordLayer::new(established)), session))
    }
}

/// Who makes the next keys, and keeps tickets.
struct Kept(Box<KernelConnection<ClientConnectionData>>);

fn next_keys(next: Result<(u64, ConnectionTrafficSecrets), Error>) -> Option<RecordKeys> {
    let (cipher, direction) = direction(next.ok()?, None)?;
    RecordKeys::new(cipher.of_records(), &direction.key, *direction.iv)
}

impl Keeper for Kept {
    fn next_to_send(&mut self) -> Option<RecordKeys> {
        next_keys(self.0.update_tx_secret())
    }

    fn next_to_receive(&mut self) -> Option<RecordKeys> {
        next_keys(self.0.update_rx_secret())
    }

    fn on_ticket(&mut self, body: &[u8]) -> bool {
        self.0.handle_new_session_ticket(body).is_ok()
    }
}

/// Whether these bytes begin no record of TLS: somebody speaks another protocol.
fn is_foreign(bytes: &[u8]) -> bool {
    let kind = bytes.first().is_some_and(|kind| !(20..=24).contains(kind));
    kind || bytes.get(1).is_some_and(|major| *major != 3)
}

/// Has rustls go on as far as it can. Whether the handshake is over.
fn drive(
    connection: &mut UnbufferedClientConnection,
    waiting: &mut Vec<u8>,
    out: &mut Vec<u8>,
    early: &mut Early,
) -> Result<bool, Failure> {
    loop {
        let UnbufferedStatus { discard, state } = connection.process_tls_records(waiting);
        let (mut failed, mut result) = (None, None);
        match state {
            Ok(ConnectionState::EncodeTlsData(mut data)) => {
                let start = out.len();
                if let Err(EncodeError::InsufficientSize(size)) = data.encode(&mut []) {
                    out.resize(start + size.required_size, 0);
                    if data.encode(&mut out[start..]).is_err() {
                        result = Some(Err(Failure::Over));
                    }
                }
                early.accepted |= early.sent > 0 && out[start..].starts_with(&END_OF_EARLY_DATA);
            }
            Ok(ConnectionState::TransmitTlsData(mut data)) => {
                // With the first flight: it is taken, so that it is not sent again.
                if let Some(bytes) = early.data.take()
                    && let Some(mut may) = data.may_encrypt_early_data()
                {
                    let start = out.len();
                    out.resize(start + sealed_length(bytes.len()), 0);
                    let sealed = may.encrypt(&bytes, &mut out[start..]).unwrap_or(0);
                    out.truncate(start + sealed);
                    early.sent = opened_length(sealed);
                }
                data.done();
            }
            Ok(ConnectionState::BlockedHandshake) => result = Some(Ok(false)),
            Ok(ConnectionState::WriteTraffic(_)) => result = Some(Ok(true)),
            Ok(ConnectionState::PeerClosed | ConnectionState::Closed) => result = Some(Err(Failure::Closed)),
            // No record behind the last of the handshake is given to it.
            Ok(_) => result = Some(Err(Failure::Over)),
            Err(why) => failed = Some(why),
        }
        waiting.drain(..discard.min(waiting.len()));
        if let Some(why) = failed {
            alert(connection, out);
            return Err(Failure::Library(why));
        }
        if let Some(result) = result {
            return result;
        }
    }
}

/// How a record with EndOfEarlyData begins (RFC 8446 section 4.5): a message of four bytes, with its type and
/// a tag. No other message is as short as it, and one is sent if the server takes early data and only then;
/// rustls tells whether it does in no other way.
const END_OF_EARLY_DATA: [u8; 5] = [23, 3, 3, 0, 4 + 1 + 16];

/// What a record of TLS 1.3 has beside its data: a header, a type and a tag.
const AROUND: usize = 5 + 1 + 16;

/// How long data is when it is sealed, in records as long as they may be.
const fn sealed_length(data: usize) -> usize {
    data + AROUND * data.div_ceil(MAX_PLAINTEXT)
}

/// How much data is in so many bytes of them.
const fn opened_length(sealed: usize) -> usize {
    sealed - AROUND * sealed.div_ceil(MAX_PLAINTEXT + AROUND)
}

/// What rustls has to say of a failure.
///
/// It is asked only while it has something: it would go on with the messages that stood
/// behind the one that it failed by, in bytes that are not there, and panic.
fn alert(connection: &mut UnbufferedClientConnection, out: &mut Vec<u8>) {
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
}
