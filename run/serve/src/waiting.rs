//! Whoever starts, or reloads, says which path it waits for: a disk may hang there, or a server of files be away.

use helper::waits::{Story, Watch, watch, watch_this_thread};
use std::sync::{Mutex, PoisonError};

/// Watches the start.
static START: Mutex<Option<Watch>> = Mutex::new(None);

/// The process starts: until it serves, `tell` hears sentences about paths that are waited for, in place of who heard
/// them before.
pub fn starting(mut tell: impl FnMut(&str) + Send + 'static) {
    let mut story = Story::of("the start");
    let before = start().replace(watch(move |path, wait| _ = story.next(path, wait).map(|line| tell(&line))));
    drop(before);
}

/// As [`starting`], and the log is told, unless somebody is already.
pub fn starting_unless_told() {
    if start().is_none() {
        starting(|line| say::error(line));
    }
}

/// It serves.
pub fn started() {
    let watch = start().take();
    drop(watch);
}

/// The log is told what the calling thread waits for, until this is dropped.
pub fn of(what: &str) -> Watch {
    let mut story = Story::of(what);
    watch_this_thread(move |path, wait| _ = story.next(path, wait).map(say::error))
}

fn start() -> std::sync::MutexGuard<'static, Option<Watch>> {
    START.lock().unwrap_or_else(PoisonError::into_inner)
}
