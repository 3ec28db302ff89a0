//! How far a worker's clock is ahead of the controller's, and how well that is known.
//!
//! Of a probe and its answer, as of NTP's (RFC 5905 section 8): the way there and the way back take the round trip
//! together, and nobody knows how it is shared between them. So the middle is off by half of it at most, and the
//! quickest of some probes knows best.

use core::time::Duration;
use messages::Echo;
use wire::Time;

/// Probes that are answered before a clock is known.
const PROBES: u32 = 8;

/// The time between an answer and the next probe.
const PROBE_EVERY: Duration = Duration::from_millis(20);

/// A probe that is not answered by then is given up.
const PROBE_PATIENCE: Duration = Duration::from_secs(1);

/// How far a clock is ahead of the controller's.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Offset {
    /// By so many nanoseconds; below zero where it is behind.
    pub ahead_ns: i128,
    /// And that is off by this at most.
    pub error: Duration,
}

impl Offset {
    /// A worker's time, by the controller's clock.
    #[must_use]
    pub fn to_own(self, worker_ns: u64) -> Time {
        time(i128::from(worker_ns) - self.ahead_ns)
    }

    /// The controller's time, by a worker's clock.
    #[must_use]
    pub fn to_worker(self, own: Time) -> u64 {
        time(i128::from(own.as_nanos()) + self.ahead_ns).as_nanos()
    }
}

/// Saturates at both ends.
fn time(nanos: i128) -> Time {
    Time::from_nanos(u64::try_from(nanos.max(0)).unwrap_or(u64::MAX))
}

/// The probes of one worker.
#[derive(Clone, Debug)]
pub(crate) struct Probes {
    number: u32,
    /// When the one under way was sent.
    sent: Option<Time>,
    /// When the next one is to be sent, or the one under way given up.
    next: Time,
    answered: u32,
    best: Option<Offset>,
}

impl Probes {
    pub fn new(now: Time) -> Self {
        Self { number: 0, sent: None, next: now, answered: 0, best: None }
    }

    /// What is known so far.
    pub fn offset(&self) -> Option<Offset> {
        self.best
    }

    /// Whether enough is known to begin by it.
    pub fn is_known(&self) -> bool {
        self.answered >= PROBES
    }

    /// When [`Probes::poll`] has something to do.
    pub fn next_deadline(&self) -> Time {
        if self.is_known() { Time::MAX } else { self.next }
    }

    /// The number of a probe that is to be sent now.
    pub fn poll(&mut self, now: Time) -> Option<u32> {
        if self.is_known() || now < self.next {
            return None;
        }
        self.number = self.number.wrapping_add(1);
        (self.sent, self.next) = (Some(now), now + PROBE_PATIENCE);
        Some(self.number)
    }

    /// An answer came at `received`. One that comes twice, late or unasked says nothing, and neither does one of a
    /// clock that goes backwards or takes longer than the whole round.
    pub fn on_echo(&mut self, echo: Echo, received: Time) {
        let Some(sent) = self.sent.take_if(|_| echo.number == self.number) else { return };
        self.next = received + PROBE_EVERY;
        let (there, back) = (i128::from(echo.received_ns), i128::from(echo.sent_ns));
        let (from, until) = (i128::from(sent.as_nanos()), i128::from(received.as_nanos()));
        let round = (until - from) - (back - there);
        if back < there || round < 0 {
            return;
        }
        self.answered += 1;
        let error = Duration::from_nanos(u64::try_from(round / 2 + 1).unwrap_or(u64::MAX));
        if self.best.is_none_or(|best| error < best.error) {
            let ahead_ns = ((there - from) + (back - until)) / 2;
            self.best = Some(Offset { ahead_ns, error });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_offset_lies_within_its_error_whichever_way_is_the_slow_one() {
        for (ahead, there, back) in [
            (300_000_000_i64, 40_000_u64, 60_000_u64),
            (-300_000_000, 900_000, 1_000),
            (0, 1, 1),
            (7, 5_000, 2_000_000),
        ] {
            let mut probes = Probes::new(Time::from_millis(1_000));
            let mut now = Time::from_millis(1_000);
            while !probes.is_known() {
                let number = probes.poll(now).expect("due");
                assert_eq!(probes.poll(now), None, "one at a time");
                let at = (now.as_nanos() + there).wrapping_add_signed(ahead);
                let received = now + Duration::from_nanos(there + 10 + back);
                probes.on_echo(Echo { number, received_ns: at, sent_ns: at + 10 }, received);
                now = probes.next_deadline().min(received + PROBE_EVERY);
            }
            let offset = probes.offset().expect("known");
            let off = (offset.ahead_ns - i128::from(ahead)).unsigned_abs();
            assert!(off <= offset.error.as_nanos(), "{ahead} {there} {back}: {offset:?}");
            assert!(offset.error.as_nanos() <= u128::from(there + back) / 2 + 1);
            let own = Time::from_millis(2_000);
            assert_eq!(offset.to_own(offset.to_worker(own)), own);
        }
    }

    #[test]
    fn answers_that_make_no_sense_say_nothing() {
        let at = Time::from_millis;
        let mut probes = Probes::new(at(10));
        assert_eq!(probes.poll(at(9)), None);
        let number = probes.poll(at(10)).expect("due");
        let echo = |number, received_ns, sent_ns| Echo { number, received_ns, sent_ns };
        probes.on_echo(echo(number + 1, 1, 2), at(11));
        assert_eq!(probes.next_deadline(), at(10) + PROBE_PATIENCE, "it was none of ours");
        probes.on_echo(echo(number, 9, 2), at(11));
        probes.on_echo(echo(number, 1, 2), at(11));
        assert!(probes.offset().is_none(), "backwards, and then twice");
        let number = probes.poll(at(31)).expect("due");
        probes.on_echo(echo(number, 0, u64::MAX), at(32));
        assert!(probes.offset().is_none(), "longer than the round");
        // One that is lost is given up, and its late answer is none.
        let lost = probes.poll(at(60)).expect("due");
        let next = probes.poll(at(60) + PROBE_PATIENCE).expect("given up");
        probes.on_echo(echo(lost, 1, 2), at(1_070));
        assert!(probes.offset().is_none());
        probes.on_echo(echo(next, 1, 2), at(1_070));
        assert!(probes.offset().is_some());
        let extreme = Offset { ahead_ns: i128::from(u64::MAX), error: Duration::ZERO };
        assert_eq!((extreme.to_own(5), extreme.to_worker(at(1))), (Time::ZERO, u64::MAX));
    }
}
