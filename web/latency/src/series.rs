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

/// Words of a series: its histogram, the sum of latencies, bytes, responses by class, and
/// whose they are.
pub const WORDS: usize = BUCKETS + 3 + CLASSES;

pub(crate) const SUM: usize = BUCKETS;
pub(crate) const BYTES: usize = BUCKETS + 1;
pub(crate) const FIRST_CLASS: usize = BUCKETS + 2;
/// The generation of the series that a silo counts for.
pub(crate) const GENERATION: usize = BUCKETS + 2 + CLASSES;

/// Of a series' number, what tells its place: the rest is of its generation.
pub(crate) const PLACE_BITS: u32 = SERIES_MAX.trailing_zeros();

/// Generations that numbers tell apart; one number is left for what has no series.
const GENERATIONS: u32 = (1 << (u16::BITS - PLACE_BITS)) - 1;

/// What of a number is of this generation.
pub(crate) const fn mark(generation: u32) -> u16 {
    (generation % GENERATIONS) as u16
}

/// A silo's words, which nobody else writes to: [`SERIES_MAX`] times [`WORDS`].
pub trait SeriesWords: Send + Sync {
    /// All of them.
    fn words(&self) -> &[AtomicU64];
}

/// Where series lie, and their names.
pub trait SeriesMemory: Send + Sync {
    /// A silo's part.
    fn silo(&self, silo: usize) -> Arc<dyn SeriesWords>;

    /// Makes the name of a series known to readers: the place is its own from now on, by
    /// this generation.
    fn set_name(&self, place: u16, generation: u32, name: &str);

    /// The place is nobody's.
    fn clear_name(&self, place: u16);
}

/// Series in memory of this process's own, of one silo: for measurements and tests.
#[derive(Clone, Debug)]
pub struct SeriesHeap(Arc<(Vec<AtomicU64>, Mutex<HeapNames>)>);

/// Generations and names, by places.
type HeapNames = BTreeMap<u16, (u32, String)>;

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

    fn set_name(&self, place: u16, generation: u32, name: &str) {
        let mut names = self.0.1.lock().unwrap_or_else(PoisonError::into_inner);
        names.insert(place, (generation, name.to_owned()));
    }

    fn clear_name(&self, place: u16) {
        self.0.1.lock().unwrap_or_else(PoisonError::into_inner).remove(&place);
    }
}

impl SeriesHeap {
    /// All series, as a reader has them.
    #[must_use]
    pub fn read(&self) -> Vec<Series> {
        let names = self.0.1.lock().unwrap_or_else(PoisonError::into_inner);
        let one = |(place, (generation, name)): (&u16, &(u32, String))| {
            let words = self.0.0.chunks_exact(WORDS).nth(usize::from(*place)).unwrap_or_default();
            Series::read(name, *generation, &[words.iter().map(|word| word.load(Ordering::Relaxed)).collect()])
        };
        names.iter().map(one).collect()
    }
}

/// Which series is whose.
pub struct SeriesTable {
    memory: Box<dyn SeriesMemory>,
    known: Mutex<Known>,
}

/// Which series are whose now.
#[derive(Debug, Default)]
struct Known {
    /// Places and generations, by names.
    names: BTreeMap<String, (u16, u32)>,
    /// Places that are nobody's any more, and their generations so far.
    free: Vec<(u16, u32)>,
}

impl Known {
    /// A place for one more.
    fn take(&mut self) -> Option<(u16, u32)> {
        if let Some((place, generation)) = self.free.pop() {
            return Some((place, generation.wrapping_add(1)));
        }
        let next = self.names.len() + 1;
        (next < SERIES_MAX).then_some((next as u16, 0))
    }
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
        memory.set_name(OTHER, 0, &name_of(b"other", b"other"));
        Arc::new(Self { memory: Box::new(memory), known: Mutex::default() })
    }

    /// The part of one silo.
    #[must_use]
    pub fn board(self: &Arc<Self>, silo: usize) -> SeriesBoard {
        SeriesBoard { table: Arc::clone(self), words: self.memory.silo(silo) }
    }

    /// Ends the series that `keeps` does not want, by host and location as they are
    /// [told](series_host): others may have their places, and begin at zero there.
    pub fn retain(&self, keeps: impl Fn(&str, &str) -> bool) {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let Known { names, free } = &mut *known;
        names.retain(|name, (place, generation)| {
            let (host, location) = name.split_once('\t').unwrap_or((name, ""));
            let kept = keeps(host, location);
            if !kept {
                self.memory.clear_name(*place);
                free.push((*place, *generation));
            }
            kept
        });
    }
}

impl SeriesBoard {
    /// The series of a host and a location, made if there is room: [`OTHER`] where
    /// there is none. Silos share a lock for it: to be remembered.
    #[must_use]
    pub fn series(&self, host: &[u8], location: &[u8]) -> u16 {
        let name = name_of(host, location);
        let mut known = self.table.known.lock().unwrap_or_else(PoisonError::into_inner);
        let (place, generation) = match known.names.get(&name) {
            Some(found) => *found,
            None => {
                let Some((place, generation)) = known.take() else { return OTHER };
                self.table.memory.set_name(place, generation, &name);
                known.names.insert(name, (place, generation));
                (place, generation)
            }
        };
        drop(known);
        self.begin(place, generation);
        mark(generation) << PLACE_BITS | place
    }

    /// What this silo has counted for whoever had the place before is forgotten.
    fn begin(&self, place: u16, generation: u32) {
        let at = usize::from(place) * WORDS;
        let Some(words) = self.words().get(at..at + WORDS) else { return };
        if words[GENERATION].load(Ordering::Relaxed) == u64::from(generation) {
            return;
        }
        // Readers leave out what is of another generation, and this is of none meanwhile.
        words[GENERATION].store(u64::MAX, Ordering::Release);
        words[..GENERATION].iter().for_each(|word| word.store(0, Ordering::Release));
        words[GENERATION].store(generation.into(), Ordering::Release);
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
    format!("{}\t{}", series_host(host), series_location(location))
}

/// A host's name, as series have it.
#[must_use]
pub fn series_host(name: &[u8]) -> String {
    told(name, HOST_MAX)
}

/// A location, as series have it.
#[must_use]
pub fn series_location(location: &[u8]) -> String {
    told(location, NAME_MAX - HOST_MAX - 1)
}

fn told(bytes: &[u8], most: usize) -> String {
    let text: String =
        String::from_utf8_lossy(bytes).chars().map(|char| if char.is_control() { '?' } else { char }).collect();
    let end = text.floor_char_boundary(most);
    text.get(..end).unwrap_or_default().to_owned()
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
    /// That of this name and generation, with the words of all silos added up that count for
    /// it.
    #[must_use]
    pub fn read(name: &str, generation: u32, silos: &[Vec<u64>]) -> Self {
        let (host, location) = name.split_once('\t').unwrap_or((name, ""));
        let is_its = |words: &&Vec<u64>| words.get(GENERATION) == Some(&u64::from(generation));
        let silos: Vec<&Vec<u64>> = silos.iter().filter(is_its).collect();
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
