//! A silo's account of its own turns.

use core::time::Duration;
use serde::{Deserialize, Serialize};

/// The silo's turns in the window, as the application sees them: by the time
/// that each turn is stamped with. A turn counts as busy when it brought
/// anything for the generator, and lasts until the next turn's stamp.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Turns {
    /// Turns.
    pub all: u64,
    /// Those that brought something.
    pub busy: u64,
    /// Time of all turns.
    pub time: Duration,
    /// Time of the busy turns.
    pub busy_time: Duration,
    /// The longest busy turn.
    pub longest: Duration,
}

impl Turns {
    /// What happened since `earlier`, where the longest busy turn took
    /// `longest`.
    pub(crate) fn since(&self, earlier: &Self, longest: Duration) -> Self {
        Self {
            all: self.all - earlier.all,
            busy: self.busy - earlier.busy,
            time: self.time - earlier.time,
            busy_time: self.busy_time - earlier.busy_time,
            longest,
        }
    }

    /// Adds those of the same silo at another time.
    pub(crate) fn add(&mut self, other: &Self) {
        self.all += other.all;
        self.busy += other.busy;
        self.time += other.time;
        self.busy_time += other.busy_time;
        self.longest = self.longest.max(other.longest);
    }

    /// Keeps those of the busier silo.
    pub fn merge(&mut self, other: &Self) {
        if other.busy_fraction() > self.busy_fraction() || self.all == 0 {
            *self = *other;
        }
    }

    /// Time of busy turns ÷ time; zero without any.
    #[must_use]
    pub fn busy_fraction(&self) -> f64 {
        if self.time.is_zero() { 0.0 } else { self.busy_time.as_secs_f64() / self.time.as_secs_f64() }
    }

    /// The mean length of a busy turn; zero without any.
    #[must_use]
    pub fn mean_busy(&self) -> Duration {
        let nanos = self.busy_time.as_nanos() / u128::from(self.busy.max(1));
        Duration::from_nanos(nanos as u64)
    }
}
