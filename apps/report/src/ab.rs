//! A report in the form of ApacheBench 2.3, field for field.

use core::fmt::Write;
use hdrhistogram::Histogram;
use load::{Latency, Report, Reuse};

/// The percentiles that ab lists.
const PERCENTILES: [u32; 8] = [50, 66, 75, 80, 90, 95, 98, 99];

/// What ab prints of a run.
///
/// Of a plan that does not ask for the parts of requests ([`load::Plan::parts`])
/// what was not measured has no row or an empty field: `Server Software`, the
/// time to the first byte (`Waiting`), and with a new connection for each
/// request what needs both its times (`Total`): the percentiles then say that
/// they are of processing alone.
#[must_use]
pub fn render_ab(report: &Report) -> String {
    let mut out = String::new();
    let _ = ab(&mut out, report);
    out
}

fn ab(out: &mut String, report: &Report) -> core::fmt::Result {
    summary(out, report)?;
    rates(out, report)?;
    times(out, report)?;
    percentages(out, report)?;
    crate::warnings(out, report)
}

fn summary(out: &mut String, report: &Report) -> core::fmt::Result {
    let (setup, traffic, errors) = (&report.setup, &report.traffic, &report.errors);
    let (host, port) = crate::host_and_port(setup);
    writeln!(out, "Server Software:        {}", report.server.as_deref().unwrap_or_default())?;
    writeln!(out, "Server Hostname:        {host}")?;
    writeln!(out, "Server Port:            {port}\n")?;
    writeln!(out, "Document Path:          {}", setup.path)?;
    let lengths_equal = traffic.responses > 0 && traffic.body_bytes.is_multiple_of(traffic.responses);
    match lengths_equal && errors.wrong_length == 0 {
        true => writeln!(out, "Document Length:        {} bytes\n", traffic.body_bytes / traffic.responses)?,
        false => writeln!(out, "Document Length:        Variable\n")?,
    }
    writeln!(out, "Concurrency Level:      {}", u64::from(setup.active) * u64::from(setup.pipeline))?;
    writeln!(out, "Time taken for tests:   {:.3} seconds", seconds(report))?;
    writeln!(out, "Complete requests:      {}", traffic.responses)?;
    let (connect, receive) = (errors.failed_connects(), errors.failed_requests() - errors.timeouts);
    let (length, exceptions) = (errors.wrong_length, errors.timeouts);
    let failed = connect + receive + length + exceptions;
    writeln!(out, "Failed requests:        {failed}")?;
    if failed > 0 {
        writeln!(out, "   (Connect: {connect}, Receive: {receive}, Length: {length}, Exceptions: {exceptions})")?;
    }
    let refused = traffic.responses - report.statuses.success;
    if refused > 0 {
        writeln!(out, "Non-2xx responses:      {refused}")?;
    }
    if setup.reuse == Reuse::KeepAlive {
        writeln!(out, "Keep-Alive requests:    {}", traffic.responses)?;
    }
    writeln!(out, "Total transferred:      {} bytes", traffic.received_bytes)?;
    if setup.body_bytes > 0 {
        writeln!(out, "Total body sent:        {}", traffic.sent_bytes)?;
    }
    writeln!(out, "HTML transferred:       {} bytes", traffic.body_bytes)
}

fn rates(out: &mut String, report: &Report) -> core::fmt::Result {
    let rates = &report.throughput;
    let rate = crate::printed_rate(report);
    let concurrency = f64::from(report.setup.active) * f64::from(report.setup.pipeline);
    writeln!(out, "Requests per second:    {rate:.2} [#/sec] (mean)")?;
    if rate > 0.0 {
        writeln!(out, "Time per request:       {:.3} [ms] (mean)", concurrency * 1e3 / rate)?;
        let each = 1e3 / rate;
        writeln!(out, "Time per request:       {each:.3} [ms] (mean, across all concurrent requests)")?;
    }
    let received = rates.received_bytes_per_second / 1024.0;
    writeln!(out, "Transfer rate:          {received:.2} [Kbytes/sec] received")?;
    if report.setup.body_bytes > 0 {
        let sent = rates.sent_bytes_per_second / 1024.0;
        writeln!(out, "                        {sent:.2} kb/s sent")?;
        writeln!(out, "                        {:.2} kb/s total", received + sent)?;
    }
    Ok(())
}

fn times(out: &mut String, report: &Report) -> core::fmt::Result {
    writeln!(out, "\nConnection Times (ms)\n              min  mean[+/-sd] median   max")?;
    // As ab has it: on a connection in use, connecting takes no time.
    let keep_alive = report.setup.reuse == Reuse::KeepAlive;
    let connect = if keep_alive { Latency::default() } else { report.connect };
    let mut rows = vec![("Connect:", connect), ("Processing:", report.latency)];
    rows.extend(report.waiting.map(|waiting| ("Waiting:", waiting)));
    match report.total {
        Some(total) => rows.push(("Total:", total)),
        None if keep_alive => rows.push(("Total:", report.latency)),
        None => {}
    }
    for (name, times) in rows {
        let [min, mean, median, max] =
            [times.min_ns as f64, times.mean_ns, times.p50_ns as f64, times.max_ns as f64].map(millis);
        let deviation = times.stdev_ns * 1e-6;
        writeln!(out, "{name:<12}{min:>5} {mean:>4} {deviation:>5.1} {median:>6} {max:>7}")?;
    }
    Ok(())
}

fn percentages(out: &mut String, report: &Report) -> core::fmt::Result {
    let (histogram, times) = match report.total {
        Some(total) => (&report.total_histogram, total),
        None => (&report.histogram, report.latency),
    };
    if histogram.is_empty() {
        return Ok(());
    }
    let what = match report.setup.reuse {
        _ if report.total.is_some() => "",
        Reuse::KeepAlive | Reuse::ServerClosesAfter(_) | Reuse::ClientClosesAfter(_) => "",
        Reuse::ServerCloses | Reuse::ClientCloses => ", without connecting",
    };
    writeln!(out, "\nPercentage of the requests served within a certain time (ms{what})")?;
    for percent in PERCENTILES {
        writeln!(out, "  {percent}%  {:>5}", millis(at(histogram, percent, times.max_ns)))?;
    }
    writeln!(out, " 100%  {:>5} (longest request)", millis(times.max_ns as f64))
}

fn at(histogram: &Histogram<u64>, percent: u32, max: u64) -> f64 {
    histogram.value_at_quantile(f64::from(percent) / 100.0).min(max) as f64
}

/// Whole milliseconds, as ab prints them.
fn millis(nanos: f64) -> u64 {
    (nanos * 1e-6).round() as u64
}

fn seconds(report: &Report) -> f64 {
    report.window_ns as f64 * 1e-9
}
