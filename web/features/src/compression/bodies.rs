//! Content in memory, and of files that are not too long, is compressed once, on a thread of its own, for all who take
//! it so.

use app::Body;
use gzip::{Coding, Whole};
use helper::Twin;
use rustix::fd::OwnedFd;
use std::collections::HashMap;
use std::ffi::OsStr;
use std::hash::{BuildHasher, RandomState};
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Weak};

/// Bodies that wait to be compressed, at most. Above, they are sent as they are.
const WAITING_MAX: usize = 64;

/// What is known of a compressed body: that of a body's bytes, in a coding, at a
/// level.
pub type BodyKey = (usize, Coding, u8);

#[derive(Debug)]
struct Job {
    key: BodyKey,
    content: JobContent,
}

/// What is to be compressed.
#[derive(Debug)]
pub enum Uncompressed {
    /// Bytes in memory, from this one on.
    Memory(Body, u32),
    /// A file at this path, as long and as old as it is known to be.
    File(DiskFile),
}

/// A file that is not in memory.
#[derive(Clone, Debug)]
pub struct DiskFile {
    /// From the root on, without the first slash.
    pub path: Arc<[u8]>,
    /// Bytes.
    pub size: u64,
    /// Unix seconds.
    pub modified: u64,
}

/// The same, as another thread has it.
#[derive(Debug)]
enum JobContent {
    Memory(Arc<Vec<u8>>, usize),
    File(DiskFile),
}

/// Files that are longer are sent as they are.
pub const FILE_MAX: u64 = 16 << 20;

impl DiskFile {
    /// What is in it; nothing if it is another by now.
    fn read(&self) -> Option<Vec<u8>> {
        let path = [b"/", &*self.path].concat();
        let mut file = std::fs::File::open(Path::new(OsStr::from_bytes(&path))).ok()?;
        let same = |file: &std::fs::File| {
            let data = file.metadata().ok()?;
            let modified = u64::try_from(data.mtime()).unwrap_or(0);
            (data.is_file() && (data.len(), modified) == (self.size, self.modified)).then_some(())
        };
        same(&file)?;
        let mut bytes = Vec::with_capacity(usize::try_from(self.size).ok()?);
        let length = (&mut file).take(self.size + 1).read_to_end(&mut bytes).ok()?;
        same(&file)?;
        (length as u64 == self.size).then_some(bytes)
    }
}

/// Compressed bodies, and who makes them.
#[derive(Debug)]
pub struct CompressedBodies {
    jobs: Sender<Job>,
    done: Receiver<(BodyKey, Option<Vec<u8>>)>,
    /// Who makes them, where that is no thread.
    twin: Option<Twin>,
    /// What is under way, whose content it is, and who waits for it.
    waiting: HashMap<BodyKey, (Option<Body>, Vec<u64>)>,
    known: HashMap<BodyKey, KnownBody>,
    bytes: usize,
    bytes_max: usize,
    /// Numbers of files.
    hasher: RandomState,
}

#[derive(Debug)]
struct KnownBody {
    /// Whose bytes it was made of, as long as they are held elsewhere: content that
    /// is let go of is to be gone. None has its key meanwhile.
    source: Option<Weak<Vec<u8>>>,
    /// `None`: it cannot be compressed, or not be read.
    body: Option<Body>,
    used: bool,
}

/// What is known of a body in a coding.
pub enum Compressed {
    /// This is it.
    Known(Body),
    /// It is sent as it is.
    AsItIs,
    /// It is not known.
    Unknown,
}

/// Who compresses.
struct Compressor {
    made: Sender<(BodyKey, Option<Vec<u8>>)>,
    event: Arc<OwnedFd>,
    whole: Whole,
}

impl Compressor {
    /// Compresses some content; whether anybody is left to hear of it.
    fn work(&mut self, Job { key, content }: Job) -> bool {
        let read;
        let bytes = match &content {
            JobContent::Memory(bytes, start) => bytes.get(*start..),
            JobContent::File(file) => {
                read = file.read();
                read.as_deref()
            }
        };
        // Longer or not, as nginx has it: which form is sent is for lengths and types to say, not for content.
        let out = bytes.and_then(|bytes| {
            let mut out = Vec::with_capacity(bytes.len() / 3);
            self.whole.encode(key.1, key.2, bytes, &mut out).then_some(out)
        });
        // Whoever hears that it is made finds nothing held for it.
        drop(content);
        let is_heard = self.made.send((key, out)).is_ok();
        // Full (2^64 unread signals) is signalled enough.
        let _ = rustix::io::write(&self.event, &1_u64.to_ne_bytes());
        is_heard
    }
}

impl CompressedBodies {
    /// Starts the thread, on `cpus`; `event` becomes readable when there is
    /// something to take. At most `bytes_max` are kept.
    pub fn start(bytes_max: usize, event: &Arc<OwnedFd>, cpus: &[usize]) -> std::io::Result<Self> {
        let (jobs, todo) = channel::<Job>();
        let (made, done) = channel();
        let mut compressor = Compressor { made, event: Arc::clone(event), whole: Whole::default() };
        let mut twin = None;
        if helper::is_inline() {
            twin = Some(Twin::new(move || {
                while let Ok(job) = todo.try_recv() {
                    let _ = compressor.work(job);
                }
            }));
        } else {
            helper::spawn_behind("compressor", cpus, helper::Behind::Last, move || {
                // Ends when the silo's end is gone.
                while let Ok(job) = todo.recv()
                    && compressor.work(job)
                {}
            })?;
        }
        Ok(Self {
            jobs,
            done,
            twin,
            waiting: HashMap::new(),
            known: HashMap::new(),
            bytes: 0,
            bytes_max,
            hasher: RandomState::new(),
        })
    }

    /// The key of what `body` is in a coding.
    pub fn key(body: &Body, coding: Coding, level: u8) -> BodyKey {
        (body.identity(), coding, level)
    }

    /// The key of what a file is in a coding; `tag` is its entity tag. No body lies
    /// in the upper half of memory.
    pub fn key_of_file(&self, file: &DiskFile, tag: &str, coding: Coding, level: u8) -> BodyKey {
        let number = self.hasher.hash_one((&*file.path, file.size, file.modified, tag));
        (number as usize | 1 << (usize::BITS - 1), coding, level)
    }

    /// What is known.
    pub fn find(&mut self, key: BodyKey) -> Compressed {
        match self.known.get_mut(&key) {
            None => Compressed::Unknown,
            Some(KnownBody { body, used, .. }) => {
                *used = true;
                body.clone().map_or(Compressed::AsItIs, Compressed::Known)
            }
        }
    }

    /// Has content compressed; `ticket` goes on then. Whether it will be.
    pub fn ask(&mut self, key: BodyKey, content: Uncompressed, ticket: u64) -> bool {
        if let Some((_, tickets)) = self.waiting.get_mut(&key) {
            tickets.push(ticket);
            return true;
        }
        if self.waiting.len() >= WAITING_MAX {
            return false;
        }
        let (source, content) = match content {
            Uncompressed::Memory(body, start) => {
                let bytes = body.bytes();
                (Some(body), JobContent::Memory(bytes, start as usize))
            }
            Uncompressed::File(file) => (None, JobContent::File(file)),
        };
        if self.jobs.send(Job { key, content }).is_err() {
            return false;
        }
        self.waiting.insert(key, (source, vec![ticket]));
        if let Some(twin) = &mut self.twin {
            twin.run();
        }
        true
    }

    /// Whether something is under way.
    pub fn is_busy(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// Takes what was made: who waited for it.
    pub fn take(&mut self) -> Option<Vec<u64>> {
        let (key, made) = self.done.try_recv().ok()?;
        let (source, tickets) = self.waiting.remove(&key)?;
        let body = made.map(|bytes| Body::new(bytes).keeping_sums());
        self.bytes += body.as_ref().map_or(0, |body| body.len() as usize);
        let source = source.map(|source| Arc::downgrade(&source.bytes()));
        self.known.insert(key, KnownBody { source, body, used: true });
        self.make_room();
        Some(tickets)
    }

    /// Forgets what nobody asked for lately, if too much is kept.
    fn make_room(&mut self) {
        // What nobody can ask for any more goes first.
        for gone in [true, false, false] {
            if self.bytes <= self.bytes_max && self.known.len() <= KNOWN_MAX {
                return;
            }
            let bytes = &mut self.bytes;
            self.known.retain(|_, known| {
                let stays = match gone {
                    true => known.source.as_ref().is_none_or(|source| source.strong_count() > 0),
                    false => core::mem::take(&mut known.used),
                };
                *bytes -= if stays { 0 } else { known.body.as_ref().map_or(0, |body| body.len() as usize) };
                stays
            });
        }
    }
}

/// Bodies that are known in a coding, at most.
const KNOWN_MAX: usize = 8192;

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::event::EventfdFlags;

    #[test]
    fn content_is_compressed_once_for_all_who_wait() {
        let event = Arc::new(rustix::event::eventfd(0, EventfdFlags::CLOEXEC).expect("a descriptor"));
        let mut bodies = CompressedBodies::start(1 << 20, &event, &[]).expect("a thread");
        let body = Body::new(b"headtext text text text text text text text text text text text".to_vec());
        let key = CompressedBodies::key(&body, Coding::Gzip, 6);
        assert!(matches!(bodies.find(key), Compressed::Unknown));
        assert!(
            bodies.ask(key, Uncompressed::Memory(body.clone(), 4), 1)
                && bodies.ask(key, Uncompressed::Memory(body.clone(), 4), 2)
        );
        // Blocks until it was made.
        rustix::io::read(&event, &mut [0_u8; 8]).expect("a signal");
        assert_eq!(bodies.take(), Some(vec![1, 2]));
        assert!(!bodies.is_busy());
        let Compressed::Known(made) = bodies.find(key) else { panic!("it was made") };
        let read = gzip::members(made.as_slice(), 1 << 10).expect("gzip");
        assert_eq!(read, &body.as_slice()[4..]);
        // It holds nothing of what it was made of, which a cache may let go of.
        assert_eq!(Arc::strong_count(&body.bytes()), 2, "the body's, and this one");
        let short = Body::new(b"x".to_vec());
        let key = CompressedBodies::key(&short, Coding::Gzip, 6);
        assert!(bodies.ask(key, Uncompressed::Memory(short, 0), 3));
        rustix::io::read(&event, &mut [0_u8; 8]).expect("a signal");
        assert_eq!(bodies.take(), Some(vec![3]));
        let Compressed::Known(made) = bodies.find(key) else { panic!("it was made, and is longer") };
        assert_eq!(gzip::members(made.as_slice(), 1 << 10).expect("gzip"), b"x");
    }
    #[test]
    fn files_are_compressed_as_they_are_known() {
        let event = Arc::new(rustix::event::eventfd(0, EventfdFlags::CLOEXEC).expect("a descriptor"));
        let mut bodies = CompressedBodies::start(1 << 20, &event, &[]).expect("a thread");
        let path = std::env::temp_dir().join(format!("nearside-squeeze-{}", std::process::id()));
        std::fs::write(&path, "text ".repeat(1_000)).expect("written");
        let modified = std::fs::metadata(&path).expect("there").mtime() as u64;
        let name = path.as_os_str().as_bytes()[1..].into();
        let file = DiskFile { path: name, size: 5_000, modified };
        let mut made = |file: &DiskFile| {
            let key = bodies.key_of_file(file, "tag", Coding::Gzip, 1);
            assert!(bodies.ask(key, Uncompressed::File(file.clone()), 1));
            rustix::io::read(&event, &mut [0_u8; 8]).expect("a signal");
            assert_eq!(bodies.take(), Some(vec![1]));
            match bodies.find(key) {
                Compressed::Known(made) => Some(gzip::members(made.as_slice(), 1 << 20).expect("gzip").len()),
                Compressed::AsItIs | Compressed::Unknown => None,
            }
        };
        assert_eq!(made(&file), Some(5_000));
        for other in [
            DiskFile { size: 4_999, ..file.clone() },
            DiskFile { modified: modified + 1, ..file.clone() },
            DiskFile { path: b"nonexistent/file"[..].into(), ..file.clone() },
            DiskFile { path: b"dev/zero"[..].into(), ..file.clone() },
        ] {
            assert_eq!(made(&other), None, "{other:?}");
        }
        std::fs::remove_file(path).expect("removed");
    }
}
