//! Recording of time spans on the fast path.
//!
//! A fixed array with the very buckets that HdrHistogram has at three
//! significant digits, without its bounds, resizing and running totals. So a
//! sample costs about a dozen instructions here, and turning the array into
//! a [`Histogram`] for percentiles, mean and output loses nothing.

use hdrhistogram::Histogram;
use serde::de::{Error as _, SeqAccess, Visitor};
use serde::ser::SerializeSeq;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Bits of a bucket's index within its octave. 2^10 buckets an octave is what
/// HdrHistogram uses for three significant digits: a bucket is at most 1/1024
/// of its value wide.
const PRECISION: u32 = 10;

/// Bits of the longest span: 2^40 ns, 18 minutes.
const RANGE: u32 = 40;

/// The longest span that is told apart, in nanoseconds. Longer ones count as
/// this.
pub const LONGEST: u64 = (1 << RANGE) - 1;

/// Significant decimal digits of every figure read from a recorder.
pub const DIGITS: u8 = 3;

/// HdrHistogram's name for twice the buckets of an octave.
pub const SUB_BUCKETS: u64 = 2 << PRECISION;

/// Buckets that a walk adds up at a time.
const CHUNK: usize = 64;

const BUCKETS: usize = index_of(LONGEST) + 1;

/// The most that is believed of a count that comes from elsewhere: 64 of 1,024 sides add up to less than 2^64.
pub(crate) const COUNTED_LIMIT: u64 = (1 << 48) - 1;

const _: () = assert!(COUNTED_LIMIT <= u64::MAX / (64 * 1_024));

/// The most samples that a bucket is believed to have where it comes from elsewhere: all buckets of
/// 8,192 recorders add up to less than 2^64.
const COUNT_LIMIT: u64 = 1 << 36;

const _: () = assert!(COUNT_LIMIT as u128 * BUCKETS as u128 * 8_192 <= u64::MAX as u128);

const _: () = assert!(BUCKETS == ((RANGE - PRECISION) as usize + 1) << PRECISION);

/// Counts of time spans, in nanoseconds from 1 to [`LONGEST`].
///
/// 254 KB of address space; only the pages that hold recorded values become
/// memory, and those touched in a run are few: samples cluster.
pub struct Recorder {
    counts: Box<[u64; BUCKETS]>,
    max: u64,
    min: u64,
}

impl Clone for Recorder {
    fn clone(&self) -> Self {
        // Not all buckets: see `clear`.
        let mut copy = Self::new();
        copy.merge(self);
        copy
    }
}

impl Default for Recorder {
    fn default() -> Self {
        Self::new()
    }
}

impl core::fmt::Debug for Recorder {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Recorder")
            .field("samples", &self.len())
            .field("min", &self.min())
            .field("max", &self.max)
            .finish_non_exhaustive()
    }
}

impl Recorder {
    /// An empty recorder. All of its memory is taken here.
    #[must_use]
    pub fn new() -> Self {
        // By way of a Vec: a boxed array literal would pass over the stack.
        let counts = match vec![0; BUCKETS].into_boxed_slice().try_into() {
            Ok(counts) => counts,
            Err(_) => unreachable!("the vector was made with this length"),
        };
        Self { counts, max: 0, min: u64::MAX }
    }

    /// Counts one span of `nanos`.
    #[inline]
    pub fn record(&mut self, nanos: u64) {
        let nanos = nanos.min(LONGEST);
        self.max = self.max.max(nanos);
        self.min = self.min.min(nanos);
        self.counts[index_of(nanos)] += 1;
    }

    /// Counts `n` spans of `nanos`.
    pub fn record_n(&mut self, nanos: u64, n: u64) {
        if n > 0 {
            self.record(nanos);
            self.counts[index_of(nanos.min(LONGEST))] += n - 1;
        }
    }

    /// Forgets all samples.
    pub fn clear(&mut self) {
        // Not all buckets: it would take memory for each, and time in a run.
        if !self.is_empty() {
            self.counts[index_of(self.min)..=index_of(self.max)].fill(0);
        }
        self.max = 0;
        self.min = u64::MAX;
    }

    /// Samples recorded.
    #[must_use]
    pub fn len(&self) -> u64 {
        self.occupied().iter().sum()
    }

    /// Whether nothing was recorded.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.min == u64::MAX
    }

    /// The longest span, exact; zero without samples.
    #[must_use]
    pub fn max(&self) -> u64 {
        self.max
    }

    /// The shortest span, exact; zero without samples.
    #[must_use]
    pub fn min(&self) -> u64 {
        if self.is_empty() { 0 } else { self.min }
    }

    /// The span that `quantile` (0 to 1) of the samples do not exceed, within
    /// 1/1024; zero without samples. Walks the buckets between the shortest
    /// and the longest span: microseconds, for once-a-second use.
    #[must_use]
    pub fn quantile(&self, quantile: f64) -> u64 {
        let wanted = (quantile.clamp(0.0, 1.0) * self.len() as f64).ceil().max(1.0) as u64;
        let mut index = if self.is_empty() { 0 } else { index_of(self.min) };
        let mut seen = 0;
        // Whole chunks first: without a branch in each bucket the sum is SIMD.
        for chunk in self.occupied().chunks(CHUNK) {
            let sum: u64 = chunk.iter().sum();
            if seen + sum < wanted {
                seen += sum;
                index += chunk.len();
                continue;
            }
            for count in chunk {
                seen += count;
                if seen >= wanted {
                    return highest_of(index).min(self.max);
                }
                index += 1;
            }
        }
        self.max
    }

    /// As [`Recorder::quantile`], of the samples of several recorders.
    pub(crate) fn quantile_of_all<'a>(all: impl Iterator<Item = &'a Self> + Clone, quantile: f64) -> u64 {
        let filled = all.filter(|recorder| !recorder.is_empty());
        let mut few = filled.clone();
        if let (Some(only), None) = (few.next(), few.next()) {
            return only.quantile(quantile);
        }
        let samples: u64 = filled.clone().map(Self::len).sum();
        let wanted = (quantile.clamp(0.0, 1.0) * samples as f64).ceil().max(1.0) as u64;
        let bound = |bound: fn(&Self) -> u64| filled.clone().map(bound);
        let (Some(min), Some(max)) = (bound(Self::min).min(), bound(Self::max).max()) else {
            return 0;
        };
        let mut seen = 0;
        for index in index_of(min)..=index_of(max) {
            seen += filled.clone().map(|recorder| recorder.counts[index]).sum::<u64>();
            if seen >= wanted {
                return highest_of(index).min(max);
            }
        }
        max
    }

    /// The sum of all spans in nanoseconds, each taken as the middle of its
    /// bucket.
    #[must_use]
    pub fn total(&self) -> f64 {
        let first = if self.is_empty() { 0 } else { index_of(self.min) };
        let middle = |index: usize| (lowest_of(index) + highest_of(index)) as f64 / 2.0;
        self.occupied().iter().enumerate().map(|(offset, &count)| count as f64 * middle(first + offset)).sum()
    }

    /// Adds the samples of another recorder.
    pub fn merge(&mut self, other: &Self) {
        if other.is_empty() {
            return;
        }
        let range = index_of(other.min)..=index_of(other.max);
        for (mine, theirs) in self.counts[range].iter_mut().zip(other.occupied()) {
            *mine += theirs;
        }
        self.max = self.max.max(other.max);
        self.min = self.min.min(other.min);
    }

    /// The same samples as an HdrHistogram of nanoseconds; bucket for bucket.
    #[must_use]
    pub fn histogram(&self) -> Histogram<u64> {
        let mut histogram = match Histogram::new_with_bounds(1, LONGEST, DIGITS) {
            Ok(histogram) => histogram,
            Err(_) => unreachable!("constant bounds that the crate accepts"),
        };
        let first = if self.is_empty() { 0 } else { index_of(self.min) };
        for (offset, &count) in self.occupied().iter().enumerate() {
            if count > 0 {
                histogram.saturating_record_n(lowest_of(first + offset), count);
            }
        }
        histogram
    }

    /// The buckets from the shortest to the longest span.
    fn occupied(&self) -> &[u64] {
        if self.is_empty() {
            return &[];
        }
        &self.counts[index_of(self.min)..=index_of(self.max)]
    }
}

/// The bucket of a span of at most [`LONGEST`] nanoseconds: linear up to
/// 2^11, then 2^10 buckets for each octave.
#[inline]
const fn index_of(nanos: u64) -> usize {
    let shift = (nanos | (1 << PRECISION)).ilog2() - PRECISION;
    ((shift as usize) << PRECISION) + (nanos >> shift) as usize
}

/// The shortest span that falls into a bucket.
const fn lowest_of(index: usize) -> u64 {
    let index = index as u64;
    let octave = index >> PRECISION;
    if octave <= 1 {
        return index;
    }
    let shift = octave - 1;
    (index - (shift << PRECISION)) << shift
}

/// The longest span that falls into a bucket.
const fn highest_of(index: usize) -> u64 {
    lowest_of(index + 1) - 1
}

/// The shortest and the longest span, and then each bucket that is not empty: how many are empty before it, and
/// its count. Nothing without samples.
impl Serialize for Recorder {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut numbers = serializer.serialize_seq(None)?;
        if !self.is_empty() {
            numbers.serialize_element(&self.min)?;
            numbers.serialize_element(&self.max)?;
        }
        let mut empty = 0_u64;
        for count in self.occupied() {
            if *count == 0 {
                empty += 1;
            } else {
                numbers.serialize_element(&empty)?;
                numbers.serialize_element(count)?;
                empty = 0;
            }
        }
        numbers.end()
    }
}

impl<'de> Deserialize<'de> for Recorder {
    /// Takes nothing that [`Serialize`] does not make: whoever sends it may be anybody.
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_seq(Numbers)
    }
}

/// Reads a recorder's numbers as they come, without keeping them.
struct Numbers;

impl<'de> Visitor<'de> for Numbers {
    type Value = Recorder;

    fn expecting(&self, formatter: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        formatter.write_str("the buckets of a distribution")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut numbers: A) -> Result<Recorder, A::Error> {
        let bad = |why: &str| A::Error::custom(why);
        let mut recorder = Recorder::new();
        let Some(min) = numbers.next_element::<u64>()? else { return Ok(recorder) };
        let max = numbers.next_element::<u64>()?.ok_or_else(|| bad("a distribution without its longest span"))?;
        if min > max || max > LONGEST {
            return Err(bad("a distribution whose ends make no sense"));
        }
        let (mut index, mut first) = (index_of(min), true);
        while let Some(empty) = numbers.next_element::<u64>()? {
            let count = numbers.next_element::<u64>()?.ok_or_else(|| bad("a bucket without a count"))?;
            // The first bucket is that of the shortest span, the others follow.
            let skipped = usize::try_from(empty).unwrap_or(BUCKETS).saturating_add(usize::from(!first));
            index = index.saturating_add(skipped);
            if index > index_of(max) || count == 0 || count > COUNT_LIMIT || (first && empty > 0) {
                return Err(bad("a bucket that is none of the distribution's"));
            }
            recorder.counts[index] = count;
            first = false;
        }
        if first || index != index_of(max) {
            return Err(bad("a distribution whose longest span is in no bucket"));
        }
        (recorder.min, recorder.max) = (min, max);
        Ok(recorder)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_tile_the_range_and_are_narrow() {
        for index in 0..BUCKETS {
            let (low, high) = (lowest_of(index), highest_of(index));
            assert_eq!(index_of(low), index);
            assert_eq!(index_of(high), index);
            assert_eq!(high + 1, lowest_of(index + 1));
            assert!((high - low) * 1024 <= low, "bucket {index}: {low}..{high}");
        }
        assert_eq!(highest_of(BUCKETS - 1), LONGEST);
    }

    #[test]
    fn the_histogram_holds_the_same_buckets() {
        let mut recorder = Recorder::new();
        let mut direct = Histogram::<u64>::new_with_bounds(1, LONGEST, DIGITS).unwrap();
        let mut seed = 1u64;
        for _ in 0..100_000 {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let nanos = (seed >> 24) >> (seed % 39);
            let nanos = nanos.max(1);
            recorder.record(nanos);
            direct.record(nanos).unwrap();
        }
        let merged = recorder.histogram();
        assert_eq!(merged.len(), 100_000);
        let cells = |h: &Histogram<u64>| -> Vec<(u64, u64)> {
            h.iter_recorded().map(|v| (v.value_iterated_to(), v.count_at_value())).collect()
        };
        assert_eq!(cells(&merged), cells(&direct));
        for q in [0.0, 0.5, 0.9, 0.99, 0.999, 0.9999] {
            assert_eq!(recorder.quantile(q), direct.value_at_quantile(q));
        }
        assert_eq!(recorder.quantile(1.0), recorder.max());
    }

    #[test]
    fn a_span_beyond_the_range_counts_as_the_longest() {
        let mut recorder = Recorder::new();
        recorder.record(u64::MAX);
        assert_eq!(recorder.max(), LONGEST);
        assert_eq!(recorder.histogram().len(), 1);
    }

    #[test]
    fn empty_is_empty() {
        let mut recorder = Recorder::new();
        assert_eq!((recorder.len(), recorder.min(), recorder.max()), (0, 0, 0));
        assert_eq!(recorder.quantile(0.99), 0);
        assert!(recorder.histogram().is_empty());
        recorder.record(0);
        assert!(!recorder.is_empty());
        recorder.record(123_456);
        recorder.clear();
        assert!(recorder.is_empty());
        recorder.record(7);
        assert_eq!((recorder.len(), recorder.histogram().max()), (1, 7));
    }

    #[test]
    fn what_is_written_is_read_bucket_by_bucket_and_nothing_else_is() {
        let mut recorder = Recorder::new();
        let text = |recorder: &Recorder| serde_json::to_string(recorder).expect("numbers");
        let read = |text: &str| serde_json::from_str::<Recorder>(text);
        assert_eq!(text(&recorder), "[]");
        assert!(read("[]").expect("nothing").is_empty());
        for nanos in [0, 7, 7, 5_001, 123_456_789, LONGEST] {
            recorder.record(nanos);
        }
        let again = read(&text(&recorder)).expect("our own");
        assert_eq!((again.min, again.max, &again.counts), (recorder.min, recorder.max, &recorder.counts));
        recorder.clear();
        recorder.record_n(5_001, 9);
        assert_eq!(text(&recorder), "[5001,5001,0,9]");
        for bad in [
            "[5001]",
            "[5001,5001]",
            "[5001,5001,0]",
            "[5001,5001,0,0]",
            "[5001,5001,1,9]",
            "[5001,5001,0,9,0,1]",
            "[5001,4001,0,9]",
            "[5001,9001,0,9]",
            "[5001,9001,0,9,18446744073709551615,1]",
            "[1,1099511627776,0,1,30000,1]",
            "[5001,5001,0,68719476737]",
            "[5001,5001,0,-9]",
            "[5001,5001,0,9.5]",
            "{}",
        ] {
            assert!(read(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn merging_adds() {
        let (mut one, mut two) = (Recorder::new(), Recorder::new());
        one.record(10);
        two.record(10);
        two.record(3_000_000);
        one.merge(&two);
        assert_eq!((one.len(), one.min(), one.max()), (3, 10, 3_000_000));
        assert_eq!(one.histogram().count_at(10), 2);
    }
}
