//! What a data path does with a queue whose front goes to system calls.

use crate::{Rope, Slice, cut};
use app::Body;
use core::ops::Range;
use std::io::IoSlice;

/// Slices that one call to the kernel takes. Sixteen pipelined responses of a
/// head and a body each; more go with the next call.
pub const GATHER: usize = 32;

/// What stands first in a queue.
#[derive(Debug)]
pub enum Front<'a, F> {
    /// One piece of memory, and nothing after it.
    Only(&'a [u8]),
    /// Several pieces of memory, or one with a file behind it.
    Several,
    /// A range of a file: its offset and length.
    File(&'a F, u64, u64),
    /// Nothing is queued.
    Empty,
}

/// What [`Rope::gather`] found.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Gathered {
    /// How many pieces.
    pub pieces: usize,
    /// Their bytes.
    pub bytes: usize,
    /// Whether a file comes right after them.
    pub file_next: bool,
}

impl<F> Rope<F> {
    /// Queues `range` of `file`.
    pub fn push_file(&mut self, file: F, range: Range<u64>) {
        let len = range.end.saturating_sub(range.start);
        if len == 0 {
            return;
        }
        let rest = self.rest.get_or_insert_default();
        rest.files = rest.files.saturating_add(len);
        rest.slices.push_back(Slice::File { file, offset: range.start, len });
    }

    /// What stands first.
    #[inline]
    #[must_use]
    pub fn front(&self) -> Front<'_, F> {
        match (&self.head, &self.rest) {
            (Some(body), None) => Front::Only(cut(body, self.head_start, self.head_len)),
            (None, None) => Front::Empty,
            (None, Some(rest)) => match rest.slices.front() {
                Some(Slice::File { file, offset, len }) => Front::File(file, *offset, *len),
                _ => Front::Several,
            },
            (Some(_), Some(_)) => Front::Several,
        }
    }

    /// Puts the pieces of memory that stand first into `out`, no more than
    /// `limit` bytes.
    pub fn gather<'a>(&'a self, out: &mut [IoSlice<'a>; GATHER], limit: usize) -> Gathered {
        let mut all = Gathered { pieces: 0, bytes: 0, file_next: false };
        let mut add = |bytes: &'a [u8]| {
            let taken = &bytes[..bytes.len().min(limit - all.bytes)];
            if all.pieces == GATHER || taken.is_empty() {
                return false;
            }
            out[all.pieces] = IoSlice::new(taken);
            all.pieces += 1;
            all.bytes += taken.len();
            taken.len() == bytes.len()
        };
        if let Some(body) = &self.head
            && !add(cut(body, self.head_start, self.head_len))
        {
            return all;
        }
        for slice in self.rest.iter().flat_map(|rest| &rest.slices) {
            match slice {
                Slice::Body { body, start, len } if add(cut(body, *start, *len)) => {}
                Slice::Body { .. } => break,
                Slice::File { .. } => {
                    all.file_next = true;
                    break;
                }
            }
        }
        all
    }

    /// The first file that is queued, wherever it stands: its offset and length.
    #[must_use]
    pub fn first_file(&self) -> Option<(&F, u64, u64)> {
        self.rest.as_ref()?.slices.iter().find_map(|slice| match slice {
            Slice::File { file, offset, len } => Some((file, *offset, *len)),
            Slice::Body { .. } => None,
        })
    }

    /// The bodies of the pieces of memory that stand first, in order.
    pub fn bodies(&self) -> impl Iterator<Item = &Body> {
        let rest = self.rest.iter().flat_map(|rest| &rest.slices);
        let rest = rest.map_while(|slice| match slice {
            Slice::Body { body, .. } => Some(body),
            Slice::File { .. } => None,
        });
        self.head.iter().chain(rest)
    }
}
