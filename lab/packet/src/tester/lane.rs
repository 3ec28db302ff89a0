//! One stream in one direction: what it sends, and what came of it.

use super::calm::Slices;
use super::{Pacing, Recorders, Stream, TURN_LIMIT};
use crate::mark::Mark;
use crate::modifiers::{Modified, Modifier, Modifying, Whose};
use crate::schedule::{MILLI, Schedule};
use crate::stamps::{Apart, StampedBy, Stamps};
use crate::stream::Frames;
use crate::track::Tracker;
use crate::trial::{Arrivals, Gaps, LaneResult, LatencyDistribution, Losses, Sent, TaggedStamps};
use link::Transmit;
use wire::Offload;

/// Gaps between numbers that came whose times are still known: the last loss
/// was in one of them.
const GAPS: usize = 64;

/// Frames came to the end if they came in the last of so many parts.
const PARTS: u64 = 20;

/// Numbers that did not come before one that did.
#[derive(Clone, Copy, Default)]
struct Gap {
    first: u64,
    /// The one that came.
    end: u64,
    /// When that left.
    left: u64,
}

/// One stream in one direction.
pub(super) struct Lane {
    pub stream: usize,
    pub from: usize,
    pub to: usize,
    pub frames: Frames,
    pub pacing: Pacing,
    pub schedule: Schedule,
    /// It is the second way of a stream; what makes one way's frame late for the other.
    staggered: Option<u64>,
    /// A probe's frame that has not come yet: its number, and when it left.
    pub flying: Option<(u64, u64)>,
    pub sent: Sent,
    first_sent: Option<u64>,
    last_sent: Option<u64>,
    /// Nanoseconds between two frames, where one is due at a time.
    period: Option<u64>,
    /// How that was kept, slice by slice. Boxed, as it is large.
    slices: Option<Box<Slices>>,
    /// When a frame last found the ring full.
    refused_at: Option<u64>,
    pub tracker: Tracker,
    gaps: [Gap; GAPS],
    gap: usize,
    pub received: u64,
    pub damaged: u64,
    /// Frames of this lane that came by a port that is not its own.
    pub strayed: u64,
    /// Frames from the future: a clock that stepped.
    pub backwards: u64,
    /// When the last one came, and the longest time in which none did.
    came_at: u64,
    silence: u64,
    /// The number of the tagged frame, and its latency.
    pub tag: u64,
    pub tagged_ns: Option<u64>,
    /// That by the tester's own clock, where the other is by stamps.
    tagged_age: Option<u64>,
    /// The rate has changed: what is told of its times would be of neither.
    staged: bool,
    /// Frames that take the places of some of its own. Boxed: nearly always
    /// there are none.
    modifying: Option<Box<Modifying>>,
    /// Its frames are stamped by others, as nearly never: a probe's all, of
    /// others the tagged one. Boxed, likewise.
    pub stamps: Option<Box<Stamps>>,
}

impl Lane {
    pub fn new(
        stream: usize,
        of: &Stream,
        (direction, ports): (usize, usize),
        (hz, start): (u64, u64),
        seed: u64,
    ) -> Self {
        let schedule = match of.pacing {
            Pacing::Rate { milli, burst } => Schedule::new(start, hz, milli, burst),
            Pacing::Probe(Some(milli)) => Schedule::new(start, hz, milli, 1),
            Pacing::Probe(None) | Pacing::Max => Schedule::new(start, hz, 0, 1),
        };
        let original = of.shape.replay.as_ref().is_some_and(|replay| replay.original);
        let mut frames = Frames::new(&of.shape, direction, seed.wrapping_add(stream as u64 + 1));
        frames.replay(&of.shape, (hz, start));
        let period = match of.pacing {
            Pacing::Rate { milli, burst: 1 } if !original => (1_000_000_000 * MILLI).checked_div(milli),
            _ => None,
        };
        Self {
            stream,
            from: direction,
            to: if ports < 2 { direction } else { 1 - direction },
            frames,
            pacing: of.pacing,
            schedule,
            staggered: None,
            flying: None,
            sent: Sent::default(),
            first_sent: None,
            last_sent: None,
            slices: period.map(|_| Box::new(Slices::new())),
            period,
            refused_at: None,
            tracker: Tracker::default(),
            gaps: [Gap::default(); GAPS],
            gap: 0,
            received: 0,
            damaged: 0,
            strayed: 0,
            backwards: 0,
            came_at: 0,
            silence: 0,
            tag: u64::MAX,
            tagged_ns: None,
            tagged_age: None,
            // At a capture's own times there is no rate.
            staged: original,
            modifying: None,
            stamps: None,
        }
    }

    /// Its frames are due in the middle between those of the other way, where they are
    /// so far apart that neither makes the other late, which takes `late` at most.
    pub fn stagger(&mut self, late: u64) {
        self.staggered = Some(late);
        if matches!(self.pacing, Pacing::Rate { .. }) && !self.is_original() {
            let period = self.schedule.period();
            if period / 2 >= late {
                self.schedule.put_off(self.schedule.due().saturating_add(period / 2));
            }
        }
    }

    /// The next frames are due.
    #[inline]
    pub fn advance(&mut self) {
        self.schedule.advance();
        if let Some(replaying) = &self.frames.replaying
            && let Some(due) = replaying.due()
        {
            self.schedule.put_off(due);
        }
    }

    /// A frame that was due is never sent.
    #[inline]
    pub fn pass(&mut self) {
        if let Some(replaying) = &mut self.frames.replaying {
            replaying.pass(false);
        }
    }

    /// Frames that were due are not sent any more.
    pub fn miss(&mut self, burst: u32) {
        self.sent.missed += u64::from(burst);
        (0..burst).for_each(|_| self.pass());
        self.advance();
    }

    /// Tags the first frame that is due so many ticks after the beginning, if
    /// none finds the ring full before; else one that is due soon after.
    pub fn tag_after(&mut self, ticks: u64, hz: u64) {
        if let Pacing::Rate { milli, burst } = self.pacing {
            let each = u128::from(hz) * u128::from(MILLI) * u128::from(burst.max(1));
            let bursts = (u128::from(ticks) * u128::from(milli)).div_ceil(each.max(1));
            self.tag = u64::try_from(bursts * u128::from(burst)).unwrap_or(u64::MAX);
        }
    }

    /// Its latency is by stamps, where it is a probe; else its tagged frame's, if
    /// it has one.
    pub fn stamp_by(&mut self, by: StampedBy) {
        if self.is_probe() || self.tag != u64::MAX {
            self.stamps = Some(Box::new(Stamps::new(by, self.from, self.to)));
        }
    }

    const fn is_probe(&self) -> bool {
        matches!(self.pacing, Pacing::Probe(_))
    }

    /// A latency by stamps is known: where it belongs.
    #[cold]
    pub fn take_stamped(&mut self, nanos: u64, recorders: &mut Recorders) {
        if self.is_probe() {
            recorders.latency.record(nanos);
        } else {
            self.tagged_ns = Some(nanos);
        }
    }

    /// A frame came for the first time, with this stamp; its age is by the tester's
    /// own clock.
    #[inline]
    pub fn take_age(
        &mut self,
        sequence: u64,
        (now, nanos, stamp): (u64, u64, Option<u64>),
        apart: &Apart,
        recorders: &mut Recorders,
    ) {
        let Some(stamps) = &mut self.stamps else {
            recorders.latency.record(nanos);
            if sequence == self.tag {
                self.tagged_ns = Some(nanos);
            }
            return;
        };
        let found = stamps.came(sequence, stamp, (now, nanos), apart);
        if self.is_probe() {
            recorders.beside.record(nanos);
        } else {
            recorders.latency.record(nanos);
            if sequence == self.tag {
                self.tagged_age = Some(nanos);
            }
        }
        if let Some(nanos) = found {
            self.take_stamped(nanos, recorders);
        }
    }

    /// Other frames take the places of some of its own from now on.
    pub fn modify_by(&mut self, modifier: &Modifier, stream: &Stream, whose: Whose, clock: (u64, u64)) {
        if self.frames.replaying.is_none() && !self.is_probe() {
            let mut modifying = Modifying::new(modifier, &stream.shape, whose, clock);
            if stream.ways == [true; 2] {
                modifying.verify_routes(&stream.shape, whose, clock.0);
            }
            self.modifying = Some(Box::new(modifying));
        }
    }

    /// Takes a frame that is one of those, or answers one; whether it does.
    pub fn modified(&mut self, frame: &[u8], whose: (u8, u32), port: usize) -> bool {
        let arrived = port == self.to;
        self.modifying.as_mut().is_some_and(|modifying| modifying.take(frame, whose, arrived))
    }

    /// Sends such a frame in the place of the test's next.
    #[cold]
    fn modify(&mut self, tx: &mut impl Transmit, now: u64) -> bool {
        let Some(modifying) = &mut self.modifying else { return false };
        if self.tag != u64::MAX && self.sent.frames < self.tag {
            // The frame that is due at that time has a lower number.
            self.tag -= 1;
        }
        let Some(len) = modifying.write(tx.slot(), now) else { return false };
        tx.commit(len, Offload::NONE);
        true
    }

    /// Another rate from `at` on.
    pub fn begin_stage(&mut self, (at, end): (u64, u64), hz: u64, share: f64) {
        if let Pacing::Rate { milli, burst } = self.pacing {
            self.miss_until(at.min(end));
            let milli = ((milli as f64 * share).round() as u64).max(1);
            self.schedule = Schedule::new(at, hz, milli, burst);
            if let Some(late) = self.staggered {
                self.stagger(late);
            }
            self.staged = true;
        }
    }

    /// What was due before `end` is not sent any more.
    pub fn miss_until(&mut self, end: u64) {
        if let Pacing::Rate { burst, .. } = self.pacing {
            while self.schedule.due() < end {
                self.miss(burst);
            }
        }
    }

    /// Sends the next frame, if there is room.
    #[inline]
    pub fn emit(&mut self, tx: &mut impl Transmit, (signature, lane): (u32, u8), now: u64) -> bool {
        if let Some(modifying) = &mut self.modifying
            && modifying.is_due(now)
        {
            return self.modify(tx, now);
        }
        let Some(slot) = tx.slot() else {
            self.sent.entrance += 1;
            self.refused_at = Some(now);
            self.pass();
            return false;
        };
        let mark = Mark { signature, lane, sequence: self.sent.frames, time: now };
        let Some(len) = self.frames.write(slot, &mark) else {
            // A capture that is over has none.
            let over = self.frames.replaying.as_ref().is_some_and(|replaying| replaying.is_over());
            self.sent.too_long += u64::from(!over);
            return false;
        };
        if let Some(stamps) = &mut self.stamps
            && (matches!(self.pacing, Pacing::Probe(_)) || mark.sequence == self.tag)
        {
            stamps.send(mark.sequence, now);
            tx.stamp_next();
        }
        tx.commit(len, Offload::NONE);
        self.sent.frames += 1;
        self.sent.bytes += len as u64;
        true
    }

    /// Sends a frame that is due, and notes its distance to the one before.
    #[inline]
    pub fn emit_due(
        &mut self,
        tx: &mut impl Transmit,
        whose: (u32, u8),
        now: u64,
        (recorders, nanos): (&mut Recorders, u64),
    ) -> bool {
        let sent = self.emit(tx, whose, now);
        if sent {
            match self.last_sent {
                Some(last) => {
                    let gap = ((u128::from(now.saturating_sub(last)) * u128::from(nanos)) >> 32) as u64;
                    recorders.gaps.record(gap);
                    if let Some(period) = self.period {
                        let deviation = gap.abs_diff(period);
                        recorders.deviation.record(deviation);
                        if let Some(slices) = &mut self.slices {
                            slices.record(deviation);
                        }
                    }
                }
                None => self.first_sent = Some(now),
            }
            self.last_sent = Some(now);
        }
        sent
    }

    /// A slice is over, or several that nobody looked at, with so many absences
    /// since the trial began.
    #[cold]
    pub fn end_slices(&mut self, passed: u64, absences: u64) {
        if let Some(slices) = &mut self.slices {
            slices.end(passed, [absences, self.sent.late + self.sent.missed]);
        }
    }

    /// As many as fit, stamped together.
    #[inline]
    pub fn send_max(&mut self, tx: &mut impl Transmit, whose: (u32, u8), clock: &mut impl FnMut() -> u64) -> usize {
        let room = tx.room().min(TURN_LIMIT / 2);
        if room == 0 {
            return 0;
        }
        let now = clock();
        (0..room).take_while(|_| self.emit(tx, whose, now)).count()
    }

    /// A frame came, before the tracker knows of it.
    #[inline]
    pub fn came(&mut self, now: u64, sequence: u64, age: Option<u64>) {
        let quiet = now.saturating_sub(self.came_at);
        if quiet > self.silence {
            // Before the first one there is no silence.
            self.silence = if self.came_at == 0 { 0 } else { quiet };
        }
        self.came_at = now;
        let expected = self.tracker.next();
        if sequence > expected {
            self.note_gap(expected, sequence, now.saturating_sub(age.unwrap_or(0)));
        }
    }

    #[cold]
    fn note_gap(&mut self, first: u64, end: u64, left: u64) {
        self.gaps[self.gap % GAPS] = Gap { first, end, left };
        self.gap += 1;
    }

    fn is_original(&self) -> bool {
        self.frames.replaying.as_ref().is_some_and(|replaying| replaying.is_original())
    }

    /// Takes a frame of a capture that is sent here; whether it is one.
    pub fn replayed(&mut self, frame: &[u8], now: u64) -> bool {
        let is_ours = self.frames.replaying.as_mut().is_some_and(|replaying| replaying.take(frame));
        if is_ours {
            self.received += 1;
            self.came_at = now;
        }
        is_ours
    }

    /// When the last frame left that was lost, or at the latest.
    fn last_loss(&self) -> Option<u64> {
        let lost = self.tracker.last_lost(self.sent.frames);
        let within = lost.map(|number| {
            let gap = self.gaps.iter().find(|gap| (gap.first..gap.end).contains(&number));
            gap.map_or(self.last_sent.unwrap_or(0), |gap| gap.left)
        });
        within.max(self.refused_at)
    }

    /// By how much longer frames took to be sent than they were to.
    fn stretching(&self) -> f64 {
        let (Pacing::Rate { milli, burst }, Some(first), Some(last)) = (self.pacing, self.first_sent, self.last_sent)
        else {
            return 0.0;
        };
        let modified = self.modifying.as_ref().map_or(0, |modifying| modifying.counts.sent + modifying.counts.refused);
        let due = self.sent.frames + self.sent.entrance + self.sent.missed + modified;
        let bursts = due.div_ceil(u64::from(burst.max(1))).saturating_sub(1);
        let ideal = bursts as f64 * f64::from(burst) * MILLI as f64 / milli.max(1) as f64;
        let took = last.saturating_sub(first) as f64;
        if self.staged || ideal <= 0.0 { 0.0 } else { (took / ideal).max(0.0) }
    }

    pub fn result(
        &self,
        of: &Stream,
        (seconds, (start, end, hz)): (f64, (u64, u64, u64)),
        settled: bool,
    ) -> LaneResult {
        let intended = match self.pacing {
            Pacing::Rate { milli, .. } if !self.is_original() => Some(milli as f64 / MILLI as f64),
            Pacing::Rate { .. } | Pacing::Max | Pacing::Probe(_) => None,
        };
        let nanos = |ticks: u64| (u128::from(ticks) * 1_000_000_000 / u128::from(hz.max(1))) as u64;
        let replayed = self.frames.replaying.as_ref().map(|replaying| replaying.arrivals());
        let modified = self.modifying.as_ref().map(|modifying| modifying.counts);
        let others = modified.map_or(0, |modified: Modified| modified.sent);
        let loss = if settled && replayed.is_none() { self.last_loss() } else { None };
        LaneResult {
            stream: of.name.clone(),
            from: self.from,
            to: self.to,
            mean_size: of.shape.mean_size(),
            probe: matches!(self.pacing, Pacing::Probe(_)),
            intended_rate: intended,
            rate: if seconds > 0.0 { (self.sent.frames + others) as f64 / seconds } else { 0.0 },
            sent: self.sent,
            received: self.received,
            arrivals: match replayed {
                Some((unique, duplicates)) => Arrivals { unique, duplicates, ..Arrivals::default() },
                None => self.tracker.counts(),
            },
            losses: match replayed {
                // Which of them were lost one after the other is not known.
                Some((unique, _)) if settled => {
                    Losses { frames: self.sent.frames.saturating_sub(unique), ..Losses::default() }
                }
                Some(_) => Losses::default(),
                None if settled => self.tracker.losses(self.sent.frames),
                None => self.tracker.settled(),
            },
            replayed: replayed.is_some(),
            unreached: self.frames.replaying.as_ref().map_or(0, |replaying| replaying.left()),
            damaged: self.damaged,
            strayed: self.strayed,
            backwards: self.backwards,
            latency: LatencyDistribution::default(),
            gaps: Gaps::default(),
            // Ticks for a second, until here.
            stretching: (self.stretching() / hz.max(1) as f64 - 1.0).max(0.0),
            last_loss_ns: loss.map(|at| nanos(at.saturating_sub(start))),
            silence_ns: nanos(self.silence),
            came_last: self.came_at >= end - (end - start) / PARTS,
            tagged_ns: self.tagged_ns,
            modified,
            stamped: self.stamps.as_ref().filter(|_| self.is_probe()).map(|stamps| stamps.result(settled)),
            tagged_by: self
                .stamps
                .as_ref()
                .filter(|_| !self.is_probe())
                .map(|stamps| TaggedStamps { stamped: stamps.result(settled), tester_ns: self.tagged_age }),
            calm: self.slices.as_ref().filter(|_| !self.staged).map(|slices| slices.told()),
        }
    }
}
