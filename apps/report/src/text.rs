//! A report as text for people.

use core::fmt::Write;
use load::units::{grouped, seconds, share, si};
use load::{BusySource, Errors, Latency, Report, Reuse};

/// The report for people: SI units, three significant digits.
#[must_use]
pub fn render_text(report: &Report) -> String {
    let mut out = String::new();
    // Writing to a String does not fail.
    let _ = text(&mut out, report);
    out
}

fn text(out: &mut String, report: &Report) -> core::fmt::Result {
    let setup = &report.setup;
    writeln!(out, "{} http://{}{} at {}", setup.method, setup.host, setup.path, setup.targets.join(", "))?;
    write!(out, "  {} connections", grouped(u64::from(setup.connections)))?;
    if setup.active < setup.connections {
        write!(out, ", {} active", grouped(u64::from(setup.active)))?;
    }
    match setup.reuse {
        Reuse::KeepAlive => write!(out, ", keep-alive")?,
        Reuse::ServerCloses => write!(out, ", a new one per request, closed by the server")?,
        Reuse::ClientCloses => write!(out, ", a new one per request, closed by the client")?,
        Reuse::ServerClosesAfter(n) => write!(out, ", a new one every {n} requests, closed by the server")?,
        Reuse::ClientClosesAfter(n) => write!(out, ", a new one every {n} requests, closed by the client")?,
    }
    if setup.pipeline > 1 {
        write!(out, ", {} requests under way on each", setup.pipeline)?;
    }
    let time = |ns: u64| seconds(ns as f64);
    writeln!(
        out,
        "\n  {} opening connections, {} warm-up, {} measured\n",
        time(report.ramp_ns),
        time(report.warm_up_ns),
        time(report.window_ns)
    )?;
    throughput(out, report)?;
    latencies(out, report)?;
    failures(out, "Errors", &report.errors)?;
    if report.errors_before.total() > 0 {
        failures(out, "  before", &report.errors_before)?;
    }
    client(out, report)?;
    for warning in &report.warnings {
        writeln!(out, "\nwarning: {warning}")?;
    }
    Ok(())
}

fn throughput(out: &mut String, report: &Report) -> core::fmt::Result {
    let rates = &report.throughput;
    let traffic = &report.traffic;
    let bytes = |rate: f64| si(rate, "B/s");
    let requests = si(rates.requests_per_second, "/s");
    writeln!(out, "Requests     {requests:>9}    {} responses", grouped(traffic.responses))?;
    let received = bytes(rates.received_bytes_per_second);
    let content = bytes(rates.body_bytes_per_second);
    writeln!(out, "Received     {received:>9}    content alone {content}")?;
    writeln!(out, "Sent         {:>9}", bytes(rates.sent_bytes_per_second))?;
    let statuses = &report.statuses;
    write!(out, "Responses ")?;
    for (count, class) in [
        (statuses.success, "2xx"),
        (statuses.redirection, "3xx"),
        (statuses.client_error, "4xx"),
        (statuses.server_error, "5xx"),
        (statuses.other, "other"),
    ] {
        if count > 0 || class == "2xx" {
            write!(out, "   {class} {}", grouped(count))?;
        }
    }
    let mut connections = report.connections_before;
    connections.add(&report.connections);
    write!(out, "\nConnections  {} opened", grouped(connections.established))?;
    if report.setup.reuse != Reuse::KeepAlive {
        write!(out, ", {}", si(rates.connections_per_second, "/s"))?;
    }
    if connections.reconnects > 0 {
        write!(out, ", {} in place of lost ones", grouped(connections.reconnects))?;
    }
    writeln!(out, ", {} open at the end", grouped(report.open))
}

fn latencies(out: &mut String, report: &Report) -> core::fmt::Result {
    writeln!(out, "\n             request      connect")?;
    let (request, connect) = (&report.latency, &report.connect);
    let rows = |latency: &Latency| {
        let mut rows = vec![
            ("min".to_owned(), latency.min_ns as f64),
            ("mean".to_owned(), latency.mean_ns),
            ("stdev".to_owned(), latency.stdev_ns),
        ];
        for (quantile, value) in latency.percentiles() {
            rows.push((share(quantile), value as f64));
        }
        rows.push(("max".to_owned(), latency.max_ns as f64));
        rows
    };
    for ((name, left), (_, right)) in rows(request).into_iter().zip(rows(connect)) {
        let cell = |value: f64, latency: &Latency| match latency.samples {
            0 => "-".to_owned(),
            _ => seconds(value),
        };
        let (left, right) = (cell(left, request), cell(right, connect));
        writeln!(out, "  {name:<8} {left:>9}    {right:>9}")?;
    }
    writeln!(out, "  {:<8} {:>9}    {:>9}\n", "samples", grouped(request.samples), grouped(connect.samples))
}

fn failures(out: &mut String, title: &str, errors: &Errors) -> core::fmt::Result {
    write!(out, "{title:<12}")?;
    if errors.total() == 0 {
        return writeln!(out, " none");
    }
    let all = [
        (errors.refused, "connects refused"),
        (errors.connect_timeouts, "connects timed out"),
        (errors.connect_unreachable, "connects unreachable"),
        (errors.connect_failed, "connects failed otherwise"),
        (errors.timeouts, "requests timed out"),
        (errors.reset, "requests reset"),
        (errors.unanswered, "requests closed without response"),
        (errors.truncated, "responses truncated"),
        (errors.tcp_timed_out, "requests lost as TCP timed out"),
        (errors.unreachable, "requests unreachable"),
        (errors.malformed, "responses malformed"),
        (errors.aborted, "requests aborted by the data path"),
        (errors.unasked, "times bytes that were not asked for"),
        (errors.wrong_length, "responses of another length"),
        (errors.unclosed, "connections not closed by the server"),
    ];
    let mut first = true;
    for (count, what) in all.into_iter().filter(|(count, _)| *count > 0) {
        let gap = if first { "" } else { "\n            " };
        write!(out, "{gap} {} {what}", grouped(count))?;
        first = false;
    }
    out.push('\n');
    Ok(())
}

fn client(out: &mut String, report: &Report) -> core::fmt::Result {
    let client = &report.client;
    let bound = match client.source {
        BusySource::Runtime => "",
        BusySource::UpperBound => "at most ",
    };
    writeln!(
        out,
        "Own core     {bound}{} busy; busy turns: {:.1} responses, mean {}, longest {}",
        share(client.busy_fraction),
        client.responses_per_busy_turn,
        seconds(client.mean_busy_turn_ns as f64),
        seconds(client.longest_busy_turn_ns as f64),
    )
}
