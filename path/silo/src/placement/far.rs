//! Frames that lie in another NUMA domain than their silo: found by the pages
//! that they are on, and counted one by one.
//!
//! Where no page of the link is elsewhere, nothing is looked at and nothing
//! counted: none can cross. Where some are (a peer's memory, a domain without
//! any to spare, memory spread on purpose), a turn looks up the page of each
//! frame.

use core::cell::RefCell;
use core::ops::Range;
use link::{Receive, Transmit};
use std::sync::Arc;
use wire::{Offload, Time};

/// The place of a page that is at home, or nowhere yet.
const HOME: u16 = u16::MAX;

/// Which pages of some memory are in which other domain.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct FarPages {
    regions: Vec<Region>,
}

#[derive(Clone, PartialEq, Eq, Debug)]
struct Region {
    /// Where its first page starts.
    start: usize,
    /// Bytes that each entry of `pages` stands for: those of a page, or of
    /// several, where not all were looked at.
    step: usize,
    /// The domain of each page, or [`HOME`].
    pages: Box<[u16]>,
}

/// Frames and bytes in both directions, through memory of one other domain.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct FarFrames {
    /// Frames received that had a byte there.
    pub rx_frames: u64,
    /// Bytes received there.
    pub rx_bytes: u64,
    /// Frames sent that had a byte there.
    pub tx_frames: u64,
    /// Bytes sent from there.
    pub tx_bytes: u64,
}

/// A silo's account of them.
#[derive(Debug)]
pub struct Far {
    pages: Arc<FarPages>,
    /// By the domain's number.
    counted: Vec<FarFrames>,
}

impl FarPages {
    /// None, yet.
    #[must_use]
    pub const fn new() -> Self {
        Self { regions: Vec::new() }
    }

    /// Adds the whole pages from `start` on; each of `places` is a domain, or
    /// `None` for one that is where it is to be, or nowhere.
    pub fn add(&mut self, start: usize, places: &[Option<u16>]) {
        self.add_steps(start, rustix::param::page_size(), places);
    }

    /// The same, of which each of `places` stands for `step` bytes.
    pub(super) fn add_steps(&mut self, start: usize, step: usize, places: &[Option<u16>]) {
        if places.iter().any(Option::is_some) {
            let pages = places.iter().map(|place| place.unwrap_or(HOME)).collect();
            self.regions.push(Region { start, step, pages });
        }
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.regions.is_empty()
    }

    /// The first address of each.
    pub fn starts(&self) -> impl Iterator<Item = usize> {
        self.regions.iter().flat_map(move |region| {
            let far = region.pages.iter().enumerate().filter(|(_, place)| **place != HOME);
            far.map(move |(index, _)| region.start + index * region.step)
        })
    }

    /// The domain of an address's page, if that is another.
    #[inline]
    #[must_use]
    pub fn of(&self, address: usize) -> Option<u16> {
        let found = self.regions.iter().find_map(|region| {
            let offset = address.checked_sub(region.start)?;
            region.pages.get(offset / region.step).copied()
        });
        found.filter(|domain| *domain != HOME)
    }

    /// Tells `each` the other domains that a range is in, and how many of its
    /// bytes are there, page by page.
    #[inline]
    fn each(&self, range: Range<usize>, mut each: impl FnMut(u16, u64)) {
        let page = rustix::param::page_size();
        let mut at = range.start;
        while at < range.end {
            let end = ((at & !(page - 1)) + page).min(range.end);
            if let Some(domain) = self.of(at) {
                each(domain, (end - at) as u64);
            }
            at = end;
        }
    }
}

impl Far {
    /// With these pages, and nothing counted.
    #[must_use]
    pub fn new(pages: Arc<FarPages>) -> Self {
        Self { pages, counted: Vec::new() }
    }

    /// Goes on with other pages, and with what was counted.
    pub fn look_for(&mut self, pages: Arc<FarPages>) {
        self.pages = pages;
    }

    /// What was counted, by domain.
    pub fn counted(&self) -> impl Iterator<Item = (u16, &FarFrames)> {
        (0..).zip(&self.counted)
    }

    /// Whether any page is elsewhere: if not, there is nothing to be counted.
    #[inline]
    #[must_use]
    pub fn has_pages(&self) -> bool {
        !self.pages.is_empty()
    }

    fn note(&mut self, frame: Range<usize>, add: impl Fn(&mut FarFrames, bool, u64)) {
        let Self { pages, counted } = self;
        // A frame counts once for each domain that it has bytes in.
        let mut seen = 0_u64;
        pages.each(frame, |domain, bytes| {
            let at = usize::from(domain);
            if counted.len() <= at {
                // A few times in a silo's life.
                counted.resize(at + 1, FarFrames::default());
            }
            let bit = 1 << (domain % 64);
            add(&mut counted[at], seen & bit == 0, bytes);
            seen |= bit;
        });
    }
}

/// A link's receive half whose frames are counted.
pub struct FarRx<'a, 'f> {
    inner: &'a mut dyn Receive,
    far: &'a RefCell<&'f mut Far>,
}

/// A link's transmit half whose frames are counted.
pub struct FarTx<'a, 'f> {
    inner: &'a mut dyn Transmit,
    far: &'a RefCell<&'f mut Far>,
    /// Where the slot is that was given last.
    slot: usize,
}

impl<'a, 'f> FarRx<'a, 'f> {
    /// Counts what `inner` receives.
    pub fn new(inner: &'a mut dyn Receive, far: &'a RefCell<&'f mut Far>) -> Self {
        Self { inner, far }
    }
}

impl<'a, 'f> FarTx<'a, 'f> {
    /// Counts what `inner` sends.
    pub fn new(inner: &'a mut dyn Transmit, far: &'a RefCell<&'f mut Far>) -> Self {
        Self { inner, far, slot: 0 }
    }
}

impl Receive for FarRx<'_, '_> {
    fn receive(&mut self, now: Time, max: usize) -> usize {
        let frames = self.inner.receive(now, max);
        let mut far = self.far.borrow_mut();
        for index in 0..frames {
            far.note(span(self.inner.frame(index)), |sum, first, bytes| {
                sum.rx_frames += u64::from(first);
                sum.rx_bytes += bytes;
            });
        }
        frames
    }

    fn frame(&self, index: usize) -> &[u8] {
        self.inner.frame(index)
    }

    fn verified(&self, index: usize) -> bool {
        self.inner.verified(index)
    }

    fn stray(&mut self, index: usize) -> bool {
        self.inner.stray(index)
    }

    fn taken(&mut self, index: usize) {
        self.inner.taken(index);
    }

    fn release(&mut self) {
        self.inner.release();
    }
}

impl Transmit for FarTx<'_, '_> {
    fn room(&self) -> usize {
        self.inner.room()
    }

    fn slot(&mut self) -> Option<&mut [u8]> {
        let slot = self.inner.slot()?;
        self.slot = slot.as_ptr().addr();
        Some(slot)
    }

    fn commit(&mut self, len: usize, offload: Offload) {
        let start = core::mem::take(&mut self.slot);
        if start != 0 {
            self.far.borrow_mut().note(start..start + len, |sum, first, bytes| {
                sum.tx_frames += u64::from(first);
                sum.tx_bytes += bytes;
            });
        }
        self.inner.commit(len, offload);
    }

    fn flush(&mut self, now: Time) {
        self.inner.flush(now);
    }
}

fn span(frame: &[u8]) -> Range<usize> {
    let start = frame.as_ptr().addr();
    start..start + frame.len()
}

#[cfg(test)]
mod tests {
    use super::*;
    use link::{Link as _, Pair, PairConfig};

    #[test]
    fn a_page_is_found_by_an_address_in_it() {
        let page = rustix::param::page_size();
        let mut pages = FarPages::new();
        pages.add(10 * page, &[None, None]);
        assert!(pages.is_empty());
        pages.add(2 * page, &[None, Some(1), Some(3)]);
        let of = |address| pages.of(address);
        assert_eq!(pages.starts().collect::<Vec<_>>(), [3 * page, 4 * page]);
        assert_eq!([of(2 * page), of(3 * page), of(5 * page - 1), of(5 * page)], [None, Some(1), Some(3), None]);
        let mut parts = Vec::new();
        pages.each(3 * page - 10..4 * page + 7, |domain, bytes| parts.push((domain, bytes)));
        assert_eq!(parts, [(1, page as u64), (3, 7)]);
    }

    /// Frames over a real link, whose memory is said to be elsewhere.
    #[test]
    fn frames_on_far_pages_are_counted_both_ways() {
        let page = rustix::param::page_size();
        let (mut near, mut peer) = Pair::new(PairConfig::default());
        let everywhere = |range: Range<usize>| {
            let mut pages = FarPages::new();
            let start = range.start & !(page - 1);
            pages.add(start, &vec![Some(2); (range.end - start).div_ceil(page)]);
            Arc::new(pages)
        };
        // Sent: the slot is on far pages.
        let (rx, tx) = near.split();
        let slot = tx.slot().expect("a slot");
        let mut account = Far::new(everywhere(span(slot)));
        {
            let shared = RefCell::new(&mut account);
            let mut counting = FarTx::new(tx, &shared);
            counting.slot().expect("the same slot")[..60].fill(1);
            counting.commit(60, Offload::default());
            counting.flush(Time::ZERO);
            // Without a slot, nothing is sent.
            counting.commit(60, Offload::default());
        }
        let got = account.counted[2];
        assert_eq!((got.tx_frames, got.tx_bytes, got.rx_frames), (1, 60, 0));
        // Received: by the peer, which answers with a frame at home.
        let (peer_rx, peer_tx) = peer.split();
        assert_eq!(peer_rx.receive(Time::ZERO, 8), 1);
        peer_tx.slot().expect("a slot")[..42].fill(2);
        peer_tx.commit(42, Offload::default());
        peer_tx.flush(Time::ZERO);
        account.look_for(Arc::new(FarPages::new()));
        assert!(!account.has_pages());
        {
            let shared = RefCell::new(&mut account);
            let mut counting = FarRx::new(rx, &shared);
            assert_eq!((counting.receive(Time::ZERO, 8), counting.frame(0).len()), (1, 42));
            counting.release();
        }
        assert_eq!(account.counted[2], got);
    }
}
