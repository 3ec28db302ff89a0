//! The keys of a test, from its token.

use aws_lc_rs::hkdf::{HKDF_SHA256, KeyType, Salt};
use aws_lc_rs::signature::{Ed25519KeyPair, KeyPair};
use core::fmt;
use messages::Token;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::aws_lc_rs::{default_provider, sign::any_eddsa_type};
use rustls::crypto::{CryptoProvider, verify_tls13_signature_with_raw_key};
use rustls::pki_types::{CertificateDer, PrivatePkcs8KeyDer, ServerName, SubjectPublicKeyInfoDer, UnixTime};
use rustls::server::AlwaysResolvesServerRawPublicKeys;
use rustls::sign::CertifiedKey;
use rustls::version::TLS13;
use rustls::{CertificateError, ClientConfig, DigitallySignedStruct, Error, ServerConfig, SignatureScheme};
use std::io;
use std::sync::Arc;

/// What the keys of this exchange are for, and of no other.
const SALT: &[u8] = b"nearside cluster 2";

/// What stands before the seed of an Ed25519 key in PKCS #8 (RFC 8410 section 7).
const PKCS8: [u8; 16] =
    [0x30, 0x2e, 0x02, 0x01, 0x00, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70, 0x04, 0x22, 0x04, 0x20];

/// What stands before an Ed25519 public key as a SubjectPublicKeyInfo (RFC 8410 section 4).
const SPKI: [u8; 12] = [0x30, 0x2a, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70, 0x03, 0x21, 0x00];

/// A seed's length.
const SEED: usize = 32;

/// A public key's length.
const KEY: usize = 32;

/// The keys of one test, for both ends.
#[derive(Clone)]
pub struct Keys {
    known: ControllerKey,
    server: Arc<ServerConfig>,
}

/// The public key of a controller, for who takes that one alone, and could not be it.
#[derive(Clone)]
pub struct ControllerKey {
    public: [u8; KEY],
    client: Arc<ClientConfig>,
}

impl Keys {
    /// Those that a token comes to.
    ///
    /// # Errors
    /// If the library has no such keys.
    pub fn of(token: &Token) -> io::Result<Self> {
        let mut seed = [0; SEED];
        let secret = Salt::new(HKDF_SHA256, SALT).extract(token.text().as_bytes());
        let filled = secret.expand(&[b"controller"], SeedLength).and_then(|bytes| bytes.fill(&mut seed));
        filled.map_err(|_| io::Error::other("no key comes of the token"))?;
        let pair = Ed25519KeyPair::from_seed_unchecked(&seed).map_err(io::Error::other)?;
        let bare: [u8; KEY] = pair.public_key().as_ref().try_into().map_err(io::Error::other)?;
        let public = subject_public_key(&bare);
        let private = PrivatePkcs8KeyDer::from([&PKCS8[..], &seed].concat());
        let signing = any_eddsa_type(&private).map_err(io::Error::other)?;
        let shown = CertifiedKey::new(vec![CertificateDer::from(public)], signing);
        let mut server = ServerConfig::builder_with_provider(Arc::new(default_provider()))
            .with_protocol_versions(&[&TLS13])
            .map_err(io::Error::other)?
            .with_no_client_auth()
            .with_cert_resolver(Arc::new(AlwaysResolvesServerRawPublicKeys::new(Arc::new(shown))));
        // A connection that is made anew is made whole.
        server.send_tls13_tickets = 0;
        Ok(Self { known: ControllerKey::new(bare)?, server: Arc::new(server) })
    }

    /// What alone others have to know of it.
    #[must_use]
    pub fn controller_key(&self) -> &ControllerKey {
        &self.known
    }

    pub(crate) fn server(&self) -> &Arc<ServerConfig> {
        &self.server
    }
}

impl AsRef<ControllerKey> for Keys {
    fn as_ref(&self) -> &ControllerKey {
        &self.known
    }
}

impl AsRef<ControllerKey> for ControllerKey {
    fn as_ref(&self) -> &ControllerKey {
        self
    }
}

impl ControllerKey {
    fn new(public: [u8; KEY]) -> io::Result<Self> {
        let provider = Arc::new(default_provider());
        let mut client = ClientConfig::builder_with_provider(Arc::clone(&provider))
            .with_protocol_versions(&[&TLS13])
            .map_err(io::Error::other)?
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(OnlyKey { public: subject_public_key(&public), provider }))
            .with_no_client_auth();
        client.enable_sni = false;
        client.resumption = rustls::client::Resumption::disabled();
        Ok(Self { public, client: Arc::new(client) })
    }

    /// Reads one that was written by [`Self::text`].
    ///
    /// # Errors
    /// If it is none.
    pub fn read(text: &str) -> io::Result<Self> {
        let is_one = text.len() == 2 * KEY && text.bytes().all(|byte| byte.is_ascii_hexdigit());
        let mut public = [0; KEY];
        for (at, byte) in public.iter_mut().enumerate() {
            let digits = text.get(2 * at..2 * at + 2).filter(|_| is_one).unwrap_or_default();
            let why = || io::Error::new(io::ErrorKind::InvalidData, "it is no public key");
            *byte = u8::from_str_radix(digits, 16).map_err(|_| why())?;
        }
        Self::new(public)
    }

    /// As it is handed to who is to know it: 64 hexadecimal digits.
    #[must_use]
    pub fn text(&self) -> String {
        self.public.iter().map(|byte| format!("{byte:02x}")).collect()
    }

    pub(crate) fn client(&self) -> &Arc<ClientConfig> {
        &self.client
    }

    /// The name of the other side, which nobody is told: the key alone says who it is.
    #[expect(clippy::unused_self, reason = "it belongs to the keys")]
    pub(crate) fn name(&self) -> ServerName<'static> {
        match ServerName::try_from("controller.invalid") {
            Ok(name) => name,
            Err(_) => unreachable!("it is a name"),
        }
    }
}

impl fmt::Debug for Keys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Keys")
    }
}

impl fmt::Debug for ControllerKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ControllerKey")
    }
}

/// A bare key as a connection shows it.
fn subject_public_key(bare: &[u8; KEY]) -> Vec<u8> {
    [&SPKI[..], bare].concat()
}

#[derive(Clone, Copy)]
struct SeedLength;

impl KeyType for SeedLength {
    fn len(&self) -> usize {
        SEED
    }
}

/// Takes one public key, and no other.
struct OnlyKey {
    public: Vec<u8>,
    provider: Arc<CryptoProvider>,
}

impl fmt::Debug for OnlyKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("OnlyKey")
    }
}

impl ServerCertVerifier for OnlyKey {
    fn verify_server_cert(
        &self,
        shown: &CertificateDer<'_>,
        _above: &[CertificateDer<'_>],
        _name: &ServerName<'_>,
        _stapled: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let is_it = shown.as_ref() == self.public;
        if is_it { Ok(ServerCertVerified::assertion()) } else { Err(CertificateError::UnknownIssuer.into()) }
    }

    fn verify_tls12_signature(
        &self,
        _message: &[u8],
        _shown: &CertificateDer<'_>,
        _signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Err(CertificateError::BadSignature.into())
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        shown: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let key = SubjectPublicKeyInfoDer::from(shown.as_ref());
        verify_tls13_signature_with_raw_key(message, &key, signed, &self.provider.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        vec![SignatureScheme::ED25519]
    }

    fn requires_raw_public_keys(&self) -> bool {
        true
    }
}
