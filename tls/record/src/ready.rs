//! A key that a cipher has made ready: of GCM by our own, where the processor has what that
//! is written for, else by the library's.

use crate::suite::{NONCE_LEN, RecordCipher, TAG_LEN};
use aws_lc_rs::aead::{Aad, LessSafeKey, Nonce, UnboundKey};

pub(crate) enum Ready {
    Own(Box<gcm::Key>),
    /// Zeroed when it is dropped (`OPENSSL_free`).
    Library(LessSafeKey),
}

impl Ready {
    /// `None` for want of memory.
    pub(crate) fn make(cipher: RecordCipher, key: &[u8]) -> Option<Self> {
        let own = match cipher {
            RecordCipher::Aes128Gcm | RecordCipher::Aes256Gcm => gcm::Key::new(key),
            RecordCipher::ChaCha20Poly1305 => None,
        };
        match own {
            Some(own) => Some(Self::Own(own)),
            None => Some(Self::Library(LessSafeKey::new(UnboundKey::new(cipher.algorithm(), key).ok()?))),
        }
    }

    /// Seals `parts` and `extra` into `out`, which is as long as they and a tag.
    #[inline(always)]
    pub(crate) fn seal(
        &self,
        nonce: &[u8; NONCE_LEN],
        beside: &[u8],
        parts: &[&[u8]],
        extra: &[u8],
        out: &mut [u8],
    ) -> bool {
        match self {
            Self::Own(key) => key.seal(nonce, beside, parts, extra, out),
            Self::Library(key) => {
                let (nonce, beside) = (Nonce::assume_unique_for_key(*nonce), Aad::from(beside));
                let Some(len) = out.len().checked_sub(TAG_LEN + extra.len()) else { return false };
                let (text, tail) = out.split_at_mut(len);
                match parts {
                    [only] => key.seal_out_of_place_scatter(nonce, beside, only, text, extra, tail),
                    several => {
                        gather(several, text);
                        key.seal_in_place_scatter(nonce, beside, text, extra, tail)
                    }
                }
                .is_ok()
            }
        }
    }

    /// Opens `text` where it lies; false if the tag is not its.
    #[inline(always)]
    pub(crate) fn open(&self, nonce: &[u8; NONCE_LEN], beside: &[u8], text: &mut [u8], tag: &[u8; TAG_LEN]) -> bool {
        match self {
            Self::Own(key) => key.open(nonce, beside, text, tag),
            Self::Library(key) => {
                let nonce = Nonce::assume_unique_for_key(*nonce);
                key.open_in_place_separate_tag(nonce, Aad::from(beside), tag, text).is_ok()
            }
        }
    }
}

#[inline]
fn gather(parts: &[&[u8]], out: &mut [u8]) {
    let mut rest = out;
    for part in parts {
        let (here, behind) = rest.split_at_mut(part.len());
        here.copy_from_slice(part);
        rest = behind;
    }
}
