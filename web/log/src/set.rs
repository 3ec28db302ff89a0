//! Any number of logs with one writer: the silo's end.

use crate::record::{HEAD, Record};
use crate::targets::{OpenLogs, Writing};
use crate::{BUFFER_FULL, Error, FLUSH_AFTER, LINE_MAX};
use core::sync::atomic::Ordering;
use rtrb::{Consumer, Producer, RingBuffer};
use semantics::date::HttpDate;
use std::sync::Arc;
use std::thread::JoinHandle;
use wire::Time;

/// One silo's end of [`OpenLogs`]: lines are gathered in a buffer, whichever log
/// they are for, and written by one thread.
#[derive(Debug)]
pub struct LogSet {
    logs: Arc<OpenLogs>,
    buffer: Vec<u8>,
    /// Where the record begins that may get more lines, and its log.
    record: Option<(usize, u16)>,
    lines: u64,
    /// When the oldest line in `buffer` came.
    since: Time,
    /// The time in lines to a syslog server.
    time: [u8; 15],
    full: Producer<Vec<u8>>,
    empty: Consumer<Vec<u8>>,
    drops: u64,
    writing: Arc<Writing>,
    handle: Option<JoinHandle<()>>,
}

impl LogSet {
    /// Lines to `logs`, of which at most `bytes` wait for the writer, whose thread
    /// is started on `cpus`.
    ///
    /// # Errors
    /// See [`Error`].
    pub fn start(logs: &Arc<OpenLogs>, bytes: usize, cpus: &[usize]) -> Result<Self, Error> {
        let buffers = (bytes / (BUFFER_FULL + LINE_MAX)).max(2);
        let (full, full_out) = RingBuffer::new(buffers);
        let (mut empty_in, empty) = RingBuffer::new(buffers);
        for _ in 1..buffers {
            // The ring has a place for each buffer.
            let _ = empty_in.push(Vec::with_capacity(BUFFER_FULL + LINE_MAX));
        }
        let writing = Arc::new(Writing::default());
        let (theirs, shared) = (Arc::clone(&writing), Arc::clone(logs));
        let handle = helper::spawn("access-log", cpus, move || shared.write(full_out, empty_in, &theirs))
            .map_err(Error::Helper)?;
        Ok(Self {
            logs: Arc::clone(logs),
            buffer: Vec::with_capacity(BUFFER_FULL + LINE_MAX),
            record: None,
            lines: 0,
            since: Time::ZERO,
            time: *b"Jan  1 00:00:00",
            full,
            empty,
            drops: 0,
            writing,
            handle: Some(handle),
        })
    }

    /// A new second began: `date` is local time, as if it were that of Greenwich.
    pub fn set_time(&mut self, date: &HttpDate) {
        // From `Sun, 06 Nov 1994 08:49:37 GMT`, as RFC 3164 section 4.1.2 has it.
        let date = date.as_bytes();
        self.time[..3].copy_from_slice(&date[8..11]);
        self.time[4..6].copy_from_slice(&date[5..7]);
        if self.time[4] == b'0' {
            self.time[4] = b' ';
        }
        self.time[7..].copy_from_slice(&date[17..25]);
    }

    /// Logs a line, which `write` writes without its end: to the log at this place
    /// of those that were opened.
    #[inline]
    pub fn line(&mut self, log: u16, now: Time, write: impl FnOnce(&mut Vec<u8>)) {
        if !self.has_room(now) {
            return;
        }
        if self.record.is_none_or(|(_, of)| of != log) {
            self.begin(log, b"", b"");
        }
        if let Some(head) = self.logs.syslog_head(log) {
            head.write(&self.time, &mut self.buffer);
            write(&mut self.buffer);
            // The next line is another datagram.
            self.end();
        } else {
            write(&mut self.buffer);
            self.buffer.push(b'\n');
        }
        self.lines += 1;
    }

    /// Logs a line to the file at `path`, which its request decides, if the folder
    /// `root` is there: so that no client can make files by names of hosts that
    /// do not exist. An empty `root` is not looked at.
    pub fn named_line(&mut self, log: u16, path: &[u8], root: &[u8], now: Time, write: impl FnOnce(&mut Vec<u8>)) {
        if !self.has_room(now) {
            return;
        }
        self.begin(log, path, root);
        write(&mut self.buffer);
        self.buffer.push(b'\n');
        self.end();
        self.lines += 1;
    }

    /// Once per turn: hands lines over when there are enough or they are old.
    /// Returns when it wants to be called again.
    #[inline]
    pub fn on_turn(&mut self, now: Time) -> Option<Time> {
        if self.buffer.is_empty() {
            return None;
        }
        let due = self.since + FLUSH_AFTER;
        if self.buffer.len() < BUFFER_FULL && now < due {
            return Some(due);
        }
        if self.hand_over() { None } else { Some(now + FLUSH_AFTER) }
    }

    /// Lines lost so far.
    #[must_use]
    pub fn drops(&self) -> u64 {
        self.drops + self.writing.drops.load(Ordering::Relaxed)
    }

    /// Opens files again, at the writer's next look: for log rotation. One silo is
    /// enough.
    pub fn reopen(&self) {
        self.logs.ask_reopen();
        self.wake();
    }

    fn begin(&mut self, log: u16, path: &[u8], root: &[u8]) {
        self.end();
        self.record = Some((self.buffer.len(), log));
        Record::begin(&mut self.buffer, log, path, root);
    }

    fn end(&mut self) {
        if let Some((at, _)) = self.record.take() {
            Record::end(&mut self.buffer, at);
        }
    }

    #[inline]
    fn has_room(&mut self, now: Time) -> bool {
        if self.buffer.is_empty() {
            self.since = now;
        }
        if self.buffer.len() <= BUFFER_FULL || self.hand_over() {
            return true;
        }
        self.drops += 1;
        false
    }

    fn hand_over(&mut self) -> bool {
        // A buffer to go on with comes back with each one written, so none
        // is ever allocated, and none missing means that the ring has a place.
        let Ok(next) = self.empty.pop() else { return false };
        self.end();
        let bytes = core::mem::replace(&mut self.buffer, next);
        let lines = core::mem::take(&mut self.lines);
        if self.full.push(bytes).is_err() {
            self.drops += lines;
        }
        self.wake();
        true
    }

    fn wake(&self) {
        if let Some(handle) = &self.handle {
            handle.thread().unpark();
        }
    }
}

impl Drop for LogSet {
    fn drop(&mut self) {
        // As with one log: see `Log`.
        self.writing.hurry.store(true, Ordering::Release);
        while !self.buffer.is_empty() && !self.hand_over() && self.handle.as_ref().is_some_and(|h| !h.is_finished()) {
            std::thread::sleep(core::time::Duration::from_millis(1));
        }
        self.writing.stop.store(true, Ordering::Release);
        self.wake();
        if let Some(handle) = self.handle.take() {
            // A panic there was reported there.
            let _ = handle.join();
        }
    }
}

const _: () = assert!(HEAD < LINE_MAX, "a buffer that has room for a line has room for its record's head");

#[cfg(test)]
mod tests;
