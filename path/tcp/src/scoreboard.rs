//! The sender's SACK scoreboard (RFC 2018): what the peer reported to hold
//! above SND.UNA, what was sent again, and what to send again next.
//!
//! What is lost is for others to say: RACK by time (RFC 8985, where SACK was
//! agreed on), duplicate and partial acknowledgements (RFC 6582, without), the
//! retransmission timer. Made when a connection first meets loss; empty and
//! droppable again once everything is acknowledged. Call order:
//!
//! ```text
//! on_ack for every ACK while it is not empty or the ACK carries SACK blocks
//!   └─► mark_lost | mark_head_lost | on_rto, and lose_again, when loss is found
//!         └─► (next_segment ─► on_retransmit)* within what cwnd and pipe allow
//! ```

#[cfg(test)]
mod tests;

use crate::rack::{Departure, Judge, Verdict};
use wire::Time;
use wire::tcp::SeqNum;

/// SACKed segments above a hole that show a loss where no reordering was seen
/// (RFC 6675 section 2, RFC 8985 section 6.2 step 4).
pub const DUP_THRESH: u32 = 3;

/// Disjoint SACKed ranges remembered. A block that would need one more is
/// ignored and counted: the data is then sent again without need.
pub const MAX_SACKED_RANGES: usize = 256;

/// Disjoint retransmitted ranges told apart. At the limit, a retransmission is
/// taken together with the last one: a loss of either is found later.
pub const MAX_RETRANSMITTED_RANGES: usize = 256;

/// What one ACK changed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Delivered {
    /// Bytes SACKed for the first time.
    pub newly_sacked: u32,
    /// Bytes now acknowledged that had been SACKed before, and were counted
    /// as delivered then.
    pub covered: u32,
    /// The end of the highest first transmission that arrived.
    pub(crate) highest: Option<SeqNum>,
    /// The last sent of the retransmissions that are acknowledged now, or whose
    /// first transmissions are.
    pub(crate) again: Option<Departure>,
    /// The same of those that are SACKed: a timestamp tells nothing of them,
    /// for it is that of what arrived in order (RFC 7323 section 4.3).
    pub(crate) again_sacked: Option<Departure>,
    /// The first byte that is known to have arrived only now, and was sent
    /// only once.
    pub original: Option<SeqNum>,
    /// Such bytes arrived after some that were sent later.
    pub reordered: bool,
    /// By how many bytes these were ahead, at most.
    pub overtaken: u32,
    /// The first block reported what was received twice (RFC 2883).
    pub duplicate: Option<(SeqNum, SeqNum)>,
    /// Blocks ignored as impossible: empty, or outside SND.UNA..SND.NXT.
    pub ignored_blocks: u32,
    /// Blocks ignored at [`MAX_SACKED_RANGES`].
    pub refused_blocks: u32,
}

impl Delivered {
    /// DeliveredData of RFC 9937 section 6, for an ACK that advanced
    /// SND.UNA by `acked`.
    #[inline]
    #[must_use]
    pub const fn bytes(&self, acked: u32) -> u32 {
        acked.saturating_sub(self.covered).saturating_add(self.newly_sacked)
    }
}

/// `[start, end)`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Range {
    start: SeqNum,
    end: SeqNum,
}

impl Range {
    fn len(self) -> u32 {
        self.end.forward_from(self.start)
    }
}

/// Retransmitted and not yet acknowledged or SACKed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Retransmitted {
    range: Range,
    at: Time,
}

impl Retransmitted {
    fn departure(self) -> Departure {
        Departure { at: self.at, end: self.range.end }
    }
}

/// The scoreboard of one connection.
#[derive(Clone, Debug)]
pub struct Scoreboard {
    mss: u32,
    /// Sorted, disjoint, not touching, above SND.UNA.
    sacked: Vec<Range>,
    sacked_bytes: u32,
    /// Sorted, disjoint, without SACKed bytes.
    retransmitted: Vec<Retransmitted>,
    retransmitted_bytes: u32,
    /// What lies below and is not SACKed was lost when it was first sent.
    lost_below: Option<SeqNum>,
    /// Everything below is SACKed or retransmitted: where the search for the
    /// next hole goes on.
    searched: Option<SeqNum>,
    /// All that was sent again lies below: an acknowledgement from there on
    /// is of a first transmission.
    resent_below: Option<SeqNum>,
}

impl Scoreboard {
    /// An empty scoreboard.
    #[must_use]
    pub const fn new(mss: u32) -> Self {
        Self {
            mss,
            sacked: Vec::new(),
            sacked_bytes: 0,
            retransmitted: Vec::new(),
            retransmitted_bytes: 0,
            lost_below: None,
            searched: None,
            resent_below: None,
        }
    }

    /// The segment size changed (path MTU).
    pub fn set_mss(&mut self, mss: u32) {
        self.mss = mss;
    }

    /// An acceptable ACK: `before` is SND.UNA without it, `una` with it,
    /// `nxt` SND.NXT, `sack` its blocks as received. Blocks that no honest
    /// peer sends are ignored and counted.
    pub fn on_ack(&mut self, before: SeqNum, una: SeqNum, nxt: SeqNum, sack: &[(SeqNum, SeqNum)]) -> Delivered {
        let mut delivered = Delivered::default();
        // Blocks come in any order: only what lies below what was known to
        // have arrived tells of reordering.
        let known = self.highest_sacked();
        if una.after(before) {
            self.note_arrival(Range { start: before, end: una }, known, &mut delivered);
        }
        self.advance(una, &mut delivered);
        for (index, &(start, end)) in sack.iter().enumerate() {
            if index == 0 && is_duplicate_report(una, sack) {
                delivered.duplicate = Some((start, end));
            } else if start.after(una) && start.before(end) && end.at_or_before(nxt) {
                self.add_sacked(Range { start, end }, known, &mut delivered);
            } else if !end.at_or_before(una) {
                delivered.ignored_blocks += 1;
            } // Else a late ACK reports what is acknowledged since.
        }
        delivered
    }

    /// What was first sent below `edge` and is not SACKed is lost. Returns
    /// whether that is news: whether any of it was not known to be lost.
    pub fn mark_lost(&mut self, edge: SeqNum) -> bool {
        match self.lost_below {
            Some(known) if edge.at_or_before(known) => false,
            known => {
                self.lost_below = Some(edge);
                known.is_none_or(|known| self.misses(known, edge))
            }
        }
    }

    /// The segment at SND.UNA is lost (RFC 6582 section 3.2 steps 2 and 3).
    pub fn mark_head_lost(&mut self, una: SeqNum, nxt: SeqNum) {
        let end = if nxt.forward_from(una) < self.mss { nxt } else { una.plus(self.mss) };
        self.mark_lost(end);
    }

    /// Forgets the retransmissions that are lost themselves, which leaves
    /// their bytes lost and to be sent again. Returns how many bytes;
    /// `verdict` hears how long the others have left.
    pub(crate) fn lose_again(&mut self, judge: &Judge, verdict: &mut Verdict) -> u32 {
        self.forget_if(|entry| match judge.is_lost(entry.departure()) {
            Ok(()) => true,
            Err(wait) => {
                if let Some(wait) = wait {
                    verdict.wait_for(wait);
                }
                false
            }
        })
    }

    /// What was sent again from `start` to `end` is lost, and to be sent again.
    pub(crate) fn lose_again_from(&mut self, start: SeqNum, end: SeqNum) {
        self.forget_if(|entry| entry.range.start.at_or_after(start) && entry.range.start.before(end));
    }

    /// The retransmission timer ran out: the first transmissions below `edge`
    /// are lost, the first segment in any case, and all retransmissions
    /// (RFC 8985 section 6.3). What was SACKed is kept (RFC 6675 section
    /// 5.1); a peer that discarded it is found out when SND.UNA reaches it.
    pub fn on_rto(&mut self, una: SeqNum, nxt: SeqNum, edge: SeqNum) {
        self.mark_head_lost(una, nxt);
        self.mark_lost(edge);
        self.forget_if(|_| true);
    }

    /// What was found lost was not (RFC 4015): nothing is sent again.
    pub fn forgive(&mut self) {
        self.lost_below = None;
        self.searched = None;
        self.forget_if(|_| true);
    }

    /// Whether there is nothing to remember.
    #[inline]
    #[must_use]
    pub fn is_empty(&self) -> bool {
        // What was sent again and then found not to be lost may still be
        // acknowledged, and nobody can tell which transmission that answers.
        self.sacked.is_empty()
            && self.retransmitted.is_empty()
            && self.lost_below.is_none()
            && self.resent_below.is_none()
    }

    /// Whether a byte that is not SACKed was lost when it was first sent.
    #[must_use]
    pub fn is_lost(&self, seq: SeqNum) -> bool {
        self.lost_below.is_some_and(|edge| seq.before(edge))
    }

    /// Whether the byte at `seq` was sent again, and is believed to be in
    /// flight.
    pub(crate) fn is_resent(&self, seq: SeqNum) -> bool {
        self.retransmitted.iter().any(|entry| entry.range.start.at_or_before(seq) && entry.range.end.after(seq))
    }

    /// Whether the peer is known to hold all bytes from `start` to `end`, ahead
    /// of some that it lacks.
    pub(crate) fn is_sacked(&self, start: SeqNum, end: SeqNum) -> bool {
        start.before(end) && !self.misses(start, end)
    }

    /// Whether the peer is not known to hold all bytes from `start` to `end`.
    #[must_use]
    pub fn misses(&self, start: SeqNum, end: SeqNum) -> bool {
        let at = self.sacked.partition_point(|range| range.end.at_or_before(start));
        let covered =
            self.sacked.get(at).is_some_and(|range| range.start.at_or_before(start) && range.end.at_or_after(end));
        start.before(end) && !covered
    }

    /// Whether as much is SACKed as shows a loss where nothing is reordered:
    /// [`DUP_THRESH`] ranges, or more than one segment less (IsLost() of
    /// RFC 6675 section 4, for SND.UNA).
    #[must_use]
    pub fn dup_thresh(&self) -> bool {
        self.sacked.len() >= DUP_THRESH as usize || self.sacked_bytes > (DUP_THRESH - 1).saturating_mul(self.mss)
    }

    /// Bytes that were lost when they were first sent, and that the peer is
    /// not known to have got since.
    #[must_use]
    pub fn lost_bytes(&self, una: SeqNum) -> u32 {
        let Some(edge) = self.lost_below.filter(|edge| edge.after(una)) else { return 0 };
        let below = |range: &Range| {
            let end = if range.end.after(edge) { edge } else { range.end };
            if range.start.before(end) { end.forward_from(range.start) } else { 0 }
        };
        edge.forward_from(una).saturating_sub(self.sacked.iter().map(below).sum())
    }

    /// Bytes that were sent again and are believed to be in flight.
    #[must_use]
    pub const fn retransmitted_bytes(&self) -> u32 {
        self.retransmitted_bytes
    }

    /// Bytes SACKed above SND.UNA.
    #[inline]
    #[must_use]
    pub const fn sacked_bytes(&self) -> u32 {
        self.sacked_bytes
    }

    /// The end of the highest SACKed range.
    #[inline]
    #[must_use]
    pub fn highest_sacked(&self) -> Option<SeqNum> {
        self.sacked.last().map(|range| range.end)
    }

    /// SetPipe() (RFC 6675 section 4): the bytes believed to be in flight.
    /// Without SACK the caller takes off a segment per duplicate ACK.
    #[must_use]
    pub fn pipe(&self, una: SeqNum, nxt: SeqNum) -> u32 {
        let edge = self.lost_below.map_or(una, |edge| edge.latest(una));
        let mut sacked_above = 0u32;
        for range in self.sacked.iter().rev() {
            if range.end.at_or_before(edge) {
                break;
            }
            let from = range.start.latest(edge);
            sacked_above = sacked_above.saturating_add(range.end.forward_from(from));
        }
        let above = if nxt.after(edge) { nxt.forward_from(edge) } else { 0 };
        above.saturating_sub(sacked_above).saturating_add(self.retransmitted_bytes)
    }

    /// What to send again next: the first byte and how many, at most a
    /// segment (NextSeg() of RFC 6675 section 4, rule 1: what is lost and not
    /// sent again since; RACK leaves nothing for the other rules). Report with
    /// [`Scoreboard::on_retransmit`].
    #[must_use]
    pub fn next_segment(&mut self, una: SeqNum, nxt: SeqNum) -> Option<(SeqNum, u32)> {
        let from = self.searched.map_or(una, |searched| searched.latest(una));
        let hole = self.hole_from(from, nxt)?;
        self.searched = Some(hole.start);
        let may = self.is_lost(hole.start) && self.retransmitted.len() < MAX_RETRANSMITTED_RANGES;
        may.then(|| (hole.start, hole.len()))
    }

    /// `len` bytes from `seq`, which were lost, are sent again.
    pub fn on_retransmit(&mut self, seq: SeqNum, len: u32, at: Time) {
        let range = Range { start: seq, end: seq.plus(len) };
        self.retransmitted_bytes -= subtract(&mut self.retransmitted, range, &mut None);
        let index = self.retransmitted.partition_point(|r| r.range.start.before(range.start));
        self.retransmitted.insert(index, Retransmitted { range, at });
        self.retransmitted_bytes = self.retransmitted_bytes.saturating_add(len);
        self.resent_below = Some(self.resent_below.map_or(range.end, |below| below.latest(range.end)));
        self.join_retransmitted(index);
        if self.retransmitted.len() >= MAX_RETRANSMITTED_RANGES {
            self.join_all_retransmitted();
        }
    }
}

impl Scoreboard {
    /// The part of `range` that was sent only once has arrived; some of it
    /// may have been known to. `known`: the highest SACKed before.
    fn note_arrival(&self, range: Range, known: Option<SeqNum>, delivered: &mut Delivered) {
        let start = self.resent_below.map_or(range.start, |below| below.latest(range.start));
        if !start.before(range.end) {
            return;
        }
        delivered.highest = Some(delivered.highest.map_or(range.end, |highest| highest.latest(range.end)));
        let within = self.sacked.iter().find(|sacked| sacked.end.after(start));
        let new = within.map_or(start, |sacked| if sacked.start.at_or_before(start) { sacked.end } else { start });
        if new.before(range.end) {
            delivered.original = delivered.original.or(Some(new));
            if let Some(known) = known.filter(|known| new.before(*known)) {
                delivered.reordered = true;
                delivered.overtaken = delivered.overtaken.max(known.forward_from(new));
            }
        }
    }

    /// Drops what lies below `una`.
    fn advance(&mut self, una: SeqNum, delivered: &mut Delivered) {
        let passed = self.sacked.partition_point(|range| range.start.at_or_before(una));
        for range in self.sacked.drain(..passed) {
            self.sacked_bytes -= range.len();
            // A range that reaches beyond was discarded by the peer, or it
            // would have acknowledged its end (RFC 2018 section 8): those
            // bytes are to be sent again.
            let end = if range.end.after(una) { una } else { range.end };
            delivered.covered += end.forward_from(range.start);
            if range.end.after(una) {
                self.searched = None;
            }
        }
        let passed = self.retransmitted.partition_point(|r| r.range.end.at_or_before(una));
        for entry in self.retransmitted.drain(..passed) {
            self.retransmitted_bytes -= entry.range.len();
            later(&mut delivered.again, entry);
        }
        if let Some(first) = self.retransmitted.first_mut()
            && first.range.start.before(una)
        {
            later(&mut delivered.again, *first);
            self.retransmitted_bytes -= una.forward_from(first.range.start);
            first.range.start = una;
        }
        for mark in [&mut self.lost_below, &mut self.searched, &mut self.resent_below] {
            if mark.is_some_and(|seq| seq.at_or_before(una)) {
                *mark = None;
            }
        }
    }

    fn add_sacked(&mut self, new: Range, known: Option<SeqNum>, delivered: &mut Delivered) {
        self.note_arrival(new, known, delivered);
        // The ranges that it overlaps or touches.
        let first = self.sacked.partition_point(|range| range.end.before(new.start));
        let after = self.sacked.partition_point(|range| range.start.at_or_before(new.end));
        let touched = self.sacked.get(first..after).unwrap_or(&[]);
        let (Some(low), Some(high)) = (touched.first(), touched.last()) else {
            if self.sacked.len() >= MAX_SACKED_RANGES {
                delivered.refused_blocks += 1;
                return;
            }
            self.sacked.insert(first, new);
            self.count_sacked(new, new.len(), delivered);
            return;
        };
        let had: u32 = touched.iter().map(|range| range.len()).sum();
        let joined = Range {
            start: if low.start.before(new.start) { low.start } else { new.start },
            end: high.end.latest(new.end),
        };
        self.sacked.drain(first + 1..after);
        if let Some(range) = self.sacked.get_mut(first) {
            *range = joined;
        }
        self.count_sacked(new, joined.len() - had, delivered);
    }

    fn count_sacked(&mut self, range: Range, newly: u32, delivered: &mut Delivered) {
        self.sacked_bytes += newly;
        delivered.newly_sacked += newly;
        if newly > 0 {
            self.retransmitted_bytes -= subtract(&mut self.retransmitted, range, &mut delivered.again_sacked);
        }
    }

    /// Forgets retransmissions and returns how many bytes.
    fn forget_if(&mut self, mut lost: impl FnMut(Retransmitted) -> bool) -> u32 {
        let mut lowest: Option<SeqNum> = None;
        let mut bytes = 0;
        self.retransmitted.retain(|entry| {
            let lost = lost(*entry);
            if lost {
                bytes += entry.range.len();
                lowest = lowest.or(Some(entry.range.start));
            }
            !lost
        });
        self.retransmitted_bytes -= bytes;
        if let (Some(low), Some(searched)) = (lowest, self.searched)
            && low.before(searched)
        {
            self.searched = Some(low);
        }
        bytes
    }

    /// The first bytes from `from` on that are neither SACKed nor
    /// retransmitted, at most a segment of them.
    fn hole_from(&self, from: SeqNum, nxt: SeqNum) -> Option<Range> {
        let mut at = from;
        let mut sacked = self.sacked.partition_point(|range| range.end.at_or_before(at));
        let mut again = self.retransmitted.partition_point(|r| r.range.end.at_or_before(at));
        let mut end = nxt;
        loop {
            let next_sacked = self.sacked.get(sacked).copied();
            let next_again = self.retransmitted.get(again).map(|r| r.range);
            if let Some(range) = next_sacked
                && range.start.at_or_before(at)
            {
                at = at.latest(range.end);
                sacked += 1;
                continue;
            }
            if let Some(range) = next_again
                && range.start.at_or_before(at)
            {
                at = at.latest(range.end);
                again += 1;
                continue;
            }
            for range in [next_sacked, next_again].into_iter().flatten() {
                if range.start.before(end) {
                    end = range.start;
                }
            }
            break;
        }
        if !at.before(end) {
            return None;
        }
        let len = end.forward_from(at).min(self.mss);
        Some(Range { start: at, end: at.plus(len) })
    }

    /// Joins entry `at` with neighbours that it touches and shares a time
    /// with.
    fn join_retransmitted(&mut self, at: usize) {
        for low in [Some(at), at.checked_sub(1)].into_iter().flatten() {
            if let (Some(a), Some(b)) = (self.retransmitted.get(low).copied(), self.retransmitted.get(low + 1).copied())
                && a.range.end == b.range.start
                && a.at == b.at
            {
                self.retransmitted.remove(low + 1);
                if let Some(entry) = self.retransmitted.get_mut(low) {
                    entry.range.end = b.range.end;
                }
            }
        }
    }

    /// At the limit: joins entries that touch, whatever their times. The
    /// later counts, so a loss of the earlier is found later.
    fn join_all_retransmitted(&mut self) {
        self.retransmitted.dedup_by(|b, a| {
            let touch = a.range.end == b.range.start;
            if touch {
                a.range.end = b.range.end;
                a.at = a.at.max(b.at);
            }
            touch
        });
    }
}

/// Whether the first block reports a duplicate: it lies below the
/// acknowledgment, or within the second block (RFC 2883 section 4).
fn is_duplicate_report(una: SeqNum, sack: &[(SeqNum, SeqNum)]) -> bool {
    match sack {
        [(start, end), ..] if start.before(*end) && end.at_or_before(una) => true,
        [(start, end), (low, high), ..] => start.before(*end) && start.at_or_after(*low) && end.at_or_before(*high),
        _ => false,
    }
}

/// Keeps the later departure.
fn later(latest: &mut Option<Departure>, entry: Retransmitted) {
    if latest.is_none_or(|latest| entry.departure().is_after(latest)) {
        *latest = Some(entry.departure());
    }
}

/// Takes `cut` out of the entries and returns the bytes taken; `latest` hears
/// of the last sent.
fn subtract(entries: &mut Vec<Retransmitted>, cut: Range, latest: &mut Option<Departure>) -> u32 {
    let first = entries.partition_point(|r| r.range.end.at_or_before(cut.start));
    let after = entries.partition_point(|r| r.range.start.before(cut.end));
    let mut taken = 0;
    let mut left: [Option<Retransmitted>; 2] = [None, None];
    for entry in entries.get(first..after).unwrap_or(&[]) {
        taken += entry.range.len();
        later(latest, *entry);
        if entry.range.start.before(cut.start) {
            let range = Range { start: entry.range.start, end: cut.start };
            taken -= range.len();
            left[0] = Some(Retransmitted { range, ..*entry });
        }
        if entry.range.end.after(cut.end) {
            let range = Range { start: cut.end, end: entry.range.end };
            taken -= range.len();
            left[1] = Some(Retransmitted { range, ..*entry });
        }
    }
    if first < after {
        entries.splice(first..after, left.into_iter().flatten());
    }
    taken
}
