//! Against rustls: what we seal, its own record layer opens, and the other way round.

use crate::support::{CIPHERS, End, VERSIONS};
use record::{
    Afterwards, Established, Keeper, KeyedWay, RecordCipher, RecordKeys, RecordLayer, TlsSide, TlsVersion,
    TrafficSecret,
};
use rustls::crypto::aws_lc_rs::{cipher_suite, default_provider};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer, ServerName, UnixTime};
use rustls::{
    ClientConfig, ClientConnection, ConnectionTrafficSecrets, DigitallySignedStruct, Error, ExtractedSecrets, KeyLog,
    ServerConfig, ServerConnection, SignatureScheme, SupportedCipherSuite,
};
use seal::ContentType::{Alert, ApplicationData};
use seal::{Ask, Unsealed};
use std::cell::Cell;
use std::io::{Read, Write};
use std::rc::Rc;
use std::sync::{Arc, Mutex};

/// Some of a record, one, and several.
const LENGTHS: [usize; 5] = [1, 100, 1_370, 16_384, 50_000];

#[test]
fn what_we_seal_is_opened() {
    for (cipher, version) in all() {
        let (mut client, mut server) = Pair::new(cipher, version, 0).our_server();
        for len in LENGTHS {
            for piece in text(len).chunks(16_384) {
                client.take(&server.seal(ApplicationData, piece));
                assert_eq!(client.read(piece.len()), piece, "{cipher:?}, {version:?}");
            }
        }
        let (mut client, mut server) = Pair::new(cipher, version, 0).our_client();
        for len in LENGTHS {
            for piece in text(len).chunks(16_384) {
                server.take(&client.seal(ApplicationData, piece));
                assert_eq!(server.read(piece.len()), piece, "{cipher:?}, {version:?}");
            }
        }
    }
}

#[test]
fn what_it_seals_we_open() {
    for (cipher, version) in all() {
        let (mut client, mut server) = Pair::new(cipher, version, 0).our_server();
        for len in LENGTHS {
            let text = text(len);
            assert_eq!(opened(&mut server, &client.write(&text)), text, "{cipher:?}, {version:?}");
        }
        let (mut client, mut server) = Pair::new(cipher, version, 0).our_client();
        for len in LENGTHS {
            let text = text(len);
            assert_eq!(opened(&mut client, &server.write(&text)), text, "{cipher:?}, {version:?}");
        }
    }
}

#[test]
fn padding_is_opened() {
    for cipher in CIPHERS {
        let (mut client, mut server) = Pair::new(cipher, TlsVersion::V13, 0).our_server();
        for (len, padding) in [(5, 1), (5, 300), (0, 40), (16_000, 384)] {
            let text = text(len);
            client.take(&server.seal_padded(ApplicationData, &text, padding));
            assert_eq!(client.read(len), text);
        }
    }
}

#[test]
fn keys_are_updated_both_ways() {
    for cipher in CIPHERS {
        let (mut client, mut server) = Pair::new(cipher, TlsVersion::V13, 0).our_server();
        for round in 0..5_u8 {
            // Ours, and the peer's answer to it.
            client.take(&server.update(true));
            asked(&mut server, &client.write(b"first"), Ask::Updated);
            // The peer's, and our answer to that.
            client.update();
            asked(&mut server, &client.write(b"first"), Ask::Update);
            client.take(&server.update(false));

            let text = [round; 700];
            client.take(&server.seal(ApplicationData, &text));
            assert_eq!(client.read(700), text);
            assert_eq!(opened(&mut server, &client.write(&text)), text);
        }
    }
}

#[test]
fn an_end_is_told() {
    for (cipher, version) in all() {
        let (mut client, mut server) = Pair::new(cipher, version, 0).our_server();
        client.take(&server.seal(ApplicationData, b"the last"));
        assert!(!client.take(&server.seal(Alert, &seal::message::CLOSE_NOTIFY)), "not closed yet");
        assert!(client.is_closed());
        let (mut client, mut server) = Pair::new(cipher, version, 0).our_server();
        let end = client.close();
        assert_eq!(server.open(&end).0, Unsealed::End { consumed: end.len() });
    }
}

#[test]
fn tickets_are_handed_up() {
    let mut pair = Pair::new(RecordCipher::Aes256Gcm, TlsVersion::V13, 4);
    let tickets = pair.shake_hands();
    let taken = Rc::new(Cell::new(0));
    let (mut client, mut server) = pair.our_client_with(Afterwards::Keeper(Box::new(Counting(Rc::clone(&taken)))));
    let mut rest = &tickets[..];
    while !rest.is_empty() {
        let (unsealed, plain) = client.open(rest);
        let Unsealed::Control { consumed, ask: Ask::Nothing } = unsealed else { panic!("{unsealed:?}") };
        assert!(plain.is_empty());
        rest = &rest[consumed..];
    }
    assert_eq!(taken.get(), 4);
    assert_eq!(opened(&mut client, &server.write(b"and data")), b"and data");
}

#[test]
fn a_client_without_sessions_passes_tickets_over() {
    let mut pair = Pair::new(RecordCipher::Aes128Gcm, TlsVersion::V13, 2);
    let tickets = pair.shake_hands();
    let (mut client, _server) = pair.our_client();
    let (unsealed, plain) = client.open(&tickets);
    assert!(matches!(unsealed, Unsealed::Control { ask: Ask::Nothing, .. }) && plain.is_empty());
}

fn all() -> impl Iterator<Item = (RecordCipher, TlsVersion)> {
    VERSIONS.into_iter().flat_map(|version| CIPHERS.map(|cipher| (cipher, version)))
}

fn text(len: usize) -> Vec<u8> {
    (0..len).map(|at| (at * 31 + at / 251) as u8).collect()
}

fn opened(end: &mut End, mut input: &[u8]) -> Vec<u8> {
    let mut all = Vec::new();
    while !input.is_empty() {
        let (unsealed, plain) = end.open(input);
        let Unsealed::Data { consumed } = unsealed else { panic!("{unsealed:?}") };
        all.extend(plain);
        input = &input[consumed..];
    }
    all
}

/// A KeyUpdate goes before what is written next.
fn asked(end: &mut End, input: &[u8], asks: Ask) {
    let (unsealed, _) = end.open(input);
    let Unsealed::Control { consumed, ask } = unsealed else { panic!("{unsealed:?}") };
    assert_eq!(ask, asks);
    assert_eq!(opened(end, &input[consumed..]), b"first");
}

#[derive(Debug)]
struct Counting(Rc<Cell<u32>>);

impl Keeper for Counting {
    fn next_to_send(&mut self) -> Option<RecordKeys> {
        None
    }
    fn next_to_receive(&mut self) -> Option<RecordKeys> {
        None
    }
    fn on_ticket(&mut self, body: &[u8]) -> bool {
        assert!(body.len() > 40, "a lifetime, a nonce, a ticket");
        self.0.set(self.0.get() + 1);
        true
    }
}

/// rustls on both sides, until one of them is ours.
struct Pair {
    client: ClientConnection,
    server: ServerConnection,
    cipher: RecordCipher,
    version: TlsVersion,
    log: Arc<Log>,
    shaken: bool,
}

/// One of rustls's own.
enum Peer {
    Client(Box<ClientConnection>),
    Server(Box<ServerConnection>),
}

impl Pair {
    fn new(cipher: RecordCipher, version: TlsVersion, tickets: usize) -> Self {
        let mut provider = default_provider();
        provider.cipher_suites = vec![suite(cipher, version)];
        let provider = Arc::new(provider);
        let versions = [match version {
            TlsVersion::V12 => &rustls::version::TLS12,
            TlsVersion::V13 => &rustls::version::TLS13,
        }];
        let log = Arc::new(Log::default());
        let certificate = CertificateDer::from(&include_bytes!("../data/certificate.der")[..]);
        let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(&include_bytes!("../data/key.der")[..]));
        let builder = ServerConfig::builder_with_provider(Arc::clone(&provider)).with_protocol_versions(&versions);
        let builder = builder.expect("versions").with_no_client_auth();
        let mut server = builder.with_single_cert(vec![certificate], key).expect("a certificate");
        server.enable_secret_extraction = true;
        server.send_tls13_tickets = tickets;
        server.key_log = Arc::clone(&log) as Arc<dyn KeyLog>;
        let builder = ClientConfig::builder_with_provider(provider).with_protocol_versions(&versions);
        let builder = builder.expect("versions").dangerous().with_custom_certificate_verifier(Arc::new(Anybody));
        let mut client = builder.with_no_client_auth();
        client.enable_secret_extraction = true;
        let name = ServerName::try_from("localhost").expect("a name");
        Self {
            client: ClientConnection::new(Arc::new(client), name).expect("a client"),
            server: ServerConnection::new(Arc::new(server)).expect("a server"),
            cipher,
            version,
            log,
            shaken: false,
        }
    }

    /// Returns what the server said after the handshake, which the client has not read.
    fn shake_hands(&mut self) -> Vec<u8> {
        self.shaken = true;
        loop {
            let mut bytes = Vec::new();
            while self.client.wants_write() {
                self.client.write_tls(&mut bytes).expect("written");
            }
            feed(&bytes, |input| {
                self.server.read_tls(input).expect("read");
                self.server.process_new_packets().expect("processed");
            });
            let mut bytes = Vec::new();
            while self.server.wants_write() {
                self.server.write_tls(&mut bytes).expect("written");
            }
            if !self.client.is_handshaking() {
                assert!(!self.server.is_handshaking());
                return bytes;
            }
            feed(&bytes, |input| {
                self.client.read_tls(input).expect("read");
                self.client.process_new_packets().expect("processed");
            });
        }
    }

    fn afterwards(&self, side: TlsSide) -> Afterwards {
        if self.version == TlsVersion::V12 {
            return Afterwards::Nothing;
        }
        let secret = |label| TrafficSecret::new(self.cipher, &self.log.secret(label)).expect("a secret");
        let (client, server) = (secret("CLIENT_TRAFFIC_SECRET_0"), secret("SERVER_TRAFFIC_SECRET_0"));
        match side {
            TlsSide::Client => Afterwards::Secrets { sends: client, receives: server },
            TlsSide::Server => Afterwards::Secrets { sends: server, receives: client },
        }
    }

    fn our_server(mut self) -> (Peer, End) {
        let rest = if self.shaken { Vec::new() } else { self.shake_hands() };
        feed(&rest, |input| {
            self.client.read_tls(input).expect("read");
            self.client.process_new_packets().expect("processed");
        });
        let afterwards = self.afterwards(TlsSide::Server);
        let secrets = self.server.dangerous_extract_secrets().expect("secrets");
        (Peer::Client(Box::new(self.client)), layer((self.version, TlsSide::Server), secrets, afterwards))
    }

    fn our_client(self) -> (End, Peer) {
        let mut pair = self;
        if !pair.shaken {
            assert_eq!(pair.shake_hands(), [], "no tickets are wanted");
        }
        let afterwards = pair.afterwards(TlsSide::Client);
        pair.our_client_with(afterwards)
    }

    fn our_client_with(self, afterwards: Afterwards) -> (End, Peer) {
        let secrets = self.client.dangerous_extract_secrets().expect("secrets");
        (layer((self.version, TlsSide::Client), secrets, afterwards), Peer::Server(Box::new(self.server)))
    }
}

fn feed(bytes: &[u8], mut each: impl FnMut(&mut &[u8])) {
    let mut input = bytes;
    while !input.is_empty() {
        each(&mut input);
    }
}

fn layer((version, side): (TlsVersion, TlsSide), secrets: ExtractedSecrets, afterwards: Afterwards) -> End {
    let ExtractedSecrets { tx, rx } = secrets;
    let way = |(number, secrets): (u64, ConnectionTrafficSecrets)| {
        let (cipher, key, iv) = match &secrets {
            ConnectionTrafficSecrets::Aes128Gcm { key, iv } => (RecordCipher::Aes128Gcm, key, iv),
            ConnectionTrafficSecrets::Aes256Gcm { key, iv } => (RecordCipher::Aes256Gcm, key, iv),
            ConnectionTrafficSecrets::Chacha20Poly1305 { key, iv } => (RecordCipher::ChaCha20Poly1305, key, iv),
            _ => panic!("another cipher"),
        };
        let iv = iv.as_ref().try_into().expect("twelve bytes");
        KeyedWay { keys: RecordKeys::new(cipher, key.as_ref(), iv).expect("keys"), number }
    };
    let (sends, receives, most) = (way(tx), way(rx), seal::MAX_PLAINTEXT);
    End::new(RecordLayer::new(Established { version, side, sends, receives, afterwards, most }))
}

impl Peer {
    /// Returns whether it is still open for reading.
    fn take(&mut self, bytes: &[u8]) -> bool {
        let mut open = false;
        feed(bytes, |input| {
            let state = match self {
                Self::Client(peer) => {
                    peer.read_tls(input).expect("read");
                    peer.process_new_packets()
                }
                Self::Server(peer) => {
                    peer.read_tls(input).expect("read");
                    peer.process_new_packets()
                }
            };
            open = !state.expect("processed").peer_has_closed();
        });
        open
    }

    fn read(&mut self, len: usize) -> Vec<u8> {
        let mut plain = vec![0; len];
        match self {
            Self::Client(peer) => peer.reader().read_exact(&mut plain),
            Self::Server(peer) => peer.reader().read_exact(&mut plain),
        }
        .expect("all of it");
        plain
    }

    fn is_closed(&mut self) -> bool {
        let Self::Client(peer) = self else { return false };
        let mut last = Vec::new();
        peer.reader().read_to_end(&mut last).expect("an end that was told");
        last == b"the last"
    }

    fn write(&mut self, text: &[u8]) -> Vec<u8> {
        let mut out = Vec::new();
        match self {
            Self::Client(peer) => {
                peer.set_buffer_limit(None);
                peer.writer().write_all(text).expect("written");
                while peer.wants_write() {
                    peer.write_tls(&mut out).expect("written");
                }
            }
            Self::Server(peer) => {
                peer.set_buffer_limit(None);
                peer.writer().write_all(text).expect("written");
                while peer.wants_write() {
                    peer.write_tls(&mut out).expect("written");
                }
            }
        }
        out
    }

    fn update(&mut self) {
        match self {
            Self::Client(peer) => peer.refresh_traffic_keys(),
            Self::Server(peer) => peer.refresh_traffic_keys(),
        }
        .expect("new keys");
    }

    fn close(&mut self) -> Vec<u8> {
        match self {
            Self::Client(peer) => peer.send_close_notify(),
            Self::Server(peer) => peer.send_close_notify(),
        }
        self.write(&[])
    }
}

fn suite(cipher: RecordCipher, version: TlsVersion) -> SupportedCipherSuite {
    match (version, cipher) {
        (TlsVersion::V13, RecordCipher::Aes128Gcm) => cipher_suite::TLS13_AES_128_GCM_SHA256,
        (TlsVersion::V13, RecordCipher::Aes256Gcm) => cipher_suite::TLS13_AES_256_GCM_SHA384,
        (TlsVersion::V13, RecordCipher::ChaCha20Poly1305) => cipher_suite::TLS13_CHACHA20_POLY1305_SHA256,
        (TlsVersion::V12, RecordCipher::Aes128Gcm) => cipher_suite::TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256,
        (TlsVersion::V12, RecordCipher::Aes256Gcm) => cipher_suite::TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384,
        (TlsVersion::V12, RecordCipher::ChaCha20Poly1305) => {
            cipher_suite::TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256
        }
    }
}

#[derive(Debug, Default)]
struct Log(Mutex<Vec<(String, Vec<u8>)>>);

impl Log {
    fn secret(&self, label: &str) -> Vec<u8> {
        let all = self.0.lock().expect("not poisoned");
        all.iter().find(|(of, _)| of == label).map(|(_, secret)| secret.clone()).expect(label)
    }
}

impl KeyLog for Log {
    fn log(&self, label: &str, _: &[u8], secret: &[u8]) {
        self.0.lock().expect("not poisoned").push((label.to_owned(), secret.to_owned()));
    }
}

/// Takes any certificate: none is looked at here.
#[derive(Debug)]
struct Anybody;

impl rustls::client::danger::ServerCertVerifier for Anybody {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<rustls::client::danger::ServerCertVerified, Error> {
        Ok(rustls::client::danger::ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<rustls::client::danger::HandshakeSignatureValid, Error> {
        Ok(rustls::client::danger::HandshakeSignatureValid::assertion())
    }

    fn verify_tls13_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<rustls::client::danger::HandshakeSignatureValid, Error> {
        Ok(rustls::client::danger::HandshakeSignatureValid::assertion())
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        vec![SignatureScheme::ECDSA_NISTP256_SHA256]
    }
}
