//! The sender's SACK scoreboard (RFC 2018, RFC 6675): what the peer reported
//! to hold above SND.UNA, what of the rest counts as lost, and what to send
//! next.
//!
//! Made when a connection first meets loss; empty and droppable again once
//! everything is acknowledged. Call order:
//!
//! ```text
//! on_ack for every ACK while it is not empty or the ACK carries SACK blocks
//!   └─► enter_recovery | on_rto when loss is found
//!         └─► (next_segment ─► on_retransmit)* within what cwnd and pipe allow
//! leave_recovery when the recovery point is acknowledged
//! ```
//!
//! Without SACK the same calls give NewReno (RFC 6582): `enter_recovery` and
//! `on_partial_ack` mark the segment at SND.UNA as lost.
//!
//! Beyond RFC 6675, a retransmission counts as lost again when what was sent
//! after it is SACKed by the same measure (DupThresh), instead of waiting for
//! the retransmission timer; RFC 8985 section 3 gives the reason.

#[cfg(test)]
mod tests;

use wire::tcp::SeqNum;

/// Duplicate ACKs or SACKed segments above that show a loss (RFC 6675
/// section 2).
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
    /// Whether bytes newly count as lost.
    pub new_loss: bool,
    /// The first block reported a segment received twice (RFC 2883).
    pub duplicate: bool,
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

/// What to send next in recovery.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum NextSegment {
    /// These bytes again; report with [`Scoreboard::on_retransmit`].
    Again {
        /// The first byte.
        seq: SeqNum,
        /// How many, at most a segment.
        len: u32,
    },
    /// New data from SND.NXT on.
    New,
    /// Nothing.
    Nothing,
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
    /// SND.NXT when it was sent: SACKs above were sent after it.
    mark: SeqNum,
}

/// The scoreboard of one connection.
#[derive(Clone, Debug)]
pub struct Scoreboard {
    mss: u32,
    /// The peer sends SACK blocks; without, nothing is rescued (RFC 6582 has
    /// no such rule).
    sack: bool,
    /// Sorted, disjoint, not touching, above SND.UNA.
    sacked: Vec<Range>,
    sacked_bytes: u32,
    /// Sorted, disjoint, without SACKed bytes.
    retransmitted: Vec<Retransmitted>,
    retransmitted_bytes: u32,
    /// What lies below is lost whatever SACK says: all of it after a timeout,
    /// the head on entering recovery.
    forced: Option<SeqNum>,
    /// Everything below is SACKed or retransmitted: where the search for the
    /// next hole goes on (HighRxt of RFC 6675 section 2).
    searched: Option<SeqNum>,
    recovery_point: Option<SeqNum>,
    /// No rescue until SND.UNA is beyond (RescueRxt of RFC 6675 section 2).
    rescued: Option<SeqNum>,
}

impl Scoreboard {
    /// An empty scoreboard; `sack` if both sides agreed on SACK.
    #[must_use]
    pub const fn new(mss: u32, sack: bool) -> Self {
        Self {
            mss,
            sack,
            sacked: Vec::new(),
            sacked_bytes: 0,
            retransmitted: Vec::new(),
            retransmitted_bytes: 0,
            forced: None,
            searched: None,
            recovery_point: None,
            rescued: None,
        }
    }

    /// The segment size changed (path MTU).
    pub fn set_mss(&mut self, mss: u32) {
        self.mss = mss;
    }

    /// An acceptable ACK: `una` is SND.UNA with it taken, `nxt` SND.NXT,
    /// `sack` its blocks as received. Blocks that no honest peer sends are
    /// ignored and counted.
    pub fn on_ack(&mut self, una: SeqNum, nxt: SeqNum, sack: &[(SeqNum, SeqNum)]) -> Delivered {
        let mut delivered = Delivered::default();
        let lost_before = self.sack_edge();
        self.advance(una, &mut delivered);
        for (index, &(start, end)) in sack.iter().enumerate() {
            if index == 0 && is_duplicate_report(una, sack) {
                delivered.duplicate = true;
            } else if start.after(una) && start.before(end) && end.at_or_before(nxt) {
                self.add_sacked(Range { start, end }, &mut delivered);
            } else if !end.at_or_before(una) {
                delivered.ignored_blocks += 1;
            } // Else a late ACK reports what is acknowledged since.
        }
        if delivered.newly_sacked > 0 {
            let lost_again = self.forget_lost_retransmissions();
            delivered.new_loss = lost_again || self.sack_edge() != lost_before;
        }
        delivered
    }

    /// Loss was found: by [`Scoreboard::is_lost`] of SND.UNA, or by
    /// [`DUP_THRESH`] duplicate ACKs (RFC 6675 section 5 step 4). The first
    /// segment counts as lost in either case.
    pub fn enter_recovery(&mut self, una: SeqNum, nxt: SeqNum) {
        self.recovery_point = Some(nxt);
        self.rescued = None;
        self.force_head(una, nxt);
    }

    /// An ACK in recovery advanced to `una`, short of the recovery point,
    /// without SACK: the segment there is lost too (RFC 6582 section 3.2
    /// step 3).
    pub fn on_partial_ack(&mut self, una: SeqNum, nxt: SeqNum) {
        self.force_head(una, nxt);
    }

    /// The recovery point was acknowledged.
    pub fn leave_recovery(&mut self) {
        self.recovery_point = None;
        self.rescued = None;
    }

    /// The retransmission timer ran out: everything not SACKed is lost, the
    /// retransmissions too. What was SACKed is kept (RFC 6675 section 5.1); a
    /// peer that discarded it is found out when SND.UNA reaches it.
    pub fn on_rto(&mut self, nxt: SeqNum) {
        self.forced = Some(nxt);
        self.retransmitted.clear();
        self.retransmitted_bytes = 0;
        self.searched = None;
        self.leave_recovery();
    }

    /// Forgets everything.
    pub fn clear(&mut self) {
        *self = Self::new(self.mss, self.sack);
    }

    /// Whether there is nothing to remember.
    #[inline]
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.sacked.is_empty()
            && self.retransmitted.is_empty()
            && self.forced.is_none()
            && self.recovery_point.is_none()
    }

    /// IsLost() (RFC 6675 section 4), for a byte that is not SACKed.
    #[must_use]
    pub fn is_lost(&self, seq: SeqNum) -> bool {
        self.edge().is_some_and(|edge| seq.before(edge))
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
        let edge = self.edge().map_or(una, |edge| edge.latest(una));
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

    /// NextSeg() (RFC 6675 section 4); `new` if new data waits and the peer's
    /// window has room for it. The caller sends what it is given.
    #[must_use]
    pub fn next_segment(&mut self, una: SeqNum, nxt: SeqNum, new: bool) -> NextSegment {
        let from = self.searched.map_or(una, |searched| searched.latest(una));
        let hole = self.hole_from(from, nxt);
        if let Some(hole) = hole {
            self.searched = Some(hole.start);
            // Rule 1: lost, and not sent again since.
            if self.is_lost(hole.start) && self.retransmitted.len() < MAX_RETRANSMITTED_RANGES {
                return NextSegment::Again { seq: hole.start, len: hole.len() };
            }
        }
        if new {
            return NextSegment::New; // Rule 2.
        }
        if let Some(hole) = hole
            && self.highest_sacked().is_some_and(|highest| hole.start.before(highest))
            && self.retransmitted.len() < MAX_RETRANSMITTED_RANGES
        {
            // Rule 3: not known to be lost, but below what arrived.
            return NextSegment::Again { seq: hole.start, len: hole.len() };
        }
        // Rule 4, once: the caller sends what it is given.
        let Some(rescue) = self.rescue(una, nxt) else { return NextSegment::Nothing };
        self.rescued = self.recovery_point;
        rescue
    }

    /// `len` bytes from `seq` were sent again, with SND.NXT at `nxt`.
    pub fn on_retransmit(&mut self, seq: SeqNum, len: u32, nxt: SeqNum) {
        let range = Range { start: seq, end: seq.plus(len) };
        let known = self.highest_sacked().is_some_and(|highest| seq.before(highest));
        if !known && !self.is_lost(seq) {
            // A rescue leaves HighRxt alone (RFC 6675 section 4 rule 4).
            return;
        }
        self.retransmitted_bytes -= subtract(&mut self.retransmitted, range);
        let at = self.retransmitted.partition_point(|r| r.range.start.before(range.start));
        self.retransmitted.insert(at, Retransmitted { range, mark: nxt });
        self.retransmitted_bytes = self.retransmitted_bytes.saturating_add(len);
        self.join_retransmitted(at);
        if self.retransmitted.len() >= MAX_RETRANSMITTED_RANGES {
            self.join_all_retransmitted();
        }
    }
}

impl Scoreboard {
    /// Everything not SACKed below this is lost.
    fn edge(&self) -> Option<SeqNum> {
        match (self.forced, self.sack_edge()) {
            (Some(forced), Some(sack)) => Some(forced.latest(sack)),
            (forced, sack) => forced.or(sack),
        }
    }

    /// The same by SACK alone. A byte is lost with [`DUP_THRESH`] ranges or
    /// more than DUP_THRESH - 1 segments SACKed above it, so the edge is the
    /// start of one of the topmost ranges.
    fn sack_edge(&self) -> Option<SeqNum> {
        let mut bytes = 0u32;
        for (count, range) in (1u32..).zip(self.sacked.iter().rev()) {
            bytes = bytes.saturating_add(range.len());
            if count >= DUP_THRESH || bytes > self.loss_bytes() {
                return Some(range.start);
            }
        }
        None
    }

    /// More SACKed bytes than this above a byte show that it is lost.
    fn loss_bytes(&self) -> u32 {
        (DUP_THRESH - 1).saturating_mul(self.mss)
    }

    fn force_head(&mut self, una: SeqNum, nxt: SeqNum) {
        let end = if nxt.forward_from(una) < self.mss { nxt } else { una.plus(self.mss) };
        self.forced = Some(self.forced.map_or(end, |forced| forced.latest(end)));
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
        }
        if let Some(first) = self.retransmitted.first_mut()
            && first.range.start.before(una)
        {
            self.retransmitted_bytes -= una.forward_from(first.range.start);
            first.range.start = una;
        }
        for mark in [&mut self.forced, &mut self.searched, &mut self.rescued] {
            if mark.is_some_and(|seq| seq.at_or_before(una)) {
                *mark = None;
            }
        }
    }

    fn add_sacked(&mut self, new: Range, delivered: &mut Delivered) {
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
            self.retransmitted_bytes -= subtract(&mut self.retransmitted, range);
        }
    }

    /// Retransmissions are lost again when what was first sent after them is
    /// SACKed to the measure of a loss. They are forgotten, which leaves their
    /// bytes lost and not sent again.
    fn forget_lost_retransmissions(&mut self) -> bool {
        let Some(limit) = self.mark_edge() else {
            return false;
        };
        let mut lowest: Option<SeqNum> = None;
        let mut bytes = 0;
        self.retransmitted.retain(|entry| {
            let lost = entry.mark.before(limit);
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
        bytes > 0
    }

    /// What was sent before SND.NXT reached this is lost if not SACKed: like
    /// [`Scoreboard::sack_edge`], to the byte.
    fn mark_edge(&self) -> Option<SeqNum> {
        let mut bytes = 0u32;
        for (count, range) in (1u32..).zip(self.sacked.iter().rev()) {
            if count >= DUP_THRESH {
                return Some(range.end);
            }
            let wanting = self.loss_bytes() - bytes;
            if range.len() > wanting {
                return Some(range.end.minus(wanting));
            }
            bytes += range.len();
        }
        None
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

    /// One segment up to the highest byte not SACKed, once per recovery, to
    /// learn of a lost tail without the timer (RFC 6675 section 4 rule 4).
    /// Not if this recovery has sent that byte again already: what the rule
    /// is for has then happened.
    fn rescue(&self, una: SeqNum, nxt: SeqNum) -> Option<NextSegment> {
        self.recovery_point?;
        if !self.sack || self.rescued.is_some() {
            return None;
        }
        let (floor, end) = match self.sacked.last() {
            Some(top) if top.end.at_or_after(nxt) => {
                let below = self.sacked.len().checked_sub(2).and_then(|i| self.sacked.get(i));
                (below.map_or(una, |range| range.end), top.start)
            }
            Some(top) => (top.end, nxt),
            None => (una, nxt),
        };
        let again = self.retransmitted.last().is_some_and(|r| r.range.end.at_or_after(end));
        let len = end.forward_from(floor).min(self.mss);
        (len > 0 && end.after(floor) && !again).then(|| NextSegment::Again { seq: end.minus(len), len })
    }

    /// Joins entry `at` with neighbours that it touches and shares a mark
    /// with.
    fn join_retransmitted(&mut self, at: usize) {
        for low in [Some(at), at.checked_sub(1)].into_iter().flatten() {
            if let (Some(a), Some(b)) = (self.retransmitted.get(low).copied(), self.retransmitted.get(low + 1).copied())
                && a.range.end == b.range.start
                && a.mark == b.mark
            {
                self.retransmitted.remove(low + 1);
                if let Some(entry) = self.retransmitted.get_mut(low) {
                    entry.range.end = b.range.end;
                }
            }
        }
    }

    /// At the limit: joins entries that touch, whatever their marks. The
    /// later mark counts, so a loss of the earlier is found later.
    fn join_all_retransmitted(&mut self) {
        self.retransmitted.dedup_by(|b, a| {
            let touch = a.range.end == b.range.start;
            if touch {
                a.range.end = b.range.end;
                a.mark = a.mark.latest(b.mark);
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

/// Takes `cut` out of the entries and returns the bytes taken.
fn subtract(entries: &mut Vec<Retransmitted>, cut: Range) -> u32 {
    let first = entries.partition_point(|r| r.range.end.at_or_before(cut.start));
    let after = entries.partition_point(|r| r.range.start.before(cut.end));
    let mut taken = 0;
    let mut left: [Option<Retransmitted>; 2] = [None, None];
    for entry in entries.get(first..after).unwrap_or(&[]) {
        taken += entry.range.len();
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
