//! HdrHistogram's percentile table.

use core::fmt::Write;
use load::{Report, SUB_BUCKETS};

/// Steps of the percentile table for each halving of the distance to 100 %,
/// as HdrHistogram's own tools have them.
const HGRM_TICKS: u32 = 5;

/// The distribution of latencies as HdrHistogram's percentile table, which
/// its plotting tools read. Values are in milliseconds, as these tools expect.
#[must_use]
pub fn render_hgrm(report: &Report) -> String {
    let mut out = String::new();
    let _ = hgrm(&mut out, report);
    out
}

fn hgrm(out: &mut String, report: &Report) -> core::fmt::Result {
    let millis = |nanos: f64| nanos * 1e-6;
    let histogram = &report.histogram;
    writeln!(out, "{:>12} {:>14} {:>10} {:>14}\n", "Value", "Percentile", "TotalCount", "1/(1-Percentile)")?;
    let mut total = 0;
    for step in histogram.iter_quantiles(HGRM_TICKS) {
        total += step.count_since_last_iteration();
        let value = millis(step.value_iterated_to().min(report.latency.max_ns) as f64);
        let quantile = step.quantile_iterated_to();
        write!(out, "{value:12.6} {quantile:2.12} {total:10}")?;
        if quantile < 1.0 {
            write!(out, " {:14.2}", 1.0 / (1.0 - quantile))?;
        }
        out.push('\n');
    }
    let latency = &report.latency;
    writeln!(out, "#[Mean    = {:12.6}, StdDeviation   = {:12.6}]", millis(latency.mean_ns), millis(latency.stdev_ns))?;
    writeln!(out, "#[Max     = {:12.6}, Total count    = {:12}]", millis(latency.max_ns as f64), latency.samples)?;
    writeln!(out, "#[Buckets = {:12}, SubBuckets     = {SUB_BUCKETS:12}]", histogram.buckets())
}
