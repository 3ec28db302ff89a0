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
//! - A **slot** is handed out as `&mut [u8]`. A server's slots are where the
//!   client says, so a hostile client can make slots and received frames
//!   overlap; the consequence and the remedy are the same.
//! - A peer that takes pages away from under the mapping (truncates the file,
//!   or frees huge pages when none are left) kills this process with SIGBUS.
//!   Our own memory is sealed against it, and peers' memory is sealed by us
//!   where the file allows it, as files of `memfd_create` with
//!   `MFD_ALLOW_SEALING` do. What cannot be sealed (DPDK's zero-copy memory)
//!   is accepted unless `sealed=required`, under which huge pages of a peer
//!   are refused too.

use crate::config::Config;
use crate::control::Backing;
use crate::handshake::{Layout, Plan};
use crate::ring::{Descriptor, Extent, RING_ALIGN, Ring, ring_at, ring_bytes};
use core::ffi::c_void;
use core::ptr::NonNull;
use rustix::fs::{FileType, MemfdFlags, SealFlags};
use rustix::mm::{Advice, MapFlags, ProtFlags};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;

const CACHE_LINE: u32 = 64;
/// Two cache lines: CPUs fetch them in pairs, so rings of different queues
/// must not share a pair.
const RING_SPACING: usize = 128;
const HUGE_PAGE: u64 = 2 << 20;
const HUGETLBFS: u64 = 0x9584_58F6; // linux/magic.h, HUGETLBFS_MAGIC
/// Largest page that a file system may claim, for rounding mappings.
const PAGE_MAX: u64 = 1 << 30;

/// The mapped regions of one connection. Whoever uses a part of them holds
/// the whole, so nothing is unmapped under a borrow.
#[derive(Debug)]
pub(crate) struct Memory {
    #[expect(dead_code, reason = "unmapped when dropped; used through the extents")]
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
}

/// A ring, and the memory that it lies in.
#[derive(Clone, Debug)]
pub(crate) struct RingRef {
    ring: NonNull<Ring>,
    memory: Arc<Memory>,
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
        NonNull::new(ring_at(base, log2_size).cast_mut()).map(|ring| Self { ring, memory: Arc::clone(memory) })
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
}

/// The memory of a client: its rings, its buffers, and the file to share.
#[derive(Debug)]
pub(crate) struct OwnMemory {
    pub(crate) memory: Arc<Memory>,
    pub(crate) file: OwnedFd,
    pub(crate) backing: Backing,
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

/// Bytes that a client's memory takes, before rounding to pages; `None` if
/// offsets of 32 bits do not reach all of it.
pub(crate) fn own_bytes(queues: u16, log2_ring_size: u8, buffer_size: u32) -> Option<u32> {
    let rings = 2 * u64::from(queues);
    let ring = ring_bytes(log2_ring_size).next_multiple_of(RING_SPACING) as u64;
    let bytes = rings * (ring + (u64::from(stride(buffer_size)) << log2_ring_size));
    u32::try_from(bytes).ok().filter(|&bytes| u64::from(bytes) <= u64::from(u32::MAX) - HUGE_PAGE)
}

fn stride(buffer_size: u32) -> u32 {
    (buffer_size.div_ceil(CACHE_LINE) | 1) * CACHE_LINE
}

impl OwnMemory {
    /// Makes and formats a client's memory.
    pub(crate) fn new(config: &Config, plan: &Plan) -> io::Result<Self> {
        let log2_ring_size = plan.log2_ring_size;
        let bytes = own_bytes(plan.queues, log2_ring_size, config.buffer_size)
            .ok_or_else(|| io::Error::new(io::ErrorKind::InvalidInput, "rings and buffers exceed 4 GiB"))?;
        let (file, mapping, backing) = create(u64::from(bytes), config.hugepages)?;

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

/// Makes memory to share, of huge pages if asked for and there are any.
fn create(bytes: u64, hugepages: bool) -> io::Result<(OwnedFd, Mapping, Backing)> {
    if hugepages {
        let flags = MemfdFlags::HUGETLB | MemfdFlags::HUGE_2MB;
        if let Ok((file, mapping)) = create_with(bytes.next_multiple_of(HUGE_PAGE), flags) {
            return Ok((file, mapping, Backing::Huge));
        }
    }
    let (file, mapping) = create_with(bytes.next_multiple_of(4096), MemfdFlags::empty())?;
    Ok((file, mapping, Backing::Ordinary))
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
pub(crate) fn map_peers(regions: &[(OwnedFd, u64)], require_sealed: bool) -> Result<Arc<Memory>, String> {
    let mappings: Result<Vec<_>, String> = regions
        .iter()
        .map(|(file, size)| {
            check_peers(file, *size, require_sealed)?;
            Mapping::new(file, *size).map_err(|error| format!("cannot map the region: {error}"))
        })
        .collect();
    mappings.map(Memory::new)
}

fn check_peers(file: &OwnedFd, size: u64, require_sealed: bool) -> Result<(), String> {
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
    if require_sealed {
        let huge = rustix::fs::fstatfs(file).is_ok_and(|fs| fs.f_type as u64 == HUGETLBFS);
        if !sealed {
            return Err(String::from("the region is not sealed against shrinking, which is required here"));
        }
        if huge {
            return Err(String::from("the region is of huge pages, which can be taken away; not allowed here"));
        }
    }
    Ok(())
}

/// One mapped file.
#[derive(Debug)]
struct Mapping {
    base: NonNull<u8>,
    /// Bytes that may be used.
    size: u64,
    /// Bytes that are mapped: whole pages, of the file's page size.
    mapped: usize,
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
        let mapping = Self { base, size, mapped };
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
        // SAFETY: the range is this mapping, and nothing refers to it any more: users hold the Memory that owns it.
        // Failure would leave it mapped, which harms nobody.
        let _ = unsafe { rustix::mm::munmap(self.start(), self.mapped) };
    }
}

#[cfg(test)]
mod tests;
