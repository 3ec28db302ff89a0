//! The memory that frames lie in, shared with the kernel.

use crate::config::Config;
use core::ops::Range;
use core::ptr::NonNull;
use rustix::io::Errno;
use rustix::mm::{Advice, MapFlags, ProtFlags};

/// What `MAP_HUGETLB` gives by default on the machines that we know.
const HUGE_PAGE: usize = 2 << 20;

/// What the memory of frames is made of.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Backing {
    /// Huge pages of 2 MiB.
    HugePages,
    /// Ordinary pages, of which the kernel was asked to make huge ones.
    Transparent,
    /// Ordinary pages.
    Pages,
}

impl core::fmt::Display for Backing {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(match self {
            Self::HugePages => "huge pages",
            Self::Transparent => "transparent huge pages where the kernel can",
            Self::Pages => "ordinary pages",
        })
    }
}

/// A piece of memory from the operating system, not yet touched.
#[derive(Debug)]
pub(crate) struct Umem {
    mapping: NonNull<u8>,
    mapping_len: usize,
    start: NonNull<u8>,
    len: usize,
    backing: Backing,
}

// SAFETY: plain memory; what is read and written where is a matter of the
// queues, each of which has frames of its own.
unsafe impl Send for Umem {}
// SAFETY: as above.
unsafe impl Sync for Umem {}

impl Umem {
    /// Room for the frames of `queues` queues.
    pub fn new(config: &Config, frame: u32, queues: u32) -> Result<Self, Errno> {
        let len = queues as usize * 2 * config.ring as usize * frame as usize;
        let huge_len = len.next_multiple_of(HUGE_PAGE);
        if config.hugepages {
            if let Ok(start) = map(huge_len, MapFlags::HUGETLB) {
                return Ok(Self { mapping: start, mapping_len: huge_len, start, len, backing: Backing::HugePages });
            }
            // A huge page lies at a multiple of its size; the rest is never touched.
            let mapping_len = huge_len + HUGE_PAGE;
            let mapping = map(mapping_len, MapFlags::empty())?;
            let skip = mapping.as_ptr().align_offset(HUGE_PAGE).min(HUGE_PAGE);
            // SAFETY: within the mapping, which is a huge page longer.
            let start = unsafe { mapping.add(skip) };
            // SAFETY: advice on memory of ours changes nothing in it.
            let asked = unsafe { rustix::mm::madvise(start.as_ptr().cast(), huge_len, Advice::LinuxHugepage) };
            let backing = if asked.is_ok() { Backing::Transparent } else { Backing::Pages };
            return Ok(Self { mapping, mapping_len, start, len, backing });
        }
        let start = map(len, MapFlags::empty())?;
        Ok(Self { mapping: start, mapping_len: len, start, len, backing: Backing::Pages })
    }

    /// Where it begins.
    #[inline]
    pub const fn start(&self) -> NonNull<u8> {
        self.start
    }

    /// Bytes of all frames.
    pub const fn len(&self) -> usize {
        self.len
    }

    pub const fn backing(&self) -> Backing {
        self.backing
    }

    /// The addresses of these frames' bytes.
    pub fn range(&self, offsets: Range<usize>) -> Range<usize> {
        let start = self.start.as_ptr() as usize;
        start + offsets.start..start + offsets.end
    }
}

fn map(len: usize, more: MapFlags) -> Result<NonNull<u8>, Errno> {
    let protection = ProtFlags::READ | ProtFlags::WRITE;
    // SAFETY: a new mapping at an address of the kernel's choice.
    let start = unsafe { rustix::mm::mmap_anonymous(core::ptr::null_mut(), len, protection, MapFlags::PRIVATE | more) };
    NonNull::new(start?.cast::<u8>()).ok_or(Errno::NOMEM)
}

impl Drop for Umem {
    fn drop(&mut self) {
        // SAFETY: the mapping is ours, and whoever reaches into it holds this
        // value. It fails for a wrong address only.
        let _ = unsafe { rustix::mm::munmap(self.mapping.as_ptr().cast(), self.mapping_len) };
    }
}
