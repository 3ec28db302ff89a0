//! Private keys.

use crate::error::LibraryError;
use crate::owned::owner;
use aws_lc_sys::{CBS, EVP_PKEY, EVP_PKEY_free, EVP_parse_private_key};
use zeroize::Zeroizing;

owner!(OwnedKey, EVP_PKEY, EVP_PKEY_free);

/// A private key: PKCS#8 (RFC 5208), whatever it was read from. Its bytes are zeroed when
/// it is dropped, and no text of it tells them.
pub struct KeyDer(Zeroizing<Vec<u8>>);

impl core::fmt::Debug for KeyDer {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str("KeyDer")
    }
}

impl KeyDer {
    pub(crate) fn new(bytes: Vec<u8>) -> Self {
        Self(Zeroizing::new(bytes))
    }

    /// Its bytes.
    #[must_use]
    pub fn secret_bytes(&self) -> &[u8] {
        &self.0
    }

    pub(crate) fn parse(&self) -> Result<OwnedKey, LibraryError> {
        let mut bytes = CBS { data: self.0.as_ptr(), len: self.0.len() };
        // SAFETY: so many bytes lie there; what is read is moved over in a place of ours.
        let made = unsafe { EVP_parse_private_key(&raw mut bytes) };
        // SAFETY: it was made for us.
        unsafe { OwnedKey::of(made) }.ok_or_else(LibraryError::take)
    }
}
