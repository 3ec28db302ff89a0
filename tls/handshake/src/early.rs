//! A connection whose client sends data before its handshake is over (RFC 8446 section 2.3).
//!
//! ```text
//! client: ClientHello, data ─────────────────► EndOfEarlyData, Finished, records
//!                       └ opened by rustls ┘  └── looked at by rustls ─┘ └ the record layer's
//! server:               flight, records: sealed by the record layer, from number 0 on
//! ```
//!
//! With its flight a server knows the keys of what it sends. So answers go out before the
//! client's Finished is there; who asked is known by then only as far as the session tells it.

use crate::failure::Failure;
use core::sync::atomic::{AtomicBool, Ordering};
use record::RecordLayer;
use rustls::Error;
use seal::message::alert;
use seal::{Ask, HEADER_LEN, Layer, MAX_SEALED, Record, SealError, SealingKeys, Unsealed};
use std::sync::Arc;
use wire::Sum;

/// Who looks at what comes until the handshake is over.
pub(crate) trait EarlyRecords: Send {
    /// Takes one record; data in it is appended to `plain`. Whether the handshake is over now.
    fn on_record(&mut self, one: &[u8], plain: &mut Vec<u8>) -> Result<bool, Failure>;
}

/// What secures it: a record layer, and until the handshake is over rustls, for what comes.
pub(crate) struct EarlyLayer {
    /// None once the handshake is over.
    acceptor: Option<Box<dyn EarlyRecords>>,
    records: RecordLayer,
    /// Told to whoever holds back what is to wait for that.
    over: Arc<AtomicBool>,
}

impl EarlyLayer {
    pub(crate) const fn new(acceptor: Box<dyn EarlyRecords>, records: RecordLayer, over: Arc<AtomicBool>) -> Self {
        Self { acceptor: Some(acceptor), records, over }
    }

    /// Opens the first record by rustls.
    fn open_early(&mut self, acceptor: &mut dyn EarlyRecords, input: &[u8], plain: &mut Vec<u8>) -> Unsealed {
        let Some((header, _)) = input.split_first_chunk::<HEADER_LEN>() else { return Unsealed::Needs(HEADER_LEN) };
        // A copy, as is the rest: what is decided by it is decided once.
        let header = *header;
        let len = HEADER_LEN + usize::from(u16::from_be_bytes([header[3], header[4]]));
        if len > MAX_SEALED {
            return Unsealed::Failed(Some(alert::RECORD_OVERFLOW));
        }
        let Some(body) = input.get(HEADER_LEN..len) else { return Unsealed::Needs(len) };
        let before = plain.len();
        match acceptor.on_record(&[&header, body].concat(), plain) {
            Ok(false) if plain.len() > before => Unsealed::Data { consumed: len },
            Ok(over) => {
                if over {
                    self.over.store(true, Ordering::Relaxed);
                }
                Unsealed::Control { consumed: len, ask: Ask::Nothing }
            }
            Err(why) => {
                plain.truncate(before);
                Unsealed::Failed(match why {
                    Failure::Library(Error::AlertReceived(_)) | Failure::Closed => None,
                    Failure::Library(Error::DecryptError) => Some(alert::BAD_RECORD_MAC),
                    Failure::TooLong => Some(alert::RECORD_OVERFLOW),
                    _ => Some(alert::UNEXPECTED_MESSAGE),
                })
            }
        }
    }
}

impl Layer for EarlyLayer {
    fn overhead(&self) -> usize {
        self.records.overhead()
    }

    fn most(&self) -> usize {
        self.records.most()
    }

    fn pads(&self) -> bool {
        self.records.pads()
    }

    fn updates_keys(&self) -> bool {
        self.records.updates_keys()
    }

    fn most_records(&self) -> u64 {
        self.records.most_records()
    }

    fn seal(&mut self, record: &Record, parts: &[&[u8]], out: &mut [u8]) -> Result<(), SealError> {
        self.records.seal(record, parts, out)
    }

    fn seal_shared(
        &mut self,
        record: &Record,
        parts: &[&[u8]],
        out: &mut [u8],
        room: &mut [u8],
    ) -> Result<Sum, SealError> {
        self.records.seal_shared(record, parts, out, room)
    }

    fn next_epoch(&mut self) -> Result<u8, SealError> {
        self.records.next_epoch()
    }

    fn forget(&mut self, epoch: u8) {
        self.records.forget(epoch);
    }

    fn hand_over(&mut self, epoch: u8, number: u64, take: &mut dyn FnMut(&SealingKeys<'_>) -> bool) -> bool {
        self.acceptor.is_none() && self.records.hand_over(epoch, number, take)
    }

    fn open(&mut self, input: &[u8], plain: &mut Vec<u8>) -> Unsealed {
        let Some(mut acceptor) = self.acceptor.take() else { return self.records.open(input, plain) };
        let unsealed = self.open_early(&mut *acceptor, input, plain);
        if !self.over.load(Ordering::Relaxed) {
            self.acceptor = Some(acceptor);
        }
        unsealed
    }

    fn rest(&mut self) {
        self.records.rest();
    }
}
