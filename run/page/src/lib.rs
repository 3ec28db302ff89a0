//! The statistics page: what every silo counts, where other processes read
//! it without a lock and without asking.
//!
//! A page is a small file in memory (tmpfs). The process that owns it maps
//! it; each silo stores its values there a few times a second, which is plain
//! stores and nothing more. Readers read the file. The values' names stand in
//! the page, so a reader needs no knowledge of the writer's version beyond
//! the layout below; a page tells whose it is, so a reader also knows when the
//! writer is gone.
//!
//! Layout, in 64-bit words of this machine's byte order:
//!
//! ```text
//! 0   magic   layout   pid   start of pid   wall clock at start   metrics   silos   length of label
//! 8   series   words of a series   names of series that are there   samples   words of a sample
//! 13  number of the last question   zeros
//! 16  label, 64 bytes
//! 24  for each metric 64 bytes: kind, length, name
//!     for each silo, from a multiple of 64 bytes: sequence, time, a word for each metric
//!     for each series 256 bytes: generation and length, name
//!     for each silo, from a multiple of 64 bytes: the words of each series
//!     the process's note, 512 bytes: sequence, wall clock, whether all is well, length, text
//!     for each silo, from a multiple of 64 bytes: sequence, number of the question, time, how many there are,
//!       samples that follow, nanoseconds that it took, zeros up to 64 bytes, the words of each sample
//! ```
//!
//! Samples, such as a few of a silo's connections, are not stored unless they are asked for: a reader that may
//! write to the page counts its questions up, and each silo answers when it next publishes.
//!
//! A silo's sequence, and the note's, is odd while it stores (a sequence lock with one writer),
//! so a reader gets values of one moment or knows that it did not. The words of
//! series are stored one by one, as they grow: each is of some moment. A series whose name
//! has no length is nobody's; one that becomes another's gets a new generation.

mod place;
mod reader;
mod samples;
mod series;
mod shared;

pub use place::{living, living_of_user, squatted, usual_folder, usual_folders, usual_name, usual_path};
pub use reader::{NamedSeries, Note, Reader, SiloSnapshot, Snapshot};
pub use samples::{SampleShape, Samples};
pub use series::{SeriesArea, SeriesShape, SiloWords};

use core::fmt;
use core::ptr::NonNull;
use core::sync::atomic::{AtomicU64, Ordering, fence};
use core::time::Duration;
use rustix::fs::{FallocateFlags, MemfdFlags, fallocate, memfd_create};
use rustix::io::Errno;
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};
use std::fs::{self, File};
use std::io::{self, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use wire::Time;

/// Most values for each silo.
pub const METRICS_LIMIT: usize = 1024;

/// Most silos.
pub const SILOS_LIMIT: usize = 1024;

/// Longest name of a value, in bytes; longer ones are cut.
pub const NAME_LIMIT: usize = METRIC_BYTES - 2;

/// Longest label, in bytes; longer ones are cut.
pub const LABEL_LIMIT: usize = 64;

/// Longest text of a note, in bytes; longer ones are cut.
pub const NOTE_LIMIT: usize = NOTE_BYTES - NOTE_WORDS * WORD;

/// A silo stores its values this often. Readers see rates over a second or
/// more; at this interval the stores cost nothing that could be measured.
pub const PUBLISH_INTERVAL: Duration = Duration::from_millis(10);

/// What a value means.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum MetricKind {
    /// Only grows, from zero at the start: a reader shows its rate.
    Counter,
    /// Goes up and down: a reader shows it as it is.
    Gauge,
}

/// A value that each silo publishes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Metric {
    /// Its name, as `tcp.segments_received`.
    pub name: &'static str,
    /// What it means.
    pub kind: MetricKind,
}

/// A page and the right to remove it, which happens on drop.
///
/// A process that is killed leaves its page behind; readers see that it is
/// dead, and the next process that uses the path replaces it.
#[derive(Debug)]
pub struct Page {
    path: PathBuf,
    /// The file's device and inode: what is removed must still be this page.
    /// `None` once it is another's to remove.
    identity: Option<(u64, u64)>,
    mapping: Arc<Mapping>,
    layout: Layout,
    /// The word that the note starts at.
    note: usize,
}

impl Page {
    /// Makes a page at `path`, with a [`Writer`] for each silo. `label` says
    /// what the process is doing; `wall` is the wall clock, since the epoch.
    ///
    /// The page is complete when it appears; a dead process's page at `path`
    /// is replaced, as is a file that is no page only if it is empty.
    ///
    /// # Errors
    /// [`PageError::InUse`] if a living process has its page there,
    /// [`PageError::NotAPage`] if something else is there.
    pub fn create(
        path: &Path,
        label: &str,
        wall: Duration,
        metrics: &[Metric],
        shape: impl Into<PageShape>,
    ) -> Result<(Self, Vec<Writer>), PageError> {
        let layout = Layout::new(metrics, shape.into())?;
        Self::check_vacant(path)?;
        // Built beside its place and moved there, so that no reader ever sees
        // half a page.
        let mut draft = path.as_os_str().to_owned();
        draft.push(format!(".{}", std::process::id()));
        let draft = PathBuf::from(draft);
        let made = Self::write(&draft, &layout, &head(label, wall, metrics, &layout))
            .and_then(|made| fs::rename(&draft, path).map(|()| made));
        let (mapping, identity) = made.inspect_err(|_| {
            let _ = fs::remove_file(&draft);
        })?;
        Ok(Self::of(path.to_owned(), Some(identity), mapping, layout))
    }

    /// As [`Page::create`], at `path` or else in the usual place. Where that cannot be had
    /// (a full disk, nothing that may be written to) the page is in memory that no other
    /// process finds, and the reason is returned.
    ///
    /// # Errors
    /// As [`Page::create`], of a path that is given.
    pub fn create_somewhere(
        path: Option<&Path>,
        label: &str,
        wall: Duration,
        metrics: &[Metric],
        shape: impl Into<PageShape>,
    ) -> Result<(Self, Vec<Writer>, Option<PageError>), PageError> {
        let shape = shape.into();
        let made = match path {
            Some(path) => Self::create(path, label, wall, metrics, shape),
            None => {
                usual_path().map_err(PageError::Io).and_then(|path| Self::create(&path, label, wall, metrics, shape))
            }
        };
        let why = match made {
            Ok((page, writers)) => return Ok((page, writers, None)),
            Err(why @ (PageError::Io(_) | PageError::NotAPage)) if path.is_none() => why,
            Err(why) => return Err(why),
        };
        let layout = Layout::new(metrics, shape)?;
        let file = File::from(memfd_create("nearside-page", MemfdFlags::CLOEXEC).map_err(io::Error::from)?);
        let mapping = Self::fill(file, &layout, &head(label, wall, metrics, &layout))?.0;
        let (page, writers) = Self::of(PathBuf::new(), None, mapping, layout);
        Ok((page, writers, Some(why)))
    }

    fn of(path: PathBuf, identity: Option<(u64, u64)>, mapping: Mapping, layout: Layout) -> (Self, Vec<Writer>) {
        let mapping = Arc::new(mapping);
        let writers = (0..layout.silos).map(|silo| Writer::new(Arc::clone(&mapping), &layout, silo)).collect();
        let note = layout.note() / WORD;
        (Self { path, identity, mapping, layout, note }, writers)
    }

    /// Puts a note on the page in place of the one before: what became of
    /// something that was asked of the process, `at` by the wall clock, and
    /// whether it is well.
    pub fn tell(&mut self, at: Duration, well: bool, text: &str) {
        let text = cut(text, NOTE_LIMIT);
        let words = &self.mapping.words()[self.note..self.note + NOTE_BYTES / WORD];
        let sequence = words[0].load(Ordering::Relaxed);
        words[0].store(sequence.wrapping_add(1), Ordering::Relaxed);
        fence(Ordering::Release);
        words[1].store(u64::try_from(at.as_nanos()).unwrap_or(u64::MAX), Ordering::Relaxed);
        words[2].store(u64::from(well), Ordering::Relaxed);
        words[3].store(text.len() as u64, Ordering::Relaxed);
        for (word, bytes) in words[NOTE_WORDS..].iter().zip(text.as_bytes().chunks(WORD)) {
            let mut whole = [0; WORD];
            whole[..bytes.len()].copy_from_slice(bytes);
            word.store(u64::from_ne_bytes(whole), Ordering::Relaxed);
        }
        words[0].store(sequence.wrapping_add(2), Ordering::Release);
    }

    /// The page as its readers see it, without the file: for a thread of this
    /// process that may open none.
    ///
    /// # Errors
    /// None in practice: the page was written by this process.
    pub fn reader(&self) -> Result<Reader, PageError> {
        Reader::of(&self.mapping)
    }

    /// Where series lie, which grow word by word.
    #[must_use]
    pub fn series(&self) -> SeriesArea {
        SeriesArea::new(Arc::clone(&self.mapping), self.layout)
    }

    /// Where the page is.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Moves the page to `path`, in place of whatever is there: a living
    /// process's page too, which it is the successor of.
    ///
    /// # Errors
    /// As rename(2); the page stays where it is.
    pub fn move_to(&mut self, path: &Path) -> io::Result<()> {
        fs::rename(&self.path, path)?;
        self.path = path.to_owned();
        Ok(())
    }

    /// Leaves the file to a successor, which is about to put its own there.
    pub fn disown(&mut self) {
        self.identity = None;
    }

    /// Whether a page may be made at `path`.
    fn check_vacant(path: &Path) -> Result<(), PageError> {
        match Reader::open(path) {
            Ok(reader) if reader.is_alive() => Err(PageError::InUse(reader.pid())),
            Ok(_) => Ok(()),
            Err(PageError::Io(e)) if e.kind() == io::ErrorKind::NotFound => Ok(()),
            Err(PageError::NotAPage) if fs::metadata(path).is_ok_and(|m| m.is_file() && m.len() == 0) => Ok(()),
            // Ours in another layout: its owner was another version.
            Err(PageError::Layout(_)) => Ok(()),
            Err(e) => Err(e),
        }
    }

    /// Writes the file and maps it.
    fn write(path: &Path, layout: &Layout, head: &[u8]) -> io::Result<(Mapping, (u64, u64))> {
        // A draft of this name was left by a dead process of our number.
        let _ = fs::remove_file(path);
        let file = File::options().read(true).write(true).create_new(true).mode(0o644).open(path)?;
        Self::fill(file, layout, head)
    }

    fn fill(mut file: File, layout: &Layout, head: &[u8]) -> io::Result<(Mapping, (u64, u64))> {
        file.write_all(head)?;
        let len = layout.len() as u64;
        match fallocate(&file, FallocateFlags::empty(), 0, len) {
            // A file system that cannot promise the room.
            Err(Errno::OPNOTSUPP | Errno::NOSYS) => file.set_len(len)?,
            // Said now: what is stored where there is no room ends the process.
            other => other?,
        }
        let metadata = file.metadata()?;
        Ok((Mapping::new(&file, layout.len())?, (metadata.dev(), metadata.ino())))
    }
}

impl Drop for Page {
    fn drop(&mut self) {
        let here = fs::symlink_metadata(&self.path).map(|m| (m.dev(), m.ino()));
        if self.identity.is_some() && here.ok() == self.identity {
            // Nobody is left to tell; a page left behind is seen to be dead.
            let _ = fs::remove_file(&self.path);
        }
    }
}

/// One silo's right to publish.
#[derive(Debug)]
pub struct Writer {
    mapping: Arc<Mapping>,
    /// The word that the silo's block starts at.
    block: usize,
    values: usize,
    next: Time,
    answers: samples::Answers,
}

impl Writer {
    fn new(mapping: Arc<Mapping>, layout: &Layout, silo: usize) -> Self {
        let block = layout.block(silo) / WORD;
        Self { mapping, block, values: layout.metrics, next: Time::ZERO, answers: samples::Answers::new(layout, silo) }
    }

    /// Whether it is time to publish: a comparison, for every turn.
    #[inline]
    #[must_use]
    pub fn is_due(&self, now: Time) -> bool {
        now >= self.next
    }

    /// When it is time.
    #[must_use]
    pub const fn next(&self) -> Time {
        self.next
    }

    /// Stores the values of `now`, in the order of the metrics; values
    /// missing at the end stay as they are, and surplus ones are ignored.
    pub fn publish(&mut self, now: Time, values: &[u64]) {
        self.next = now + PUBLISH_INTERVAL;
        let block = &self.mapping.words()[self.block..self.block + BLOCK_WORDS + self.values];
        // Odd where whoever wrote here before was killed amid it.
        let sequence = block[0].load(Ordering::Relaxed) & !1;
        block[0].store(sequence.wrapping_add(1), Ordering::Relaxed);
        fence(Ordering::Release);
        block[1].store(now.as_nanos(), Ordering::Relaxed);
        for (word, value) in block[BLOCK_WORDS..].iter().zip(values) {
            word.store(*value, Ordering::Relaxed);
        }
        block[0].store(sequence.wrapping_add(2), Ordering::Release);
    }
}

/// Why a page cannot be made or read.
#[derive(Debug)]
pub enum PageError {
    /// The living process of this number has its page there; choose another
    /// path.
    InUse(u32),
    /// Something else is there.
    NotAPage,
    /// A page of this layout, which another version of the program wrote.
    Layout(u64),
    /// More metrics than [`METRICS_LIMIT`] or silos than [`SILOS_LIMIT`].
    TooLarge,
    /// The page cannot be written to, so that nothing can be asked for by it.
    NotAsked(io::Error),
    /// The file system's answer.
    Io(io::Error),
}

impl fmt::Display for PageError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::InUse(pid) => write!(f, "process {pid} has its statistics page there"),
            Self::NotAPage => f.write_str("there is a file that is no statistics page"),
            Self::Layout(layout) => {
                write!(f, "the statistics page has layout {layout}, this program reads layout {LAYOUT}")
            }
            Self::TooLarge => {
                write!(f, "a statistics page has at most {METRICS_LIMIT} values of {SILOS_LIMIT} silos")
            }
            Self::NotAsked(why) => write!(f, "it cannot be asked: {why}"),
            Self::Io(e) => e.fmt(f),
        }
    }
}

impl core::error::Error for PageError {}

impl From<io::Error> for PageError {
    fn from(e: io::Error) -> Self {
        Self::Io(e)
    }
}

const MAGIC: u64 = u64::from_ne_bytes(*b"NEARSTAT");
const LAYOUT: u64 = 5;
const EXTENSION: &str = "page";
const WORD: usize = size_of::<u64>();
const HEAD_WORDS: usize = 16;
/// The word of the head that says how many series have names.
const NAMED: usize = 10;
/// The word of the head that counts questions.
const ASKED: usize = 13;
const SERIES_NAME_BYTES: usize = 256;
const METRIC_BYTES: usize = 64;
/// Sequence and time, before the values.
const BLOCK_WORDS: usize = 2;
const CACHE_LINE: usize = 64;
/// A note, and of it what is before the text: sequence, time, whether all is
/// well, length.
const NOTE_BYTES: usize = 512;
const NOTE_WORDS: usize = 4;

const _: () = assert!(NAME_LIMIT <= u8::MAX as usize, "a name's length is one byte");

/// Where things stand in a page, in bytes.
#[derive(Clone, Copy, Debug)]
struct Layout {
    metrics: usize,
    silos: usize,
    series: SeriesShape,
    samples: SampleShape,
}

/// How many silos a page has room for, and for what of each, beside its values.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct PageShape {
    /// Silos.
    pub silos: usize,
    /// Series of each.
    pub series: SeriesShape,
    /// Samples of each.
    pub samples: SampleShape,
}

impl From<(usize, SeriesShape)> for PageShape {
    fn from((silos, series): (usize, SeriesShape)) -> Self {
        Self { silos, series, samples: SampleShape::default() }
    }
}

impl Layout {
    fn new(metrics: &[Metric], PageShape { silos, series, samples }: PageShape) -> Result<Self, PageError> {
        let bounded = series.is_bounded() && samples.is_bounded();
        if metrics.len() > METRICS_LIMIT || silos > SILOS_LIMIT || !bounded {
            return Err(PageError::TooLarge);
        }
        Ok(Self { metrics: metrics.len(), silos, series, samples })
    }

    const METRICS: usize = HEAD_WORDS * WORD + LABEL_LIMIT;

    /// Blocks are apart by whole cache lines: silos must not share one.
    const fn block_len(&self) -> usize {
        ((BLOCK_WORDS + self.metrics) * WORD).next_multiple_of(CACHE_LINE)
    }

    const fn block(&self, silo: usize) -> usize {
        (Self::METRICS + self.metrics * METRIC_BYTES).next_multiple_of(CACHE_LINE) + silo * self.block_len()
    }

    const fn series_name(&self, series: usize) -> usize {
        self.block(self.silos) + series * SERIES_NAME_BYTES
    }

    const fn series_len(&self) -> usize {
        (self.series.count * self.series.words * WORD).next_multiple_of(CACHE_LINE)
    }

    const fn series(&self, silo: usize) -> usize {
        self.series_name(self.series.count) + silo * self.series_len()
    }

    const fn note(&self) -> usize {
        self.series(self.silos)
    }

    const fn samples_len(&self) -> usize {
        let SampleShape { count, words } = self.samples;
        let words = if count == 0 { 0 } else { samples::ANSWER_WORDS + count * words };
        (words * WORD).next_multiple_of(CACHE_LINE)
    }

    const fn samples(&self, silo: usize) -> usize {
        (self.note() + NOTE_BYTES).next_multiple_of(CACHE_LINE) + silo * self.samples_len()
    }

    const fn len(&self) -> usize {
        self.samples(self.silos)
    }
}

/// Everything before the blocks.
fn head(label: &str, wall: Duration, metrics: &[Metric], layout: &Layout) -> Vec<u8> {
    let pid = std::process::id();
    let label = cut(label, LABEL_LIMIT);
    let wall = u64::try_from(wall.as_nanos()).unwrap_or(u64::MAX);
    let start = reader::start_of(pid).unwrap_or(0);
    let (count, silos) = (metrics.len() as u64, layout.silos as u64);
    let (series, words) = (layout.series.count as u64, layout.series.words as u64);
    let (samples, of_sample) = (layout.samples.count as u64, layout.samples.words as u64);
    let words = [MAGIC, LAYOUT, pid.into(), start, wall, count, silos, label.len() as u64, series, words];
    let words = words.into_iter().chain([0, samples, of_sample]);
    let words = words.into_iter().chain(core::iter::repeat(0)).take(HEAD_WORDS);
    let mut head: Vec<u8> = words.flat_map(u64::to_ne_bytes).collect();
    head.extend_from_slice(label.as_bytes());
    head.resize(Layout::METRICS, 0);
    for metric in metrics {
        let name = cut(metric.name, NAME_LIMIT);
        let end = head.len() + METRIC_BYTES;
        head.extend([u8::from(metric.kind == MetricKind::Gauge), name.len() as u8]);
        head.extend_from_slice(name.as_bytes());
        head.resize(end, 0);
    }
    head
}

/// As much of `text` as fits into `limit` bytes.
fn cut(text: &str, limit: usize) -> &str {
    &text[..text.floor_char_boundary(limit)]
}

/// The page in this process's memory.
#[derive(Debug)]
struct Mapping {
    start: NonNull<AtomicU64>,
    len: usize,
}

// SAFETY: a mapping belongs to the process and not to a thread, and is reached
// through atomics only.
unsafe impl Send for Mapping {}
// SAFETY: as above.
unsafe impl Sync for Mapping {}

impl Mapping {
    fn new(file: &File, len: usize) -> io::Result<Self> {
        let access = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: a new mapping at a place that the kernel chooses touches no
        // memory of ours.
        let start = unsafe { mmap(core::ptr::null_mut(), len, access, MapFlags::SHARED, file, 0) }?;
        let start = NonNull::new(start.cast()).ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(Self { start, len })
    }

    #[inline]
    fn words(&self) -> &[AtomicU64] {
        // SAFETY: the mapping is page-aligned, `len` bytes long, and stays as
        // long as `self`; any bytes are valid words; what changes under the
        // reference changes atomically, in this process and in others.
        unsafe { core::slice::from_raw_parts(self.start.as_ptr(), self.len / WORD) }
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: the mapping is this value's own, and nothing borrows it.
        let _ = unsafe { munmap(self.start.as_ptr().cast(), self.len) };
    }
}

#[cfg(test)]
mod tests;
