//! Shared memory: made and laid out by a client, mapped by a server.
//!
//! # What a peer can still do
//!
//! Both processes may write all of the memory at any time. So:
//!
//! - Every ring field is an atomic, copied once, and the copy is checked
//!   before use (see `ring`): no index, region, offset or length leads outside
//!   of the mapping.
//! - A **frame** is handed out as `&[u8]` where it lies. Rust asks that bytes
//!   behind a shared reference do not change; a peer that breaks the protocol
//!   can change them. What reads frames is bounds-checked safe code for which
//!   any bytes are possible anyway, so in practice the worst is a frame that
//!   reads as garbage; but no language rule promises that a compiler will not
//!   read a byte twice and see two values. Where the peer is not trusted with
//!   that, `copy=on` copies every frame out first, and what is read is private.
//!   Whoever remembers what it read asks `Capabilities::shared_frames`.
//! - A **slot** is handed out as `&mut [u8]`. A server's slots are where the
//!   client says, which can say that they overlap each other, those of another
//!   queue, received frames or rings. So a slot is only handed out where it
//!   lies if the client had described it before it connected, apart from all
//!   those (see `slots`); others are built in private memory and copied.
//! - A peer can take pages away from under the mapping: truncate the file, or
//!   free huge pages when none are left. That is a SIGBUS, which ends the
//!   connection and not the process (see `guard`). Our own memory is sealed
//!   against the former, and peers' memory is sealed by us where the file
//!   allows it, as files of `memfd_create` with `MFD_ALLOW_SEALING` do. What
//!   cannot be sealed (DPDK's zero-copy memory) is accepted unless
//!   `sealed=required`.
//! - Pages of a peer's file that nobody has touched yet are charged to who
//!   touches them first, which may be us. So the files' size has a limit
//!   (`memory=`), but for huge pages, of which the machine has a fixed number.

use crate::config::Config;
use crate::guard::Guard;
use crate::handshake::{Layout, Plan};
use crate::ring::{Descriptor, Extent, RING_ALIGN, Ring, ring_at, ring_bytes};
use crate::sizes::{HUGE_PAGE, RING_SPACING, own_bytes, stride};
use core::ffi::c_void;
use core::ops::Range;
use core::ptr::NonNull;
use rustix::fs::{FileType, MemfdFlags, SealFlags};
use rustix::mm::{Advice, MapFlags, ProtFlags};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;

const HUGETLBFS: u64 = 0x9584_58F6; // linux/magic.h, HUGETLBFS_MAGIC
/// Largest page that a file system may claim, for rounding mappings.
const PAGE_MAX: u64 = 1 << 30;

/// What the shared memory is made of.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum MemoryKind {
    /// Huge pages.
    Huge,
    /// Ordinary pages.
    Ordinary,
    /// The peer's memory.
    Peer,
}

/// The mapped regions of one connection. Whoever uses a part of them holds
/// the whole, so nothing is unmapped under a borrow.
#[derive(Debug)]
pub(crate) struct Memory {
    mappings: Box<[Mapping]>,
    extents: Box<[Extent]>,
}

// SAFETY: an Extent is a plain address range; the memory behind it lives until Memory is dropped, and is only reached
// through atomics or through slices that one queue's owner makes.
unsafe impl Send for Memory {}
// SAFETY: as for Send; nothing in Memory itself changes after it was made.
unsafe impl Sync for Memory {}

impl Memory {
    fn new(mappings: Vec<Mapping>) -> Arc<Self> {
        let extents = mappings.iter().map(|m| Extent { base: m.base.as_ptr(), size: m.size }).collect();
        Arc::new(Self { mappings: mappings.into(), extents })
    }

    pub(crate) fn extents(&self) -> &[Extent] {
        &self.extents
    }

    /// Whether a peer took pages of it away.
    pub(crate) fn is_lost(&self) -> bool {
        self.mappings.iter().any(|mapping| mapping.guard.as_ref().is_some_and(Guard::is_lost))
    }
}

/// A ring, and the memory that it lies in.
#[derive(Clone, Debug)]
pub(crate) struct RingRef {
    ring: NonNull<Ring>,
    memory: Arc<Memory>,
    region: u16,
    offset: u32,
}

// SAFETY: a Ring consists of atomics only and lives as long as the Memory held beside it.
unsafe impl Send for RingRef {}
// SAFETY: likewise.
unsafe impl Sync for RingRef {}

impl RingRef {
    /// The ring at `offset` of `region`, if it lies there as a whole.
    pub(crate) fn new(memory: &Arc<Memory>, region: u16, offset: u32, log2_size: u8) -> Option<Self> {
        let extent = memory.extents.get(usize::from(region))?;
        let fits = u64::from(offset) + ring_bytes(log2_size) as u64 <= extent.size;
        if !fits || !(offset as usize).is_multiple_of(RING_ALIGN) {
            return None;
        }
        let base = extent.base.wrapping_add(offset as usize);
        let ring = NonNull::new(ring_at(base, log2_size).cast_mut())?;
        Some(Self { ring, memory: Arc::clone(memory), region, offset })
    }

    #[inline]
    pub(crate) fn get(&self) -> &Ring {
        // SAFETY: `new` checked that the whole ring is within a region and aligned (mappings start at a page); it
        // consists of atomics only, of which any value is valid; the region stays mapped while `memory` is held.
        unsafe { self.ring.as_ref() }
    }

    #[inline]
    pub(crate) fn extents(&self) -> &[Extent] {
        &self.memory.extents
    }

    /// Where it lies: the number of its region, and the bytes in there.
    pub(crate) fn place(&self) -> (u16, Range<u64>) {
        let start = u64::from(self.offset);
        (self.region, start..start + size_of_val(self.get()) as u64)
    }

    /// Whether a peer took pages of the memory away.
    pub(crate) fn is_lost(&self) -> bool {
        self.memory.is_lost()
    }
}

/// The memory of a client: its rings, its buffers, and the file to share.
#[derive(Debug)]
pub(crate) struct OwnMemory {
    pub(crate) memory: Arc<Memory>,
    pub(crate) file: OwnedFd,
    pub(crate) backing: MemoryKind,
    pub(crate) layout: Layout,
    pub(crate) buffers: Buffers,
}

/// Where a client's buffers lie in region 0: one after the other, ring by
/// ring, the rings to the server first.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Buffers {
    start: u32,
    /// From one buffer to the next. An odd number of cache lines, so that the
    /// first lines of all buffers, which are what small frames fill, spread
    /// over all sets of a cache instead of a few.
    pub(crate) stride: u32,
    pub(crate) size: u32,
    log2_ring_size: u8,
}

impl Buffers {
    /// Offset of the first buffer of a ring, by the ring's number.
    pub(crate) fn of_ring(&self, ring: u32) -> u32 {
        self.start + (ring << self.log2_ring_size) * self.stride
    }

    fn descriptor(&self, ring: u32, slot: u16) -> Descriptor {
        Descriptor::new(0, self.of_ring(ring) + u32::from(slot) * self.stride, self.size)
    }
}

impl OwnMemory {
    /// Makes and formats a client's memory.
    pub(crate) fn new(config: &Config, plan: &Plan) -> io::Result<Self> {
        let bytes = own_bytes(plan.queues, plan.log2_ring_size, config.buffer_size)
            .ok_or_else(|| io::Error::new(io::ErrorKind::InvalidInput, "rings and buffers exceed 4 GiB"))?;
        Self::within(config, plan, create(u64::from(bytes), config.hugepages)?)
    }

    /// Formats memory that was made for it.
    fn within(config: &Config, plan: &Plan, made: (OwnedFd, Mapping, MemoryKind)) -> io::Result<Self> {
        let (file, mapping, backing) = made;
        let log2_ring_size = plan.log2_ring_size;
        let spacing = ring_bytes(log2_ring_size).next_multiple_of(RING_SPACING) as u32;
        let queues = u32::from(plan.queues);
        let stride = stride(config.buffer_size);
        let buffers = Buffers { start: 2 * queues * spacing, stride, size: config.buffer_size, log2_ring_size };
        let rings = (0..queues).map(|queue| (queue * spacing, (queues + queue) * spacing)).collect();
        let layout = Layout { size: mapping.size, rings, log2_ring_size };
        let memory = Memory::new(vec![mapping]);
        for ring in 0..2 * queues {
            let lies = RingRef::new(&memory, 0, ring * spacing, log2_ring_size)
                .ok_or_else(|| io::Error::other("ring outside of the memory"))?;
            lies.get().format(|slot| buffers.descriptor(ring, slot));
        }
        Ok(Self { memory, file, backing, layout, buffers })
    }
}

#[cfg(test)]
impl OwnMemory {
    /// As [`OwnMemory::new`], in a file that can be shortened later.
    pub(crate) fn unsealed(config: &Config, plan: &Plan) -> io::Result<Self> {
        let bytes = own_bytes(plan.queues, plan.log2_ring_size, config.buffer_size).expect("small");
        let bytes = u64::from(bytes).next_multiple_of(4096);
        let file = rustix::fs::memfd_create(c"test", MemfdFlags::CLOEXEC)?;
        rustix::fs::ftruncate(&file, bytes)?;
        let mapping = Mapping::new(&file, bytes)?;
        Self::within(config, plan, (file, mapping, MemoryKind::Ordinary))
    }
}

/// Makes memory to share, of huge pages if asked for and there are any.
fn create(bytes: u64, hugepages: bool) -> io::Result<(OwnedFd, Mapping, MemoryKind)> {
    if hugepages {
        let flags = MemfdFlags::HUGETLB | MemfdFlags::HUGE_2MB;
        if let Ok((file, mapping)) = create_with(bytes.next_multiple_of(HUGE_PAGE), flags) {
            return Ok((file, mapping, MemoryKind::Huge));
        }
    }
    let (file, mapping) = create_with(bytes.next_multiple_of(4096), MemfdFlags::empty())?;
    Ok((file, mapping, MemoryKind::Ordinary))
}

fn create_with(bytes: u64, flags: MemfdFlags) -> io::Result<(OwnedFd, Mapping)> {
    let file = rustix::fs::memfd_create(c"nearside-memif", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING | flags)?;
    rustix::fs::ftruncate(&file, bytes)?;
    // Fails here, not at first use, when huge pages are missing: a mapping reserves them.
    let mapping = Mapping::new(&file, bytes)?;
    mapping.populate()?;
    rustix::fs::fcntl_add_seals(&file, SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL)?;
    Ok((file, mapping))
}

/// Maps what a client shares.
///
/// # Errors
/// The reason to tell the client.
pub(crate) fn map_peers(regions: &[(OwnedFd, u64)], require_sealed: bool, limit: u64) -> Result<Arc<Memory>, String> {
    let mut ordinary = 0_u64;
    for (file, size) in regions {
        if check_peers(file, *size, require_sealed)? != MemoryKind::Huge {
            ordinary = ordinary.saturating_add(*size);
        }
    }
    if ordinary > limit {
        let [ordinary, limit] = [ordinary, limit].map(|bytes| bytes.div_ceil(1 << 20));
        return Err(format!("regions of {ordinary} MiB, at most {limit} are taken here but of huge pages (memory=)"));
    }
    let map = |(file, size): &(OwnedFd, u64)| {
        Mapping::new(file, *size).map_err(|error| format!("cannot map the region: {error}"))
    };
    regions.iter().map(map).collect::<Result<Vec<_>, String>>().map(Memory::new)
}

/// Maps what another process of ours shares, which has looked at it.
pub(crate) fn map_given(regions: &[(OwnedFd, u64)]) -> io::Result<Arc<Memory>> {
    let map = |(file, size): &(OwnedFd, u64)| {
        // Beyond the end of the file lies SIGBUS.
        if u64::try_from(rustix::fs::fstat(file)?.st_size).unwrap_or(0) < *size {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "a region is larger than its file"));
        }
        Mapping::new(file, *size)
    };
    regions.iter().map(map).collect::<io::Result<Vec<_>>>().map(Memory::new)
}

/// Whether a region is what it is said to be, and of which pages.
fn check_peers(file: &OwnedFd, size: u64, require_sealed: bool) -> Result<MemoryKind, String> {
    // Asked first: only files in memory have seals. Those of a file system that a process of the peer's serves could
    // make the next calls, and each access, wait for good.
    if rustix::fs::fcntl_get_seals(file).is_err() {
        return Err(String::from("the region is no memory file"));
    }
    let stat = rustix::fs::fstat(file).map_err(|error| format!("cannot inspect the region: {error}"))?;
    if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
        return Err(String::from("the region is no memory file"));
    }
    // Beyond the end of the file lies SIGBUS.
    if u64::try_from(stat.st_size).unwrap_or(0) < size {
        return Err(String::from("the region is larger than its file"));
    }
    // Refused where the file cannot be sealed, which the next line finds out.
    let _ = rustix::fs::fcntl_add_seals(file, SealFlags::SHRINK);
    let sealed = rustix::fs::fcntl_get_seals(file).is_ok_and(|seals| seals.contains(SealFlags::SHRINK));
    if require_sealed && !sealed {
        return Err(String::from("the region is not sealed against shrinking, which is required here"));
    }
    let huge = rustix::fs::fstatfs(file).is_ok_and(|fs| fs.f_type as u64 == HUGETLBFS);
    Ok(if huge { MemoryKind::Huge } else { MemoryKind::Ordinary })
}

/// One mapped file.
#[derive(Debug)]
struct Mapping {
    base: NonNull<u8>,
    /// Bytes that may be used.
    size: u64,
    /// Bytes that are mapped: whole pages, of the file's page size.
    mapped: usize,
    /// Its end of the signal that comes where pages are gone.
    guard: Option<Guard>,
}

// SAFETY: a Mapping is an address range that belongs to the process, not to a thread.
unsafe impl Send for Mapping {}
// SAFETY: likewise, and it never changes.
unsafe impl Sync for Mapping {}

impl Mapping {
    fn new(file: impl AsFd, size: u64) -> io::Result<Self> {
        let claimed = rustix::fs::fstat(&file).map_or(0, |stat| stat.st_blksize as u64);
        let page = if claimed.is_power_of_two() && claimed <= PAGE_MAX { claimed.max(4096) } else { 4096 };
        let mapped = usize::try_from(size.next_multiple_of(page)).map_err(io::Error::other)?;
        // SAFETY: a new mapping at an address of the kernel's choice disturbs no memory that is in use.
        let base = unsafe {
            rustix::mm::mmap(
                core::ptr::null_mut(),
                mapped,
                ProtFlags::READ | ProtFlags::WRITE,
                MapFlags::SHARED,
                file,
                0,
            )
        }?;
        let base = NonNull::new(base.cast()).ok_or_else(|| io::Error::other("mapped at zero"))?;
        let mut mapping = Self { base, size, mapped, guard: None };
        // SAFETY: the mapping is new, consists of whole pages of this size, and is unmapped after the guard has gone.
        // Only rings and frames lie in it, of which any bytes are valid: a Memory says so, which is held by whoever
        // reads or writes there.
        mapping.guard = Some(unsafe { Guard::new(base, mapped, page as usize) }?);
        // SAFETY: the range is the mapping just made; both pieces of advice keep its contents.
        unsafe {
            // Wanted where they exist: transparent huge pages, and no secrets of the peer's in our core dumps.
            let _ = rustix::mm::madvise(mapping.start(), mapped, Advice::LinuxHugepage);
            let _ = rustix::mm::madvise(mapping.start(), mapped, Advice::LinuxDontDump);
        }
        Ok(mapping)
    }

    /// Has the kernel find all pages now, so that a shortage is an error here
    /// and not a fault on the packet path.
    fn populate(&self) -> io::Result<()> {
        // SAFETY: the range is this mapping; populating keeps its contents.
        match unsafe { rustix::mm::madvise(self.start(), self.mapped, Advice::LinuxPopulateWrite) } {
            // Kernels before 5.14 do not know it; pages then come at first use.
            Err(rustix::io::Errno::INVAL) | Ok(()) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    fn start(&self) -> *mut c_void {
        self.base.as_ptr().cast()
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        self.guard = None;
        // SAFETY: the range is this mapping, and nothing refers to it any more: users hold the Memory that owns it.
        // Failure would leave it mapped, which harms nobody.
        let _ = unsafe { rustix::mm::munmap(self.start(), self.mapped) };
    }
}

#[cfg(test)]
mod tests;
