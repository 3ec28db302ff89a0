//! When connections began, and which they are: apart from their state, which is one
//! cache line and is asked for in each request.

use crate::conn::Tick;
use crate::limits::ConnectionNumbers;
use core::time::Duration;
use wire::Time;

/// What is known of the beginnings of connections, by their index.
#[derive(Debug, Default)]
pub struct Beginnings {
    all: Vec<Beginning>,
    /// Connections so far, those to upstreams included.
    count: u64,
    numbers: ConnectionNumbers,
}

#[derive(Clone, Copy, Debug)]
struct Beginning {
    /// The lower half of how many began before.
    before: u32,
    at: Tick,
}

impl Beginnings {
    /// Of at most so many connections, address space of 8 bytes each.
    pub fn new(connections: usize, numbers: ConnectionNumbers) -> Self {
        Self { all: Vec::with_capacity(connections), count: 0, numbers }
    }

    /// Has room for so many connections.
    pub fn reserve(&mut self, connections: usize) {
        self.all.reserve(connections.saturating_sub(self.all.len()));
    }

    /// One begins.
    pub fn begin(&mut self, index: usize, now: Time) {
        if index >= self.all.len() {
            self.all.resize(index + 1, Beginning { before: 0, at: Tick::of(now) });
        }
        self.all[index] = Beginning { before: self.count as u32, at: Tick::of(now) };
        self.count += 1;
    }

    /// So does one to an upstream.
    pub const fn begin_upstream(&mut self) {
        self.count += 1;
    }

    /// The number of a connection: unique among those of all silos until 2^32 more have
    /// begun in its own.
    pub fn number(&self, index: usize) -> u64 {
        let before = self.all.get(index).map_or(0, |one| one.before);
        let ago = (self.count as u32).wrapping_sub(before);
        let ConnectionNumbers { first, step } = self.numbers;
        first + self.count.saturating_sub(u64::from(ago)) * step
    }

    /// How old it is, up to 52 days.
    pub fn age(&self, index: usize, now: Time) -> Duration {
        self.all.get(index).map_or(Duration::ZERO, |one| one.at.passed(now))
    }

    /// How long until it is so old: nothing if it is.
    pub fn until(&self, index: usize, age: Duration, now: Time) -> Option<Duration> {
        self.all.get(index)?.at.left(age, now)
    }

    /// The addresses that this lies at.
    pub fn memory(&self) -> core::ops::Range<usize> {
        let start = self.all.as_ptr().addr();
        start..start + self.all.capacity() * size_of::<Beginning>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_are_counted_as_they_come() {
        let numbers = ConnectionNumbers { first: 3, step: 4 };
        let mut all = Beginnings::new(4, numbers);
        all.begin(0, Time::ZERO);
        all.begin(2, Time::from_millis(2_000));
        all.begin_upstream();
        all.begin(1, Time::from_millis(3_000));
        assert_eq!([0, 2, 1].map(|index| all.number(index)), [3, 7, 15]);
        all.begin(0, Time::from_millis(4_000));
        assert_eq!((all.number(0), all.number(2)), (19, 7));
        let now = Time::from_millis(5_000);
        assert!(all.age(2, now).abs_diff(Duration::from_secs(3)) < Duration::from_millis(5));
        assert!(all.until(2, Duration::from_secs(3), now + Duration::from_millis(10)).is_none());
        assert!(all.until(2, Duration::from_secs(4), now).is_some());
        // The lower half of the count has passed its end meanwhile.
        all.count = (1 << 32) - 1;
        all.begin(1, now);
        all.begin(3, now);
        assert_eq!([1, 3].map(|index| (all.number(index) - 3) / 4), [(1 << 32) - 1, 1 << 32]);
    }
}
