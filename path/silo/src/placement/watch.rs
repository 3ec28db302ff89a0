//! Where silos' pages are, looked at now and then beside the packet path.

use super::{FarPages, Placement, PlacementError, Scope, bring, merged};
use core::ops::Range;
use core::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use core::time::Duration;
use cpu::thread_time;
use std::io;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use wire::Time;

/// How often a silo's pages are looked at, at most.
pub const LOOK_EVERY: Duration = Duration::from_secs(2);

/// The looking takes at most this part of a core's time, by what it used of
/// it: a silo with gigabytes is looked at less often, and one on a busy
/// machine as often as ever.
const SHARE: u32 = 100;

/// Pages of frames that one look asks about, at most: a gigabyte's. A peer says
/// how much memory it shares; of more than that, some pages stand for all.
const FRAME_PAGES: usize = 1 << 18;

/// The thread that looks, for all silos. It ends with the last [`Watch`].
#[derive(Debug)]
pub struct Inspector {
    jobs: SyncSender<Job>,
}

/// One silo's end of it.
#[derive(Debug)]
pub struct Watch {
    jobs: SyncSender<Job>,
    seen: Arc<Seen>,
    next: Time,
    /// [`Seen::looks`] when the far pages were taken last.
    taken: u64,
}

/// How many of a silo's pages are where, when last looked at.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Pages {
    /// In its own domain.
    pub local: u64,
    /// In others.
    pub remote: u64,
    /// Reserved and not touched yet: nowhere.
    pub absent: u64,
    /// Times looked at.
    pub looks: u64,
}

#[derive(Debug)]
struct Job {
    /// What frames lie in.
    frames: Vec<Range<usize>>,
    /// What else is the silo's.
    ranges: Vec<Range<usize>>,
    seen: Arc<Seen>,
}

#[derive(Debug)]
struct Seen {
    domain: u16,
    /// What of the silo's own is elsewhere is moved.
    brings: bool,
    /// A look was asked for and is not finished.
    under_way: AtomicBool,
    /// It need not be.
    called_off: AtomicBool,
    local: AtomicU64,
    remote: AtomicU64,
    absent: AtomicU64,
    looks: AtomicU64,
    /// What the last look took of a core.
    took_ns: AtomicU64,
    /// Which pages that frames lie in are elsewhere.
    far: Mutex<Arc<FarPages>>,
}

impl Inspector {
    /// Starts the thread, for so many silos. It runs where the caller may:
    /// make it before pinning.
    ///
    /// # Errors
    /// If there can be no more threads.
    pub fn start(silos: usize) -> io::Result<Self> {
        // A silo has one job at most, so there is always room.
        let (jobs, taken) = sync_channel(silos.max(1));
        thread::Builder::new().name("placement".to_owned()).spawn(move || inspect(&taken))?;
        Ok(Self { jobs })
    }

    /// The end of a silo in `domain`. If it `brings`, what of the silo's own
    /// memory is found elsewhere is moved there, but for what frames lie in:
    /// pieces of the heap may be of threads that ended before, with pages that
    /// were touched on another core.
    #[must_use]
    pub fn watch(&self, domain: u16, brings: bool) -> Watch {
        let seen = Seen {
            domain,
            brings,
            under_way: AtomicBool::new(false),
            called_off: AtomicBool::new(false),
            local: AtomicU64::new(0),
            remote: AtomicU64::new(0),
            absent: AtomicU64::new(0),
            looks: AtomicU64::new(0),
            took_ns: AtomicU64::new(0),
            far: Mutex::default(),
        };
        Watch { jobs: self.jobs.clone(), seen: Arc::new(seen), next: Time::ZERO, taken: 0 }
    }
}

impl Watch {
    /// Whether it is time for a look: a comparison.
    #[inline]
    #[must_use]
    pub fn is_due(&self, now: Time) -> bool {
        now >= self.next
    }

    /// Has the ranges that are told looked at: those that frames lie in by
    /// `frames`, and by `others` what else is the silo's. Allocates a list of
    /// them: for beside the packet path. Does nothing while a look is under
    /// way.
    pub fn look(
        &mut self,
        now: Time,
        frames: impl FnOnce(&mut dyn FnMut(Range<usize>)),
        others: impl FnOnce(&mut dyn FnMut(Range<usize>)),
    ) {
        let took = Duration::from_nanos(self.seen.took_ns.load(Ordering::Relaxed));
        self.next = now + LOOK_EVERY.max(took.saturating_mul(SHARE));
        if self.seen.under_way.swap(true, Ordering::Acquire) {
            return;
        }
        self.seen.called_off.store(false, Ordering::Relaxed);
        let (mut of_frames, mut ranges) = (Vec::new(), Vec::new());
        frames(&mut |range| of_frames.push(range));
        others(&mut |range| ranges.push(range));
        let job = Job { frames: merged(of_frames), ranges: merged(ranges), seen: Arc::clone(&self.seen) };
        if self.jobs.try_send(job).is_err() {
            self.seen.under_way.store(false, Ordering::Release);
        }
    }

    /// Ends a look that is under way, if any: the memory that it was asked
    /// about is gone, with a link's peer.
    pub fn call_off(&self) {
        self.seen.called_off.store(true, Ordering::Relaxed);
    }

    /// Which pages that frames lie in are elsewhere, if that was looked at
    /// since it was last asked for. Waits for nothing.
    pub fn far(&mut self) -> Option<Arc<FarPages>> {
        let looks = self.seen.looks.load(Ordering::Acquire);
        if looks == self.taken {
            return None;
        }
        let far = self.seen.far.try_lock().ok()?;
        self.taken = looks;
        Some(Arc::clone(&far))
    }

    /// What was seen last.
    #[must_use]
    pub fn pages(&self) -> Pages {
        let load = |value: &AtomicU64| value.load(Ordering::Relaxed);
        let Seen { local, remote, absent, looks, .. } = &*self.seen;
        Pages { local: load(local), remote: load(remote), absent: load(absent), looks: load(looks) }
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.call_off();
    }
}

/// Where a silo's own memory is, once what can be is at home; `None` if the
/// look was called off.
fn own(seen: &Seen, ranges: Vec<Range<usize>>) -> Result<Option<Placement>, PlacementError> {
    let scope = Scope { pages: usize::MAX, called_off: &seen.called_off };
    let Some((far, placement)) = FarPages::beyond(seen.domain, &ranges, scope)? else { return Ok(None) };
    if !seen.brings || far.is_empty() {
        return Ok(Some(placement));
    }
    // What cannot be moved is counted as it is.
    let _ = bring(&far, seen.domain);
    Placement::of(ranges).map(Some)
}

/// Where all is, and what frames lie in elsewhere; `None` if the look was
/// called off.
fn everywhere(
    seen: &Seen,
    frames: &[Range<usize>],
    ranges: Vec<Range<usize>>,
) -> Result<Option<(FarPages, Placement)>, PlacementError> {
    let scope = Scope { pages: FRAME_PAGES, called_off: &seen.called_off };
    let Some((far, mut placement)) = FarPages::beyond(seen.domain, frames, scope)? else { return Ok(None) };
    let Some(others) = own(seen, ranges)? else { return Ok(None) };
    placement.add(&others);
    Ok(Some((far, placement)))
}

fn inspect(jobs: &Receiver<Job>) {
    while let Ok(Job { frames, ranges, seen }) = jobs.recv() {
        let started = thread_time();
        // Where the kernel does not tell, nothing was seen: `looks` shows it.
        if let Ok(Some((far, placement))) = everywhere(&seen, &frames, ranges) {
            seen.local.store(placement.within(seen.domain), Ordering::Relaxed);
            seen.remote.store(placement.outside(seen.domain), Ordering::Relaxed);
            seen.absent.store(placement.absent(), Ordering::Relaxed);
            *seen.far.lock().unwrap_or_else(PoisonError::into_inner) = Arc::new(far);
            seen.looks.fetch_add(1, Ordering::Release);
        }
        seen.took_ns.store(thread_time().since(started).as_nanos() as u64, Ordering::Relaxed);
        seen.under_way.store(false, Ordering::Release);
    }
}
