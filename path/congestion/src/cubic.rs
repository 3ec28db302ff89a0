//! CUBIC's congestion avoidance (RFC 9438), in integers: windows in bytes,
//! time in units of 1/1024 s.

use crate::delivery::Delivery;
use crate::signal::Signal;
use crate::window::{Beta, Window};
use wire::Time;

/// C = 4/10, in segments per second cubed (RFC 9438 section 4.1).
const C_NUM: u64 = 4;
const C_DEN: u64 = 10;
/// beta_cubic = 7/10 (RFC 9438 section 4.6).
const BETA_NUM: u64 = 7;
const BETA_DEN: u64 = 10;
const BETA: Beta = Beta { num: BETA_NUM, den: BETA_DEN };
/// alpha_cubic = 3 (1 - beta) / (1 + beta) = 9/17 (RFC 9438 section 4.3).
const ALPHA_NUM: u64 = 3 * (BETA_DEN - BETA_NUM);
const ALPHA_DEN: u64 = BETA_DEN + BETA_NUM;

/// A second in the unit of time used here: 2¹⁰.
const SECOND_SHIFT: u32 = 10;
/// Longest time from K that is told apart, in the same unit: 200 s, where the
/// cubic has long left every possible window; keeps the cube below 2⁵³.
const MAX_OFFSET: u64 = 200 << SECOND_SHIFT;

const _: () = assert!(ALPHA_NUM == 9 && ALPHA_DEN == 17);

/// A window that grows by a cubic function of the time since the last loss.
#[derive(Clone, Debug)]
pub struct Cubic {
    pub(crate) window: Window,
    /// cwnd just before the last reduction, in bytes; 0 if there was none
    /// that counts (before any loss, after a timeout).
    w_max: u32,
    /// cwnd when ssthresh was last set, without fast convergence: from here
    /// on the Reno-friendly estimate grows like Reno.
    cwnd_prior: u32,
    /// The current congestion avoidance stage.
    stage: Option<Stage>,
}

#[derive(Clone, Copy, Debug)]
struct Stage {
    /// When it began, moved on by the time that the application had nothing
    /// to send.
    start: Time,
    /// Since when the window has not been used up, if it is not.
    unused_since: Option<Time>,
    /// The plateau's height in bytes.
    w_max: u32,
    /// Time from the stage's start to the plateau.
    k: u64,
    /// The Reno-friendly estimate in bytes, and the part of a byte over it.
    w_est: u32,
    w_est_carry: u64,
    /// The part of a byte that cwnd did not yet grow by.
    carry: u64,
}

impl Cubic {
    pub(crate) const fn new(window: Window) -> Self {
        Self { window, w_max: 0, cwnd_prior: 0, stage: None }
    }

    pub(crate) fn on_ack(&mut self, delivery: &Delivery) {
        let Some(acked) = self.window.on_ack(delivery) else { return };
        if delivery.window_limited {
            let cwnd = self.avoid(acked, delivery);
            self.window.grow_to(cwnd);
        } else {
            // RFC 9438 section 5.8, RFC 7661 section 4.3: a window that was
            // not used is not known to fit the path.
            self.on_unused(delivery.now);
        }
    }

    /// `acked` bytes in congestion avoidance with the window in use. Returns
    /// the window; it grows or stays, and never shrinks on an ACK.
    fn avoid(&mut self, acked: u32, &Delivery { now, srtt_us, .. }: &Delivery) -> u32 {
        let mss = self.window.segment;
        let before = self.window.bytes.max(1);
        let (cwnd_prior, w_max) = (self.cwnd_prior, self.w_max);
        let stage = self.stage.get_or_insert_with(|| Stage::new(before, w_max, mss, now));
        if let Some(since) = stage.unused_since.take() {
            // RFC 9438 section 5.8: time without need of the window does not
            // count, or the window would jump when the need returns.
            stage.start = stage.start + now.since(since);
        }
        stage.grow_estimate(acked, before, cwnd_prior, mss);
        let t = units(now.since(stage.start).as_nanos());
        if stage.cubic(t, mss) < u64::from(stage.w_est) {
            // Reno-friendly region (RFC 9438 section 4.3).
            return before.max(stage.w_est);
        }
        // Concave and convex regions (RFC 9438 sections 4.4 and 4.5): towards
        // the value one round-trip later, at most by half a window per trip.
        let ahead = units(u128::from(srtt_us) * 1_000);
        let wanted = stage.cubic(t + ahead, mss);
        let target = wanted.clamp(u64::from(before), u64::from(before) + u64::from(before) / 2);
        stage.carry += (target - u64::from(before)) * u64::from(acked.min(before));
        let grow = stage.carry / u64::from(before);
        stage.carry %= u64::from(before);
        before.saturating_add(u32::try_from(grow).unwrap_or(u32::MAX))
    }

    /// An ACK while the window was not used up.
    fn on_unused(&mut self, now: Time) {
        if let Some(stage) = &mut self.stage
            && stage.unused_since.is_none()
        {
            stage.unused_since = Some(now);
        }
    }

    pub(crate) fn on_congestion(&mut self, signal: Signal, in_flight: u32) {
        let cwnd = self.window.bytes;
        if signal != Signal::RepeatedTimeout {
            self.window.reduce(in_flight, BETA);
            self.window.keep_initial(BETA);
            self.stage = None;
            self.cwnd_prior = cwnd;
            self.w_max = match signal {
                // A timeout: the next stage starts its own plateau, with K = 0
                // (RFC 9438 section 4.8).
                Signal::Timeout | Signal::RepeatedTimeout => 0,
                Signal::Loss => self.plateau(),
            };
        }
        self.window.on_signal(signal);
    }

    /// W_max for a loss repaired by fast recovery (RFC 9438 section 4.7).
    fn plateau(&self) -> u32 {
        let cwnd = self.window.bytes;
        if cwnd >= self.w_max {
            return cwnd;
        }
        // Fast convergence: leave room for a flow that has just come.
        let part = u64::from(cwnd) * (BETA_DEN + BETA_NUM) / (2 * BETA_DEN);
        u32::try_from(part).unwrap_or(cwnd)
    }

    /// The next ACK in congestion avoidance begins a new stage.
    pub(crate) fn restart(&mut self) {
        self.stage = None;
    }
}

impl Stage {
    /// A stage that begins now, at `cwnd`.
    fn new(cwnd: u32, w_max: u32, mss: u32, now: Time) -> Self {
        // Without a plateau above, the stage is its own (RFC 9438 sections
        // 4.8 and 4.10): K = 0.
        let w_max = w_max.max(cwnd);
        // K = cbrt((W_max - cwnd_epoch) / C), in segments (section 4.2).
        let segments = (u64::from(w_max - cwnd) << (3 * SECOND_SHIFT - 1)) / C_NUM * (2 * C_DEN) / u64::from(mss);
        Self { start: now, unused_since: None, w_max, k: cube_root(segments), w_est: cwnd, w_est_carry: 0, carry: 0 }
    }

    /// W_cubic(t) in bytes (RFC 9438 section 4.2); zero if below.
    fn cubic(&self, t: u64, mss: u32) -> u64 {
        let offset = t.abs_diff(self.k).min(MAX_OFFSET);
        // One of the three factors of 2¹⁰ leaves first, to stay within 64
        // bits; what is lost is a millionth of a segment.
        let cubed = (offset * offset * offset) >> SECOND_SHIFT;
        let bytes = (cubed * u64::from(mss) / C_DEN * C_NUM) >> (2 * SECOND_SHIFT);
        let plateau = u64::from(self.w_max);
        if t < self.k { plateau.saturating_sub(bytes) } else { plateau + bytes }
    }

    /// W_est += alpha * segments_acked / cwnd (RFC 9438 section 4.3).
    fn grow_estimate(&mut self, acked: u32, cwnd: u32, cwnd_prior: u32, mss: u32) {
        let (num, den) = if self.w_est < cwnd_prior { (ALPHA_NUM, ALPHA_DEN) } else { (1, 1) };
        // Carried in 1/17 of a byte times cwnd, the finer of both steps.
        let step = u64::from(acked.min(cwnd)) * u64::from(mss) * num * (ALPHA_DEN / den);
        let unit = u64::from(cwnd) * ALPHA_DEN;
        self.w_est_carry += step;
        let grow = self.w_est_carry / unit;
        self.w_est_carry %= unit;
        self.w_est = self.w_est.saturating_add(u32::try_from(grow).unwrap_or(u32::MAX));
    }
}

/// Nanoseconds in units of 1/1024 s.
fn units(nanos: u128) -> u64 {
    // Twice the longest offset is as good as for ever.
    let nanos = u64::try_from(nanos).unwrap_or(u64::MAX).min(1 << 40);
    nanos * 16 / 15_625_000
}

/// The integer cube root, rounded down.
fn cube_root(value: u64) -> u64 {
    let mut root = 0u64;
    let mut bit = 1u64 << 21;
    while bit > 0 {
        let next = root | bit;
        if next.checked_mul(next).and_then(|s| s.checked_mul(next)).is_some_and(|c| c <= value) {
            root = next;
        }
        bit >>= 1;
    }
    root
}
