//! A file system of a test's own (FUSE), whose files fail and hang when the test wants them to.
//!
//! It answers the kernel's requests as `fuse(4)` and `include/uapi/linux/fuse.h` have them, a folder of files in
//! memory, and nothing more. What it knows of no file is kept: each look asks it.

use rustix::fd::{AsFd, OwnedFd};
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use std::collections::BTreeMap;
use std::ffi::CString;
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;

/// What becomes of requests for a file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fate {
    /// They are answered.
    Answered,
    /// None is, until another fate is set.
    Hangs,
    /// The file is found and opened, and no read is answered.
    HangsRead,
    /// All is answered but that somebody closes it, who waits for that (FLUSH).
    HangsClosed,
    /// Reads of bytes from there on fail with this error.
    Fails(u64, Errno),
    /// It cannot be found, for this error.
    FailsFound(Errno),
}

/// Requests that are answered (`enum fuse_opcode`).
mod opcode {
    pub const LOOKUP: u32 = 1;
    pub const FORGET: u32 = 2;
    pub const GETATTR: u32 = 3;
    pub const OPEN: u32 = 14;
    pub const READ: u32 = 15;
    pub const STATFS: u32 = 17;
    pub const RELEASE: u32 = 18;
    pub const FLUSH: u32 = 25;
    pub const INIT: u32 = 26;
    pub const OPENDIR: u32 = 27;
    pub const RELEASEDIR: u32 = 29;
    pub const INTERRUPT: u32 = 36;
    pub const BATCH_FORGET: u32 = 42;
}

/// Bytes of a request's head (`struct fuse_in_header`).
const HEAD: usize = 40;

/// The folder's node; those of files follow it.
const ROOT: u64 = 1;

/// A request: `struct fuse_in_header`, and what follows it.
#[derive(Debug)]
struct Asked {
    opcode: u32,
    unique: u64,
    node: u64,
    body: Vec<u8>,
}

#[derive(Debug)]
struct Files {
    /// By name, in the order of their nodes.
    files: BTreeMap<String, (Vec<u8>, Fate)>,
    /// Requests that hang.
    held: Vec<Asked>,
}

#[derive(Debug)]
struct Shared {
    device: OwnedFd,
    files: Mutex<Files>,
}

/// One that is mounted, until this is dropped.
#[derive(Debug)]
pub struct Fuse {
    shared: Arc<Shared>,
    path: PathBuf,
}

impl Fuse {
    /// Mounts one with these files at `path`, a folder: seen by this thread, and by the processes that it starts.
    ///
    /// # Errors
    /// This machine has none, or this user may not.
    pub fn mount(path: &Path, files: &[(&str, &[u8])]) -> std::io::Result<Self> {
        let device = rustix::fs::open("/dev/fuse", OFlags::RDWR | OFlags::CLOEXEC, Mode::empty())?;
        let options = format!(
            "fd={},rootmode=40755,user_id=0,group_id=0,allow_other,default_permissions",
            device.as_fd().as_raw_fd()
        );
        let [source, target, kind, options] =
            [b"test", path.as_os_str().as_bytes(), b"fuse.test", options.as_bytes()].map(CString::new);
        let (source, target, kind, options) = (source?, target?, kind?, options?);
        let private = CString::new("/")?;
        let flags = libc::MS_RDONLY | libc::MS_NOSUID | libc::MS_NODEV;
        // SAFETY: all paths are NUL-terminated and outlive the calls; the name space of mounts that is changed is
        // this thread's own by then.
        let mounted = unsafe {
            libc::unshare(libc::CLONE_NEWNS) == 0
                && libc::mount(
                    core::ptr::null(),
                    private.as_ptr(),
                    core::ptr::null(),
                    libc::MS_REC | libc::MS_PRIVATE,
                    core::ptr::null(),
                ) == 0
                && libc::mount(source.as_ptr(), target.as_ptr(), kind.as_ptr(), flags, options.as_ptr().cast()) == 0
        };
        if !mounted {
            return Err(std::io::Error::last_os_error());
        }
        let files = files.iter().map(|(name, bytes)| ((*name).to_owned(), (bytes.to_vec(), Fate::Answered)));
        let files = Mutex::new(Files { files: files.collect(), held: Vec::new() });
        let shared = Arc::new(Shared { device, files });
        let served = Arc::clone(&shared);
        thread::spawn(move || serve(&served));
        Ok(Self { shared, path: path.to_path_buf() })
    }

    /// From now on this becomes of requests for a file; those that hang get it, too.
    ///
    /// # Panics
    /// If there is no such file.
    pub fn set(&self, name: &str, fate: Fate) {
        let mut files = lock(&self.shared.files);
        files.files.get_mut(name).expect("a file by this name").1 = fate;
        for asked in core::mem::take(&mut files.held) {
            answer(&self.shared, &mut files, asked);
        }
    }

    /// How many requests hang.
    #[must_use]
    pub fn held(&self) -> usize {
        lock(&self.shared.files).held.len()
    }
}

impl Drop for Fuse {
    fn drop(&mut self) {
        let names: Vec<String> = lock(&self.shared.files).files.keys().cloned().collect();
        // Whoever waits is let go.
        names.iter().for_each(|name| self.set(name, Fate::Answered));
        if let Ok(path) = CString::new(self.path.as_os_str().as_bytes()) {
            // SAFETY: a path that is NUL-terminated and outlives the call.
            unsafe { libc::umount2(path.as_ptr(), libc::MNT_DETACH) };
        }
    }
}

fn lock(files: &Mutex<Files>) -> MutexGuard<'_, Files> {
    files.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Until it is unmounted and nobody has anything open.
fn serve(shared: &Shared) {
    let mut buffer = vec![0; 1 << 18];
    loop {
        match rustix::io::read(&shared.device, &mut buffer) {
            Ok(length) => {
                let Some(asked) = parse(&buffer[..length]) else { continue };
                answer(shared, &mut lock(&shared.files), asked);
            }
            // NOENT: who asked has been killed meanwhile.
            Err(Errno::INTR | Errno::AGAIN | Errno::NOENT) => {}
            Err(_) => return,
        }
    }
}

fn parse(bytes: &[u8]) -> Option<Asked> {
    let word = |at: usize| Some(u32::from_ne_bytes(*bytes.get(at..)?.first_chunk()?));
    let long = |at: usize| Some(u64::from_ne_bytes(*bytes.get(at..)?.first_chunk()?));
    Some(Asked { opcode: word(4)?, unique: long(8)?, node: long(16)?, body: bytes.get(HEAD..)?.to_vec() })
}

/// Answers a request, or holds it.
fn answer(shared: &Shared, files: &mut Files, asked: Asked) {
    if matches!(asked.opcode, opcode::FORGET | opcode::BATCH_FORGET | opcode::INTERRUPT) {
        return;
    }
    let fate = files.fate(&asked);
    let is_read = asked.opcode == opcode::READ;
    let is_let_go = matches!(asked.opcode, opcode::RELEASE | opcode::FLUSH);
    let is_closed = asked.opcode == opcode::FLUSH;
    if (fate == Fate::Hangs && !is_let_go)
        || (fate == Fate::HangsRead && is_read)
        || (fate == Fate::HangsClosed && is_closed)
    {
        return files.held.push(asked);
    }
    let (body, error) = match files.reply(&asked, fate) {
        Ok(body) => (body, 0),
        Err(why) => (Vec::new(), -why.raw_os_error()),
    };
    let mut out = (16 + body.len() as u32).to_ne_bytes().to_vec();
    out.extend_from_slice(&error.to_ne_bytes());
    out.extend_from_slice(&asked.unique.to_ne_bytes());
    out.extend_from_slice(&body);
    // Refused where who asked has been killed meanwhile.
    let _ = rustix::io::write(&shared.device, &out);
}

impl Files {
    fn file(&self, node: u64) -> Option<&(Vec<u8>, Fate)> {
        self.files.values().nth(usize::try_from(node.checked_sub(ROOT + 1)?).ok()?)
    }

    fn named(&self, asked: &Asked) -> Option<u64> {
        let name = asked.body.split(|byte| *byte == 0).next()?;
        let at = self.files.keys().position(|known| known.as_bytes() == name)?;
        Some(ROOT + 1 + at as u64)
    }

    fn fate(&self, asked: &Asked) -> Fate {
        let node = if asked.opcode == opcode::LOOKUP { self.named(asked) } else { Some(asked.node) };
        node.and_then(|node| self.file(node)).map_or(Fate::Answered, |(_, fate)| *fate)
    }

    fn reply(&self, asked: &Asked, fate: Fate) -> Result<Vec<u8>, Errno> {
        let mut out = Vec::new();
        match asked.opcode {
            // `struct fuse_init_out`: 7.31, and sizes of reads and writes. Many are asked for at a time, of one file
            // and of names in one folder (FUSE_ASYNC_READ, FUSE_PARALLEL_DIROPS).
            opcode::INIT => {
                let flags = 1 | 1 << 18;
                longs(&mut out, &[7 | 31 << 32, 1 << 20 | flags << 32, 64 | 48 << 16 | 1 << (16 + 32), 1]);
                longs(&mut out, &[0; 4]);
            }
            // `struct fuse_entry_out`: nothing of it is kept.
            opcode::LOOKUP => {
                let node = self.named(asked).ok_or(Errno::NOENT)?;
                if let Fate::FailsFound(why) = fate {
                    return Err(why);
                }
                longs(&mut out, &[node, 0, 0, 0, 0]);
                self.attributes(node, &mut out);
            }
            opcode::GETATTR => {
                longs(&mut out, &[0, 0]);
                self.attributes(asked.node, &mut out);
            }
            opcode::OPEN | opcode::OPENDIR => longs(&mut out, &[asked.node, 0]),
            opcode::READ => {
                let field = |at: usize| asked.body.get(at..).and_then(|rest| rest.first_chunk()).copied();
                let offset = field(8).map(u64::from_ne_bytes).ok_or(Errno::INVAL)?;
                let size = asked.body.get(16..20).and_then(|size| size.try_into().ok()).map(u32::from_ne_bytes);
                let (bytes, _) = self.file(asked.node).ok_or(Errno::ISDIR)?;
                let from = bytes.len().min(offset as usize);
                let to = bytes.len().min(from + size.ok_or(Errno::INVAL)? as usize);
                if let Fate::Fails(first, why) = fate
                    && to as u64 > first
                {
                    return Err(why);
                }
                out.extend_from_slice(&bytes[from..to]);
            }
            // `struct fuse_kstatfs`.
            opcode::STATFS => {
                longs(&mut out, &[1 << 20, 1 << 19, 1 << 19, 1_000, 1_000, 4096 | 255 << 32, 4096, 0, 0, 0])
            }
            opcode::RELEASE | opcode::RELEASEDIR | opcode::FLUSH => {}
            _ => return Err(Errno::NOSYS),
        }
        Ok(out)
    }

    /// `struct fuse_attr`: a time long ago, so that nothing may have changed without a change of it.
    fn attributes(&self, node: u64, out: &mut Vec<u8>) {
        const LONG_AGO: u64 = 1_600_000_000;
        let size = self.file(node).map_or(0, |(bytes, _)| bytes.len() as u64);
        let mode: u64 = if node == ROOT { 0o040_755 } else { 0o100_644 };
        longs(out, &[node, size, size.div_ceil(512), LONG_AGO, LONG_AGO, LONG_AGO]);
        // Three words of nanoseconds, the mode, links, owner, group, device, the size of blocks, flags.
        longs(out, &[0, mode << 32, 1, 0, 4096]);
    }
}

fn longs(out: &mut Vec<u8>, values: &[u64]) {
    values.iter().for_each(|value| out.extend_from_slice(&value.to_ne_bytes()));
}
