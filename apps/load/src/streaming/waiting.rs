//! Times of which some were not over: how long at least.

use crate::recorder::Recorder;

/// A time, or that it is longer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Waited {
    /// In nanoseconds.
    pub nanos: u64,
    /// It is so long at least.
    pub at_least: bool,
}

/// The time that `quantile` of all do not exceed, of those that ended and those that were waited for when nobody
/// looked any more. What waited counts as longer than it was, and as the others that are longer (Kaplan and Meier,
/// 1958, "Nonparametric estimation from incomplete observations"); none without any.
pub fn quantile(ended: &Recorder, waiting: &Recorder, quantile: f64) -> Option<Waited> {
    if waiting.is_empty() {
        return (!ended.is_empty()).then(|| Waited { nanos: ended.quantile(quantile), at_least: false });
    }
    let steps = |recorder: &Recorder, ends: bool| {
        let histogram = recorder.histogram();
        let step =
            |at: hdrhistogram::iterators::IterationValue<u64>| (at.value_iterated_to(), !ends, at.count_at_value());
        histogram.iter_recorded().map(step).collect::<Vec<_>>()
    };
    let mut all = steps(ended, true);
    all.extend(steps(waiting, false));
    // Where both are alike, what waited is the longer.
    all.sort_unstable();
    let mut left: u64 = ended.len() + waiting.len();
    let mut longer = 1.0;
    for (nanos, waits, count) in all {
        if !waits {
            longer *= 1.0 - count as f64 / left as f64;
            if 1.0 - longer >= quantile - 1e-9 {
                return Some(Waited { nanos: nanos.min(ended.max()), at_least: false });
            }
        }
        left -= count;
    }
    Some(Waited { nanos: waiting.max().max(ended.max()), at_least: true })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn recorder(times: &[u64]) -> Recorder {
        let mut recorder = Recorder::new();
        times.iter().for_each(|time| recorder.record(*time));
        recorder
    }

    fn of(ended: &[u64], waiting: &[u64], at: f64) -> Option<(u64, bool)> {
        quantile(&recorder(ended), &recorder(waiting), at).map(|waited| (waited.nanos, waited.at_least))
    }

    #[test]
    fn what_waited_is_longer_than_it_was() {
        assert_eq!(of(&[], &[], 0.5), None);
        assert_eq!(of(&[10, 20, 30, 40], &[], 0.5), Some((20, false)));
        assert_eq!(of(&[10, 20, 30, 40], &[], 1.0), Some((40, false)));
        // Half of them never came: the median is known, what is beyond it is not.
        assert_eq!(of(&[10, 20], &[600, 600], 0.5), Some((20, false)));
        assert_eq!(of(&[10, 20], &[600, 600], 0.99), Some((600, true)));
        assert_eq!(of(&[], &[600], 0.01), Some((600, true)));
        // One that was asked for a moment ago is as the others: it spoils no percentile.
        assert_eq!(of(&[10, 20, 30, 40], &[2], 0.99), Some((40, false)));
        assert_eq!(of(&[10, 20, 30, 40], &[2], 0.5), Some((20, false)));
        // The longest that came is no bound on one that waited as long.
        assert_eq!(of(&[10, 20, 30, 40], &[40], 1.0), Some((40, true)));
    }
}
