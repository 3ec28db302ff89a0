//! Why a handshake fails, in OpenSSL's words, which nginx logs.

use core::fmt;
use rustls::{AlertDescription, Error, PeerIncompatible};

/// Why a handshake failed.
#[derive(Clone, PartialEq, Debug)]
pub enum Failure {
    /// What rustls says of it.
    Library(Error),
    /// The ClientHello that the server was chosen by is not the one that rustls read.
    Differs,
    /// The server ends all handshakes (`ssl_reject_handshake`).
    Rejected,
    /// No certificate could be had to be shown, as the error log tells it.
    Certificates(Box<str>),
    /// The client sent more than a handshake takes.
    TooLong,
    /// What the server sends is no TLS.
    Foreign,
    /// The client said that it sends no more.
    Closed,
    /// There is no handshake any more, or it cannot be gone on with.
    Over,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Library(why) => library(why, f),
            Self::Differs => f.write_str("error:0A00009F:SSL routines::length mismatch"),
            Self::Foreign => f.write_str("error:0A00010B:SSL routines::wrong version number"),
            Self::Rejected => f.write_str("error:0A0000EA:SSL routines::callback failed"),
            Self::Certificates(why) => f.write_str(why),
            Self::TooLong => f.write_str("error:0A000098:SSL routines::excessive message size"),
            Self::Closed => f.write_str("peer closed connection in SSL handshake"),
            Self::Over => f.write_str("internal error"),
        }
    }
}

impl Failure {
    /// Whether no certificate is there that its client could take.
    pub(crate) fn is_of_certificates(&self) -> bool {
        matches!(self, Self::Library(why) if is_of_certificates(why))
    }
}

fn is_of_certificates(why: &Error) -> bool {
    matches!(why, Error::General(text) if text.contains("no server certificate chain resolved"))
}

fn library(why: &Error, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let (number, reason) = match why {
        Error::AlertReceived(alert) => {
            let number = u8::from(*alert);
            return write!(
                f,
                "error:0A{:06X}:SSL routines::{}:SSL alert number {number}",
                1_000 + u32::from(number),
                alert_name(*alert)
            );
        }
        Error::NoApplicationProtocol => (235, "no application protocol"),
        Error::PeerIncompatible(why) => match why {
            PeerIncompatible::NoCipherSuitesInCommon => (193, "no shared cipher"),
            PeerIncompatible::NoKxGroupsInCommon | PeerIncompatible::NamedGroupsExtensionRequired => {
                (101, "no suitable key share")
            }
            PeerIncompatible::NoSignatureSchemesInCommon | PeerIncompatible::SignatureAlgorithmsExtensionRequired => {
                (118, "no suitable signature algorithm")
            }
            PeerIncompatible::Tls12NotOffered
            | PeerIncompatible::Tls12NotOfferedOrEnabled
            | PeerIncompatible::Tls13RequiredForQuic
            | PeerIncompatible::ServerDoesNotSupportTls12Or13
            | PeerIncompatible::ServerTlsVersionIsDisabledByOurConfig
            | PeerIncompatible::SupportedVersionsExtensionRequired => (258, "unsupported protocol"),
            PeerIncompatible::NullCompressionRequired => (341, "invalid compression algorithm"),
            _ => return write!(f, "{why:?}"),
        },

        Error::DecryptError => (281, "decryption failed or bad record mac"),
        Error::InappropriateMessage { .. } | Error::InappropriateHandshakeMessage { .. } => (244, "unexpected message"),
        Error::InvalidMessage(_) => (159, "length mismatch"),
        _ if is_of_certificates(why) => (193, "no shared cipher"),
        _ => return write!(f, "{why}"),
    };
    write!(f, "error:0A{number:06X}:SSL routines::{reason}")
}

/// OpenSSL's name for an alert that came.
fn alert_name(alert: AlertDescription) -> &'static str {
    match alert {
        AlertDescription::CloseNotify => "close notify",
        AlertDescription::UnexpectedMessage => "sslv3 alert unexpected message",
        AlertDescription::BadRecordMac => "sslv3 alert bad record mac",
        AlertDescription::DecryptionFailed => "tlsv1 alert decryption failed",
        AlertDescription::RecordOverflow => "tlsv1 alert record overflow",
        AlertDescription::HandshakeFailure => "sslv3 alert handshake failure",
        AlertDescription::BadCertificate => "sslv3 alert bad certificate",
        AlertDescription::UnsupportedCertificate => "sslv3 alert unsupported certificate",
        AlertDescription::CertificateRevoked => "sslv3 alert certificate revoked",
        AlertDescription::CertificateExpired => "sslv3 alert certificate expired",
        AlertDescription::CertificateUnknown => "sslv3 alert certificate unknown",
        AlertDescription::IllegalParameter => "sslv3 alert illegal parameter",
        AlertDescription::UnknownCA => "tlsv1 alert unknown ca",
        AlertDescription::AccessDenied => "tlsv1 alert access denied",
        AlertDescription::DecodeError => "tlsv1 alert decode error",
        AlertDescription::DecryptError => "tlsv1 alert decrypt error",
        AlertDescription::ProtocolVersion => "tlsv1 alert protocol version",
        AlertDescription::InsufficientSecurity => "tlsv1 alert insufficient security",
        AlertDescription::InternalError => "tlsv1 alert internal error",
        AlertDescription::UserCanceled => "tlsv1 alert user cancelled",
        AlertDescription::NoRenegotiation => "tlsv1 alert no renegotiation",
        AlertDescription::MissingExtension => "tlsv13 alert missing extension",
        AlertDescription::UnsupportedExtension => "tlsv1 unsupported extension",
        AlertDescription::UnrecognisedName => "tlsv1 unrecognized name",
        AlertDescription::CertificateRequired => "tlsv13 alert certificate required",
        AlertDescription::NoApplicationProtocol => "tlsv1 alert no application protocol",
        _ => "unknown alert type",
    }
}
