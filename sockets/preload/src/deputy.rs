//! The deputy: a thread that takes the worker's turns while the program is away, computing, or
//! waiting for what is not ours.
//!
//! Without it nothing would be acknowledged, sent again, or accepted meanwhile, and what was written
//! amid many events would lie there. A timer's signal could not do that: its handler may come amid
//! malloc(3), which a turn calls where it needs more, and it would end sleeps that the program takes
//! for whole ones.
//!
//! The program's thread pays for it with two comparisons for each call. It writes that it is amid one
//! ([`BUSY`]) and reads whether the deputy is amid turns ([`AT_WORK`]); the deputy does both the other
//! way round, with membarrier(2) between, which stands for the barrier that the thread leaves out. So
//! one of both sees the other: the deputy then desists, and the thread waits, at most for some turns.
//!
//! While the thread sleeps in a call of ours the deputy is parked, and costs nothing. While it takes
//! its turns the deputy looks each [`TICK`]; once none has been taken for [`AWAY`], it takes over, and
//! sleeps until a frame comes, a timer of the stack is due, or the thread begins a call: what that
//! queues, and leaves to go away again, is the deputy's to send a tick later.

use crate::kernel::{self, call};
use crate::marks::{Mark, set_mark};
use crate::waited::readable;
use core::ffi::c_int;
use core::ptr;
use core::sync::atomic::{AtomicBool, AtomicI32, AtomicU32, AtomicU64, Ordering, compiler_fence};
use core::time::Duration;
use cpu::Clock;
use std::io;
use std::thread::Builder;
use wire::Time;

/// The worker's thread is amid a call of ours.
static BUSY: AtomicBool = AtomicBool::new(false);
/// The deputy's: nobody is amid turns, it is, it is and the worker's thread waits for it, or it
/// sleeps between turns.
static AT_WORK: AtomicU32 = AtomicU32::new(IDLE);
/// What wakes it from that sleep.
static BELL: AtomicI32 = AtomicI32::new(-1);
/// Until when it slept so: the link was watched until then, in the clock's nanoseconds.
static WATCHED: AtomicU64 = AtomicU64::new(0);
/// When the worker's thread took its last turn, in the clock's nanoseconds.
static LAST_TURN: AtomicU64 = AtomicU64::new(0);
/// The worker's thread is amid fork(2), and no other call.
static FORKS: AtomicBool = AtomicBool::new(false);
/// The worker's thread sleeps in a call of ours.
static ASLEEP: AtomicBool = AtomicBool::new(false);
/// The deputy waits until it does not.
static PARKED: AtomicU32 = AtomicU32::new(0);

const IDLE: u32 = 0;
const WORKS: u32 = 1;
const AWAITED: u32 = 2;
const RESTS: u32 = 3;

/// Between two looks at a thread that takes its turns. A program that computes keeps others waiting
/// no longer than this and [`AWAY`]; and 200 looks a second are a thousandth of a core.
const TICK: Duration = Duration::from_millis(5);
/// A thread without a turn for so long is away. Longer than a program computes between two calls
/// that has many clients.
const AWAY: Duration = Duration::from_millis(2);

/// `MEMBARRIER_CMD_PRIVATE_EXPEDITED` and its registration, of linux/membarrier.h.
const BARRIER: i32 = 1 << 3;
const REGISTER: i32 = 1 << 4;

/// Memory of its stack: a turn is shallow, and renewing a link is the deepest it does.
const STACK: usize = 512 * 1024;

/// What ends the deputy's sleep.
#[derive(Debug, Default)]
pub struct Rest {
    pub fds: Vec<libc::pollfd>,
    pub timeout: Duration,
}

/// The worker's thread begins a call. `false`: it is amid one, which a signal's handler interrupted.
#[inline]
pub fn begin_call() -> bool {
    if BUSY.load(Ordering::Relaxed) {
        return false;
    }
    BUSY.store(true, Ordering::Relaxed);
    // The deputy's barrier is this thread's, too: the compiler alone might change the order.
    compiler_fence(Ordering::SeqCst);
    if AT_WORK.load(Ordering::Acquire) != IDLE {
        relieve_deputy();
    }
    true
}

/// Whether the worker's thread is amid a call of ours, so that it has not ended.
pub fn is_amid_call() -> bool {
    BUSY.load(Ordering::Relaxed) || ASLEEP.load(Ordering::Relaxed)
}

/// The call is over.
#[inline]
pub fn end_call() {
    BUSY.store(false, Ordering::Release);
}

/// The worker is no more: the deputy takes no turns from now on.
pub fn retire() {
    // The call does not end.
    begin_call();
}

/// The worker's thread takes a turn.
#[inline]
pub fn note_turn(now: Time) {
    LAST_TURN.store(now.as_nanos(), Ordering::Relaxed);
}

/// The worker's thread goes to sleep in a call of ours.
#[inline]
pub fn begin_sleep() {
    ASLEEP.store(true, Ordering::Relaxed);
}

/// It is awake again.
#[inline]
pub fn end_sleep() {
    ASLEEP.store(false, Ordering::Relaxed);
    compiler_fence(Ordering::SeqCst);
    if PARKED.load(Ordering::Relaxed) != 0 {
        unpark();
    }
}

#[cold]
fn unpark() {
    PARKED.store(0, Ordering::Relaxed);
    wake(&PARKED);
}

/// The worker's thread is back: the deputy's turns are over, or its sleep is.
#[cold]
#[inline(never)]
fn relieve_deputy() {
    loop {
        match AT_WORK.compare_exchange(WORKS, AWAITED, Ordering::Acquire, Ordering::Acquire) {
            Err(IDLE) => return,
            Err(RESTS) => {
                if AT_WORK.compare_exchange(RESTS, IDLE, Ordering::Acquire, Ordering::Relaxed).is_ok() {
                    note_watched();
                    call!(SYS_write, BELL.load(Ordering::Relaxed), &raw const RING, size_of::<u64>());
                    return;
                }
            }
            _ => sleep(&AT_WORK, AWAITED),
        }
    }
}

/// What an eventfd is written.
static RING: u64 = 1;

/// Until now the deputy slept on the link's descriptors: nothing had to wait.
fn note_watched() {
    WATCHED.store(Clock.now().as_nanos(), Ordering::Relaxed);
}

/// Until when it did so last.
#[inline]
pub fn watched_until() -> Time {
    Time::from_nanos(WATCHED.load(Ordering::Relaxed))
}

/// The worker's thread forks: the child is to have a copy of no turn that is half taken.
pub fn begin_fork() {
    if begin_call() {
        FORKS.store(true, Ordering::Relaxed);
    }
}

/// The child is made. One that is made amid a call leaves that to the call.
pub fn end_fork() {
    if FORKS.swap(false, Ordering::Relaxed) {
        end_call();
    }
}

/// This process is a child: it has no deputy, whatever its parent's did.
pub fn forget() {
    FORKS.store(false, Ordering::Relaxed);
    BUSY.store(false, Ordering::Relaxed);
    ASLEEP.store(false, Ordering::Relaxed);
    AT_WORK.store(IDLE, Ordering::Relaxed);
    PARKED.store(0, Ordering::Relaxed);
    // The child closes what is its parent's.
    BELL.store(-1, Ordering::Relaxed);
}

/// Starts the deputy, which calls `attend` to take turns: nobody else has the worker then.
///
/// # Errors
/// Where the kernel has no such barrier, or gives no descriptor or thread.
pub fn start(attend: fn() -> Rest) -> io::Result<()> {
    let failed = || io::Error::from_raw_os_error(kernel::errno());
    if call!(SYS_membarrier, REGISTER, 0, 0) < 0 {
        return Err(failed());
    }
    let bell = call!(SYS_eventfd2, 0, libc::EFD_CLOEXEC | libc::EFD_NONBLOCK) as c_int;
    if bell < 0 {
        return Err(failed());
    }
    set_mark(bell, Mark::Own);
    BELL.store(bell, Ordering::Relaxed);
    let thread = Builder::new().name("near-deputy".to_owned()).stack_size(STACK);
    without_signals(|| thread.spawn(move || watch(attend)))?;
    Ok(())
}

/// Does something amid which no signal is handled: threads that it starts handle none.
pub fn without_signals<T>(act: impl FnOnce() -> T) -> T {
    // SAFETY: zeros are a valid set, which the call fills.
    let mut all: libc::sigset_t = unsafe { core::mem::zeroed() };
    let mut before = all;
    // SAFETY: both sets are locals. The C library leaves out those that it needs itself (setuid(2)).
    unsafe {
        libc::sigfillset(&raw mut all);
        libc::pthread_sigmask(libc::SIG_SETMASK, &raw const all, &raw mut before);
    }
    let outcome = act();
    // SAFETY: the set is what the thread had.
    unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &raw const before, ptr::null_mut()) };
    outcome
}

/// The deputy's thread: it looks, is parked, or takes over.
fn watch(attend: fn() -> Rest) -> ! {
    loop {
        sleep_for(&mut [], TICK);
        if ASLEEP.load(Ordering::Relaxed) {
            park();
        } else {
            while is_away() && take_over(attend) {}
        }
    }
}

/// Until the worker's thread is awake.
fn park() {
    PARKED.store(1, Ordering::Relaxed);
    call!(SYS_membarrier, BARRIER, 0, 0);
    if ASLEEP.load(Ordering::Relaxed) {
        sleep(&PARKED, 1);
    }
    PARKED.store(0, Ordering::Relaxed);
}

fn is_away() -> bool {
    let last = Time::from_nanos(LAST_TURN.load(Ordering::Relaxed));
    !BUSY.load(Ordering::Relaxed) && Clock.now().since(last) >= AWAY
}

/// Takes turns, if the worker's thread is in no call, and sleeps until there is more to do. Whether
/// that thread has made no call meanwhile.
fn take_over(attend: fn() -> Rest) -> bool {
    AT_WORK.store(WORKS, Ordering::Relaxed);
    call!(SYS_membarrier, BARRIER, 0, 0);
    let is_free = !BUSY.load(Ordering::Acquire);
    let pause = if is_free { attend() } else { Rest::default() };
    let next = if is_free { RESTS } else { IDLE };
    if AT_WORK.compare_exchange(WORKS, next, Ordering::Release, Ordering::Relaxed).is_err() {
        AT_WORK.store(IDLE, Ordering::Release);
        wake(&AT_WORK);
        return false;
    }
    is_free && rest(pause)
}

/// Sleeps until there is more to do. Whether the worker's thread has made no call meanwhile, by which
/// it is woken.
fn rest(mut pause: Rest) -> bool {
    let bell = BELL.load(Ordering::Relaxed);
    pause.fds.push(readable(bell));
    sleep_for(&mut pause.fds, pause.timeout);
    if AT_WORK.compare_exchange(RESTS, IDLE, Ordering::Relaxed, Ordering::Relaxed).is_ok() {
        note_watched();
        return true;
    }
    // It rings when it has said so, which is now or soon: at worst the next sleep is none.
    let mut count = 0u64;
    call!(SYS_read, bell, &raw mut count, size_of::<u64>());
    false
}

/// Sleeps until a descriptor is ready, or for so long.
fn sleep_for(fds: &mut [libc::pollfd], timeout: Duration) {
    let time = libc::timespec { tv_sec: timeout.as_secs().cast_signed(), tv_nsec: timeout.subsec_nanos().into() };
    call!(SYS_ppoll, fds.as_mut_ptr(), fds.len(), &raw const time, 0usize, 8usize);
}

/// Sleeps as long as a word is this.
fn sleep(word: &AtomicU32, value: u32) {
    let op = libc::FUTEX_WAIT | libc::FUTEX_PRIVATE_FLAG;
    call!(SYS_futex, word.as_ptr(), op, value, 0usize);
}

/// Whoever sleeps on a word looks again.
fn wake(word: &AtomicU32) {
    call!(SYS_futex, word.as_ptr(), libc::FUTEX_WAKE | libc::FUTEX_PRIVATE_FLAG, 1);
}
