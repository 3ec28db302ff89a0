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

use crate::Files;
use crate::blocks::{BlockPlace, Blocks};
use crate::config::SMALL_CHUNK;
use crate::faults::ReadOutcome;
use crate::ids::{EntryId, WorkId};
use crate::media::{NextSlice, next_slice};
use crate::reader::{Job, ReadFor};
use crate::source::Source;
use crate::store::Kind;
use crate::stream::{Layout, POLLED, Queued, STALLED, Stream, StreamHead};
use crate::work::Work;
use app::Body;
use core::time::Duration;
use exchange::{Composed, ExchangeId, Piece, Replies, Reply, ReplyEnd, ReplyFlow, Stop};
use std::collections::VecDeque;
use std::sync::Arc;

/// The usual piece, bytes.
const CHUNK: usize = 256 << 10;

const _: () = assert!(SMALL_CHUNK <= CHUNK);

/// With less room than this more is read once what is queued was taken.
const SMALL_ROOM: usize = 4 << 10;

/// So much is unsent, where nothing is, of what passes filters and has not ended.
const BEFORE_END: usize = 1;

/// Bytes of a file that the data path is given after each look at the file,
/// where it sends files by itself. Two of them may be queued.
const FILE_PIECE: u64 = 1 << 20;

/// And where others want the memory that it has, and what it has was sent and
/// not acknowledged, so that none can be taken back: a peer that took nothing
/// for so long is reset. A path that is interrupted for less than this is
/// waited for.
const GONE: Duration = Duration::from_secs(10);

impl Files {
    /// What is to be streamed of `entry`, a large file.
    pub(crate) fn new_stream<R: Replies + ?Sized>(
        &mut self,
        replies: &R,
        id: ExchangeId,
        entry: EntryId,
        composed: Composed,
    ) -> Option<Box<Stream>> {
        let source = self.source_of(entry)?;
        let mut vetted = 0;
        if self.streams.sends_files != Some(false) {
            // Where it leads was looked at within the time that entries hold.
            vetted = if source.file().is_some() { FILE_PIECE } else { 0 };
            self.streams.keep(&source, self.second);
        }
        let Composed { status, length, fields, parts } = composed;
        self.counters.streams += 1;
        self.counters.streams_open += 1;
        Some(Box::new(Stream {
            source,
            layout: Layout::default(),
            head: Some(StreamHead { status, length, fields }),
            parts,
            asked: false,
            asking: 0,
            queued: VecDeque::new(),
            spare: Vec::new(),
            block: None,
            was_taken_back: false,
            charged: 0,
            tail: 0..0,
            taken: replies.flow(id).taken,
            moved: replies.now(),
            moves: false,
            vetted,
            rate: None,
            is_read: false,
        }))
    }

    /// The file of an entry, if it is not in memory. All streams of a file in one state share one
    /// descriptor.
    pub(crate) fn source_of(&mut self, entry: EntryId) -> Option<Arc<Source>> {
        let Kind::Large { identity, path, live, .. } = &mut self.store.entry(entry).kind else { return None };
        Some(live.upgrade().unwrap_or_else(|| {
            let source = Arc::new(Source::new(Arc::clone(path), *identity, Arc::clone(self.reader.closings())));
            *live = Arc::downgrade(&source);
            source
        }))
    }

    /// The exchange of a work that streams, and its stream.
    fn stream(&mut self, work: WorkId) -> Option<(ExchangeId, &mut Stream)> {
        let work = self.works.get(work)?;
        Some((work.id, work.stream.as_deref_mut()?))
    }

    /// Asks for the next piece if there is room for it, and ends the stream
    /// when the peer has everything.
    pub(crate) fn pump<R: Replies + ?Sized>(&mut self, replies: &mut R, work: WorkId) {
        let Some(Work { id, stream: Some(stream), .. }) = self.works.get(work) else { return };
        let id = *id;
        if stream.asked {
            return;
        }
        let ReplyFlow { unsent, room: carried, taken, .. } = replies.flow(id);
        stream.reclaim(unsent);
        // What is sent at a rate is read a piece at a time.
        let sends_files = self.streams.sends_files != Some(false) && stream.rate.is_none() && !stream.is_read;
        let now = replies.now();
        self.streams.look(stream, taken, now);
        let Some(range) = stream.next_content() else {
            self.streams.charge(stream);
            self.end_stream(replies, work);
            return;
        };
        if carried < SMALL_ROOM && (carried == 0 || unsent > BEFORE_END) {
            self.stall(work, carried);
            return;
        }
        let stalls = unsent > 0 && !stream.was_taken_back && now.since(stream.moved) >= STALLED;
        if stalls && self.blocks.as_ref().is_some_and(Blocks::is_full) && stream.holds_blocks() {
            self.take_back(replies, work, true);
            return;
        }
        self.streams.charge(stream);
        if stream.layout.in_memory(range.start) > 0 {
            self.pump_memory(replies, work);
            return;
        }
        if sends_files {
            self.pump_file(replies, work, unsent);
            return;
        }
        let room = match stream.rate.as_mut().map_or(Ok(u64::MAX), |rate| rate.room(replies, id)) {
            Ok(room) => usize::try_from(room).unwrap_or(usize::MAX),
            Err(later) => {
                self.streams.later(later);
                return;
            }
        };
        let share = self.streams.share(stream, self.counters.streams_open as usize, &self.limits, now);
        let share = share.min(unsent.saturating_add(carried));
        if unsent > 0 && self.blocks.is_some() && (stream.was_taken_back || !stream.moves) {
            return;
        }
        // Two pieces in a share, so that one is read while one is sent.
        let most = if stream.was_taken_back { SMALL_CHUNK } else { CHUNK };
        let mut piece = (share / 2).clamp(SMALL_CHUNK, most).min(carried);
        if unsent > 0 && unsent + piece > share {
            return;
        }
        let full = self.streams.held + piece > self.limits.stream_bytes && !self.make_room(replies, Some(work), piece);
        if full && unsent > 0 {
            return;
        }
        if full {
            // However many there are, each goes on.
            piece = piece.min(SMALL_CHUNK);
        }
        let length = usize::try_from(range.end - range.start).unwrap_or(usize::MAX).min(piece).min(room);
        self.send_or_read(replies, work, range.start, length);
    }

    /// Sends so many bytes of the content from `start` on, if they are in a block that is shared, or waits for
    /// them; else they are read for this stream alone.
    fn send_or_read<R: Replies + ?Sized>(&mut self, replies: &mut R, work: WorkId, start: u64, length: usize) {
        let mut next = self.next_slice(work, length);
        if matches!(next, NextSlice::Full) && self.free_blocks(replies, work) {
            next = self.next_slice(work, length);
        }
        let Some(Work { stream: Some(stream), .. }) = self.works.get(work) else { return };
        match next {
            NextSlice::Alone => {}
            NextSlice::Full => self.counters.block_misses += 1,
            NextSlice::OfBlock(body, from, to) => {
                if let Some(rate) = &mut stream.rate {
                    rate.queue(u64::from(to - from));
                }
                return self.queue(replies, work, (body, from, to), true);
            }
            NextSlice::Waits => {
                stream.asked = true;
                self.working += 1;
                return;
            }
        }
        if let Some(rate) = &mut stream.rate {
            rate.queue(length as u64);
        }
        stream.asked = true;
        stream.asking = length;
        self.working += 1;
        let buffer = stream.buffer_for(length);
        self.streams.charge(stream);
        let source = Arc::clone(&stream.source);
        let offset = stream.layout.in_file(start);
        let whom = ReadFor::Stream(work);
        self.reader.submit(Job::Read { whom, source, offset, length, buffer });
    }

    fn next_slice(&mut self, work: WorkId, length: usize) -> NextSlice {
        let Some(blocks) = &mut self.blocks else { return NextSlice::Alone };
        let Some(Work { stream: Some(stream), .. }) = self.works.get(work) else { return NextSlice::Alone };
        next_slice(blocks, (work, stream), &mut self.reader, &mut self.counters, (length, self.second))
    }

    /// As [`Files::pump`], where what comes next is in memory: its share of that is queued, and
    /// nothing is read.
    fn pump_memory<R: Replies + ?Sized>(&mut self, replies: &mut R, work: WorkId) {
        self.begin_reply(replies, work);
        loop {
            let (open, now) = (self.counters.streams_open as usize, replies.now());
            let Some(Work { id, stream: Some(stream), .. }) = self.works.get(work) else { return };
            let Some(range) = stream.next_content() else { break };
            let left = stream.layout.in_memory(range.start).min(range.end - range.start);
            if left == 0 {
                break;
            }
            // Nothing of it is taken back that is not there any more.
            let Some(memory) = stream.layout.memory().cloned() else { return self.end_with_reset(replies, work) };
            let allowed = match stream.rate.as_mut().map_or(Ok(u64::MAX), |rate| rate.room(replies, *id)) {
                Ok(allowed) => allowed,
                Err(later) => return self.streams.later(later),
            };
            let ReplyFlow { unsent, room, .. } = replies.flow(*id);
            let share = self.streams.share(stream, open, &self.limits, now);
            let room = room.min(share.saturating_sub(unsent)) as u64;
            let length = left.min(room).min(allowed);
            if length == 0 {
                return;
            }
            if let Some(rate) = &mut stream.rate {
                rate.queue(length);
            }
            // What is in memory is below 4 GiB.
            replies.body(*id, Piece::Body(&memory, (range.start as u32, (range.start + length) as u32)));
            let id = *id;
            stream.advance(replies, id, length);
        }
        self.pump(replies, work);
    }

    /// Its carrier has no room for more: it keeps nothing but its place, and goes on when that is told of
    /// some. Its head does not wait for that, but for a look at the file.
    #[cold]
    fn stall(&mut self, work: WorkId, room: usize) {
        let Some((_, stream)) = self.stream(work) else { return };
        stream.spare = Vec::new();
        let looks = stream.head.is_some() && room == 0;
        if looks {
            stream.asked = true;
            let source = Arc::clone(&stream.source);
            self.working += 1;
            self.reader.submit(Job::Look { work, source });
        }
        if let Some(Work { stream: Some(stream), .. }) = self.works.get(work) {
            self.streams.charge(stream);
        }
    }

    /// Takes memory back from streams whose peers take nothing, for `bytes`
    /// more of another's. Returns whether there is room now; if not, further
    /// streams are looked at in the next call.
    #[cold]
    pub(crate) fn make_room<R: Replies + ?Sized>(
        &mut self,
        replies: &mut R,
        other: Option<WorkId>,
        bytes: usize,
    ) -> bool {
        for _ in 0..POLLED.min(self.streams.list.len()) {
            self.streams.reap = (self.streams.reap + 1) % self.streams.list.len();
            let work = self.streams.list[self.streams.reap];
            if Some(work) != other {
                self.take_back(replies, work, false);
            }
            if self.streams.held + bytes <= self.limits.stream_bytes {
                return true;
            }
        }
        false
    }

    /// Takes blocks back from streams whose peers take nothing. Returns whether any was; if not, further
    /// streams are looked at in the next call.
    #[cold]
    fn free_blocks<R: Replies + ?Sized>(&mut self, replies: &mut R, other: WorkId) -> bool {
        let mut any = false;
        for _ in 0..POLLED.min(self.streams.list.len()) {
            self.streams.reap = (self.streams.reap + 1) % self.streams.list.len();
            let work = self.streams.list[self.streams.reap];
            if work != other {
                any |= self.take_back(replies, work, true);
            }
        }
        any
    }

    /// Takes back what a stream has queued above its share, or all of it, for the blocks that it is in, if
    /// its peer takes nothing. Returns whether it had some.
    fn take_back<R: Replies + ?Sized>(&mut self, replies: &mut R, work: WorkId, for_blocks: bool) -> bool {
        let (now, open) = (replies.now(), self.counters.streams_open as usize);
        let Some(Work { id, stream: Some(stream), .. }) = self.works.get(work) else { return false };
        let id = *id;
        if stream.asked {
            return false;
        }
        let ReplyFlow { unsent, taken, .. } = replies.flow(id);
        stream.reclaim(unsent);
        self.streams.look(stream, taken, now);
        self.streams.charge(stream);
        let (share, still) = (self.streams.share(stream, open, &self.limits, now), now.since(stream.moved));
        let is_meant = if for_blocks { stream.holds_blocks() } else { stream.holds() > share };
        if still < STALLED || !is_meant {
            return false;
        }
        stream.spare = Vec::new();
        // Content alone: of heads and delimiters nothing is kept to be sent
        // again.
        let first = stream.tail.start.max(stream.layout.first_kept());
        let most = usize::try_from(stream.tail.end.saturating_sub(first)).unwrap_or(usize::MAX);
        let taken = replies.take_back(id, most) as u64;
        if taken > 0 {
            stream.go_back(taken);
            self.counters.stream_bytes_taken_back += taken;
            stream.give_back(taken as usize);
            stream.block = None;
        }
        // What was sent cannot be taken back, and is not asked for again.
        stream.was_taken_back |= for_blocks;
        self.streams.charge(stream);
        // Whoever finds no block is sent what is read for it alone: nobody is reset for that.
        if !for_blocks && still >= GONE && stream.charged > 0 && stream.holds() > share {
            self.counters.streams_evicted += 1;
            self.end_with_reset(replies, work);
        }
        true
    }

    /// The body cannot be sent to its end: nothing but a reset says so.
    fn end_with_reset<R: Replies + ?Sized>(&mut self, replies: &mut R, work: WorkId) {
        let Some(Work { id, stream: Some(stream), .. }) = self.works.take(work) else { return };
        self.stream_ended(&stream);
        replies.stop(id, Stop::Reset);
    }

    /// As [`Files::pump`], where the data path sends files by itself, or has
    /// not yet said that it does not.
    fn pump_file<R: Replies + ?Sized>(&mut self, replies: &mut R, work: WorkId, unsent: usize) {
        let Some((_, stream)) = self.stream(work) else { return };
        if stream.vetted > 0 {
            self.send_file(replies, work);
        } else if unsent as u64 <= FILE_PIECE {
            stream.asked = true;
            let source = Arc::clone(&stream.source);
            self.working += 1;
            self.reader.submit(Job::Look { work, source });
        }
    }

    /// Gives the data path what may be sent of the file.
    fn send_file<R: Replies + ?Sized>(&mut self, replies: &mut R, work: WorkId) {
        self.begin_reply(replies, work);
        let Some(Work { id, stream: Some(stream), .. }) = self.works.get(work) else { return };
        let id = *id;
        while stream.vetted > 0
            && let Some(range) = stream.next_content().filter(|range| stream.layout.in_memory(range.start) == 0)
            && let Some(file) = stream.source.file()
        {
            if stream.source.is_remote() {
                // Whoever has it may not answer, and sendfile(2) would wait for that: a thread does.
                (stream.vetted, stream.is_read) = (0, true);
                break;
            }
            let length = stream.vetted.min(range.end - range.start);
            let start = stream.layout.in_file(range.start);
            let taken = replies.body(id, Piece::File(file, (start, start + length)));
            let is_bounded = replies.flow(id).is_bounded();
            if taken || !is_bounded {
                self.streams.sends_files = Some(taken);
            }
            if taken {
                stream.vetted -= length;
                stream.advance(replies, id, length);
                self.counters.file_pieces += 1;
            } else {
                // It is read instead, and so looked at with each piece.
                (stream.vetted, stream.is_read) = (0, true);
            }
        }
        self.pump(replies, work);
    }

    /// Queues the head, unless it was, and what stands before the content.
    fn begin_reply<R: Replies + ?Sized>(&mut self, replies: &mut R, work: WorkId) {
        let Some(Work { id, request, stream: Some(stream), .. }) = self.works.get(work) else { return };
        let Some(StreamHead { status, length, fields }) = stream.head.take() else { return };
        let Some(request) = request.take() else { return };
        replies.begin(
            *id,
            &request.get(),
            &Reply { status, length, fields: fields.as_bytes(), reason: None },
            ReplyEnd::Length,
        );
        stream.send_delimiters(replies, *id);
    }

    /// A file was looked at, and is open.
    pub(crate) fn on_looked<R: Replies + ?Sized>(&mut self, replies: &mut R, work: WorkId, outcome: ReadOutcome) {
        if self.take_outcome(replies, work, outcome) {
            if let Some((_, stream)) = self.stream(work) {
                stream.vetted = FILE_PIECE;
            }
            self.send_file(replies, work);
        }
    }

    /// A piece was read.
    pub(crate) fn on_chunk<R: Replies + ?Sized>(
        &mut self,
        replies: &mut R,
        work: WorkId,
        buffer: Vec<u8>,
        outcome: ReadOutcome,
    ) {
        if !self.take_outcome(replies, work, outcome) {
            return;
        }
        let body = Body::new(buffer);
        let length = body.len();
        self.queue(replies, work, (body, 0, length), false);
    }

    /// Queues some of a body, which is a block that is shared or the stream's own, and goes on.
    fn queue<R: Replies + ?Sized>(
        &mut self,
        replies: &mut R,
        work: WorkId,
        (body, start, end): (Body, u32, u32),
        is_block: bool,
    ) {
        self.begin_reply(replies, work);
        let Some((id, stream)) = self.stream(work) else { return };
        replies.body(id, Piece::Body(&body, (start, end)));
        let length = end - start;
        stream.queued.push_back(if is_block { Queued::OfBlock(length as usize) } else { Queued::Own(body) });
        stream.advance(replies, id, length.into());
        self.counters.stream_chunks += 1;
        self.pump(replies, work);
    }

    /// A block was read, or could not be: who waits for it goes on.
    pub(crate) fn on_block<R: Replies + ?Sized>(
        &mut self,
        replies: &mut R,
        block: BlockPlace,
        (memory, from): (Vec<u8>, usize),
        outcome: ReadOutcome,
    ) {
        let Some(blocks) = &mut self.blocks else { return };
        let waiting = match outcome {
            ReadOutcome::Intact => blocks.filled(block, memory, from),
            ReadOutcome::Changed | ReadOutcome::Failed(_) => blocks.failed(block, memory),
        };
        for work in waiting {
            if self.take_outcome(replies, work, outcome) {
                self.pump(replies, work);
            }
        }
    }

    /// What the reader was asked for a stream is done: whether the stream goes on.
    fn take_outcome<R: Replies + ?Sized>(&mut self, replies: &mut R, work: WorkId, outcome: ReadOutcome) -> bool {
        let Some((_, stream)) = self.stream(work) else { return false };
        if outcome != ReadOutcome::Intact {
            let unsent = stream.head.is_some();
            self.break_stream(replies, work, unsent, outcome);
            return false;
        }
        stream.asked = false;
        stream.asking = 0;
        self.working -= 1;
        true
    }

    /// Once per turn: peers that took some of what was queued get more. The
    /// data path tells only when the queue is nearly empty, which on a long
    /// path is too late.
    pub(crate) fn poll_streams<R: Replies + ?Sized>(&mut self, replies: &mut R) {
        for _ in 0..POLLED.min(self.streams.list.len()) {
            if self.streams.next >= self.streams.list.len() {
                self.streams.next = 0;
            }
            let Some(&work) = self.streams.list.get(self.streams.next) else { return };
            if self.stream(work).is_some() {
                self.streams.next += 1;
                self.pump(replies, work);
            } else {
                self.streams.list.swap_remove(self.streams.next);
            }
        }
    }

    /// Everything is queued. The stream holds its share of memory until the
    /// peer has taken it, and only then the next request is answered: else a
    /// peer could have us queue one file after the other.
    fn end_stream<R: Replies + ?Sized>(&mut self, replies: &mut R, work: WorkId) {
        let Some((id, _)) = self.stream(work) else { return };
        replies.finish(id, b"");
        if replies.flow(id).unsent > 0 {
            return;
        }
        let Some(Work { stream: Some(stream), .. }) = self.works.take(work) else { return };
        self.stream_ended(&stream);
        replies.end(id);
    }

    /// The file is not what it was. Where the head is out, nothing but a
    /// reset tells the peer that the body is not whole.
    fn break_stream<R: Replies + ?Sized>(&mut self, replies: &mut R, work: WorkId, unsent: bool, outcome: ReadOutcome) {
        if let ReadOutcome::Failed(why) = outcome {
            self.note_fault(work, why);
        }
        if !unsent {
            self.counters.streams_broken += 1;
            return self.end_with_reset(replies, work);
        }
        let Some(mut work) = self.works.take(work) else { return };
        if let Some(stream) = work.stream.take() {
            self.stream_ended(&stream);
            if let Some(waiter) = work.guest {
                return self.wake_again(waiter, stream.source.path());
            }
        }
        self.respond_anew(replies, work, outcome);
    }

    /// A stream is over, whole or not.
    pub(crate) fn stream_ended(&mut self, stream: &Stream) {
        self.counters.streams_open -= 1;
        // The reader's answer finds nobody.
        self.working -= u32::from(stream.asked);
        self.streams.held -= stream.charged;
    }
}
