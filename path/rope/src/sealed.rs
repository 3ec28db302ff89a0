//! What our stack does with a sealed queue: it is pushed plaintext, and its length, its
//! offsets and what is released count what is sent.
//!
//! The first slice of such a queue does not stand inline: what copies plaintext into
//! transmit slots looks there, and finds nothing.

use crate::ledger::{Content, Ledger, Message, Place};
use crate::{NoFile, Rest, Rope, Slice, cut};
use core::hint::cold_path;
use seal::{Layer, Record, SealError};
use wire::Sum;
use wire::checksum;

/// Pieces of a record's plaintext that are handed over as they lie; more are put together
/// first.
const PARTS: usize = 16;

/// What is made for records, and not kept: one for all connections of a silo.
#[derive(Debug, Default)]
pub struct Workbench {
    /// A record as it is sent. In private memory: what a peer writes to gets finished bytes,
    /// and is not read. As long as the longest so far.
    sealed: Vec<u8>,
    /// The record that is there, of the connection whose turn it is, while it is sent in parts.
    begun: Option<Begun>,
    /// The plaintext of a record that lies in many pieces.
    text: Vec<u8>,
}

/// A record on the bench that is sent in parts.
#[derive(Clone, Copy, Debug)]
struct Begun {
    epoch: u8,
    number: u64,
    wire: u32,
    /// The last part is its end.
    ended: bool,
}

impl Workbench {
    /// It is another connection's turn.
    #[inline]
    pub const fn clear(&mut self) {
        self.begun = None;
    }

    /// Whether a record is there of which the end was not sent.
    #[inline]
    #[must_use]
    pub const fn is_amid(&self) -> bool {
        matches!(self.begun, Some(Begun { ended: false, .. }))
    }

    /// Room for a record of so many bytes.
    #[inline(always)]
    pub(crate) fn sealed(&mut self, wire: u32) -> &mut [u8] {
        self.begun = None;
        let wire = wire as usize;
        if self.sealed.len() < wire {
            cold_path();
            self.sealed.resize(wire, 0);
        }
        &mut self.sealed[..wire]
    }
}

/// A record that is sent in parts, as it is sent, so that it is sealed once for all of them.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Kept {
    epoch: u8,
    number: u64,
    bytes: Vec<u8>,
}

/// What a sealed queue has beside its plaintext.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Records {
    pub ledger: Ledger,
    kept: Option<Box<Kept>>,
    /// Bytes that were sent, and bytes that were sealed for that.
    sent: u64,
    sealed: u64,
}

const _: () = assert!(size_of::<Records>() <= 144, "a secured connection that rests keeps it");

impl Records {
    /// Whether no record is kept as it was sealed.
    #[inline]
    pub(crate) const fn has_kept_nothing(&self) -> bool {
        self.kept.is_none()
    }

    /// Keeps what is on the bench: one record, until it is acknowledged.
    #[inline(never)]
    fn keep(&mut self, bench: &Workbench) {
        let Some(Begun { epoch, number, wire, .. }) = bench.begun else { return };
        let mut kept = self.kept.take().unwrap_or_else(|| Box::new(Kept { epoch, number, bytes: Vec::new() }));
        (kept.epoch, kept.number) = (epoch, number);
        kept.bytes.clear();
        kept.bytes.extend_from_slice(&bench.sealed[..wire as usize]);
        self.kept = Some(kept);
    }

    /// A record of so many bytes is sealed, and sent.
    #[inline]
    pub(crate) const fn count(&mut self, wire: u32) {
        self.sent += wire as u64;
        self.sealed += wire as u64;
    }
}

/// Bytes of a connection that may be sealed for each that is sent.
const SEALED_PER_SENT: u64 = 8;
/// And as many beside that: what a path costs whose segments shrink, or that loses much.
const SEALED_FREE: u64 = 1 << 20;

/// What seals a record, and where to: a slot, or the bench, where its parts are sent from.
type To<'a> = (&'a mut dyn Layer, Option<&'a mut [u8]>);

/// Seals `parts`, on the bench or by way of it; the sum of what is written to a slot.
fn seal_to(record: &Record, parts: &[&[u8]], room: &mut [u8], (layer, slot): To<'_>) -> Result<Sum, SealError> {
    match slot {
        Some(out) => layer.seal_shared(record, parts, out, room),
        None => layer.seal(record, parts, room).map(|()| Sum::ZERO),
    }
}

impl Rope {
    /// What is queued from now on is plaintext of records, to each of which sealing adds
    /// `overhead`, of `most` bytes of plaintext at most; what is queued already is sent as
    /// it is. Segments have `segment` bytes, and keys are for so many `records`.
    pub fn secure(&mut self, (overhead, most): (u16, u16), segment: u16, records: u64) {
        let raw = self.len();
        let rest = self.rest.get_or_insert_default();
        if rest.records.is_some() {
            return;
        }
        if let Some(body) = self.head.take() {
            let (start, len) = (self.head_start, core::mem::take(&mut self.head_len));
            rest.slices.push_front(Slice::Body { body, start, len });
            rest.bytes += len;
            rest.cursor = (0, 0);
        }
        let ledger = Ledger::new(raw, (overhead, most), segment, records);
        rest.records = Some(Box::new(Records { ledger, kept: None, sent: 0, sealed: 0 }));
    }

    fn records(&self) -> Option<&Records> {
        self.rest.as_ref()?.records.as_deref()
    }

    fn records_mut(&mut self) -> Option<&mut Records> {
        self.rest.as_mut()?.records.as_deref_mut()
    }

    /// Segments have so many bytes from now on.
    pub fn set_segment(&mut self, segment: u16) {
        if let Some(records) = self.records_mut() {
            records.ledger.set_segment(segment);
        }
    }

    /// Fixes the records of a piece of `len` bytes behind the `sent` ones that have left.
    /// Those of a piece that the link cuts may be `large`; of one that is a segment, one may
    /// be for all of the `ahead` bytes that may leave in segments of their own. Returns how
    /// long the piece is to be.
    pub fn fix(&mut self, sent: u32, len: u32, (ahead, large): (u32, bool)) -> u32 {
        let plain = self.plain_len();
        self.records_mut().map_or(len, |records| records.ledger.fix(plain, sent, len, (ahead, large)))
    }

    /// A turn to send is over: keeps the record on the bench, if its end was not sent.
    #[inline]
    pub fn keep_begun(&mut self, bench: &mut Workbench) {
        if bench.is_amid()
            && let Some(records) = self.records_mut()
        {
            cold_path();
            records.keep(bench);
        }
        bench.clear();
    }

    /// Says something behind what was sent, before what no record has.
    pub fn say(&mut self, message: Message) {
        if let Some(records) = self.records_mut() {
            records.ledger.say(message);
        }
    }

    /// What no record has waits for the next keys ([`Rope::begin_epoch`]).
    pub fn wait_for_keys(&mut self) {
        if let Some(records) = self.records_mut() {
            records.ledger.wait_for_keys();
        }
    }

    /// What follows what was said is under the next keys.
    pub fn begin_epoch(&mut self, epoch: u8) {
        if let Some(records) = self.records_mut() {
            records.ledger.begin_epoch(epoch);
        }
    }

    /// Nothing is queued any more: `message` ends it.
    pub fn end(&mut self, message: Message) {
        if let Some(records) = self.records_mut() {
            records.ledger.end(message);
        }
    }

    /// Whether a message of the data path still finds a place: the end was not said.
    #[must_use]
    pub fn can_say(&self) -> bool {
        self.records().is_some_and(|records| !records.ledger.has_ended())
    }

    /// Whether all that may be sent under the keys was: data waits for others.
    #[must_use]
    pub fn is_used_up(&self) -> bool {
        self.records().is_some_and(|records| records.ledger.is_used_up())
    }

    /// Nothing is said any more.
    pub fn end_said(&mut self) {
        if let Some(records) = self.records_mut() {
            records.ledger.end_said();
        }
    }

    /// Epoch and number of the next record, and the epoch of the oldest one that may still
    /// be sent again.
    #[must_use]
    pub fn epochs(&self) -> Option<(u8, u64, u8)> {
        let ledger = &self.records()?.ledger;
        let (epoch, number) = ledger.next();
        Some((epoch, number, ledger.oldest_epoch()))
    }

    /// Drops at most `most` bytes of the end, as far as no record has them. Returns how many
    /// that was.
    pub fn take_back(&mut self, most: u32) -> u32 {
        let plain = self.plain_len();
        let Some(rest) = &mut self.rest else { return 0 };
        let Some(records) = &rest.records else { return 0 };
        let dropped = most.min(records.ledger.loose(plain));
        rest.drop_back(dropped);
        dropped
    }

    /// Whether more was sealed than was sent would explain: nobody who wants what is sent
    /// makes it so.
    #[must_use]
    pub fn is_overworked(&self) -> bool {
        let worked = |records: &Records| {
            records.sealed > records.sent.saturating_mul(SEALED_PER_SENT).saturating_add(SEALED_FREE)
        };
        self.records().is_some_and(worked)
    }

    /// Bytes that were sent of the records, and bytes that were sealed for that.
    #[must_use]
    pub fn sealing(&self) -> (u64, u64) {
        self.records().map_or((0, 0), |records| (records.sent, records.sealed))
    }

    /// Gives up memory that nothing is in.
    pub fn rest(&mut self) {
        let Some(rest) = &mut self.rest else { return };
        if rest.slices.is_empty() {
            rest.slices = std::collections::VecDeque::new();
        }
        if let Some(records) = &mut rest.records {
            records.ledger.rest();
        }
    }

    /// Writes what is sent from `offset` on into `out`, whole, and sums it: records that are
    /// fixed, sealed by `layer`. Of one that is not all there, the part. `out` gets finished
    /// bytes, and is not read.
    ///
    /// # Errors
    /// That of `layer`, or [`SealError::Length`] where no record has these bytes; what stands
    /// in `out` is not to be sent.
    pub fn seal_out(
        &mut self,
        offset: u32,
        out: &mut [u8],
        bench: &mut Workbench,
        layer: &mut dyn Layer,
    ) -> Result<Sum, SealError> {
        let mut sum = Sum::ZERO;
        let mut done = 0;
        let rest = self.rest.as_deref_mut().ok_or(SealError::Length)?;
        while done < out.len() {
            let records = rest.records.as_ref().ok_or(SealError::Length)?;
            let place = records.ledger.at(offset + done as u32).ok_or(SealError::Length)?;
            let n = (out.len() - done).min((place.wire - place.within) as usize);
            let room = &mut out[done..done + n];
            let part = match place.content {
                Content::Raw => rest.copy_plain(place.plain.0 + place.within, room),
                Content::Data | Content::Said(_) if n == place.wire as usize => {
                    rest.seal_place(&place, bench, (layer, Some(room)))?
                }
                Content::Data | Content::Said(_) => {
                    cold_path();
                    rest.seal_part(&place, room, bench, layer)?
                }
            };
            sum = sum.append(part, done % 2 == 1);
            done += n;
        }
        if let Some(records) = &mut rest.records {
            records.sent += out.len() as u64;
        }
        Ok(sum)
    }
}

impl<F> Rest<F> {
    /// Drops the first `n` bytes sent, and the plaintext of records that are done. Whether
    /// there are records.
    pub(crate) fn release_records(&mut self, n: u64) -> bool {
        let Some(records) = &mut self.records else { return false };
        // What is sent and not acknowledged are sequence numbers.
        let plain = records.ledger.release(n as u32);
        let passed = |kept: &Kept| {
            let first = records.ledger.at(0).map(|place| place.record);
            first.is_none_or(|first| first.epoch != kept.epoch || first.number > kept.number)
        };
        if records.kept.as_deref().is_some_and(passed) {
            records.kept = None;
        }
        self.drop_front(plain);
        true
    }

    fn drop_front(&mut self, mut n: u32) {
        self.bytes -= n;
        while n > 0 {
            let Some(Slice::Body { start, len, .. }) = self.slices.front_mut() else { return };
            let part = n.min(*len);
            let whole = part == *len;
            *start += part;
            *len -= part;
            n -= part;
            self.cursor = match self.cursor {
                (0, _) => (0, 0),
                (index, at) => (index - usize::from(whole), at - part),
            };
            if whole {
                self.slices.pop_front();
            }
        }
    }

    fn drop_back(&mut self, mut n: u32) {
        self.bytes -= n;
        self.cursor = (0, 0);
        while n > 0 {
            let Some(Slice::Body { len, .. }) = self.slices.back_mut() else { return };
            if *len > n {
                *len -= n;
                break;
            }
            n -= *len;
            self.slices.pop_back();
        }
    }
}

impl Rest<NoFile> {
    /// Copies what is queued from `from` on: what was queued before the queue was sealed goes
    /// out so.
    fn copy_plain(&mut self, from: u32, out: &mut [u8]) -> Sum {
        let mut sum = Sum::ZERO;
        let mut done = 0;
        while done < out.len() {
            let Some(((body, start, len), within)) = self.seek(from + done as u32) else { break };
            let n = (out.len() - done).min((len - within) as usize);
            let part = body.copy_to((start + within) as usize, &mut out[done..done + n]);
            sum = sum.append(part, done % 2 == 1);
            done += n;
        }
        sum
    }

    /// Seals a record.
    fn seal_place(&mut self, place: &Place, bench: &mut Workbench, to: To<'_>) -> Result<Sum, SealError> {
        if let Some(records) = &mut self.records {
            records.sealed += u64::from(place.wire);
            if bench.is_amid() {
                cold_path();
                records.keep(bench);
            }
        }
        if let Content::Said(message) = place.content {
            let (bytes, len) = message.bytes();
            return seal_to(&place.record, &[&bytes[..len]], bench.sealed(place.wire), to);
        }
        self.seal_text(&place.record, place.plain, bench, place.wire, to)
    }

    /// Seals `len` bytes of plaintext from `from` on, as a record of `wire` bytes.
    pub(crate) fn seal_text(
        &mut self,
        record: &Record,
        (from, len): (u32, u32),
        bench: &mut Workbench,
        wire: u32,
        to: To<'_>,
    ) -> Result<Sum, SealError> {
        let mut parts: [&[u8]; PARTS] = [&[]; PARTS];
        if let Some(count) = self.parts(from, len, &mut parts) {
            return seal_to(record, &parts[..count], bench.sealed(wire), to);
        }
        cold_path();
        bench.sealed(wire);
        let Workbench { sealed, text, .. } = bench;
        text.resize(len as usize, 0);
        self.copy_plain(from, text);
        seal_to(record, &[text], &mut sealed[..wire as usize], to)
    }

    /// The pieces of `len` bytes of plaintext from `from` on: how many, or `None` if there
    /// are more than there is room for.
    fn parts<'a>(&'a mut self, from: u32, len: u32, out: &mut [&'a [u8]; PARTS]) -> Option<usize> {
        let (_, within) = self.seek(from)?;
        let (index, _) = self.cursor;
        let mut skip = within;
        let mut left = len;
        let mut begun: *const app::Reads = core::ptr::null();
        for (count, slice) in self.slices.range(index..).enumerate() {
            let (body, start, slice_len) = slice.body();
            let n = left.min(slice_len - skip);
            *out.get_mut(count)? = cut(body, start + skip, n);
            crate::copy::note(body, n as usize, &mut begun);
            left -= n;
            skip = 0;
            if left == 0 {
                return Some(count + 1);
            }
        }
        None
    }

    /// A part of a record, which stays on the bench for those that follow in the same turn
    /// ([`Rope::keep_begun`] has it for later ones).
    fn seal_part(
        &mut self,
        place: &Place,
        out: &mut [u8],
        bench: &mut Workbench,
        layer: &mut dyn Layer,
    ) -> Result<Sum, SealError> {
        let Record { epoch, number, .. } = place.record;
        let from = place.within as usize;
        let part = from..from + out.len();
        let ended = part.end == place.wire as usize;
        if bench.begun.is_none_or(|begun| (begun.epoch, begun.number) != (epoch, number)) {
            cold_path();
            let kept = self.records.as_ref().and_then(|records| records.kept.as_deref());
            if let Some(kept) = kept.filter(|kept| (kept.epoch, kept.number) == (epoch, number)) {
                let part = kept.bytes.get(part).ok_or(SealError::Length)?;
                return Ok(checksum::copy_and_sum(out, part));
            }
            self.seal_place(place, bench, (layer, None))?;
        }
        bench.begun = Some(Begun { epoch, number, wire: place.wire, ended });
        let part = bench.sealed.get(part).ok_or(SealError::Length)?;
        Ok(checksum::copy_and_sum(out, part))
    }
}

#[cfg(test)]
mod tests;
