//! Files too large for memory, a piece at a time.
//!
//! One piece of a stream is being read at a time, and as many are queued
//! towards the peer as its share of the memory for streams allows. Buffers go
//! round: when the peer has acknowledged a piece, its memory is read into
//! again.

use crate::Server;
use crate::answer::Part;
use crate::config::SMALL_CHUNK;
use crate::conn::{State, Tick};
use crate::files::reader::{EntryId, Job};
use crate::files::store::Kind;
use crate::files::{ReadOutcome, Source};
use crate::line;
use crate::log::OpenLine;
use app::{Body, ConnId, Net};
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
    /// when all was queued.
    pub(crate) fn pump<N: Net>(&mut self, net: &mut N, id: ConnId) {
        let share = self.limits.stream_bytes / (self.counters.streams_open.max(1) as usize);
        let share = share.min(self.limits.stream_window).max(SMALL_CHUNK);
        let conn = &mut self.conns[id.index()];
        let Some(stream) = conn.more.as_mut().and_then(|more| more.stream.as_mut()) else { return };
        if stream.asked {
            return;
        }
        // Delimiters go out as soon as the head has, which is with the first
        // piece of content.
        let mut bytes = 0;
        if stream.head.is_none() {
            while let Some(Part::Bytes(part)) = stream.parts.front() {
                net.send_bytes(id, part);
                bytes += part.len() as u64;
                stream.parts.pop_front();
            }
        }
        stream.sent += bytes;
        conn.queued = conn.queued.wrapping_add(bytes as u32);
        self.counters.bytes_queued += bytes;
        let next = stream.parts.iter().find_map(|part| match part {
            Part::Content(range) => Some(range.clone()),
            Part::Bytes(_) => None,
        });
        let Some(range) = next else {
            self.end_stream(net, id);
            return;
        };
        // Two pieces in a share, so that one is read while one is sent.
        let chunk = (share / 2).clamp(SMALL_CHUNK, CHUNK);
        if net.unsent(id) + chunk > share {
            return;
        }
        let length = usize::try_from(range.end - range.start).unwrap_or(usize::MAX).min(chunk);
        stream.asked = true;
        let buffer = stream.free_buffer(share / chunk + 1);
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
        let mut bytes = buffer.len() as u64;
        let mut counted = None;
        if let Some(head) = stream.head.take() {
            net.send_bytes(id, &head);
            conn.queued = conn.queued.wrapping_add(head.len() as u32);
            conn.requests = conn.requests.saturating_add(1);
            counted = Some((stream.status, head.len() as u64));
            // Delimiters before the first piece.
            while let Some(Part::Bytes(part)) = stream.parts.front() {
                net.send_bytes(id, part);
                bytes += part.len() as u64;
                stream.parts.pop_front();
            }
            more.head = None;
        }
        if let Some(Part::Content(range)) = stream.parts.front_mut() {
            range.start += buffer.len() as u64;
            if range.start >= range.end {
                stream.parts.pop_front();
            }
        }
        let body = Body::new(buffer);
        net.send_body(id, &body, 0..body.len());
        stream.queued.push_back(body);
        stream.sent += bytes;
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

    /// Everything was queued.
    fn end_stream<N: Net>(&mut self, net: &mut N, id: ConnId) {
        let now = net.now();
        let conn = &mut self.conns[id.index()];
        let Some(stream) = conn.more.as_mut().and_then(|more| more.stream.take()) else { return };
        conn.last = Tick::of(now);
        self.stream_ended(&stream, now);
        self.arm(net, id, self.timeouts.http.send.min(self.timeouts.http.keep_alive));
        let keep_alive = stream.keep_alive && self.draining.is_none();
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
            self.counters.streams_open -= 1;
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
        if let (Some(log), Some(line), None) = (&mut self.log, &stream.line, &stream.head) {
            log.close_line(line, stream.sent, now);
        }
    }
}

impl Stream {
    /// Memory that the peer has done with, or none. Keeps at most `most`
    /// pieces in view; what is beyond is freed when it was sent.
    fn free_buffer(&mut self, most: usize) -> Vec<u8> {
        if let Some(bytes) = self.queued.front_mut().and_then(Body::get_mut) {
            let bytes = core::mem::take(bytes);
            self.queued.pop_front();
            return bytes;
        }
        while self.queued.len() > most {
            self.queued.pop_front();
        }
        Vec::new()
    }
}
