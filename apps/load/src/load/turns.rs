//! The generator's own turns.

use crate::figures::Turns;
use core::time::Duration;
use wire::Time;

/// Tells busy turns from idle ones by the stamps of turns: a turn lasts until
/// the next one's stamp.
#[derive(Clone, Copy, Debug, Default)]
pub struct TurnClock {
    last: Option<Time>,
    worked: bool,
    all: u64,
    busy: u64,
    nanos: u64,
    busy_nanos: u64,
    /// The longest busy turn since it was last asked for.
    longest: u64,
    /// The longest before.
    longest_before: u64,
}

impl TurnClock {
    /// A turn stamped `now` is done, and `worked` if it brought anything.
    #[inline]
    pub(super) fn mark(&mut self, now: Time, worked: bool) {
        if let Some(last) = self.last {
            let length = now.as_nanos().saturating_sub(last.as_nanos());
            self.all += 1;
            self.nanos += length;
            if self.worked {
                self.busy += 1;
                self.busy_nanos += length;
                self.longest = self.longest.max(length);
            }
        }
        self.last = Some(now);
        self.worked = worked;
    }

    /// Counts anew from the turn at hand.
    pub(super) fn restart(&mut self) {
        *self = Self::default();
    }

    pub(super) fn sum(&self) -> Turns {
        Turns {
            all: self.all,
            busy: self.busy,
            time: Duration::from_nanos(self.nanos),
            busy_time: Duration::from_nanos(self.busy_nanos),
            longest: Duration::from_nanos(self.longest.max(self.longest_before)),
        }
    }

    /// The longest busy turn since the last call.
    pub(super) fn take_longest(&mut self) -> Duration {
        let longest = core::mem::take(&mut self.longest);
        self.longest_before = self.longest_before.max(longest);
        Duration::from_nanos(longest)
    }
}
