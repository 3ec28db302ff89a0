//! Errands: what another thread has the worker do, and waits for. A program that sends files by threads
//! of its own (nginx's `aio threads`) so keeps the slow part, reading, in them.

use super::{SeatedWorker, have_ended, refuse};
use crate::afar::Afar;
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
    if super::has_left_by_now() {
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
