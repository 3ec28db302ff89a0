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
use crate::ring::{Descriptor, Extent, locate};
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

    /// Whether they are in the region whose descriptors begin so.
    pub(crate) fn are_in(&self, place_word: u32) -> bool {
        self.place_word == place_word
    }

    /// Whether slot `index` was found to be within the region and apart where
    /// it is now, at `offset` of their region.
    #[inline]
    pub(crate) fn has(&self, index: usize, offset: u32) -> bool {
        self.offsets.get(index) == Some(&offset)
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

    /// A window of `extent`, which is `region`, that `bytes` are in and no
    /// reserved ones, which they do not overlap: its offset, and the rest.
    pub(crate) fn window(&self, region: u16, bytes: &Range<u64>, extent: Extent) -> (u32, Extent) {
        let reserved = self.within(region);
        // Offsets lead no further: what wraps below the window lies beyond it.
        let end = extent.size.min(1 << 32);
        let window = if bytes.end <= reserved.start { 0..reserved.start.min(end) } else { reserved.end.min(end)..end };
        let base = extent.base.wrapping_add(window.start as usize);
        (window.start as u32, Extent { base, size: window.end - window.start })
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_window_reaches_as_far_as_no_slot_of_ours_is() {
        let mut bytes = vec![0_u8; 5_000];
        let extent = Extent { base: bytes.as_mut_ptr(), size: 5_000 };
        let mut reserved = Reserved::default();
        reserved.add(7, &(1_500..2_000));
        reserved.add(7, &(1_000..1_200));
        assert_eq!((reserved.within(7), reserved.within(8)), (1_000..2_000, 0..0));
        for (region, of, expected) in [
            (7, 0..60, 0..1_000),
            (7, 940..1_000, 0..1_000),
            (7, 2_000..2_060, 2_000..5_000),
            (7, 4_940..5_000, 2_000..5_000),
            (8, 1_500..1_560, 0..5_000),
        ] {
            let (start, window) = reserved.window(region, &of, extent);
            for offset in [0, 1, 939, 940, 941, 1_500, 1_999, 2_000, 4_940, 4_941, 5_000, u32::MAX - 59, u32::MAX] {
                let place = window.place(offset.wrapping_sub(start), 60);
                let bytes = u64::from(offset)..u64::from(offset) + 60;
                let within = expected.start <= bytes.start && bytes.end <= expected.end;
                assert_eq!(place, within.then(|| extent.base.wrapping_add(offset as usize)), "{of:?}, {offset}");
            }
        }
        // Offsets have 32 bits, and what is below a window must not come round.
        let large = Extent { base: extent.base, size: 1 << 36 };
        let (start, window) = reserved.window(7, &(3_000..3_060), large);
        assert_eq!((start, window.size), (2_000, (1 << 32) - 2_000));
        assert!([0, 1, 1_940, 1_999].iter().all(|offset: &u32| window.place(offset.wrapping_sub(start), 60).is_none()));
    }
}
