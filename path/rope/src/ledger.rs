//! Which record of a sealed connection stands where.
//!
//! A sealed queue keeps plaintext and is asked for records. Two counts run through it:
//! of plaintext, as applications queue it, and of what is sent, which TCP numbers. The
//! ledger maps one to the other for all that is not acknowledged: runs of equal records,
//! so that a bulk transfer is a run or two. What no record covers is loose: it is cut when
//! it is sent, and until then may be taken back.
//!
//! ```text
//!   released │ fixed: in records, some of it sent      │ loose        │ end
//!            ▲ SND.UNA, maybe within a record
//! ```
//!
//! A record is fixed once, when its first byte is about to be sent, and never cut anew
//! (RFC 8446 section 5.3: its number is its nonce, and another plaintext under the same
//! nonce would give away the keys' secrets).

use seal::message::{self, CLOSE_NOTIFY, KEY_UPDATE};
use seal::{ContentType, Record};
use std::collections::VecDeque;

/// The smallest record that is cut short for the sake of a segment's end, in bytes of
/// plaintext: what would be smaller leaves the segment short.
const LEAST: u32 = 64;

/// The least plaintext of a record that more follows, whatever the segments: a queue is
/// never sent in twice its bytes.
const LEAST_USUAL: u16 = 32;

/// Numbers under each key that data leaves for messages.
const FOR_MESSAGES: u64 = 16;

/// So many records before the last under a key, or half of them where there are fewer, it is
/// time to look after the keys that follow.
pub const KEYS_WEAR: u64 = 1 << 16;

/// What the data path says by itself.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Message {
    /// New keys from the next record on (RFC 8446 section 4.6.3).
    KeyUpdate,
    /// Nothing follows (RFC 8446 section 6.1).
    CloseNotify,
    /// There will be no other handshake (RFC 5246 section 7.2.2).
    NoRenegotiation,
    /// A fatal alert, with its description (RFC 8446 section 6.2).
    Fatal(u8),
}

impl Message {
    const fn kind(self) -> ContentType {
        match self {
            Self::KeyUpdate => ContentType::Handshake,
            Self::CloseNotify | Self::NoRenegotiation | Self::Fatal(_) => ContentType::Alert,
        }
    }

    const fn len(self) -> u32 {
        match self {
            Self::KeyUpdate => KEY_UPDATE.len() as u32,
            Self::CloseNotify | Self::NoRenegotiation | Self::Fatal(_) => CLOSE_NOTIFY.len() as u32,
        }
    }

    /// Its bytes, and how many of them count.
    pub(crate) const fn bytes(self) -> ([u8; message::MOST], usize) {
        let mut bytes = [0; message::MOST];
        let [first, second] = match self {
            Self::KeyUpdate => return (KEY_UPDATE, KEY_UPDATE.len()),
            Self::CloseNotify => CLOSE_NOTIFY,
            Self::NoRenegotiation => message::NO_RENEGOTIATION,
            Self::Fatal(description) => message::fatal(description),
        };
        (bytes[0], bytes[1]) = (first, second);
        (bytes, 2)
    }
}

/// What a run consists of.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Content {
    /// Bytes that were queued before the connection was sealed: sent as they are.
    Raw,
    /// The application's.
    Data,
    /// The data path's own.
    Said(Message),
}

/// Equal records, one behind the other.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Run {
    /// Of the first.
    number: u64,
    /// Where the first begins, in what is sent, modulo 2^32.
    wire_at: u32,
    /// The same, in plaintext.
    plain_at: u32,
    /// Plaintext of each.
    plain: u32,
    count: u32,
    padding: u16,
    epoch: u8,
    content: Content,
}

const _: () = assert!(size_of::<Run>() <= 32, "an idle connection has one, and a lossy one hundreds");

impl Run {
    #[inline(always)]
    fn wire(&self, overhead: u16) -> u32 {
        match self.content {
            Content::Raw => self.plain,
            Content::Data => self.plain + u32::from(self.padding) + u32::from(overhead),
            Content::Said(message) => message.len() + u32::from(overhead),
        }
    }
}

/// One record, and where it stands.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Place {
    pub record: Record,
    pub content: Content,
    /// Its bytes as it is sent.
    pub wire: u32,
    /// Where the byte that was asked for is in these.
    pub within: u32,
    /// Where its plaintext begins, from the first that is queued on; and its length.
    pub plain: (u32, u32),
}

/// How the queue ends.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum End {
    /// It does not.
    Open,
    /// By this, once nothing is loose.
    Due(Message),
    /// Nothing is said any more.
    Said,
}

/// The records of one sealed queue.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Ledger {
    first: Option<Run>,
    more: VecDeque<Run>,
    /// Of the next record.
    number: u64,
    /// Data is not sent under this number and above; messages are.
    last: u64,
    /// Where SND.UNA is, in what is sent, modulo 2^32.
    wire_base: u32,
    wire_fixed: u32,
    /// Where the first queued byte is, in plaintext.
    plain_base: u32,
    plain_fixed: u32,
    overhead: u16,
    /// Most plaintext of a record.
    most: u16,
    /// Plaintext of a record that fills a segment.
    usual: u16,
    epoch: u8,
    end: End,
    /// Data waits for the next keys, whatever these may seal still.
    waits: bool,
}

impl Ledger {
    /// Of a queue of which `raw` bytes go out as they are. Sealing adds `overhead` to a
    /// record, which has at most `most` bytes of plaintext. Keys are for so many `records`.
    pub fn new(raw: u32, (overhead, most): (u16, u16), segment: u16, records: u64) -> Self {
        let mut ledger = Self {
            first: None,
            more: VecDeque::new(),
            number: 0,
            last: records.saturating_sub(FOR_MESSAGES),
            wire_base: 0,
            wire_fixed: 0,
            plain_base: 0,
            plain_fixed: 0,
            overhead,
            most,
            usual: 0,
            epoch: 0,
            end: End::Open,
            waits: false,
        };
        ledger.set_segment(segment);
        if raw > 0 {
            ledger.push(Content::Raw, raw);
            // None of our keys was in use for it.
            ledger.number = 0;
        }
        ledger
    }

    /// So many records were sealed.
    #[cfg(test)]
    pub const fn skip_to(&mut self, number: u64) {
        self.number = number;
    }

    /// Segments have so many bytes from now on: what is loose is cut for them.
    pub fn set_segment(&mut self, segment: u16) {
        self.usual = segment.saturating_sub(self.overhead).max(LEAST_USUAL).min(self.most);
    }

    /// Bytes to be sent that are not acknowledged, while `plain` are queued: those that are
    /// loose in records for full segments.
    pub fn wire_len(&self, plain: u32) -> u32 {
        let loose = self.loose(plain);
        let records = loose.div_ceil(u32::from(self.usual));
        let end = match self.end {
            End::Due(message) => message.len() + u32::from(self.overhead),
            End::Open | End::Said => 0,
        };
        self.fixed() + loose + records * u32::from(self.overhead) + end
    }

    /// Bytes of records that are fixed and not acknowledged.
    pub const fn fixed(&self) -> u32 {
        self.wire_fixed.wrapping_sub(self.wire_base)
    }

    /// Queued bytes of plaintext in these.
    pub const fn fixed_plain(&self) -> u32 {
        self.plain_fixed.wrapping_sub(self.plain_base)
    }

    /// Of `plain` queued bytes, those that no record has.
    pub const fn loose(&self, plain: u32) -> u32 {
        plain.saturating_sub(self.fixed_plain())
    }

    /// Whether all is said and nothing is due.
    pub fn is_spent(&self) -> bool {
        self.wire_fixed == self.wire_base && !matches!(self.end, End::Due(_))
    }

    /// Whether all that may be sent under the keys was.
    pub const fn is_used_up(&self) -> bool {
        self.number >= self.last
    }

    /// Whether the end was said.
    pub fn has_ended(&self) -> bool {
        self.end == End::Said
    }

    /// The number of the next record, and its epoch.
    pub const fn next(&self) -> (u8, u64) {
        (self.epoch, self.number)
    }

    /// The epoch of the first record that is not acknowledged, or of the next.
    pub fn oldest_epoch(&self) -> u8 {
        self.first.map_or(self.epoch, |run| run.epoch)
    }

    /// Fixes records behind the `sent` bytes that have left, for a piece of `len` bytes that
    /// is about to: records that end where it ends, as far as that can be, and no longer
    /// than a segment unless `large`. Where it is one segment of several, and `ahead` bytes
    /// may leave with it, one record for as many of them as it takes. Returns how long the
    /// piece is to be: shorter where a record would otherwise begin in it with next to
    /// nothing.
    pub fn fix(&mut self, plain: u32, sent: u32, len: u32, (ahead, large): (u32, bool)) -> u32 {
        if ahead > len && self.fixed() == sent {
            self.fix_long(plain, ahead);
        }
        let overhead = u32::from(self.overhead);
        let top = u32::from(if large { self.most } else { self.usual });
        let mut room = len.saturating_sub(self.fixed().saturating_sub(sent));
        let mut end = len;
        while room > 0 {
            let loose = self.loose(plain);
            if loose == 0 {
                self.fix_end();
                break;
            }
            if self.is_used_up() || self.waits {
                // Not before there are new keys.
                end = end.min(self.fixed().saturating_sub(sent));
                break;
            }
            let fits = room.saturating_sub(overhead);
            let short = fits < LEAST.min(loose);
            if short && room < end {
                end -= room;
                break;
            }
            // Alone in its piece and longer than that: it begins, and the rest follows.
            let text = loose.min(top).min(if short { top } else { fits });
            self.push(Content::Data, text);
            room = room.saturating_sub(text + overhead);
        }
        end.min(self.fixed().saturating_sub(sent))
    }

    /// Fixes one record that takes several segments, of `room` bytes at most, and ends where a
    /// segment does unless it is all: if there is more to be sent than a segment takes.
    fn fix_long(&mut self, plain: u32, room: u32) {
        let (overhead, loose) = (u32::from(self.overhead), self.loose(plain));
        let segment = u32::from(self.usual) + overhead;
        let longest = u32::from(self.most) + overhead;
        let room = room.min(longest - longest % segment);
        let whole = room - room % segment;
        let text = if loose + overhead <= room { loose } else { whole.saturating_sub(overhead) };
        if text > u32::from(self.usual) && !(self.is_used_up() || self.waits) {
            self.push(Content::Data, text);
        }
    }

    /// As [`Ledger::fix`] for all of the `plain` bytes that are queued, where they are one
    /// record under the keys of `epoch` that has at most `most` bytes as it is sent, and
    /// nothing else is under way or due. Returns it, and how many it has.
    #[inline(always)]
    pub fn fix_single(&mut self, plain: u32, epoch: u8, most: u32) -> Option<(Record, u32)> {
        let young = self.last.saturating_sub(self.number) > KEYS_WEAR.min(self.last / 2);
        let wire = plain + u32::from(self.overhead);
        let fits = plain.wrapping_sub(1) < u32::from(self.usual) && wire <= most;
        if !(fits && young && self.first.is_none() && self.end == End::Open && self.epoch == epoch) {
            return None;
        }
        let (wire_at, plain_at) = (self.wire_fixed, self.plain_fixed);
        let content = Content::Data;
        self.first = Some(Run { number: self.number, wire_at, plain_at, plain, count: 1, padding: 0, epoch, content });
        self.number += 1;
        self.wire_fixed = wire_at.wrapping_add(wire);
        self.plain_fixed = plain_at.wrapping_add(plain);
        let kind = ContentType::ApplicationData;
        Some((Record { epoch, number: self.number - 1, kind, padding: 0 }, wire))
    }

    /// As [`Ledger::release`], if that is the only record, whole, with all of the `plain`
    /// bytes that are queued. Whether it was.
    #[inline(always)]
    pub fn release_single(&mut self, n: u32, plain: u32) -> bool {
        let Some(run) = &self.first else { return false };
        let whole = run.count == 1 && run.content == Content::Data && run.wire_at == self.wire_base;
        let all = run.wire(self.overhead) == n && run.plain == plain;
        if !(whole && all && self.more.is_empty()) {
            return false;
        }
        self.first = None;
        self.wire_base = self.wire_base.wrapping_add(n);
        self.plain_base = self.plain_base.wrapping_add(plain);
        true
    }

    /// Gives up memory that nothing is in.
    pub fn rest(&mut self) {
        if self.more.is_empty() {
            self.more = VecDeque::new();
        }
    }

    fn fix_end(&mut self) {
        if let End::Due(message) = self.end {
            self.end = End::Said;
            self.push(Content::Said(message), 0);
        }
    }

    /// Says `message` behind what was sent, before what is loose. Not once the end is said.
    pub fn say(&mut self, message: Message) {
        if self.end != End::Said {
            self.push(Content::Said(message), 0);
        }
    }

    /// Nothing follows what is queued but `message`.
    pub fn end(&mut self, message: Message) {
        if self.end == End::Open {
            self.end = End::Due(message);
        }
    }

    /// What was said is the end.
    pub const fn end_said(&mut self) {
        self.end = End::Said;
    }

    /// What is loose goes under the next keys, and waits for them.
    pub const fn wait_for_keys(&mut self) {
        self.waits = true;
    }

    /// What follows is under the next keys.
    pub const fn begin_epoch(&mut self, epoch: u8) {
        self.epoch = epoch;
        self.number = 0;
        self.waits = false;
    }

    /// `n` more bytes are acknowledged. Returns how many of plaintext go with them: those of
    /// records that are acknowledged as a whole.
    pub fn release(&mut self, n: u32) -> u32 {
        self.wire_base = self.wire_base.wrapping_add(n);
        let mut plain = 0;
        while let Some(run) = &mut self.first {
            let wire = run.wire(self.overhead).max(1);
            let passed = self.wire_base.wrapping_sub(run.wire_at) / wire;
            let done = passed.min(run.count);
            plain += done * run.plain;
            if done < run.count {
                run.count -= done;
                run.number += u64::from(done);
                run.wire_at = run.wire_at.wrapping_add(done * wire);
                run.plain_at = run.plain_at.wrapping_add(done * run.plain);
                break;
            }
            self.first = self.more.pop_front();
        }
        self.plain_base = self.plain_base.wrapping_add(plain);
        plain
    }

    /// The record that has the byte at `offset` from SND.UNA on.
    pub fn at(&self, offset: u32) -> Option<Place> {
        let target = self.wire_base.wrapping_add(offset);
        let begins = |run: &Run| (target.wrapping_sub(run.wire_at) as i32) >= 0;
        let run = match self.more.partition_point(begins) {
            0 => self.first.as_ref()?,
            n => self.more.get(n - 1)?,
        };
        let wire = run.wire(self.overhead).max(1);
        let behind = target.wrapping_sub(run.wire_at);
        let index = behind / wire;
        if index >= run.count {
            return None;
        }
        let kind = match run.content {
            Content::Said(message) => message.kind(),
            Content::Raw | Content::Data => ContentType::ApplicationData,
        };
        let number = run.number + u64::from(index);
        let plain_at = run.plain_at.wrapping_add(index * run.plain).wrapping_sub(self.plain_base);
        Some(Place {
            record: Record { epoch: run.epoch, number, kind, padding: run.padding },
            content: run.content,
            wire,
            within: behind - index * wire,
            plain: (plain_at, run.plain),
        })
    }

    fn push(&mut self, content: Content, plain: u32) {
        let run = Run {
            number: self.number,
            wire_at: self.wire_fixed,
            plain_at: self.plain_fixed,
            plain,
            count: 1,
            padding: 0,
            epoch: self.epoch,
            content,
        };
        self.number += 1;
        self.wire_fixed = self.wire_fixed.wrapping_add(run.wire(self.overhead));
        self.plain_fixed = self.plain_fixed.wrapping_add(plain);
        let last = self.more.back_mut().or(self.first.as_mut());
        match last {
            Some(last) if content == Content::Data && last.joins(&run) => last.count += 1,
            Some(_) => self.more.push_back(run),
            None => self.first = Some(run),
        }
    }
}

impl Run {
    /// Whether `next`, which follows, is one more of it.
    const fn joins(&self, next: &Self) -> bool {
        matches!(self.content, Content::Data)
            && self.plain == next.plain
            && self.epoch == next.epoch
            && self.padding == next.padding
    }
}
