//! Films: files on a disk that are larger than the memory of who serves them, what streams ask of
//! them, and what a ring alone reads of them.

use crate::child::Interrupt;
use crate::error::Error;
use crate::machine::now;
use disk::{ReadRange, Reads};
use random::SplitMix64;
use rustix::fs::{Advice, Mode, OFlags};
use std::fmt::Write as _;
use std::fs::{self, File};
use std::io::{BufWriter, Write};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// Files of a store.
pub const FILMS: u64 = 16;

/// Bytes of a block that servers over links read (`web/files`), and what reads past the page cache are
/// aligned to.
pub const BLOCK: u64 = 256 << 10;
const ALIGNMENT: usize = 4096;

/// Reads of a ring alone that are under way at a time, as many as a server has.
const AT_A_TIME: u16 = 64;

/// A folder of films that nothing makes smaller.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FilmStore {
    folder: PathBuf,
    /// Bytes of each file: whole blocks.
    size: u64,
}

impl FilmStore {
    /// Of so many bytes, in files of whole blocks, each of one at least.
    #[must_use]
    pub fn new(folder: &Path, bytes: u64) -> Self {
        let size = (bytes / FILMS / BLOCK).max(1) * BLOCK;
        Self { folder: folder.to_owned(), size }
    }

    /// Where it is.
    ///
    /// # Errors
    /// If there is no such folder.
    pub fn place(&self) -> Result<PathBuf, Error> {
        fs::canonicalize(&self.folder).map_err(Error::io(format!("cannot find {}", self.folder.display())))
    }

    /// Bytes of all files.
    #[must_use]
    pub const fn bytes(&self) -> u64 {
        self.size * FILMS
    }

    /// What one of so many streams asks for at a time: `wanted` bytes, or half a film if that is less,
    /// in whole blocks.
    #[must_use]
    pub fn part(&self, wanted: u64) -> u64 {
        (wanted.min(self.size / 2) / BLOCK).max(1) * BLOCK
    }

    fn film(&self, number: u64) -> PathBuf {
        self.folder.join(name(number))
    }

    /// Makes what of it is not there.
    ///
    /// # Errors
    /// If it cannot be written, or there is no room for it.
    pub fn make(&self, interrupt: &Interrupt) -> Result<(), Error> {
        let tried = |what: &str, path: &Path| Error::io(format!("cannot {what} {}", path.display()));
        fs::create_dir_all(&self.folder).map_err(tried("make", &self.folder))?;
        let lacking = |number: &u64| !fs::metadata(self.film(*number)).is_ok_and(|meta| meta.len() == self.size);
        let lacking: Vec<u64> = (0..FILMS).filter(lacking).collect();
        self.check_room(lacking.len() as u64 * self.size)?;
        for number in lacking {
            let path = self.film(number);
            eprintln!("  making {} of {} MiB", path.display(), self.size >> 20);
            let write = || {
                let mut file = BufWriter::with_capacity(1 << 20, File::create(&path)?);
                let mut numbers = SplitMix64::new(number + 1);
                for _ in 0..self.size / 8 {
                    file.write_all(&numbers.bits().to_le_bytes())?;
                }
                file.into_inner().map_err(|why| why.into_error())?.sync_all()
            };
            write().map_err(tried("write", &path))?;
            interrupt.check()?;
        }
        self.forget()
    }

    /// An error where the file system has less room than this.
    fn check_room(&self, bytes: u64) -> Result<(), Error> {
        let system = rustix::fs::statvfs(&self.folder)
            .map_err(|why| Error::io(format!("cannot ask about {}", self.folder.display()))(why.into()))?;
        let room = system.f_bavail.saturating_mul(system.f_frsize);
        if bytes <= room {
            return Ok(());
        }
        Err(Error::Machine(format!(
            "{} MiB of films are to be made in {}, which has {} MiB",
            bytes >> 20,
            self.folder.display(),
            room >> 20
        )))
    }

    /// Has the kernel drop what it holds of the films: the next reads are the disk's.
    ///
    /// # Errors
    /// If a film is not there.
    pub fn forget(&self) -> Result<(), Error> {
        for number in 0..FILMS {
            let path = self.film(number);
            let tried = || Error::io(format!("cannot drop {} from memory", path.display()));
            let file = File::open(&path).map_err(tried())?;
            rustix::fs::fadvise(&file, 0, None, Advice::DontNeed).map_err(|why| tried()(why.into()))?;
        }
        Ok(())
    }

    /// Bytes a second that a ring alone reads, of blocks anywhere in the store.
    ///
    /// # Errors
    /// If a film cannot be read past the page cache.
    pub fn read_alone(&self, span: Duration, interrupt: &Interrupt) -> Result<f64, Error> {
        let ring = "cannot read films by io_uring";
        let files = (0..FILMS).map(|number| {
            let path = self.film(number);
            let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::DIRECT;
            let tried = Error::io(format!("cannot read {} past the page cache", path.display()));
            Ok(Arc::new(rustix::fs::open(&path, flags, Mode::empty()).map_err(|why| tried(why.into()))?))
        });
        let files: Vec<Arc<OwnedFd>> = files.collect::<Result<_, Error>>()?;
        let mut reads = Reads::<()>::new(AT_A_TIME).map_err(Error::io(ring))?;
        let mut numbers = SplitMix64::new(7);
        let (began, mut bytes, mut spare) = (now(), 0_u64, Vec::new());
        while began.elapsed() < span {
            while reads.has_room() {
                let (file, block) = (numbers.up_to(FILMS - 1), numbers.up_to(self.size / BLOCK - 1));
                let (offset, length) = (block * BLOCK, BLOCK as usize);
                let range = ReadRange { offset, length, alignment: ALIGNMENT, aside: false };
                let buffer = spare.pop().unwrap_or_default();
                let begun = reads.start((), Arc::clone(&files[file as usize]), range, buffer);
                begun.map_err(|_| Error::Machine(format!("{ring}: it has no room")))?;
            }
            reads.wait(|| false);
            while let Some(done) = reads.take() {
                done.outcome.map_err(|why| Error::io(ring)(why.into()))?;
                bytes += (done.buffer.len() - done.from) as u64;
                spare.push(done.buffer);
            }
            interrupt.check()?;
        }
        Ok(bytes as f64 / began.elapsed().as_secs_f64())
    }

    /// So many requests for parts anywhere in the first `films` of them, as `load --urls` takes them.
    #[must_use]
    pub fn requests(&self, count: u32, part: u64, films: u64, seed: u64) -> String {
        let (mut lines, mut numbers) = (String::new(), SplitMix64::new(seed));
        let places = self.size.saturating_sub(part) / BLOCK;
        for _ in 0..count {
            let (film, from) = (numbers.up_to(films.clamp(1, FILMS) - 1), numbers.up_to(places) * BLOCK);
            // Writing to a String does not fail.
            let _ = write!(lines, "1 /{}\nRange: bytes={from}-{}\n\n", name(film), from + part - 1);
        }
        lines
    }
}

fn name(number: u64) -> String {
    format!("film{number}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_for_whole_parts_within_films() {
        let store = FilmStore::new(Path::new("/nowhere"), 64 << 20);
        assert_eq!((store.size, store.bytes()), (4 << 20, 64 << 20));
        assert_eq!((store.part(1), store.part(1 << 20), store.part(u64::MAX)), (BLOCK, 1 << 20, 2 << 20));
        let text = store.requests(500, 1 << 20, 3, 1);
        assert_eq!(text, store.requests(500, 1 << 20, 3, 1), "the seed decides");
        assert_ne!(text, store.requests(500, 1 << 20, 3, 2));
        let mut furthest = 0;
        let requests: Vec<&str> = text.split_terminator("\n\n").collect();
        assert_eq!(requests.len(), 500);
        for request in requests {
            let (line, range) = request.split_once("\nRange: bytes=").expect("a range");
            assert!(["1 /film0", "1 /film1", "1 /film2"].contains(&line), "{line}");
            let (from, last) = range.split_once('-').expect("two ends");
            let (from, last): (u64, u64) = (from.parse().expect("a number"), last.parse().expect("a number"));
            assert!(from.is_multiple_of(BLOCK) && last + 1 - from == 1 << 20 && last < store.size, "{range}");
            furthest = furthest.max(last + 1);
        }
        assert_eq!(furthest, store.size, "its end is asked for as well");
        // As small as one can be, and a part that is all of a film.
        let least = FilmStore::new(Path::new("/nowhere"), 0);
        assert_eq!((least.size, least.part(u64::MAX)), (BLOCK, BLOCK));
        assert!(least.requests(1, BLOCK, 99, 1).contains("bytes=0-262143"));
    }

    #[test]
    fn a_store_is_made_once_and_read_alone() {
        let folder = std::env::temp_dir().join(format!("nearside-films-{}", std::process::id()));
        let store = FilmStore::new(&folder, FILMS * BLOCK);
        let interrupt = Interrupt::of(Arc::default());
        store.make(&interrupt).expect("there is room");
        let changed = |path: PathBuf| fs::metadata(path).and_then(|meta| meta.modified()).expect("it is there");
        let before = changed(store.film(15));
        fs::write(store.film(3), "short").expect("ours");
        store.make(&interrupt).expect("there is room");
        let (after, mended) = (changed(store.film(15)), fs::metadata(store.film(3)).expect("it is there").len());
        let read = store.read_alone(Duration::from_millis(20), &interrupt);
        let much = FilmStore::new(&folder, u64::MAX / 2).make(&interrupt);
        let place = store.place();
        fs::remove_dir_all(&folder).expect("ours");
        assert_eq!((before, mended), (after, BLOCK), "what is whole is left as it is");
        assert!(place.is_ok());
        // A file system in memory, or a container without io_uring, says which of the two it is.
        match read {
            Ok(rate) => assert!(rate > 0.0),
            Err(why) => assert!(why.to_string().starts_with("cannot read "), "{why}"),
        }
        assert!(much.expect_err("no disk has so much").to_string().contains("MiB of films are to be made"));
        assert!(store.forget().is_err() && store.place().is_err());
    }
}
