//! How many requests are in progress, integrated over time.

use crate::figures::Integral;
use wire::Time;

/// Counts requests in progress, and how long. The integral comes from the
/// count and the clock alone, so that latencies can be checked against it.
#[derive(Clone, Copy, Debug, Default)]
pub struct InProgress {
    count: u64,
    at: u64,
    request_ns: u128,
    /// The sum of the times at which those in progress were sent, wrapping.
    sent_at: u64,
    taken_back_ns: u128,
}

impl InProgress {
    /// Time goes on. To be called before the count changes at a new time.
    #[inline]
    pub fn tick(&mut self, now: Time) {
        let now = now.as_nanos();
        if now > self.at {
            self.request_ns += u128::from(self.count) * u128::from(now - self.at);
            self.at = now;
        }
    }

    /// One more, sent at `now`.
    #[inline]
    pub fn sent(&mut self, now: Time) {
        self.count += 1;
        self.sent_at = self.sent_at.wrapping_add(now.as_nanos());
    }

    /// One less, that was sent at `sent`.
    #[inline]
    pub fn ended(&mut self, sent: u64) {
        self.count -= 1;
        self.sent_at = self.sent_at.wrapping_sub(sent);
    }

    /// One less, that was sent at `sent` and taken back.
    pub fn taken_back(&mut self, sent: u64, now: Time) {
        self.ended(sent);
        self.taken_back_ns += u128::from(now.as_nanos().saturating_sub(sent));
    }

    /// Requests in progress.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// The state at a moment, to measure from.
    pub fn mark(&mut self, now: Time) -> Mark {
        self.tick(now);
        let ages = self.count.wrapping_mul(now.as_nanos()).wrapping_sub(self.sent_at);
        Mark { request_ns: self.request_ns, ages: u128::from(ages), taken_back_ns: self.taken_back_ns }
    }
}

/// A moment of [`InProgress`].
#[derive(Clone, Copy, Debug, Default)]
pub struct Mark {
    request_ns: u128,
    /// The time since those in progress were sent, summed up.
    ages: u128,
    /// The time that those had been which were taken back.
    taken_back_ns: u128,
}

impl Mark {
    /// What lies between an earlier moment and this one.
    pub fn since(&self, earlier: &Self) -> Integral {
        Integral {
            request_ns: self.request_ns - earlier.request_ns,
            before_ns: earlier.ages,
            after_ns: self.ages,
            taken_back_ns: self.taken_back_ns - earlier.taken_back_ns,
        }
    }
}
