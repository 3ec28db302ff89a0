//! Any number of logs with one writer: the silo's end.

use crate::handing::Handing;
use crate::record::{HEAD, Record};
use crate::syslog::time_of;
use crate::targets::OpenLogs;
use crate::{Error, LINE_MAX};
use semantics::date::HttpDate;
use std::sync::Arc;
use wire::Time;

/// One silo's end of [`OpenLogs`]: lines are gathered in a buffer, whichever log
/// they are for, and written by one thread.
#[derive(Debug)]
pub struct LogSet {
    logs: Arc<OpenLogs>,
    handing: Handing,
    /// Where the record begins that may get more lines, and its log.
    record: Option<(usize, u16)>,
    /// The time in lines to a syslog server.
    time: [u8; 15],
}

impl LogSet {
    /// Lines to `logs`, of which at most `bytes` wait for the writer, whose thread
    /// is started on `cpus`.
    ///
    /// # Errors
    /// See [`Error`].
    pub fn start(logs: &Arc<OpenLogs>, bytes: usize, cpus: &[usize]) -> Result<Self, Error> {
        let shared = Arc::clone(logs);
        let handing = Handing::start(bytes, cpus, move |full, empty, writing| shared.write(full, empty, writing))?;
        Ok(Self { logs: Arc::clone(logs), handing, record: None, time: *b"Jan  1 00:00:00" })
    }

    /// A new second began: `date` is local time, as if it were that of Greenwich.
    pub fn set_time(&mut self, date: &HttpDate) {
        self.time = time_of(date);
    }

    /// Logs a line, which `write` writes without its end: to the log at this place
    /// of those that were opened.
    #[inline]
    pub fn line(&mut self, log: u16, now: Time, write: impl FnOnce(&mut Vec<u8>)) {
        self.any_line(log, None, now, write);
    }

    /// As [`LogSet::line`], a line that a syslog server is told as severe as this (RFC 3164
    /// section 4.1.1).
    pub fn severe_line(&mut self, log: u16, severity: u8, now: Time, write: impl FnOnce(&mut Vec<u8>)) {
        self.any_line(log, Some(severity), now, write);
    }

    #[inline]
    fn any_line(&mut self, log: u16, severity: Option<u8>, now: Time, write: impl FnOnce(&mut Vec<u8>)) {
        if !self.has_room(now) {
            return;
        }
        if self.record.is_none_or(|(_, of)| of != log) {
            self.begin(log, b"", b"");
        }
        if let Some(head) = self.logs.syslog_head(log) {
            head.write(severity, &self.time, &mut self.handing.buffer);
            write(&mut self.handing.buffer);
            // The next line is another datagram.
            self.end();
        } else {
            write(&mut self.handing.buffer);
            self.handing.buffer.push(b'\n');
        }
        self.handing.lines += 1;
    }

    /// Logs a line to the file at `path`, which its request decides, if the folder
    /// `root` is there: so that no client can make files by names of hosts that
    /// do not exist. An empty `root` is not looked at.
    pub fn named_line(&mut self, log: u16, path: &[u8], root: &[u8], now: Time, write: impl FnOnce(&mut Vec<u8>)) {
        if !self.has_room(now) {
            return;
        }
        self.begin(log, path, root);
        write(&mut self.handing.buffer);
        self.handing.buffer.push(b'\n');
        self.end();
        self.handing.lines += 1;
    }

    /// Once per turn: hands lines over when there are enough or they are old.
    /// Returns when it wants to be called again.
    #[inline]
    pub fn on_turn(&mut self, now: Time) -> Option<Time> {
        let Self { handing, record, .. } = self;
        handing.on_turn(now, |buffer| end(record, buffer))
    }

    /// Lines lost so far.
    #[must_use]
    pub fn drops(&self) -> u64 {
        self.handing.drops()
    }

    /// Opens files again, at the writer's next look: for log rotation. One silo is
    /// enough.
    pub fn reopen(&self) {
        self.logs.ask_reopen();
        self.handing.wake();
    }

    fn begin(&mut self, log: u16, path: &[u8], root: &[u8]) {
        self.end();
        self.record = Some((self.handing.buffer.len(), log));
        Record::begin(&mut self.handing.buffer, log, path, root);
    }

    fn end(&mut self) {
        end(&mut self.record, &mut self.handing.buffer);
    }

    #[inline]
    fn has_room(&mut self, now: Time) -> bool {
        let Self { handing, record, .. } = self;
        handing.has_room(now, |buffer| end(record, buffer))
    }
}

impl Drop for LogSet {
    fn drop(&mut self) {
        // The rest of the end is that of `handing`.
        self.end();
    }
}

fn end(record: &mut Option<(usize, u16)>, buffer: &mut [u8]) {
    if let Some((at, _)) = record.take() {
        Record::end(buffer, at);
    }
}

const _: () = assert!(HEAD < LINE_MAX, "a buffer that has room for a line has room for its record's head");

#[cfg(test)]
mod tests;
