//! What seals talks: a real record layer, or one that hides nothing and finds everything: the
//! bytes of a record follow from its key, its epoch and its number as with a real one, so that
//! a byte that is missing, doubled or of another place does not open, and there are few
//! records to a key. Whichever it is, what was sealed under one number is remembered, so that
//! something else under the same is found out.

use random::mix;
use record::{Afterwards, Established, KeyedWay, RecordCipher, RecordLayer, TlsSide, TlsVersion, TrafficSecret};
use seal::message::alert;
use seal::{Ask, ContentType, HEADER_LEN, Layer, MAX_PLAINTEXT, Record, SealError, Unsealed};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use wire::{Sum, checksum};

/// Header, inner type, tag: as TLS 1.3 has them.
const OVERHEAD: usize = HEADER_LEN + 1 + TAG;
const TAG: usize = 16;

/// Records under one key: few, so that keys are updated.
const MOST_RECORDS: u64 = 100;

/// Key updates that are answered by one; all would never end.
const ANSWERED: u8 = 3;

/// What was sealed at one host, and what is wrong with it.
#[derive(Debug, Default)]
pub struct Sealings {
    /// By key, epoch and number: a sum of the bytes.
    seen: BTreeMap<(u64, u8, u64), u64>,
    /// Keys that were made by an update.
    pub updates: u64,
    /// What must not happen, in words.
    pub violations: Vec<String>,
}

impl Sealings {
    /// A connection is over: nothing of it is sealed again.
    pub fn forget(&mut self, key: u64) {
        let keys = [key_of(key, true), key_of(key, false)];
        self.seen.retain(|(of, ..), _| !keys.contains(of));
    }
}

const fn key_of(key: u64, up: bool) -> u64 {
    mix(key ^ if up { 0x7365_616c } else { 0x6f70_656e })
}

/// One side of one connection, whatever it is sealed by.
pub struct Sealer {
    ours: u64,
    layer: Box<dyn Layer>,
    /// The epoch to seal under, and the oldest that has keys.
    epochs: (u8, u8),
    sealings: Rc<RefCell<Sealings>>,
}

impl Sealer {
    /// Of a talk's key, on the side that connects or accepts.
    ///
    /// # Panics
    /// If a real record layer takes no keys.
    #[must_use]
    pub fn new(key: u64, connects: bool, sealings: Rc<RefCell<Sealings>>) -> Self {
        let (ours, theirs) = (key_of(key, connects), key_of(key, !connects));
        let layer: Box<dyn Layer> = if key.is_multiple_of(4) {
            Box::new(real(key, connects).unwrap_or_else(|| panic!("keys have their length")))
        } else {
            Box::new(Plainly { ours, theirs, epoch: 0, next: (0, 0) })
        };
        Self { ours, layer, epochs: (0, 0), sealings }
    }

    fn complain(&self, what: String) {
        self.sealings.borrow_mut().violations.push(what);
    }
}

/// TLS 1.3, by a cipher that follows from the talk's key.
fn real(key: u64, connects: bool) -> Option<RecordLayer> {
    let cipher = match key / 4 % 3 {
        0 => RecordCipher::Aes128Gcm,
        1 => RecordCipher::Aes256Gcm,
        _ => RecordCipher::ChaCha20Poly1305,
    };
    let len = if cipher == RecordCipher::Aes256Gcm { 48 } else { 32 };
    let secret = |up| {
        let words = (0..len as u64 / 8).flat_map(|word| mix(key_of(key, up) ^ word).to_le_bytes());
        TrafficSecret::new(cipher, &words.collect::<Vec<u8>>())
    };
    let (sends, receives) = (secret(connects)?, secret(!connects)?);
    Some(RecordLayer::new(Established {
        version: TlsVersion::V13,
        side: if connects { TlsSide::Client } else { TlsSide::Server },
        sends: KeyedWay { keys: sends.keys()?, number: 0 },
        receives: KeyedWay { keys: receives.keys()?, number: 0 },
        afterwards: Afterwards::Secrets { sends, receives },
        most: MAX_PLAINTEXT,
    }))
}

impl Sealer {
    /// Under keys that live, and have not sealed all that they may.
    fn may_seal(&mut self, record: &Record) -> Result<(), SealError> {
        let alive = [self.epochs.0, self.epochs.1].contains(&record.epoch);
        if alive && record.number < self.layer.most_records() {
            return Ok(());
        }
        self.complain(format!("{record:?} is sealed, with keys of {:?}", self.epochs));
        Err(SealError::Epoch)
    }

    /// One record has one form.
    fn look_at(&self, record: &Record, out: &[u8]) {
        let sum = sum_of(0, out);
        let sealings = &mut *self.sealings.borrow_mut();
        match sealings.seen.insert((self.ours, record.epoch, record.number), sum) {
            None => {}
            Some(before) if before == sum => {}
            Some(_) => sealings.violations.push(format!("{record:?} is sealed as something else than before")),
        }
    }
}

impl Layer for Sealer {
    fn overhead(&self) -> usize {
        self.layer.overhead()
    }

    fn most(&self) -> usize {
        self.layer.most()
    }

    fn most_records(&self) -> u64 {
        self.layer.most_records()
    }

    fn updates_keys(&self) -> bool {
        self.layer.updates_keys()
    }

    fn seal(&mut self, record: &Record, parts: &[&[u8]], out: &mut [u8]) -> Result<(), SealError> {
        self.may_seal(record)?;
        self.layer.seal(record, parts, out)?;
        self.look_at(record, out);
        Ok(())
    }

    fn seal_shared(
        &mut self,
        record: &Record,
        parts: &[&[u8]],
        out: &mut [u8],
        room: &mut [u8],
    ) -> Result<Sum, SealError> {
        self.may_seal(record)?;
        let told = self.layer.seal_shared(record, parts, out, room)?;
        if told.finish() != checksum::sum(out).finish() {
            self.complain(format!("{record:?} has another sum than what was written"));
        }
        self.look_at(record, out);
        Ok(told)
    }

    fn next_epoch(&mut self) -> Result<u8, SealError> {
        if self.epochs.0 != self.epochs.1 {
            self.complain(format!("a third epoch is made beside {:?}", self.epochs));
        }
        self.sealings.borrow_mut().updates += 1;
        self.epochs.0 = self.layer.next_epoch()?;
        Ok(self.epochs.0)
    }

    fn forget(&mut self, epoch: u8) {
        if self.epochs.1 != epoch || self.epochs.0 == epoch {
            self.complain(format!("epoch {epoch} is forgotten of {:?}", self.epochs));
        }
        self.epochs.1 = epoch.wrapping_add(1);
        self.layer.forget(epoch);
    }

    fn open(&mut self, input: &[u8], plain: &mut Vec<u8>) -> Unsealed {
        self.layer.open(input, plain)
    }

    fn rest(&mut self) {
        self.layer.rest();
    }
}

/// The one that hides nothing.
#[derive(Debug)]
struct Plainly {
    ours: u64,
    theirs: u64,
    epoch: u8,
    /// What is expected of the peer: its epoch and number.
    next: (u8, u64),
}

impl Layer for Plainly {
    fn overhead(&self) -> usize {
        OVERHEAD
    }

    fn most_records(&self) -> u64 {
        MOST_RECORDS
    }

    fn seal(&mut self, record: &Record, parts: &[&[u8]], out: &mut [u8]) -> Result<(), SealError> {
        let text: usize = parts.iter().map(|part| part.len()).sum();
        if text > MAX_PLAINTEXT || out.len() != text + OVERHEAD {
            return Err(SealError::Length);
        }
        let (head, body) = out.split_at_mut(HEADER_LEN);
        head.copy_from_slice(&header(body.len()));
        let mut at = 0;
        for part in parts {
            body[at..at + part.len()].copy_from_slice(part);
            at += part.len();
        }
        body[at] = record.kind as u8;
        let tag = tag(self.ours, record.epoch, record.number, &body[..=at]);
        body[at + 1..].copy_from_slice(&tag);
        mask(self.ours, record.epoch, record.number, &mut body[..=at]);
        Ok(())
    }

    fn next_epoch(&mut self) -> Result<u8, SealError> {
        self.epoch = self.epoch.wrapping_add(1);
        Ok(self.epoch)
    }

    fn forget(&mut self, _epoch: u8) {}

    fn open(&mut self, input: &[u8], plain: &mut Vec<u8>) -> Unsealed {
        let Some(head) = input.first_chunk::<HEADER_LEN>() else { return Unsealed::Needs(HEADER_LEN) };
        let len = usize::from(u16::from_be_bytes([head[3], head[4]]));
        if head[..3] != header(len)[..3] || !(TAG + 1..=MAX_PLAINTEXT + TAG + 1).contains(&len) {
            return Unsealed::Failed(Some(alert::DECODE_ERROR));
        }
        let consumed = HEADER_LEN + len;
        let Some(body) = input.get(HEADER_LEN..consumed) else { return Unsealed::Needs(consumed) };
        let (epoch, number) = self.next;
        let start = plain.len();
        plain.extend_from_slice(&body[..len - TAG]);
        mask(self.theirs, epoch, number, &mut plain[start..]);
        if tag(self.theirs, epoch, number, &plain[start..]) != body[len - TAG..] {
            plain.truncate(start);
            return Unsealed::Failed(Some(alert::BAD_RECORD_MAC));
        }
        self.next.1 += 1;
        let kind = plain.pop();
        if kind == Some(ContentType::ApplicationData as u8) {
            return Unsealed::Data { consumed };
        }
        let message = plain.split_off(start);
        match (kind, &message[..]) {
            (Some(21), [1, 0]) => Unsealed::End { consumed },
            (Some(21), _) => Unsealed::Failed(None),
            _ => {
                self.next = (epoch.wrapping_add(1), 0);
                let ask = if epoch < ANSWERED { Ask::Update } else { Ask::Updated };
                Unsealed::Control { consumed, ask }
            }
        }
    }
}

fn header(len: usize) -> [u8; HEADER_LEN] {
    let [high, low] = (len as u16).to_be_bytes();
    [ContentType::ApplicationData as u8, 3, 3, high, low]
}

fn mask(key: u64, epoch: u8, number: u64, bytes: &mut [u8]) {
    let start = mix(key ^ (u64::from(epoch) << 56) ^ number);
    for (index, chunk) in bytes.chunks_mut(8).enumerate() {
        let word = mix(start.wrapping_add(index as u64)).to_le_bytes();
        chunk.iter_mut().zip(word).for_each(|(byte, with)| *byte ^= with);
    }
}

fn tag(key: u64, epoch: u8, number: u64, text: &[u8]) -> [u8; TAG] {
    let first = sum_of(mix(key ^ number ^ (u64::from(epoch) << 48)), text);
    let mut tag = [0; TAG];
    tag[..8].copy_from_slice(&first.to_le_bytes());
    tag[8..].copy_from_slice(&mix(first ^ key).to_le_bytes());
    tag
}

fn sum_of(start: u64, bytes: &[u8]) -> u64 {
    bytes.chunks(8).fold(start ^ bytes.len() as u64, |sum, chunk| {
        let mut word = [0; 8];
        word[..chunk.len()].copy_from_slice(chunk);
        mix(sum.rotate_left(7) ^ u64::from_le_bytes(word))
    })
}
