//! What holds of any distribution: order, bounds on the mean by percentiles,
//! and bounds on percentiles by mean and deviation.

use crate::figure::{Interval, Show};
use crate::relation::Order::AtMost;
use crate::relation::Relation;
use crate::run::Latency;

const PROOF: &str = "the histogram, or all samples, of the phase that the figures are of";

pub(super) fn check(latency: &Latency, out: &mut Vec<Relation>) {
    order(latency, out);
    spread(latency, out);
    if let Some(off) = latency.off {
        chebyshev(latency, off, out);
        mean_between(latency, off, out);
    }
}

fn at_most(check: &'static str, latency: &Latency, low: (&str, Interval), high: (&str, Interval)) -> Relation {
    let says = format!("{}: the {} is above the {}", latency.name, low.0, high.0);
    let arithmetic = format!("{} = {} ms, {} = {} ms", low.0, milli(low.1), high.0, milli(high.1));
    Relation::new(check, (low.1, AtMost, high.1), says, arithmetic, PROOF)
}

fn milli(figure: Interval) -> Show {
    Show((figure.middle() * 1e9).round() / 1e6)
}

fn percent(share: f64) -> String {
    format!("{} % percentile", Show((share * 1e8).round() / 1e6))
}

/// The smallest, the percentiles by their shares, the largest; the mean
/// between the ends.
fn order(latency: &Latency, out: &mut Vec<Relation>) {
    let mut steps: Vec<(f64, String, Interval)> = Vec::new();
    steps.extend(latency.min.map(|min| (-1.0, "minimum".to_owned(), min)));
    steps.extend(latency.percentiles.iter().map(|(share, value)| (*share, percent(*share), *value)));
    steps.extend(latency.max.map(|max| (2.0, "maximum".to_owned(), max)));
    if latency.percentiles.iter().all(|(share, _)| (*share - 0.5).abs() > 1e-9) {
        steps.extend(latency.median.map(|median| (0.5, "median".to_owned(), median)));
    }
    steps.sort_by(|a, b| a.0.total_cmp(&b.0));
    for pair in steps.windows(2) {
        out.push(at_most("percentile-order", latency, (&pair[0].1, pair[0].2), (&pair[1].1, pair[1].2)));
    }
    if let Some(mean) = latency.mean {
        out.extend(latency.min.map(|min| at_most("mean", latency, ("minimum", min), ("mean", mean))));
        out.extend(latency.max.map(|max| at_most("mean", latency, ("mean", mean), ("maximum", max))));
    }
}

/// The deviation is at most half the range, and at least what the extremes
/// alone make (Popoviciu; Samuelson), of n samples.
fn spread(latency: &Latency, out: &mut Vec<Relation>) {
    let Some(deviation) = latency.deviation else { return };
    let samples = latency.samples.unwrap_or(2.0).max(2.0);
    if let (Some(min), Some(max)) = (latency.min, latency.max) {
        let correction = (samples / (samples - 1.0)).sqrt();
        let right = (max - min).times(correction / 2.0);
        let says = format!("{}: the deviation is more than half the range", latency.name);
        let arithmetic = format!("({} − {}) ms / 2; {} ms is said", milli(max), milli(min), milli(deviation));
        out.push(Relation::new("deviation", (deviation, AtMost, right.loose(0.01)), says, arithmetic, PROOF));
    }
    if let (Some(mean), Some(samples)) = (latency.mean, latency.samples)
        && samples >= 2.0
    {
        let most = deviation.times((samples - 1.0).sqrt()).loose(0.01);
        for (name, end) in
            [("maximum", latency.max.map(|max| max - mean)), ("minimum", latency.min.map(|min| mean - min))]
        {
            let Some(end) = end else { continue };
            let says =
                format!("{}: the {name} is farther from the mean than {} samples allow", latency.name, Show(samples));
            let arithmetic = format!("{} ms away; {} ms × √(n − 1) = {} ms", milli(end), milli(deviation), milli(most));
            out.push(Relation::new("deviation", (end, AtMost, most), says, arithmetic, PROOF));
        }
    }
}

/// Cantelli: a share p of samples lies no farther above the mean than
/// σ √(p / (1 − p)), and below it likewise.
fn chebyshev(latency: &Latency, off: f64, out: &mut Vec<Relation>) {
    let (Some(mean), Some(deviation)) = (latency.mean, latency.deviation) else { return };
    let median = latency.median.map(|median| (0.5, median));
    for (share, value) in latency.percentiles.iter().copied().chain(median) {
        // One sample more or less, where few are.
        let one = latency.samples.map_or(1e-3, |samples| 1.5 / samples).min(0.25);
        let (up, down) = ((share + one).min(1.0 - one / 2.0), (share - one).max(one / 2.0));
        if share <= 0.0 || share >= 1.0 || up >= 1.0 || down <= 0.0 {
            continue;
        }
        let value = value.loose(off);
        let above = deviation.times((up / (1.0 - up)).sqrt()).loose(0.01);
        let below = deviation.times(((1.0 - down) / down).sqrt()).loose(0.01);
        for (end, bound, side) in [(value - mean, above, "above"), (mean - value, below, "below")] {
            let name = percent(share);
            let says = format!("{}: the {name} is farther {side} the mean than the deviation allows", latency.name);
            let arithmetic = format!(
                "{} ms − {} ms mean; Cantelli's bound is {} ms at a deviation of {} ms",
                milli(value),
                milli(mean),
                milli(bound),
                milli(deviation)
            );
            out.push(Relation::new("chebyshev", (end, AtMost, bound), says, arithmetic, PROOF));
        }
    }
}

/// The mean lies between what it is if each sample is as small, and as large,
/// as the percentiles around it allow.
fn mean_between(latency: &Latency, off: f64, out: &mut Vec<Relation>) {
    let Some(mean) = latency.mean else { return };
    let mut steps = latency.percentiles.clone();
    steps.extend(latency.median.filter(|_| steps.iter().all(|step| (step.0 - 0.5).abs() > 1e-9)).map(|m| (0.5, m)));
    if steps.is_empty() {
        return;
    }
    steps.sort_by(|a, b| a.0.total_cmp(&b.0));
    let one = latency.samples.map_or(1e-3, |samples| 1.5 / samples);
    let line = mean.line;
    let mut least = (0.0, latency.min.map_or(0.0, |min| min.low.max(0.0)));
    let mut sum = 0.0;
    for (share, value) in &steps {
        let share = (share + one).min(1.0);
        sum += (share - least.0).max(0.0) * least.1;
        least = (share.max(least.0), (value.low * (1.0 - off)).max(least.1));
    }
    let low = Interval::exact(sum + (1.0 - least.0) * least.1, line);
    let says = format!("{}: the percentiles alone make a higher mean than is said", latency.name);
    let arithmetic = format!("the mean is at least {} ms; {} ms is said", milli(low), milli(mean));
    out.push(Relation::new("mean", (low, AtMost, mean.loose(0.005)), says, arithmetic, PROOF));
    let Some(max) = latency.max else { return };
    let (mut sum, mut before): (f64, f64) = (0.0, 0.0);
    for (share, value) in &steps {
        let share = (share - one).max(before);
        sum += (share - before) * value.high * (1.0 + off);
        before = share;
    }
    let high = Interval::exact(sum + (1.0 - before) * max.high, line);
    let says = format!("{}: percentiles and maximum cannot make so high a mean", latency.name);
    let arithmetic = format!("the mean is at most {} ms; {} ms is said", milli(high), milli(mean));
    out.push(Relation::new("mean", (mean, AtMost, high.loose(0.005)), says, arithmetic, PROOF));
}
