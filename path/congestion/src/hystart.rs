//! HyStart: leaves the first slow start before the queue overflows, when the
//! round-trip time grows, or when acknowledgements come in a train as long as
//! half of it.
//!
//! The round trip is judged as HyStart++ does it (RFC 9406 section 4.2), the
//! train as in S. Ha, I. Rhee, Taming the elephants (2011), section 4.1, by
//! Linux's figures (`hystart_update` in net/ipv4/tcp_cubic.c). Either ends slow
//! start at once. HyStart++'s conservative slow start, which would grow on for five
//! rounds, was measured beside it: through queues of one and of half a
//! bandwidth-delay product it lost eight times as many packets.

use crate::delivery::Delivery;
use core::time::Duration;
use wire::Time;

/// Least growth of the round-trip time that counts, in microseconds
/// (RFC 9406 section 4.3).
const MIN_RTT_THRESH_US: u32 = 4_000;
/// Growth that always counts, in microseconds.
const MAX_RTT_THRESH_US: u32 = 16_000;
/// Otherwise this fraction of the last round's minimum counts.
const MIN_RTT_DIVISOR: u32 = 8;
/// Samples that a round needs before its minimum is judged.
const N_RTT_SAMPLE: u32 = 8;
/// Most segments by which one ACK lets the window grow, without pacing; with it
/// there is no bound (RFC 9406 section 4.3).
const L: u32 = 8;

/// Acknowledgements that come closer than this are of one train
/// (`hystart_ack_delta_us`).
const TRAIN_GAP: Duration = Duration::from_millis(2);
/// What is paced, closer than this part of the least round trip, too: what leaves in a fourth of
/// one is followed by a longer silence, unless the path is full.
const TRAIN_GAP_DIVISOR: u32 = 8;
/// A train as long as this part of the least round trip has the path full: what
/// was sent in the round before takes half of a round trip to pass the
/// bottleneck, and is half of what is sent in this one.
const TRAIN_DIVISOR: u32 = 2;
/// Round trips from which on trains are looked at, in microseconds: in a shorter one
/// quanta of a millisecond, and acknowledgements of a turn, make a train of any flow.
const TRAIN_RTT_US: u32 = 10_000;
/// Segments in flight from which on trains are looked at (`hystart_low_window`).
const LOW_WINDOW: u32 = 16;

const _: () = assert!(MIN_RTT_THRESH_US <= MAX_RTT_THRESH_US);

/// Bytes that a train tells a rate by, in segments, beyond its first acknowledgement:
/// what an initial window gives, with one acknowledgement for two segments.
const RATE_SEGMENTS: u64 = 6;

/// The shortest time that tells a rate, as a part of the least round trip: acknowledgements that
/// were held up together tell how long that was.
const RATE_DIVISOR: u32 = 64;

/// A train is slower than it was sent if its round trips grow by this part of its length, and by
/// this one of the least.
const STRETCH_DIVISOR: u64 = 8;
const STRETCH_RTT_DIVISOR: u32 = 32;
/// The part of the window that such a train has at least, to tell how much the path takes: of a
/// shorter one too much is what its acknowledgements were early or late by.
const STRETCH_WINDOW_DIVISOR: u32 = 4;

/// Round trips in a row that are all longer than the least, by this part of it, where something
/// stands in the path's queue.
const QUEUED_SAMPLES: usize = 8;
const QUEUED_DIVISOR: u32 = 16;
/// The same where segments overtake each other, and rates are too low for that: half of a window
/// that fills the path has to have left before so much stands there.
const REORDERED_DIVISOR: u32 = 8;

/// No minimum known yet.
const NONE: u32 = u32::MAX;

/// What an ACK in slow start amounts to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Growth {
    /// The window grows by so many bytes.
    By(u32),
    /// The window grows by so many bytes, and slow start is over.
    LastBy(u32),
}

/// Rounds, their minima and trains.
#[derive(Clone, Copy, Debug)]
pub(super) struct HyStart {
    /// The round ends when this is acknowledged; `None` before the first ACK.
    window_end: Option<u64>,
    last_round_min: u32,
    current_round_min: u32,
    samples: u32,
    /// The least round trip of all.
    min_rtt_us: u32,
    /// When the round began.
    began: Time,
    /// The last acknowledgement of the train that began with it.
    train: Time,
    /// Bytes that arrived by the train, beyond its first acknowledgement.
    delivered: u64,
    /// How fast that is, in bytes per second; 0 before it is long enough.
    rate: u64,
    /// The fastest that a train of an earlier round came.
    fastest: u64,
    /// The round trip of the train's first acknowledgement, if it was measured.
    first_rtt_us: u32,
    /// The last round trips.
    recent: [u32; QUEUED_SAMPLES],
    /// The longest train that came slower than it was sent: its bytes, and how fast.
    stretched: (u64, u64),
}

impl HyStart {
    pub(super) const fn new() -> Self {
        Self {
            window_end: None,
            last_round_min: NONE,
            current_round_min: NONE,
            samples: 0,
            min_rtt_us: NONE,
            began: Time::ZERO,
            train: Time::ZERO,
            delivered: 0,
            rate: 0,
            fastest: 0,
            first_rtt_us: NONE,
            stretched: (0, 0),
            recent: [0; QUEUED_SAMPLES],
        }
    }

    /// The least round trip, in microseconds; `None` before the first.
    pub(super) fn min_rtt_us(&self) -> Option<u32> {
        (self.min_rtt_us != NONE).then_some(self.min_rtt_us)
    }

    /// How fast the path was seen to deliver, in bytes per second: what leaves in a
    /// burst is acknowledged as fast as the bottleneck lets it through. `None` before
    /// that is known.
    pub(super) fn delivery_rate(&self) -> Option<u64> {
        let rate = self.rate.max(self.fastest);
        (rate > 0).then_some(rate)
    }

    /// An ACK in the first slow start, with this window. Sizes are in bytes.
    pub(super) fn on_ack(&mut self, delivery: &Delivery, segment: u32, window: u32) -> Growth {
        let &Delivery { now, acked, delivered, in_flight, rtt_us, acked_to, sent_to, paced, reordered, .. } = delivery;
        let grow = if paced { acked } else { acked.min(L.saturating_mul(segment)) };
        let Some(window_end) = self.window_end else {
            self.start_round(now, sent_to, rtt_us);
            self.note(rtt_us);
            return Growth::By(grow);
        };
        self.note(rtt_us);
        let gap = if paced { self.paced_gap() } else { TRAIN_GAP };
        let goes_on = self.lengthen_train(now, gap, (delivered, rtt_us), segment);
        let enough = goes_on && in_flight >= segment.saturating_mul(LOW_WINDOW) && self.min_rtt_us >= TRAIN_RTT_US;
        let full = enough && if paced { self.fills(window, reordered) } else { self.is_train_long(now) };
        if full || self.has_grown() {
            return Growth::LastBy(grow);
        }
        if acked_to >= window_end {
            self.start_round(now, sent_to, rtt_us);
        }
        Growth::By(grow)
    }

    fn note(&mut self, rtt_us: Option<u32>) {
        if let Some(rtt) = rtt_us {
            self.recent.rotate_left(1);
            self.recent[QUEUED_SAMPLES - 1] = rtt;
            self.current_round_min = self.current_round_min.min(rtt);
            self.min_rtt_us = self.min_rtt_us.min(rtt);
            self.samples += 1;
        }
    }

    /// Something arrived. Returns whether all acknowledgements have come one upon the
    /// other since the round's first.
    fn lengthen_train(
        &mut self,
        now: Time,
        gap: Duration,
        (delivered, rtt_us): (u32, Option<u32>),
        segment: u32,
    ) -> bool {
        if now.since(self.train) > gap {
            if self.delivered > 0 {
                return false;
            }
            // The last of a round began this one: its own first comes only now.
            (self.began, self.train) = (now, now);
            self.first_rtt_us = rtt_us.unwrap_or(NONE);
            return true;
        }
        self.train = now;
        self.delivered += u64::from(delivered);
        let long = now.since(self.began) >= Duration::from_micros(u64::from(self.min_rtt_us / RATE_DIVISOR));
        if long && self.delivered >= RATE_SEGMENTS * u64::from(segment) {
            let nanos = now.since(self.began).as_nanos().max(1);
            let rate = u128::from(self.delivered) * 1_000_000_000 / nanos;
            self.rate = u64::try_from(rate).unwrap_or(u64::MAX);
            if self.is_stretched(now, rtt_us) && self.delivered >= self.stretched.0 {
                self.stretched = (self.delivered, self.rate);
            }
        }
        true
    }

    /// How far apart acknowledgements of one train are at most, where it was paced.
    fn paced_gap(&self) -> Duration {
        let part = if self.min_rtt_us == NONE { 0 } else { self.min_rtt_us / TRAIN_GAP_DIVISOR };
        TRAIN_GAP.max(Duration::from_micros(u64::from(part)))
    }

    /// Whether the train takes longer than it took to be sent: its round trips have grown by
    /// that much.
    fn is_stretched(&self, now: Time, rtt_us: Option<u32>) -> bool {
        let took_us = u64::try_from(now.since(self.began).as_micros()).unwrap_or(u64::MAX);
        let least = (took_us / STRETCH_DIVISOR).max(u64::from(self.min_rtt_us / STRETCH_RTT_DIVISOR));
        rtt_us.is_some_and(|rtt| u64::from(rtt) >= u64::from(self.first_rtt_us) + least)
    }

    /// Whether the train takes half of the least round trip.
    fn is_train_long(&self, now: Time) -> bool {
        now.since(self.began) > Duration::from_micros(u64::from(self.min_rtt_us / TRAIN_DIVISOR))
    }

    /// Whether the window is what the path delivers in its least round trip, and a fourth
    /// more: by no less, for what is paced makes trains of its own, and each window is
    /// then measured by one of half of it. How much the path delivers is what its fastest train
    /// says, or a long one that came slower than it was sent: the fastest may be one whose
    /// acknowledgements were held up and came together. Either may say too little, where
    /// acknowledgements are late: so something has to stand in the path's queue, too. Where
    /// segments overtake each other, each train is as long as some of it are late, and that queue
    /// is what tells.
    fn fills(&self, window: u32, reordered: bool) -> bool {
        let delivers = |rate: u64| u128::from(rate) * u128::from(self.min_rtt_us) / 1_000_000;
        let exceeds = |rate: u64| rate > 0 && u128::from(window) * 4 >= delivers(rate) * 5;
        let (bytes, rate) = self.stretched;
        let measured = bytes >= u64::from(window / STRETCH_WINDOW_DIVISOR) && exceeds(rate);
        self.queues(reordered) && (measured || exceeds(self.rate.max(self.fastest)))
    }

    /// Whether something stands in the path's queue, by the last round trips.
    fn queues(&self, reordered: bool) -> bool {
        let divisor = if reordered { REORDERED_DIVISOR } else { QUEUED_DIVISOR };
        let least = self.min_rtt_us.saturating_add(self.min_rtt_us / divisor);
        self.recent.iter().all(|rtt| *rtt >= least)
    }

    /// Whether the round's least round trip is longer than the one before's
    /// (RFC 9406 section 4.2).
    fn has_grown(&self) -> bool {
        if self.samples < N_RTT_SAMPLE || self.current_round_min == NONE || self.last_round_min == NONE {
            return false;
        }
        let thresh = (self.last_round_min / MIN_RTT_DIVISOR).clamp(MIN_RTT_THRESH_US, MAX_RTT_THRESH_US);
        self.current_round_min >= self.last_round_min.saturating_add(thresh)
    }

    fn start_round(&mut self, now: Time, sent_to: u64, rtt_us: Option<u32>) {
        self.window_end = Some(sent_to);
        self.last_round_min = self.current_round_min;
        self.current_round_min = NONE;
        self.samples = 0;
        self.fastest = self.fastest.max(self.rate);
        (self.began, self.train, self.delivered, self.rate) = (now, now, 0, 0);
        self.first_rtt_us = rtt_us.unwrap_or(NONE);
    }
}
