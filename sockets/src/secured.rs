//! Connections that are secured: what arrives is opened before the application has it,
//! and what it queues is sealed on its way to the kernel (`sealing`).
//!
//! The queue keeps plaintext. Records are sealed into a buffer of the worker's, handed to
//! the kernel at once, and what that did not take is kept as it is: a record is sealed
//! once, so that no number is ever used for two.

use core::fmt;
use rope::KEYS_WEAR;
use seal::{Ask, ContentType, Layer, MAX_PLAINTEXT, Record, SealError, Unsealed};
use wire::Time;

/// What sealing adds to a record, at most: a header, a nonce, a type and a tag, or a
/// layer of one's own.
const OVERHEAD_MAX: usize = 256;

/// Bytes of records that are handed over in one call, four of the longest: what the kernel
/// does not take of them, the connection keeps.
const BATCH: usize = 4 * (MAX_PLAINTEXT + OVERHEAD_MAX);

/// What a worker seals and opens in: one for all its connections, because each is emptied
/// in the same call.
#[derive(Debug, Default)]
pub(crate) struct Records {
    /// Records, until the kernel has them.
    pub(crate) out: Box<[u8]>,
    pub(crate) filled: usize,
    /// What was read of a file, until it is sealed.
    pub(crate) text: Box<[u8]>,
    /// What was opened.
    pub(crate) plain: Vec<u8>,
}

impl Records {
    /// Takes the memory, with the first connection that is secured.
    pub(crate) fn prepare(&mut self) {
        if self.out.is_empty() {
            self.out = vec![0; BATCH].into();
            self.text = vec![0; MAX_PLAINTEXT].into();
        }
    }

    /// Seals one record behind the others.
    pub(crate) fn seal(
        &mut self,
        secured: &mut Secured,
        kind: ContentType,
        parts: &[&[u8]],
        len: usize,
    ) -> Result<(), SealError> {
        let end = self.filled + len + secured.layer.overhead();
        let record = Record { epoch: secured.epoch, number: secured.number, kind, padding: 0 };
        let out = self.out.get_mut(self.filled..end).ok_or(SealError::Length)?;
        secured.layer.seal(&record, parts, out)?;
        secured.number += 1;
        self.filled = end;
        Ok(())
    }

    /// Whether there is room for one more of the longest.
    pub(crate) fn has_room(&self) -> bool {
        self.out.len() - self.filled >= MAX_PLAINTEXT + OVERHEAD_MAX
    }
}

/// What secures a connection, and what of that is under way. Boxed, beside the table.
pub(crate) struct Secured {
    pub(crate) layer: Box<dyn Layer>,
    /// Of the next record.
    pub(crate) epoch: u8,
    pub(crate) number: u64,
    /// Bytes first in the queue that go as they are: queued before all this.
    pub(crate) clear: u64,
    /// Sealed bytes that the kernel did not take yet, and how many of these it took since.
    pub(crate) kept: Vec<u8>,
    pub(crate) taken: usize,
    /// Plaintext since the connection last rested, and when it last sent some.
    pub(crate) run: usize,
    pub(crate) sent_at: Time,
    /// Plaintext of a record that fills a segment, once that has mattered.
    pub(crate) segment: Option<u16>,
    /// What is to be said before more of the queue.
    pub(crate) due: Due,
    /// The peer is to be told that there will be no other handshake.
    pub(crate) refuses: bool,
    /// Where the kernel seals, what it was given.
    pub(crate) kernel: Option<Box<InKernel>>,
    /// The kernel was asked to, and does not.
    pub(crate) kernel_refused: bool,
    /// The record from which on the keys last for what is under way alone, and none follow.
    wears_at: u64,
    /// Bytes that arrived of a record that is not whole.
    begun: Vec<u8>,
    /// What the peer will still say.
    heard: Heard,
}

/// What the kernel was given of a connection whose records it seals.
#[derive(Debug)]
pub(crate) struct InKernel {
    /// The first record that it sealed.
    pub(crate) first: u64,
    /// Bytes of the keys' description, of which a record's number is the last part.
    pub(crate) keys_len: usize,
    /// Plaintext since.
    pub(crate) plain: u64,
    /// Bytes that TCP had before, at least.
    pub(crate) written: u64,
}

/// What a connection is to say by itself.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) enum Due {
    #[default]
    Nothing,
    /// The next keys: the peer asked for them, or those in use have sealed enough.
    Update,
    /// That is all: nothing more is sent.
    EndSaid,
}

/// What the peer will still say.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Heard {
    /// More.
    Open,
    /// Nothing: it said so.
    Ended,
    /// Nothing, and it did not say so.
    Cut,
}

/// The record, of `most`, from which on a connection is to end.
fn wearing(most: u64) -> u64 {
    most.saturating_sub(KEYS_WEAR.min(most / 2))
}

/// What came of bytes that arrived.
pub(crate) enum Came {
    Plain,
    /// The peer's end, which it said.
    End,
    /// Nothing more can be opened: what the peer is told, if anything.
    Failed(Option<u8>),
}

impl fmt::Debug for Secured {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Secured").field("epoch", &self.epoch).field("number", &self.number).finish_non_exhaustive()
    }
}

impl Secured {
    /// Of a queue whose first `clear` bytes go as they are.
    pub(crate) fn new(layer: Box<dyn Layer>, clear: u64, now: Time) -> Self {
        let wears_at = if layer.updates_keys() { u64::MAX } else { wearing(layer.most_records()) };
        Self {
            layer,
            epoch: 0,
            number: 0,
            clear,
            kept: Vec::new(),
            taken: 0,
            run: 0,
            sent_at: now,
            segment: None,
            due: Due::Nothing,
            refuses: false,
            kernel: None,
            kernel_refused: false,
            wears_at,
            begun: Vec::new(),
            heard: Heard::Open,
        }
    }

    /// The kernel seals from here on. Its keys are never updated: one that does so itself is
    /// newer than most.
    pub(crate) fn set_kernel(&mut self, kernel: InKernel) {
        self.wears_at = wearing(self.layer.most_records());
        self.kernel = Some(Box::new(kernel));
    }

    /// Whether it is time to end, after what is under way: told once. The keys are nearly
    /// used up and no others can be made, or the peer wants others where the kernel has them.
    pub(crate) fn ends_soon(&mut self) -> bool {
        let asked = self.kernel.is_some() && self.due == Due::Update;
        if asked {
            self.due = Due::Nothing;
        }
        let ends = asked || self.number >= self.wears_at;
        if ends {
            self.wears_at = u64::MAX;
        }
        ends
    }

    /// Sealed bytes that the kernel did not take.
    pub(crate) fn kept(&self) -> usize {
        self.kept.len() - self.taken
    }

    /// Whether part of a record has arrived, or several that were not opened yet.
    pub(crate) fn is_amid(&self) -> bool {
        !self.begun.is_empty()
    }

    /// Whether the peer went without a word.
    pub(crate) fn was_cut(&self) -> bool {
        self.heard == Heard::Cut
    }

    /// Nothing is sent any more.
    pub(crate) fn give_up(&mut self) {
        (self.kept, self.taken, self.clear) = (Vec::new(), 0, 0);
    }

    /// Keeps what arrived before and was not opened.
    pub(crate) fn keep_unopened(&mut self, bytes: &[u8]) {
        self.begun.extend_from_slice(bytes);
    }

    /// Opens all records that are whole, those that were kept first.
    pub(crate) fn open(&mut self, data: &[u8], plain: &mut Vec<u8>) -> Came {
        let mut rest = data;
        while !self.begun.is_empty() && self.heard == Heard::Open {
            match self.layer.open(&self.begun, plain) {
                Unsealed::Needs(len) => {
                    let lacks = len.saturating_sub(self.begun.len()).min(rest.len());
                    if lacks == 0 {
                        return Came::Plain;
                    }
                    let (here, behind) = rest.split_at(lacks);
                    self.begun.extend_from_slice(here);
                    rest = behind;
                }
                other => match self.take(other) {
                    // A connection that rests keeps no room for what it does not have.
                    Ok(consumed) if consumed >= self.begun.len() => self.begun = Vec::new(),
                    Ok(consumed) => drop(self.begun.drain(..consumed)),
                    Err(came) => return came,
                },
            }
        }
        while self.heard == Heard::Open {
            match self.layer.open(rest, plain) {
                Unsealed::Needs(_) => {
                    self.begun.extend_from_slice(rest);
                    break;
                }
                other => match self.take(other) {
                    Ok(consumed) => rest = &rest[consumed.min(rest.len())..],
                    Err(came) => return came,
                },
            }
        }
        Came::Plain
    }

    /// Notes what a record meant, and returns how long it was.
    fn take(&mut self, unsealed: Unsealed) -> Result<usize, Came> {
        match unsealed {
            Unsealed::Needs(_) => Ok(0),
            Unsealed::Data { consumed } => Ok(consumed),
            Unsealed::Control { consumed, ask } => {
                // One answer is for all that asked since the last (RFC 8446 section 4.6.3).
                if ask == Ask::Update && self.due == Due::Nothing {
                    self.due = Due::Update;
                }
                self.refuses |= ask == Ask::Refuse && self.due != Due::EndSaid;
                Ok(consumed)
            }
            Unsealed::End { .. } => {
                self.heard = Heard::Ended;
                self.begun = Vec::new();
                Err(Came::End)
            }
            Unsealed::Failed(alert) => {
                self.heard = Heard::Cut;
                self.begun = Vec::new();
                Err(Came::Failed(alert))
            }
        }
    }

    /// The peer's FIN is in. What is said afterwards is not heard.
    pub(crate) fn on_fin(&mut self) {
        if self.heard == Heard::Open {
            self.heard = Heard::Cut;
        }
        self.begun = Vec::new();
    }
}
