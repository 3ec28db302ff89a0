//! A ring of frames from one seat to another.
//!
//! A record is two words and the frame's bytes, padded to a word. Positions are counts of words
//! that run freely. Whoever has a seat fills the rings from it and empties those to it; one that
//! takes the seat over goes on at the positions that stand in the memory.

use crate::memory::{RING, SharedMemory};
use core::ops::Range;
use core::sync::atomic::Ordering;

/// Longest frame: the largest packet behind an Ethernet header with a tag.
const LONGEST: usize = (1 << 16) + 18;
/// Words of a record's head.
const HEAD: usize = 2;

const _: () = assert!(RING > 2 * (HEAD + LONGEST / 8 + 1), "a ring takes the largest frame while another is read");

/// What a record says of its frame.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Note {
    /// All seats have a copy: whoever does not know it passes it over.
    pub is_copy: bool,
    /// It is no frame, but something that one worker says to another.
    pub is_message: bool,
    /// The link vouches for the transport checksum.
    pub verified: bool,
    /// Seats that do not know its flow, as bits.
    pub visited: u64,
}

/// Where a seat stands in the rings from it, or to it.
#[derive(Debug)]
pub(crate) struct Positions(Vec<u64>);

impl Positions {
    /// Of the rings that a seat fills.
    pub fn filling(memory: &SharedMemory, seat: usize) -> Self {
        Self((0..memory.seats()).map(|to| memory.ring(seat, to).0.load(Ordering::Acquire)).collect())
    }

    /// Of the rings that it empties.
    pub fn emptying(memory: &SharedMemory, seat: usize) -> Self {
        Self((0..memory.seats()).map(|from| memory.ring(from, seat).1.load(Ordering::Acquire)).collect())
    }

    /// Adds a frame to the ring from one seat to another, which is not told yet. Whether there was
    /// room.
    pub fn push(&mut self, memory: &SharedMemory, (from, to): (usize, usize), frame: &[u8], note: Note) -> bool {
        let (_, tail, words) = memory.ring(from, to);
        let Some(position) = self.0.get_mut(to) else { return false };
        let taken = HEAD + frame.len().div_ceil(8);
        // The other side may lie: then the ring is full.
        let used = position.wrapping_sub(tail.load(Ordering::Acquire));
        if frame.len() > LONGEST || used + taken as u64 > RING as u64 {
            return false;
        }
        let mut at = *position;
        let mut put = |word: u64| {
            words[at as usize % RING].store(word, Ordering::Relaxed);
            at = at.wrapping_add(1);
        };
        let kinds = u64::from(note.is_copy) | u64::from(note.verified) << 1 | u64::from(note.is_message) << 2;
        put(frame.len() as u64 | kinds << 32);
        put(note.visited);
        let (whole, rest) = frame.as_chunks();
        whole.iter().for_each(|bytes| put(u64::from_le_bytes(*bytes)));
        if !rest.is_empty() {
            let mut bytes = [0; 8];
            bytes[..rest.len()].copy_from_slice(rest);
            put(u64::from_le_bytes(bytes));
        }
        *position = at;
        true
    }

    /// Shows the other side what was added.
    pub fn publish(&self, memory: &SharedMemory, (from, to): (usize, usize)) {
        if let Some(position) = self.0.get(to) {
            memory.ring(from, to).0.store(*position, Ordering::Release);
        }
    }

    /// Takes the next frame out of the ring from one seat to another, and adds it to `into`: where,
    /// and what was said of it. `Err` if what stands there makes no sense: the ring is emptied.
    pub fn take(
        &mut self,
        memory: &SharedMemory,
        (from, to): (usize, usize),
        into: &mut Vec<u8>,
    ) -> Result<Option<(Range<usize>, Note)>, Nonsense> {
        let (head, tail, words) = memory.ring(from, to);
        let Some(position) = self.0.get_mut(from) else { return Ok(None) };
        let end = head.load(Ordering::Acquire);
        let there = end.wrapping_sub(*position);
        if there == 0 {
            return Ok(None);
        }
        let word = |offset: usize| words[position.wrapping_add(offset as u64) as usize % RING].load(Ordering::Relaxed);
        let (first, visited) = (word(0), word(1));
        let len = first as u32 as usize;
        let taken = (HEAD + len.div_ceil(8)) as u64;
        if there > RING as u64 || len > LONGEST || taken > there {
            *position = end;
            tail.store(end, Ordering::Release);
            return Err(Nonsense);
        }
        let start = into.len();
        for offset in 0..len.div_ceil(8) {
            into.extend_from_slice(&word(HEAD + offset).to_le_bytes());
        }
        into.truncate(start + len);
        *position = position.wrapping_add(taken);
        tail.store(*position, Ordering::Release);
        let is = |bit: u64| first >> (32 + bit) & 1 != 0;
        let note = Note { is_copy: is(0), verified: is(1), is_message: is(2), visited };
        Ok(Some((start..start + len, note)))
    }

    /// Whether frames wait in the ring from one seat to another.
    pub fn has_more(&self, memory: &SharedMemory, (from, to): (usize, usize)) -> bool {
        self.0.get(from).is_some_and(|position| memory.ring(from, to).0.load(Ordering::Acquire) != *position)
    }
}

/// A ring that holds what nobody wrote who keeps to the rules.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Nonsense;
