//! What two applications do on one connection, all of it following from a
//! key: the side that connects sends the key first, so both sides know what
//! to send, what to expect, and how the connection ends.

use crate::rng::Rng;
use core::time::Duration;
use random::mix;

/// The key leads the upward stream, in as many bytes.
pub const KEY_LEN: u64 = 8;

/// How large and how rough the talks of a scenario are.
#[derive(Clone, Copy, Debug)]
pub struct Manner {
    /// Most bytes in one direction.
    pub most: u64,
    /// One talk in so many is aborted by one side.
    pub aborts: u64,
    /// Applications that only send and receive as fast as they can.
    pub plain: bool,
    /// One talk in so many is sealed behind its key; 0 is none.
    pub sealed: u64,
    /// Exactly so many bytes up and down, instead of a random number.
    pub exact: Option<(u64, u64)>,
}

/// A talk: both sides of it.
#[derive(Clone, Debug)]
pub struct Talk {
    /// What both sides derive all from.
    pub key: u64,
    /// The side that connects, and what it sends.
    pub up: Side,
    /// The side that accepts, and what it sends.
    pub down: Side,
    /// What follows the key goes in records.
    pub sealed: bool,
}

/// One side of a talk.
#[derive(Clone, Debug)]
pub struct Side {
    /// Bytes that it sends; for the upward side the key included.
    pub total: u64,
    /// How it sends.
    pub write: Write,
    /// How it receives.
    pub read: Read,
    /// When it finishes.
    pub finish: Finish,
    /// It aborts once it has sent and received so many bytes together.
    pub abort_at: Option<u64>,
}

/// How a side sends.
#[derive(Clone, Copy, Debug)]
pub struct Write {
    /// Largest piece queued in one call.
    pub piece: u64,
    /// Bytes queued before it waits.
    pub queue: u64,
    /// One piece in so many is followed by a pause; 0 is none.
    pub pauses: u64,
    /// The longest pause, in milliseconds.
    pub pause: u64,
}

/// How a side receives.
#[derive(Clone, Copy, Debug)]
pub enum Read {
    /// All of it at once.
    Eager,
    /// At most so many bytes at a time, so far apart.
    Sips(u64, Duration),
    /// Only when so many bytes are there.
    Lumps(u64),
    /// Nothing until so long after the start, then all of it.
    Late(Duration),
}

/// When a side finishes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Finish {
    /// Once all is queued: a half-close while the other side may still send.
    Sent,
    /// Once all of the other side's bytes are here too.
    Received,
}

/// A lump is smaller than what a data path holds for a slow reader.
const LARGEST_LUMP: u64 = 16 * 1024;
const _: () = assert!(LARGEST_LUMP < app::HELD_LIMIT as u64);

impl Talk {
    /// The talk of `key`.
    #[must_use]
    pub fn new(key: u64, manner: &Manner) -> Self {
        let mut rng = Rng::new(mix(key));
        let (mut up, mut down) = (Side::new(&mut rng, manner), Side::new(&mut rng, manner));
        if let Some((up_bytes, down_bytes)) = manner.exact {
            (up.total, down.total) = (up_bytes, down_bytes);
        }
        up.total = up.total.max(KEY_LEN);
        if manner.aborts > 0 && rng.one_in(manner.aborts) {
            let at = rng.range(0, up.total + down.total);
            let side = if rng.one_in(2) { &mut up } else { &mut down };
            side.abort_at = Some(at);
        }
        // Not of the talk's own numbers: what is sealed is the same talk.
        let sealed = manner.sealed > 0 && mix(!key).is_multiple_of(manner.sealed);
        Self { key, up, down, sealed }
    }

    /// Whether one of the sides is going to abort.
    #[must_use]
    pub const fn aborts(&self) -> bool {
        self.up.abort_at.is_some() || self.down.abort_at.is_some()
    }
}

impl Side {
    fn new(rng: &mut Rng, manner: &Manner) -> Self {
        let total = if rng.one_in(8) { 0 } else { rng.scale(1, manner.most.max(1)) };
        let finish = rng.pick(&[Finish::Sent, Finish::Received]);
        let plain = Write { piece: 64 * 1024, queue: 256 * 1024, pauses: 0, pause: 0 };
        if manner.plain {
            return Self { total, write: plain, read: Read::Eager, finish, abort_at: None };
        }
        let write = Write {
            piece: rng.scale(1 + total / 1_000, 100_000),
            queue: rng.scale(1 + total / 1_000, 300_000),
            pauses: if rng.one_in(3) { rng.range(2, 20) } else { 0 },
            pause: rng.scale(1, 3_000),
        };
        // A slow reader is not so slow that a talk takes hours.
        let read = match rng.range(0, 5) {
            0 => Read::Sips(rng.scale(1 + manner.most / 500, 40_000), rng.millis(0, 200)),
            1 => Read::Lumps(rng.scale(1, LARGEST_LUMP)),
            2 => Read::Late(rng.millis(0, 10_000)),
            _ => Read::Eager,
        };
        Self { total, write, read, finish, abort_at: None }
    }
}
