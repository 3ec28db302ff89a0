//! The memory that frames lie in, shared with the kernel.

use crate::config::Config;
use core::ops::Range;
use core::ptr::NonNull;
use rustix::fs::{MemfdFlags, SealFlags};
use rustix::io::Errno;
use rustix::mm::{Advice, MapFlags, ProtFlags};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// The size of huge pages that is asked for.
const HUGE_PAGE: usize = 2 << 20;

/// What fstatfs(2) calls memory of huge pages (`linux/magic.h`).
const HUGETLBFS: u64 = 0x9584_58f6;

/// What the memory of frames is made of.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Backing {
    /// Huge pages of 2 MiB.
    HugePages,
    /// Ordinary pages, of which the kernel made huge ones.
    Transparent,
    /// Ordinary pages.
    Pages,
}

impl core::fmt::Display for Backing {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(match self {
            Self::HugePages => "huge pages",
            Self::Transparent => "transparent huge pages",
            Self::Pages => "ordinary pages",
        })
    }
}

/// Memory from the operating system, in a file without a name, so that another
/// process can map it too.
#[derive(Debug)]
pub(crate) struct Umem {
    file: OwnedFd,
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
    /// Room for the frames of `queues` queues. Untouched pages come from the
    /// domain of this thread.
    pub fn new(config: &Config, frame: u32, queues: u32) -> Result<Self, Errno> {
        let len = bytes(config, frame, queues);
        let huge_len = len.next_multiple_of(HUGE_PAGE);
        if !config.hugepages {
            return Self::map(create(len, MemfdFlags::empty())?, len, len, Backing::Pages);
        }
        let huge = MemfdFlags::HUGETLB | MemfdFlags::HUGE_2MB;
        // Fails here, and not at first use, where there are none.
        let huge = create(huge_len, huge).and_then(|file| Self::map(file, huge_len, len, Backing::HugePages));
        if let Ok(this) = huge {
            return Ok(this);
        }
        let mut this = Self::map(create(huge_len, MemfdFlags::empty())?, huge_len, len, Backing::Pages)?;
        if this.collapse(huge_len) {
            this.backing = Backing::Transparent;
        }
        Ok(this)
    }

    /// The memory that another process has made with the same settings.
    pub fn adopt(file: OwnedFd, config: &Config, frame: u32, queues: u32) -> Result<Self, Errno> {
        let len = bytes(config, frame, queues);
        // Asked first: what is no file in memory has none, and need not answer the rest.
        let seals = rustix::fs::fcntl_get_seals(&file)?;
        if !seals.contains(SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL) {
            return Err(Errno::PERM);
        }
        let size = rustix::fs::fstat(&file)?.st_size;
        // Beyond the end of the file lies SIGBUS.
        if usize::try_from(size).is_ok_and(|size| size < len) {
            return Err(Errno::INVAL);
        }
        let huge = rustix::fs::fstatfs(&file).is_ok_and(|system| system.f_type as u64 == HUGETLBFS);
        let (mapped, backing) =
            if huge { (len.next_multiple_of(HUGE_PAGE), Backing::HugePages) } else { (len, Backing::Pages) };
        Self::map(file, mapped, len, backing)
    }

    /// Maps so much of a file, at a multiple of a huge page's size.
    ///
    /// Where that fails (there are no huge pages, say), the kernel may have unmapped what was
    /// there to be replaced, and another thread's memory may be in its place at once: nothing
    /// there is given back then. What of it may be left is addresses, and no memory.
    fn map(file: OwnedFd, mapped: usize, len: usize, backing: Backing) -> Result<Self, Errno> {
        let (protection, none) = (ProtFlags::READ | ProtFlags::WRITE, ProtFlags::empty());
        let mapping_len = mapped + HUGE_PAGE;
        // SAFETY: a new mapping at an address of the kernel's choice.
        let mapping = unsafe {
            rustix::mm::mmap_anonymous(
                core::ptr::null_mut(),
                mapping_len,
                none,
                MapFlags::PRIVATE | MapFlags::NORESERVE,
            )
        }?;
        let mapping = NonNull::new(mapping.cast::<u8>()).ok_or(Errno::NOMEM)?;
        let skip = mapping.as_ptr().align_offset(HUGE_PAGE).min(HUGE_PAGE);
        // SAFETY: within the mapping, which is a huge page longer.
        let start = unsafe { mapping.add(skip) };
        let flags = MapFlags::SHARED | MapFlags::FIXED;
        // SAFETY: in place of a part of the mapping just made, which nobody uses.
        let placed = unsafe { rustix::mm::mmap(start.as_ptr().cast(), mapped, protection, flags, &file, 0) };
        if let Err(why) = placed {
            // SAFETY: the mapping's ends, which no call but this has touched. It fails for a wrong
            // address only, and where there is nothing of an end.
            let _ = unsafe { rustix::mm::munmap(mapping.as_ptr().cast(), skip) };
            // SAFETY: as above; within the mapping.
            let _ = unsafe { rustix::mm::munmap(start.add(mapped).as_ptr().cast(), HUGE_PAGE - skip) };
            return Err(why);
        }
        Ok(Self { file, mapping, mapping_len, start, len, backing })
    }

    /// Takes the pages, and has the kernel make huge ones of them (Linux 6.1):
    /// it does for a file without a name as well, whatever its settings say of
    /// such files. Whether it did.
    fn collapse(&self, len: usize) -> bool {
        const COLLAPSE: i32 = 25;
        // SAFETY: advice on memory of ours changes nothing in it.
        self.touch(len).is_ok() && unsafe { libc::madvise(self.start.as_ptr().cast(), len, COLLAPSE) } == 0
    }

    /// Takes the pages of all frames (Linux 5.14), if they are not there.
    pub fn populate(&self) -> Result<(), Errno> {
        self.touch(self.len)
    }

    fn touch(&self, len: usize) -> Result<(), Errno> {
        // SAFETY: our own mapping; to touch its pages changes nothing in them.
        unsafe { rustix::mm::madvise(self.start.as_ptr().cast(), len, Advice::LinuxPopulateWrite) }
    }

    /// The file that it is in.
    pub fn file(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
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

/// Where a queue's frames begin: those to receive into, then those to send.
pub(crate) const fn first_frame(ring: u32, frame: u32, share: u32) -> u64 {
    share as u64 * 2 * ring as u64 * frame as u64
}

fn bytes(config: &Config, frame: u32, queues: u32) -> usize {
    queues as usize * 2 * config.ring as usize * frame as usize
}

/// A file without a name that stays as long as it is.
fn create(len: usize, more: MemfdFlags) -> Result<OwnedFd, Errno> {
    let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING | more;
    let file = rustix::fs::memfd_create(c"nearside-umem", flags)?;
    rustix::fs::ftruncate(&file, len as u64)?;
    rustix::fs::fcntl_add_seals(&file, SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL)?;
    Ok(file)
}

impl Drop for Umem {
    fn drop(&mut self) {
        // SAFETY: the mapping is ours, and whoever reaches into it holds this
        // value. It fails for a wrong address only.
        let _ = unsafe { rustix::mm::munmap(self.mapping.as_ptr().cast(), self.mapping_len) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::sync::atomic::{AtomicBool, Ordering};

    /// Threads begin, and get memory, while there are no huge pages for another's frames: none of
    /// it is taken away again, which would end this process by SIGSEGV.
    #[test]
    fn what_others_map_in_place_of_what_failed_stays_theirs() {
        /// More than any machine has.
        const MORE: usize = 1 << 40;
        /// As a thread's stack.
        const STACK: usize = 2 << 20;
        let over = AtomicBool::new(false);
        let (protection, flags) = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::PRIVATE);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !over.load(Ordering::Relaxed) {
                    // SAFETY: a new mapping at an address of the kernel's choice.
                    let stack = unsafe { rustix::mm::mmap_anonymous(core::ptr::null_mut(), STACK, protection, flags) };
                    let stack = stack.expect("memory").cast::<u64>();
                    for word in (0..STACK / 8).step_by(64 << 10) {
                        // SAFETY: within the mapping, at a multiple of a word, and this thread's alone.
                        unsafe { stack.add(word).write_volatile(7) };
                    }
                    std::thread::yield_now();
                    for word in (0..STACK / 8).step_by(64 << 10) {
                        // SAFETY: as above.
                        assert_eq!(unsafe { stack.add(word).read_volatile() }, 7);
                    }
                    // SAFETY: the mapping made above, which nobody holds any more.
                    unsafe { rustix::mm::munmap(stack.cast(), STACK) }.expect("its own mapping");
                }
            });
            for _ in 0..12_000 {
                // A kernel may have no huge pages at all.
                let Ok(file) = create(MORE, MemfdFlags::HUGETLB | MemfdFlags::HUGE_2MB) else { break };
                assert!(Umem::map(file, MORE, MORE, Backing::HugePages).is_err());
            }
            over.store(true, Ordering::Relaxed);
        });
    }
}
