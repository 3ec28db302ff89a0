//! Plaintext from a record.

use crate::alert::Alert;
use crate::keys::{RecordKeys, RecordNonce};
use crate::sealing::{Beside, RECORD_VERSION};
use crate::suite::{EXPLICIT_LEN, TAG_LEN, TlsVersion};
use seal::{HEADER_LEN, MAX_PLAINTEXT};

/// What a record may be longer by than its plaintext (RFC 8446 section 5.2, RFC 5246
/// section 6.2.3).
const EXPANSION_13: usize = 256;
const EXPANSION_12: usize = 2_048;

/// What stands first in what arrived.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Opened {
    /// Not all of a record: this many bytes are it, as far as is known.
    Needs(usize),
    /// A record of so many bytes, of this type; its plaintext was appended.
    Record { consumed: usize, kind: u8 },
}

/// Opens a record: it is the one with this `number` under these keys. Nearly all are TLS 1.3's,
/// which have one form.
#[inline]
pub(crate) fn open(
    keys: &mut RecordKeys,
    version: TlsVersion,
    number: u64,
    input: &[u8],
    plain: &mut Vec<u8>,
) -> Result<Opened, Alert> {
    match version {
        TlsVersion::V13 => open_by(keys, TlsVersion::V13, number, input, plain),
        TlsVersion::V12 => open_12(keys, number, input, plain),
    }
}

#[inline(never)]
fn open_12(keys: &mut RecordKeys, number: u64, input: &[u8], plain: &mut Vec<u8>) -> Result<Opened, Alert> {
    open_by(keys, TlsVersion::V12, number, input, plain)
}

#[inline(always)]
fn open_by(
    keys: &mut RecordKeys,
    version: TlsVersion,
    number: u64,
    input: &[u8],
    plain: &mut Vec<u8>,
) -> Result<Opened, Alert> {
    let Some((header, rest)) = input.split_first_chunk::<HEADER_LEN>() else { return Ok(Opened::Needs(HEADER_LEN)) };
    // A copy: what is decided by it is decided once.
    let header = *header;
    let explicit_len = keys.cipher().explicit_len(version);
    let len = check_header(header, version, explicit_len + TAG_LEN)?;
    let Some(body) = rest.get(..len) else { return Ok(Opened::Needs(HEADER_LEN + len)) };
    let begin = plain.len();
    let (nonce, sealed) = match explicit_len {
        0 => (keys.nonce(number), body),
        _ => match body.split_first_chunk::<EXPLICIT_LEN>() {
            Some((explicit, sealed)) => (keys.nonce_with(*explicit), sealed),
            None => return Err(Alert::BadRecordMac),
        },
    };
    plain.extend_from_slice(sealed);
    match open_copy(keys, version, (number, header, nonce), plain, begin) {
        Ok(kind) => Ok(Opened::Record { consumed: HEADER_LEN + len, kind }),
        Err(alert) => {
            plain.truncate(begin);
            Err(alert)
        }
    }
}

/// Returns how long the record says that it is.
#[inline(always)]
fn check_header(header: [u8; HEADER_LEN], version: TlsVersion, least: usize) -> Result<usize, Alert> {
    let [kind, major, minor, high, low] = header;
    let len = usize::from(u16::from_be_bytes([high, low]));
    match version {
        // Handshakes are over, and with them records in the clear (RFC 8446 section 5).
        TlsVersion::V13 if kind != 23 => return Err(Alert::UnexpectedMessage),
        TlsVersion::V12 if !(21..=23).contains(&kind) => return Err(Alert::UnexpectedMessage),
        // TLS 1.3 ignores the version here (RFC 8446 section 5.1), and authenticates it.
        TlsVersion::V12 if [major, minor] != RECORD_VERSION => return Err(Alert::ProtocolVersion),
        _ => {}
    }
    let expansion = if version == TlsVersion::V13 { EXPANSION_13 } else { EXPANSION_12 };
    if len > MAX_PLAINTEXT + expansion {
        return Err(Alert::RecordOverflow);
    }
    if len < least {
        return Err(Alert::BadRecordMac);
    }
    Ok(len)
}

/// Opens in place what was copied behind `begin`, and leaves the plaintext there.
/// Returns its type.
#[inline(always)]
fn open_copy(
    keys: &mut RecordKeys,
    version: TlsVersion,
    (number, header, nonce): (u64, [u8; HEADER_LEN], RecordNonce),
    plain: &mut Vec<u8>,
    begin: usize,
) -> Result<u8, Alert> {
    let sealed = &mut plain[begin..];
    let (text, tag) = sealed.split_last_chunk_mut::<TAG_LEN>().ok_or(Alert::BadRecordMac)?;
    let len = text.len();
    let beside = Beside::new(version, number, header, len);
    keys.with(|key| key.open(&nonce.bytes(), beside.bytes(), text, tag))
        .ok_or(Alert::InternalError)
        .and_then(|opened| if opened { Ok(()) } else { Err(Alert::BadRecordMac) })?;
    if version == TlsVersion::V12 {
        if len > MAX_PLAINTEXT {
            return Err(Alert::RecordOverflow);
        }
        plain.truncate(begin + len);
        return Ok(header[0]);
    }
    // The last byte that is not zero is the type (RFC 8446 section 5.4).
    if len > MAX_PLAINTEXT + 1 {
        return Err(Alert::RecordOverflow);
    }
    let Some(at) = text.iter().rposition(|byte| *byte != 0) else { return Err(Alert::UnexpectedMessage) };
    let kind = text[at];
    plain.truncate(begin + at);
    Ok(kind)
}
