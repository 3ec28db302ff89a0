//! A record from plaintext.

use crate::keys::RecordKeys;
use crate::ready::Ready;
use crate::suite::{EXPLICIT_LEN, NONCE_LEN, RecordCipher, TAG_LEN, TlsVersion};
use gcm::Summed;
use seal::{ContentType, HEADER_LEN, MAX_PLAINTEXT, Record, SealError};
use wire::{Sum, checksum};

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

/// Seals into `out`: memory of our own, or, where there is `room`, such as others may read and
/// write meanwhile. The library's ciphers read what they have written, to authenticate it: a
/// record is made in `room` then, and copied. The sum is that of a shared `out` alone.
// Compiled for either memory by itself, and apart for TLS 1.3, whose records have one form and
// are nearly all: nothing is asked of the version then.
#[inline(always)]
pub(crate) fn seal<const SHARED: bool>(
    keys: &mut RecordKeys,
    version: TlsVersion,
    what: (u64, &Record),
    parts: &[&[u8]],
    out: &mut [u8],
    room: Option<&mut [u8]>,
) -> Result<Sum, SealError> {
    match version {
        TlsVersion::V13 => seal_by::<SHARED>(keys, TlsVersion::V13, what, parts, out, room),
        TlsVersion::V12 => seal_12::<SHARED>(keys, what, parts, out, room),
    }
}

#[inline(never)]
fn seal_12<const SHARED: bool>(
    keys: &mut RecordKeys,
    what: (u64, &Record),
    parts: &[&[u8]],
    out: &mut [u8],
    room: Option<&mut [u8]>,
) -> Result<Sum, SealError> {
    seal_by::<SHARED>(keys, TlsVersion::V12, what, parts, out, room)
}

#[inline(always)]
fn seal_by<const SHARED: bool>(
    keys: &mut RecordKeys,
    version: TlsVersion,
    (number, record): (u64, &Record),
    parts: &[&[u8]],
    out: &mut [u8],
    room: Option<&mut [u8]>,
) -> Result<Sum, SealError> {
    let plain = match parts {
        [only] => only.len(),
        several => several.iter().map(|part| part.len()).sum(),
    };
    let padding = if version == TlsVersion::V13 { usize::from(record.padding) } else { 0 };
    let len = overhead(keys.cipher(), version) + plain + padding;
    if plain + padding > MAX_PLAINTEXT || out.len() != len || room.as_ref().is_some_and(|room| room.len() != len) {
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
    let explicit = (keys.cipher().explicit_len(version) > 0).then(|| nonce.explicit());
    let nonce = nonce.bytes();
    let head = Head { header, beside, nonce, explicit, parts, plain };
    let inner = [record.kind as u8];
    let sealed = if padding > 0 {
        seal_padded::<SHARED>(keys, &head, (inner[0], padding), out, room)
    } else {
        let extra = &inner[..usize::from(version == TlsVersion::V13)];
        seal_text::<SHARED, false>(keys, &head, extra, out, room)
    };
    sealed.ok_or(SealError::Cipher)
}

/// A record, but for what follows its plaintext.
struct Head<'a> {
    header: [u8; HEADER_LEN],
    beside: Beside,
    nonce: [u8; NONCE_LEN],
    explicit: Option<[u8; EXPLICIT_LEN]>,
    parts: &'a [&'a [u8]],
    /// Bytes of the parts.
    plain: usize,
}

/// Behind the type stand zeros (RFC 8446 section 5.4).
#[cold]
#[inline(never)]
fn seal_padded<const SHARED: bool>(
    keys: &mut RecordKeys,
    head: &Head<'_>,
    (kind, padding): (u8, usize),
    out: &mut [u8],
    room: Option<&mut [u8]>,
) -> Option<Sum> {
    let mut extra = vec![0; 1 + padding];
    extra[0] = kind;
    seal_text::<SHARED, true>(keys, head, &extra, out, room)
}

/// Seals the parts and `extra` behind them.
// `PADDED` says nothing to it: what asks for a thread's keys is one function for each, which the
// compiler may then put where it is called.
#[inline(always)]
fn seal_text<const SHARED: bool, const PADDED: bool>(
    keys: &mut RecordKeys,
    &Head { header, ref beside, ref nonce, explicit, parts, plain }: &Head<'_>,
    extra: &[u8],
    out: &mut [u8],
    room: Option<&mut [u8]>,
) -> Option<Sum> {
    keys.with(|key| {
        if let (Ready::Own(key), true) = (key, SHARED) {
            let sealed = begin(out, header, explicit);
            let summed = key.seal_summed(nonce, beside.bytes(), parts, extra, sealed)?;
            return Some(sum_of(header, explicit, (summed, plain + extra.len())));
        }
        let (made, slot) = match room {
            Some(room) => (room, Some(out)),
            None => (out, None),
        };
        let sealed = begin(made, header, explicit);
        let sealed = key.seal(nonce, beside.bytes(), parts, extra, sealed);
        sealed.then(|| slot.map_or(Sum::ZERO, |slot| checksum::copy_and_sum(slot, made)))
    })?
}

/// Writes what stands before the sealed text, and returns where that goes.
#[inline(always)]
fn begin(out: &mut [u8], header: [u8; HEADER_LEN], explicit: Option<[u8; EXPLICIT_LEN]>) -> &mut [u8] {
    let (before, sealed) = out.split_at_mut(HEADER_LEN);
    before.copy_from_slice(&header);
    let Some(explicit) = explicit else { return sealed };
    let (before, sealed) = sealed.split_at_mut(EXPLICIT_LEN);
    before.copy_from_slice(&explicit);
    sealed
}

/// The sum of a record whose text has `len` bytes. It begins at an odd place: the header has
/// five bytes, an explicit nonce eight.
#[inline(always)]
fn sum_of(header: [u8; HEADER_LEN], explicit: Option<[u8; EXPLICIT_LEN]>, (text, len): (Summed, usize)) -> Sum {
    let explicit = explicit.map_or(Sum::ZERO, |bytes| Sum::of_array(&bytes));
    let behind = explicit.add(Sum::of_total(text.words)).append(Sum::of_array(&text.tag), len % 2 == 1);
    Sum::of_array(&header).append(behind, true)
}
