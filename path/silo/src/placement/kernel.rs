//! The system calls, which neither rustix nor libc has as functions.

use super::{MAX_DOMAINS, Mask, MemoryPolicy};
use core::ffi::{c_int, c_long, c_uint, c_ulong, c_void};
use core::ops::Range;
use core::ptr;
use std::io;

/// The kernel takes one less than it is told (mm/mempolicy.c, `get_nodes`).
const MASK_BITS: c_ulong = MAX_DOMAINS as c_ulong + 1;

/// Move what was touched already (include/uapi/linux/mempolicy.h).
const MPOL_MF_MOVE: c_uint = 1 << 1;

/// Pages asked for at once: two pages' worth of memory for question and
/// answer, and no call worth mentioning for each.
pub const BATCH: usize = 1_024;

/// set_mempolicy(2).
pub fn set_mempolicy(policy: MemoryPolicy<'_>, mask: &Mask) -> io::Result<()> {
    let (mask, bits) = match policy {
        MemoryPolicy::Local => (ptr::null(), 0),
        _ => (mask.0.as_ptr(), MASK_BITS),
    };
    // SAFETY: the kernel reads at most `bits` bits from `mask`, which has as
    // many, and nothing if it is null. A policy touches no memory of ours.
    let outcome = unsafe { libc::syscall(libc::SYS_set_mempolicy, mode(policy), mask, bits) };
    done(outcome)
}

/// mbind(2) of whole pages, with MPOL_MF_MOVE.
pub fn mbind(range: &Range<usize>, policy: MemoryPolicy<'_>, mask: &Mask) -> io::Result<()> {
    let (start, len) = (ptr::without_provenance::<c_void>(range.start), range.end - range.start);
    // SAFETY: the kernel reads `MASK_BITS` bits from the mask, which has as
    // many. It changes which memory is behind the range and never what is in
    // it, and refuses what is not mapped.
    let outcome =
        unsafe { libc::syscall(libc::SYS_mbind, start, len, mode(policy), mask.0.as_ptr(), MASK_BITS, MPOL_MF_MOVE) };
    done(outcome)
}

const fn mode(policy: MemoryPolicy<'_>) -> c_int {
    match policy {
        MemoryPolicy::Domain(_) => libc::MPOL_PREFERRED,
        MemoryPolicy::Interleave(_) => libc::MPOL_INTERLEAVE,
        MemoryPolicy::Local => libc::MPOL_DEFAULT,
    }
}

fn done(outcome: c_long) -> io::Result<()> {
    if outcome < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Pages to ask about, and what was answered.
pub struct Batch {
    pages: Vec<usize>,
    status: Vec<c_int>,
}

impl Batch {
    pub fn new() -> Self {
        Self { pages: Vec::with_capacity(BATCH), status: vec![0; BATCH] }
    }

    pub fn is_full(&self) -> bool {
        self.pages.len() == BATCH
    }

    pub fn push(&mut self, page: usize) {
        self.pages.push(page);
    }

    pub fn clear(&mut self) {
        self.pages.clear();
    }

    /// move_pages(2) without a destination: the domain of each page, or why
    /// there is none as a negative number.
    pub fn ask(&mut self) -> io::Result<&[c_int]> {
        let count = self.pages.len().min(self.status.len());
        if count == 0 {
            return Ok(&[]);
        }
        match self.call(count, None) {
            Ok(()) => {}
            // A kernel without NUMA, where everything is in one domain.
            Err(why) if why.raw_os_error() == Some(libc::ENOSYS) => self.status[..count].fill(0),
            Err(why) => return Err(why),
        }
        Ok(&self.status[..count])
    }

    /// move_pages(2): has the pages be in `domain`, as far as that goes.
    pub fn bring(&mut self, domain: u16) -> io::Result<()> {
        let count = self.pages.len().min(self.status.len());
        if count == 0 {
            return Ok(());
        }
        let nodes = vec![c_int::from(domain); count];
        match self.call(count, Some(&nodes)) {
            Err(why) if why.raw_os_error() == Some(libc::ENOSYS) => Ok(()),
            outcome => outcome,
        }
    }

    /// move_pages(2) of the first `count` pages of this process, to `nodes`,
    /// or nowhere.
    fn call(&mut self, count: usize, nodes: Option<&[c_int]>) -> io::Result<()> {
        assert!(count <= self.pages.len() && count <= self.status.len() && nodes.is_none_or(|all| all.len() >= count));
        let nodes = nodes.map_or(ptr::null(), <[c_int]>::as_ptr);
        let flags: c_uint = if nodes.is_null() { 0 } else { MPOL_MF_MOVE };
        // SAFETY: the arrays have `count` entries at least; the kernel reads
        // addresses and domains from two and writes to the third alone. It
        // changes which memory is behind a page and never what is in it.
        let outcome = unsafe {
            libc::syscall(
                libc::SYS_move_pages,
                0 as c_long,
                count as c_ulong,
                self.pages.as_ptr(),
                nodes,
                self.status.as_mut_ptr(),
                flags,
            )
        };
        done(outcome)
    }
}
