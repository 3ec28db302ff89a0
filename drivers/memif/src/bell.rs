//! A peer's eventfd, rung without being held by it.
//!
//! The peer has the same file, so that it can clear O_NONBLOCK and fill the
//! counter; write(2) on it then waits for as long as the peer likes, and an
//! eventfd knows no RWF_NOWAIT for writing. Whoever rings therefore notes
//! that it does. A thread beside the packet path, which sleeps where nobody
//! rings, looks at the notes and calls away whoever is still at the same ring
//! at its next look, by a signal. A ring that works costs two stores and the
//! write.

use core::cell::Cell;
use core::sync::atomic::{AtomicBool, AtomicI32, AtomicU32, Ordering};
use core::time::Duration;
use rustix::io::Errno;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, OnceLock, PoisonError, Weak};
use std::thread::Thread;

/// From one look to the next: a ring may take between one and two of them.
pub(crate) const LOOK: Duration = Duration::from_millis(5);

/// Looks without a ring until the thread sleeps: steady rings then wake it
/// once.
const IDLE_LOOKS: u32 = 20;

/// Ignored by default, so that one which comes too late does nothing.
const SIGNAL: libc::c_int = libc::SIGURG;

/// The peer's eventfd made its ringer wait.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Blocked;

/// A peer's eventfd. One thread at a time rings it.
#[derive(Debug)]
pub(crate) struct Bell {
    event: Arc<OwnedFd>,
    note: Arc<Note>,
    watch: Arc<BellWatch>,
}

/// What a ringer says of itself.
#[derive(Debug, Default)]
struct Note {
    /// Counts beginnings and ends of rings: odd while somebody rings.
    count: AtomicU32,
    /// Who.
    thread: AtomicI32,
    /// The ring that took too long.
    late: AtomicU32,
}

impl Bell {
    pub(crate) fn new(event: Arc<OwnedFd>, watch: &Arc<BellWatch>) -> Self {
        let note = Arc::new(Note::default());
        let mut notes = watch.notes.lock().unwrap_or_else(PoisonError::into_inner);
        notes.retain(|(note, _)| note.strong_count() > 0);
        notes.push((Arc::downgrade(&note), 0));
        drop(notes);
        Self { event, note, watch: Arc::clone(watch) }
    }

    /// Wakes the peer, which may take two [`LOOK`]s at most.
    ///
    /// # Errors
    /// If the peer has seen to it that this waits.
    pub(crate) fn ring(&self) -> Result<(), Blocked> {
        let Note { count, thread, late } = &*self.note;
        thread.store(this_thread(), Ordering::Relaxed);
        let begun = count.load(Ordering::Relaxed).wrapping_add(1);
        // Before the look at whether the watch sleeps, which in turn says that
        // it does before its last look at the note.
        count.store(begun, Ordering::SeqCst);
        if self.watch.asleep.load(Ordering::SeqCst) {
            self.watch.wake();
        }
        let outcome = loop {
            match rustix::io::write(&*self.event, &1_u64.to_ne_bytes()) {
                Err(Errno::INTR) if late.load(Ordering::Relaxed) == begun => break Err(Blocked),
                Err(Errno::INTR) => {}
                // It does not wait, and its counter is full: the peer has more than enough to wake up for.
                Ok(_) | Err(_) => break Ok(()),
            }
        };
        count.store(begun.wrapping_add(1), Ordering::Release);
        outcome
    }
}

/// Looks after all the bells of an interface. Its thread ends with it.
#[derive(Debug)]
pub(crate) struct BellWatch {
    /// With each note, what was read there last.
    notes: Mutex<Vec<(Weak<Note>, u32)>>,
    asleep: AtomicBool,
    thread: OnceLock<Thread>,
}

impl BellWatch {
    /// Starts the thread. It runs where the caller may: make it before
    /// pinning.
    pub(crate) fn start() -> io::Result<Arc<Self>> {
        hear()?;
        let this = Arc::new(Self {
            notes: Mutex::default(),
            // Until the thread begins: whoever rings wakes what may not be there yet, and is seen once it is.
            asleep: AtomicBool::new(false),
            thread: OnceLock::new(),
        });
        let weak = Arc::downgrade(&this);
        let thread = std::thread::Builder::new().name("memif-bell".into()).spawn(move || attend(&weak))?;
        let _ = this.thread.set(thread.thread().clone());
        Ok(this)
    }

    #[cold]
    fn wake(&self) {
        self.asleep.store(false, Ordering::SeqCst);
        if let Some(thread) = self.thread.get() {
            thread.unpark();
        }
    }

    /// Looks at all bells once, and calls away whoever has been at the same
    /// ring since the last look. Whether anybody rang meanwhile.
    fn look(&self) -> bool {
        let mut rang = false;
        for (note, seen) in self.notes.lock().unwrap_or_else(PoisonError::into_inner).iter_mut() {
            let Some(note) = note.upgrade() else { continue };
            let count = note.count.load(Ordering::SeqCst);
            rang |= count % 2 == 1 || count != *seen;
            if count % 2 == 1 && count == *seen {
                note.late.store(count, Ordering::Relaxed);
                // A signal that comes before the call is lost: hence again at the next look.
                call_away(note.thread.load(Ordering::Relaxed));
            }
            *seen = count;
        }
        rang
    }
}

impl Drop for BellWatch {
    fn drop(&mut self) {
        self.wake();
    }
}

/// The watch's thread.
fn attend(watch: &Weak<BellWatch>) {
    let mut idle = 0;
    while let Some(this) = watch.upgrade() {
        idle = if this.look() { 0 } else { idle + 1 };
        if idle < IDLE_LOOKS {
            drop(this);
            std::thread::sleep(LOOK);
            continue;
        }
        this.asleep.store(true, Ordering::SeqCst);
        // Against the ringer's look at `asleep`: one of both sees the other.
        if this.look() {
            this.asleep.store(false, Ordering::SeqCst);
            idle = 0;
            continue;
        }
        drop(this);
        std::thread::park();
    }
}

/// The calling thread's id, once it hears the signal.
fn this_thread() -> i32 {
    thread_local!(static ID: Cell<i32> = const { Cell::new(0) });
    ID.with(|id| {
        if id.get() == 0 {
            // SAFETY: an all-zero sigset_t is a valid value, which the next calls fill; they change nothing but this
            // thread's mask, and cannot fail for these arguments.
            id.set(unsafe {
                let mut set: libc::sigset_t = core::mem::zeroed();
                libc::sigemptyset(&raw mut set);
                libc::sigaddset(&raw mut set, SIGNAL);
                libc::pthread_sigmask(libc::SIG_UNBLOCK, &raw const set, core::ptr::null_mut());
                libc::gettid()
            });
        }
        id.get()
    })
}

/// Has this process hear the signal.
fn hear() -> io::Result<()> {
    extern "C" fn heard(_signal: libc::c_int) {}
    // SAFETY: an all-zero sigaction is a valid value; the handler does nothing, so it may run at any time. Without
    // SA_RESTART a call that it interrupts returns (signal(7)).
    let outcome = unsafe {
        let mut action: libc::sigaction = core::mem::zeroed();
        action.sa_sigaction = heard as extern "C" fn(libc::c_int) as usize;
        libc::sigemptyset(&raw mut action.sa_mask);
        libc::sigaction(SIGNAL, &raw const action, core::ptr::null_mut())
    };
    if outcome == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

fn call_away(thread: i32) {
    // SAFETY: takes numbers only. A thread of ours that has ended meanwhile is not found, or another of ours hears
    // what does nothing.
    unsafe { libc::syscall(libc::SYS_tgkill, libc::getpid(), thread, SIGNAL) };
}
