//! How lines get from a silo to the thread that writes them: by the buffer, over
//! a bounded ring, with a ring of empty ones back.

use crate::{BUFFER_FULL, Error, FLUSH_AFTER, LINE_MAX};
use core::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use core::time::Duration;
use rtrb::{Consumer, Producer, RingBuffer};
use std::sync::Arc;
use std::thread::JoinHandle;
use wire::Time;

/// Lines handed over, and how many they are.
#[derive(Debug)]
pub(crate) struct Buffer {
    pub bytes: Vec<u8>,
    pub lines: u64,
}

/// What a silo and its writer share.
#[derive(Debug, Default)]
pub(crate) struct Writing {
    pub drops: AtomicU64,
    /// The end is near: nobody who does not read is waited for.
    pub hurry: AtomicBool,
    pub stop: AtomicBool,
}

/// As many buffers go round where the writer keeps up: few, so that they stay in the
/// processor's caches.
const USUAL: usize = 16;

/// Where a buffer goes that was written: back, unless there are more than usual.
pub(crate) fn give_back(empty: &mut Producer<Vec<u8>>, mut buffer: Vec<u8>) {
    buffer.clear();
    if empty.buffer().capacity() - empty.slots() < USUAL {
        // One that has no place goes, too.
        let _ = empty.push(buffer);
    }
}

/// The silo's end. Who owns it may have something to `close` in a buffer before it
/// goes.
#[derive(Debug)]
pub(crate) struct Handing {
    pub buffer: Vec<u8>,
    /// Lines in `buffer`.
    pub lines: u64,
    /// When the oldest line in `buffer` came.
    since: Time,
    full: Producer<Buffer>,
    pub empty: Consumer<Vec<u8>>,
    drops: u64,
    pub writing: Arc<Writing>,
    handle: Option<JoinHandle<()>>,
}

impl Handing {
    /// At most `bytes` wait for `writer`, whose thread is started on `cpus`.
    pub fn start(
        bytes: usize,
        cpus: &[usize],
        writer: impl FnOnce(Consumer<Buffer>, Producer<Vec<u8>>, &Writing) + Send + 'static,
    ) -> Result<Self, Error> {
        let buffers = (bytes / (BUFFER_FULL + LINE_MAX)).max(2);
        let (full, full_out) = RingBuffer::new(buffers);
        let (mut empty_in, empty) = RingBuffer::new(buffers);
        for _ in 1..buffers.min(USUAL) {
            let fits = empty_in.push(Vec::with_capacity(BUFFER_FULL + LINE_MAX)).is_ok();
            debug_assert!(fits, "the ring has a place for each buffer");
        }
        let writing = Arc::new(Writing::default());
        let theirs = Arc::clone(&writing);
        let handle =
            helper::spawn("access-log", cpus, move || writer(full_out, empty_in, &theirs)).map_err(Error::Helper)?;
        Ok(Self {
            buffer: Vec::with_capacity(BUFFER_FULL + LINE_MAX),
            lines: 0,
            since: Time::ZERO,
            full,
            empty,
            drops: 0,
            writing,
            handle: Some(handle),
        })
    }

    /// Whether `buffer` can take another line; one that cannot be taken is counted.
    #[inline]
    pub fn has_room(&mut self, now: Time, close: impl FnOnce(&mut Vec<u8>)) -> bool {
        if self.buffer.is_empty() {
            self.since = now;
        }
        if self.buffer.len() <= BUFFER_FULL || self.hand_over(close) {
            return true;
        }
        self.drops += 1;
        lost(1, false);
        false
    }

    /// Once per turn: hands lines over when there are enough or they are old.
    /// Returns when it wants to be called again.
    #[inline]
    pub fn on_turn(&mut self, now: Time, close: impl FnOnce(&mut Vec<u8>)) -> Option<Time> {
        if self.buffer.is_empty() {
            return None;
        }
        let due = self.since + FLUSH_AFTER;
        if self.buffer.len() < BUFFER_FULL && now < due {
            return Some(due);
        }
        if self.hand_over(close) { None } else { Some(now + FLUSH_AFTER) }
    }

    /// Lines lost so far.
    pub fn drops(&self) -> u64 {
        self.drops + self.writing.drops.load(Ordering::Relaxed)
    }

    pub fn wake(&self) {
        if let Some(handle) = &self.handle {
            handle.thread().unpark();
        }
    }

    fn hand_over(&mut self, close: impl FnOnce(&mut Vec<u8>)) -> bool {
        // A buffer to go on with comes back with each one written. One is made where
        // the writer is behind, as while others have its core.
        let next = match self.empty.pop() {
            Ok(next) => next,
            Err(_) if self.full.slots() > 0 => Vec::with_capacity(BUFFER_FULL + LINE_MAX),
            Err(_) => return false,
        };
        close(&mut self.buffer);
        let bytes = core::mem::replace(&mut self.buffer, next);
        let lines = core::mem::take(&mut self.lines);
        if self.full.push(Buffer { bytes, lines }).is_err() {
            self.drops += lines;
            lost(lines, false);
        }
        self.wake();
        true
    }
}

impl Writing {
    /// So many lines could not be written.
    pub fn lose(&self, lines: u64) {
        self.drops.fetch_add(lines, Ordering::Relaxed);
        lost(lines, true);
    }
}

fn lost(lines: u64, unwritten: bool) {
    if probes::log_lost::is_traced() {
        probes::log_lost::fire(lines, unwritten.into());
    }
}

impl Drop for Handing {
    fn drop(&mut self) {
        // A writer that is behind is waited for, here as in the join below: one
        // whose reader has stopped is told to give up first.
        self.writing.hurry.store(true, Ordering::Release);
        while !self.buffer.is_empty()
            && !self.hand_over(|_| ())
            && self.handle.as_ref().is_some_and(|handle| !handle.is_finished())
        {
            std::thread::sleep(Duration::from_millis(1));
        }
        self.writing.stop.store(true, Ordering::Release);
        self.wake();
        if let Some(handle) = self.handle.take() {
            // A panic there was reported there.
            let _ = handle.join();
        }
    }
}
