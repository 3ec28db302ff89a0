//! One direction of a faulty link.

use crate::probability::Probability;
use core::cmp::Reverse;
use core::time::Duration;
use random::SplitMix64;
use std::collections::{BinaryHeap, VecDeque};
use wire::Time;
use wire::ethernet::HEADER_LEN;

/// What happens to the frames of one direction. The default is a whole link.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Impairment {
    /// A frame is lost, independently of others.
    pub loss: Probability,
    /// Frames are lost in bursts, beside `loss`.
    pub burst_loss: Option<BurstLoss>,
    /// A frame arrives twice.
    pub duplicate: Probability,
    /// One bit of a frame is flipped, anywhere in it.
    pub corrupt: Probability,
    /// A frame is held back, so that later frames overtake it.
    pub reorder: Probability,
    /// The longest that a reordered frame is held back beyond its time; each
    /// is by a uniform draw. Default 1 ms.
    pub reorder_by: Duration,
    /// Every frame takes this long. Default zero.
    pub delay: Duration,
    /// The delay varies by up to this much to each side, and by no more than
    /// the delay itself. It does not reorder: delay varies with the queues on
    /// a path, and those keep the order.
    pub jitter: Duration,
    /// The bottleneck. Default none.
    pub rate: Option<Rate>,
    /// Frames that may queue for the bottleneck, the one that is leaving
    /// included, beside [`Rate::queue_bytes`]. Default as many as there are.
    pub queue_frames: Option<u32>,
    /// Frames that carry packets of more bytes vanish, and nobody is told: a
    /// black hole. Default none.
    pub longest_packet: Option<u16>,
    /// Frames held at most, delayed and queued together; more are dropped and
    /// counted in [`FaultCounters::overflowed`]. Default 16,384: 25 MB of
    /// frames with the usual MTU, a tenth of a second at 2 Gbit/s. Too small
    /// shows as loss that the plan does not name; memory is taken as needed.
    pub hold_limit: usize,
}

impl Default for Impairment {
    fn default() -> Self {
        Self {
            loss: Probability::NEVER,
            burst_loss: None,
            duplicate: Probability::NEVER,
            corrupt: Probability::NEVER,
            reorder: Probability::NEVER,
            reorder_by: Duration::from_millis(1),
            delay: Duration::ZERO,
            jitter: Duration::ZERO,
            rate: None,
            queue_frames: None,
            longest_packet: None,
            hold_limit: 16 * 1024,
        }
    }
}

/// The Gilbert-Elliott model: the line is good or bad, and changes between
/// frames (E. N. Gilbert, Bell System Technical Journal 39, 1960; E. O.
/// Elliott, 42, 1963). Bursts last `1 / recover` frames on average.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct BurstLoss {
    /// From good to bad, per frame.
    pub fail: Probability,
    /// From bad to good, per frame.
    pub recover: Probability,
    /// Loss while good.
    pub loss_good: Probability,
    /// Loss while bad.
    pub loss_bad: Probability,
}

/// A bottleneck: frames leave one after the other at this rate, and queue for
/// it first in, first out, dropped at the tail.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Rate {
    /// Bytes per second, Ethernet headers included. Zero passes nothing.
    pub bytes_per_second: u64,
    /// Bytes that may queue; a frame that does not fit behind them is dropped.
    pub queue_bytes: u64,
}

/// What was done to the frames of one direction.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct FaultCounters {
    /// Frames that came.
    pub entered: u64,
    /// Frames that went on, duplicates and damaged ones included.
    pub passed: u64,
    /// Lost by [`Impairment::loss`] or [`Impairment::burst_loss`].
    pub lost: u64,
    /// Copies made.
    pub duplicated: u64,
    /// Frames with a flipped bit.
    pub corrupted: u64,
    /// Frames held back.
    pub reordered: u64,
    /// Dropped because the bottleneck's queue was full.
    pub queue_dropped: u64,
    /// Vanished because of [`Impairment::longest_packet`].
    pub swallowed: u64,
    /// What frames waited for the bottleneck before they began to leave, in
    /// byte-nanoseconds: divided by a time, the mean queue in that time.
    pub queued: u128,
    /// Dropped at [`Impairment::hold_limit`].
    pub overflowed: u64,
}

/// A frame that a lane holds.
#[derive(Default)]
pub(super) struct Frame {
    pub(super) bytes: Vec<u8>,
    pub(super) verified: bool,
}

/// A direction's faults and the frames that it holds.
///
/// Call order: `blank`, fill, `admit`; `take` what is due, then `give_back`.
pub(super) struct Lane {
    pub(super) impairment: Impairment,
    pub(super) counters: FaultCounters,
    random: SplitMix64,
    /// The burst-loss line is in its bad state.
    bad: bool,
    /// The bottleneck has sent all that it queues.
    idle_from: Time,
    /// When the frames have left that are in its queue; kept only where they are counted.
    departures: VecDeque<Time>,
    /// The latest due time of a frame that was not held back.
    in_order_until: Time,
    /// Entered so far: frames due at the same time leave in this order.
    sequence: u64,
    due: BinaryHeap<Reverse<(Time, u64, u32)>>,
    held: Vec<Frame>,
    /// Places in `held` that hold no frame.
    vacant: Vec<u32>,
    /// Buffers to use again.
    blanks: Vec<Frame>,
}

impl Lane {
    pub(super) fn new(impairment: Impairment, seed: u64) -> Self {
        Self {
            impairment,
            counters: FaultCounters::default(),
            random: SplitMix64::new(seed),
            bad: false,
            idle_from: Time::ZERO,
            departures: VecDeque::new(),
            in_order_until: Time::ZERO,
            sequence: 0,
            due: BinaryHeap::new(),
            held: Vec::new(),
            vacant: Vec::new(),
            blanks: Vec::new(),
        }
    }

    /// What comes from now on takes another way: it queues behind nothing that
    /// came before, and may overtake it.
    pub(super) fn reroute(&mut self, impairment: Impairment) {
        self.impairment = impairment;
        self.idle_from = Time::ZERO;
        self.departures.clear();
        self.in_order_until = Time::ZERO;
    }

    /// An empty frame to fill.
    pub(super) fn blank(&mut self) -> Frame {
        self.blanks.pop().unwrap_or_default()
    }

    /// Takes a frame's buffer back.
    pub(super) fn give_back(&mut self, mut frame: Frame) {
        frame.bytes.clear();
        frame.verified = false;
        self.blanks.push(frame);
    }

    /// Drops a frame for want of a place.
    pub(super) fn overflow(&mut self, frame: Frame) {
        self.counters.overflowed += 1;
        self.give_back(frame);
    }

    /// Decides what becomes of a frame that comes at `now`.
    pub(super) fn admit(&mut self, now: Time, frame: Frame) {
        self.counters.entered += 1;
        let longest = self.impairment.longest_packet.map_or(usize::MAX, |most| usize::from(most) + HEADER_LEN);
        if frame.bytes.len() > longest {
            self.counters.swallowed += 1;
            self.give_back(frame);
            return;
        }
        if self.loses() {
            self.counters.lost += 1;
            self.give_back(frame);
            return;
        }
        if self.impairment.duplicate.hits(&mut self.random) {
            self.counters.duplicated += 1;
            let mut copy = self.blank();
            copy.bytes.extend_from_slice(&frame.bytes);
            copy.verified = frame.verified;
            self.pass(now, copy);
        }
        self.pass(now, frame);
    }

    /// When the next frame is due.
    pub(super) fn next_due(&self) -> Option<Time> {
        self.due.peek().map(|Reverse((due, ..))| *due)
    }

    /// The next frame that is due by `now`.
    pub(super) fn take(&mut self, now: Time) -> Option<Frame> {
        if self.next_due()? > now {
            return None;
        }
        let Reverse((_, _, place)) = self.due.pop()?;
        self.vacant.push(place);
        self.counters.passed += 1;
        Some(core::mem::take(&mut self.held[place as usize]))
    }

    /// Draws whether the next frame is lost.
    fn loses(&mut self) -> bool {
        let mut lost = self.impairment.loss.hits(&mut self.random);
        if let Some(burst) = self.impairment.burst_loss {
            let change = if self.bad { burst.recover } else { burst.fail };
            self.bad ^= change.hits(&mut self.random);
            let loss = if self.bad { burst.loss_bad } else { burst.loss_good };
            lost |= loss.hits(&mut self.random);
        }
        lost
    }

    /// Damages, delays and holds a frame that is not lost.
    fn pass(&mut self, now: Time, mut frame: Frame) {
        if self.impairment.corrupt.hits(&mut self.random) && !frame.bytes.is_empty() {
            let bit = self.random.up_to(frame.bytes.len() as u64 * 8 - 1) as usize;
            frame.bytes[bit / 8] ^= 1 << (bit % 8);
            frame.verified = false;
            self.counters.corrupted += 1;
        }
        let Some(departs) = self.bottleneck(now, frame.bytes.len() as u64) else {
            self.counters.queue_dropped += 1;
            self.give_back(frame);
            return;
        };
        let due = self.due_after(departs);
        if self.due.len() >= self.impairment.hold_limit {
            self.overflow(frame);
            return;
        }
        let place = if let Some(place) = self.vacant.pop() {
            self.held[place as usize] = frame;
            place
        } else {
            self.held.push(frame);
            self.held.len() as u32 - 1
        };
        self.due.push(Reverse((due, self.sequence, place)));
        self.sequence += 1;
    }

    /// When a frame of `len` bytes has left the bottleneck; `None` if its
    /// queue is full.
    fn bottleneck(&mut self, now: Time, len: u64) -> Option<Time> {
        let Some(rate) = self.impairment.rate else { return Some(now) };
        let per_second = u128::from(rate.bytes_per_second);
        let starts = self.idle_from.max(now);
        let queued = starts.since(now).as_nanos() * per_second / NANOS;
        if per_second == 0 || queued + u128::from(len) > u128::from(rate.queue_bytes) || self.is_queue_full(now) {
            return None;
        }
        let takes = (u128::from(len) * NANOS).div_ceil(per_second);
        self.idle_from = starts + Duration::from_nanos(u64::try_from(takes).unwrap_or(u64::MAX));
        self.counters.queued += starts.since(now).as_nanos() * u128::from(len);
        if self.impairment.queue_frames.is_some() {
            self.departures.push_back(self.idle_from);
        }
        Some(self.idle_from)
    }

    /// Whether as many frames are in the bottleneck's queue as may be.
    fn is_queue_full(&mut self, now: Time) -> bool {
        let Some(most) = self.impairment.queue_frames else { return false };
        while self.departures.front().is_some_and(|left| *left <= now) {
            self.departures.pop_front();
        }
        self.departures.len() >= most as usize
    }

    /// When a frame that has left the bottleneck arrives.
    fn due_after(&mut self, departs: Time) -> Time {
        let Impairment { delay, jitter, reorder, reorder_by, .. } = self.impairment;
        let mut due = departs + delay;
        if !jitter.is_zero() {
            let jitter = jitter.min(delay);
            let span = Duration::from_nanos(self.random.up_to(nanos(jitter).saturating_mul(2)));
            due = departs + (delay - jitter) + span;
        }
        due = due.max(self.in_order_until);
        if reorder.hits(&mut self.random) {
            self.counters.reordered += 1;
            let back = Duration::from_nanos(self.random.up_to(nanos(reorder_by)));
            return due + back.max(Duration::from_nanos(1));
        }
        self.in_order_until = due;
        due
    }
}

const NANOS: u128 = 1_000_000_000;

fn nanos(span: Duration) -> u64 {
    u64::try_from(span.as_nanos()).unwrap_or(u64::MAX)
}
