//! The seam between what carries a connection's bytes and what secures them:
//! records that are sealed and opened (RFC 8446 section 5, RFC 5246 section 6.2).
//!
//! A data path knows [`Layer`], and no cipher; an implementation knows keys, and
//! no sequence numbers, windows or queues. Call order, for one connection:
//!
//! ```text
//! Net::secure ─► (seal* | open* | next_epoch ─► seal* … ─► forget)*   rest, now and then
//! ```
//!
//! The data path owns what makes sealing safe: a record is fixed when its first byte is
//! sent, so that each `(epoch, number)` is only ever sealed as one kind, with one
//! plaintext and one padding. It may be sealed several times, for a repair: the bytes are
//! the same each time. Numbers of an epoch are given out in order, from zero on.
#![forbid(unsafe_code)]

pub mod message;

use wire::Sum;
use wire::checksum;

/// Most bytes of plaintext in a record (RFC 8446 section 5.1).
pub const MAX_PLAINTEXT: usize = 1 << 14;

/// Most bytes of a record as it is received, its header included: TLS 1.2's expansion is the
/// larger (RFC 5246 section 6.2.3; RFC 8446 section 5.2 has 256 for 2,048).
pub const MAX_SEALED: usize = HEADER_LEN + MAX_PLAINTEXT + 2_048;

/// A record's header: type, version, length.
pub const HEADER_LEN: usize = 5;

/// What a record is for (RFC 8446 section 5.1). A change of cipher spec is only ever
/// received, and means nothing by then.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[repr(u8)]
pub enum ContentType {
    /// An alert.
    Alert = 21,
    /// A message of the handshake protocol: after the handshake, a key update.
    Handshake = 22,
    /// What the application sends.
    ApplicationData = 23,
}

/// One record to be sealed: fixed when its first byte is sent.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Record {
    /// Which of our keys; counts up, modulo 256.
    pub epoch: u8,
    /// Its number under these keys.
    pub number: u64,
    /// What it is for.
    pub kind: ContentType,
    /// Zeros behind its plaintext, sealed with it (RFC 8446 section 5.4); none where
    /// [`Layer::pads`] says so.
    pub padding: u16,
}

/// Why a record could not be sealed, or keys not be had. None of it is the peer's doing.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SealError {
    /// No keys of this epoch: never made, or forgotten.
    Epoch,
    /// The protocol updates no keys (TLS 1.2).
    NoUpdate,
    /// The plaintext is longer than [`Layer::most`], or `out` has another length than the
    /// record.
    Length,
    /// The cipher refused.
    Cipher,
}

impl core::fmt::Display for SealError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(match self {
            Self::Epoch => "the keys of this epoch are not there",
            Self::NoUpdate => "this version of TLS updates no keys",
            Self::Length => "the record and its room differ in length",
            Self::Cipher => "the cipher refused",
        })
    }
}

impl core::error::Error for SealError {}

/// What stood first in what was to be opened.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Unsealed {
    /// No whole record yet: nothing was taken, and so many bytes from the front on are
    /// needed before another try. More than there are, and at most [`MAX_SEALED`].
    Needs(usize),
    /// A record of application data: its plaintext, which may be empty, was appended.
    Data {
        /// Its bytes, as they came.
        consumed: usize,
    },
    /// A record for the layer itself, which has taken it: a ticket, a change of cipher spec,
    /// a part of a message, a warning. How many of them may follow one another is the layer's to
    /// limit: it alone tells a message in many parts from many messages.
    Control {
        /// Its bytes, as they came.
        consumed: usize,
        /// What the data path is to do about it.
        ask: Ask,
    },
    /// The peer sends no more: close_notify (RFC 8446 section 6.1).
    End {
        /// Its bytes, as they came.
        consumed: usize,
    },
    /// Nothing that follows can be opened. This alert is due, if any: none where the peer
    /// sent a fatal one itself (RFC 8446 section 6.2).
    Failed(Option<u8>),
}

/// What a record of the layer's own asks of the data path.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Ask {
    /// Nothing.
    Nothing,
    /// The peer has new keys, which are in use already (RFC 8446 section 4.6.3); it wants
    /// no answer.
    Updated,
    /// The same, and it wants us to update ours: [`Layer::next_epoch`].
    Update,
    /// It wants a handshake anew, which it is to be told that there will not be:
    /// [`message::NO_RENEGOTIATION`].
    Refuse,
}

/// What seals a connection's records from one of them on, as it is lent to whoever seals them
/// in the layer's place: a kernel, or a network card.
pub struct SealingKeys<'a> {
    /// The version, as records of the handshake name it: 0x0303 for TLS 1.2, 0x0304 for 1.3.
    pub version: u16,
    /// The cipher.
    pub cipher: SealingCipher,
    /// Its key.
    pub key: &'a [u8],
    /// Of AES-GCM in TLS 1.2 four bytes that every nonce begins with, and eight that count up
    /// from here on, in the place of the record's number; else what numbers are mixed with.
    pub iv: &'a [u8; 12],
    /// The number of the first record.
    pub number: u64,
}

/// A cipher that others seal by, too.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SealingCipher {
    /// AES-128-GCM.
    Aes128Gcm,
    /// AES-256-GCM.
    Aes256Gcm,
    /// ChaCha20-Poly1305.
    ChaCha20Poly1305,
}

/// No log tells keys.
impl core::fmt::Debug for SealingKeys<'_> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("SealingKeys")
            .field("cipher", &self.cipher)
            .field("number", &self.number)
            .finish_non_exhaustive()
    }
}

/// What secures one connection, both ways. Boxed, one for each connection, after its
/// handshake; the keys that both sides begin with have the epoch 0.
pub trait Layer {
    /// Bytes that sealing adds to a record: header, explicit nonce, inner type, tag. The same
    /// for all records of a connection.
    fn overhead(&self) -> usize;

    /// Most bytes of plaintext in a record, padding included; from 64 to [`MAX_PLAINTEXT`].
    fn most(&self) -> usize {
        MAX_PLAINTEXT
    }

    /// Whether records can have padding.
    fn pads(&self) -> bool {
        false
    }

    /// Whether [`Layer::next_epoch`] makes keys: TLS 1.3 does, the default.
    fn updates_keys(&self) -> bool {
        true
    }

    /// Most records under one key; the data path updates it before, or ends the connection
    /// where it cannot be. 2^24 by default: RFC 8446 section 5.5 has 2^24.5 full ones for
    /// AES-GCM.
    fn most_records(&self) -> u64 {
        1 << 24
    }

    /// Seals `parts`, one behind the other, as `record` into `out`, which has just their
    /// bytes, the padding's and the overhead. `out` is memory of our own, which nobody else
    /// reads or writes meanwhile. The same record and parts give the same bytes.
    ///
    /// # Errors
    /// See [`SealError`]; what stands in `out` is then not to be sent.
    fn seal(&mut self, record: &Record, parts: &[&[u8]], out: &mut [u8]) -> Result<(), SealError>;

    /// Seals as [`Layer::seal`] does, into memory that others may read and write meanwhile,
    /// and sums what is written there. Nothing but finished bytes is ever written to `out`, and
    /// nothing is read from it; `room` is memory of our own, as long, in which a record may be
    /// made first.
    ///
    /// # Errors
    /// As [`Layer::seal`]; what stands in `out` is then not to be sent.
    #[inline]
    fn seal_shared(
        &mut self,
        record: &Record,
        parts: &[&[u8]],
        out: &mut [u8],
        room: &mut [u8],
    ) -> Result<Sum, SealError> {
        if out.len() != room.len() {
            return Err(SealError::Length);
        }
        self.seal(record, parts, room)?;
        Ok(checksum::copy_and_sum(out, room))
    }

    /// Makes the next transmit keys: the data path has sent the message that says so
    /// ([`message::KEY_UPDATE`]), and what follows is sealed under the epoch that is
    /// returned, from number 0 on. The keys before live until [`Layer::forget`], and are
    /// forgotten before the next ones are made: there are never more than two.
    ///
    /// # Errors
    /// [`SealError::NoUpdate`].
    fn next_epoch(&mut self) -> Result<u8, SealError>;

    /// All that was sealed under this epoch is acknowledged, and nothing more will be.
    fn forget(&mut self, epoch: u8);

    /// Lends `take` the keys of `epoch`, the newest, for the records from `number` on, and
    /// forgets them if it takes them: from then on nothing is sealed here. Every record
    /// before was sealed, and is not sealed again. Returns whether it did; a layer that
    /// keeps its keys to itself, the default, never asks.
    fn hand_over(&mut self, epoch: u8, number: u64, take: &mut dyn FnMut(&SealingKeys<'_>) -> bool) -> bool {
        let _ = (epoch, number, take);
        false
    }

    /// Opens what stands first in `input`, and appends its plaintext, if it is for the
    /// application, to `plain`; where it fails, `plain` is as it was. `input` may be memory
    /// that the peer still writes to: each byte of it is read once, its header first, and
    /// what is decided or opened is a copy.
    fn open(&mut self, input: &[u8], plain: &mut Vec<u8>) -> Unsealed;

    /// The connection has been quiet for a while: what can be made again from the keys may
    /// be given up until it is needed.
    fn rest(&mut self) {}
}
