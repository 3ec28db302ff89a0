//! So many in a second, and no more: of what a child says, and of what is passed on of it.

use core::time::Duration;
use wire::Time;

const SECOND: Duration = Duration::from_secs(1);

/// How many were taken in the second that began with the first of them.
#[derive(Clone, Copy, Default, Debug)]
pub struct Quota {
    began: Time,
    taken: u32,
}

impl Quota {
    /// Takes one; whether it is among the `most` that there may be in a second.
    pub fn take(&mut self, now: Time, most: u32) -> bool {
        if now.since(self.began) >= SECOND {
            *self = Self { began: now, taken: 0 };
        }
        self.taken = self.taken.saturating_add(1);
        self.taken <= most
    }

    /// When there is one again, where `most` were taken in this second.
    pub fn full_until(&self, now: Time, most: u32) -> Option<Time> {
        (self.taken >= most && now.since(self.began) < SECOND).then(|| self.began + SECOND)
    }
}
