//! The window, and what all algorithms that go by losses do with it: slow
//! start, and what follows a loss.

use crate::delivery::Delivery;
use crate::hystart::{Growth, HyStart};
use crate::signal::Signal;

/// Largest window in bytes: what TCP can express (RFC 7323 section 2.3).
pub const MAX_WINDOW: u32 = 1 << 30;

/// Least ssthresh, in segments (RFC 5681 section 3.1).
const MIN_SSTHRESH_SEGMENTS: u32 = 2;

/// Most segments by which one ACK lets the window grow in the slow start
/// after a timeout: the ACK may cover what arrived before it
/// (RFC 3465 section 2.3).
const L_AFTER_TIMEOUT: u32 = 1;
/// The same in other slow starts (RFC 3465 section 2.2).
const L_RESTART: u32 = 2;

/// The initial window in bytes (RFC 6928 section 2).
#[inline]
#[must_use]
pub fn initial_window(segment: u32) -> u32 {
    let segment = segment.max(1);
    segment.saturating_mul(10).min(segment.saturating_mul(2).max(14_600))
}

/// Round trips in which pacing changes nothing, in microseconds: what is sent
/// in a quantum's millisecond at twice the window per round trip is the window.
const UNPACED_RTT_US: u32 = 2_000;

/// The rate of slow start, in parts of the window per round trip: a round's data
/// leaves in a quarter of it, as long as the path is not known to be slower.
const SLOW_START_PERCENT: u64 = 400;

/// The least rate of slow start, however slow the path was seen to be: another flow
/// may have been why, and what leaves at this rate shows it. Linux always takes 200
/// (`tcp_pacing_ss_ratio`); each round then ends that much later, which short answers
/// feel.
const SLOW_PATH_PERCENT: u64 = 230;

/// The rate of a window that is only not known to be in use (Linux's
/// `tcp_pacing_ca_ratio`).
const UNCLOCKED_PERCENT: u64 = 120;

/// A fraction by which congestion lowers the window.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Beta {
    pub num: u64,
    pub den: u64,
}

/// The window and its slow start.
#[derive(Clone, Debug)]
pub struct Window {
    /// The window itself.
    pub(crate) bytes: u32,
    pub(crate) segment: u32,
    pub(crate) ssthresh: u32,
    /// Segments by which one ACK lets the window grow in slow start.
    limit: u32,
    /// Whether the window was in use at the last ACK.
    used: bool,
    pub(crate) hystart: HyStart,
}

impl Window {
    pub(crate) fn new(segment: u32, bytes: u32) -> Self {
        let segment = segment.max(1);
        Self { bytes, segment, ssthresh: u32::MAX, limit: L_RESTART, used: false, hystart: HyStart::new() }
    }

    pub(crate) const fn in_slow_start(&self) -> bool {
        self.bytes < self.ssthresh
    }

    /// The rate at which what it lets go is to leave, in bytes per second. `None` is
    /// at once: acknowledgements are the clock.
    pub(crate) fn pacing_rate(&self, srtt_us: u32, unclocked: bool) -> Option<u64> {
        let slow_start = self.in_slow_start();
        if srtt_us <= UNPACED_RTT_US || self.bytes <= initial_window(self.segment) || !(slow_start || unclocked) {
            return None;
        }
        let rate = |percent: u64, rtt_us: u32| u64::from(self.bytes) * percent * 10_000 / u64::from(rtt_us.max(1));
        if !slow_start {
            return Some(rate(UNCLOCKED_PERCENT, srtt_us));
        }
        let fastest = rate(SLOW_START_PERCENT, srtt_us);
        let path = self.hystart.delivery_rate().unwrap_or(u64::MAX);
        // What queues on the way makes no window slower.
        let least_rtt_us = self.hystart.min_rtt_us().map_or(srtt_us, |least| least.min(srtt_us));
        Some(fastest.min(path.max(rate(SLOW_PATH_PERCENT, least_rtt_us))))
    }

    /// An ACK's part in slow start. Returns the acknowledged bytes that are
    /// left over for congestion avoidance, if there are some and the window
    /// was used.
    pub(crate) fn on_ack(&mut self, delivery: &Delivery) -> Option<u32> {
        self.used = delivery.window_limited;
        let mut acked = delivery.acked;
        if self.in_slow_start() {
            acked = self.slow_start(delivery);
            self.bytes = self.bytes.min(MAX_WINDOW);
        }
        (acked > 0).then_some(acked)
    }

    /// Something arrived ahead of a gap: the first slow start may end by that.
    pub(crate) fn measure(&mut self, delivery: &Delivery) {
        if self.in_slow_start()
            && self.ssthresh == u32::MAX
            && matches!(self.hystart.on_ack(delivery, self.segment, self.bytes), Growth::LastBy(_))
        {
            self.ssthresh = self.bytes;
        }
    }

    /// Grows by slow start and returns the acknowledged bytes left over for
    /// congestion avoidance.
    fn slow_start(&mut self, delivery: &Delivery) -> u32 {
        // RFC 7661 section 4.3: in slow start a window half used is valid.
        let used = delivery.window_limited || self.bytes / 2 < delivery.in_flight;
        let grow = if self.ssthresh == u32::MAX {
            // RFC 9406 section 4.3: for the first slow start only.
            match self.hystart.on_ack(delivery, self.segment, self.bytes) {
                Growth::By(bytes) => bytes,
                Growth::LastBy(bytes) => {
                    self.ssthresh = self.bytes;
                    bytes
                }
            }
        } else {
            delivery.acked.min(self.limit.saturating_mul(self.segment))
        };
        if !used {
            return 0;
        }
        let room = self.ssthresh.saturating_sub(self.bytes);
        let step = grow.min(room);
        self.bytes = self.bytes.saturating_add(step);
        if self.bytes >= self.ssthresh {
            self.limit = L_RESTART;
            return grow - step;
        }
        0
    }

    /// The window after congestion avoidance.
    pub(crate) fn grow_to(&mut self, bytes: u32) {
        self.bytes = bytes.min(MAX_WINDOW);
    }

    /// Sets ssthresh for a loss or a first timeout.
    pub(crate) fn reduce(&mut self, in_flight: u32, beta: Beta) {
        // RFC 5681 equation 4 takes FlightSize. Where ACKs are taken in bursts
        // before anything is sent, that is less than what was in flight when
        // the loss happened; cwnd, if it was in use, is what it stands for
        // (RFC 9438 section 4.6 allows it to a sender that does not let an
        // unused window grow). Limited transmit above cwnd does not count.
        let flight = u64::from(if self.used { self.bytes } else { in_flight.min(self.bytes) });
        let floor = self.segment.saturating_mul(MIN_SSTHRESH_SEGMENTS);
        self.ssthresh = self.part_of(flight, beta).max(floor);
    }

    /// After a loss in a flight that did not fill the window, ssthresh is at least
    /// its part of what a connection may begin with: else one of small answers
    /// stays at two segments (RFC 9438 section 4.6 takes cwnd for that, where it
    /// does not grow unused; what an unused cwnd has grown to beyond the initial
    /// window is no measure).
    pub(crate) fn keep_initial(&mut self, beta: Beta) {
        if !self.used {
            let window = self.bytes.min(initial_window(self.segment));
            self.ssthresh = self.ssthresh.max(self.part_of(u64::from(window), beta));
        }
    }

    fn part_of(&self, bytes: u64, beta: Beta) -> u32 {
        let reduced = bytes * beta.num / beta.den;
        // The window is used in whole segments. Half of one, lost on average
        // at each reduction, is 4 % of a window of twelve: to the nearest.
        let segment = u64::from(self.segment);
        let whole = (reduced + segment / 2) / segment * segment;
        u32::try_from(whole).unwrap_or(u32::MAX)
    }

    /// What a signal of congestion does whatever the algorithm, once ssthresh
    /// is set.
    pub(crate) const fn on_signal(&mut self, signal: Signal) {
        match signal {
            Signal::Loss => {}
            Signal::Timeout | Signal::RepeatedTimeout => {
                self.limit = L_AFTER_TIMEOUT;
                self.bytes = self.segment; // The loss window.
            }
        }
    }

    pub(crate) fn on_recovery_end(&mut self) {
        self.bytes = self.ssthresh.min(MAX_WINDOW);
    }

    pub(crate) fn on_idle(&mut self) {
        let initial = initial_window(self.segment);
        if self.bytes > initial {
            if self.ssthresh != u32::MAX {
                self.ssthresh = self.ssthresh.max(self.bytes / 4 * 3);
            }
            self.bytes = initial;
        }
    }
}
