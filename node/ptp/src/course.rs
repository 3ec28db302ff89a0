//! What readings say of a clock: it runs, at about the counter's rate, and
//! does not step. Nothing here reads a clock.

use core::fmt;

/// A clock at a tick of the counter.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ClockReading {
    /// The counter.
    pub ticks: u64,
    /// The clock, in nanoseconds.
    pub nanos: u64,
    /// The tick may be another by as many.
    pub half: u64,
}

/// By how many millionths a clock may be faster or slower than the counter:
/// oscillators of NICs are within 100, and a servo moves them by some hundreds.
pub const RATE_LIMIT: f64 = 1_000.0;

/// Rates are judged over at least so long, in nanoseconds: bounds are then a
/// small part of it.
const RATE_SPAN: f64 = 5e7;

/// A rate is known where the bounds of both readings are less than this part of
/// the time between them, in millionths.
const SURE: f64 = 100.0;

/// Between two readings a clock whose rate is disciplined drifts by less than
/// this, in millionths; what is beyond is a step.
const DRIFT: f64 = 500.0;

/// The rate is that of the last second or two: a servo may have changed it before.
const RATE_AGE: f64 = 1e9;

/// A step is at least so many nanoseconds: below, it is the readings' own.
const STEP: f64 = 1_000.0;

/// What is wrong with a clock.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Doubt {
    /// Two readings are the same.
    Stands,
    /// One is before the one that came first.
    Backwards,
    /// It runs at another rate, by so many millionths.
    Rate(f64),
    /// It was put on or back, by so many nanoseconds.
    Stepped(f64),
}

impl fmt::Display for Doubt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Stands => f.write_str("it stands still"),
            Self::Backwards => f.write_str("it runs backwards"),
            Self::Rate(off) => write!(f, "its rate is {off:+.0} ppm off the counter's, more than {RATE_LIMIT:.0}"),
            Self::Stepped(by) => write!(f, "it stepped by {by:+.0} ns"),
        }
    }
}

/// A clock's course, reading by reading.
#[derive(Clone, Debug)]
pub struct Course {
    hz: f64,
    /// From where the rate is measured now, and from where next.
    base: Option<[ClockReading; 2]>,
    last: Option<ClockReading>,
    /// The clock's nanoseconds for one of the counter's, less one, where it is known.
    rate: Option<f64>,
    doubt: Option<Doubt>,
    /// The widest bound of all readings, in nanoseconds.
    bound: f64,
    readings: u64,
    /// What all differences between readings are multiples of, in nanoseconds.
    step: u64,
}

impl Course {
    /// Of a clock beside a counter of `hz` ticks a second.
    #[must_use]
    pub const fn new(hz: u64) -> Self {
        Self { hz: hz as f64, base: None, last: None, rate: None, doubt: None, bound: 0.0, readings: 0, step: 0 }
    }

    /// Takes the next reading.
    pub fn take(&mut self, reading: ClockReading) {
        self.readings += 1;
        let bound = self.nanos(reading.half);
        self.bound = self.bound.max(bound);
        let (Some([first, next]), Some(last)) = (self.base, self.last) else {
            (self.base, self.last) = (Some([reading; 2]), Some(reading));
            return;
        };
        self.step = common(self.step, reading.nanos.abs_diff(last.nanos));
        let bounds = bound + self.nanos(last.half);
        let passed = self.nanos(reading.ticks.saturating_sub(last.ticks));
        let told = between(last, reading);
        let off = told - passed * (1.0 + self.rate.unwrap_or(0.0));
        let found = match () {
            () if told < 0.0 => Some(Doubt::Backwards),
            // Only where so much time has passed that it must have moved.
            () if told == 0.0 && passed > bounds => Some(Doubt::Stands),
            () if off.abs() > STEP + bounds + passed * DRIFT / 1e6 && self.rate.is_some() => Some(Doubt::Stepped(off)),
            () => None,
        };
        self.last = Some(reading);
        let span = self.nanos(reading.ticks.saturating_sub(first.ticks));
        if span >= RATE_SPAN && bound + self.nanos(first.half) <= span * SURE / 1e6 {
            self.rate = Some(between(first, reading) / span - 1.0);
        }
        if self.nanos(reading.ticks.saturating_sub(next.ticks)) >= RATE_AGE {
            self.base = Some([next, reading]);
        }
        let rate = Some(self.rate_ppm()).filter(|off| off.abs() > RATE_LIMIT).map(Doubt::Rate);
        // The first that was found says most: after a step the rate is off, too.
        self.doubt = self.doubt.or(found).or(rate);
    }

    fn nanos(&self, ticks: u64) -> f64 {
        ticks as f64 * 1e9 / self.hz
    }

    /// What is wrong with it, if anything.
    #[must_use]
    pub const fn doubt(&self) -> Option<Doubt> {
        self.doubt
    }

    /// By how many millionths it is faster than the counter; zero where that is
    /// not known.
    #[must_use]
    pub fn rate_ppm(&self) -> f64 {
        self.rate.unwrap_or(0.0) * 1e6
    }

    /// Whether its rate is known, so that it can be judged.
    #[must_use]
    pub const fn is_known(&self) -> bool {
        self.rate.is_some()
    }

    /// What a reading may be wrong by at most, in nanoseconds.
    #[must_use]
    pub const fn bound(&self) -> f64 {
        self.bound
    }

    /// How many readings there were.
    #[must_use]
    pub const fn readings(&self) -> u64 {
        self.readings
    }

    /// What all differences between its readings are multiples of: the clock's own
    /// step, in nanoseconds.
    #[must_use]
    pub const fn step(&self) -> u64 {
        self.step
    }

    /// How far `other` is ahead of this clock, by the last readings of both.
    #[must_use]
    pub fn apart(&self, other: &Self) -> Option<Difference> {
        let (mine, theirs) = (self.last?, other.last?);
        let tick = mine.ticks.max(theirs.ticks);
        let since = |course: &Self, reading: ClockReading| {
            course.nanos(tick - reading.ticks) * (1.0 + course.rate.unwrap_or(0.0))
        };
        let on = since(other, theirs) - since(self, mine);
        let apart = i128::from(theirs.nanos) - i128::from(mine.nanos) + on.round() as i128;
        let bound = (self.nanos(mine.half) + other.nanos(theirs.half)) * MARGIN;
        let rates = other.rate.unwrap_or(0.0) - self.rate.unwrap_or(0.0);
        Some(Difference { tick, nanos: i64::try_from(apart).ok()?, per_tick: rates * 1e9 / self.hz, bound })
    }
}

/// How far two clocks are apart.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Difference {
    /// At this tick
    pub tick: u64,
    /// so many nanoseconds,
    pub nanos: i64,
    /// and so many more for each tick from then on.
    pub per_tick: f64,
    /// By how many nanoseconds that may be wrong.
    pub bound: f64,
}

/// Rates are known to the readings' bounds over a second, so that a difference
/// a tenth of a second old is wrong by so much more.
const MARGIN: f64 = 1.2;

/// Nanoseconds from one reading to another; exact, however late the day is.
fn between(from: ClockReading, to: ClockReading) -> f64 {
    (i128::from(to.nanos) - i128::from(from.nanos)) as f64
}

/// The greatest common divisor.
const fn common(mut a: u64, mut b: u64) -> u64 {
    while b > 0 {
        (a, b) = (b, a % b);
    }
    a
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A tick is half a nanosecond.
    const HZ: u64 = 2_000_000_000;

    /// Readings every 10 ms, of what the clock shows by the counter's nanoseconds.
    fn course(count: u64, clock: impl Fn(u64) -> u64) -> Course {
        let mut course = Course::new(HZ);
        for reading in 0..count {
            let nanos = reading * 10_000_000;
            course.take(ClockReading { ticks: nanos * 2, nanos: clock(nanos), half: 100 });
        }
        course
    }

    #[test]
    fn a_clock_that_runs_is_not_doubted() {
        for ppm in [-900_i64, -50, 0, 50, 900] {
            let course = course(100, |at| 7_000_000_000 + (at as i64 + at as i64 * ppm / 1_000_000) as u64);
            assert_eq!(course.doubt(), None, "{ppm}");
            assert!((course.rate_ppm() - ppm as f64).abs() < 1.0 && (course.bound() - 50.0).abs() < 1e-9);
        }
    }

    #[test]
    fn clocks_are_compared_also_where_one_shows_the_day_and_the_other_began_at_zero() {
        let day = 1_790_000_000_123_456_789_u64;
        let (mut first, mut second) = (Course::new(HZ), Course::new(HZ));
        for reading in 0..300_u64 {
            let at = reading * 10_000_000 + reading % 5 * 8;
            first.take(ClockReading { ticks: at * 2, nanos: 8 + at / 8 * 8, half: 100 });
            // It is read a little later, and is 20 ppm faster.
            let later = at + 3_000;
            second.take(ClockReading { ticks: later * 2, nanos: day + later + later / 50_000, half: 60 });
        }
        assert_eq!((first.step(), first.doubt(), second.doubt()), (8, None, None));
        let apart = first.apart(&second).expect("readings");
        let at = apart.tick / 2;
        let truth = (day + at + at / 50_000 - at - 8) as i64;
        assert!(apart.nanos.abs_diff(truth) <= 8, "{apart:?} {truth}");
        assert!((apart.per_tick - 1e-5).abs() < 1e-7 && (apart.bound - 96.0).abs() < 1.0, "{apart:?}");
        assert_eq!(second.apart(&first).expect("readings").nanos, -apart.nanos);
    }

    #[test]
    fn a_clock_that_stands_or_runs_backwards_is_found() {
        assert_eq!(course(2, |_| 5).doubt(), Some(Doubt::Stands));
        // Also where it ran before.
        assert_eq!(course(40, |at| at.min(200_000_000)).doubt(), Some(Doubt::Stands));
        assert_eq!(course(2, |at| 1_000_000_000 - at).doubt(), Some(Doubt::Backwards));
    }

    #[test]
    fn a_clock_of_another_rate_is_found() {
        for per_mille in [0_u64, 500, 1_002] {
            let found = course(20, |at| 1 + at * per_mille / 1_000).doubt();
            match per_mille {
                0 => assert_eq!(found, Some(Doubt::Stands)),
                _ => assert!(matches!(found, Some(Doubt::Rate(_))), "{per_mille}: {found:?}"),
            }
        }
    }

    #[test]
    fn a_step_is_found_to_its_size() {
        for step in [-2_000_000_i64, -20_000, 20_000, 1_000_000_000] {
            let clock = |at: u64| (3_000_000_000 + at as i64 + if at >= 500_000_000 { step } else { 0 }) as u64;
            let found = course(100, clock).doubt();
            let Some(Doubt::Stepped(by)) = found else { panic!("{step}: {found:?}") };
            assert!((by - step as f64).abs() < 100.0, "{step}: {by}");
        }
    }

    #[test]
    fn what_readings_are_wrong_by_is_no_step() {
        let mut course = Course::new(HZ);
        for reading in 0..100_u64 {
            let nanos = reading * 10_000_000;
            // A reading that was interrupted: 400 us wide, and off by as much as that allows.
            let wide = reading % 10 == 9;
            let (half, off) = if wide { (800_000, 390_000) } else { (100, 0) };
            course.take(ClockReading { ticks: nanos * 2, nanos: 1 + nanos + off, half });
        }
        assert_eq!(course.doubt(), None);
    }
}
