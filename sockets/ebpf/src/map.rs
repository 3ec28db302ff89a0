//! Maps: what programs and processes share.

use crate::error::{Cause, Error, Needs, Place, explain};
use crate::{Version, kernel};
use core::ptr::NonNull;
use core::sync::atomic::{AtomicU32, AtomicU64};
use rustix::io::Errno;
use rustix::mm::{MapFlags, ProtFlags};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::OnceLock;

/// The most bytes of a map's values together that [`Map::create`] asks for:
/// they are locked in memory.
pub const MAX_BYTES: u64 = 1 << 30;

/// The kinds of maps (`enum bpf_map_type`), each with its oldest kernel.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum MapKind {
    /// Any key to a value. Linux 3.19.
    Hash,
    /// Index to value. Linux 3.19.
    Array,
    /// An array that processes map into their memory. Linux 5.5.
    SharedArray,
    /// An array with a value for each CPU. Linux 4.6.
    PerCpuArray,
    /// Index to a listening socket of one SO_REUSEPORT group. Linux 4.19.
    ReuseportSockets,
    /// Index of a receive queue to an AF_XDP socket. Linux 4.18.
    XdpSockets,
}

impl MapKind {
    const fn number(self) -> u32 {
        match self {
            Self::Hash => 1,
            Self::Array | Self::SharedArray => 2,
            Self::PerCpuArray => 6,
            Self::XdpSockets => 17,
            Self::ReuseportSockets => 20,
        }
    }

    /// BPF_F_MMAPABLE.
    const fn flags(self) -> u32 {
        if matches!(self, Self::SharedArray) { 1 << 10 } else { 0 }
    }

    /// The oldest kernel that has it.
    #[must_use]
    pub const fn kernel(self) -> Version {
        match self {
            Self::Hash | Self::Array => Version::new(3, 19),
            Self::PerCpuArray => Version::new(4, 6),
            Self::XdpSockets => Version::new(4, 18),
            Self::ReuseportSockets => Version::new(4, 19),
            Self::SharedArray => Version::new(5, 5),
        }
    }
}

/// A map of this process. It lives on as long as a program uses it.
#[derive(Debug)]
pub struct Map {
    fd: OwnedFd,
    name: String,
    kind: MapKind,
    key_size: usize,
    value_size: usize,
    entries: usize,
}

impl Map {
    /// Makes a map of at most `entries`, all sizes in bytes. Arrays have keys
    /// of four bytes; listening sockets have values of eight, AF_XDP sockets of
    /// four.
    ///
    /// # Errors
    /// See [`Cause`]: missing capabilities, an old kernel, or a size that no
    /// map may have.
    pub fn create(name: &str, kind: MapKind, key_size: u32, value_size: u32, entries: u32) -> Result<Self, Error> {
        let fail = |cause| Error::new(format!("map {name}"), cause);
        let cpus = if kind == MapKind::PerCpuArray { possible_cpus() as u64 } else { 1 };
        let bytes = u64::from(value_size.next_multiple_of(8)) * u64::from(entries) * cpus;
        if bytes > MAX_BYTES || key_size == 0 || value_size == 0 || entries == 0 {
            return Err(fail(Cause::Size));
        }
        let make = || kernel::map_create(kind.number(), key_size, value_size, entries, kind.flags(), name);
        let needs = Needs { kernel: kind.kernel(), network: false };
        let fd = make()
            .or_else(|errno| if errno == Errno::PERM && unlock_memory() { make() } else { Err(errno) })
            .map_err(|errno| fail(explain(errno, needs, Place::here())))?;
        let (key_size, value_size, entries) = (key_size as usize, value_size as usize, entries as usize);
        Ok(Self { fd, name: name.to_owned(), kind, key_size, value_size, entries })
    }

    /// The value of `key`; `None` if there is none. For an array with a value
    /// per CPU, those of all possible CPUs, each padded to eight bytes.
    ///
    /// # Errors
    /// [`Cause::Size`] for a key of the wrong size; otherwise the system's.
    pub fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>, Error> {
        self.check(key.len() == self.key_size)?;
        let mut value = match self.kind {
            MapKind::PerCpuArray => vec![0; self.value_size.next_multiple_of(8) * possible_cpus()],
            _ => vec![0; self.value_size],
        };
        // SAFETY: the key has the map's size, the value the one of its kind.
        match unsafe { kernel::map_lookup(self.fd.as_fd(), key, &mut value) } {
            Ok(()) => Ok(Some(value)),
            Err(Errno::NOENT) => Ok(None),
            Err(errno) => Err(self.fail(errno)),
        }
    }

    /// Sets the value of `key`, which for an array with a value per CPU is
    /// that of every CPU.
    ///
    /// # Errors
    /// [`Cause::Size`] for a key or value of the wrong size; otherwise the
    /// system's, as E2BIG for an index past the end or a map that is full.
    pub fn set(&self, key: &[u8], value: &[u8]) -> Result<(), Error> {
        self.check(key.len() == self.key_size && value.len() == self.value_size)?;
        let repeated;
        let value = if self.kind == MapKind::PerCpuArray {
            let mut one = value.to_vec();
            one.resize(self.value_size.next_multiple_of(8), 0);
            repeated = one.repeat(possible_cpus());
            &repeated
        } else {
            value
        };
        // SAFETY: the key has the map's size, the value the one of its kind.
        unsafe { kernel::map_update(self.fd.as_fd(), key, value) }.map_err(|errno| self.fail(errno))
    }

    /// Takes `key` out; returns whether it was in. Arrays cannot.
    ///
    /// # Errors
    /// [`Cause::Size`] for a key of the wrong size; otherwise the system's.
    pub fn remove(&self, key: &[u8]) -> Result<bool, Error> {
        self.check(key.len() == self.key_size)?;
        // SAFETY: the key has the map's size.
        match unsafe { kernel::map_delete(self.fd.as_fd(), key) } {
            Ok(()) => Ok(true),
            Err(Errno::NOENT) => Ok(false),
            Err(errno) => Err(self.fail(errno)),
        }
    }

    /// Puts a listening socket at `index`. A socket is in one such map at a
    /// time: EBUSY until the other map is gone.
    ///
    /// # Errors
    /// The system's: EINVAL for a socket that does not listen or has no
    /// SO_REUSEPORT, EBUSY as above, E2BIG past the end.
    pub fn set_socket(&self, index: u32, socket: BorrowedFd<'_>) -> Result<(), Error> {
        use std::os::fd::AsRawFd;
        self.check(self.kind == MapKind::ReuseportSockets && self.value_size == 8)?;
        self.set(&index.to_ne_bytes(), &(socket.as_raw_fd() as u64).to_ne_bytes())
    }

    /// Puts an AF_XDP socket at `queue`, in place of any other: programs that
    /// redirect to the map hand it that queue's frames. It leaves the map when
    /// it is closed.
    ///
    /// # Errors
    /// The system's: EOPNOTSUPP for another kind of socket, E2BIG past the
    /// end.
    pub fn set_xdp_socket(&self, queue: u32, socket: BorrowedFd<'_>) -> Result<(), Error> {
        use std::os::fd::AsRawFd;
        self.check(self.kind == MapKind::XdpSockets && self.value_size == 4)?;
        self.set(&queue.to_ne_bytes(), &(socket.as_raw_fd() as u32).to_ne_bytes())
    }

    /// Maps the array's values into this process's memory.
    ///
    /// # Errors
    /// [`Cause::Size`] if the map is no [`MapKind::SharedArray`]; otherwise
    /// the system's.
    pub fn share(&self) -> Result<Shared, Error> {
        self.check(self.kind == MapKind::SharedArray)?;
        let len = self.value_size.next_multiple_of(8) * self.entries;
        let (protection, flags) = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::SHARED);
        // SAFETY: a new mapping at an address of the kernel's choice.
        let start = unsafe { rustix::mm::mmap(core::ptr::null_mut(), len, protection, flags, &self.fd, 0) }
            .map_err(|errno| self.fail(errno))?;
        let start = NonNull::new(start.cast::<u8>()).ok_or_else(|| self.fail(Errno::NOMEM))?;
        Ok(Shared { start, len })
    }

    /// The map's name, by which programs refer to it.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    fn check(&self, good: bool) -> Result<(), Error> {
        if good { Ok(()) } else { Err(Error::new(format!("map {}", self.name), Cause::Size)) }
    }

    fn fail(&self, errno: Errno) -> Error {
        Error::new(format!("map {}", self.name), Cause::System(errno))
    }
}

impl AsFd for Map {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// An array's values, in this process's memory and the kernel's at once: read
/// and written by programs meanwhile, hence only as atomics.
#[derive(Debug)]
pub struct Shared {
    start: NonNull<u8>,
    len: usize,
}

// SAFETY: the memory is shared with the kernel anyway and is only reached
// through atomics; the mapping is not bound to a thread.
unsafe impl Send for Shared {}
// SAFETY: as above.
unsafe impl Sync for Shared {}

impl Shared {
    /// The word at byte `at`.
    ///
    /// # Panics
    /// If it is not whole within the values, or not aligned: layouts are
    /// constants of the caller.
    #[inline]
    #[must_use]
    pub fn word(&self, at: usize) -> &AtomicU32 {
        assert!(at.is_multiple_of(4) && at <= self.len.saturating_sub(4), "no word of the map");
        // SAFETY: within the mapping, which is page-aligned and lives as long
        // as `self`, and aligned; others change it only as whole words.
        unsafe { AtomicU32::from_ptr(self.start.as_ptr().add(at).cast()) }
    }

    /// The double word at byte `at`.
    ///
    /// # Panics
    /// As [`Shared::word`].
    #[inline]
    #[must_use]
    pub fn double_word(&self, at: usize) -> &AtomicU64 {
        assert!(at.is_multiple_of(8) && at <= self.len.saturating_sub(8), "no double word of the map");
        // SAFETY: as in `word`.
        unsafe { AtomicU64::from_ptr(self.start.as_ptr().add(at).cast()) }
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        // SAFETY: the mapping is ours, and no reference into it outlives `self`.
        // It fails for a wrong address only.
        let _ = unsafe { rustix::mm::munmap(self.start.as_ptr().cast(), self.len) };
    }
}

/// How many CPUs the machine may ever have: the values of a per-CPU map.
#[must_use]
pub fn possible_cpus() -> usize {
    static POSSIBLE: OnceLock<usize> = OnceLock::new();
    *POSSIBLE.get_or_init(|| {
        let text = std::fs::read_to_string("/sys/devices/system/cpu/possible").unwrap_or_default();
        // The kernel counts from 0 to the highest, whatever is absent between.
        let last = text.trim().rsplit([',', '-']).next().and_then(|last| last.parse::<usize>().ok());
        last.map_or(4_096, |last| last + 1)
    })
}

/// Before Linux 5.11 maps counted against RLIMIT_MEMLOCK, 64 KiB by default;
/// returns whether lifting it may help.
fn unlock_memory() -> bool {
    use rustix::process::{Resource, Rlimit, setrlimit};
    let limit = Rlimit { current: None, maximum: None };
    Version::running() < Version::new(5, 11) && setrlimit(Resource::Memlock, limit).is_ok()
}
