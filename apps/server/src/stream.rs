//! Files too large for memory, a piece at a time.
//!
//! Where the data path sends files by itself (sendfile(2)), a piece is a range
//! of the file, and the reader only opens it and sees that it is what it was.
//! Elsewhere the reader reads: one piece of a stream is being read at a time,
//! and as many are queued towards the peer as its share of the memory for
//! streams allows. Buffers go round: when the peer has acknowledged a piece, its
//! memory is read into again.
//!
//! That memory belongs to those who read. Half of it is shared by the streams
//! whose peers took something lately, half by all the others, so that any number
//! of peers that take nothing leaves those who do their share. What peers had
//! been given while they read, and then did not take, is taken back when others
//! want it, and read again if they ever go on.

use crate::Server;
use crate::answer::Part;
use crate::config::{Limits, SMALL_CHUNK};
use crate::conn::{FINISHED, State, Tick};
use crate::files::reader::{EntryId, Job};
use crate::files::store::Kind;
use crate::files::{ReadOutcome, Source};
use crate::line;
use crate::log::OpenLine;
use app::{Body, ConnId, Net};
use core::ops::Range;
use core::time::Duration;
use semantics::{Request, Status};
use std::collections::VecDeque;
use std::sync::Arc;
use wire::Time;

/// The usual piece, bytes.
const CHUNK: usize = 256 << 10;

const _: () = assert!(SMALL_CHUNK <= CHUNK);

/// Bytes of a file that the data path is given after each look at the file,
/// where it sends files by itself. Two of them may be queued.
const FILE_PIECE: u64 = 1 << 20;

/// Files that stay open for the next request, where the data path sends them
/// by itself, so that it need not wait for the reader.
const KEPT_MAX: usize = 64;

/// Seconds that they stay open without one.
const KEPT_SECONDS: u64 = 10;

/// Streams looked after in one turn, for room that opened since.
const POLLED: usize = 32;

/// A peer that took nothing for so long is not one that reads.
const STALLED: Duration = Duration::from_secs(1);

/// And where others want the memory that it has, and what it has was sent and
/// not acknowledged, so that none can be taken back: a peer that took nothing
/// for so long is reset. A path that is interrupted for less than this is
/// waited for.
const GONE: Duration = Duration::from_secs(10);

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
    /// Bytes of the piece that is being read.
    asking: usize,
    /// Pieces on their way, oldest first, for their memory.
    queued: VecDeque<Body>,
    spare: Vec<u8>,
    /// Bytes that it counts for in [`Active::held`].
    charged: usize,
    /// The content queued last, as far as nothing stands behind it.
    tail: Range<u64>,
    /// What the peer had acknowledged (see [`crate::conn::ServedConnection::queued`]) when
    /// it was last looked at, and when that last moved.
    acknowledged: u32,
    moved: Time,
    /// Whether it ever moved.
    moves: bool,
    /// Bytes that the data path may be given before the file is looked at
    /// again.
    vetted: u64,
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
    /// Bytes read and not yet acknowledged, or being read, as last seen; of
    /// each stream what is above [`SMALL_CHUNK`], which it always has.
    held: usize,
    /// Streams whose peers took something in this second, and in the last.
    moving: usize,
    moved: usize,
    /// When this second began.
    second_began: Time,
    /// The next to be looked at for memory to be taken back.
    reap: usize,
    /// Whether the data path sends files by itself; `None` until it was asked.
    sends_files: Option<bool>,
    /// Files open for the next request, and when each was last asked for
    /// (unix seconds).
    kept: Vec<(Arc<Source>, u64)>,
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
        let mut vetted = 0;
        if self.streams.sends_files != Some(false) {
            // Where it leads was looked at within the time that entries hold.
            vetted = if source.file().is_some() { FILE_PIECE } else { 0 };
            self.streams.keep(&source, self.second);
        }
        self.serial = self.serial.wrapping_add(1);
        let line = self.log.as_ref().map(|log| log.open_line(&line(net, id, request, status)));
        let stream = Stream {
            source,
            serial: self.serial,
            status,
            head: Some(head),
            parts,
            asked: false,
            asking: 0,
            queued: VecDeque::new(),
            spare: Vec::new(),
            charged: 0,
            tail: 0..0,
            acknowledged: self.conns[id.index()].queued.wrapping_sub(net.unsent(id) as u32),
            moved: net.now(),
            moves: false,
            vetted,
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
        more.request = Some((*request).into());
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
        let unsent = net.unsent(id);
        let sends_files = self.streams.sends_files != Some(false);
        let now = net.now();
        self.streams.look(stream, conn.queued.wrapping_sub(unsent as u32), now);
        self.streams.charge(stream);
        let Some(range) = stream.next_content() else {
            self.end_stream(net, id);
            return;
        };
        if sends_files {
            self.pump_file(net, id, unsent);
            return;
        }
        let share = self.streams.share(stream, self.counters.streams_open as usize, &self.limits, now);
        // Two pieces in a share, so that one is read while one is sent.
        let mut piece = (share / 2).clamp(SMALL_CHUNK, CHUNK);
        if unsent > 0 && unsent + piece > share {
            return;
        }
        let full = self.streams.held + piece > self.limits.stream_bytes && !self.make_room(net, id, piece);
        if full && unsent > 0 {
            return;
        }
        let conn = &mut self.conns[id.index()];
        let Some(stream) = conn.more.as_mut().and_then(|more| more.stream.as_mut()) else { return };
        if full {
            // However many there are, each goes on.
            piece = SMALL_CHUNK;
        }
        let length = usize::try_from(range.end - range.start).unwrap_or(usize::MAX).min(piece);
        stream.asked = true;
        stream.asking = length;
        self.working += 1;
        let buffer = stream.buffer_for(length);
        self.streams.charge(stream);
        let (serial, source) = (stream.serial, Arc::clone(&stream.source));
        if let Some(reader) = &mut self.reader {
            reader.submit(Job::Read { id, serial, source, offset: range.start, length, buffer });
        }
    }

    /// Takes memory back from streams whose peers take nothing, for `bytes`
    /// more of another's. Returns whether there is room now; if not, further
    /// streams are looked at in the next call.
    #[cold]
    fn make_room<N: Net>(&mut self, net: &mut N, other: ConnId, bytes: usize) -> bool {
        for _ in 0..POLLED.min(self.streams.list.len()) {
            self.streams.reap = (self.streams.reap + 1) % self.streams.list.len();
            let (id, serial) = self.streams.list[self.streams.reap];
            if id != other {
                self.take_back(net, id, serial);
            }
            if self.streams.held + bytes <= self.limits.stream_bytes {
                return true;
            }
        }
        false
    }

    /// Takes back what a stream has queued above its share, if its peer takes
    /// nothing.
    fn take_back<N: Net>(&mut self, net: &mut N, id: ConnId, serial: u32) {
        let (now, open) = (net.now(), self.counters.streams_open as usize);
        let Some(conn) = self.conns.get_mut(id.index()).filter(|conn| conn.generation == id.generation()) else {
            return;
        };
        let acknowledged = conn.queued.wrapping_sub(net.unsent(id) as u32);
        let Some(stream) = conn.more.as_mut().and_then(|more| more.stream.as_mut()) else { return };
        if stream.serial != serial || stream.asked {
            return;
        }
        stream.reclaim();
        self.streams.look(stream, acknowledged, now);
        self.streams.charge(stream);
        let (share, still) = (self.streams.share(stream, open, &self.limits, now), now.since(stream.moved));
        if still < STALLED || stream.holds() <= share {
            return;
        }
        stream.spare = Vec::new();
        // Content alone: of heads and delimiters nothing is kept to be sent
        // again.
        let most = usize::try_from(stream.tail.end - stream.tail.start).unwrap_or(usize::MAX);
        let taken = net.take_back(id, most) as u64;
        if taken > 0 {
            stream.go_back(taken);
            conn.queued = conn.queued.wrapping_sub(taken as u32);
            self.counters.bytes_queued -= taken;
            self.counters.stream_bytes_taken_back += taken;
            while stream.queued.back().is_some_and(Body::is_free) {
                stream.queued.pop_back();
            }
        }
        self.streams.charge(stream);
        if still >= GONE && stream.charged > 0 && stream.holds() > share {
            self.counters.streams_evicted += 1;
            self.end_with_reset(net, id);
        }
    }

    /// The body cannot be sent to its end: nothing but a reset says so.
    fn end_with_reset<N: Net>(&mut self, net: &mut N, id: ConnId) {
        let conn = &mut self.conns[id.index()];
        let Some(stream) = conn.more.as_mut().and_then(|more| more.stream.take()) else { return };
        conn.state = State::Closing;
        self.stream_ended(&stream, net.now());
        net.abort(id);
    }

    /// As [`Server::pump`], where the data path sends files by itself, or has
    /// not yet said that it does not.
    fn pump_file<N: Net>(&mut self, net: &mut N, id: ConnId, unsent: usize) {
        let conn = &mut self.conns[id.index()];
        let Some(stream) = conn.more.as_mut().and_then(|more| more.stream.as_mut()) else { return };
        if stream.vetted > 0 {
            self.send_file(net, id);
        } else if unsent as u64 <= FILE_PIECE {
            stream.asked = true;
            self.working += 1;
            let (serial, source, buffer) = (stream.serial, Arc::clone(&stream.source), Vec::new());
            if let Some(reader) = &mut self.reader {
                // Reads nothing, but opens the file and looks at it.
                reader.submit(Job::Read { id, serial, source, offset: 0, length: 0, buffer });
            }
        }
    }

    /// Gives the data path what may be sent of the file.
    fn send_file<N: Net>(&mut self, net: &mut N, id: ConnId) {
        let now = net.now();
        self.begin_response(net, id);
        let conn = &mut self.conns[id.index()];
        let Some(stream) = conn.more.as_mut().and_then(|more| more.stream.as_mut()) else { return };
        let mut bytes = 0;
        while stream.vetted > 0
            && let Some(range) = stream.next_content()
            && let Some(file) = stream.source.file()
        {
            let length = stream.vetted.min(range.end - range.start);
            let taken = net.send_file(id, file, range.start..range.start + length);
            if *self.streams.sends_files.insert(taken) {
                stream.vetted -= length;
                bytes += length + stream.advance(net, id, length);
                self.counters.file_pieces += 1;
            } else {
                // It is read instead, and so looked at with each piece.
                stream.vetted = 0;
            }
        }
        conn.queued = conn.queued.wrapping_add(bytes as u32);
        conn.last = Tick::of(now);
        self.counters.bytes_queued += bytes;
        self.pump(net, id);
    }

    /// Queues the head, unless it was, and what stands before the content.
    fn begin_response<N: Net>(&mut self, net: &mut N, id: ConnId) {
        let conn = &mut self.conns[id.index()];
        let Some(more) = &mut conn.more else { return };
        let Some(stream) = &mut more.stream else { return };
        let Some(head) = stream.head.take() else { return };
        more.request = None;
        net.send_bytes(id, &head);
        let bytes = head.len() as u64 + stream.send_delimiters(net, id);
        conn.queued = conn.queued.wrapping_add(bytes as u32);
        conn.requests = conn.requests.saturating_add(1);
        self.counters.bytes_queued += bytes;
        let status = stream.status;
        self.count(status, true);
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
        stream.asking = 0;
        let opened = buffer.is_empty();
        if opened {
            stream.vetted = FILE_PIECE;
        }
        self.working -= 1;
        if opened {
            self.send_file(net, id);
            return;
        }
        self.begin_response(net, id);
        let Some(conn) = self.conn(id) else { return };
        let Some(stream) = conn.more.as_mut().and_then(|more| more.stream.as_mut()) else { return };
        let length = buffer.len() as u64;
        let body = Body::new(buffer);
        net.send_body(id, &body, 0..body.len());
        stream.queued.push_back(body);
        let bytes = length + stream.advance(net, id, length);
        conn.queued = conn.queued.wrapping_add(bytes as u32);
        conn.last = Tick::of(now);
        self.counters.stream_chunks += 1;
        self.counters.bytes_queued += bytes;
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
        if !unsent {
            self.counters.streams_broken += 1;
            return self.end_with_reset(net, id);
        }
        let conn = &mut self.conns[id.index()];
        let Some(stream) = conn.more.as_mut().and_then(|more| more.stream.take()) else { return };
        self.stream_ended(&stream, net.now());
        self.respond_anew(net, id, outcome);
    }

    /// A stream is over, whole or not.
    pub(crate) fn stream_ended(&mut self, stream: &Stream, now: Time) {
        self.counters.streams_open -= 1;
        // The reader's answer finds nobody.
        self.working -= u32::from(stream.asked);
        self.streams.held -= stream.charged;
        if let (Some(log), Some(line), None) = (&mut self.log, &stream.line, &stream.head) {
            log.close_line(line, stream.sent, now);
        }
    }
}

impl Active {
    /// Keeps a file open for those who ask for it next.
    fn keep(&mut self, source: &Arc<Source>, second: u64) {
        if let Some((_, last)) = self.kept.iter_mut().find(|(kept, _)| Arc::ptr_eq(kept, source)) {
            *last = second;
        } else if self.kept.len() < KEPT_MAX {
            self.kept.push((Arc::clone(source), second));
        } else if let Some(oldest) = self.kept.iter_mut().min_by_key(|(_, last)| *last) {
            *oldest = (Arc::clone(source), second);
        }
    }

    /// Closes files that nobody asked for in a while.
    pub(crate) fn on_second(&mut self, second: u64, now: Time) {
        self.moved = core::mem::take(&mut self.moving);
        self.second_began = now;
        self.kept.retain(|(_, last)| last + KEPT_SECONDS > second);
    }

    /// Counts what `stream` holds now.
    fn charge(&mut self, stream: &mut Stream) {
        let bytes = stream.holds().saturating_sub(SMALL_CHUNK);
        self.held = self.held - stream.charged + bytes;
        stream.charged = bytes;
    }

    /// Notes whether the peer took something since the last look.
    fn look(&mut self, stream: &mut Stream, acknowledged: u32, now: Time) {
        if stream.acknowledged != acknowledged {
            stream.acknowledged = acknowledged;
            self.moving += usize::from(!stream.moves || stream.moved < self.second_began);
            stream.moves = true;
            stream.moved = now;
        }
    }

    /// Bytes that `stream` may have queued.
    fn share(&self, stream: &Stream, open: usize, limits: &Limits, now: Time) -> usize {
        let reads = stream.moves && now.since(stream.moved) < STALLED;
        let among = if reads { self.moving.max(self.moved) } else { open };
        (limits.stream_bytes / 2 / among.max(1)).min(limits.stream_window).max(SMALL_CHUNK)
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

    /// `length` bytes of the content are queued: what stands before the next
    /// follows. Returns its bytes.
    fn advance<N: Net>(&mut self, net: &mut N, id: ConnId, length: u64) -> u64 {
        self.sent += length;
        if let Some(Part::Content(range)) = self.parts.front_mut() {
            if self.tail.end != range.start {
                self.tail = range.start..range.start;
            }
            range.start += length;
            self.tail.end = range.start;
            if range.start >= range.end {
                self.parts.pop_front();
            }
        }
        let delimiters = self.send_delimiters(net, id);
        if delimiters > 0 {
            self.tail = 0..0;
        }
        delimiters
    }

    /// The last `length` bytes queued were taken back: they are to be sent
    /// again.
    fn go_back(&mut self, length: u64) {
        let end = self.tail.end;
        self.tail.end -= length;
        self.sent -= length;
        match self.parts.front_mut() {
            Some(Part::Content(range)) if range.start == end => range.start = self.tail.end,
            _ => self.parts.push_front(Part::Content(self.tail.end..end)),
        }
    }

    /// Bytes of memory that it has.
    fn holds(&self) -> usize {
        let queued: usize = self.queued.iter().map(|body| body.len() as usize).sum();
        queued + self.asking + self.spare.capacity()
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
