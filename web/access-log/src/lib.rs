//! The access log, in nginx's `combined` format:
//!
//! ```text
//! 10.0.0.1 - - [10/Oct/2026:13:55:36 +0000] "GET / HTTP/1.1" 200 2326 "referer" "agent"
//! ```
//!
//! Lines are gathered in a buffer and handed to a writer thread by the buffer,
//! over a bounded ring. A writer that falls behind, as where nobody reads the
//! other end of its pipe, loses lines, counted; it never holds up the silo, and
//! at the end only for a moment.
#![forbid(unsafe_code)]

mod handing;
mod json;
mod named;
mod places;
mod record;
mod set;
mod sink;
mod syslog;
mod targets;

pub use places::{Buffering, LogPlace, OpenFiles, SyslogPlace, SyslogServer};
pub use set::LogSet;
pub use syslog::SyslogLines;
pub use targets::OpenLogs;

use core::net::{IpAddr, SocketAddr};
use core::sync::atomic::{AtomicBool, Ordering};
use core::time::Duration;
use handing::{Buffer, Handing, Writing, give_back};
use rtrb::{Consumer, Producer};
use semantics::date::HttpDate;
use sink::{Appended, Sink, StandardStream};
use std::io::Write;
use std::path::PathBuf;
use std::sync::Arc;
use wire::Time;

/// Lines are handed over when this many bytes have gathered…
const BUFFER_FULL: usize = 32 << 10;

/// …or the oldest has waited so long.
const FLUSH_AFTER: Duration = Duration::from_millis(100);

/// Of a request line, referer or agent, at most this much is logged: a line
/// is bounded whatever is sent.
const TEXT_MAX: usize = 2048;

/// The room that a buffer leaves for one more line: three texts, each byte
/// escaped as six, and the rest.
const LINE_MAX: usize = 3 * 6 * TEXT_MAX + 512;

/// What lines look like.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum LineFormat {
    /// nginx's `combined`.
    #[default]
    Combined,
    /// An object of JSON each.
    Json,
}

/// Where the access log goes, in nginx's `combined` format (times in UTC).
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum AccessLog {
    /// Nowhere.
    Off,
    /// Appended to this file; opened again by [`Log::reopen`].
    File(PathBuf),
    /// Standard output.
    Stdout,
    /// Standard error.
    Stderr,
}

/// Why a log could not be begun.
#[derive(Debug)]
pub enum Error {
    /// The file could not be opened.
    Open(PathBuf, std::io::Error),
    /// The writer's thread could not be started.
    Helper(std::io::Error),
}

/// What a line says of a request.
#[derive(Clone, Copy, Debug)]
pub struct Line<'a> {
    /// The client's address; none on a Unix socket.
    pub peer: Option<SocketAddr>,
    /// The request line.
    pub request: &'a [u8],
    /// The status of the response.
    pub status: u16,
    /// The Referer field.
    pub referer: Option<&'a [u8]>,
    /// The User-Agent field.
    pub agent: Option<&'a [u8]>,
}

/// A line of a response that is still being sent: all but the bytes sent, and when.
#[derive(Debug)]
pub struct OpenLine {
    before: Vec<u8>,
    after: Vec<u8>,
    /// Where in it the time stands.
    time_at: usize,
    is_json: bool,
}

/// The silo's end.
#[derive(Debug)]
pub struct Log {
    handing: Handing,
    /// `- - [10/Oct/2026:13:55:36 +0000] "`
    time: [u8; TIME_LEN],
    /// The time of lines that are objects; none where they are not.
    json: Option<[u8; json::TIME_LEN]>,
    reopen: Arc<AtomicBool>,
}

impl Log {
    /// `None` if the log is off. Holds at most `bytes` for the writer, whose
    /// thread is started on `cpus`.
    ///
    /// # Errors
    /// See [`Error`].
    pub fn start(kind: &AccessLog, bytes: usize, cpus: &[usize]) -> Result<Option<Self>, Error> {
        let sink = match kind {
            AccessLog::Off => return Ok(None),
            AccessLog::Stdout => Sink::Standard(StandardStream::Out),
            AccessLog::Stderr => Sink::Standard(StandardStream::Error),
            AccessLog::File(path) => {
                let file = Appended::open(path).map_err(|error| Error::Open(path.clone(), error))?;
                Sink::File(path.clone(), file)
            }
        };
        let reopen = Arc::new(AtomicBool::new(false));
        let theirs = Arc::clone(&reopen);
        let handing =
            Handing::start(bytes, cpus, move |full, empty, writing| write(sink, full, empty, writing, &theirs))?;
        Ok(Some(Self { handing, time: time_of(&HttpDate::from_unix(0)), json: None, reopen }))
    }

    /// A new second began.
    pub fn set_time(&mut self, date: &HttpDate) {
        self.time = time_of(date);
        if let Some(time) = &mut self.json {
            *time = json::time_of(date);
        }
    }

    /// Lines look so from now on.
    pub fn set_format(&mut self, format: LineFormat) {
        self.json = (format == LineFormat::Json).then(|| json::time_of(&HttpDate::from_unix(0)));
    }

    /// Returns where the time stands.
    fn put_before(
        json: Option<&[u8; json::TIME_LEN]>,
        time: &[u8; TIME_LEN],
        out: &mut Vec<u8>,
        line: &Line<'_>,
    ) -> usize {
        match json {
            Some(time) => json::put_before(out, time, line),
            None => put_before(out, time, line),
        }
    }

    fn put_after(json: bool, out: &mut Vec<u8>, line: &Line<'_>) {
        if json { json::put_after(out, line) } else { put_after(out, line) }
    }

    /// Logs a request whose response is queued.
    pub fn line(&mut self, line: &Line<'_>, bytes: u64, now: Time) {
        if !self.handing.has_room(now, |_| ()) {
            return;
        }
        Self::put_before(self.json.as_ref(), &self.time, &mut self.handing.buffer, line);
        put_bytes(&mut self.handing.buffer, bytes);
        Self::put_after(self.json.is_some(), &mut self.handing.buffer, line);
        self.handing.lines += 1;
    }

    /// A line to be closed when the response is sent.
    pub fn open_line(&self, line: &Line<'_>) -> OpenLine {
        let (mut before, mut after) = (Vec::new(), Vec::new());
        let time_at = Self::put_before(self.json.as_ref(), &self.time, &mut before, line);
        Self::put_after(self.json.is_some(), &mut after, line);
        OpenLine { before, after, time_at, is_json: self.json.is_some() }
    }

    /// Logs a request whose response took time: that of its end.
    pub fn close_line(&mut self, line: &OpenLine, bytes: u64, now: Time) {
        if !self.handing.has_room(now, |_| ()) {
            return;
        }
        let (before, now) = line.before.split_at(line.time_at);
        let time = match &self.json {
            Some(time) if line.is_json => &time[..],
            None if !line.is_json => &self.time[..],
            // Lines looked otherwise when it was opened.
            _ => &now[..if line.is_json { json::TIME_LEN } else { TIME_LEN }],
        };
        self.handing.buffer.extend_from_slice(before);
        self.handing.buffer.extend_from_slice(time);
        self.handing.buffer.extend_from_slice(&now[time.len()..]);
        put_bytes(&mut self.handing.buffer, bytes);
        self.handing.buffer.extend_from_slice(&line.after);
        self.handing.lines += 1;
    }

    /// Once per turn: hands lines over when there are enough or they are old.
    /// Returns when it wants to be called again.
    #[inline]
    pub fn on_turn(&mut self, now: Time) -> Option<Time> {
        self.handing.on_turn(now, |_| ())
    }

    /// Lines lost so far.
    pub fn drops(&self) -> u64 {
        self.handing.drops()
    }

    /// Opens the file again, at the writer's next look: for log rotation.
    pub fn reopen(&self) {
        self.reopen.store(true, Ordering::Release);
        self.handing.wake();
    }
}

const TIME_LEN: usize = 34;

/// The time of a second, with what stands around it in every line.
fn time_of(date: &HttpDate) -> [u8; TIME_LEN] {
    // From `Sun, 06 Nov 1994 08:49:37 GMT`.
    let date = date.as_bytes();
    let mut time = *b"- - [06/Nov/1994:08:49:37 +0000] \"";
    time[5..7].copy_from_slice(&date[5..7]);
    time[8..11].copy_from_slice(&date[8..11]);
    time[12..16].copy_from_slice(&date[12..16]);
    time[17..25].copy_from_slice(&date[17..25]);
    time
}

fn write(
    mut sink: Sink,
    mut full: Consumer<Buffer>,
    mut empty: Producer<Vec<u8>>,
    writing: &Writing,
    reopen: &AtomicBool,
) {
    loop {
        // Looked at before the ring: what was handed over before is written.
        let stop = writing.stop.load(Ordering::Acquire);
        while let Ok(Buffer { bytes, lines }) = full.pop() {
            if sink.append(&bytes, &writing.hurry).is_err() {
                writing.lose(lines);
            }
            give_back(&mut empty, bytes);
        }
        if reopen.swap(false, Ordering::AcqRel) {
            sink.reopen();
        }
        if stop {
            return;
        }
        std::thread::park();
    }
}

/// Everything up to the bytes sent, which [`put_bytes`] adds. Returns where the time stands.
fn put_before(out: &mut Vec<u8>, time: &[u8; TIME_LEN], line: &Line<'_>) -> usize {
    let mut front = [0; 16 + TIME_LEN];
    let mut at = 0;
    match line.peer.map(|peer| peer.ip().to_canonical()) {
        Some(IpAddr::V4(address)) => {
            let (text, length) = octets_text(address.octets());
            front[..16].copy_from_slice(&text);
            at = length + 1;
            front[length] = b' ';
        }
        // Writing to a vector does not fail.
        Some(IpAddr::V6(address)) => drop(write!(out, "{address} ")),
        None => out.extend_from_slice(b"- "),
    }
    front[at..at + TIME_LEN].copy_from_slice(time);
    let time_at = out.len() + at;
    out.extend_from_slice(&front[..at + TIME_LEN]);
    put_text(out, line.request);
    let status = line.status;
    let digit = |value: u16| b'0' + (value % 10) as u8;
    out.extend_from_slice(&[b'"', b' ', digit(status / 100), digit(status / 10), digit(status), b' ']);
    time_at
}

fn put_bytes(out: &mut Vec<u8>, bytes: u64) {
    // Writing to a vector does not fail.
    drop(write!(out, "{bytes}"));
}

fn put_after(out: &mut Vec<u8>, line: &Line<'_>) {
    match (line.referer, line.agent) {
        (None, None) => out.extend_from_slice(b" \"-\" \"-\"\n"),
        (referer, agent) => {
            out.extend_from_slice(b" \"");
            put_text(out, referer.unwrap_or(b"-"));
            out.extend_from_slice(b"\" \"");
            put_text(out, agent.unwrap_or(b"-"));
            out.extend_from_slice(b"\"\n");
        }
    }
}

/// As nginx: what could end the quotes, or is not printable ASCII, as `\xXX`.
/// `text` may lie where a peer still writes to: what is looked at is what was
/// copied.
fn put_text(out: &mut Vec<u8>, text: &[u8]) {
    let text = text.get(..TEXT_MAX).unwrap_or(text);
    let plain = |byte: u8| (0x20..0x7f).contains(&byte) && byte != b'"' && byte != b'\\';
    let start = out.len();
    out.extend_from_slice(text);
    // All are looked at: that takes less than stopping early.
    let (blocks, rest) = out.get(start..).unwrap_or_default().as_chunks::<16>();
    let mut all = true;
    for block in blocks {
        for &byte in block {
            all &= plain(byte);
        }
    }
    if all && rest.iter().all(|&byte| plain(byte)) {
        return;
    }
    out.truncate(start);
    for &byte in text {
        if plain(byte) {
            out.push(byte);
        } else {
            const HEX: &[u8; 16] = b"0123456789ABCDEF";
            out.extend([b'\\', b'x', HEX[usize::from(byte >> 4)], HEX[usize::from(byte & 15)]]);
        }
    }
}

/// An IPv4 address as text, and how long it is.
#[must_use]
#[inline]
pub fn octets_text(octets: [u8; 4]) -> ([u8; 16], usize) {
    let (mut text, mut at) = ([0; 16], 0);
    for octet in octets {
        let (digits, length) = &OCTETS[usize::from(octet)];
        // Four bytes are copied, of which those that follow replace what is too much.
        if let Some(place) = text.get_mut(at..at + 4) {
            place.copy_from_slice(digits);
        }
        at += usize::from(*length);
    }
    // Without the last dot.
    (text, at - 1)
}

/// The decimal digits of each octet and a dot, and how many they are.
static OCTETS: [([u8; 4], u8); 256] = {
    let mut octets = [([b'.'; 4], 0); 256];
    let mut value = 0;
    while value < 256 {
        let (hundreds, tens, ones) = (value / 100, value / 10 % 10, value % 10);
        let mut length = 0;
        if hundreds > 0 {
            octets[value].0[length] = b'0' + hundreds as u8;
            length += 1;
        }
        if value >= 10 {
            octets[value].0[length] = b'0' + tens as u8;
            length += 1;
        }
        octets[value].0[length] = b'0' + ones as u8;
        octets[value].1 = length as u8 + 2;
        value += 1;
    }
    octets
};

#[cfg(test)]
mod tests;
