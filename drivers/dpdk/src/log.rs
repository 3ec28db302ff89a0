//! What DPDK says: kept for the message of an error while something is
//! opened, and shown as messages of ours otherwise.

use core::ffi::c_char;
use std::sync::{Mutex, PoisonError};

/// RTE_LOG_WARNING: what is less urgent is not shown while running.
const WARNING: u32 = 5;

/// Lines kept for an error. DPDK says more when it tries several drivers; the
/// last lines tell what went wrong.
const KEPT_LINES: usize = 64;

/// Lines shown while running. Drivers may complain of every frame.
const SHOWN_LINES: usize = 100;

static SINK: Mutex<Sink> = Mutex::new(Sink { kept: None, partial: String::new(), shown: 0 });

struct Sink {
    /// Lines and their levels, while something is opened.
    kept: Option<Vec<(u32, String)>>,
    partial: String,
    shown: usize,
}

impl Sink {
    fn line(&mut self, level: u32, line: &str) {
        let line = line.trim_end();
        if line.is_empty() {
            return;
        }
        match &mut self.kept {
            Some(kept) => {
                if kept.len() == KEPT_LINES {
                    kept.remove(0);
                }
                kept.push((level, line.to_owned()));
            }
            None if level <= WARNING && self.shown < SHOWN_LINES => {
                self.shown += 1;
                eprintln!("dpdk: {line}");
                if self.shown == SHOWN_LINES {
                    eprintln!("dpdk: what it says from here on is not shown");
                }
            }
            None => {}
        }
    }
}

/// Takes what DPDK writes, from any of its threads.
pub(crate) extern "C" fn take(level: u32, text: *const c_char, len: usize) {
    // SAFETY: the shim passes what its stream was given: `len` bytes.
    let bytes = unsafe { core::slice::from_raw_parts(text.cast::<u8>(), len) };
    let mut sink = SINK.lock().unwrap_or_else(PoisonError::into_inner);
    let text = core::mem::take(&mut sink.partial) + &String::from_utf8_lossy(bytes);
    let mut lines = text.split('\n');
    // Behind the last line end is a line that is not finished.
    let rest = lines.next_back().unwrap_or_default();
    lines.for_each(|line| sink.line(level, line));
    rest.clone_into(&mut sink.partial);
}

/// Runs `work` and returns with its result what DPDK said meanwhile, warnings
/// and errors only if there are any.
pub(crate) fn kept<T>(work: impl FnOnce() -> T) -> (T, Vec<String>) {
    lock(|sink| sink.kept = Some(Vec::new()));
    let result = work();
    let lines = lock(|sink| sink.kept.take()).unwrap_or_default();
    let urgent = lines.iter().any(|(level, _)| *level <= WARNING);
    let wanted = lines.into_iter().filter(|(level, _)| !urgent || *level <= WARNING);
    (result, wanted.map(|(_, line)| line).collect())
}

fn lock<T>(f: impl FnOnce(&mut Sink) -> T) -> T {
    f(&mut SINK.lock().unwrap_or_else(PoisonError::into_inner))
}
