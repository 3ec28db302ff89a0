//! Latencies of one run: exact moments, and a histogram that other tools read.

use crate::runs::Distribution;
use base64::prelude::{BASE64_STANDARD, Engine};
use demo::measure::PERCENTILES;
use hdrhistogram::Histogram;
use hdrhistogram::serialization::{Serializer, V2Serializer};
use stats::{Log2, Moments};

/// Three digits of each value are kept, up to an hour: an error of at most
/// 0.1 %, in some 200 KB.
const DIGITS: u8 = 3;
const LONGEST_NS: u64 = 3_600_000_000_000;

/// Nanoseconds in a microsecond, and in a millisecond.
const MICRO: f64 = 1_000.0;
const MILLI: f64 = 1_000_000.0;

/// Latencies as they come, in nanoseconds.
#[derive(Clone, Debug)]
pub struct Latencies {
    histogram: Histogram<u64>,
    moments: Moments,
}

impl Default for Latencies {
    fn default() -> Self {
        let histogram = Histogram::new_with_bounds(1, LONGEST_NS, DIGITS);
        Self { histogram: histogram.expect("the bounds are in order"), moments: Moments::default() }
    }
}

impl Latencies {
    /// Takes one in; longer ones than an hour count as an hour.
    pub fn add(&mut self, nanoseconds: u64) {
        self.histogram.saturating_record(nanoseconds);
        self.moments.add(nanoseconds as f64);
    }

    /// How many there are.
    #[must_use]
    pub const fn count(&self) -> u64 {
        self.moments.count()
    }

    /// Min, mean, median, max and deviation, ms.
    #[must_use]
    pub fn milliseconds(&self) -> Summary {
        Summary {
            min: self.moments.min() / MILLI,
            mean: self.moments.mean() / MILLI,
            median: self.histogram.value_at_quantile(0.5) as f64 / MILLI,
            max: self.moments.max() / MILLI,
            deviation: self.moments.deviation() / MILLI,
            count: self.moments.count(),
        }
    }

    /// The latency that a share (0 to 1) of them does not exceed, ms.
    #[must_use]
    pub fn at(&self, share: f64) -> f64 {
        self.histogram.value_at_quantile(share) as f64 / MILLI
    }

    /// As results keep them.
    #[must_use]
    pub fn distribution(&self) -> Distribution {
        let at = |percentile: &f64| self.histogram.value_at_quantile(percentile / 100.0) as f64 / MICRO;
        let mut bytes = Vec::new();
        // Fails only on an output that fails, and on more buckets than 2^31.
        let written = V2Serializer::new().serialize(&self.histogram, &mut bytes).is_ok();
        Distribution {
            curve: PERCENTILES.iter().map(at).collect(),
            max: self.moments.max() / MICRO,
            count: self.moments.count(),
            hdr: written.then(|| BASE64_STANDARD.encode(&bytes)),
        }
    }
}

/// What stands above a log-2 histogram.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Summary {
    /// The shortest, ms.
    pub min: f64,
    /// The mean, ms.
    pub mean: f64,
    /// The median, ms.
    pub median: f64,
    /// The longest, ms.
    pub max: f64,
    /// The standard deviation, ms.
    pub deviation: f64,
    /// How many there are.
    pub count: u64,
}

impl core::fmt::Display for Summary {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        let Self { min, mean, median, max, deviation, count } = self;
        write!(f, "min {min:.2} avg {mean:.2} med {median:.2} max {max:.2} dev {deviation:.2} ms, count {count}")
    }
}

/// The log-2 histogram of kept latencies, in milliseconds; `None` where no
/// histogram was kept.
#[must_use]
pub fn log2(distributions: &[&Distribution]) -> Option<Log2> {
    let mut histogram = Log2::default();
    for distribution in distributions {
        let bytes = BASE64_STANDARD.decode(distribution.hdr.as_ref()?).ok()?;
        let read: Histogram<u64> =
            hdrhistogram::serialization::Deserializer::new().deserialize(&mut &bytes[..]).ok()?;
        for value in read.iter_recorded() {
            histogram.add(value.value_iterated_to() as f64 / MILLI, value.count_since_last_iteration());
        }
    }
    Some(histogram)
}
