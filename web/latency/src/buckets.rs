//! Buckets of a histogram: four in each power of two, from a microsecond to a minute.

use core::time::Duration;

/// The first bucket ends at 2^FIRST nanoseconds: 1.024 µs.
const FIRST: u32 = 10;

/// Powers of two that have buckets: the last of them ends at 68.7 s.
const OCTAVES: u32 = 26;

/// Buckets of each, as a power of two.
const FINE: u32 = 2;

/// How many there are: one below, one above.
pub const BUCKETS: usize = 2 + ((OCTAVES as usize) << FINE);

/// The longest latency that is told from longer ones.
pub const LONGEST: Duration = Duration::from_nanos(1 << (FIRST + OCTAVES));

/// The bucket of a latency in nanoseconds. It has what is above the bound of the one
/// before and at most its own.
#[inline]
#[must_use]
pub const fn bucket_of(nanos: u64) -> usize {
    let nanos = nanos.saturating_sub(1);
    if nanos >> FIRST == 0 {
        return 0;
    }
    let octave = 63 - nanos.leading_zeros();
    if octave >= FIRST + OCTAVES {
        return BUCKETS - 1;
    }
    let part = (nanos >> (octave - FINE)) & ((1 << FINE) - 1);
    1 + (((octave - FIRST) << FINE) as usize | part as usize)
}

/// The longest latency of a bucket, nanoseconds; `None` for the last, which has
/// none.
#[must_use]
pub const fn upper_bound(bucket: usize) -> Option<u64> {
    if bucket == 0 {
        return Some(1 << FIRST);
    }
    if bucket >= BUCKETS - 1 {
        return None;
    }
    let (octave, part) = (FIRST + ((bucket - 1) >> FINE) as u32, ((bucket - 1) & ((1 << FINE) - 1)) as u64);
    Some(((1 << FINE) + part + 1) << (octave - FINE))
}

/// How many latencies there were in each bucket, and their sum.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Histogram {
    /// By bucket.
    pub counts: Vec<u64>,
    /// Of all latencies, nanoseconds.
    pub sum: u64,
}

impl Default for Histogram {
    fn default() -> Self {
        Self { counts: vec![0; BUCKETS], sum: 0 }
    }
}

impl Histogram {
    /// How many latencies there are.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.counts.iter().fold(0, |sum, count| sum.wrapping_add(*count))
    }

    /// Adds those of another.
    pub fn add(&mut self, other: &Self) {
        for (count, more) in self.counts.iter_mut().zip(&other.counts) {
            *count = count.wrapping_add(*more);
        }
        self.sum = self.sum.wrapping_add(other.sum);
    }

    /// What was added since `earlier`.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        let counts = self.counts.iter().zip(&earlier.counts).map(|(new, old)| new.wrapping_sub(*old)).collect();
        Self { counts, sum: self.sum.wrapping_sub(earlier.sum) }
    }

    /// A latency that `share` of all are at most, nanoseconds: read off within its
    /// bucket, which is a quarter of its bound wide at most. `None` if there are none;
    /// [`LONGEST`] for longer ones.
    #[must_use]
    pub fn quantile(&self, share: f64) -> Option<u64> {
        let wanted = self.count() as f64 * share;
        let mut below = 0.0;
        for (bucket, count) in self.counts.iter().enumerate().filter(|(_, count)| **count > 0) {
            let count = *count as f64;
            if below + count >= wanted {
                let Some(until) = upper_bound(bucket) else { return Some(LONGEST.as_nanos() as u64) };
                let from = bucket.checked_sub(1).and_then(upper_bound).unwrap_or(0);
                let part = ((wanted - below) / count).clamp(0.0, 1.0);
                return Some(from + ((until - from) as f64 * part) as u64);
            }
            below += count;
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_latency_is_in_the_bucket_whose_bounds_it_is_within() {
        let bounds: Vec<u64> = (0..BUCKETS).filter_map(upper_bound).collect();
        assert_eq!(bounds.len(), BUCKETS - 1);
        assert!(bounds.windows(2).all(|two| two[0] < two[1] && two[1] <= two[0] + two[0] / 4 + 1), "{bounds:?}");
        assert_eq!((bounds[0], bounds.last().copied()), (1_024, Some(LONGEST.as_nanos() as u64)));
        for (bucket, bound) in bounds.iter().enumerate() {
            assert_eq!((bucket_of(*bound), bucket_of(bound + 1)), (bucket, bucket + 1), "{bound}");
        }
        assert_eq!((bucket_of(0), bucket_of(u64::MAX)), (0, BUCKETS - 1));
    }

    #[test]
    fn quantiles_are_near_what_they_were_made_of() {
        let mut histogram = Histogram::default();
        assert_eq!(histogram.quantile(0.5), None);
        for micros in 1..=10_000_u64 {
            histogram.counts[bucket_of(micros * 1_000)] += 1;
            histogram.sum += micros * 1_000;
        }
        for share in [0.01, 0.5, 0.9, 0.99, 1.0] {
            let exact = share * 1e7;
            let found = histogram.quantile(share).expect("there are some") as f64;
            assert!((found / exact - 1.0).abs() < 0.13, "{share}: {found} for {exact}");
        }
        let mut later = histogram.clone();
        later.counts[BUCKETS - 1] += 3;
        assert_eq!(later.since(&histogram).count(), 3);
        assert_eq!(later.since(&histogram).quantile(0.5), Some(LONGEST.as_nanos() as u64));
        histogram.add(&later);
        assert_eq!(histogram.count(), 20_003);
    }
}
