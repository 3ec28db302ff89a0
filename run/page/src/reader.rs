//! Reading a statistics page of this or another process.

use super::{
    ASKED, BLOCK_WORDS, HEAD_WORDS, LABEL_LIMIT, LAYOUT, Layout, MAGIC, METRIC_BYTES, METRICS_LIMIT, Mapping,
    MetricKind, NAMED, NOTE_BYTES, NOTE_LIMIT, NOTE_WORDS, PageError, SERIES_NAME_BYTES, SILOS_LIMIT, SampleShape,
    Samples, SeriesShape, WORD,
};
use core::time::Duration;
use cpu::process_stat::{self, ProcessStat};
use rustix::fs::OFlags;
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{Ordering, fence};
use wire::Time;

/// Attempts to read a silo's values of one moment. A writer stores for less
/// than a microsecond a hundred times a second, so a second attempt is rare;
/// after all of these the writer has died while storing.
const ATTEMPTS: usize = 100;

/// A page to read. Another process's is read as a file, not mapped, so whatever
/// happens to the file is an error here and never a fault.
#[derive(Debug)]
pub struct Reader {
    source: Source,
    layout: Layout,
    pid: u32,
    start: u64,
    wall: Duration,
    label: String,
    metrics: Vec<(String, MetricKind)>,
}

/// Where a page's bytes are.
#[derive(Debug)]
enum Source {
    /// In a file.
    File(File),
    /// In this process's memory, to be reached without a system call.
    Memory(Arc<Mapping>),
}

impl Reader {
    /// Opens the page at `path`, whether or not its process lives.
    ///
    /// # Errors
    /// If there is no page, or one of another layout.
    pub fn open(path: &Path) -> Result<Self, PageError> {
        // Whoever may write to the folder may have put something else there: no pipe
        // is waited for, and no device is read.
        let flags = OFlags::NONBLOCK | OFlags::NOCTTY;
        let file = File::options().read(true).custom_flags(flags.bits().cast_signed()).open(path)?;
        let kind = file.metadata()?.file_type();
        if !kind.is_file() && !kind.is_dir() {
            return Err(PageError::NotAPage);
        }
        Self::new(Source::File(file))
    }

    /// The page that is this file.
    pub(super) fn of_file(file: File) -> Result<Self, PageError> {
        Self::new(Source::File(file))
    }

    /// This process's own page, which needs neither a file nor the right to one.
    pub(super) fn of(mapping: &Arc<Mapping>) -> Result<Self, PageError> {
        Self::new(Source::Memory(Arc::clone(mapping)))
    }

    fn new(source: Source) -> Result<Self, PageError> {
        let mut head = [0; Layout::METRICS];
        source.read(&mut head, 0)?;
        let word = |at: usize| word(&head, at);
        if word(0) != MAGIC {
            return Err(PageError::NotAPage);
        }
        if word(1) != LAYOUT {
            return Err(PageError::Layout(word(1)));
        }
        let (pid, label) = (word(2), word(7));
        let pid = u32::try_from(pid).map_err(|_| PageError::NotAPage)?;
        if label > LABEL_LIMIT as u64 {
            return Err(PageError::NotAPage);
        }
        let layout = layout_of(&word)?;
        if source.len()? < layout.len() as u64 {
            return Err(PageError::NotAPage);
        }
        let label = &head[HEAD_WORDS * WORD..][..label as usize];
        let mut names = vec![0; layout.metrics * METRIC_BYTES];
        source.read(&mut names, Layout::METRICS)?;
        Ok(Self {
            layout,
            pid,
            start: word(3),
            wall: Duration::from_nanos(word(4)),
            label: text(label),
            metrics: names.chunks_exact(METRIC_BYTES).map(metric).collect(),
            source,
        })
    }

    /// Where things stand in the page.
    pub(super) const fn layout(&self) -> &Layout {
        &self.layout
    }

    /// Whether its silos give samples where they are asked.
    #[must_use]
    pub const fn has_samples(&self) -> bool {
        self.layout.samples.count > 0
    }

    /// Asks all silos for samples, which each gives when it next publishes. Needs the right to write to
    /// the page: its user's, and root's. Returns the question's number.
    ///
    /// # Errors
    /// [`PageError::NotAsked`].
    pub fn ask(&self) -> Result<u64, PageError> {
        let Source::File(file) = &self.source else {
            return Err(PageError::NotAsked(io::ErrorKind::Unsupported.into()));
        };
        // The same file, whatever is at its path by now.
        let again = format!("/proc/self/fd/{}", file.as_raw_fd());
        let writing = File::options().write(true).open(again).map_err(PageError::NotAsked)?;
        let mut word = [0; WORD];
        self.source.read(&mut word, ASKED * WORD)?;
        // Never 0, which is that nobody asked. Of two who ask at once both are answered.
        let number = u64::from_ne_bytes(word).wrapping_add(1).max(1);
        writing.write_all_at(&number.to_ne_bytes(), (ASKED * WORD) as u64).map_err(PageError::NotAsked)?;
        Ok(number)
    }

    /// The samples that a silo last gave; `None` before the first.
    ///
    /// # Errors
    /// If the file cannot be read or was made shorter.
    pub fn samples(&self, silo: usize) -> Result<Option<Samples>, PageError> {
        let shape = self.layout.samples;
        if silo >= self.layout.silos || shape.count == 0 {
            return Ok(None);
        }
        let mut bytes = vec![0; self.layout.samples_len()];
        let consistent = self.consistent(&mut bytes, self.layout.samples(silo))?;
        let words: Vec<u64> = (0..bytes.len() / WORD).map(|at| word(&bytes, at)).collect();
        Ok(Samples::of(&words, &shape).filter(|_| consistent))
    }

    /// The process that writes the page.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.pid
    }

    /// What that process is doing.
    #[must_use]
    pub fn label(&self) -> &str {
        &self.label
    }

    /// When it started, by the wall clock, since the epoch.
    #[must_use]
    pub fn started(&self) -> Duration {
        self.wall
    }

    /// The values' names and kinds, in the order of [`SiloSnapshot::values`].
    #[must_use]
    pub fn metrics(&self) -> &[(String, MetricKind)] {
        &self.metrics
    }

    /// Whether the process that writes the page lives: its number is taken,
    /// and by a process that started when it did. A process of another PID
    /// namespace looks dead.
    #[must_use]
    pub fn is_alive(&self) -> bool {
        start_of(self.pid) == Some(self.start)
    }

    /// Reads all values.
    ///
    /// # Errors
    /// If the file cannot be read or was made shorter.
    pub fn snapshot(&self) -> Result<Snapshot, PageError> {
        let silos = (0..self.layout.silos).map(|silo| self.silo(silo)).collect::<Result<_, _>>()?;
        Ok(Snapshot { silos })
    }

    /// The series that have names, with the words of each silo.
    ///
    /// # Errors
    /// If the file cannot be read or was made shorter.
    pub fn series(&self) -> Result<Vec<NamedSeries>, PageError> {
        let SeriesShape { count, words } = self.layout.series;
        let mut named = [0; WORD];
        self.source.read(&mut named, NAMED * WORD)?;
        let named = usize::try_from(u64::from_ne_bytes(named)).unwrap_or(count).min(count);
        let read_words = |silo: usize, series: usize| {
            let mut bytes = vec![0; words * WORD];
            self.source.read(&mut bytes, self.layout.series(silo) + series * words * WORD)?;
            Ok((0..words).map(|at| word(&bytes, at)).collect())
        };
        let one = |series: usize| {
            let at = self.layout.series_name(series);
            let (mut name, mut again) = ([0; SERIES_NAME_BYTES], [0; WORD]);
            self.source.read(&mut name, at)?;
            let silos = (0..self.layout.silos).map(|silo| read_words(silo, series));
            let silos = silos.collect::<Result<_, PageError>>()?;
            self.source.read(&mut again, at)?;
            let first = word(&name, 0);
            if first == 0 || first != u64::from_ne_bytes(again) {
                // Nobody's, or becoming somebody's.
                return Ok(None);
            }
            let len = (first as u32 as usize).min(SERIES_NAME_BYTES - WORD);
            Ok(Some(NamedSeries { name: text(&name[WORD..][..len]), generation: (first >> 32) as u32, silos }))
        };
        (0..named).filter_map(|series| one(series).transpose()).collect()
    }

    /// The note that the process last put on the page, if it did.
    ///
    /// # Errors
    /// If the file cannot be read or was made shorter.
    pub fn note(&self) -> Result<Option<Note>, PageError> {
        let mut note = [0; NOTE_BYTES];
        let consistent = self.consistent(&mut note, self.layout.note())?;
        if word(&note, 0) == 0 || !consistent {
            return Ok(None);
        }
        let len = usize::try_from(word(&note, 3)).map_or(NOTE_LIMIT, |len| len.min(NOTE_LIMIT));
        let text = text(&note[NOTE_WORDS * WORD..][..len]);
        Ok(Some(Note { at: Duration::from_nanos(word(&note, 1)), well: word(&note, 2) != 0, text }))
    }

    /// Reads what begins with a sequence. Whether it is of one moment.
    fn consistent(&self, out: &mut [u8], at: usize) -> Result<bool, PageError> {
        for _ in 0..ATTEMPTS {
            // The sequence before and after, in calls of their own: the order
            // within one call is the kernel's affair.
            let (mut before, mut after) = ([0; WORD], [0; WORD]);
            self.source.read(&mut before, at)?;
            self.source.read(out, at)?;
            self.source.read(&mut after, at)?;
            if before == after && u64::from_ne_bytes(before).is_multiple_of(2) {
                return Ok(true);
            }
            std::thread::yield_now();
        }
        Ok(false)
    }

    fn silo(&self, silo: usize) -> Result<SiloSnapshot, PageError> {
        let mut block = vec![0; (BLOCK_WORDS + self.layout.metrics) * WORD];
        let consistent = self.consistent(&mut block, self.layout.block(silo))?;
        let published = word(&block, 0) != 0;
        Ok(SiloSnapshot {
            time: published.then(|| Time::from_nanos(word(&block, 1))),
            values: (BLOCK_WORDS..BLOCK_WORDS + self.layout.metrics).map(|i| word(&block, i)).collect(),
            consistent,
        })
    }
}

/// The layout that the words of a page's head tell, within the limits.
fn layout_of(word: &impl Fn(usize) -> u64) -> Result<Layout, PageError> {
    let (metrics, silos) = (word(5), word(6));
    if metrics > METRICS_LIMIT as u64 || silos > SILOS_LIMIT as u64 {
        return Err(PageError::NotAPage);
    }
    let within = |count: u64, words: u64| {
        count.checked_mul(words.max(1)).filter(|all| *all <= SeriesShape::WORDS_LIMIT as u64)?;
        Some((count as usize, words as usize))
    };
    let (count, words) = within(word(8), word(9)).ok_or(PageError::NotAPage)?;
    let series = SeriesShape { count, words };
    let (count, words) = within(word(11), word(12)).ok_or(PageError::NotAPage)?;
    Ok(Layout { metrics: metrics as usize, silos: silos as usize, series, samples: SampleShape { count, words } })
}

/// A series, as its writer has named it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NamedSeries {
    /// Its name.
    pub name: String,
    /// How many had its place before.
    pub generation: u32,
    /// The words of each silo.
    pub silos: Vec<Vec<u64>>,
}

/// What a process says of something that was asked of it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Note {
    /// When, by the wall clock, since the epoch.
    pub at: Duration,
    /// Whether it was done.
    pub well: bool,
    /// What came of it.
    pub text: String,
}

/// All values at about one moment.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Snapshot {
    /// By silo.
    pub silos: Vec<SiloSnapshot>,
}

/// One silo's values.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SiloSnapshot {
    /// When they were published, on the silo's clock; `None` before the first
    /// time. A rate is the difference of two values over that of two times.
    pub time: Option<Time>,
    /// In the order of [`Reader::metrics`].
    pub values: Vec<u64>,
    /// Whether all are of this moment. Not so only if the writer died, or was
    /// stopped, while it stored them.
    pub consistent: bool,
}

/// When process `pid` started, in clock ticks since boot; `None` if there is
/// none. With the number this names a process for good, as the number alone
/// does not.
pub(super) fn start_of(pid: u32) -> Option<u64> {
    let line = process_stat::line_of(pid)?;
    let stat = ProcessStat::parse(&line)?;
    // A zombie has ended.
    if stat.has_ended() { None } else { stat.began() }
}

fn metric(record: &[u8]) -> (String, MetricKind) {
    let (kind, rest) = (record[0], &record[2..]);
    let name = &rest[..usize::from(record[1]).min(rest.len())];
    let kind = if kind == 0 { MetricKind::Counter } else { MetricKind::Gauge };
    (text(name), kind)
}

/// What a page says, for people: its writer has perhaps no rights, or is no longer ours,
/// and a terminal obeys control characters. Tabs stay: they part a series' host and location.
fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).replace(|one: char| one.is_control() && one != '\t', " ")
}

impl Source {
    fn len(&self) -> io::Result<u64> {
        match self {
            Self::File(file) => Ok(file.metadata()?.len()),
            Self::Memory(mapping) => Ok(mapping.len as u64),
        }
    }

    /// Reads exactly, from the beginning of a word on; a file that is too short is
    /// no page.
    fn read(&self, out: &mut [u8], at: usize) -> Result<(), PageError> {
        match self {
            Self::File(file) => file.read_exact_at(out, at as u64).map_err(|e| match e.kind() {
                io::ErrorKind::UnexpectedEof => PageError::NotAPage,
                _ => PageError::Io(e),
            }),
            Self::Memory(mapping) => {
                let words = mapping.words().get(at / WORD..).unwrap_or_default();
                if words.len() * WORD < out.len() {
                    return Err(PageError::NotAPage);
                }
                // With a sequence before and after: what is read between them is
                // read neither before nor after that.
                fence(Ordering::Acquire);
                for (bytes, word) in out.chunks_mut(WORD).zip(words) {
                    bytes.copy_from_slice(&word.load(Ordering::Relaxed).to_ne_bytes()[..bytes.len()]);
                }
                fence(Ordering::Acquire);
                Ok(())
            }
        }
    }
}

/// Word `index` of `bytes`, which hold it.
fn word(bytes: &[u8], index: usize) -> u64 {
    let mut word = [0; WORD];
    word.copy_from_slice(&bytes[index * WORD..][..WORD]);
    u64::from_ne_bytes(word)
}
