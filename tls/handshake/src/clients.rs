//! Clients' certificates: asked for, held against their signatures by rustls, and verified
//! when the handshake is over, as nginx has it: a client whose certificate is not trusted
//! gets an answer that says so.

use crate::captured;
use crate::tickets::unix_second;
use rustls::client::danger::HandshakeSignatureValid;
use rustls::crypto::WebPkiSupportedAlgorithms;
use rustls::crypto::aws_lc_rs::default_provider;
use rustls::pki_types::{CertificateDer, SubjectPublicKeyInfoDer, UnixTime};
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::{CertificateError, DigitallySignedStruct, DistinguishedName, Error, PeerMisbehaved, SignatureScheme};
use x509::{Certificate, Store, VerifyError};

/// `ssl_verify_client`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ClientMode {
    /// `on`: none is served without a certificate that is trusted.
    Required,
    /// `optional`: one that is there is to be trusted.
    Optional,
    /// `optional_no_ca`: who issued it does not matter.
    OptionalNoAuthority,
}

impl ClientMode {
    pub(crate) const fn name(self) -> &'static [u8] {
        match self {
            Self::Required => b"on",
            Self::Optional => b"optional",
            Self::OptionalNoAuthority => b"optional_no_ca",
        }
    }
}

/// How clients are verified.
#[derive(Debug)]
pub struct Clients {
    /// Whether they have to be.
    pub mode: ClientMode,
    /// Who is trusted (`ssl_client_certificate`, `ssl_trusted_certificate`), and who is not any
    /// more (`ssl_crl`).
    pub store: Store,
    /// Authorities that clients are told of (`ssl_client_certificate`): their names, DER.
    pub authorities: Vec<Vec<u8>>,
    /// `ssl_verify_depth`.
    pub depth: u32,
}

/// What came of a client's certificate.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ClientVerdict {
    /// None was asked for.
    NotAsked,
    /// None was sent.
    None,
    /// It is trusted.
    Trusted,
    /// It is not.
    Refused(VerifyError),
}

impl Clients {
    /// Whether a client with these certificates is trusted now.
    pub(crate) fn verdict(&self, chain: &[CertificateDer<'_>]) -> ClientVerdict {
        if chain.is_empty() {
            return ClientVerdict::None;
        }
        let parsed: Result<Vec<_>, _> = chain.iter().map(|one| Certificate::from_der(one)).collect();
        let now = i64::try_from(unix_second()).unwrap_or(i64::MAX);
        let verified = parsed
            .map_err(|_| VerifyError::UNSPECIFIED)
            .and_then(|chain| self.store.verify_client(&chain, self.depth, now));
        match verified {
            Ok(()) => ClientVerdict::Trusted,
            Err(why) => ClientVerdict::Refused(why),
        }
    }
}

/// What rustls asks: whether certificates are wanted, and whether signatures are right. Who is
/// trusted is found out by [`Clients::verdict`].
#[derive(Debug)]
pub(crate) struct ClientVerifier {
    asks: bool,
    authorities: Vec<DistinguishedName>,
    algorithms: WebPkiSupportedAlgorithms,
}

impl ClientVerifier {
    pub fn new(clients: Option<&Clients>) -> Self {
        let authorities = clients.map(|clients| clients.authorities.as_slice()).unwrap_or_default();
        Self {
            asks: clients.is_some(),
            authorities: authorities.iter().map(|name| DistinguishedName::from(name.clone())).collect(),
            algorithms: default_provider().signature_verification_algorithms,
        }
    }

    /// As [`ClientCertVerifier::verify_tls12_signature`].
    pub fn verify12(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.verify(message, certificate, signed, usize::MAX)
    }

    /// As [`ClientCertVerifier::verify_tls13_signature`].
    pub fn verify13(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        // RFC 8446 section 4.4.3: a scheme names the curve, too, and RSA is PSS.
        let old = matches!(
            signed.scheme,
            SignatureScheme::RSA_PKCS1_SHA256 | SignatureScheme::RSA_PKCS1_SHA384 | SignatureScheme::RSA_PKCS1_SHA512
        );
        if old {
            return Err(PeerMisbehaved::SignedHandshakeWithUnadvertisedSigScheme.into());
        }
        self.verify(message, certificate, signed, 1)
    }

    /// The schemes that are taken.
    pub fn schemes(&self) -> Vec<SignatureScheme> {
        self.algorithms.supported_schemes()
    }

    /// Whether the certificate's key made a signature; of its other fields nothing is asked.
    fn verify(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
        most: usize,
    ) -> Result<HandshakeSignatureValid, Error> {
        let bad = || Error::InvalidCertificate(CertificateError::BadEncoding);
        let certificate = Certificate::from_der(certificate).map_err(|_| bad())?;
        let key = SubjectPublicKeyInfoDer::from(certificate.public_key());
        let key = webpki::RawPublicKeyEntity::try_from(&key).map_err(|_| bad())?;
        let known = self.algorithms.mapping.iter().find(|(scheme, _)| *scheme == signed.scheme);
        let Some((_, algorithms)) = known else {
            return Err(PeerMisbehaved::SignedHandshakeWithUnadvertisedSigScheme.into());
        };
        let is_right = algorithms
            .iter()
            .take(most)
            .any(|algorithm| key.verify_signature(*algorithm, message, signed.signature()).is_ok());
        match is_right {
            true => Ok(HandshakeSignatureValid::assertion()),
            false => Err(Error::InvalidCertificate(CertificateError::BadSignature)),
        }
    }
}

impl ClientCertVerifier for ClientVerifier {
    fn offer_client_auth(&self) -> bool {
        self.asks
    }

    fn client_auth_mandatory(&self) -> bool {
        false
    }

    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        &self.authorities
    }

    fn verify_client_cert(
        &self,
        _end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _now: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        Ok(ClientCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.verify12(&captured::as_sent(message), certificate, signed)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.verify13(message, certificate, signed)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.schemes()
    }
}
