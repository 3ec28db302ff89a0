//! The send queue of a connection, whichever data path it is on: slices of
//! shared bodies, small owned chunks and, where the data path sends them, ranges
//! of files.
//!
//! The first slice of a body stands inline, because nearly every queue is one
//! slice: a prepared response. Further slices go to a boxed deque.
//!
//! One side pushes. Two pull: our stack copies out of it into transmit slots, at
//! any offset and as often as it must, and sums in the same pass ([`copies`]);
//! over kernel sockets what stands first is gathered for a system call
//! ([`gathers`]). Both release what the peer, or the kernel, has.
//!
//! The queue of a secured connection keeps plaintext, and is read as the records that
//! carry it ([`sealed`](Rope::seal_out)): its length, its offsets and what is released then
//! count what is sent.
//!
//! [`copies`]: Rope::copy_out
//! [`gathers`]: Rope::gather
#![forbid(unsafe_code)]

mod copy;
mod gather;
mod ledger;
mod sealed;
mod single;

pub use gather::{Front, GATHER, Gathered};
pub use ledger::{KEYS_WEAR, Message};
pub use sealed::Workbench;
pub use single::Fixed;

use app::Body;
use core::hint::cold_path;
use std::collections::VecDeque;

/// Most bytes of memory that one connection can have queued: half of what
/// sequence numbers can tell apart. An application that looks at `Net::unsent`
/// never comes near it.
pub const MAX_QUEUED: u32 = 1 << 30;

/// Owned chunks grow in place up to this, so that many small writes do not
/// become many slices.
const OWNED_CHUNK: usize = 16 * 1024;

/// Bytes that [`Rope::push_first`] queues at most.
pub const FILLED_MAX: usize = OWNED_CHUNK;

/// For a queue that has no files: nothing is of this type.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum NoFile {}

/// A connection's send queue, with files of the type `F`. Offsets count from
/// the oldest byte that was not released.
#[derive(Clone, Debug)]
pub struct Rope<F = NoFile> {
    /// The first slice, unless that is of a file.
    head: Option<Body>,
    head_start: u32,
    head_len: u32,
    rest: Option<Box<Rest<F>>>,
}

#[derive(Clone, Debug)]
struct Rest<F> {
    slices: VecDeque<Slice<F>>,
    /// Bytes of memory in `slices`.
    bytes: u32,
    /// Bytes of files in `slices`.
    files: u64,
    /// Where the last copy ended: the slice's index and the offset at which
    /// it starts, counted from the start of `slices`. Sending is sequential,
    /// so the next copy starts here and no walk is needed.
    cursor: (usize, u32),
    /// What a secured connection sends this as.
    records: Option<Box<sealed::Records>>,
}

const _: () = assert!(size_of::<Rest<NoFile>>() <= 80, "a secured connection that rests keeps it");

#[derive(Clone, Debug)]
enum Slice<F> {
    Body { body: Body, start: u32, len: u32 },
    File { file: F, offset: u64, len: u64 },
}

/// The queue would exceed [`MAX_QUEUED`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct QueueFull;

impl<F> Default for Rope<F> {
    fn default() -> Self {
        Self::EMPTY
    }
}

impl<F> Default for Rest<F> {
    fn default() -> Self {
        Self { slices: VecDeque::new(), bytes: 0, files: 0, cursor: (0, 0), records: None }
    }
}

impl<F> Rope<F> {
    /// Nothing queued.
    pub const EMPTY: Self = Self { head: None, head_start: 0, head_len: 0, rest: None };

    /// Bytes of memory to be sent: of a secured connection, those of its records.
    #[inline]
    #[must_use]
    pub fn len(&self) -> u32 {
        match &self.rest {
            None => self.head_len,
            Some(rest) => match &rest.records {
                None => self.head_len + rest.bytes,
                Some(records) => {
                    cold_path();
                    records.ledger.wire_len(rest.bytes)
                }
            },
        }
    }

    /// Bytes of memory queued.
    #[inline]
    #[must_use]
    pub fn plain_len(&self) -> u32 {
        match &self.rest {
            None => self.head_len,
            Some(rest) => self.head_len + rest.bytes,
        }
    }

    /// Bytes queued, of memory and of files.
    #[inline]
    #[must_use]
    pub fn unsent(&self) -> usize {
        let files = self.rest.as_ref().map_or(0, |rest| rest.files);
        (self.plain_len() as usize).saturating_add(usize::try_from(files).unwrap_or(usize::MAX))
    }

    /// Whether nothing is to be sent.
    #[inline]
    #[must_use]
    pub fn is_empty(&self) -> bool {
        // Without files and records the first slice is in the head.
        self.head_len == 0 && self.rest.as_ref().is_none_or(|rest| rest.is_spent())
    }

    /// Queues `len` bytes of `body` from `start` on. Out-of-range parts are
    /// cut off: the caller computed them from the same body.
    ///
    /// # Errors
    /// [`QueueFull`]; nothing was queued.
    #[inline(always)]
    pub fn push(&mut self, body: &Body, start: u32, len: u32) -> Result<(), QueueFull> {
        let start = start.min(body.len());
        let len = len.min(body.len() - start);
        if len == 0 {
            return Ok(());
        }
        if self.head_len == 0 && self.rest.is_none() {
            if let Some(spent) = self.head.replace(body.clone()) {
                cold_path();
                drop(spent);
            }
            self.head_start = start;
            self.head_len = len;
            if len > MAX_QUEUED {
                cold_path();
                return self.refuse_head();
            }
            return Ok(());
        }
        cold_path();
        self.push_rest(body.clone(), start, len)
    }

    /// Queues a copy of `bytes`.
    ///
    /// # Errors
    /// [`QueueFull`]; nothing was queued.
    pub fn push_bytes(&mut self, bytes: &[u8]) -> Result<(), QueueFull> {
        if bytes.is_empty() {
            return Ok(());
        }
        if bytes.len() > (MAX_QUEUED - self.plain_len().min(MAX_QUEUED)) as usize {
            return Err(QueueFull);
        }
        if self.extend_last(bytes) {
            return Ok(());
        }
        let body = Body::copied(bytes);
        self.push(&body, 0, body.len())
    }

    /// Queues what `fill` appends to what it is given, `len` bytes or about as many, if nothing is
    /// queued and `len` is no more than [`FILLED_MAX`]. Whether it is queued.
    #[inline(always)]
    pub fn push_first(&mut self, len: usize, fill: impl FnOnce(&mut Vec<u8>)) -> bool {
        if len > FILLED_MAX || self.head_len != 0 || self.rest.is_some() {
            cold_path();
            return false;
        }
        let body = Body::filled(len, fill);
        self.head_start = 0;
        self.head_len = body.len().min(MAX_QUEUED);
        self.head = if self.head_len > 0 { Some(body) } else { None };
        true
    }

    /// Drops the first `n` bytes: the peer has them, or the kernel.
    #[inline(always)]
    pub fn release(&mut self, n: u64) {
        if n < u64::from(self.head_len) {
            self.head_start += n as u32;
            self.head_len -= n as u32;
        } else if n == u64::from(self.head_len) && self.rest.is_none() {
            self.head = None;
            self.head_len = 0;
        } else {
            cold_path();
            self.release_slices(n);
        }
    }

    /// Drops everything.
    pub fn clear(&mut self) {
        *self = Self::EMPTY;
    }

    #[cold]
    fn refuse_head(&mut self) -> Result<(), QueueFull> {
        self.clear();
        Err(QueueFull)
    }

    #[inline(never)]
    fn push_rest(&mut self, body: Body, start: u32, len: u32) -> Result<(), QueueFull> {
        if len > MAX_QUEUED - self.plain_len() {
            return Err(QueueFull);
        }
        let rest = self.rest.get_or_insert_default();
        rest.slices.push_back(Slice::Body { body, start, len });
        rest.bytes += len;
        Ok(())
    }

    /// Appends to the last slice, where it ends its body and nobody else
    /// holds that body.
    fn extend_last(&mut self, bytes: &[u8]) -> bool {
        let added = bytes.len() as u32;
        if let Some(rest) = &mut self.rest {
            let Some(Slice::Body { body, start, len }) = rest.slices.back_mut() else { return false };
            if !extend(body, *start + *len, bytes) {
                return false;
            }
            *len += added;
            rest.bytes += added;
            return true;
        }
        let Some(body) = &mut self.head else { return false };
        let grown = extend(body, self.head_start + self.head_len, bytes);
        if grown {
            self.head_len += added;
        }
        grown
    }

    #[inline(never)]
    fn release_slices(&mut self, n: u64) {
        if self.rest.as_mut().is_some_and(|rest| rest.release_records(n)) {
            return;
        }
        let mut left = n;
        loop {
            if left < u64::from(self.head_len) {
                self.head_start += left as u32;
                self.head_len -= left as u32;
                return;
            }
            left -= u64::from(self.head_len);
            self.head = None;
            self.head_len = 0;
            let Some(rest) = &mut self.rest else { return };
            match rest.slices.front_mut() {
                None => {
                    self.rest = None;
                    return;
                }
                Some(Slice::File { offset, len, .. }) if *len > left => {
                    *offset += left;
                    *len -= left;
                    rest.files -= left;
                    return;
                }
                Some(_) => {}
            }
            match rest.slices.pop_front() {
                Some(Slice::File { len, .. }) => {
                    rest.files -= len;
                    left -= len;
                    rest.cursor = (0, 0);
                }
                Some(Slice::Body { body, start, len }) => {
                    rest.bytes -= len;
                    rest.cursor = match rest.cursor {
                        (0, _) => (0, 0),
                        (index, at) => (index - 1, at - len),
                    };
                    self.head = Some(body);
                    self.head_start = start;
                    self.head_len = len;
                }
                None => {}
            }
            if rest.slices.is_empty() {
                self.rest = None;
            }
        }
    }
}

impl<F> Rest<F> {
    /// Whether nothing is in it.
    #[cold]
    fn is_spent(&self) -> bool {
        self.slices.is_empty() && self.records.as_ref().is_none_or(|records| records.ledger.is_spent())
    }
}

fn extend(body: &mut Body, end: u32, bytes: &[u8]) -> bool {
    if end != body.len() || body.len() as usize + bytes.len() > OWNED_CHUNK {
        return false;
    }
    let Some(owned) = body.get_mut() else { return false };
    owned.extend_from_slice(bytes);
    true
}

#[inline]
fn cut(body: &Body, start: u32, len: u32) -> &[u8] {
    body.as_slice().get(start as usize..start as usize + len as usize).unwrap_or_default()
}

#[cfg(test)]
mod tests;
