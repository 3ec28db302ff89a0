//! The tester: sends streams on time and follows every frame of them.
//!
//! One thread has all ports, so that what one sends and the other receives is
//! known in one place. Time comes as ticks of the caller's clock.

mod calm;
mod eager;
mod lane;
mod recorders;
mod stamped;

use crate::modifiers::Modifier;
use crate::stamps::{Apart, StampedBy};
use crate::stream::{Seen, Shape, look};
use crate::track::Arrival;
use crate::trial::{Stalls, TrialResult};
use core::time::Duration;
use eager::Eager;
use lane::Lane;
use link::{Link, Receive, Transmit};
pub use recorders::{Recorders, fill};
use wire::Time;

/// Most frames that a stream sends in a turn: what is due beyond waits for the
/// next, a microsecond later.
const TURN_LIMIT: usize = 64;

/// Looks at the clock meanwhile, at most: one may stand still.
const EAGER_LOOKS: u32 = 256;

/// Most frames received in a turn of a port.
const BURST: usize = 64;

/// How long a probe's next frame waits for the stamp of the last one's departure.
const STAMP_WAIT: Duration = Duration::from_millis(100);

/// Most lanes: a mark has eight bits for it.
pub const LANES_LIMIT: usize = 64;

/// When a stream sends.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Pacing {
    /// At thousandths of a frame per second, so many frames at a time.
    Rate {
        /// The rate.
        milli: u64,
        /// Frames that are due at one time: 1, unless bursts are asked for.
        burst: u32,
    },
    /// As fast as the ring takes frames.
    Max,
    /// One frame in flight: the next leaves when the last has come, and not
    /// before it is due at this rate (in thousandths; `None`: at once).
    Probe(Option<u64>),
}

/// A stream: what, when, which ways.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Stream {
    /// What people call it.
    pub name: String,
    /// Its frames.
    pub shape: Shape,
    /// When they are due.
    pub pacing: Pacing,
    /// From the first port to the second (or back to itself), and from the
    /// second to the first.
    pub ways: [bool; 2],
}

/// What a trial is.
#[derive(Clone, PartialEq, Debug)]
pub struct Plan {
    /// The streams.
    pub streams: Vec<Stream>,
    /// For how long frames are sent.
    pub duration: Duration,
    /// How long stragglers are waited for (RFC 2544 section 23: 2 s).
    pub drain: Duration,
    /// When a probe's frame counts as lost, so that the next may leave.
    pub probe_timeout: Duration,
    /// A frame sent later than this after it was due is one that the tester
    /// made up for.
    pub late: Duration,
    /// What is due for longer than this when the tester comes back from an
    /// absence is not sent any more, and counted as missed.
    pub give_up: Duration,
    /// A frame that is due so soon is waited for, because another look at the
    /// rings would make it late. Only where frames are far apart, and no probe's
    /// arrival is waited for. Nothing: not at all.
    pub eager: Duration,
    /// Tells this trial's frames from others'.
    pub signature: u32,
    /// The signatures of trials that the same program had before over these links: a device, or
    /// a queue on the way, may still hold frames of theirs.
    pub earlier: Vec<u32>,
    /// For flows drawn at random.
    pub seed: u64,
    /// Another rate, from some time on.
    pub stage: Option<RateStep>,
    /// The first frame of a stream that is due so long after the beginning is
    /// tagged: its latency is told apart.
    pub tag_after: Option<Duration>,
    /// Frames that take the places of some of each stream's, but for probes and
    /// captures.
    pub modifier: Option<Modifier>,
    /// Latency of probes, and of tagged frames, is by stamps of these, which the
    /// links have.
    pub stamped_by: Option<StampedBy>,
}

/// A second stage of a trial: every rate is another.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct RateStep {
    /// So long after the beginning.
    pub after: Duration,
    /// Such a share of what it was.
    pub share: f64,
}

impl Default for Plan {
    fn default() -> Self {
        Self {
            streams: Vec::new(),
            duration: Duration::from_secs(10),
            drain: Duration::from_secs(2),
            probe_timeout: Duration::from_millis(100),
            late: Duration::from_micros(10),
            give_up: Duration::from_millis(1),
            eager: Duration::ZERO,
            signature: 1,
            earlier: Vec::new(),
            seed: 1,
            stage: None,
            tag_after: None,
            modifier: None,
            stamped_by: None,
        }
    }
}

impl Plan {
    /// What is wrong with it, if anything.
    ///
    /// # Errors
    /// A sentence.
    pub fn check(&self, ports: usize) -> Result<(), String> {
        let lanes: usize = self.streams.iter().map(|stream| stream.ways.iter().filter(|way| **way).count()).sum();
        if lanes == 0 || lanes > LANES_LIMIT {
            return Err(format!("from 1 to {LANES_LIMIT} streams are sent, each direction being one"));
        }
        for stream in &self.streams {
            let least = stream.shape.smallest();
            let made = stream.shape.replay.is_none();
            if let Some(size) = stream.shape.sizes.iter().find(|size| made && **size < least) {
                return Err(format!(
                    "{}: frames of {size} bytes have no room for the mark: {least} at least",
                    stream.name
                ));
            }
            if stream.ways[1] && ports < 2 {
                return Err(format!("{}: with one link there is one direction", stream.name));
            }
        }
        Ok(())
    }

    /// Whether links of these MTUs take its frames, which they would drop one by one.
    ///
    /// # Errors
    /// A sentence that names the longest.
    pub fn check_links(&self, mtus: &[u16]) -> Result<(), String> {
        for stream in &self.streams {
            for (mtu, port) in mtus.iter().zip(1..).zip(stream.ways).filter_map(|(link, way)| way.then_some(link)) {
                stream.shape.fits(usize::from(*mtu)).map_err(|why| {
                    format!("{}: {why}, and link {port} has an MTU of {mtu}: raise it, or leave them out", stream.name)
                })?;
            }
        }
        Ok(())
    }
}

/// Where the tester stands.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TrialStage {
    /// Frames are sent.
    Sending,
    /// Stragglers are waited for.
    Draining,
    /// All is over.
    Over,
}

/// A trial under way.
pub struct Tester {
    plan: Plan,
    hz: u64,
    lanes: Vec<Lane>,
    recorders: Vec<Recorders>,
    start: u64,
    end: u64,
    over: u64,
    /// When the second stage begins, if it has not.
    stage_at: u64,
    /// What was due before the end has been sent, or is missed.
    closed: bool,
    last_turn: u64,
    /// When the slice ends that is under way.
    slice_end: u64,
    stopped: Option<u64>,
    stalls: Stalls,
    others: [u64; 4],
    has_replay: bool,
    late: u64,
    give_up: u64,
    timeout: u64,
    /// Which frames are waited for.
    eager: Eager,
    /// Nanoseconds of a tick, by 2^32.
    nanos: u64,
    sent_to: [bool; 2],
    /// How far the clocks of the two ports' stamps are apart.
    apart: Apart,
    stamp_wait: u64,
}

/// Which of `Tester::others`.
const DAMAGED: usize = 0;
const THEIRS: usize = 1;
const FOREIGN: usize = 2;
const EARLIER: usize = 3;

impl Tester {
    /// A trial that begins at `start`, over one port or two, on a clock of
    /// `hz` ticks per second.
    #[must_use]
    pub fn new(plan: Plan, ports: usize, hz: u64, start: u64) -> Self {
        let ticks =
            |span: Duration| u64::try_from(span.as_nanos() * u128::from(hz) / 1_000_000_000).unwrap_or(u64::MAX >> 1);
        let end = start.saturating_add(ticks(plan.duration));
        let mut lanes = Vec::new();
        for (index, stream) in plan.streams.iter().enumerate() {
            for direction in (0..2).filter(|way| stream.ways[*way]) {
                let mut lane = Lane::new(index, stream, (direction, ports), (hz, start), plan.seed);
                if direction == 1 && stream.ways[0] {
                    // Else each frame of one way would wait until that of the other is sent.
                    lane.stagger(ticks(plan.late));
                }
                if let Some(after) = plan.tag_after {
                    lane.tag_after(ticks(after), hz);
                }
                if let Some(by) = plan.stamped_by {
                    lane.stamp_by(by);
                }
                if let Some(modifier) = &plan.modifier {
                    let whose = (direction, lanes.len() as u8, plan.signature);
                    lane.modify_by(modifier, stream, whose, (hz, start));
                }
                lanes.push(lane);
            }
        }
        let eager = Eager::new(&plan, hz);
        let stage_at = plan.stage.map_or(u64::MAX, |stage| start.saturating_add(ticks(stage.after)));
        Self {
            stage_at,
            closed: false,
            eager,
            late: ticks(plan.late),
            give_up: ticks(plan.give_up),
            timeout: ticks(plan.probe_timeout),
            over: end.saturating_add(ticks(plan.drain)),
            nanos: ((1_000_000_000_u128 << 32) / u128::from(hz.max(1))) as u64,
            hz,
            recorders: lanes.iter().map(|_| Recorders::default()).collect(),
            lanes,
            start,
            end,
            last_turn: start,
            slice_end: start.saturating_add(hz / calm::SLICES),
            stopped: None,
            stalls: Stalls::default(),
            others: [0; 4],
            has_replay: plan.streams.iter().any(|stream| stream.shape.replay.is_some()),
            sent_to: [false; 2],
            apart: Apart::default(),
            stamp_wait: ticks(STAMP_WAIT),
            plan,
        }
    }

    /// Ends the sending at `now`, if it has not ended yet.
    pub fn stop(&mut self, now: u64) {
        if now < self.end {
            self.over = now + (self.over - self.end);
            self.end = now.max(self.start);
            self.stopped = Some(now);
        }
    }

    /// Where the trial stands.
    #[must_use]
    pub fn stage(&self, now: u64) -> TrialStage {
        match now {
            now if now < self.end => TrialStage::Sending,
            now if now < self.over => TrialStage::Draining,
            _ => TrialStage::Over,
        }
    }

    /// One turn: takes what has come, and sends what is due. `clock` is read
    /// where a frame is stamped; `time` is for links. Returns the frames
    /// received and sent.
    #[inline]
    pub fn turn<L: Link>(&mut self, links: &mut [L], clock: &mut impl FnMut() -> u64, time: Time) -> usize {
        let now = clock();
        let away = now.saturating_sub(self.last_turn.max(self.start));
        if away > self.late && !self.closed {
            self.stalls.on_stall(away);
        }
        self.last_turn = now;
        if now >= self.slice_end && !self.closed {
            let slice = (self.hz / calm::SLICES).max(1);
            let (passed, absences) = (1 + (now - self.slice_end) / slice, self.stalls.count);
            self.slice_end = now + slice;
            self.lanes.iter_mut().for_each(|lane| lane.end_slices(passed, absences));
        }
        if now >= self.stage_at {
            self.begin_stage();
        }
        let mut frames = 0;
        let due = self.lanes.iter().map(|lane| lane.schedule.due());
        let limit = if self.closed { BURST } else { self.eager.receive_limit(due, (now, self.late), links.len()) };
        if limit > 0 {
            for (port, link) in links.iter_mut().enumerate() {
                let (mut rx, _) = link.split();
                frames += self.receive(port, &mut rx, limit, clock, time);
            }
        }
        let received = frames;
        if self.plan.stamped_by.is_some() {
            self.take_departures(links, now);
        }
        // Once more after the end: for what was due since the turn before.
        if !self.closed && now >= self.start {
            self.closed = now >= self.end;
            for lane in 0..self.lanes.len() {
                let from = self.lanes[lane].from;
                if let Some(link) = links.get_mut(from) {
                    let (_, mut tx) = link.split();
                    let sent = self.send(lane, &mut tx, clock);
                    self.sent_to[from] |= sent > 0;
                    frames += sent;
                }
            }
            self.eager.left(frames - received);
            if self.closed {
                self.close();
            }
        }
        for (port, link) in links.iter_mut().enumerate() {
            // Also where nothing was sent: what was may still have to be told of.
            if core::mem::take(&mut self.sent_to[port & 1]) || frames == 0 {
                link.split().1.flush(time);
            }
        }
        frames
    }

    #[inline]
    fn receive(
        &mut self,
        port: usize,
        rx: &mut impl Receive,
        limit: usize,
        clock: &mut impl FnMut() -> u64,
        time: Time,
    ) -> usize {
        let count = rx.receive(time, limit);
        if count == 0 {
            return 0;
        }
        // Once they are there: a time before the look would make latencies too small.
        let now = clock();
        for index in 0..count {
            let stamp = if self.plan.stamped_by.is_some() { rx.stamp(index) } else { None };
            self.take(port, rx.frame(index), (now, stamp));
        }
        rx.release();
        count
    }

    #[inline]
    fn take(&mut self, port: usize, frame: &[u8], (now, stamp): (u64, Option<u64>)) {
        let (mark, at) = match look(frame, self.plan.signature) {
            Seen::Ours(mark, at) => (mark, at),
            other => return self.take_other(port, frame, now, other),
        };
        // A number that was never sent: the check let it through by chance, or somebody made it.
        let number = usize::from(mark.lane);
        let Some(lane) = self.lanes.get_mut(number).filter(|lane| mark.sequence < lane.sent.frames) else {
            self.others[DAMAGED] += 1;
            return;
        };
        // When a probe's frame left is known: one that says another time was made up.
        if lane.flying.is_some_and(|(number, left)| number == mark.sequence && !mark.is_of(left)) {
            self.others[DAMAGED] += 1;
            return;
        }
        lane.received += 1;
        if lane.to != port {
            lane.strayed += 1;
            return;
        }
        if !lane.frames.is_whole(frame, at) {
            lane.damaged += 1;
        }
        let age = mark.age(now);
        lane.came(now, mark.sequence, age);
        let arrival = lane.tracker.on_frame(mark.sequence);
        if lane.flying.is_some_and(|(number, _)| number == mark.sequence) {
            lane.flying = None;
        }
        if matches!(arrival, Arrival::InOrder | Arrival::Reordered) {
            match age {
                Some(age) => {
                    let nanos = ((u128::from(age) * u128::from(self.nanos)) >> 32) as u64;
                    lane.take_age(mark.sequence, (now, nanos, stamp), &self.apart, &mut self.recorders[number]);
                }
                None => lane.backwards += 1,
            }
        }
    }

    /// A frame without a mark of ours: of a capture that is sent here, or none.
    fn take_other(&mut self, port: usize, frame: &[u8], now: u64, seen: Seen) {
        let mut lanes = self.lanes.iter_mut().filter(|lane| lane.to == port);
        if self.has_replay && lanes.any(|lane| lane.replayed(frame, now)) {
            return;
        }
        // A flooded broadcast comes by any port, an answer by the one that its query left by.
        if self.plan.modifier.is_some() {
            let signature = self.plan.signature;
            let mut lanes = self.lanes.iter_mut().enumerate();
            if lanes.any(|(number, lane)| lane.modified(frame, (number as u8, signature), port)) {
                return;
            }
        }
        self.others[match seen {
            Seen::Theirs(whose) if self.plan.earlier.contains(&whose) => EARLIER,
            Seen::Theirs(_) => THEIRS,
            Seen::Other => FOREIGN,
            Seen::Damaged | Seen::Ours(..) => DAMAGED,
        }] += 1;
    }

    /// Every rate is another from now on.
    #[cold]
    fn begin_stage(&mut self) {
        let at = core::mem::replace(&mut self.stage_at, u64::MAX);
        let share = self.plan.stage.map_or(1.0, |stage| stage.share);
        self.lanes.iter_mut().for_each(|lane| lane.begin_stage((at, self.end), self.hz, share));
    }

    /// What was due before the end and is not sent yet was missed.
    #[cold]
    fn close(&mut self) {
        self.lanes.iter_mut().for_each(|lane| lane.miss_until(self.end));
    }

    /// Sends what is due of a lane.
    #[inline]
    fn send(&mut self, index: usize, tx: &mut impl Transmit, clock: &mut impl FnMut() -> u64) -> usize {
        let (end, late, give_up, timeout) = (self.end, self.late, self.give_up, self.timeout);
        let signature = self.plan.signature;
        let (lane, recorders) = (&mut self.lanes[index], &mut self.recorders[index]);
        let number = index as u8;
        match lane.pacing {
            Pacing::Max | Pacing::Probe(_) if self.closed => 0,
            Pacing::Max => lane.send_max(tx, (signature, number), clock),
            Pacing::Probe(rate) => {
                let now = clock();
                if let Some((_, left)) = lane.flying {
                    if now.wrapping_sub(left) < timeout {
                        return 0;
                    }
                    lane.sent.timeouts += 1;
                    lane.flying = None;
                }
                // NICs keep one stamp at a time.
                if lane.stamps.as_ref().is_some_and(|stamps| stamps.is_awaited(now, self.stamp_wait)) {
                    return 0;
                }
                if rate.is_some() && lane.schedule.due() > now {
                    return 0;
                }
                let sent = lane.emit(tx, (signature, number), now);
                if sent {
                    lane.flying = Some((lane.sent.frames - 1, now));
                }
                // It is due again from now on, however late this one was: no two may be in flight.
                while rate.is_some() && lane.schedule.due() <= now {
                    lane.schedule.advance();
                }
                usize::from(sent)
            }
            Pacing::Rate { burst, .. } => {
                let mut sent = 0;
                let mut now = clock();
                let (due, mut looks) = (lane.schedule.due(), 0);
                while now < due && due - now <= self.eager.ahead && due < end && looks < EAGER_LOOKS {
                    now = clock();
                    looks += 1;
                }
                while lane.schedule.due() <= now && lane.schedule.due() < end && sent < TURN_LIMIT {
                    let behind = now - lane.schedule.due();
                    if behind > give_up {
                        lane.miss(burst);
                        continue;
                    }
                    for _ in 0..burst {
                        recorders.behind.record(((u128::from(behind) * u128::from(self.nanos)) >> 32) as u64);
                        lane.sent.late += u64::from(behind > late);
                        sent += usize::from(lane.emit_due(tx, (signature, number), now, (recorders, self.nanos)));
                    }
                    lane.advance();
                    now = clock();
                }
                sent
            }
        }
    }

    /// What has come of it, at `now`.
    #[must_use]
    pub fn result(&self, now: u64) -> TrialResult {
        let mut result = self.counts(now, true);
        fill(&mut result, &self.recorders);
        result
    }

    /// Gives what was recorded for `others`, which must be as many, and empty.
    pub fn exchange(&mut self, others: &mut Vec<Recorders>) {
        if others.len() == self.recorders.len() {
            core::mem::swap(&mut self.recorders, others);
        }
    }

    /// How many lanes there are.
    #[must_use]
    pub fn lanes(&self) -> usize {
        self.lanes.len()
    }

    /// The counts at `now`, without distributions. Losses are exact where they
    /// are `settled`, after the last straggler; else they are those of frames
    /// that nobody waits for any more, at next to no cost.
    #[must_use]
    pub fn counts(&self, now: u64, settled: bool) -> TrialResult {
        let sending = now.clamp(self.start, self.end) - self.start;
        let seconds = |ticks: u64| ticks as f64 / self.hz as f64;
        let span = (self.start, self.end, self.hz);
        let lanes = self
            .lanes
            .iter()
            .map(|lane| lane.result(&self.plan.streams[lane.stream], (seconds(sending), span), settled));
        TrialResult {
            intended_seconds: self.plan.duration.as_secs_f64(),
            seconds: seconds(sending),
            complete: self.stopped.is_none() && now >= self.over,
            lanes: lanes.collect(),
            damaged_unknown: self.others[DAMAGED],
            earlier_marks: self.others[EARLIER],
            others_marks: self.others[THEIRS],
            foreign: self.others[FOREIGN],
            stalls: self.stalls.told(self.hz),
            clock_doubt: None,
        }
    }
}

#[cfg(test)]
mod tests;
