//! Files too large for memory, a piece at a time.
//!
//! One piece of a stream is being read at a time, and as many are queued
//! towards the peer as its share of the memory for streams allows. Buffers go
//! round: when the peer has acknowledged a piece, its memory is read into
//! again.

use crate::Server;
use crate::answer::Part;
use crate::config::SMALL_CHUNK;
use crate::conn::{FINISHED, State, Tick};
use crate::files::reader::{EntryId, Job};
use crate::files::store::Kind;
use crate::files::{ReadOutcome, Source};
use crate::line;
use crate::log::OpenLine;
use app::{Body, ConnId, Net};
use core::ops::Range;
use http::Status;
use http::server::Request;
use std::collections::VecDeque;
use std::sync::Arc;
use wire::Time;

/// The usual piece, bytes.
const CHUNK: usize = 256 << 10;

const _: () = assert!(SMALL_CHUNK <= CHUNK);

/// Streams looked after in one turn, for room that opened since.
const POLLED: usize = 32;

/// A response that is being streamed.
#[derive(Debug)]
pub struct Stream {
    source: Arc<Source>,
    serial: u32,
    status: Status,
    /// Sent along with the first piece: until then the answer may be another.
    head: Option<Vec<u8>>,
    parts: VecDeque<Part>,
    /// A piece is being read.
    asked: bool,
    /// Pieces on their way, oldest first, for their memory.
    queued: VecDeque<Body>,
    spare: Vec<u8>,
    /// Bytes that it counts for in [`Active::held`].
    charged: usize,
    /// Body bytes queued.
    sent: u64,
    keep_alive: bool,
    line: Option<OpenLine>,
}

/// Who is streaming; some of them may have ended.
#[derive(Debug, Default)]
pub struct Active {
    list: Vec<(ConnId, u32)>,
    next: usize,
    /// Bytes read and not yet acknowledged, or being read, as last seen.
    held: usize,
}

impl Server {
    /// Starts to stream `parts` of a file.
    pub(crate) fn begin_stream<N: Net>(
        &mut self,
        net: &mut N,
        id: ConnId,
        request: &Request<'_>,
        entry: EntryId,
        (status, head, parts): (Status, Vec<u8>, VecDeque<Part>),
        keep_alive: bool,
    ) {
        let Kind::Large { identity, path, live, .. } = &mut self.store.entry(entry).kind else { return };
        // All streams of a file in one state share one descriptor.
        let source = live.upgrade().unwrap_or_else(|| {
            let source = Arc::new(Source::new(Arc::clone(path), *identity));
            *live = Arc::downgrade(&source);
            source
        });
        self.serial = self.serial.wrapping_add(1);
        let line = self.log.as_ref().map(|log| log.open_line(&line(net, id, request, status)));
        let stream = Stream {
            source,
            serial: self.serial,
            status,
            head: Some(head),
            parts,
            asked: false,
            queued: VecDeque::new(),
            spare: Vec::new(),
            charged: 0,
            sent: 0,
            keep_alive,
            line,
        };
        self.counters.streams += 1;
        self.counters.streams_open += 1;
        self.streams.list.push((id, stream.serial));
        let conn = &mut self.conns[id.index()];
        conn.state = State::Streaming;
        let more = conn.more();
        more.head = Some(request.head().into());
        more.stream = Some(stream);
        self.watch_progress(net, id);
        self.pump(net, id);
    }

    /// Asks for the next piece if there is room for it, and ends the stream
    /// when the peer has everything.
    pub(crate) fn pump<N: Net>(&mut self, net: &mut N, id: ConnId) {
        let conn = &mut self.conns[id.index()];
        let Some(stream) = conn.more.as_mut().and_then(|more| more.stream.as_mut()) else { return };
        if stream.asked {
            return;
        }
        stream.reclaim();
        if stream.head.is_none() {
            // Before the head there are no delimiters: it goes out with the
            // first piece of content.
            let bytes = stream.send_delimiters(net, id);
            conn.queued = conn.queued.wrapping_add(bytes as u32);
            self.counters.bytes_queued += bytes;
        }
        let unsent = net.unsent(id);
        self.streams.charge(stream, unsent);
        let Some(range) = stream.next_content() else {
            self.end_stream(net, id);
            return;
        };
        let share = self.limits.stream_bytes / (self.counters.streams_open.max(1) as usize);
        let share = share.min(self.limits.stream_window).max(SMALL_CHUNK);
        // Two pieces in a share, so that one is read while one is sent.
        let mut piece = (share / 2).clamp(SMALL_CHUNK, CHUNK);
        let full = self.streams.held + piece > self.limits.stream_bytes;
        if unsent > 0 && (full || unsent + piece > share) {
            return;
        }
        if full {
            // However many there are, each goes on.
            piece = SMALL_CHUNK;
        }
        let length = usize::try_from(range.end - range.start).unwrap_or(usize::MAX).min(piece);
        stream.asked = true;
        self.streams.charge(stream, unsent + length);
        let buffer = stream.buffer_for(length);
        let (serial, source) = (stream.serial, Arc::clone(&stream.source));
        if let Some(reader) = &mut self.reader {
            reader.submit(Job::Read { id, serial, source, offset: range.start, length, buffer });
        }
    }

    /// A piece was read.
    pub(crate) fn on_chunk<N: Net>(
        &mut self,
        net: &mut N,
        id: ConnId,
        serial: u32,
        buffer: Vec<u8>,
        outcome: ReadOutcome,
    ) {
        let now = net.now();
        let Some(conn) = self.conn(id) else { return };
        let Some(more) = &mut conn.more else { return };
        let Some(stream) = more.stream.as_mut().filter(|stream| stream.serial == serial) else { return };
        if outcome != ReadOutcome::Intact {
            let unsent = stream.head.is_some();
            self.break_stream(net, id, unsent, outcome);
            return;
        }
        stream.asked = false;
        let length = buffer.len() as u64;
        let mut bytes = length;
        let mut counted = None;
        if let Some(head) = stream.head.take() {
            net.send_bytes(id, &head);
            conn.queued = conn.queued.wrapping_add(head.len() as u32);
            conn.requests = conn.requests.saturating_add(1);
            counted = Some((stream.status, head.len() as u64));
            bytes += stream.send_delimiters(net, id);
            more.head = None;
        }
        if let Some(Part::Content(range)) = stream.parts.front_mut() {
            range.start += length;
            if range.start >= range.end {
                stream.parts.pop_front();
            }
        }
        let body = Body::new(buffer);
        net.send_body(id, &body, 0..body.len());
        stream.queued.push_back(body);
        stream.sent += length;
        conn.queued = conn.queued.wrapping_add(bytes as u32);
        conn.last = Tick::of(now);
        self.counters.stream_chunks += 1;
        self.counters.bytes_queued += bytes;
        if let Some((status, head)) = counted {
            self.counters.bytes_queued += head;
            self.count(status, true);
        }
        self.pump(net, id);
    }

    /// Once per turn: peers that took some of what was queued get more. The
    /// data path tells only when the queue is nearly empty, which on a long
    /// path is too late.
    pub(crate) fn poll_streams<N: Net>(&mut self, net: &mut N) {
        for _ in 0..POLLED.min(self.streams.list.len()) {
            if self.streams.next >= self.streams.list.len() {
                self.streams.next = 0;
            }
            let Some(&(id, serial)) = self.streams.list.get(self.streams.next) else { return };
            let streams = self
                .conn(id)
                .and_then(|conn| conn.more.as_ref()?.stream.as_ref())
                .is_some_and(|stream| stream.serial == serial);
            if streams {
                self.streams.next += 1;
                self.pump(net, id);
            } else {
                self.streams.list.swap_remove(self.streams.next);
            }
        }
    }

    /// Everything is queued. The stream holds its share of memory until the
    /// peer has taken it, and only then the next request is answered: else a
    /// peer could have us queue one file after the other.
    fn end_stream<N: Net>(&mut self, net: &mut N, id: ConnId) {
        let now = net.now();
        let ends = self.draining.is_some();
        let conn = &mut self.conns[id.index()];
        let Some(more) = &mut conn.more else { return };
        let keep_alive = more.stream.as_ref().is_some_and(|stream| stream.keep_alive) && !ends;
        if !keep_alive && conn.flags & FINISHED == 0 {
            conn.flags |= FINISHED;
            net.finish(id);
        }
        if net.unsent(id) > 0 {
            return;
        }
        let Some(stream) = more.stream.take() else { return };
        conn.last = Tick::of(now);
        self.stream_ended(&stream, now);
        self.arm(net, id, self.timeouts.http.keep_alive);
        self.response_over(net, id, keep_alive);
        self.offer_again(net, id);
    }

    /// The file is not what it was. Where the head is out, nothing but a
    /// reset tells the peer that the body is not whole.
    fn break_stream<N: Net>(&mut self, net: &mut N, id: ConnId, unsent: bool, outcome: ReadOutcome) {
        let now = net.now();
        let conn = &mut self.conns[id.index()];
        let Some(stream) = conn.more.as_mut().and_then(|more| more.stream.take()) else { return };
        if unsent {
            self.stream_ended(&stream, now);
            self.respond_anew(net, id, outcome);
        } else {
            self.counters.streams_broken += 1;
            self.stream_ended(&stream, now);
            self.conns[id.index()].state = State::Closing;
            net.abort(id);
        }
    }

    /// A stream is over, whole or not.
    pub(crate) fn stream_ended(&mut self, stream: &Stream, now: Time) {
        self.counters.streams_open -= 1;
        self.streams.held -= stream.charged;
        if let (Some(log), Some(line), None) = (&mut self.log, &stream.line, &stream.head) {
            log.close_line(line, stream.sent, now);
        }
    }
}

impl Active {
    /// `stream` holds so many bytes now.
    fn charge(&mut self, stream: &mut Stream, bytes: usize) {
        self.held = self.held - stream.charged + bytes;
        stream.charged = bytes;
    }
}

impl Stream {
    /// The content to send next.
    fn next_content(&self) -> Option<Range<u64>> {
        self.parts.iter().find_map(|part| match part {
            Part::Content(range) => Some(range.clone()),
            Part::Bytes(_) => None,
        })
    }

    /// Queues what stands before the next piece of content.
    fn send_delimiters<N: Net>(&mut self, net: &mut N, id: ConnId) -> u64 {
        let mut bytes = 0;
        while let Some(Part::Bytes(part)) = self.parts.front() {
            net.send_bytes(id, part);
            bytes += part.len() as u64;
            self.parts.pop_front();
        }
        self.sent += bytes;
        bytes
    }

    /// Takes back the memory of pieces that the peer has; one is kept.
    fn reclaim(&mut self) {
        while let Some(bytes) = self.queued.front_mut().and_then(Body::get_mut) {
            self.spare = core::mem::take(bytes);
            self.queued.pop_front();
        }
    }

    /// Memory for `length` bytes: what was kept, if it is not far too much.
    fn buffer_for(&mut self, length: usize) -> Vec<u8> {
        let spare = core::mem::take(&mut self.spare);
        if spare.capacity() <= 2 * length { spare } else { Vec::new() }
    }
}
