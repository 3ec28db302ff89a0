//! Series of a page, which grow word by word.

use super::{Layout, Mapping, NAMED, SERIES_NAME_BYTES, WORD, cut};
use core::sync::atomic::{AtomicU64, Ordering, fence};
use std::sync::Arc;

/// How many series a page has room for, and how many words each has. What they mean is
/// their writer's and their reader's.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct SeriesShape {
    /// Series.
    pub count: usize,
    /// Words of each, for each silo.
    pub words: usize,
}

impl SeriesShape {
    /// Words of all series for one silo, at most: a megabyte.
    pub(super) const WORDS_LIMIT: usize = 128 << 10;

    pub(super) fn is_bounded(&self) -> bool {
        self.count.checked_mul(self.words).is_some_and(|words| words <= Self::WORDS_LIMIT)
            && self.count <= Self::WORDS_LIMIT
    }
}

/// Series of a page, to be written.
#[derive(Clone, Debug)]
pub struct SeriesArea {
    mapping: Arc<Mapping>,
    layout: Layout,
}

impl SeriesArea {
    pub(super) const fn new(mapping: Arc<Mapping>, layout: Layout) -> Self {
        Self { mapping, layout }
    }

    /// The part of a silo; of one that is not there it is empty.
    #[must_use]
    pub fn silo(&self, silo: usize) -> SiloWords {
        let shape = self.layout.series;
        let at = self.layout.series(silo) / WORD;
        let words = if silo < self.layout.silos { shape.count * shape.words } else { 0 };
        SiloWords { mapping: Arc::clone(&self.mapping), range: at..at + words }
    }

    /// Names a series, which is of this generation from now on; the ones before it have, or
    /// had, names.
    pub fn set_name(&self, series: usize, generation: u32, name: &str) {
        let name = cut(name, SERIES_NAME_BYTES - WORD);
        self.clear_name(series);
        let Some(words) = self.name(series) else { return };
        for (word, bytes) in words[1..].iter().zip(name.as_bytes().chunks(WORD)) {
            let mut whole = [0; WORD];
            whole[..bytes.len()].copy_from_slice(bytes);
            word.store(u64::from_ne_bytes(whole), Ordering::Relaxed);
        }
        words[0].store(u64::from(generation) << 32 | name.len() as u64, Ordering::Release);
        if let Some(named) = self.mapping.words().get(NAMED) {
            named.fetch_max(series as u64 + 1, Ordering::Release);
        }
    }

    /// A series is nobody's any more.
    pub fn clear_name(&self, series: usize) {
        let Some(words) = self.name(series) else { return };
        words[0].store(0, Ordering::Relaxed);
        // A reader that sees the next name's letters sees this.
        fence(Ordering::Release);
    }

    fn name(&self, series: usize) -> Option<&[AtomicU64]> {
        let at = self.layout.series_name(series) / WORD;
        if series < self.layout.series.count {
            self.mapping.words().get(at..at + SERIES_NAME_BYTES / WORD)
        } else {
            None
        }
    }
}

/// The words of a silo's series, one series after the other.
#[derive(Clone, Debug)]
pub struct SiloWords {
    mapping: Arc<Mapping>,
    range: core::ops::Range<usize>,
}

impl SiloWords {
    /// All of them.
    #[inline]
    #[must_use]
    pub fn words(&self) -> &[AtomicU64] {
        self.mapping.words().get(self.range.clone()).unwrap_or_default()
    }
}
