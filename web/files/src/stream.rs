//! A file being streamed: what of it is queued, what of it is to come, and its
//! share of memory.

use crate::config::{FileLimits, SMALL_CHUNK};
use crate::excerpt::Excerpt;
use crate::ids::WorkId;
use crate::source::Source;
use app::Body;
use core::ops::Range;
use core::time::Duration;
use exchange::{ExchangeId, FieldLines, Part, Piece, Replies};
use semantics::Status;
use std::collections::VecDeque;
use std::sync::Arc;
use wire::Time;

/// Files that stay open for the next request, where the data path sends them
/// by itself, so that it need not wait for the reader.
const KEPT_MAX: usize = 64;

/// Seconds that they stay open without one.
const KEPT_SECONDS: u64 = 10;

/// Streams looked after in one turn, for room that opened since.
pub const POLLED: usize = 32;

/// A peer that took nothing for so long is not one that reads.
pub const STALLED: Duration = Duration::from_secs(1);

/// A response that is being streamed.
#[derive(Debug)]
pub struct Stream {
    pub source: Arc<Source>,
    /// Where the content lies.
    pub layout: Layout,
    /// Sent along with the first piece: until then the answer may be another.
    pub head: Option<StreamHead>,
    pub parts: VecDeque<Part>,
    /// A piece is being read.
    pub asked: bool,
    /// Bytes of the piece that is being read.
    pub asking: usize,
    /// Pieces on their way, oldest first, for their memory.
    pub queued: VecDeque<Queued>,
    pub spare: Vec<u8>,
    /// The number of the block that it sends from now, where it shares them.
    pub block: Option<u64>,
    /// Its peer stalled, and was left none of what others share.
    pub was_taken_back: bool,
    /// Bytes that it counts for in [`Active::held`].
    pub charged: usize,
    /// The content queued last, as far as nothing stands behind it.
    pub tail: Range<u64>,
    /// What the peer had taken ([`exchange::ReplyFlow::taken`]) when it was last looked at,
    /// and when that last moved.
    pub taken: u32,
    pub moved: Time,
    /// Whether it ever moved.
    pub moves: bool,
    /// Bytes that the data path may be given before the file is looked at
    /// again.
    pub vetted: u64,
    /// How fast it may be sent, if that is limited.
    pub rate: Option<RateKept>,
    /// It is read though the data path may send files by itself.
    pub is_read: bool,
}

/// A piece on its way.
#[derive(Debug)]
pub enum Queued {
    /// In memory of the stream's own.
    Own(Body),
    /// So many bytes of a block that others send too.
    OfBlock(usize),
}

impl Queued {
    fn len(&self) -> usize {
        match self {
            Self::Own(body) => body.len() as usize,
            Self::OfBlock(bytes) => *bytes,
        }
    }
}

/// Where the bytes of content lie: the first of them in memory, those behind in the file.
#[derive(Debug, Default)]
pub struct Layout {
    /// Until they are with the peer.
    memory: Option<Body>,
    /// How many there are of these.
    length: u64,
    /// Where the others begin in the file.
    from: u64,
}

impl Layout {
    /// Of what is sent in place of the file.
    pub fn of(excerpt: Excerpt) -> Self {
        let Excerpt { before, content } = excerpt;
        Self { length: before.len().into(), memory: Some(before), from: content.start }
    }

    /// Where a byte of the content lies in the file.
    pub const fn in_file(&self, at: u64) -> u64 {
        at.saturating_sub(self.length) + self.from
    }

    /// How many bytes from this one on are in memory.
    pub const fn in_memory(&self, at: u64) -> u64 {
        self.length.saturating_sub(at)
    }

    /// These bytes, if they are in memory.
    pub const fn memory(&self) -> Option<&Body> {
        self.memory.as_ref()
    }

    /// The first byte that can be sent again.
    pub const fn first_kept(&self) -> u64 {
        if self.memory.is_some() { 0 } else { self.length }
    }

    /// What is in memory is sent up to this byte: nobody asks for it again once the peer has all
    /// of it.
    fn release(&mut self, at: u64) {
        if at >= self.length {
            self.memory.take_if(|memory| memory.is_free());
        }
    }

    fn holds(&self) -> usize {
        self.memory.as_ref().map_or(0, |memory| memory.len() as usize)
    }
}

/// How fast a file may be sent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Rate {
    /// Bytes a second.
    pub bytes: u64,
    /// Bytes before that counts.
    pub after: u64,
}

impl Rate {
    /// Bytes that may have been sent `since` the beginning: those of a second that
    /// has begun may be sent in it, as nginx has it.
    #[must_use]
    pub const fn allowed(self, since: Duration) -> u64 {
        self.bytes.saturating_mul(since.as_secs() + 1).saturating_add(self.after)
    }
}

/// How long before a second begins its bytes may be queued, where each leaves when it is due.
const AHEAD: Duration = Duration::from_millis(250);

/// A rate that is kept: by the connection's pacer, which has what may be sent in a second leave evenly; where
/// it has none, by what is queued.
#[derive(Clone, Copy, Debug)]
pub struct RateKept {
    rate: Rate,
    began: Time,
    /// Bytes of content that were queued, or are being read.
    queued: u64,
    /// The connection's pacer keeps it.
    is_paced: bool,
    /// Seconds since the beginning when that was last asked for.
    asked: u64,
}

impl RateKept {
    /// Begins it, before anything of the exchange's reply is queued.
    pub fn begin<R: Replies + ?Sized>(rate: Rate, replies: &mut R, id: ExchangeId) -> Self {
        let is_paced = rate.after == 0 && replies.pace(id, rate.bytes);
        Self { rate, began: replies.now(), queued: 0, is_paced, asked: 0 }
    }

    /// So many bytes are queued, or will be.
    pub const fn queue(&mut self, bytes: u64) {
        self.queued += bytes;
    }

    /// Bytes that may be queued now, those of a second at its beginning; or when some may.
    ///
    /// # Errors
    /// None may before this time.
    pub fn room<R: Replies + ?Sized>(&mut self, replies: &mut R, id: ExchangeId) -> Result<u64, Time> {
        let now = replies.now();
        let second = now.since(self.began).as_secs();
        if !self.is_paced && second > self.asked && self.queued > self.rate.after {
            self.asked = second;
            // What may be sent before the rate counts, and the first second's, has left by now: or its client
            // is slower than that, and none is needed.
            self.is_paced = replies.pace(id, self.rate.bytes);
        }
        self.room_at(now)
    }

    /// How long so many bytes take.
    #[must_use]
    pub const fn span(&self, bytes: u64) -> Duration {
        let rate = if self.rate.bytes == 0 { 1 } else { self.rate.bytes };
        Duration::from_millis(bytes.saturating_mul(1_000) / rate)
    }

    fn room_at(&self, now: Time) -> Result<u64, Time> {
        let bytes = self.rate.bytes;
        let ahead = if self.is_paced { AHEAD } else { Duration::ZERO };
        let since = now.since(self.began) + ahead;
        let (seconds, allowed) = (since.as_secs(), self.rate.allowed(since));
        match allowed.checked_sub(self.queued).filter(|room| *room > 0) {
            Some(room) => Ok(room),
            None => {
                let over = self.queued.saturating_sub(allowed) / bytes.max(1);
                Err(self.began + (Duration::from_secs(seconds + 1 + over) - ahead))
            }
        }
    }
}

#[derive(Debug)]
pub struct StreamHead {
    pub status: Status,
    pub length: Option<u64>,
    pub fields: FieldLines,
}

/// Who is streaming; some of them may have ended.
#[derive(Debug, Default)]
pub struct Active {
    pub list: Vec<WorkId>,
    pub next: usize,
    /// Bytes read and not yet acknowledged, or being read, as last seen; of
    /// each stream what is above [`SMALL_CHUNK`], which it always has.
    pub held: usize,
    /// Streams whose peers took something in this second, and in the last.
    pub moving: usize,
    pub moved: usize,
    /// When this second began.
    pub second_began: Time,
    /// The next to be looked at for memory to be taken back.
    pub reap: usize,
    /// Whether the data path sends files by itself; `None` until it was asked.
    pub sends_files: Option<bool>,
    /// Files open for the next request, and when each was last asked for
    /// (unix seconds).
    pub kept: Vec<(Arc<Source>, u64)>,
    /// When the next of those that are sent at a rate may go on.
    pub next_due: Option<Time>,
}

impl Active {
    /// One that is sent at a rate goes on at this time.
    pub fn later(&mut self, at: Time) {
        self.next_due = Some(self.next_due.map_or(at, |due| due.min(at)));
    }

    /// Whether there is none that goes on by itself.
    #[inline]
    pub fn are_over(&self) -> bool {
        self.list.is_empty() && self.next_due.is_none()
    }

    /// When the next of them goes on, after `now`. Those that were due by then have
    /// been looked at, or are in one of the next turns.
    pub fn due_after(&self, now: Time) -> Option<Time> {
        let due = self.next_due?;
        match due > now {
            true => Some(due),
            false if self.list.len() > POLLED => Some(now + Duration::from_millis(1)),
            false => None,
        }
    }

    /// One more.
    pub fn add(&mut self, work: WorkId) {
        self.list.push(work);
    }

    /// Keeps a file open for those who ask for it next.
    pub fn keep(&mut self, source: &Arc<Source>, second: u64) {
        if let Some((_, last)) = self.kept.iter_mut().find(|(kept, _)| Arc::ptr_eq(kept, source)) {
            *last = second;
        } else if self.kept.len() < KEPT_MAX {
            self.kept.push((Arc::clone(source), second));
        } else if let Some(oldest) = self.kept.iter_mut().min_by_key(|(_, last)| *last) {
            *oldest = (Arc::clone(source), second);
        }
    }

    /// Closes files that nobody asked for in a while.
    pub fn on_second(&mut self, second: u64, now: Time) {
        self.moved = core::mem::take(&mut self.moving);
        self.second_began = now;
        self.kept.retain(|(_, last)| last + KEPT_SECONDS > second);
    }

    /// Counts what `stream` holds now.
    pub fn charge(&mut self, stream: &mut Stream) {
        let bytes = stream.holds().saturating_sub(SMALL_CHUNK);
        self.held = self.held - stream.charged + bytes;
        stream.charged = bytes;
    }

    /// Notes whether the peer took something since the last look.
    pub fn look(&mut self, stream: &mut Stream, taken: u32, now: Time) {
        if stream.taken != taken {
            stream.taken = taken;
            self.moving += usize::from(!stream.moves || stream.moved < self.second_began);
            stream.moves = true;
            stream.was_taken_back = false;
            stream.moved = now;
        }
    }

    /// Bytes that `stream` may have queued.
    pub fn share(&self, stream: &Stream, open: usize, limits: &FileLimits, now: Time) -> usize {
        let reads = stream.moves && now.since(stream.moved) < STALLED;
        let among = if reads { self.moving.max(self.moved) } else { open };
        (limits.stream_bytes / 2 / among.max(1)).min(limits.stream_window).max(SMALL_CHUNK)
    }
}

impl Stream {
    /// The content to send next.
    pub fn next_content(&self) -> Option<Range<u64>> {
        self.parts.iter().find_map(|part| match part {
            Part::Content(range) => Some(range.clone()),
            Part::Bytes(_) => None,
        })
    }

    /// Queues what stands before the next piece of content; whether anything
    /// does.
    pub fn send_delimiters<R: Replies + ?Sized>(&mut self, replies: &mut R, id: ExchangeId) -> bool {
        let mut any = false;
        while let Some(Part::Bytes(part)) = self.parts.front() {
            replies.body(id, Piece::Bytes(part));
            self.parts.pop_front();
            any = true;
        }
        any
    }

    /// `length` bytes of the content are queued: what stands before the next
    /// follows.
    pub fn advance<R: Replies + ?Sized>(&mut self, replies: &mut R, id: ExchangeId, length: u64) {
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
        if self.send_delimiters(replies, id) {
            self.tail = 0..0;
        }
    }

    /// The last `length` bytes queued were taken back: they are to be sent
    /// again.
    pub fn go_back(&mut self, length: u64) {
        let end = self.tail.end;
        self.tail.end -= length;
        match self.parts.front_mut() {
            Some(Part::Content(range)) if range.start == end => range.start = self.tail.end,
            _ => self.parts.push_front(Part::Content(self.tail.end..end)),
        }
    }

    /// The last `bytes` of what is on its way are not.
    pub fn give_back(&mut self, mut bytes: usize) {
        while bytes > 0
            && let Some(last) = self.queued.back_mut()
        {
            let given = last.len().min(bytes);
            match last {
                Queued::OfBlock(left) => *left -= given,
                // Some of it is: its memory stays.
                Queued::Own(body) if !body.is_free() => return,
                Queued::Own(_) => {}
            }
            bytes -= given;
            if matches!(last, Queued::Own(_) | Queued::OfBlock(0)) {
                self.queued.pop_back();
            }
        }
    }

    /// Bytes of memory that it has.
    pub fn holds(&self) -> usize {
        self.on_their_way() + self.asking + self.spare.capacity() + self.layout.holds()
    }

    /// Whether it has some of what streams share on its way.
    pub fn holds_blocks(&self) -> bool {
        self.queued.iter().any(|queued| matches!(queued, Queued::OfBlock(_)))
    }

    fn on_their_way(&self) -> usize {
        self.queued.iter().map(Queued::len).sum()
    }

    /// Takes back the memory of pieces that the peer has, which has not taken so many bytes; one is
    /// kept.
    pub fn reclaim(&mut self, unsent: usize) {
        let mut behind = self.on_their_way();
        while let Some(first) = self.queued.front_mut() {
            behind -= first.len();
            match first {
                Queued::Own(body) => match body.get_mut() {
                    Some(bytes) => self.spare = core::mem::take(bytes),
                    None => break,
                },
                // What is unsent are the last bytes.
                Queued::OfBlock(_) if behind >= unsent => {}
                Queued::OfBlock(_) => break,
            }
            self.queued.pop_front();
        }
        let next = self.parts.iter().find_map(|part| match part {
            Part::Content(range) => Some(range.start),
            Part::Bytes(_) => None,
        });
        self.layout.release(next.unwrap_or(u64::MAX));
    }

    /// Memory for `length` bytes: what was kept, if it is not far too much.
    pub fn buffer_for(&mut self, length: usize) -> Vec<u8> {
        let spare = core::mem::take(&mut self.spare);
        if spare.capacity() <= 2 * length { spare } else { Vec::new() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_second_has_its_bytes_at_once() {
        let rate = Rate { bytes: 1_000, after: 500 };
        for (millis, allowed) in [(0, 1_500), (999, 1_500), (1_000, 2_500), (10_500, 11_500)] {
            assert_eq!(rate.allowed(Duration::from_millis(millis)), allowed);
        }
        assert_eq!(Rate { bytes: u64::MAX, after: 1 }.allowed(Duration::from_secs(9)), u64::MAX);
    }

    #[test]
    fn who_has_used_its_second_waits_for_the_next() {
        let began = Time::from_nanos(7);
        let rate = Rate { bytes: 1_000, after: 0 };
        let kept = |queued, is_paced| RateKept { rate, began, queued, is_paced, asked: 0 };
        let at = |millis| began + Duration::from_millis(millis);
        assert_eq!(kept(400, false).room_at(began), Ok(600));
        assert_eq!(kept(1_000, false).room_at(began), Err(at(1_000)));
        assert_eq!(kept(3_500, false).room_at(began), Err(at(3_000)));
        // A pacer has it leave when it is due: it may wait there for that.
        assert_eq!(kept(1_000, true).room_at(began), Err(at(750)));
        assert_eq!(kept(1_000, true).room_at(at(749)), Err(at(750)));
        assert_eq!(kept(1_000, true).room_at(at(750)), Ok(1_000));
        assert_eq!(kept(3_500, true).room_at(at(900)), Err(at(2_750)));
    }
}
