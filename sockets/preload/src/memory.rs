//! Whether what a program names is memory of its own: else its call fails with EFAULT, as one of the
//! kernel's does, and nobody crashes.
//!
//! The kernel looks at memory as it copies; nothing here can. So it is asked before, once for each
//! page, by calls that change nothing: what it vouched for is kept in a small table, and costs a
//! comparison from then on. A page that the program gives back by munmap(2) or mprotect(2) is looked
//! at again; one that the C library gives back by itself is not, and a program that names it then
//! ends as it would by touching it.

use crate::kernel::{self, call, int};
use core::ffi::{c_int, c_void};
use core::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use libc::{iovec, size_t};
use posix::{Errno, Result};

/// Bytes of a page have this many bits: those of the smallest that any machine has.
const PAGE_BITS: u32 = 12;

/// Pages that are remembered, of each kind: a megabyte.
const KNOWN: usize = 256;

/// No program has anything below (`vm.mmap_min_addr`), and null with an offset is there.
const LOWEST: usize = 4096;

/// What is to be done with memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Access {
    Read,
    Write,
}

/// Pages that the kernel vouched for, each in the place that its number says.
struct Pages([AtomicUsize; KNOWN]);

static READABLE: Pages = Pages([const { AtomicUsize::new(0) }; KNOWN]);
static WRITABLE: Pages = Pages([const { AtomicUsize::new(0) }; KNOWN]);

impl Access {
    const fn pages(self) -> &'static Pages {
        match self {
            Self::Read => &READABLE,
            Self::Write => &WRITABLE,
        }
    }

    /// Whether the kernel finds a page there. It is asked by calls that fail, or do nothing, once
    /// they have looked.
    #[cold]
    fn is_found(self, page: usize) -> bool {
        let at = page << PAGE_BITS;
        if at < LOWEST {
            return false;
        }
        let found = match self {
            // A mask is read, and then that nobody knows what to do with it.
            Self::Read => call!(SYS_rt_sigprocmask, NO_SUCH_WAY, at, 0, 8usize),
            // Nothing is added to a word, atomically, and nobody is woken who waits for it (futex(2)).
            Self::Write => {
                let nobody = AtomicU32::new(0);
                let op = libc::FUTEX_WAKE_OP | libc::FUTEX_PRIVATE_FLAG;
                call!(SYS_futex, nobody.as_ptr(), op, 0, 0usize, at, ADD_NOTHING)
            }
        };
        found >= 0 || kernel::errno() != libc::EFAULT
    }
}

/// A way to change a mask of signals that there is not.
const NO_SUCH_WAY: c_int = -1;

/// `FUTEX_OP(FUTEX_OP_ADD, 0, FUTEX_OP_CMP_EQ, 0)` of linux/futex.h.
const ADD_NOTHING: c_int = libc::FUTEX_OP_ADD << 28;

impl Pages {
    #[inline]
    fn has(&self, page: usize) -> bool {
        self.0[page % KNOWN].load(Ordering::Relaxed) == page
    }

    fn keep(&self, page: usize) {
        self.0[page % KNOWN].store(page, Ordering::Relaxed);
    }

    fn forget(&self) {
        self.0.iter().for_each(|page| page.store(0, Ordering::Relaxed));
    }
}

/// Whether so many bytes can be read or written there.
#[inline]
pub fn is_there(access: Access, at: *const c_void, len: usize) -> bool {
    let at = at.addr();
    let page = at >> PAGE_BITS;
    let last = at.wrapping_add(len.wrapping_sub(1)) >> PAGE_BITS;
    // Page 0 is no program's, and is where a place of the table that has none stands. A buffer may begin on one page
    // and end on the next.
    let is_known = last.wrapping_sub(page) <= 1 && page != 0 && access.pages().has(page) && access.pages().has(last);
    is_known || len == 0 || prefix(access, at, len) == len
}

/// How many of those bytes there are, before the first page that is not there.
#[cold]
#[inline(never)]
fn prefix(access: Access, at: usize, len: usize) -> usize {
    let saved = kernel::errno();
    let mut good = 0;
    while good < len {
        // Beyond the last address there is nothing.
        let Some(from) = at.checked_add(good) else { break };
        let page = from >> PAGE_BITS;
        if page == 0 || !access.pages().has(page) {
            if !access.is_found(page) {
                break;
            }
            access.pages().keep(page);
        }
        let end = (page + 1) << PAGE_BITS;
        good = (end - at).min(len);
    }
    kernel::set_errno(saved);
    good
}

/// [`is_there`], or EFAULT.
#[inline]
pub fn check(access: Access, at: *const c_void, len: usize) -> Result<()> {
    if is_there(access, at, len) { Ok(()) } else { Err(Errno(libc::EFAULT)) }
}

/// A value that a program names, whether it is aligned or not.
///
/// # Safety
/// Any bytes are a value of the type.
pub unsafe fn read<T: Copy>(at: *const T) -> Result<T> {
    check(Access::Read, at.cast(), size_of::<T>())?;
    // SAFETY: the kernel can read so much there, and the caller says that it is a value.
    Ok(unsafe { at.read_unaligned() })
}

/// Has a value stand where a program named.
pub fn write<T: Copy>(at: *mut T, value: T) -> Result<()> {
    check(Access::Write, at.cast(), size_of::<T>())?;
    // SAFETY: so much can be written there, and it is what the program asked for.
    unsafe { at.write_unaligned(value) };
    Ok(())
}

/// Where a program's addresses end (Linux: `TASK_SIZE_MAX`): what is beyond is refused before anything
/// else is looked at.
const END: usize = if cfg!(target_arch = "x86_64") { 1 << 47 } else { 1 << 52 };

/// Whether vectors may be a program's, by their addresses (Linux: `access_ok`).
pub fn is_in_space(vectors: &[iovec]) -> bool {
    vectors.iter().all(|vector| vector.iov_base.addr().checked_add(vector.iov_len).is_some_and(|end| end < END))
}

/// Bytes that a call moves before it looks for more memory: as much as is remembered.
pub const PORTION: usize = KNOWN << PAGE_BITS;

/// Bytes of all of a call's vectors, if all of them are there, none is empty, and that is no more than
/// `most`.
#[inline(always)]
pub fn one_portion(access: Access, vectors: &[iovec], most: usize) -> Option<usize> {
    let mut sum = 0usize;
    for vector in vectors {
        sum = sum.saturating_add(vector.iov_len);
        if vector.iov_len == 0 || sum > most || !is_there(access, vector.iov_base, vector.iov_len) {
            return None;
        }
    }
    Some(sum)
}

/// The vectors behind `skip` bytes: so many bytes of them, and none of what is not there.
///
/// # Errors
/// EFAULT where the first byte is not there.
#[cold]
pub fn portion(access: Access, vectors: &[iovec], mut skip: usize, most: usize) -> Result<Vec<iovec>> {
    let mut found = Vec::new();
    let mut left = most;
    for vector in vectors {
        let passed = skip.min(vector.iov_len);
        skip -= passed;
        let wanted = (vector.iov_len - passed).min(left);
        if wanted == 0 {
            continue;
        }
        let at = vector.iov_base.wrapping_byte_add(passed);
        let good = prefix(access, at.addr(), wanted);
        if good > 0 {
            found.push(iovec { iov_base: at, iov_len: good });
        }
        left -= good;
        if good < wanted {
            return if found.is_empty() { Err(Errno(libc::EFAULT)) } else { Ok(found) };
        }
    }
    Ok(found)
}

/// `munmap`.
///
/// # Safety
/// As for munmap(2).
#[unsafe(no_mangle)]
unsafe extern "C" fn munmap(at: *mut c_void, len: size_t) -> c_int {
    let done = int(call!(SYS_munmap, at, len));
    READABLE.forget();
    WRITABLE.forget();
    done
}

/// `mprotect`.
///
/// # Safety
/// As for mprotect(2).
#[unsafe(no_mangle)]
unsafe extern "C" fn mprotect(at: *mut c_void, len: size_t, protection: c_int) -> c_int {
    let done = int(call!(SYS_mprotect, at, len, protection));
    READABLE.forget();
    WRITABLE.forget();
    done
}
