//! Latency by stamps that a link gives frames as they leave and come, in place
//! of the tester's own clock; and what is wrong with the clock that they are of.
//!
//! A stamp of a departure may come long after the frame has: a probe's next
//! frame waits for it, because NICs keep one at a time. What stamps say is held
//! against the tester's own clock, frame by frame: it reads before a frame leaves
//! and after it has come, so that a latency by stamps is never longer.

use crate::trial::Stamped;
pub use crate::trial::StampedBy;

/// How far the clocks of two ports are apart.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Apart {
    /// At this tick
    pub tick: u64,
    /// the second's shows so many nanoseconds more than the first's,
    pub nanos: i64,
    /// and so many more for each tick from then on.
    pub per_tick: f64,
    /// By how many nanoseconds that may be wrong.
    pub bound: f64,
}

impl Apart {
    fn at(&self, tick: u64) -> i64 {
        let since = i128::from(tick) - i128::from(self.tick);
        self.nanos.saturating_add((since as f64 * self.per_tick) as i64)
    }
}

/// Two clocks may run at rates that differ by this share, at most, and are read
/// to so many nanoseconds: what is beyond is a fault.
const RATE_SLACK: f64 = 1e-3;
const SLACK_NS: f64 = 1_000.0;

/// A frame that was sent last.
#[derive(Clone, Copy, Debug)]
struct Flight {
    sequence: u64,
    /// When it was sent, by the tester.
    tick: u64,
    left: Option<u64>,
    came: Option<Came>,
}

/// Its arrival.
#[derive(Clone, Copy, Debug)]
struct Came {
    tick: u64,
    stamp: Option<u64>,
    /// Its age by the tester's clock, in nanoseconds.
    age_ns: u64,
}

/// The stamps of a lane of which one frame is in flight.
#[derive(Clone, Debug)]
pub(crate) struct Stamps {
    /// Whether the frame leaves by the second port's clock and comes by the
    /// first's: then what lies between them counts the other way.
    back: bool,
    one_port: bool,
    flight: Option<Flight>,
    last_left: Option<u64>,
    last_came: Option<u64>,
    told: Stamped,
}

impl Stamps {
    pub fn new(by: StampedBy, from: usize, to: usize) -> Self {
        Self {
            back: from > to,
            one_port: from == to,
            flight: None,
            last_left: None,
            last_came: None,
            told: Stamped::new(by),
        }
    }

    /// A frame leaves.
    pub fn send(&mut self, sequence: u64, tick: u64) {
        self.give_up();
        self.flight = Some(Flight { sequence, tick, left: None, came: None });
    }

    /// The last frame came, and is not waited for any more.
    fn give_up(&mut self) {
        if let Some(Flight { came: Some(came), left, .. }) = self.flight.take() {
            match (left, came.stamp) {
                (_, None) => self.told.no_arrival += 1,
                (None, Some(_)) => self.told.no_departure += 1,
                (Some(_), Some(_)) => {}
            }
        }
    }

    /// What became of them; nothing is waited for any more where it is `settled`.
    pub fn result(&self, settled: bool) -> Stamped {
        let mut last = self.clone();
        if settled {
            last.give_up();
        }
        last.told
    }

    /// Whether a departure is still to be told that was not `limit` ticks ago.
    pub fn is_awaited(&self, now: u64, limit: u64) -> bool {
        self.flight.is_some_and(|flight| flight.left.is_none() && now.wrapping_sub(flight.tick) < limit)
    }

    /// A departure was stamped. Its latency, if the frame has come.
    pub fn left(&mut self, sequence: u64, stamp: u64, apart: &Apart) -> Option<u64> {
        let flight = self.flight.as_mut().filter(|flight| flight.sequence == sequence && flight.left.is_none())?;
        flight.left = Some(stamp);
        Self::judge_order(&mut self.told, &mut self.last_left, stamp);
        self.finish(apart)
    }

    /// A frame came for the first time. Its latency, if its departure is known.
    pub fn came(
        &mut self,
        sequence: u64,
        stamp: Option<u64>,
        (tick, age_ns): (u64, u64),
        apart: &Apart,
    ) -> Option<u64> {
        let flight = self.flight.as_mut().filter(|flight| flight.sequence == sequence && flight.came.is_none())?;
        flight.came = Some(Came { tick, stamp, age_ns });
        if let Some(stamp) = stamp {
            Self::judge_order(&mut self.told, &mut self.last_came, stamp);
        }
        self.finish(apart)
    }

    /// Two frames neither leave nor come at one time, nor in another order than
    /// they are told in: one is in flight.
    fn judge_order(told: &mut Stamped, last: &mut Option<u64>, stamp: u64) {
        match last.replace(stamp) {
            Some(last) if stamp == last => told.stood += 1,
            Some(last) if stamp < last => told.backwards += 1,
            Some(_) | None => {}
        }
    }

    fn finish(&mut self, apart: &Apart) -> Option<u64> {
        let Some(Flight { left: Some(left), came: Some(Came { tick, stamp: Some(came), age_ns }), .. }) = self.flight
        else {
            return None;
        };
        self.flight = None;
        self.told.frames += 1;
        let between = match (self.one_port, self.back) {
            (true, _) => 0,
            (false, false) => apart.at(tick),
            (false, true) => -apart.at(tick),
        };
        let bound = if self.one_port { 0.0 } else { apart.bound };
        self.told.bound_ns = self.told.bound_ns.max(bound);
        // Exact: times of day are beyond what a float tells apart.
        let nanos = i128::from(came) - i128::from(left) - i128::from(between);
        let (most, slack) = (age_ns as f64 * (1.0 + RATE_SLACK), SLACK_NS + bound);
        let beyond = (-(nanos as f64)).max(nanos as f64 - most) - slack;
        if beyond > 0.0 {
            self.told.impossible += 1;
            self.told.impossible_by_ns = self.told.impossible_by_ns.max(beyond + slack);
            return None;
        }
        // Within the bound it may be below nothing.
        Some(u64::try_from(nanos.max(0)).unwrap_or(u64::MAX))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Frames that take 5 us, sent every 100 us, by a link that stamps with
    /// `clock`, which shows this at a nanosecond.
    fn run(frames: u64, clocks: [&dyn Fn(u64) -> Option<u64>; 2], apart: Apart) -> (Stamped, Vec<u64>) {
        let mut stamps = Stamps::new(StampedBy::Nic, 0, 1);
        let mut found = Vec::new();
        for number in 0..frames {
            let sent = number * 100_000;
            stamps.send(number, sent);
            let (left, came, seen) = (sent + 500, sent + 5_500, sent + 7_000);
            // The stamp of the departure is told last, every other time.
            let departure = clocks[0](left).filter(|_| number % 2 == 0);
            found.extend(departure.and_then(|stamp| stamps.left(number, stamp, &apart)));
            found.extend(stamps.came(number, clocks[1](came), (seen, 7_000), &apart));
            let departure = clocks[0](left).filter(|_| number % 2 == 1);
            found.extend(departure.and_then(|stamp| stamps.left(number, stamp, &apart)));
        }
        (stamps.result(true), found)
    }

    const DAY: u64 = 1_790_000_000_000_000_000;

    #[test]
    fn latency_is_between_the_stamps_whichever_is_told_first() {
        let clock = |at: u64| Some(DAY + at);
        let (told, found) = run(1_000, [&clock, &clock], Apart::default());
        assert_eq!((told.frames, told.missing(), told.doubt()), (1_000, 0, None));
        assert!(found.len() == 1_000 && found.iter().all(|nanos| *nanos == 5_000));
    }

    #[test]
    fn clocks_of_two_ports_are_compared_within_the_bound() {
        // The second is 3 ms behind, and 20 ppm faster.
        let first = |at: u64| Some(10_000_000 + at);
        let second = |at: u64| Some(7_000_000 + at + at / 50_000);
        let apart = Apart { tick: 0, nanos: -3_000_000, per_tick: 2e-5, bound: 40.0 };
        let (told, found) = run(1_000, [&first, &second], apart);
        assert_eq!((told.doubt(), told.bound_ns as u64), (None, 40));
        assert!(found.iter().all(|nanos| nanos.abs_diff(5_000) <= 2), "{found:?}");
        // Without the difference there are latencies that cannot be.
        let (told, found) = run(10, [&first, &second], Apart::default());
        assert!(found.is_empty() && told.impossible == 10 && told.doubt().is_some_and(|why| why.contains("cannot be")));
    }

    #[test]
    fn a_clock_that_stands_is_found() {
        let clock = |at: u64| Some(DAY + at.min(50 * 100_000));
        let (told, _) = run(100, [&clock, &clock], Apart::default());
        assert!(told.stood > 40 && told.doubt().is_some_and(|why| why.contains("stood still")), "{told:?}");
    }

    #[test]
    fn a_clock_that_steps_is_found() {
        // Between frames, back: the latencies themselves are right.
        let back = |at: u64| Some(DAY + at - if at > 5_000_000 { 1_000_000 } else { 0 });
        let (told, _) = run(100, [&back, &back], Apart::default());
        assert!(told.backwards > 0 && told.doubt().is_some_and(|why| why.contains("stepped back")), "{told:?}");
        // Within a frame's flight, on.
        let on = |at: u64| Some(DAY + at + if at > 5_003_000 { 20_000 } else { 0 });
        let (told, found) = run(100, [&on, &on], Apart::default());
        assert_eq!((told.impossible, found.len()), (1, 99));
        assert!((told.impossible_by_ns - 18_000.0).abs() < 100.0, "{told:?}");
    }

    #[test]
    fn stamps_that_are_missing_are_counted_and_too_many_refused() {
        let clock = |at: u64| Some(DAY + at);
        let some = |of: u64| move |at: u64| (!(at / 100_000).is_multiple_of(of)).then_some(DAY + at);
        let (told, found) = run(1_000, [&clock, &some(200)], Apart::default());
        assert_eq!((told.no_arrival, told.no_departure, found.len(), told.doubt()), (5, 0, 995, None));
        let (told, _) = run(1_000, [&some(10), &clock], Apart::default());
        assert_eq!((told.no_arrival, told.no_departure), (0, 100));
        assert!(told.doubt().is_some_and(|why| why.contains("100 departures")), "{:?}", told.doubt());
        let none = |_: u64| None;
        let (told, found) = run(10, [&none, &none], Apart::default());
        assert!(found.is_empty() && told.doubt().is_some());
    }

    #[test]
    fn a_frame_that_is_lost_has_no_stamp_to_miss() {
        let mut stamps = Stamps::new(StampedBy::Kernel, 0, 0);
        stamps.send(0, 0);
        assert_eq!(stamps.left(0, 5, &Apart::default()), None);
        assert!(!stamps.is_awaited(10, 100));
        stamps.send(1, 100);
        assert!(stamps.is_awaited(110, 100) && !stamps.is_awaited(200, 100));
        // A stamp or a frame of another one is nothing.
        assert_eq!(stamps.left(0, 7, &Apart::default()), None);
        assert_eq!(stamps.came(0, Some(9), (120, 10), &Apart::default()), None);
        let told = stamps.result(true);
        assert_eq!((told.missing(), told.frames), (0, 0));
    }
}
