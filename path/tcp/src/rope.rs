//! The send queue: slices of shared bodies and small owned chunks, kept until
//! the peer has acknowledged them.
//!
//! The first slice stands inline, because nearly every queue is one slice: a
//! prepared response. Further slices go to a boxed deque. Payload is copied
//! once, out of the rope into the transmit slot, and summed in the same pass.

use app::{Body, Reads};
use core::hint::cold_path;
use std::collections::VecDeque;
use wire::checksum::{Sum, copy_and_sum};

/// Most bytes that one connection can have queued: half of what sequence
/// numbers can tell apart. An application that checks `Net::unsent` never
/// comes near it.
pub const MAX_QUEUED: u32 = 1 << 30;

/// Owned chunks grow in place up to this, so that many small writes do not
/// become many slices.
const OWNED_CHUNK: usize = 16 * 1024;

/// A connection's send queue. Offsets count from the oldest byte that is not
/// acknowledged.
#[derive(Clone, Debug, Default)]
pub struct Rope {
    head: Option<Body>,
    head_start: u32,
    head_len: u32,
    rest: Option<Box<Rest>>,
}

#[derive(Clone, Debug, Default)]
struct Rest {
    slices: VecDeque<Slice>,
    bytes: u32,
    /// Where the last copy ended: the slice's index and the offset at which
    /// it starts, counted from the start of `slices`. Sending is sequential,
    /// so the next copy starts here and no walk is needed.
    cursor: (usize, u32),
}

#[derive(Clone, Debug)]
struct Slice {
    body: Body,
    start: u32,
    len: u32,
}

/// The queue would exceed [`MAX_QUEUED`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct QueueFull;

impl Rope {
    /// Bytes queued.
    #[inline]
    #[must_use]
    pub fn len(&self) -> u32 {
        match &self.rest {
            None => self.head_len,
            Some(rest) => self.head_len + rest.bytes,
        }
    }

    /// Bytes queued, if they are one slice.
    #[inline]
    #[must_use]
    pub fn single(&self) -> Option<u32> {
        if self.rest.is_none() { Some(self.head_len) } else { None }
    }

    /// Whether nothing is queued.
    #[inline]
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.head_len == 0
    }

    /// Whether the same bytes are queued, in the same slices.
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        self.slices().eq(other.slices())
    }

    fn slices(&self) -> impl Iterator<Item = &[u8]> {
        let head = self.head.iter().map(|body| (body, self.head_start, self.head_len));
        let rest = self.rest.iter().flat_map(|rest| &rest.slices).map(|slice| (&slice.body, slice.start, slice.len));
        head.chain(rest).map(|(body, start, len)| &body.as_slice()[start as usize..][..len as usize])
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
        if self.head_len == 0 {
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
        if bytes.len() > (MAX_QUEUED - self.len().min(MAX_QUEUED)) as usize {
            return Err(QueueFull);
        }
        if self.extend_last(bytes) {
            return Ok(());
        }
        let body = Body::new(bytes.to_vec());
        self.push(&body, 0, body.len())
    }

    /// Drops the first `n` bytes: the peer has them.
    #[inline(always)]
    pub fn release(&mut self, n: u32) {
        if n < self.head_len {
            self.head_start += n;
            self.head_len -= n;
        } else if n == self.head_len && self.rest.is_none() {
            self.head = None;
            self.head_len = 0;
        } else {
            cold_path();
            self.release_slices(n);
        }
    }

    /// The bytes from `offset` on with their sum, if these `len` bytes are
    /// all of one body: neither has to be made again.
    #[inline(always)]
    #[must_use]
    pub fn whole(&self, offset: u32, len: u32) -> Option<(&[u8], Sum)> {
        let body = self.head.as_ref()?;
        let whole = offset == 0 && len == self.head_len && len == body.len();
        whole.then(|| (body.as_slice(), body.sum()))
    }

    /// Copies the bytes from `offset` on into `out`, whole, and sums them.
    /// The caller asks only for what is queued; what is not is left as it is.
    #[inline(always)]
    pub fn copy_out(&mut self, offset: u32, out: &mut [u8]) -> Sum {
        let end = offset as usize + out.len();
        if end <= self.head_len as usize
            && let Some(body) = &self.head
        {
            if let Some(reads) = body.reads() {
                cold_path();
                reads.note(out.len(), false);
            }
            let from = (self.head_start + offset) as usize;
            return copy_and_sum(out, &body.as_slice()[from..from + out.len()]);
        }
        cold_path();
        self.copy_slices(offset, out)
    }

    /// Whether a slice ends within the `len` bytes from `offset` on, which are
    /// queued.
    #[inline(always)]
    pub fn ends_within(&mut self, offset: u32, len: u32) -> bool {
        if offset < self.head_len {
            return offset + len >= self.head_len;
        }
        self.ends_within_rest(offset, len)
    }

    #[inline(never)]
    fn ends_within_rest(&mut self, offset: u32, len: u32) -> bool {
        let head_len = self.head_len;
        let slice = self.rest.as_mut().and_then(|rest| rest.seek(offset - head_len));
        slice.is_some_and(|(slice, within)| within + len >= slice.len)
    }

    /// Drops what is behind the first `len` bytes. Returns how many bytes that
    /// was.
    pub fn truncate(&mut self, len: u32) -> u32 {
        let before = self.len();
        let Some(rest) = &mut self.rest else {
            self.cut_head(len);
            return before - self.len();
        };
        rest.cursor = (0, 0);
        while let Some(last) = rest.slices.back_mut() {
            let first = self.head_len + rest.bytes - last.len;
            if first < len {
                let kept = last.len.min(len - first);
                rest.bytes -= last.len - kept;
                last.len = kept;
                break;
            }
            rest.bytes -= last.len;
            rest.slices.pop_back();
        }
        if rest.slices.is_empty() {
            self.rest = None;
            self.cut_head(len);
        }
        before - self.len()
    }

    fn cut_head(&mut self, len: u32) {
        self.head_len = self.head_len.min(len);
        if self.head_len == 0 {
            self.head = None;
        }
    }

    /// Drops everything.
    pub fn clear(&mut self) {
        *self = Self::default();
    }

    #[cold]
    fn refuse_head(&mut self) -> Result<(), QueueFull> {
        self.clear();
        Err(QueueFull)
    }

    #[inline(never)]
    fn push_rest(&mut self, body: Body, start: u32, len: u32) -> Result<(), QueueFull> {
        if len > MAX_QUEUED - self.len() {
            return Err(QueueFull);
        }
        let rest = self.rest.get_or_insert_default();
        rest.slices.push_back(Slice { body, start, len });
        rest.bytes += len;
        Ok(())
    }

    /// Appends to the last slice, where it ends its body and nobody else
    /// holds that body.
    fn extend_last(&mut self, bytes: &[u8]) -> bool {
        let (body, end, len) = match &mut self.rest {
            Some(rest) if !rest.slices.is_empty() => {
                let Some(last) = rest.slices.back_mut() else { return false };
                (&mut last.body, last.start + last.len, &mut last.len)
            }
            _ => match &mut self.head {
                Some(body) => (body, self.head_start + self.head_len, &mut self.head_len),
                None => return false,
            },
        };
        if end != body.len() || body.len() as usize + bytes.len() > OWNED_CHUNK {
            return false;
        }
        let Some(owned) = body.get_mut() else { return false };
        owned.extend_from_slice(bytes);
        *len += bytes.len() as u32;
        if let Some(rest) = &mut self.rest
            && !rest.slices.is_empty()
        {
            rest.bytes += bytes.len() as u32;
        }
        true
    }

    fn release_slices(&mut self, n: u32) {
        let mut left = n.min(self.len());
        loop {
            if left < self.head_len {
                self.head_start += left;
                self.head_len -= left;
                return;
            }
            left -= self.head_len;
            self.head = None;
            self.head_len = 0;
            let Some(rest) = &mut self.rest else { return };
            let Some(slice) = rest.slices.pop_front() else {
                self.rest = None;
                return;
            };
            rest.bytes -= slice.len;
            rest.cursor = match rest.cursor {
                (0, _) => (0, 0),
                (index, at) => (index - 1, at - slice.len),
            };
            self.head = Some(slice.body);
            self.head_start = slice.start;
            self.head_len = slice.len;
            if rest.slices.is_empty() {
                self.rest = None;
            }
        }
    }

    #[inline(never)]
    fn copy_slices(&mut self, offset: u32, out: &mut [u8]) -> Sum {
        let mut sum = Sum::ZERO;
        let mut done = 0;
        // Who has a piece of this frame already.
        let mut begun = core::ptr::null();
        if offset < self.head_len
            && let Some(body) = &self.head
        {
            let n = out.len().min((self.head_len - offset) as usize);
            let from = (self.head_start + offset) as usize;
            sum = copy_and_sum(&mut out[..n], &body.as_slice()[from..from + n]);
            done = n;
            note(body, n, &mut begun);
        }
        let Some(rest) = &mut self.rest else { return sum };
        while done < out.len() {
            let target = offset + done as u32 - self.head_len;
            let Some((slice, within)) = rest.seek(target) else { break };
            let n = (out.len() - done).min((slice.len - within) as usize);
            let from = (slice.start + within) as usize;
            let part = copy_and_sum(&mut out[done..done + n], &slice.body.as_slice()[from..from + n]);
            sum = sum.append(part, done % 2 == 1);
            done += n;
            note(&slice.body, n, &mut begun);
        }
        sum
    }
}

/// Counts a piece of a frame where that is counted. `begun` is whose piece the
/// last counted one was.
#[inline]
fn note(body: &Body, bytes: usize, begun: &mut *const Reads) {
    if let Some(reads) = body.reads() {
        cold_path();
        let last = core::mem::replace(begun, reads);
        reads.note(bytes, core::ptr::eq(last, reads));
    }
}

impl Rest {
    /// The slice that holds byte `target` of the rest, and the offset in it.
    fn seek(&mut self, target: u32) -> Option<(&Slice, u32)> {
        if target >= self.bytes {
            return None;
        }
        let (mut index, mut at) = self.cursor;
        if target < at {
            (index, at) = (0, 0);
        }
        while target - at >= self.slices.get(index)?.len {
            at += self.slices[index].len;
            index += 1;
        }
        self.cursor = (index, at);
        Some((&self.slices[index], target - at))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A frame counts once, whatever pieces of the counted bodies it has.
    #[test]
    fn reads_are_counted_by_frame() {
        use std::rc::Rc;
        use std::sync::Arc;
        let reads = Rc::new(Reads::default());
        let far = || Body::counted(Arc::new(vec![7; 1_000]), Rc::clone(&reads));
        let mut rope = Rope::default();
        rope.push(&body(100, 1), 0, 100).unwrap();
        rope.push(&far(), 0, 1_000).unwrap();
        rope.push(&far(), 0, 1_000).unwrap();
        // The near head, the rest of it with the first body's beginning, the
        // two bodies, and what is left; the last once more.
        for (offset, len, want) in [
            (0, 60, (0, 0)),
            (60, 500, (1, 460)),
            (560, 1_000, (2, 1_460)),
            (1_560, 540, (3, 2_000)),
            (1_560, 540, (4, 2_540)),
        ] {
            rope.copy_out(offset, &mut vec![0; len]);
            assert_eq!((reads.frames(), reads.bytes()), want, "{offset}");
        }
        rope.release(1_100);
        rope.copy_out(10, &mut [0; 20]);
        assert_eq!((reads.frames(), reads.bytes()), (5, 2_560));
        // The whole of one, in one piece.
        assert!(rope.whole(0, 1_000).is_some());
        assert_eq!((reads.frames(), reads.bytes()), (6, 3_560));
    }

    fn body(n: usize, seed: u8) -> Body {
        Body::new((0..n).map(|i| (i as u8).wrapping_mul(31).wrapping_add(seed)).collect())
    }

    /// Any order of pushes, copies at any offset, releases and cuts gives the
    /// bytes of the plain queue and their checksum.
    #[test]
    fn agrees_with_a_plain_queue() {
        let mut state = 7u64;
        let mut random = move |n: u64| {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            (state >> 33) % n
        };
        for _ in 0..200 {
            let mut rope = Rope::default();
            let mut plain: Vec<u8> = Vec::new();
            for _ in 0..60 {
                match random(5) {
                    0 => {
                        let b = body(1 + random(300) as usize, random(200) as u8);
                        let start = random(u64::from(b.len())) as u32;
                        let len = random(u64::from(b.len() - start) + 1) as u32;
                        rope.push(&b, start, len).unwrap();
                        plain.extend_from_slice(&b.as_slice()[start as usize..(start + len) as usize]);
                    }
                    1 => {
                        let b = body(random(50) as usize, 9);
                        rope.push_bytes(b.as_slice()).unwrap();
                        plain.extend_from_slice(b.as_slice());
                    }
                    2 => {
                        let n = random(plain.len() as u64 + 1) as usize;
                        rope.release(n as u32);
                        plain.drain(..n);
                    }
                    3 => {
                        let n = random(plain.len() as u64 + 20) as usize;
                        let cut = plain.len().saturating_sub(n);
                        assert_eq!(rope.truncate(n as u32) as usize, cut);
                        plain.truncate(n);
                    }
                    _ => {
                        let from = random(plain.len() as u64 + 1) as usize;
                        let n = random((plain.len() - from) as u64 + 1) as usize;
                        let mut out = vec![0; n];
                        let sum = rope.copy_out(from as u32, &mut out);
                        assert_eq!(out, &plain[from..from + n]);
                        assert_eq!(sum.finish(), wire::checksum::sum(&out).finish());
                    }
                }
                assert_eq!(rope.len() as usize, plain.len());
                assert_eq!(rope.is_empty(), plain.is_empty());
            }
        }
    }

    #[test]
    fn refuses_more_than_the_limit() {
        let big = Body::new(vec![0; 1 << 20]);
        let mut rope = Rope::default();
        for _ in 0..1024 {
            rope.push(&big, 0, big.len()).unwrap();
        }
        assert_eq!(rope.len(), MAX_QUEUED);
        assert_eq!(rope.push(&big, 0, 1), Err(QueueFull));
        assert_eq!(rope.push_bytes(b"x"), Err(QueueFull));
        assert_eq!(rope.len(), MAX_QUEUED);
    }
}
