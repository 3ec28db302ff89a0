//! When each frame of a stream is due: exact, whatever the clock's rate and
//! however long it lasts. The k-th burst is due at `start + k × hz × burst ÷
//! rate`, rounded down to a tick; no error adds up.

/// Thousandths of a frame per second: the finest rate that can be asked for.
pub const MILLI: u64 = 1_000;

/// The highest rate, in frames per second.
pub const RATE_LIMIT: u64 = 1_000_000_000;

/// Due times at a constant rate.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Schedule {
    due: u64,
    /// A period is `whole + part / per` ticks.
    whole: u64,
    part: u64,
    per: u64,
    carried: u64,
}

impl Schedule {
    /// Bursts of `burst` frames at `milli_rate` thousandths of a frame per
    /// second, the first at `start`, on a clock of `hz` ticks per second. A
    /// rate of nothing is never due again.
    #[must_use]
    pub fn new(start: u64, hz: u64, milli_rate: u64, burst: u32) -> Self {
        if milli_rate == 0 {
            return Self { due: u64::MAX, whole: 0, part: 0, per: 1, carried: 0 };
        }
        let ticks = u128::from(hz) * u128::from(MILLI) * u128::from(burst.max(1));
        let per = u128::from(milli_rate);
        let whole = u64::try_from(ticks / per).unwrap_or(u64::MAX);
        // Below `per`, which is 64 bits wide.
        let part = (ticks % per) as u64;
        Self { due: start, whole, part, per: milli_rate, carried: 0 }
    }

    /// When the next burst is due.
    #[inline]
    #[must_use]
    pub const fn due(&self) -> u64 {
        self.due
    }

    /// From one burst to the next, rounded down.
    #[must_use]
    pub const fn period(&self) -> u64 {
        self.whole
    }

    /// It is due at another time.
    #[inline]
    pub const fn put_off(&mut self, due: u64) {
        self.due = due;
    }

    /// The one after it is the next.
    #[inline]
    pub const fn advance(&mut self) {
        self.carried += self.part;
        let over = (self.carried >= self.per) as u64;
        self.carried -= self.per * over;
        self.due = self.due.saturating_add(self.whole + over);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn an_hour_at_an_awkward_rate_ends_on_the_tick() {
        // 2,893,123,457 Hz and 14,880,952.381 frames per second.
        let (hz, rate) = (2_893_123_457_u64, 14_880_952_381_u64);
        let mut schedule = Schedule::new(7, hz, rate, 1);
        for _ in 0..1_000_000 {
            schedule.advance();
        }
        let exact = 7 + (1_000_000_u128 * u128::from(hz) * 1_000 / u128::from(rate)) as u64;
        assert_eq!(schedule.due(), exact);
    }

    #[test]
    fn no_rate_is_never() {
        assert_eq!(Schedule::new(1, 1, 0, 1).due(), u64::MAX);
    }

    proptest! {
        #[test]
        fn no_error_adds_up(
            hz in 1_000_000..5_000_000_000_u64,
            rate in 1..RATE_LIMIT * MILLI,
            burst in 1..64_u32,
            steps in 0..2_000_u32,
        ) {
            let mut schedule = Schedule::new(0, hz, rate, burst);
            (0..steps).for_each(|_| schedule.advance());
            let exact = u128::from(steps) * u128::from(hz) * 1_000 * u128::from(burst) / u128::from(rate);
            prop_assert_eq!(u128::from(schedule.due()), exact);
        }
    }
}
