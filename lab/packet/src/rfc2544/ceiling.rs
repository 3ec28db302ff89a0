//! What the tester can send on time: frames as fast as the ring takes them,
//! and then at ever lower rates until it keeps to them.

use crate::trial::{LaneResult, TrialResult};

/// Rates after the first, at most.
const TRIES: u32 = 12;
/// Each is such a share of the one before: small steps first, and ever larger ones where the
/// tester does not keep to its times even so, down to less than a hundredth.
const DOWN: [f64; TRIES as usize] = [0.93, 0.93, 0.93, 0.8, 0.8, 0.8, 0.5, 0.5, 0.5, 0.5, 0.5, 0.5];

/// A search for it.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Ceiling {
    rate: f64,
    /// More is not asked for.
    cap: Option<f64>,
    tries: u32,
    done: bool,
}

impl Ceiling {
    /// Up to `cap` frames per second, if that is known.
    #[must_use]
    pub fn new(cap: Option<f64>) -> Self {
        Self { cap, ..Self::default() }
    }

    /// The rate to try: `Some(None)` is as fast as possible.
    #[must_use]
    pub fn poll_rate(&self) -> Option<Option<f64>> {
        match self.tries {
            _ if self.done || self.tries > TRIES => None,
            0 => Some(None),
            _ => Some(Some(self.rate)),
        }
    }

    /// Takes what came of it; whether the tester kept to its times.
    pub fn on_trial(&mut self, result: &TrialResult, kept: bool) {
        if self.tries == 0 {
            // Of the slower direction: what finds no room is no fault of the tester's.
            let offered = |lane: &LaneResult| lane.rate;
            let rate = result.lanes.iter().map(offered).fold(f64::INFINITY, f64::min);
            let rate = if rate.is_finite() { rate } else { 0.0 };
            self.rate = self.cap.map_or(rate, |cap| rate.min(cap));
        } else if kept {
            self.done = true;
        } else if self.tries < TRIES {
            self.rate *= DOWN[self.tries as usize];
        }
        self.tries += 1;
    }

    /// Whether the tester kept to its times at any rate.
    #[must_use]
    pub const fn is_known(&self) -> bool {
        self.done
    }

    /// The highest rate that was kept, or the lowest that was tried.
    #[must_use]
    pub const fn rate(&self) -> f64 {
        self.rate
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A tester that keeps to a fiftieth of what it can push finds that rate, and does not end above it.
    #[test]
    fn a_tester_that_is_often_late_goes_down_until_it_is_not() {
        let lane = LaneResult { rate: 1e6, ..LaneResult::default() };
        let result = TrialResult { lanes: vec![lane], ..TrialResult::default() };
        let mut ceiling = Ceiling::new(None);
        let mut tried = Vec::new();
        while let Some(rate) = ceiling.poll_rate() {
            tried.extend(rate);
            ceiling.on_trial(&result, rate.is_some_and(|rate| rate <= 2e4));
        }
        assert!(ceiling.rate() <= 2e4 && ceiling.rate() > 5e3, "{tried:?}");
        assert!(ceiling.is_known());
        // One that never does has none.
        let mut never = Ceiling::new(None);
        while never.poll_rate().is_some() {
            never.on_trial(&result, false);
        }
        assert!(!never.is_known());
        assert!(tried.windows(2).all(|two| two[1] < two[0]) && tried.len() <= TRIES as usize, "{tried:?}");
    }
}
