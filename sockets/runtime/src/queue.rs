//! A connection's send queue: slices of shared bodies, small owned chunks and
//! ranges of files, kept until the kernel has taken them.
//!
//! The first slice of a body stands inline, because nearly every queue is one
//! slice: a prepared response. Further ones go to a boxed deque.

use app::Body;
use core::ops::Range;
use std::collections::VecDeque;
use std::io::IoSlice;
use std::os::fd::OwnedFd;
use std::sync::Arc;

/// Most bytes of memory that one connection can have queued. An application
/// that looks at `Net::unsent` never comes near it; one that does not, ends
/// its connection.
pub const MAX_QUEUED: usize = 1 << 30;

/// Owned chunks grow in place up to this, so that many small writes do not
/// become many slices.
const OWNED_CHUNK: usize = 16 * 1024;

/// Slices that one call to the kernel takes. Sixteen pipelined responses of a
/// head and a body each; more go with the next call.
pub(crate) const GATHER: usize = 32;

/// See the module.
#[derive(Debug)]
pub(crate) struct Queue {
    head: Option<Body>,
    start: u32,
    len: u32,
    rest: Option<Box<Rest>>,
}

#[derive(Debug, Default)]
struct Rest {
    slices: VecDeque<Slice>,
    /// Bytes of memory in `slices`.
    memory: usize,
    /// Bytes of files in `slices`.
    files: u64,
}

#[derive(Debug)]
enum Slice {
    Body { body: Body, start: u32, len: u32 },
    File { file: Arc<OwnedFd>, offset: u64, len: u64 },
}

/// What stands first in a queue.
#[derive(Debug)]
pub(crate) enum Front<'a> {
    /// One piece of memory, and nothing after it.
    Only(&'a [u8]),
    /// Several pieces of memory, or one with a file behind it.
    Several,
    /// A range of a file.
    File(&'a Arc<OwnedFd>, u64, u64),
    /// Nothing is queued.
    Empty,
}

/// The queue would exceed [`MAX_QUEUED`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct QueueFull;

impl Queue {
    pub(crate) const EMPTY: Self = Self { head: None, start: 0, len: 0, rest: None };

    /// Bytes queued, of memory and of files.
    #[inline]
    pub(crate) fn unsent(&self) -> usize {
        match &self.rest {
            None => self.len as usize,
            Some(rest) => {
                let files = usize::try_from(rest.files).unwrap_or(usize::MAX);
                (self.len as usize + rest.memory).saturating_add(files)
            }
        }
    }

    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.len == 0 && self.rest.is_none()
    }

    /// Queues `range` of `body`. What lies outside of the body is cut off: the
    /// caller computed the range from it.
    #[inline]
    pub(crate) fn push(&mut self, body: &Body, range: Range<u32>) -> Result<(), QueueFull> {
        let start = range.start.min(body.len());
        let len = range.end.min(body.len()).saturating_sub(start);
        if len == 0 {
            return Ok(());
        }
        if self.is_empty() && len as usize <= MAX_QUEUED {
            self.head = Some(body.clone());
            self.start = start;
            self.len = len;
            return Ok(());
        }
        self.push_rest(body, start, len)
    }

    #[cold]
    fn push_rest(&mut self, body: &Body, start: u32, len: u32) -> Result<(), QueueFull> {
        let rest = self.room_for(len as usize)?;
        rest.memory += len as usize;
        rest.slices.push_back(Slice::Body { body: body.clone(), start, len });
        Ok(())
    }

    /// Queues a copy of `bytes`.
    pub(crate) fn push_bytes(&mut self, bytes: &[u8]) -> Result<(), QueueFull> {
        if bytes.is_empty() {
            return Ok(());
        }
        if self.memory() + bytes.len() > MAX_QUEUED {
            return Err(QueueFull);
        }
        if self.extend_last(bytes) {
            return Ok(());
        }
        let body = Body::new(bytes.to_vec());
        self.push(&body, 0..body.len())
    }

    /// Queues `range` of `file`.
    pub(crate) fn push_file(&mut self, file: &Arc<OwnedFd>, range: Range<u64>) {
        let len = range.end.saturating_sub(range.start);
        if len == 0 {
            return;
        }
        let rest = self.rest.get_or_insert_default();
        rest.files = rest.files.saturating_add(len);
        rest.slices.push_back(Slice::File { file: Arc::clone(file), offset: range.start, len });
    }

    /// What stands first.
    #[inline]
    pub(crate) fn front(&self) -> Front<'_> {
        match (&self.head, &self.rest) {
            (Some(body), None) => Front::Only(cut(body, self.start, self.len)),
            (None, None) => Front::Empty,
            (None, Some(rest)) => match rest.slices.front() {
                Some(Slice::File { file, offset, len }) => Front::File(file, *offset, *len),
                _ => Front::Several,
            },
            (Some(_), Some(_)) => Front::Several,
        }
    }

    /// Puts the pieces of memory that stand first into `out`, no more than
    /// `limit` bytes. Returns how many pieces, how many bytes, and whether a
    /// file comes right after them.
    pub(crate) fn gather<'a>(&'a self, out: &mut [IoSlice<'a>; GATHER], limit: usize) -> Gathered {
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
            && !add(cut(body, self.start, self.len))
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

    /// The bodies of the pieces of memory that stand first, in order.
    pub(crate) fn bodies(&self) -> impl Iterator<Item = &Body> {
        let rest = self.rest.iter().flat_map(|rest| &rest.slices);
        let rest = rest.map_while(|slice| match slice {
            Slice::Body { body, .. } => Some(body),
            Slice::File { .. } => None,
        });
        self.head.iter().chain(rest)
    }

    /// Drops the first `n` bytes: the kernel has them.
    #[inline]
    pub(crate) fn release(&mut self, n: usize) {
        if n >= self.len as usize && self.rest.is_none() {
            self.head = None;
            self.len = 0;
        } else if n < self.len as usize {
            self.start += n as u32;
            self.len -= n as u32;
        } else {
            self.release_rest(n as u64);
        }
    }

    /// Drops everything.
    pub(crate) fn clear(&mut self) {
        *self = Self::EMPTY;
    }

    #[cold]
    fn release_rest(&mut self, n: u64) {
        let mut left = n - u64::from(self.len);
        self.head = None;
        self.len = 0;
        let Some(rest) = &mut self.rest else { return };
        while let Some(slice) = rest.slices.front_mut() {
            let (taken, whole) = slice.take(left);
            match slice {
                Slice::Body { .. } => rest.memory -= taken as usize,
                Slice::File { .. } => rest.files -= taken,
            }
            left -= taken;
            if !whole {
                return;
            }
            rest.slices.pop_front();
        }
        self.rest = None;
    }

    fn memory(&self) -> usize {
        self.len as usize + self.rest.as_ref().map_or(0, |rest| rest.memory)
    }

    fn room_for(&mut self, bytes: usize) -> Result<&mut Rest, QueueFull> {
        if self.memory() + bytes > MAX_QUEUED {
            return Err(QueueFull);
        }
        Ok(self.rest.get_or_insert_default())
    }

    /// Appends to the last slice, where it ends its body and nobody else
    /// holds that body.
    fn extend_last(&mut self, bytes: &[u8]) -> bool {
        if let Some(rest) = &mut self.rest {
            let Some(Slice::Body { body, start, len }) = rest.slices.back_mut() else { return false };
            let grown = extend(body, *start + *len, bytes);
            if grown {
                *len += bytes.len() as u32;
                rest.memory += bytes.len();
            }
            return grown;
        }
        let Some(body) = &mut self.head else { return false };
        let grown = extend(body, self.start + self.len, bytes);
        if grown {
            self.len += bytes.len() as u32;
        }
        grown
    }
}

impl Slice {
    /// Takes up to `n` bytes off the front; how many, and whether that is all.
    fn take(&mut self, n: u64) -> (u64, bool) {
        match self {
            Self::Body { start, len, .. } => {
                let taken = n.min(u64::from(*len));
                *start += taken as u32;
                *len -= taken as u32;
                (taken, *len == 0)
            }
            Self::File { offset, len, .. } => {
                let taken = n.min(*len);
                *offset += taken;
                *len -= taken;
                (taken, *len == 0)
            }
        }
    }
}

/// What [`Queue::gather`] found.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Gathered {
    pub(crate) pieces: usize,
    pub(crate) bytes: usize,
    pub(crate) file_next: bool,
}

#[inline]
fn cut(body: &Body, start: u32, len: u32) -> &[u8] {
    body.as_slice().get(start as usize..(start + len) as usize).unwrap_or_default()
}

fn extend(body: &mut Body, end: u32, bytes: &[u8]) -> bool {
    if end != body.len() || body.len() as usize + bytes.len() > OWNED_CHUNK {
        return false;
    }
    let Some(owned) = body.get_mut() else { return false };
    owned.extend_from_slice(bytes);
    true
}

#[cfg(test)]
mod tests;
