//! Keys and secrets, and how the next ones come of them. All are zeroed when they are
//! dropped, and none can be printed.

use crate::contexts::{self, Place};
use crate::ready::Ready;
use crate::suite::{EXPLICIT_LEN, KEY_MAX, NONCE_LEN, RecordCipher, TlsVersion};
use aws_lc_rs::hkdf;
use core::fmt;
use seal::{SealingCipher, SealingKeys};
use zeroize::{Zeroize, Zeroizing};

/// Bytes of the longest traffic secret.
const SECRET_MAX: usize = 48;

/// What seals or opens the records of one direction until the next KeyUpdate: a key, and
/// what record numbers are mixed with to be nonces.
pub struct RecordKeys {
    cipher: RecordCipher,
    key: [u8; KEY_MAX],
    iv: [u8; NONCE_LEN],
    place: Place,
}

impl RecordKeys {
    /// Keys as a handshake gives them. Of GCM in TLS 1.2 `iv` is four bytes of salt and
    /// eight that the record's number is mixed with to stand in the record: whoever sealed
    /// under the key before goes on with the same, so that no nonce comes twice. `None`
    /// if the key is not as long as the cipher's.
    #[must_use]
    pub fn new(cipher: RecordCipher, key: &[u8], iv: [u8; NONCE_LEN]) -> Option<Self> {
        let mut keys = Self { cipher, key: [0; KEY_MAX], iv, place: Place::new() };
        (key.len() == cipher.key_len()).then(|| {
            keys.key[..key.len()].copy_from_slice(key);
            keys
        })
    }

    /// Their cipher.
    #[must_use]
    pub const fn cipher(&self) -> RecordCipher {
        self.cipher
    }

    /// The nonce of a record: its number, in the last eight bytes, mixed with the secret
    /// ones (RFC 8446 section 5.3, RFC 7905 section 2).
    #[inline]
    pub(crate) fn nonce(&self, number: u64) -> RecordNonce {
        let nonce = RecordNonce::of(self.iv);
        RecordNonce { last: nonce.last ^ number.to_be(), ..nonce }
    }

    /// The nonce of a record that bears eight bytes of it (RFC 5288 section 3).
    #[inline]
    pub(crate) fn nonce_with(&self, explicit: [u8; 8]) -> RecordNonce {
        RecordNonce { last: u64::from_ne_bytes(explicit), ..RecordNonce::of(self.iv) }
    }

    /// Has `act` look at the keys, as whoever seals the records from `number` on needs them.
    pub(crate) fn lend<R>(&self, version: TlsVersion, number: u64, act: impl FnOnce(&SealingKeys<'_>) -> R) -> R {
        let mut iv = Zeroizing::new(self.iv);
        if self.cipher.explicit_len(version) > 0 {
            iv[NONCE_LEN - EXPLICIT_LEN..].copy_from_slice(&self.counted_from(number).to_be_bytes());
        }
        act(&SealingKeys {
            version: match version {
                TlsVersion::V12 => 0x0303,
                TlsVersion::V13 => 0x0304,
            },
            cipher: match self.cipher {
                RecordCipher::Aes128Gcm => SealingCipher::Aes128Gcm,
                RecordCipher::Aes256Gcm => SealingCipher::Aes256Gcm,
                RecordCipher::ChaCha20Poly1305 => SealingCipher::ChaCha20Poly1305,
            },
            key: &self.key[..self.cipher.key_len()],
            iv: &iv,
            number,
        })
    }

    /// Where nonces begin that count up, in the part of them that records bear. Those before
    /// were numbers mixed with secret bytes, whose first bit they have: numbers are less than
    /// 2^63. These have the other one, so that none of them comes again.
    fn counted_from(&self, number: u64) -> u64 {
        const FIRST: u64 = 1 << 63;
        let mixed = u64::from_be_bytes(self.nonce(0).explicit());
        (!mixed & FIRST) | (number & !FIRST)
    }

    /// Has `act` work with the key made ready; `None` for want of memory.
    #[inline(always)]
    pub(crate) fn with<R>(&mut self, act: impl FnOnce(&Ready) -> R) -> Option<R> {
        contexts::with(&mut self.place, self.cipher, &self.key, act)
    }

    /// Gives up what was made of the key; it is made again when it is needed.
    pub(crate) fn rest(&mut self) {
        contexts::forget(&self.place);
    }
}

/// A record's nonce, in two words: as twelve bytes it would be handed from hand to hand byte
/// by byte.
#[derive(Clone, Copy)]
pub(crate) struct RecordNonce {
    first: u32,
    last: u64,
}

impl RecordNonce {
    #[inline]
    const fn of([a, b, c, d, rest @ ..]: [u8; NONCE_LEN]) -> Self {
        Self { first: u32::from_ne_bytes([a, b, c, d]), last: u64::from_ne_bytes(rest) }
    }

    /// The bytes of it that a record bears, where it does.
    #[inline]
    pub(crate) const fn explicit(self) -> [u8; EXPLICIT_LEN] {
        self.last.to_ne_bytes()
    }

    /// As ciphers take it.
    #[inline]
    pub(crate) fn bytes(self) -> [u8; NONCE_LEN] {
        let mut bytes = [0; NONCE_LEN];
        bytes[..NONCE_LEN - EXPLICIT_LEN].copy_from_slice(&self.first.to_ne_bytes());
        bytes[NONCE_LEN - EXPLICIT_LEN..].copy_from_slice(&self.last.to_ne_bytes());
        bytes
    }
}

/// Overwrites the stack below the caller, where ciphers leave what they computed of a key:
/// aws-lc copies the table of GHASH there for each record, our own whatever finds no register.
#[inline(never)]
pub(crate) fn wipe_stack() {
    /// Twice what the deepest of those calls takes.
    const DEPTH: usize = 8 * 1024;
    // All at once: `zeroize` writes byte by byte, for 3 us.
    let mut area = [0_u8; DEPTH];
    core::hint::black_box(&mut area);
}

impl Drop for RecordKeys {
    fn drop(&mut self) {
        self.key.zeroize();
        self.iv.zeroize();
        contexts::forget(&self.place);
    }
}

impl fmt::Debug for RecordKeys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RecordKeys").field("cipher", &self.cipher).finish_non_exhaustive()
    }
}

/// A traffic secret of TLS 1.3, of one direction (RFC 8446 section 7.1).
pub struct TrafficSecret {
    cipher: RecordCipher,
    bytes: [u8; SECRET_MAX],
}

impl TrafficSecret {
    /// `None` if it is not as long as the suite's hash gives them.
    #[must_use]
    pub fn new(cipher: RecordCipher, secret: &[u8]) -> Option<Self> {
        let mut own = Self { cipher, bytes: [0; SECRET_MAX] };
        (secret.len() == cipher.secret_len()).then(|| {
            own.bytes[..secret.len()].copy_from_slice(secret);
            own
        })
    }

    /// The keys that it stands for (RFC 8446 section 7.3).
    #[must_use]
    pub fn keys(&self) -> Option<RecordKeys> {
        let (mut key, mut iv) = ([0; KEY_MAX], [0; NONCE_LEN]);
        let key_len = self.cipher.key_len();
        let made = self.expand(b"key", &mut key[..key_len]) && self.expand(b"iv", &mut iv);
        let keys = RecordKeys::new(self.cipher, &key[..key_len], iv).filter(|_| made);
        key.zeroize();
        iv.zeroize();
        keys
    }

    /// Puts the next one in its place, from which it cannot be known (RFC 8446 section 7.2),
    /// and returns what that stands for.
    #[must_use]
    pub fn advance(&mut self) -> Option<RecordKeys> {
        let mut next = [0; SECRET_MAX];
        let made = self.expand(b"traffic upd", &mut next[..self.cipher.secret_len()]);
        if made {
            self.bytes.copy_from_slice(&next);
        }
        next.zeroize();
        self.keys().filter(|_| made)
    }

    /// HKDF-Expand-Label without a context (RFC 8446 section 7.1).
    fn expand(&self, label: &[u8], out: &mut [u8]) -> bool {
        const PREFIX: &[u8] = b"tls13 ";
        let secret = hkdf::Prk::new_less_safe(self.cipher.hash(), &self.bytes[..self.cipher.secret_len()]);
        let len = (out.len() as u16).to_be_bytes();
        let label_len = [(PREFIX.len() + label.len()) as u8];
        let info = [&len[..], &label_len, PREFIX, label, &[0]];
        secret.expand(&info, Length(out.len())).is_ok_and(|made| made.fill(out).is_ok())
    }
}

impl Drop for TrafficSecret {
    fn drop(&mut self) {
        self.bytes.zeroize();
    }
}

impl fmt::Debug for TrafficSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TrafficSecret").field("cipher", &self.cipher).finish_non_exhaustive()
    }
}

struct Length(usize);

impl hkdf::KeyType for Length {
    fn len(&self) -> usize {
        self.0
    }
}
