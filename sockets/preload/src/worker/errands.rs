//! What other threads have the worker end, and errands: what they have it do, and wait for. A program that
//! sends files by threads of its own (nginx's `aio threads`) so keeps the slow part, reading, in them.

use super::{HERE, LEFT, SeatedWorker, TAKEN, refuse};
use crate::afar::{self, Afar};
use core::ffi::c_int;
use core::sync::atomic::Ordering;
use posix::{Errno, Result};
use std::sync::mpsc::{SyncSender, sync_channel};
use std::sync::{Mutex, PoisonError};

type Errand = Box<dyn FnOnce(&mut SeatedWorker) + Send>;

static ERRANDS: Mutex<Vec<Errand>> = Mutex::new(Vec::new());

/// Has the worker of another thread do something at its next turn, which is at once or its deputy's, and
/// waits for that. `call` is the program's.
///
/// # Errors
/// As what is done, as [`refuse`] where there is no such worker, and `EBADF` where it leaves first.
pub fn have_done<T: Send + 'static>(
    call: &'static str,
    act: impl FnOnce(&mut SeatedWorker) -> Result<T> + Send + 'static,
) -> Result<T> {
    let (tell, told): (SyncSender<Result<T>>, _) = sync_channel(1);
    // Who asked waits below, and there is room for one.
    put(Box::new(move |worker| _ = tell.send(act(worker))));
    if !have_ended(Afar::Errands) {
        // There is none, or it has left: it may have done that behind what was put.
        drop_all();
        return told.try_recv().unwrap_or_else(|_| Err(refuse(call)));
    }
    if LEFT.load(Ordering::SeqCst) {
        drop_all();
    }
    told.recv().unwrap_or(Err(Errno(libc::EBADF)))
}

fn put(errand: Errand) {
    ERRANDS.lock().unwrap_or_else(PoisonError::into_inner).push(errand);
}

/// The worker does them.
pub(super) fn run(worker: &mut SeatedWorker) {
    let errands = core::mem::take(&mut *ERRANDS.lock().unwrap_or_else(PoisonError::into_inner));
    for errand in errands {
        errand(worker);
    }
}

/// Nobody does them: who waits hears that.
pub(super) fn drop_all() {
    drop(core::mem::take(&mut *ERRANDS.lock().unwrap_or_else(PoisonError::into_inner)));
}

/// Has the worker, if another thread of this process has it, end or do something. Whether it will.
fn have_ended(what: Afar) -> bool {
    let is_anothers = is_anothers();
    if is_anothers {
        afar::ask(what);
    }
    is_anothers
}

/// Whether another thread of this process has the worker.
pub fn is_anothers() -> bool {
    !HERE.get() && TAKEN.load(Ordering::Acquire) && !LEFT.load(Ordering::Relaxed)
}

/// Another thread than the worker's closes a descriptor of a connection or listener. Whether the worker
/// closes it, soon, in its place.
pub fn close_from_afar(fd: c_int) -> bool {
    have_ended(Afar::Descriptor(fd))
}

/// Another thread than the worker's has given a descriptor's number to something else.
pub fn end_from_afar(fd: c_int) {
    have_ended(Afar::Number(fd));
}

/// Another thread than the worker's would accept a connection, and cannot have it: its client is not to
/// wait for nothing.
pub fn reset_from_afar(listener: c_int) {
    have_ended(Afar::FirstWaiting(listener));
}
