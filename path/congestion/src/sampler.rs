//! How fast the path delivers: a sample for each acknowledgement, by what was
//! delivered while what it acknowledges was under way
//! (draft-cheng-iccrg-delivery-rate-estimation-02).

#[cfg(test)]
mod tests;

use core::time::Duration;
use wire::Time;

/// What was delivered when something left: the transport keeps one for each
/// time of departure, beside that time.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct SendState {
    /// P.delivered
    delivered: u64,
    /// P.delivered_time
    delivered_at: Time,
    /// P.first_sent_time
    first_sent_at: Time,
    /// P.is_app_limited
    app_limited: bool,
}

/// How much was delivered in what time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RateSample {
    /// Bytes.
    pub delivered: u64,
    /// The longer one of the time in which they were sent and of that in which
    /// their acknowledgements came. Never zero.
    pub interval: Duration,
    /// The application had no more to send: the path may be faster.
    pub app_limited: bool,
}

impl RateSample {
    /// Bytes per second.
    #[must_use]
    pub fn rate(&self) -> u64 {
        let per_second = u128::from(self.delivered) * 1_000_000_000 / self.interval.as_nanos().max(1);
        u64::try_from(per_second).unwrap_or(u64::MAX)
    }
}

/// Samples one connection's delivery rate.
///
/// Call order: [`Sampler::on_sent`] for each time of departure;
/// [`Sampler::on_delivered`] for each acknowledgement.
#[derive(Clone, Copy, Debug, Default)]
pub struct Sampler {
    /// C.delivered
    delivered: u64,
    /// C.delivered_time
    delivered_at: Time,
    /// C.first_sent_time
    first_sent_at: Time,
    /// C.app_limited: until so much is delivered, the application is what limits.
    app_limited: Option<u64>,
    /// The last sample that tells of the path.
    latest: Option<RateSample>,
}

impl Sampler {
    /// Something leaves; `starts_flight` where nothing else is under way. What
    /// to keep with it.
    pub const fn on_sent(&mut self, now: Time, starts_flight: bool) -> SendState {
        if starts_flight {
            (self.first_sent_at, self.delivered_at) = (now, now);
        }
        SendState {
            delivered: self.delivered,
            delivered_at: self.delivered_at,
            first_sent_at: self.first_sent_at,
            app_limited: self.app_limited.is_some(),
        }
    }

    /// The application has nothing more to send, with `in_flight` bytes under
    /// way and room for others.
    pub fn on_app_limited(&mut self, in_flight: u32) {
        self.app_limited = Some(self.delivered + u64::from(in_flight));
    }

    /// An acknowledgement says that `bytes` more were delivered. `newest` is what
    /// left last of them, if its departure was taken down: when that was, and
    /// what [`Sampler::on_sent`] gave. `min_rtt` is the least round trip known:
    /// a shorter interval than that is no sample, but a burst of
    /// acknowledgements that stood in a queue (section 3.3).
    pub fn on_delivered(&mut self, now: Time, bytes: u32, newest: Option<(Time, SendState)>, min_rtt: Duration) {
        self.delivered += u64::from(bytes);
        self.delivered_at = now;
        if self.app_limited.is_some_and(|until| self.delivered > until) {
            self.app_limited = None;
        }
        let Some((sent_at, state)) = newest else { return };
        self.first_sent_at = sent_at;
        let interval = sent_at.since(state.first_sent_at).max(now.since(state.delivered_at));
        if interval.is_zero() || interval < min_rtt {
            return;
        }
        let delivered = self.delivered.saturating_sub(state.delivered);
        let sample = RateSample { delivered, interval, app_limited: state.app_limited };
        // One that the application kept small tells something only if it is no
        // less than what was known (`tcp_rate_gen` in Linux's
        // net/ipv4/tcp_rate.c).
        if !sample.app_limited || self.latest.is_none_or(|latest| sample.rate() >= latest.rate()) {
            self.latest = Some(sample);
        }
    }

    /// The last sample that tells of the path.
    #[must_use]
    pub const fn latest(&self) -> Option<RateSample> {
        self.latest
    }
}
