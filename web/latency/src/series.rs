//! Series, by host and location: how many there may be, and where they lie.

use crate::buckets::{BUCKETS, Histogram};
use core::fmt;
use core::sync::atomic::{AtomicU64, Ordering};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

/// Series that there may be, with [`OTHER`].
pub const SERIES_MAX: usize = 64;

/// What is counted for no place of its own.
pub const OTHER: u16 = 0;

/// Classes of statuses that are told apart: 2xx, 3xx, 4xx, 5xx.
pub const CLASSES: usize = 4;

/// Bytes of a series' name.
pub const NAME_MAX: usize = 240;

/// Of these a host's, at most.
const HOST_MAX: usize = 120;

/// Words of a series: its histogram, the sum of latencies, bytes, and responses by
/// class.
pub const WORDS: usize = BUCKETS + 2 + CLASSES;

pub(crate) const SUM: usize = BUCKETS;
pub(crate) const BYTES: usize = BUCKETS + 1;
pub(crate) const FIRST_CLASS: usize = BUCKETS + 2;

/// A silo's words, which nobody else writes to: [`SERIES_MAX`] times [`WORDS`].
pub trait SeriesWords: Send + Sync {
    /// All of them.
    fn words(&self) -> &[AtomicU64];
}

/// Where series lie, and their names.
pub trait SeriesMemory: Send + Sync {
    /// A silo's part.
    fn silo(&self, silo: usize) -> Arc<dyn SeriesWords>;

    /// Makes the name of a series known to readers.
    fn set_name(&self, series: u16, name: &str);
}

/// Series in memory of this process's own, of one silo: for measurements and tests.
#[derive(Clone, Debug)]
pub struct SeriesHeap(Arc<(Vec<AtomicU64>, Mutex<Vec<String>>)>);

impl Default for SeriesHeap {
    fn default() -> Self {
        let words = (0..SERIES_MAX * WORDS).map(|_| AtomicU64::new(0)).collect();
        Self(Arc::new((words, Mutex::default())))
    }
}

impl SeriesWords for SeriesHeap {
    fn words(&self) -> &[AtomicU64] {
        &self.0.0
    }
}

impl SeriesMemory for SeriesHeap {
    fn silo(&self, _: usize) -> Arc<dyn SeriesWords> {
        Arc::new(self.clone())
    }

    fn set_name(&self, series: u16, name: &str) {
        let mut names = self.0.1.lock().unwrap_or_else(PoisonError::into_inner);
        names.truncate(usize::from(series));
        names.push(name.to_owned());
    }
}

impl SeriesHeap {
    /// All series, as a reader has them.
    #[must_use]
    pub fn read(&self) -> Vec<Series> {
        let names = self.0.1.lock().unwrap_or_else(PoisonError::into_inner);
        let one = |(name, words): (&String, &[AtomicU64])| {
            Series::read(name, &[words.iter().map(|word| word.load(Ordering::Relaxed)).collect()])
        };
        names.iter().zip(self.0.0.chunks_exact(WORDS)).map(one).collect()
    }
}

/// Which series is whose.
pub struct SeriesTable {
    memory: Box<dyn SeriesMemory>,
    known: Mutex<BTreeMap<String, u16>>,
}

/// The series of one silo; shared by what belongs to it.
#[derive(Clone)]
pub struct SeriesBoard {
    table: Arc<SeriesTable>,
    words: Arc<dyn SeriesWords>,
}

impl SeriesTable {
    /// No series but [`OTHER`].
    #[must_use]
    pub fn new(memory: impl SeriesMemory + 'static) -> Arc<Self> {
        memory.set_name(OTHER, &name_of(b"other", b"other"));
        Arc::new(Self { memory: Box::new(memory), known: Mutex::default() })
    }

    /// The part of one silo.
    #[must_use]
    pub fn board(self: &Arc<Self>, silo: usize) -> SeriesBoard {
        SeriesBoard { table: Arc::clone(self), words: self.memory.silo(silo) }
    }
}

impl SeriesBoard {
    /// The series of a host and a location, made if there is room: [`OTHER`] where
    /// there is none. Silos share a lock for it: to be remembered.
    #[must_use]
    pub fn series(&self, host: &[u8], location: &[u8]) -> u16 {
        let name = name_of(host, location);
        let mut known = self.table.known.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(series) = known.get(&name) {
            return *series;
        }
        let next = known.len() + 1;
        if next >= SERIES_MAX {
            return OTHER;
        }
        let series = next as u16;
        self.table.memory.set_name(series, &name);
        known.insert(name, series);
        series
    }

    /// The words of this silo's series.
    #[must_use]
    pub fn words(&self) -> &[AtomicU64] {
        self.words.words()
    }
}

impl fmt::Debug for SeriesTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SeriesTable").finish_non_exhaustive()
    }
}

impl fmt::Debug for SeriesBoard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SeriesBoard").finish_non_exhaustive()
    }
}

/// Host and location in one text, with a tab between them.
fn name_of(host: &[u8], location: &[u8]) -> String {
    let part = |bytes: &[u8], most: usize| {
        let text: String =
            String::from_utf8_lossy(bytes).chars().map(|char| if char.is_control() { '?' } else { char }).collect();
        let end = text.floor_char_boundary(most);
        text.get(..end).unwrap_or_default().to_owned()
    };
    let host = part(host, HOST_MAX);
    let location = part(location, NAME_MAX - HOST_MAX - 1);
    format!("{host}\t{location}")
}

/// A series, as a reader has it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Series {
    /// Whose it is.
    pub host: String,
    /// What of it, as the configuration writes it.
    pub location: String,
    /// How long requests took.
    pub latency: Histogram,
    /// Bytes of responses, heads included.
    pub bytes: u64,
    /// Responses by class, from 2xx on.
    pub classes: [u64; CLASSES],
}

impl Series {
    /// That of this name, with the words of all silos added up.
    #[must_use]
    pub fn read(name: &str, silos: &[Vec<u64>]) -> Self {
        let (host, location) = name.split_once('\t').unwrap_or((name, ""));
        let sum = |at: usize| silos.iter().filter_map(|words| words.get(at)).fold(0, |a: u64, b| a.wrapping_add(*b));
        let counts = (0..BUCKETS).map(sum).collect();
        Self {
            host: host.to_owned(),
            location: location.to_owned(),
            latency: Histogram { counts, sum: sum(SUM) },
            bytes: sum(BYTES),
            classes: core::array::from_fn(|class| sum(FIRST_CLASS + class)),
        }
    }

    /// Whether there was any response.
    #[must_use]
    pub fn is_used(&self) -> bool {
        self.classes.iter().any(|count| *count > 0)
    }

    /// What was added since `earlier`.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        Self {
            host: self.host.clone(),
            location: self.location.clone(),
            latency: self.latency.since(&earlier.latency),
            bytes: self.bytes.wrapping_sub(earlier.bytes),
            classes: core::array::from_fn(|class| self.classes[class].wrapping_sub(earlier.classes[class])),
        }
    }
}

/// Adds to a word that nobody else writes to.
#[inline]
pub(crate) fn add(word: Option<&AtomicU64>, more: u64) {
    if let Some(word) = word {
        word.store(word.load(Ordering::Relaxed).wrapping_add(more), Ordering::Relaxed);
    }
}
