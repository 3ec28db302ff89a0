//! The distribution of latencies as a histogram of powers of two, in plain
//! characters.

use core::fmt::Write;
use hdrhistogram::Histogram;
use load::{Latency, Report};

/// The longest bar, in characters.
const WIDTH: usize = 50;

/// The longest span that has a row of its own: 2^40 of the unit and more
/// share the last one.
const ROWS: usize = 41;

/// What the rows count in.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Unit {
    /// Microseconds.
    Micros,
    /// Milliseconds.
    Millis,
}

impl Unit {
    /// The one in which the median has digits before the point.
    #[must_use]
    pub fn of(latency: &Latency) -> Self {
        if latency.p50_ns >= 1_000_000 { Self::Millis } else { Self::Micros }
    }

    const fn nanos(self) -> f64 {
        match self {
            Self::Micros => 1e3,
            Self::Millis => 1e6,
        }
    }

    const fn name(self) -> &'static str {
        match self {
            Self::Micros => "µs",
            Self::Millis => "ms",
        }
    }
}

/// A run's latencies as [`log2_histogram`], in the unit that suits, and what
/// speaks against them.
#[must_use]
pub fn render_histogram(report: &Report) -> String {
    let histogram = &report.histogram;
    let mut out = log2_histogram("Latency", &report.latency, histogram, Unit::of(&report.latency));
    let _ = crate::warnings(&mut out, report);
    out
}

/// A distribution in nanoseconds, as a line of figures and a row for each
/// power of two: how many were at least that long and shorter than the next row's. A bar is
/// as long as its count beside the largest.
///
/// A span is known to three digits, so one that lies within a thousandth
/// of a power of two may stand in the neighbouring row.
#[must_use]
pub fn log2_histogram(title: &str, latency: &Latency, histogram: &Histogram<u64>, unit: Unit) -> String {
    let mut out = String::new();
    let _ = rows(&mut out, title, latency, histogram, unit);
    out
}

fn rows(out: &mut String, title: &str, latency: &Latency, histogram: &Histogram<u64>, unit: Unit) -> core::fmt::Result {
    let scale = unit.nanos();
    let figures = [latency.min_ns as f64, latency.mean_ns, latency.p50_ns as f64, latency.max_ns as f64];
    let ([min, avg, med, max], dev) = (figures.map(|nanos| nanos / scale), latency.stdev_ns / scale);
    let count = latency.samples;
    writeln!(out, "min:{min:.2} avg:{avg:.2} med={med:.2} max:{max:.2} dev:{dev:.2} count:{count}")?;
    writeln!(out, "{title} in {}:", unit.name())?;
    let counts = counts(histogram, scale);
    let last = counts.iter().rposition(|count| *count > 0);
    let Some(last) = last else { return Ok(()) };
    let most = counts.iter().copied().max().unwrap_or(0).max(1);
    let label = |row: usize| if row == 0 { 0 } else { 1_u64 << (row - 1) };
    let width = label(last).to_string().len().max("value".len());
    writeln!(out, "{:>width$} |{} count", "value", "-".repeat(WIDTH))?;
    for (row, count) in counts.iter().enumerate().take(last + 1) {
        let bar = (*count as f64 / most as f64 * WIDTH as f64).round() as usize;
        writeln!(out, "{:>width$} |{:>WIDTH$} {count}", label(row), "*".repeat(bar))?;
    }
    Ok(())
}

/// Samples below 1 of the unit, from 1 to 2, from 2 to 4, and so on.
fn counts(histogram: &Histogram<u64>, scale: f64) -> [u64; ROWS + 1] {
    let mut counts = [0; ROWS + 1];
    for bucket in histogram.iter_recorded() {
        // A bucket is named by its end; its middle is nearer to its samples.
        let value = histogram.median_equivalent(bucket.value_iterated_to()) as f64 / scale;
        let row = if value < 1.0 { 0 } else { value.log2() as usize + 1 };
        counts[row.min(ROWS)] += bucket.count_at_value();
    }
    counts
}

#[cfg(test)]
mod tests {
    use super::*;
    use load::Recorder;

    fn recorded(spans: &[(u64, u64)]) -> (Latency, Histogram<u64>) {
        let mut recorder = Recorder::new();
        for (nanos, count) in spans {
            (0..*count).for_each(|_| recorder.record(*nanos));
        }
        let histogram = recorder.histogram();
        (Latency::new(&recorder, &histogram), histogram)
    }

    /// Rows and counts in the proportions of a published accept-queue
    /// experiment: nearly all between 16 and 32 ms.
    #[test]
    fn rows_are_powers_of_two() {
        let spans = [(2_500_000, 1), (5_000_000, 16), (9_000_000, 67), (30_000_000, 91_760), (40_000_000, 8_155)];
        let (latency, histogram) = recorded(&spans);
        let text = log2_histogram("Duration", &latency, &histogram, Unit::Millis);
        let expected = "\
min:2.50 avg:30.80 med=30.02 max:40.00 dev:2.81 count:99999
Duration in ms:
value |-------------------------------------------------- count
    0 |                                                   0
    1 |                                                   0
    2 |                                                   1
    4 |                                                   16
    8 |                                                   67
   16 |************************************************** 91760
   32 |                                              **** 8155
";
        assert_eq!(text, expected, "\n{text}");
    }

    #[test]
    fn the_unit_follows_the_median_and_nothing_is_lost() {
        let (latency, histogram) = recorded(&[(500, 3), (1_500, 2), (70_000, 1)]);
        assert_eq!(Unit::of(&latency), Unit::Micros);
        let text = log2_histogram("Latency", &latency, &histogram, Unit::of(&latency));
        let total: u64 = text.lines().skip(3).filter_map(|row| row.rsplit(' ').next()?.parse::<u64>().ok()).sum();
        assert_eq!(total, 6, "{text}");
        assert_eq!(Unit::of(&recorded(&[(1_000_000, 1)]).0), Unit::Millis);
        let (latency, histogram) = recorded(&[]);
        let none = log2_histogram("Latency", &latency, &histogram, Unit::Millis);
        assert!(none.ends_with("count:0\nLatency in ms:\n"), "{none}");
    }
}
