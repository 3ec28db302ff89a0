//! Which cipher, and of which version a connection's records are.

use aws_lc_rs::{aead, hkdf};

/// The version that a connection agreed on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TlsVersion {
    /// RFC 5246.
    V12,
    /// RFC 8446.
    V13,
}

/// The authenticated cipher of a connection's records.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RecordCipher {
    /// AES-128-GCM (RFC 5288, RFC 8446 section B.4).
    Aes128Gcm,
    /// AES-256-GCM.
    Aes256Gcm,
    /// ChaCha20-Poly1305 (RFC 7905, RFC 8446 section B.4).
    ChaCha20Poly1305,
}

/// Bytes of the longest key.
pub(crate) const KEY_MAX: usize = 32;

/// Bytes of a nonce, of every cipher here.
pub(crate) const NONCE_LEN: usize = 12;

/// Bytes of a tag, of every cipher here.
pub(crate) const TAG_LEN: usize = 16;

/// Bytes of a nonce that stand in a record (RFC 5288 section 3).
pub(crate) const EXPLICIT_LEN: usize = 8;

/// Records that one key of GCM may seal: RFC 8446 section 5.5 has 2^24.5 of them, full
/// ones, leave an attacker a chance of 2^-57.
pub(crate) const GCM_RECORDS_MAX: u64 = 1 << 24;

impl RecordCipher {
    /// Bytes of its key.
    #[must_use]
    pub const fn key_len(self) -> usize {
        match self {
            Self::Aes128Gcm => 16,
            Self::Aes256Gcm | Self::ChaCha20Poly1305 => 32,
        }
    }

    /// Records that one key may seal.
    #[must_use]
    pub const fn records_max(self) -> u64 {
        match self {
            Self::Aes128Gcm | Self::Aes256Gcm => GCM_RECORDS_MAX,
            // None but that numbers do not come round (RFC 8446 section 5.5).
            Self::ChaCha20Poly1305 => u64::MAX,
        }
    }

    /// Bytes of each nonce that stand in the record: of GCM in TLS 1.2 alone.
    pub(crate) const fn explicit_len(self, version: TlsVersion) -> usize {
        match (version, self) {
            (TlsVersion::V12, Self::Aes128Gcm | Self::Aes256Gcm) => EXPLICIT_LEN,
            _ => 0,
        }
    }

    pub(crate) fn algorithm(self) -> &'static aead::Algorithm {
        match self {
            Self::Aes128Gcm => &aead::AES_128_GCM,
            Self::Aes256Gcm => &aead::AES_256_GCM,
            Self::ChaCha20Poly1305 => &aead::CHACHA20_POLY1305,
        }
    }

    /// The hash of TLS 1.3's suite with this cipher (RFC 8446 section B.4).
    pub(crate) const fn hash(self) -> hkdf::Algorithm {
        match self {
            Self::Aes256Gcm => hkdf::HKDF_SHA384,
            Self::Aes128Gcm | Self::ChaCha20Poly1305 => hkdf::HKDF_SHA256,
        }
    }

    /// Bytes of what that hash gives, and of a traffic secret.
    #[must_use]
    pub const fn secret_len(self) -> usize {
        match self {
            Self::Aes256Gcm => 48,
            Self::Aes128Gcm | Self::ChaCha20Poly1305 => 32,
        }
    }
}
