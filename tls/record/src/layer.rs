//! One connection's records, both ways.

use crate::alert::{self, Alert, AlertMeaning};
use crate::keys::{RecordKeys, TrafficSecret};
use crate::messages::{Message, Messages, TlsSide};
use crate::opening::{self, Opened};
use crate::sealing;
use crate::suite::TlsVersion;
use core::fmt;
use seal::{Ask, ContentType, Layer, MAX_PLAINTEXT, Record, SealError, SealingKeys, Unsealed};
use wire::Sum;

/// Records and messages in a row without a byte for the application: empty ones,
/// warnings, tickets, KeyUpdates, requests to renegotiate. One more ends the connection.
pub const WITHOUT_DATA_MAX: u8 = 32;

/// The least that a peer may limit records to (RFC 8449 section 4).
const RECORD_LIMIT_MIN: usize = 64;

/// The keys of one direction when the handshake is over.
#[derive(Debug)]
pub struct KeyedWay {
    /// What seals or opens.
    pub keys: RecordKeys,
    /// Records that were sealed or opened by them before.
    pub number: u64,
}

/// Where the keys after a KeyUpdate come from, and who takes tickets.
pub enum Afterwards {
    /// From nowhere, and nobody does: TLS 1.2, or a server of TLS 1.3 that updates none.
    Nothing,
    /// From the traffic secrets that the present keys are of; nobody takes tickets.
    Secrets {
        /// Of what is sent.
        sends: TrafficSecret,
        /// Of what is received.
        receives: TrafficSecret,
    },
    /// Both are somebody's.
    Keeper(Box<dyn Keeper>),
}

/// Who has a connection's secrets, and the sessions of a client: the library that made
/// them.
pub trait Keeper {
    /// The next keys for what is sent; `None` if it cannot make them.
    fn next_to_send(&mut self) -> Option<RecordKeys>;
    /// The next keys for what is received.
    fn next_to_receive(&mut self) -> Option<RecordKeys>;
    /// The body of a NewSessionTicket (RFC 8446 section 4.6.1): a client's alone. Returns
    /// whether it could be read.
    fn on_ticket(&mut self, body: &[u8]) -> bool;
}

impl fmt::Debug for Afterwards {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Nothing => "Nothing",
            Self::Secrets { .. } => "Secrets",
            Self::Keeper(_) => "Keeper",
        })
    }
}

/// What a handshake leaves behind: all that securing the connection takes.
#[derive(Debug)]
pub struct Established {
    /// The version that was agreed on.
    pub version: TlsVersion,
    /// Which side is ours.
    pub side: TlsSide,
    /// What seals.
    pub sends: KeyedWay,
    /// What opens.
    pub receives: KeyedWay,
    /// What comes after these keys.
    pub afterwards: Afterwards,
    /// Most bytes of plaintext in a record that we send: [`MAX_PLAINTEXT`], or less where
    /// the peer asked for that (RFC 8449: its limit, less one in TLS 1.3).
    pub most: usize,
}

/// The record layer of TLS 1.2 and 1.3 after the handshake. All that is kept of a
/// connection that rests is in it: some 400 bytes, and what a [`Keeper`] has.
pub struct RecordLayer {
    version: TlsVersion,
    side: TlsSide,
    most: u16,
    /// The newest keys to send with.
    epoch: u8,
    /// They and those before, as long as these live: by the epoch's last bit.
    sends: [Option<RecordKeys>; 2],
    /// Records that the handshake sealed under the first keys.
    before: u64,
    receives: KeyedWay,
    afterwards: Afterwards,
    messages: Messages,
    without_data: u8,
    over: bool,
    hands_over: bool,
}

/// Most bytes of a connection that rests, this and all else that is kept of it, are 1,200.
const _: () = assert!(size_of::<RecordLayer>() <= 448, "a record layer that rests");

impl fmt::Debug for RecordLayer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RecordLayer")
            .field("version", &self.version)
            .field("side", &self.side)
            .field("epoch", &self.epoch)
            .finish_non_exhaustive()
    }
}

impl RecordLayer {
    /// Takes over from the handshake.
    #[must_use]
    pub fn new(established: Established) -> Self {
        let Established { version, side, sends, receives, afterwards, most } = established;
        Self {
            version,
            side,
            most: most.clamp(RECORD_LIMIT_MIN, MAX_PLAINTEXT) as u16,
            epoch: 0,
            before: sends.number,
            sends: [Some(sends.keys), None],
            receives,
            afterwards,
            messages: Messages::default(),
            without_data: 0,
            over: false,
            hands_over: false,
        }
    }

    /// Whether its keys may be lent to others ([`Layer::hand_over`]): not unless this says so.
    #[must_use]
    pub const fn handing_over(mut self, may: bool) -> Self {
        self.hands_over = may;
        self
    }

    /// Whether `epoch` is the newest, or the one before.
    const fn is_known(&self, epoch: u8) -> bool {
        epoch == self.epoch || epoch == self.epoch.wrapping_sub(1)
    }

    /// A record or message that brings the application nothing.
    const fn without_data(&mut self) -> Result<(), Alert> {
        if self.without_data >= WITHOUT_DATA_MAX {
            return Err(Alert::UnexpectedMessage);
        }
        self.without_data += 1;
        Ok(())
    }

    fn open_first(&mut self, input: &[u8], plain: &mut Vec<u8>) -> Result<Unsealed, Alert> {
        let begin = plain.len();
        let KeyedWay { keys, number } = &mut self.receives;
        let (consumed, kind) = match opening::open(keys, self.version, *number, input, plain)? {
            Opened::Needs(len) => return Ok(Unsealed::Needs(len)),
            Opened::Record { consumed, kind } => (consumed, kind),
        };
        // The last number is never used, so that none comes round (RFC 8446 section 5.3).
        *number = number.checked_add(1).ok_or(Alert::InternalError)?;
        if self.messages.is_amid() && kind != ContentType::Handshake as u8 {
            return Err(Alert::UnexpectedMessage);
        }
        if kind == ContentType::ApplicationData as u8 {
            if plain.len() > begin {
                self.without_data = 0;
            } else {
                self.without_data()?;
            }
            return Ok(Unsealed::Data { consumed });
        }
        // What is the layer's own goes no further.
        let taken = match kind {
            _ if kind == ContentType::Alert as u8 => self.take_alert(&plain[begin..], consumed),
            _ if kind == ContentType::Handshake as u8 => {
                self.take_messages(&plain[begin..]).map(|ask| Unsealed::Control { consumed, ask })
            }
            _ => Err(Alert::UnexpectedMessage),
        };
        plain.truncate(begin);
        taken
    }

    fn take_alert(&mut self, bytes: &[u8], consumed: usize) -> Result<Unsealed, Alert> {
        Ok(match alert::read(bytes, self.version == TlsVersion::V12)? {
            AlertMeaning::Close => {
                self.over = true;
                Unsealed::End { consumed }
            }
            AlertMeaning::Warning => {
                self.without_data()?;
                Unsealed::Control { consumed, ask: Ask::Nothing }
            }
            AlertMeaning::Fatal => {
                self.over = true;
                Unsealed::Failed(None)
            }
        })
    }

    fn take_messages(&mut self, record: &[u8]) -> Result<Ask, Alert> {
        let mut messages = core::mem::take(&mut self.messages);
        let mut ask = Ask::Nothing;
        let taken = messages.take((self.version, self.side), record, |message, more| {
            self.without_data()?;
            match message {
                Message::KeyUpdate { answer } => {
                    // Nothing under the old keys follows it (RFC 8446 section 5.1).
                    if more {
                        return Err(Alert::UnexpectedMessage);
                    }
                    self.update_received()?;
                    ask = if answer { Ask::Update } else { Ask::Updated };
                }
                Message::Ticket(body) => {
                    if let Afterwards::Keeper(keeper) = &mut self.afterwards
                        && !keeper.on_ticket(body)
                    {
                        return Err(Alert::DecodeError);
                    }
                }
                Message::Renegotiate => ask = Ask::Refuse,
            }
            Ok(())
        });
        self.messages = messages;
        taken.map(|()| ask)
    }

    fn update_received(&mut self) -> Result<(), Alert> {
        let keys = match &mut self.afterwards {
            Afterwards::Nothing => None,
            Afterwards::Secrets { receives, .. } => receives.advance(),
            Afterwards::Keeper(keeper) => keeper.next_to_receive(),
        };
        // What opens nothing any more is dropped, and zeroed, here.
        self.receives = KeyedWay { keys: keys.ok_or(Alert::InternalError)?, number: 0 };
        Ok(())
    }
}

impl RecordLayer {
    /// Seals into `out`, which is memory of our own, or, where there is `room`, may be shared.
    #[inline(always)]
    fn seal_by<const SHARED: bool>(
        &mut self,
        record: &Record,
        parts: &[&[u8]],
        out: &mut [u8],
        room: Option<&mut [u8]>,
    ) -> Result<Sum, SealError> {
        if !self.is_known(record.epoch) {
            return Err(SealError::Epoch);
        }
        let before = if record.epoch == 0 && self.epoch <= 1 { self.before } else { 0 };
        let number = record.number.checked_add(before).ok_or(SealError::Cipher)?;
        let keys = self.sends[usize::from(record.epoch & 1)].as_mut().ok_or(SealError::Epoch)?;
        sealing::seal::<SHARED>(keys, self.version, (number, record), parts, out, room)
    }
}

impl Layer for RecordLayer {
    #[inline]
    fn overhead(&self) -> usize {
        // Both epochs are of one cipher.
        sealing::overhead(self.receives.keys.cipher(), self.version)
    }

    fn updates_keys(&self) -> bool {
        self.version != TlsVersion::V12 && !matches!(self.afterwards, Afterwards::Nothing)
    }

    #[inline]
    fn most(&self) -> usize {
        usize::from(self.most)
    }

    fn pads(&self) -> bool {
        self.version == TlsVersion::V13
    }

    fn most_records(&self) -> u64 {
        self.receives.keys.cipher().records_max().saturating_sub(self.before)
    }

    #[inline]
    fn seal(&mut self, record: &Record, parts: &[&[u8]], out: &mut [u8]) -> Result<(), SealError> {
        self.seal_by::<false>(record, parts, out, None).map(drop)
    }

    #[inline]
    fn seal_shared(
        &mut self,
        record: &Record,
        parts: &[&[u8]],
        out: &mut [u8],
        room: &mut [u8],
    ) -> Result<Sum, SealError> {
        self.seal_by::<true>(record, parts, out, Some(room))
    }

    fn next_epoch(&mut self) -> Result<u8, SealError> {
        if self.version == TlsVersion::V12 {
            return Err(SealError::NoUpdate);
        }
        let keys = match &mut self.afterwards {
            Afterwards::Nothing => return Err(SealError::NoUpdate),
            Afterwards::Secrets { sends, .. } => sends.advance(),
            Afterwards::Keeper(keeper) => keeper.next_to_send(),
        };
        let keys = keys.ok_or(SealError::Cipher)?;
        self.epoch = self.epoch.wrapping_add(1);
        if self.epoch == 0 {
            // Epochs have come round: 0 is no longer the one that the handshake began.
            self.before = 0;
        }
        self.sends[usize::from(self.epoch & 1)] = Some(keys);
        Ok(self.epoch)
    }

    fn forget(&mut self, epoch: u8) {
        if self.is_known(epoch) {
            self.sends[usize::from(epoch & 1)] = None;
        }
    }

    fn hand_over(&mut self, epoch: u8, number: u64, take: &mut dyn FnMut(&SealingKeys<'_>) -> bool) -> bool {
        // Who takes them cuts records of any length.
        if !self.hands_over || epoch != self.epoch || usize::from(self.most) < MAX_PLAINTEXT {
            return false;
        }
        let before = if epoch == 0 { self.before } else { 0 };
        let (Some(number), Some(keys)) = (number.checked_add(before), &self.sends[usize::from(epoch & 1)]) else {
            return false;
        };
        let taken = keys.lend(self.version, number, take);
        if taken {
            self.sends = [None, None];
        }
        taken
    }

    fn open(&mut self, input: &[u8], plain: &mut Vec<u8>) -> Unsealed {
        if self.over {
            // What follows a closure is not read (RFC 8446 section 6.1).
            return if input.is_empty() { Unsealed::Needs(1) } else { Unsealed::End { consumed: input.len() } };
        }
        let begin = plain.len();
        self.open_first(input, plain).unwrap_or_else(|alert| {
            plain.truncate(begin);
            self.over = true;
            Unsealed::Failed(Some(alert as u8))
        })
    }

    fn rest(&mut self) {
        self.receives.keys.rest();
        self.sends.iter_mut().flatten().for_each(RecordKeys::rest);
    }
}

impl Drop for RecordLayer {
    fn drop(&mut self) {
        // First the keys, then what a cipher left of them on the stack.
        self.sends = [None, None];
        self.receives.keys.rest();
        crate::keys::wipe_stack();
    }
}
