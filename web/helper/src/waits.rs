//! Paths that are asked for on a control path: at a start, a reload, a test. A disk may hang there, or a server of
//! files be away; whoever waits is told then which path it is.

use core::time::Duration;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle, ThreadId};
use std::time::Instant;

/// A path that is not answered for in this time is told of.
pub const PATIENCE: Duration = Duration::from_secs(2);

/// How often a watch looks.
const LOOK: Duration = Duration::from_millis(250);

/// What is asked for now, by all threads.
static ASKED: Mutex<Vec<Asked>> = Mutex::new(Vec::new());

#[derive(Debug)]
struct Asked {
    number: u64,
    path: PathBuf,
    since: Instant,
    by: ThreadId,
}

/// A path is asked for until this is dropped.
#[derive(Debug)]
#[must_use = "a path is asked for until this is dropped"]
pub struct AskedPath(u64);

/// From now on the file system is asked for `path`: opened, looked for, read.
pub fn on(path: &Path) -> AskedPath {
    static NUMBERS: core::sync::atomic::AtomicU64 = core::sync::atomic::AtomicU64::new(0);
    let number = NUMBERS.fetch_add(1, core::sync::atomic::Ordering::Relaxed);
    asked().push(Asked { number, path: path.to_owned(), since: now(), by: thread::current().id() });
    AskedPath(number)
}

impl Drop for AskedPath {
    fn drop(&mut self) {
        asked().retain(|one| one.number != self.0);
    }
}

/// What a watch tells.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Wait {
    /// The path is still asked for, for so long.
    Lasts(Duration),
    /// It was answered for, or given up, after so long.
    Over(Duration),
}

/// Watches until it is dropped.
#[derive(Debug)]
pub struct Watch {
    ends: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

/// Has `tell` hear of each path that is asked for longer than [`PATIENCE`] by any thread, at every look from then on,
/// and of its end. It is called by a thread of its own, and hears nothing where the system has no more threads.
pub fn watch(tell: impl FnMut(&Path, Wait) + Send + 'static) -> Watch {
    start(None, tell)
}

/// As [`watch`], of what the calling thread asks for.
pub fn watch_this_thread(tell: impl FnMut(&Path, Wait) + Send + 'static) -> Watch {
    start(Some(thread::current().id()), tell)
}

fn start(by: Option<ThreadId>, tell: impl FnMut(&Path, Wait) + Send + 'static) -> Watch {
    let (ends, ended) = mpsc::channel();
    let look = move || watch_until(&ended, by, tell);
    let thread = thread::Builder::new().name("waits".to_owned()).spawn(look).ok();
    Watch { ends: Some(ends), thread }
}

fn watch_until(ended: &mpsc::Receiver<()>, by: Option<ThreadId>, mut tell: impl FnMut(&Path, Wait)) {
    let mut late: Vec<(u64, PathBuf, Instant)> = Vec::new();
    while ended.recv_timeout(LOOK) == Err(RecvTimeoutError::Timeout) {
        let now = now();
        let mut still: Vec<(u64, PathBuf, Instant)> = Vec::new();
        for one in asked().iter().filter(|one| by.is_none_or(|by| by == one.by)) {
            if now.duration_since(one.since) >= PATIENCE {
                still.push((one.number, one.path.clone(), one.since));
            }
        }
        for (_, path, since) in late.iter().filter(|(number, ..)| still.iter().all(|(other, ..)| other != number)) {
            tell(path, Wait::Over(now.duration_since(*since)));
        }
        still.iter().for_each(|(_, path, since)| tell(path, Wait::Lasts(now.duration_since(*since))));
        late = still;
    }
    // What was waited for last is over, too: who watched goes on.
    let now = now();
    late.iter().for_each(|(_, path, since)| tell(path, Wait::Over(now.duration_since(*since))));
}

impl Drop for Watch {
    fn drop(&mut self) {
        drop(self.ends.take());
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

/// What is said of a wait, once while it lasts and once at its end: `what` waits.
#[derive(Debug)]
pub struct Story {
    what: String,
    told: Vec<PathBuf>,
}

impl Story {
    /// Of the start, the reload: whatever `what` is called.
    #[must_use]
    pub fn of(what: &str) -> Self {
        Self { what: what.to_owned(), told: Vec::new() }
    }

    /// A sentence, where there is something new to say.
    pub fn next(&mut self, path: &Path, wait: Wait) -> Option<String> {
        let at = self.told.iter().position(|told| told == path);
        match (wait, at) {
            (Wait::Lasts(_), Some(_)) | (Wait::Over(_), None) => None,
            (Wait::Lasts(so_long), None) => {
                self.told.push(path.to_owned());
                let (what, seconds) = (&self.what, so_long.as_secs());
                Some(format!("{what} waits for {}: its file system has not answered for {seconds} s", path.display()))
            }
            (Wait::Over(so_long), Some(at)) => {
                self.told.remove(at);
                let (what, seconds) = (&self.what, so_long.as_secs());
                Some(format!("{what} waits for {} no more, after {seconds} s", path.display()))
            }
        }
    }
}

fn asked() -> MutexGuard<'static, Vec<Asked>> {
    ASKED.lock().unwrap_or_else(PoisonError::into_inner)
}

#[expect(clippy::disallowed_methods, reason = "how long a file system does not answer; no silo asks")]
fn now() -> Instant {
    Instant::now()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_asked_for_long_is_told_once_and_its_end() {
        let path = Path::new("/nonexistent/waited-for");
        let (tell, told) = mpsc::channel();
        let mut story = Story::of("the test");
        let watch = watch_this_thread(move |asked, wait| {
            if let Some(line) = story.next(asked, wait) {
                let _ = tell.send(line);
            }
        });
        drop(on(Path::new("/nonexistent/quick")));
        let asking = on(path);
        let line = told.recv().expect("a line");
        assert!(line.starts_with("the test waits for /nonexistent/waited-for: "), "{line}");
        drop(asking);
        let line = told.recv().expect("a line");
        assert!(line.starts_with("the test waits for /nonexistent/waited-for no more, after "), "{line}");
        drop(watch);
        assert_eq!(told.recv(), Err(mpsc::RecvError));
    }
}
