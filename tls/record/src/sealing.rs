//! A record from plaintext.

use crate::keys::RecordKeys;
use crate::suite::{EXPLICIT_LEN, RecordCipher, TAG_LEN, TlsVersion};
use seal::{ContentType, HEADER_LEN, MAX_PLAINTEXT, Record, SealError};

/// The version that records name, whatever it is (RFC 8446 section 5.1).
pub(crate) const RECORD_VERSION: [u8; 2] = [3, 3];

/// Bytes that sealing adds to a record without padding.
pub(crate) const fn overhead(cipher: RecordCipher, version: TlsVersion) -> usize {
    let inner = matches!(version, TlsVersion::V13) as usize;
    HEADER_LEN + cipher.explicit_len(version) + inner + TAG_LEN
}

/// What is authenticated beside a record's bytes: its header (RFC 8446 section 5.2), or
/// its number and a header with the length of the plaintext (RFC 5246 section 6.2.3.3).
pub(crate) enum Beside {
    Header([u8; HEADER_LEN]),
    Numbered([u8; 13]),
}

impl Beside {
    #[inline]
    pub(crate) fn new(version: TlsVersion, number: u64, header: [u8; HEADER_LEN], plain: usize) -> Self {
        if version == TlsVersion::V13 {
            return Self::Header(header);
        }
        let mut bytes = [0; 13];
        bytes[..8].copy_from_slice(&number.to_be_bytes());
        bytes[8..11].copy_from_slice(&header[..3]);
        bytes[11..].copy_from_slice(&(plain as u16).to_be_bytes());
        Self::Numbered(bytes)
    }

    #[inline]
    pub(crate) fn bytes(&self) -> &[u8] {
        match self {
            Self::Header(bytes) => bytes,
            Self::Numbered(bytes) => bytes,
        }
    }
}

/// Seals into memory that nobody else reads or writes meanwhile: the library's ciphers read
/// what they have written, to authenticate it.
#[inline(always)]
pub(crate) fn seal(
    keys: &mut RecordKeys,
    version: TlsVersion,
    (number, record): (u64, &Record),
    parts: &[&[u8]],
    out: &mut [u8],
) -> Result<(), SealError> {
    let plain = match parts {
        [only] => only.len(),
        several => several.iter().map(|part| part.len()).sum(),
    };
    let padding = if version == TlsVersion::V13 { usize::from(record.padding) } else { 0 };
    let len = overhead(keys.cipher(), version) + plain + padding;
    if plain + padding > MAX_PLAINTEXT || out.len() != len {
        return Err(SealError::Length);
    }
    let kind = match version {
        TlsVersion::V13 => ContentType::ApplicationData as u8,
        TlsVersion::V12 => record.kind as u8,
    };
    let [high, low] = ((len - HEADER_LEN) as u16).to_be_bytes();
    let header = [kind, RECORD_VERSION[0], RECORD_VERSION[1], high, low];
    let beside = Beside::new(version, number, header, plain);
    let nonce = keys.nonce(number);
    let explicit = keys.cipher().explicit_len(version);

    out[..HEADER_LEN].copy_from_slice(&header);
    let sealed = &mut out[HEADER_LEN..];
    if explicit > 0 {
        sealed[..EXPLICIT_LEN].copy_from_slice(&nonce.explicit());
    }
    let sealed = &mut sealed[explicit..];
    let inner = [record.kind as u8];
    let extra: &[u8] = if version == TlsVersion::V13 { &inner } else { &[] };
    let nonce = nonce.bytes();
    keys.with(|key| {
        if padding > 0 {
            // Behind the type stand zeros (RFC 8446 section 5.4).
            let mut extra = vec![0; 1 + padding];
            extra[0] = inner[0];
            return key.seal(nonce, beside.bytes(), parts, &extra, sealed);
        }
        key.seal(nonce, beside.bytes(), parts, extra, sealed)
    })
    .is_some_and(|sealed| sealed)
    .then_some(())
    .ok_or(SealError::Cipher)
}
