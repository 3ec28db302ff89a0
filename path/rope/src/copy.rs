//! What our stack does with a queue: copies at any offset, as often as it must.
//! There are no files in it.

use crate::{NoFile, Rest, Rope, Slice, cut};
use app::{Body, Reads};
use core::hint::cold_path;
use wire::checksum::Sum;

impl Rope {
    /// Bytes queued, if they are one slice.
    #[inline]
    #[must_use]
    pub const fn single(&self) -> Option<u32> {
        if self.rest.is_none() { Some(self.head_len) } else { None }
    }

    /// Whether the same bytes are queued, in the same slices.
    #[must_use]
    pub fn is_same(&self, other: &Self) -> bool {
        let records = |rope: &Self| rope.rest.as_ref().and_then(|rest| rest.records.clone());
        self.slices().eq(other.slices()) && records(self) == records(other)
    }

    pub(crate) fn slices(&self) -> impl Iterator<Item = &[u8]> {
        let head = self.head.iter().map(|body| cut(body, self.head_start, self.head_len));
        let rest = self.rest.iter().flat_map(|rest| &rest.slices);
        head.chain(rest.map(|slice| {
            let (body, start, len) = slice.body();
            cut(body, start, len)
        }))
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
            return body.copy_to(from, out);
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
        // Where records are sent, it is not looked for.
        let slice = self.rest.as_mut().filter(|rest| rest.records.is_none());
        let slice = slice.and_then(|rest| rest.seek(offset - head_len));
        slice.is_some_and(|((_, _, slice_len), within)| within + len >= slice_len)
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
        while let Some(Slice::Body { len: last, .. }) = rest.slices.back_mut() {
            let first = self.head_len + rest.bytes - *last;
            if first < len {
                let kept = (*last).min(len - first);
                rest.bytes -= *last - kept;
                *last = kept;
                break;
            }
            rest.bytes -= *last;
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
            sum = body.copy_to(from, &mut out[..n]);
            done = n;
            note(body, n, &mut begun);
        }
        let Some(rest) = &mut self.rest else { return sum };
        if rest.records.is_some() {
            // No plaintext goes where records are sent.
            debug_assert!(out.is_empty(), "records are sealed");
            out.fill(0);
            return Sum::ZERO;
        }
        while done < out.len() {
            let target = offset + done as u32 - self.head_len;
            let Some(((body, start, len), within)) = rest.seek(target) else { break };
            let n = (out.len() - done).min((len - within) as usize);
            let from = (start + within) as usize;
            let part = body.copy_to(from, &mut out[done..done + n]);
            sum = sum.append(part, done % 2 == 1);
            done += n;
            note(body, n, &mut begun);
        }
        sum
    }
}

/// Counts a piece of a frame where that is counted. `begun` is whose piece the
/// last counted one was.
#[inline]
pub(crate) fn note(body: &Body, bytes: usize, begun: &mut *const Reads) {
    if let Some(reads) = body.reads() {
        cold_path();
        let last = core::mem::replace(begun, reads);
        reads.note(bytes, core::ptr::eq(last, reads));
    }
}

impl Slice<NoFile> {
    pub(crate) const fn body(&self) -> (&Body, u32, u32) {
        match self {
            Self::Body { body, start, len } => (body, *start, *len),
            Self::File { file, .. } => match *file {},
        }
    }
}

impl Rest<NoFile> {
    /// The slice that holds byte `target` of the rest (its body, where it
    /// starts there, and its length), and the offset in it.
    pub(crate) fn seek(&mut self, target: u32) -> Option<((&Body, u32, u32), u32)> {
        if target >= self.bytes {
            return None;
        }
        let (mut index, mut at) = self.cursor;
        if target < at {
            (index, at) = (0, 0);
        }
        loop {
            let (_, _, len) = self.slices.get(index)?.body();
            if target - at < len {
                break;
            }
            at += len;
            index += 1;
        }
        self.cursor = (index, at);
        Some((self.slices.get(index)?.body(), target - at))
    }
}
