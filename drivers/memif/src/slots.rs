//! Which of a client's buffers may be written where they lie.
//!
//! A server builds frames in the client's memory, at the places that the
//! client describes. Rust asks that what is written through `&mut [u8]` is
//! nothing else's meanwhile; a hostile client describes places that overlap,
//! of one queue or two, or that are received frames, or rings. So places count
//! that were described before the client connected, and were found to be apart
//! from each other and from all rings: that is how clients with buffers of
//! their own lay them out. A place that is described later (by a client that
//! gives away its own packet buffers) is written by a copy, through a raw
//! pointer; a frame that is received out of a reserved place is copied out
//! before it is read.

use crate::memory::RingRef;
use crate::ring::{Descriptor, locate};
use core::ops::Range;

/// Where the slots of one ring lie for good.
#[derive(Debug)]
pub(crate) struct Slots {
    /// How the descriptors of the region that all of them are in begin.
    place_word: u32,
    /// By number; none where they are not to be relied on.
    offsets: Box<[u32]>,
}

impl Slots {
    pub(crate) fn none() -> Self {
        Self { place_word: 0, offsets: Box::default() }
    }

    /// Whether slot `index` was found to be apart where it is now: in the
    /// region whose descriptors begin with `place_word`, at `offset`.
    #[inline]
    pub(crate) fn has(&self, index: usize, place_word: u32, offset: u32) -> bool {
        self.place_word == place_word && self.offsets.get(index) == Some(&offset)
    }
}

/// The bytes of a region that all slots found to be apart lie within.
#[derive(Clone, Debug, Default)]
pub(crate) struct Reserved(Vec<(u16, Range<u64>)>);

impl Reserved {
    /// Those of `region`.
    pub(crate) fn within(&self, region: u16) -> Range<u64> {
        self.0.iter().find(|(of, _)| *of == region).map_or(0..0, |(_, bytes)| bytes.clone())
    }

    fn add(&mut self, region: u16, bytes: &Range<u64>) {
        match self.0.iter_mut().find(|(of, _)| *of == region) {
            Some((_, all)) => *all = all.start.min(bytes.start)..all.end.max(bytes.end),
            None => self.0.push((region, bytes.clone())),
        }
    }
}

/// Looks at the rings of a connection, those to the server and those to the
/// client: which slots of the latter, of `len` bytes each, are apart from all
/// else.
pub(crate) fn apart<'r>(
    queues: impl Iterator<Item = (&'r RingRef, &'r RingRef)> + Clone,
    len: u32,
) -> (Vec<Slots>, Reserved) {
    let mut taken: Vec<(u16, Range<u64>)> = queues.clone().flat_map(|(rx, tx)| [rx.place(), tx.place()]).collect();
    let mut reserved = Reserved::default();
    let slots = queues.map(|(_, ring)| {
        let Some((region, bytes, slots)) = fixed(ring, len) else { return Slots::none() };
        if taken.iter().any(|(of, other)| *of == region && overlap(other, &bytes)) {
            return Slots::none();
        }
        reserved.add(region, &bytes);
        taken.push((region, bytes));
        slots
    });
    (slots.collect(), reserved)
}

/// The slots of a ring with their region and all the bytes that they are
/// within, if they are in one region and do not overlap.
fn fixed(ring: &RingRef, len: u32) -> Option<(u16, Range<u64>, Slots)> {
    let descriptors: Vec<Descriptor> = (0..ring.get().size()).map(|slot| ring.get().snapshot(slot)).collect();
    let region = descriptors.first()?.region();
    let mut offsets = Vec::with_capacity(descriptors.len());
    for descriptor in descriptors {
        let whole = Descriptor::new(region, descriptor.offset(), len);
        if descriptor.region() != region || descriptor.length() < len || locate(ring.extents(), whole).is_none() {
            return None;
        }
        offsets.push(descriptor.offset());
    }
    let mut sorted = offsets.clone();
    sorted.sort_unstable();
    if sorted.array_windows().any(|[one, next]| next - one < len) {
        return None;
    }
    let bytes = u64::from(*sorted.first()?)..u64::from(*sorted.last()?) + u64::from(len);
    let place_word = Descriptor::new(region, 0, 0).place_word();
    Some((region, bytes, Slots { place_word, offsets: offsets.into() }))
}

/// Whether two ranges have a byte in common.
#[inline]
pub(crate) const fn overlap(a: &Range<u64>, b: &Range<u64>) -> bool {
    a.start < b.end && b.start < a.end
}
