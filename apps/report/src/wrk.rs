//! A report in the form of wrk 4.1, line for line.

use core::fmt::Write;
use hdrhistogram::Histogram;
use load::{Recorder, Report};

/// What wrk prints of a run.
///
/// The row `Req/Sec` is of requests per second and thread, as wrk's: its
/// samples are `thread_rates`, one for each thread and interval of the run,
/// and without them there is no such row.
#[must_use]
pub fn render_wrk(report: &Report, thread_rates: &Recorder) -> String {
    let mut out = String::new();
    let _ = wrk(&mut out, report, thread_rates);
    out
}

fn wrk(out: &mut String, report: &Report, thread_rates: &Recorder) -> core::fmt::Result {
    let setup = &report.setup;
    let window = report.window_ns as f64 * 1e-3;
    let test = format_time_s((window * 1e-6).round());
    writeln!(out, "Running {test} test @ {}", crate::url(setup))?;
    writeln!(out, "  {} threads and {} connections", report.silos, setup.connections)?;
    writeln!(out, "  Thread Stats{:>6}{:>11}{:>8}{:>12}", "Avg", "Stdev", "Max", "+/- Stdev")?;
    let latency = &report.latency;
    let micros = |nanos: f64| nanos * 1e-3;
    let within = within_stdev(&report.histogram, latency.mean_ns, latency.stdev_ns);
    let [mean, stdev, max] = [latency.mean_ns, latency.stdev_ns, latency.max_ns as f64].map(micros);
    row(out, "Latency", [mean, stdev, max], within, format_time_us)?;
    if !thread_rates.is_empty() {
        let rates = thread_rates.histogram();
        let (mean, stdev) = (rates.mean(), rates.stdev());
        let within = within_stdev(&rates, mean, stdev);
        row(out, "Req/Sec", [mean, stdev, thread_rates.max() as f64], within, format_metric)?;
    }
    writeln!(out, "  Latency Distribution")?;
    for (name, value) in
        [("50", latency.p50_ns), ("75", latency.p75_ns), ("90", latency.p90_ns), ("99", latency.p99_ns)]
    {
        writeln!(out, "{name:>7}%{}", cell(&format_time_us(micros(value as f64)), 10))?;
    }
    let (responses, errors) = (report.traffic.responses, &report.errors);
    let read = format_binary(report.traffic.received_bytes as f64);
    writeln!(out, "  {responses} requests in {}, {read}B read", format_time_us(window))?;
    let failed = errors.failed_requests() - errors.timeouts;
    let connect = errors.failed_connects();
    if connect + failed + errors.timeouts > 0 {
        // What failed while sending and what while receiving is not told
        // apart; both are lost answers, and stand under `read`.
        let timeouts = errors.timeouts;
        writeln!(out, "  Socket errors: connect {connect}, read {failed}, write 0, timeout {timeouts}")?;
    }
    let refused = responses - report.statuses.success - report.statuses.redirection;
    if refused > 0 {
        writeln!(out, "  Non-2xx or 3xx responses: {refused}")?;
    }
    let rates = &report.throughput;
    writeln!(out, "Requests/sec: {:>9.2}", crate::printed_rate(report))?;
    writeln!(out, "Transfer/sec: {:>10}B", format_binary(rates.received_bytes_per_second))?;
    crate::warnings(out, report)
}

/// The percentage of samples within one deviation of the mean.
fn within_stdev(histogram: &Histogram<u64>, mean: f64, stdev: f64) -> f64 {
    if histogram.is_empty() {
        return 0.0;
    }
    let bounds = (mean - stdev)..=(mean + stdev);
    let within = histogram
        .iter_recorded()
        .filter(|bucket| bounds.contains(&(histogram.median_equivalent(bucket.value_iterated_to()) as f64)));
    within.map(|bucket| bucket.count_at_value()).sum::<u64>() as f64 / histogram.len() as f64 * 100.0
}

fn row(out: &mut String, name: &str, stats: [f64; 3], within: f64, format: fn(f64) -> String) -> core::fmt::Result {
    let [mean, stdev, max] = stats.map(format);
    let (mean, stdev, max) = (cell(&mean, 8), cell(&stdev, 10), cell(&max, 9));
    writeln!(out, "    {name:<10}{mean}{stdev}{max}{within:>8.2}%")
}

/// A value right-aligned on its digits: units of two letters reach further
/// to the right than those of one, and those further than none.
fn cell(text: &str, width: usize) -> String {
    let letters = text.chars().rev().take(2).filter(char::is_ascii_alphabetic).count();
    let pad = 2 - letters;
    format!("{text:>0$}{1:pad$}", width - pad, "")
}

fn format_time_us(micros: f64) -> String {
    if micros >= 1e6 { scaled(micros * 1e-6, 60.0, &["s", "m", "h"], 2) } else { scaled(micros, 1e3, &["us", "ms"], 2) }
}

fn format_time_s(seconds: f64) -> String {
    scaled(seconds, 60.0, &["s", "m", "h"], 0)
}

fn format_metric(value: f64) -> String {
    scaled(value, 1e3, &["", "k", "M", "G", "T", "P"], 2)
}

fn format_binary(value: f64) -> String {
    scaled(value, 1024.0, &["", "K", "M", "G", "T", "P"], 2)
}

/// The next unit begins at 85 % of it.
const NEXT_UNIT: f64 = 0.85;

fn scaled(mut value: f64, scale: f64, units: &[&str], digits: usize) -> String {
    let mut unit = 0;
    while unit + 1 < units.len() && value >= scale * NEXT_UNIT {
        value /= scale;
        unit += 1;
    }
    format!("{value:.digits$}{}", units[unit])
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Values and their forms as the tool itself printed them.
    #[test]
    fn values_are_written_as_the_tool_writes_them() {
        assert_eq!(format_time_us(99.24), "99.24us");
        assert_eq!(format_time_us(4_150.0), "4.15ms");
        assert_eq!(format_time_us(2_100_000.0), "2.10s");
        assert_eq!(format_time_us(860_000.0), "860.00ms");
        assert_eq!(format_time_us(849.0), "849.00us");
        assert_eq!(format_time_us(851.0), "0.85ms");
        assert_eq!(format_metric(122_100.0), "122.10k");
        assert_eq!(format_metric(12.0), "12.00");
        assert_eq!(format_binary(27_367_833.6), "26.10M");
        assert_eq!((format_time_s(2.0), format_time_s(60.0)), ("2s".into(), "1m".into()));
        assert_eq!([cell("99.24us", 8), cell("58.72k", 8), cell("12.00", 8)], [" 99.24us", " 58.72k ", " 12.00  "]);
    }
}
