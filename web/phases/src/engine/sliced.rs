//! What is known of a request whose answer is asked for by slices, and what each is to be.

use core::ops::Range;
use proxy::fields::NameSet;
use proxy::slices::ContentRange;
use semantics::Fields;

/// What an answer says that is a part of a whole.
pub(crate) const PARTIAL: u16 = 206;

/// A slice that is asked for.
#[derive(Clone, Debug)]
pub(crate) struct SliceAsked {
    /// Bytes of each.
    size: u64,
    /// Where it begins; once it came, where the next does.
    start: u64,
    /// What `$slice_range` stands for.
    pub range: Vec<u8>,
    /// The tag that all of them have; empty until one had any.
    etag: Vec<u8>,
    /// Its head came, and is that of a slice.
    pub came: bool,
}

impl SliceAsked {
    fn new(size: u64, start: u64, etag: Vec<u8>) -> Self {
        let range = format!("bytes={start}-{}", start.saturating_add(size - 1)).into_bytes();
        Self { size, start, range, etag, came: false }
    }

    /// Takes the head of an answer with this status and these fields, of which some are
    /// hidden: which bytes it has, of how many; or what is wrong with it, for people.
    pub fn take(&mut self, status: u16, fields: &[u8], hidden: &NameSet) -> Result<(Range<u64>, u64), String> {
        if status != PARTIAL {
            return Err(format!("unexpected status code {status} in slice response"));
        }
        let field = |name: &str| {
            let named = Fields::new(fields).filter(|field| field.is(name) && !hidden.has(field.name));
            named.last().map(|field| field.value)
        };
        let etag = field("etag");
        if !self.etag.is_empty() && etag != Some(&self.etag) {
            return Err("etag mismatch in slice response".to_owned());
        }
        let told = field("content-range").and_then(ContentRange::parse);
        let Some(ContentRange { start, end, complete }) = told.filter(|told| told.start < told.end) else {
            return Err("invalid range in slice response".to_owned());
        };
        let Some(complete) = complete else { return Err("no complete length in slice response".to_owned()) };
        let expected = start.saturating_add(self.size).min(complete);
        if (start, end) != (self.start, expected) {
            let asked = self.start;
            return Err(format!("unexpected range in slice response: {start}-{end}, expected: {asked}-{expected}"));
        }
        if let Some(etag) = etag {
            self.etag = etag.to_vec();
        }
        (self.start, self.came) = (end, true);
        Ok((start..end, complete))
    }
}

/// A request whose answer is asked for by slices.
#[derive(Debug)]
pub(crate) struct Slices {
    pub asked: SliceAsked,
    /// What of the whole goes to the client; and whether it goes as it is, so that places in
    /// it are places in the whole.
    window: Range<u64>,
    exact: bool,
    /// What of the whole is still to come of the slice that comes.
    pub comes: Range<u64>,
    /// The first slice is none of what goes to the client.
    drops: bool,
}

impl Slices {
    /// Those of `size` bytes, of which the one comes first that has the byte `first`.
    pub fn new(size: u64, first: u64) -> Self {
        let asked = SliceAsked::new(size, first / size * size, Vec::new());
        Self { asked, window: 0..0, exact: false, comes: 0..0, drops: false }
    }

    /// The client gets `window`, which goes as it `is_exact`.
    pub fn begin(&mut self, window: Range<u64>, is_exact: bool) {
        let size = self.asked.size;
        let begun_late = window.start < self.comes.start;
        if begun_late || self.asked.start.saturating_add(size) <= window.start {
            // It goes on where the client's part begins.
            self.asked.start = window.start / size * size;
        }
        (self.drops, self.window, self.exact) = (begun_late, window, is_exact);
    }

    /// What of the next so many bytes goes on.
    fn next(&mut self, length: usize) -> Range<usize> {
        if !self.exact {
            return 0..length;
        }
        let at = self.comes.start;
        let within = |place: u64| usize::try_from(place.saturating_sub(at)).unwrap_or(usize::MAX).min(length);
        self.comes.start = at.saturating_add(length as u64);
        let end = within(self.window.end.min(self.comes.end));
        within(self.window.start).min(end)..end
    }

    /// What of some content of the first slice goes on.
    pub fn cut<'b>(&mut self, bytes: &'b [u8]) -> &'b [u8] {
        if self.drops {
            return &[];
        }
        let kept = self.next(bytes.len());
        bytes.get(kept).unwrap_or_default()
    }

    /// The same of a part of what came of the next.
    pub fn cut_of(&mut self, range: Range<u32>) -> Range<u32> {
        let kept = self.next(range.len());
        range.start + kept.start as u32..range.start + kept.end as u32
    }

    /// The slice that is next, if there is one.
    pub fn ask(&mut self) -> Option<SliceAsked> {
        let (size, start) = (self.asked.size, self.asked.start);
        if start >= self.window.end {
            return None;
        }
        self.asked = SliceAsked::new(size, start, core::mem::take(&mut self.asked.etag));
        self.comes = start..start.saturating_add(size);
        Some(self.asked.clone())
    }
}
