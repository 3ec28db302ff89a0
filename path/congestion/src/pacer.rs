//! When what the windows let go leaves: no faster than a rate.

#[cfg(test)]
mod tests;

use core::time::Duration;
use wire::Time;

/// Time in which a quantum leaves, at most: so often, at least, a paced flow
/// has its turn. Longer, and bursts fill queues; shorter, and each segment has
/// a turn, and a time of departure to be kept, of its own.
const QUANTUM_PER_SECOND: u64 = 1_000;

/// Largest quantum in bytes: what a sender with segmentation offload hands over
/// in one piece.
const MAX_QUANTUM: u32 = 64 * 1024;

/// Credit is kept in billionths of a byte: what a byte per second earns in a
/// nanosecond. So no part of a byte is lost, at any rate.
const BYTE: i64 = 1_000_000_000;

/// Debt that is kept, in bytes: more than a flow that is asked can have. It
/// bounds the arithmetic.
const MAX_DEBT: i64 = 1 << 30;

/// Paces one flow: a bucket of one quantum that may be overdrawn by one, so that
/// a flow leaves in quanta, each as soon as the one before is paid for.
///
/// Call order: [`Pacer::may_send`], then [`Pacer::on_sent`] with what was sent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Pacer {
    /// Bytes per second.
    rate: u64,
    /// Bytes of a segment.
    segment: u32,
    /// Bytes that may leave at once: whole segments.
    quantum: u32,
    /// What was sent and is not paid for yet is less than nothing; above, what
    /// a turn that came late has saved up.
    credit: i64,
    /// When that was so.
    at: Time,
    /// What is left of the quantum that was granted.
    left: u32,
    /// When it was; nothing before the first question.
    granted: Option<Time>,
    /// It was refused since: what it earns by being called late counts.
    waits: bool,
}

impl Pacer {
    /// Paces at `rate` bytes per second, segments of so many bytes; the first
    /// `burst` bytes leave at once, if that is more than a quantum. A rate or
    /// segment of 0 is taken for 1.
    #[must_use]
    pub fn new(rate: u64, segment: u32, burst: u32) -> Self {
        let (rate, segment) = (rate.max(1), segment.max(1));
        let quantum = quantum(rate, segment);
        let left = burst.max(quantum);
        Self { rate, segment, quantum, credit: 0, at: Time::ZERO, left, granted: None, waits: false }
    }

    /// Another rate, another segment size. What is owed stays, in bytes. Returns whether
    /// anything changes by it.
    pub fn set(&mut self, now: Time, rate: u64, segment: u32) -> bool {
        let (rate, segment) = (rate.max(1), segment.max(1));
        if (rate, segment) == (self.rate, self.segment) {
            return false;
        }
        self.earn(now);
        (self.rate, self.segment) = (rate, segment);
        self.quantum = quantum(rate, segment);
        self.left = self.left.min(self.quantum.max(segment));
        true
    }

    /// Bytes per second.
    #[must_use]
    pub const fn rate(&self) -> u64 {
        self.rate
    }

    /// Bytes that leave at once, at most: what is sent in a millisecond, but at
    /// least a segment and at most 64 KiB, in whole segments.
    #[must_use]
    pub const fn quantum(&self) -> u32 {
        self.quantum
    }

    /// Bytes that [`Pacer::may_send`] lets go at most.
    #[must_use]
    pub fn most(&self) -> u32 {
        self.left.max(self.quantum)
    }

    /// How much of `want` bytes may leave now: all of it, or whole segments.
    ///
    /// # Errors
    /// When to ask again, if nothing may leave now.
    pub fn may_send(&mut self, now: Time, want: u32) -> Result<u32, Time> {
        let granted = self.earn(now);
        if self.credit >= 0 && (self.waits || self.is_paid(granted, now)) {
            if !self.waits {
                // It had nothing to send: that earns nothing.
                self.credit = 0;
            }
            (self.left, self.granted, self.waits) = (self.quantum, Some(now), false);
        }
        if self.left >= want.min(self.segment) {
            let most = self.left.min(want);
            return Ok(if most < want { most - most % self.segment } else { want });
        }
        self.waits = true;
        Err(now + self.time_to_earn(self.credit.min(0).unsigned_abs()))
    }

    /// Whether something lost may be sent again now. It waits for a quantum at
    /// most: what was sent before may be owed for, what was sent again may not.
    ///
    /// # Errors
    /// When to ask again, if it may not.
    pub fn may_send_again(&mut self, now: Time) -> Result<(), Time> {
        self.earn(now);
        let short = -(self.credit + i64::from(self.quantum) * BYTE);
        if short <= 0 {
            return Ok(());
        }
        Err(now + self.time_to_earn(short.unsigned_abs()))
    }

    /// `bytes` were sent, whether they had to ask or not.
    pub fn on_sent(&mut self, now: Time, bytes: u32) {
        self.earn(now);
        self.left = self.left.saturating_sub(bytes);
        self.credit = (self.credit - i64::from(bytes) * BYTE).max(-MAX_DEBT * BYTE);
    }

    /// Counts what was earned since the last time. Returns when the quantum was
    /// granted: the first, with the first question.
    fn earn(&mut self, now: Time) -> Time {
        let Some(granted) = self.granted else {
            (self.granted, self.at) = (Some(now), now);
            return now;
        };
        let span = span(self.at, now);
        if span == 0 {
            // One question follows another.
            return granted;
        }
        // Beyond a quantum nothing is saved up.
        let most = i64::from(self.quantum) * BYTE - 1;
        let earned = i64::try_from(self.rate.saturating_mul(span)).unwrap_or(i64::MAX);
        self.credit = self.credit.saturating_add(earned).min(most);
        self.at = self.at.max(now);
        granted
    }

    /// Whether a quantum granted then is paid for by time alone.
    fn is_paid(&self, granted: Time, now: Time) -> bool {
        let paid = self.rate.saturating_mul(span(granted, now));
        paid >= u64::from(self.quantum) * BYTE.unsigned_abs()
    }

    /// The time in which so many billionths of a byte are earned, rounded up.
    const fn time_to_earn(&self, amount: u64) -> Duration {
        Duration::from_nanos(amount.div_ceil(self.rate))
    }
}

/// Nanoseconds; a clock that went back stands.
const fn span(from: Time, to: Time) -> u64 {
    to.as_nanos().saturating_sub(from.as_nanos())
}

/// Bytes of a quantum.
fn quantum(rate: u64, segment: u32) -> u32 {
    let bytes = u32::try_from(rate / QUANTUM_PER_SECOND).unwrap_or(u32::MAX).clamp(segment, MAX_QUANTUM.max(segment));
    bytes - bytes % segment
}
