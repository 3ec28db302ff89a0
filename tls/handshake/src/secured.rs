//! What a handshake comes to.

use crate::clients::ClientVerdict;
use crate::early::EarlyRecords;
use core::sync::atomic::AtomicBool;
use std::sync::Arc;
use zeroize::Zeroizing;

/// A version of TLS.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Version {
    /// 1.2 (RFC 5246).
    Tls12,
    /// 1.3 (RFC 8446).
    Tls13,
}

impl Version {
    /// As OpenSSL tells it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Tls12 => "TLSv1.2",
            Self::Tls13 => "TLSv1.3",
        }
    }
}

/// What seals records.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Cipher {
    /// AES-128-GCM.
    Aes128Gcm,
    /// AES-256-GCM.
    Aes256Gcm,
    /// ChaCha20-Poly1305.
    ChaCha20Poly1305,
}

/// The hash of a suite, which keys are derived with.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SuiteHash {
    /// SHA-256.
    Sha256,
    /// SHA-384.
    Sha384,
}

/// What one direction is sealed with, from the next record on.
pub struct Direction {
    /// The number of that record.
    pub sequence: u64,
    /// The key.
    pub key: Zeroizing<Vec<u8>>,
    /// The initialization vector: with TLS 1.2 and AES-GCM its first four bytes count, to which each record
    /// adds eight of its own.
    pub iv: Zeroizing<[u8; 12]>,
    /// What the next key is derived from (RFC 8446 section 7.2); none with TLS 1.2.
    pub secret: Option<Zeroizing<Vec<u8>>>,
}

/// No log tells keys.
impl core::fmt::Debug for Direction {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Direction").field("sequence", &self.sequence).finish_non_exhaustive()
    }
}

/// A connection whose handshake is over.
pub struct Secured {
    /// What we send.
    pub transmit: Direction,
    /// What the client sends.
    pub receive: Direction,
    /// What both are sealed with.
    pub cipher: Cipher,
    /// What keys are derived with.
    pub hash: SuiteHash,
    /// What is told of it.
    pub session: Session,
    /// Whether whoever seals in our place may have the keys.
    pub kernel: bool,
    /// What its client sends before its handshake is over is opened by this.
    pub(crate) early: Option<Box<dyn EarlyRecords>>,
}

impl core::fmt::Debug for Secured {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Secured").field("cipher", &self.cipher).field("session", &self.session).finish_non_exhaustive()
    }
}

/// What is told of a connection's handshake.
#[derive(Clone, Debug)]
pub struct Session {
    /// `$ssl_protocol`
    pub version: Version,
    /// `$ssl_cipher`
    pub suite: &'static str,
    /// `$ssl_curve`
    pub group: &'static str,
    /// The protocol above TLS that was agreed on.
    pub protocol: Option<Box<[u8]>>,
    /// The name that was asked for.
    pub server_name: Option<Box<str>>,
    /// A number of its own, which nobody can guess and nothing follows from.
    pub id: [u8; 32],
    /// Whether it goes on with a session from before.
    pub resumed: bool,
    /// The certificates that the client sent, DER, its own first.
    pub client: Box<[Box<[u8]>]>,
    /// Whether it is trusted.
    pub verdict: ClientVerdict,
    /// Suites that the client offered, by number.
    pub offered: Box<[u16]>,
    /// Groups that it offered, by number.
    pub groups: Box<[u16]>,
    /// Where data may have come before the handshake was over: whether it is now.
    pub early: Option<Arc<AtomicBool>>,
}
