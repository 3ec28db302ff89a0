//! What a server sends: heads of answers, DATA, and the ends of streams.

use crate::connection::ServerConnection;
use crate::error::ErrorCode;
use crate::frame::{self, FrameHead, HEAD, Kind};
use crate::head::is_of_connection;
use crate::stream::Stream;
use hpack::{HeaderField, put_static, put_status};

/// A block of an answer's fields: the same for all connections.
#[derive(Debug)]
pub struct BlockWriter<'a>(&'a mut Vec<u8>);

impl<'a> BlockWriter<'a> {
    /// One that begins with a status, of three digits.
    pub fn answer(out: &'a mut Vec<u8>, status: u16) -> Self {
        put_status(status, out);
        Self(out)
    }

    /// One of fields behind a body.
    pub const fn trailers(out: &'a mut Vec<u8>) -> Self {
        Self(out)
    }

    /// A field, its name in lower case.
    pub fn field(&mut self, name: &[u8], value: &[u8]) {
        put_static(HeaderField::new(name, value), self.0);
    }

    /// Lines of `name: value`, each with its CR LF, as HTTP/1.1 has them. What that says of its
    /// connection is left out (RFC 9113 section 8.2.2).
    pub fn lines(&mut self, lines: &[u8]) {
        let mut lower = [0; NAME_MAX];
        for line in lines.split_inclusive(|byte| *byte == b'\n') {
            let line = line.strip_suffix(b"\r\n").unwrap_or(line);
            let Some(colon) = line.iter().position(|byte| *byte == b':') else { continue };
            let (name, value) = line.split_at(colon);
            // Longer names than that nobody has.
            let Some(place) = lower.get_mut(..name.len()).filter(|place| !place.is_empty()) else { continue };
            place.copy_from_slice(name);
            place.make_ascii_lowercase();
            if !is_of_connection(place) {
                let value = value.get(1..).unwrap_or_default().trim_ascii();
                put_static(HeaderField::new(place, value), self.0);
            }
        }
    }
}

/// Bytes of a field's name, at most.
const NAME_MAX: usize = 256;

/// Seconds for which what comes of a body is dropped before its client is told that nobody wants it.
const DROPPING: u32 = 1;

impl<T: Default> ServerConnection<T> {
    /// Sends a head, or fields behind a body, from their block. Where it ends the stream, that is over.
    pub fn send_block(&mut self, stream: u32, block: &[u8], ends: bool, out: &mut Vec<u8>) {
        self.write_block(stream, block, ends, out);
        if ends {
            self.end(stream, out);
        }
    }

    /// Bytes of a payload that the client takes.
    #[must_use]
    pub const fn payload(&self) -> usize {
        self.payload as usize
    }

    /// As [`Self::send_block`], and whoever ends the stream tells so.
    pub fn write_block(&mut self, stream: u32, block: &[u8], ends: bool, out: &mut Vec<u8>) {
        let mut before = Vec::new();
        self.encoder.begin(&mut before);
        let most = self.payload as usize;
        if before.is_empty() {
            frame::write_headers(out, stream, block, ends, most);
        } else {
            // The client has changed the size of its table.
            before.extend_from_slice(block);
            frame::write_headers(out, stream, &before, ends, most);
        }
    }

    /// Bytes of DATA that windows let a stream send now.
    #[must_use]
    pub fn room(&self, stream: u32) -> usize {
        self.get(stream).map_or(0, |stream| stream.send.room()).min(self.send.room())
    }

    /// The same of the stream at this place [among all](Self::streams), and whether its own window is open, whatever
    /// the connection's is.
    #[must_use]
    pub fn window_at(&self, at: usize) -> (usize, bool) {
        let own = self.streams.all.get(at).map_or(0, |stream| stream.send.room());
        (own.min(self.send.room()), own > 0)
    }

    /// The head of DATA with so many bytes, for which there is [room](Self::room): these are to follow.
    /// Behind the last of them the stream is to be [ended](Self::end).
    #[must_use]
    pub fn data(&mut self, stream: u32, bytes: usize, ends: bool) -> [u8; HEAD] {
        let taken = self.send.take(bytes) && self.streams.get_mut(stream).is_none_or(|stream| stream.send.take(bytes));
        debug_assert!(taken, "no more than there is room for");
        let flags = if ends { frame::END_STREAM } else { 0 };
        FrameHead { length: bytes as u32, kind: Kind::Data, flags, stream }.bytes()
    }

    /// We have ended a stream. A client that needs more of a window for the rest of its body is told at
    /// once that nobody wants it (RFC 9113 section 8.1): some (curl 7.88) read no more behind an
    /// answer, and would wait for ever. Of what may come all the same, it is told
    /// [soon](Self::end_soon).
    pub fn end(&mut self, number: u32, out: &mut Vec<u8>) {
        let fits = |stream: &Stream<T>| stream.left.is_some_and(|left| left <= stream.receive.room() as u64);
        if self.get(number).is_some_and(|stream| !stream.remote_ended && !fits(stream)) {
            return self.reset(number, ErrorCode::NO_ERROR, out);
        }
        self.end_soon(number);
    }

    /// The same; what its client still sends of a body is dropped, and it is told a second later that no
    /// more is wanted: some lose the answer if they are told at once.
    pub fn end_soon(&mut self, number: u32) {
        let second = self.budgets.second();
        match self.streams.get_mut(number) {
            Some(stream) if !stream.remote_ended => {
                stream.data = T::default();
                stream.dropping = Some(second.saturating_add(DROPPING));
                self.heads -= core::mem::take(&mut stream.head);
            }
            _ => _ = self.take(number, false),
        }
    }

    /// It is this second: clients that take too long for the rest of a body that is dropped are told to
    /// stop (RFC 9113 section 8.1).
    pub fn on_second(&mut self, second: u32, out: &mut Vec<u8>) {
        let late = |stream: &&Stream<T>| stream.dropping.is_some_and(|until| second > until);
        while let Some(number) = self.streams.all.iter().find(late).map(|stream| stream.number) {
            self.reset(number, ErrorCode::NO_ERROR, out);
        }
    }

    /// Gives the place of a stream to the next request: of one that is answered, and whose client was to be told
    /// soon that nobody wants the rest of its body. The one that has waited for longest is told now; false
    /// where there is none.
    pub(crate) fn make_way(&mut self, out: &mut Vec<u8>) -> bool {
        let answered = self.streams.all.iter().filter(|stream| stream.dropping.is_some());
        let Some(oldest) = answered.min_by_key(|stream| (stream.dropping, stream.number)) else { return false };
        self.reset(oldest.number, ErrorCode::NO_ERROR, out);
        true
    }

    /// A stream is over, and nobody is told, because nobody would hear of it.
    pub fn forget(&mut self, stream: u32) {
        self.take(stream, true);
    }

    /// A stream is over before its end.
    pub fn reset(&mut self, stream: u32, code: ErrorCode, out: &mut Vec<u8>) {
        if self.take(stream, true).is_some() {
            frame::write_reset(out, stream, code);
        }
    }
}
