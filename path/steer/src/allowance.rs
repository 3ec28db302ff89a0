//! How much a silo may ask of the others: a little, again and again.

use core::time::Duration;
use wire::Time;

/// A token bucket: so much at once, and then one after the other. Not so much
/// in each interval: a flood would have it all at once at the beginning of
/// each, and whoever asks another silo for something then would wait behind
/// it.
#[derive(Clone, Copy, Debug)]
pub struct Allowance {
    most: u32,
    every: Duration,
    left: u32,
    /// When the last one was earned.
    at: Time,
}

impl Allowance {
    /// `most` at once, and one more `every` so often.
    #[must_use]
    pub const fn new(most: u32, every: Duration) -> Self {
        Self { most, every, left: most, at: Time::ZERO }
    }

    /// Takes one, if there is one left.
    pub fn take(&mut self, now: Time) -> bool {
        let earned = now.since(self.at).as_nanos() / self.every.as_nanos().max(1);
        let missing = self.most - self.left;
        if earned >= u128::from(missing) {
            (self.left, self.at) = (self.most, now);
        } else {
            let earned = earned as u32;
            self.left += earned;
            self.at = self.at + self.every * earned;
        }
        let taken = self.left > 0;
        self.left -= u32::from(taken);
        taken
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flood_is_spread_over_the_time() {
        let mut allowance = Allowance::new(32, Duration::from_micros(250));
        let at_once = (0..100).filter(|_| allowance.take(Time::from_millis(5))).count();
        assert_eq!(at_once, 32);
        // Asked every 10 us for a second: never two in a row, 4,000 in all.
        let mut took = Vec::new();
        for step in 1..=100_000 {
            if allowance.take(Time::from_nanos(5_000_000 + step * 10_000)) {
                took.push(step);
            }
        }
        assert_eq!(took.len(), 4_000);
        assert!(took.windows(2).all(|pair| pair[1] - pair[0] == 25), "evenly");
        // What is not asked for is kept, up to the most.
        let late = Time::from_millis(60_000);
        assert_eq!((0..100).filter(|_| allowance.take(late)).count(), 32);
    }

    #[test]
    fn a_clock_that_stands_still_or_goes_back_gives_nothing() {
        let mut allowance = Allowance::new(1, Duration::from_micros(250));
        assert!(allowance.take(Time::from_millis(10)));
        assert!(!allowance.take(Time::from_millis(10)) && !allowance.take(Time::from_millis(9)));
        assert!(allowance.take(Time::from_millis(11)));
    }
}
