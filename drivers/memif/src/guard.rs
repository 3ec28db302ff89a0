//! SIGBUS in memory that a peer has too.
//!
//! A peer can take the pages of a file away from under a mapping: it shortens
//! the file, or punches a hole where no huge page is left. The next access is
//! a SIGBUS, which by default ends the process. Here it ends a connection: the
//! handler puts memory of zeros in the place of the whole mapping and marks it
//! as lost, and the access is repeated. What was in flight is lost with the
//! peer. A SIGBUS anywhere else goes to whoever had the signal before, or to
//! its default action.

use core::ffi::c_void;
use core::ptr::NonNull;
use core::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, AtomicUsize, Ordering, fence};
use std::io;
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

/// The range of one mapping, in a list that only grows: the handler walks it
/// without a lock, and entries are used again.
#[derive(Debug, Default)]
struct Entry {
    /// Odd while the range changes.
    changes: AtomicU32,
    start: AtomicUsize,
    /// Zero while it is of no mapping.
    len: AtomicUsize,
    /// Size of a page of it.
    page: AtomicUsize,
    lost: AtomicBool,
    next: AtomicPtr<Entry>,
}

static FIRST: AtomicPtr<Entry> = AtomicPtr::new(core::ptr::null_mut());
static FREE: Mutex<Vec<&'static Entry>> = Mutex::new(Vec::new());
/// What to do with a SIGBUS elsewhere, once we have the signal.
static BEFORE: OnceLock<libc::sigaction> = OnceLock::new();

/// A mapping that may lose its pages. Dropped before the range is unmapped.
#[derive(Debug)]
pub(crate) struct Guard {
    entry: &'static Entry,
}

impl Guard {
    /// Guards `len` mapped bytes at `start`, of pages of `page` bytes.
    ///
    /// # Errors
    /// If the process cannot have the signal.
    ///
    /// # Safety
    /// The range is a mapping of whole pages that nothing but peers' frames
    /// and rings lies in, of which any bytes are valid; it stays while the
    /// guard does. Whoever reads or writes there holds the guard.
    pub(crate) unsafe fn new(start: NonNull<u8>, len: usize, page: usize) -> io::Result<Self> {
        take_signal()?;
        let entry = free().pop().unwrap_or_else(|| {
            let entry: &'static Entry = Box::leak(Box::default());
            let this = core::ptr::from_ref(entry).cast_mut();
            let link = |first| {
                entry.next.store(first, Ordering::Relaxed);
                Some(this)
            };
            let _ = FIRST.fetch_update(Ordering::Release, Ordering::Relaxed, link);
            entry
        });
        entry.lost.store(false, Ordering::Relaxed);
        entry.set(start.as_ptr().addr(), len, page);
        Ok(Self { entry })
    }

    /// Whether pages of it were lost: what is read there now means nothing.
    #[inline]
    pub(crate) fn is_lost(&self) -> bool {
        self.entry.lost.load(Ordering::Relaxed)
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        self.entry.set(0, 0, 0);
        free().push(self.entry);
    }
}

fn free() -> MutexGuard<'static, Vec<&'static Entry>> {
    FREE.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Entry {
    /// As of a lock with one writer that counts: readers see both ends of a
    /// range or neither.
    fn set(&self, start: usize, len: usize, page: usize) {
        let changes = self.changes.load(Ordering::Relaxed);
        self.changes.store(changes.wrapping_add(1), Ordering::Relaxed);
        fence(Ordering::Release);
        self.start.store(start, Ordering::Relaxed);
        self.len.store(len, Ordering::Relaxed);
        self.page.store(page, Ordering::Relaxed);
        self.changes.store(changes.wrapping_add(2), Ordering::Release);
    }

    /// The range, and the size of its pages, if `address` is in it.
    fn around(&self, address: usize) -> Option<(usize, usize, usize)> {
        let changes = self.changes.load(Ordering::Acquire);
        let load = |field: &AtomicUsize| field.load(Ordering::Relaxed);
        let (start, len, page) = (load(&self.start), load(&self.len), load(&self.page));
        fence(Ordering::Acquire);
        let settled = changes.is_multiple_of(2) && self.changes.load(Ordering::Relaxed) == changes;
        // A range that changes meanwhile is not the one that this thread has accessed, which it holds.
        (settled && address.wrapping_sub(start) < len).then_some((start, len, page))
    }
}

/// Takes the signal, once: where a link is opened, for later its process may no
/// longer have the right to.
pub fn take_signal() -> io::Result<()> {
    static TAKEN: Mutex<bool> = Mutex::new(false);
    let mut taken = TAKEN.lock().unwrap_or_else(PoisonError::into_inner);
    if *taken {
        return Ok(());
    }
    // SAFETY: all-zero sigactions are valid values. The handler does only what a handler may (signal-safety(7)): it
    // reads atomics and makes system calls. The alternate stack is used where a thread has one.
    unsafe {
        let mut before: libc::sigaction = core::mem::zeroed();
        if libc::sigaction(libc::SIGBUS, core::ptr::null(), &raw mut before) != 0 {
            return Err(io::Error::last_os_error());
        }
        // Before the handler can run, which looks there.
        let _ = BEFORE.set(before);
        let mut action: libc::sigaction = core::mem::zeroed();
        action.sa_sigaction = on_bus_error as extern "C" fn(_, _, _) as usize;
        action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK;
        libc::sigemptyset(&raw mut action.sa_mask);
        if libc::sigaction(libc::SIGBUS, &raw const action, core::ptr::null_mut()) != 0 {
            return Err(io::Error::last_os_error());
        }
    }
    *taken = true;
    Ok(())
}

extern "C" fn on_bus_error(signal: libc::c_int, info: *mut libc::siginfo_t, context: *mut c_void) {
    // SAFETY: the kernel gives a siginfo_t that is valid for this call, and a fault's has an address; errno is this
    // thread's own.
    unsafe {
        let errno = *libc::__errno_location();
        // What a process sends (kill(2)) has no address.
        let faulted = (*info).si_code > 0;
        if !(faulted && replace((*info).si_addr().addr())) {
            pass_on(signal, info, context);
        }
        *libc::__errno_location() = errno;
    }
}

/// Puts memory of zeros in the place of the guarded mapping that `address` is
/// in; whether there is one.
fn replace(address: usize) -> bool {
    let mut at = FIRST.load(Ordering::Acquire);
    // SAFETY: entries are never freed.
    while let Some(entry) = unsafe { at.as_ref() } {
        at = entry.next.load(Ordering::Relaxed);
        let Some((start, len, page)) = entry.around(address) else { continue };
        entry.lost.store(true, Ordering::Relaxed);
        // A machine that promises no more memory than it has may have room for a page.
        return zeros(start, len) || zeros(address & !(page - 1), page);
    }
    false
}

fn zeros(start: usize, len: usize) -> bool {
    let flags = libc::MAP_FIXED | libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
    let access = libc::PROT_READ | libc::PROT_WRITE;
    let place = core::ptr::with_exposed_provenance_mut(start);
    // SAFETY: in the place of a mapping that only peers' frames and rings lie in, of which zeros are as valid as any
    // bytes, as `Guard::new` was promised. The thread that faulted holds its guard, so that it is still that mapping.
    let placed = unsafe { libc::mmap(place, len, access, flags, -1, 0) };
    placed != libc::MAP_FAILED
}

/// Does what would have been done without us.
///
/// # Safety
/// The arguments are those of the handler that calls it.
unsafe fn pass_on(signal: libc::c_int, info: *mut libc::siginfo_t, context: *mut c_void) {
    let Some(before) = BEFORE.get() else { return };
    // SAFETY: the one that had the signal before is called as it asked to be. Where that is the default, the fault is
    // repeated, or what was sent is sent again and arrives when this handler returns.
    unsafe {
        match before.sa_sigaction {
            libc::SIG_IGN if (*info).si_code <= 0 => {}
            libc::SIG_IGN | libc::SIG_DFL => {
                let mut action: libc::sigaction = core::mem::zeroed();
                action.sa_sigaction = libc::SIG_DFL;
                libc::sigaction(signal, &raw const action, core::ptr::null_mut());
                if (*info).si_code <= 0 {
                    libc::raise(signal);
                }
            }
            other if before.sa_flags & libc::SA_SIGINFO != 0 => {
                type Informed = extern "C" fn(libc::c_int, *mut libc::siginfo_t, *mut c_void);
                core::mem::transmute::<usize, Informed>(other)(signal, info, context);
            }
            other => core::mem::transmute::<usize, extern "C" fn(libc::c_int)>(other)(signal),
        }
    }
}

#[cfg(test)]
mod tests;
