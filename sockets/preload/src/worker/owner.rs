//! Which thread has the worker, and whether it is still there.

use crate::deputy;
use crate::kernel::call;
use core::ptr;
use core::sync::atomic::{AtomicI32, Ordering, fence};

/// That thread, by its number; none is 0.
static OWNER: AtomicI32 = AtomicI32::new(0);

/// And its process: a child made by vfork(2) has our memory, and is another.
static PROCESS: AtomicI32 = AtomicI32::new(0);

/// It is this one.
pub(super) fn note() {
    PROCESS.store(std::process::id().cast_signed(), Ordering::Relaxed);
    OWNER.store(own_number(), Ordering::Release);
}

/// It is none of this process.
pub(super) fn forget() {
    OWNER.store(0, Ordering::Relaxed);
}

/// Makes it this one, where the one that it was has ended: what that had is this one's then, as descriptors
/// are on the kernel's sockets. Whether it is.
pub(super) fn follow_ended() -> bool {
    let owner = OWNER.load(Ordering::Acquire);
    if owner == 0 {
        return false;
    }
    // One that a program has waited for (pthread_join(3), and a word of its own all the more) may be on its way out
    // of the kernel still.
    let mut looks = 0;
    while !has_ended(owner) {
        if looks == LOOKS || deputy::is_amid_call() {
            return false;
        }
        looks += 1;
        let time = libc::timespec { tv_sec: 0, tv_nsec: PAUSE_NS };
        call!(SYS_nanosleep, &raw const time, ptr::null_mut::<libc::timespec>());
    }
    // One of those that see it goes on. What the other wrote was written before the kernel saw it end.
    fence(Ordering::SeqCst);
    OWNER.compare_exchange(owner, own_number(), Ordering::AcqRel, Ordering::Relaxed).is_ok()
}

/// How often, and how long apart, it is looked whether a thread that makes no call of ours ends: 50 ms in all.
const LOOKS: u32 = 100;
const PAUSE_NS: i64 = 500_000;

fn has_ended(thread: i32) -> bool {
    // SAFETY: the call takes numbers alone, and sends nothing.
    let found = unsafe { libc::syscall(libc::SYS_tgkill, PROCESS.load(Ordering::Relaxed), thread, 0) };
    found != 0 && std::io::Error::last_os_error().raw_os_error() == Some(libc::ESRCH)
}

/// This thread's number.
fn own_number() -> i32 {
    // SAFETY: the call takes nothing, and cannot fail.
    unsafe { libc::gettid() }
}
