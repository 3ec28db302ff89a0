//! The access log, in nginx's `combined` format:
//!
//! ```text
//! 10.0.0.1 - - [10/Oct/2026:13:55:36 +0000] "GET / HTTP/1.1" 200 2326 "referer" "agent"
//! ```
//!
//! Lines are gathered in a buffer and handed to a writer thread by the buffer,
//! over a bounded ring. A writer that falls behind loses lines, counted; it
//! never holds up the silo.

use crate::config::{AccessLog, ConfigError};
use crate::helper;
use core::net::{IpAddr, SocketAddr};
use core::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use core::time::Duration;
use http::date::HttpDate;
use rtrb::{Consumer, Producer, RingBuffer};
use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::JoinHandle;
use wire::Time;

/// Lines are handed over when this many bytes have gathered…
const BUFFER_FULL: usize = 32 << 10;

/// …or the oldest has waited so long.
const FLUSH_AFTER: Duration = Duration::from_millis(100);

/// Of a request line, referer or agent, at most this much is logged: a line
/// is bounded whatever is sent.
const TEXT_MAX: usize = 2048;

/// The room that a buffer leaves for one more line: three texts, each byte
/// escaped as four, and the rest.
const LINE_MAX: usize = 3 * 4 * TEXT_MAX + 256;

/// What a line says of a request.
#[derive(Clone, Copy, Debug)]
pub struct Line<'a> {
    pub peer: Option<SocketAddr>,
    pub request: &'a [u8],
    pub status: u16,
    pub referer: Option<&'a [u8]>,
    pub agent: Option<&'a [u8]>,
}

/// A line of a response that is still being sent: all but the bytes sent.
#[derive(Debug)]
pub struct OpenLine {
    before: Vec<u8>,
    after: Vec<u8>,
}

/// The silo's end.
#[derive(Debug)]
pub struct Log {
    buffer: Vec<u8>,
    lines: u64,
    /// When the oldest line in `buffer` came.
    since: Time,
    /// `[10/Oct/2026:13:55:36 +0000]`
    time: [u8; 28],
    full: Producer<Buffer>,
    empty: Consumer<Vec<u8>>,
    drops: u64,
    shared: Arc<Shared>,
    handle: Option<JoinHandle<()>>,
}

#[derive(Debug)]
struct Buffer {
    bytes: Vec<u8>,
    lines: u64,
}

#[derive(Debug, Default)]
struct Shared {
    drops: AtomicU64,
    reopen: AtomicBool,
    stop: AtomicBool,
}

impl Log {
    /// `None` if the log is off.
    pub fn start(kind: &AccessLog, bytes: usize, cpus: &[usize]) -> Result<Option<Self>, ConfigError> {
        let sink = match kind {
            AccessLog::Off => return Ok(None),
            AccessLog::Stderr => Sink::Stderr,
            AccessLog::File(path) => {
                let file = open(path).map_err(|error| ConfigError::Log(path.clone(), error))?;
                Sink::File(path.clone(), file)
            }
        };
        let buffers = (bytes / (BUFFER_FULL + LINE_MAX)).max(2);
        let (full, full_out) = RingBuffer::new(buffers);
        let (mut empty_in, empty) = RingBuffer::new(buffers);
        for _ in 1..buffers {
            let fits = empty_in.push(Vec::with_capacity(BUFFER_FULL + LINE_MAX)).is_ok();
            debug_assert!(fits, "the ring has a place for each buffer");
        }
        let shared = Arc::new(Shared::default());
        let theirs = Arc::clone(&shared);
        let handle = helper::spawn("access-log", cpus, move || write(sink, full_out, empty_in, &theirs))
            .map_err(ConfigError::Helper)?;
        Ok(Some(Self {
            buffer: Vec::with_capacity(BUFFER_FULL + LINE_MAX),
            lines: 0,
            since: Time::ZERO,
            time: [b' '; 28],
            full,
            empty,
            drops: 0,
            shared,
            handle: Some(handle),
        }))
    }

    /// A new second began.
    pub fn set_time(&mut self, date: &HttpDate) {
        // From `Sun, 06 Nov 1994 08:49:37 GMT`.
        let date = date.as_bytes();
        let time = &mut self.time;
        time[0] = b'[';
        time[1..3].copy_from_slice(&date[5..7]);
        time[3] = b'/';
        time[4..7].copy_from_slice(&date[8..11]);
        time[7] = b'/';
        time[8..12].copy_from_slice(&date[12..16]);
        time[12] = b':';
        time[13..21].copy_from_slice(&date[17..25]);
        time[21..28].copy_from_slice(b" +0000]");
    }

    /// Logs a request whose response is queued.
    pub fn line(&mut self, line: &Line<'_>, bytes: u64, now: Time) {
        if !self.has_room(now) {
            return;
        }
        put_before(&mut self.buffer, &self.time, line);
        put_number(&mut self.buffer, bytes);
        put_after(&mut self.buffer, line);
        self.lines += 1;
    }

    /// A line to be closed when the response is sent.
    pub fn open_line(&self, line: &Line<'_>) -> OpenLine {
        let (mut before, mut after) = (Vec::new(), Vec::new());
        put_before(&mut before, &self.time, line);
        put_after(&mut after, line);
        OpenLine { before, after }
    }

    /// Logs a request whose response took time.
    pub fn close_line(&mut self, line: &OpenLine, bytes: u64, now: Time) {
        if !self.has_room(now) {
            return;
        }
        self.buffer.extend_from_slice(&line.before);
        put_number(&mut self.buffer, bytes);
        self.buffer.extend_from_slice(&line.after);
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
    pub fn drops(&self) -> u64 {
        self.drops + self.shared.drops.load(Ordering::Relaxed)
    }

    /// Opens the file again, at the writer's next look: for log rotation.
    pub fn reopen(&self) {
        self.shared.reopen.store(true, Ordering::Release);
        self.wake();
    }

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
        let bytes = core::mem::replace(&mut self.buffer, next);
        let lines = core::mem::take(&mut self.lines);
        if self.full.push(Buffer { bytes, lines }).is_err() {
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

impl Drop for Log {
    fn drop(&mut self) {
        // A writer that is behind is waited for, here as in the join below.
        while !self.buffer.is_empty() && !self.hand_over() && self.handle.as_ref().is_some_and(|h| !h.is_finished()) {
            std::thread::yield_now();
        }
        self.shared.stop.store(true, Ordering::Release);
        self.wake();
        if let Some(handle) = self.handle.take() {
            // A panic there was reported there.
            let _ = handle.join();
        }
    }
}

#[derive(Debug)]
enum Sink {
    File(PathBuf, File),
    Stderr,
}

fn open(path: &Path) -> std::io::Result<File> {
    File::options().create(true).append(true).open(path)
}

fn write(mut sink: Sink, mut full: Consumer<Buffer>, mut empty: Producer<Vec<u8>>, shared: &Shared) {
    loop {
        // Looked at before the ring: what was handed over before is written.
        let stop = shared.stop.load(Ordering::Acquire);
        while let Ok(Buffer { mut bytes, lines }) = full.pop() {
            let written = match &mut sink {
                Sink::File(_, file) => file.write_all(&bytes),
                Sink::Stderr => std::io::stderr().write_all(&bytes),
            };
            if written.is_err() {
                shared.drops.fetch_add(lines, Ordering::Relaxed);
            }
            bytes.clear();
            // Never full: it has a place for every buffer.
            let _ = empty.push(bytes);
        }
        if shared.reopen.swap(false, Ordering::AcqRel)
            && let Sink::File(path, file) = &mut sink
            && let Ok(new) = open(path)
        {
            // If it cannot be opened, the old one is better than none.
            *file = new;
        }
        if stop {
            return;
        }
        std::thread::park();
    }
}

fn put_before(out: &mut Vec<u8>, time: &[u8; 28], line: &Line<'_>) {
    match line.peer.map(|peer| peer.ip().to_canonical()) {
        Some(IpAddr::V4(address)) => {
            let [a, b, c, d] = address.octets();
            for (byte, end) in [(a, b'.'), (b, b'.'), (c, b'.'), (d, b' ')] {
                put_number(out, byte.into());
                out.push(end);
            }
        }
        // Writing to a vector does not fail.
        Some(IpAddr::V6(address)) => drop(write!(out, "{address} ")),
        None => out.extend_from_slice(b"- "),
    }
    out.extend_from_slice(b"- - ");
    out.extend_from_slice(time);
    out.extend_from_slice(b" \"");
    put_text(out, line.request);
    out.extend_from_slice(b"\" ");
    put_number(out, line.status.into());
    out.push(b' ');
}

fn put_after(out: &mut Vec<u8>, line: &Line<'_>) {
    out.extend_from_slice(b" \"");
    put_text(out, line.referer.unwrap_or(b"-"));
    out.extend_from_slice(b"\" \"");
    put_text(out, line.agent.unwrap_or(b"-"));
    out.extend_from_slice(b"\"\n");
}

/// As nginx: what could end the quotes, or is not printable ASCII, as `\xXX`.
fn put_text(out: &mut Vec<u8>, text: &[u8]) {
    let text = text.get(..TEXT_MAX).unwrap_or(text);
    let plain = |byte: u8| (0x20..0x7f).contains(&byte) && byte != b'"' && byte != b'\\';
    if text.iter().all(|&byte| plain(byte)) {
        out.extend_from_slice(text);
        return;
    }
    for &byte in text {
        if plain(byte) {
            out.push(byte);
        } else {
            const HEX: &[u8; 16] = b"0123456789ABCDEF";
            out.extend([b'\\', b'x', HEX[usize::from(byte >> 4)], HEX[usize::from(byte & 15)]]);
        }
    }
}

fn put_number(out: &mut Vec<u8>, value: u64) {
    out.extend_from_slice(http::response::decimal(value, &mut [0; 20]));
}
