//! Bytes between the caller's buffers and a connection.

use std::io::{IoSlice, IoSliceMut};

/// Room that a call fills, in order, over as many attempts as it takes.
#[derive(Debug)]
pub struct Scatter<'a, 'b> {
    slices: &'a mut [IoSliceMut<'b>],
    /// The slice that is filled next, and how far it is.
    at: usize,
    offset: usize,
    filled: usize,
    room: usize,
}

impl<'a, 'b> Scatter<'a, 'b> {
    /// All of the caller's buffers, at most `most` bytes of them.
    pub fn new(slices: &'a mut [IoSliceMut<'b>], most: usize) -> Self {
        let room = slices.iter().fold(0usize, |sum, slice| sum.saturating_add(slice.len()));
        Self { slices, at: 0, offset: 0, filled: 0, room: room.min(most) }
    }

    /// Room for so many bytes that nobody wants to see: for what is received with `MSG_TRUNC`.
    #[must_use]
    pub const fn uncopied(most: usize) -> Self {
        Self { slices: &mut [], at: 0, offset: 0, filled: 0, room: most }
    }

    /// Bytes that were written.
    #[must_use]
    pub const fn filled(&self) -> usize {
        self.filled
    }

    /// Bytes that may still be written.
    #[must_use]
    pub const fn room(&self) -> usize {
        self.room
    }

    /// Writes as many bytes as there is room for; how many.
    pub(crate) fn put(&mut self, bytes: &[u8]) -> usize {
        let mut left = &bytes[..bytes.len().min(self.room)];
        let taken = left.len();
        while !left.is_empty() {
            let Some(slice) = self.slices.get_mut(self.at) else { break };
            let room = &mut slice[self.offset..];
            let len = room.len().min(left.len());
            room[..len].copy_from_slice(&left[..len]);
            left = &left[len..];
            self.offset += len;
            if self.offset == slice.len() {
                self.at += 1;
                self.offset = 0;
            }
        }
        self.pass(taken)
    }

    /// Counts bytes as written that nobody wants to see (`MSG_TRUNC`).
    pub(crate) fn skip(&mut self, bytes: usize) -> usize {
        self.pass(bytes.min(self.room))
    }

    const fn pass(&mut self, bytes: usize) -> usize {
        self.filled += bytes;
        self.room -= bytes;
        bytes
    }
}

/// Bytes that a call sends, in order, over as many attempts as it takes.
#[derive(Debug)]
pub struct Gather<'a, 'b> {
    slices: &'a [IoSlice<'b>],
    offset: usize,
    taken: usize,
    left: usize,
}

impl<'a, 'b> Gather<'a, 'b> {
    /// All of the caller's buffers, at most `most` bytes of them.
    #[must_use]
    pub fn new(slices: &'a [IoSlice<'b>], most: usize) -> Self {
        let left = slices.iter().fold(0usize, |sum, slice| sum.saturating_add(slice.len()));
        Self { slices, offset: 0, taken: 0, left: left.min(most) }
    }

    /// Bytes that were taken.
    #[must_use]
    pub const fn taken(&self) -> usize {
        self.taken
    }

    /// Bytes that are still to be taken.
    #[must_use]
    pub const fn left(&self) -> usize {
        self.left
    }

    /// The next bytes in one piece, at most `most` of them.
    pub(crate) fn next(&mut self, most: usize) -> &'a [u8] {
        while let Some((first, rest)) = self.slices.split_first() {
            let all: &'a [u8] = &first[self.offset..];
            if all.is_empty() {
                self.slices = rest;
                self.offset = 0;
                continue;
            }
            let piece = &all[..all.len().min(most).min(self.left)];
            self.offset += piece.len();
            self.taken += piece.len();
            self.left -= piece.len();
            return piece;
        }
        self.left = 0;
        &[]
    }
}
