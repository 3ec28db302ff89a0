//! A report as text for people.

mod urls;

use core::fmt::Write;
use figures::{grouped, seconds, share, si};
use load::{
    AgreedReport, Arrival, BusySource, Cookies, Errors, Heads, Latency, Redirects, Report, Reuse, Schedule,
    SecuredReport, Shape, Sibling, Spacing, Spoils,
};

/// The report for people: SI units, three significant digits. Each warning
/// stands below the figures that it spoils.
#[must_use]
pub fn render_text(report: &Report) -> String {
    let mut out = String::new();
    // Writing to a String does not fail.
    let _ = text(&mut out, report);
    out
}

fn text(out: &mut String, report: &Report) -> core::fmt::Result {
    let setup = &report.setup;
    writeln!(out, "{} {}://{}{} at {}", setup.method, setup.scheme, setup.host, setup.path, setup.targets.join(", "))?;
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
    if let Some(http2) = &setup.http2 {
        let calls = if http2.grpc.is_some() { "gRPC over HTTP/2" } else { "HTTP/2" };
        write!(out, ", {calls} with {} streams at a time on each", setup.pipeline)?;
        if let Some(deadline) = http2.grpc.and_then(|grpc| grpc.deadline) {
            write!(out, ", a deadline of {}", seconds(deadline.as_nanos() as f64))?;
        }
    } else if setup.pipeline > 1 {
        write!(out, ", {} requests under way on each", setup.pipeline)?;
    }
    if setup.requests > 1 {
        write!(out, ", {} different requests", grouped(setup.requests as u64))?;
    }
    match setup.heads {
        Heads::Equal => {}
        Heads::Short => write!(out, ", heads of its own on each connection")?,
        Heads::Browser => write!(out, ", a browser's head of its own on each connection")?,
    }
    if let Arrival::Open(schedule) = &setup.arrival {
        write!(out, ", {}", pace(schedule))?;
    }
    let time = |ns: u64| seconds(ns as f64);
    writeln!(
        out,
        "\n  {} opening connections, {}, {} measured\n",
        time(report.ramp_ns),
        warm_up(report),
        time(report.window_ns)
    )?;
    if warnings(out, report, &[Spoils::All])? {
        out.push('\n');
    }
    throughput(out, report)?;
    warnings(out, report, &[Spoils::Rate, Spoils::Connections])?;
    latencies(out, report)?;
    warnings(out, report, &[Spoils::Latency, Spoils::Tail, Spoils::Uncorrected])?;
    out.push('\n');
    failures(out, "Errors", &report.errors)?;
    if report.errors_before.total() > 0 {
        failures(out, "  before", &report.errors_before)?;
    }
    urls::wrong_answers(out, report)?;
    client(out, report)?;
    urls::table(out, report)?;
    writeln!(out, "Verdict      {}", report.verdict)
}

/// The schedule of an open loop.
fn pace(schedule: &Schedule) -> String {
    let rate = |rate: f64| si(rate, "/s");
    let shape = match &schedule.shape {
        Shape::Constant(value) => rate(*value),
        Shape::Steps(steps) => {
            let steps: Vec<String> = steps.iter().map(|step| rate(step.rate)).collect();
            format!("{} in steps", steps.join(", "))
        }
        Shape::Ramp { from, to, over } => {
            format!("{} to {} in {}", rate(*from), rate(*to), seconds(over.as_nanos() as f64))
        }
    };
    match schedule.spacing {
        Spacing::Even => format!("{shape} due"),
        Spacing::Poisson => format!("{shape} due, as a Poisson process"),
    }
}

/// What speaks against the figures just above. Answers whether anything does.
fn warnings(out: &mut String, report: &Report, spoilt: &[Spoils]) -> Result<bool, core::fmt::Error> {
    let mut any = false;
    for warning in report.warnings.iter().filter(|warning| spoilt.contains(&warning.spoils())) {
        writeln!(out, "  warning: {warning}")?;
        any = true;
    }
    Ok(any)
}

/// The warm-up, with the requests in it: a server counts them, too.
fn warm_up(report: &Report) -> String {
    let (time, requests) = (seconds(report.warm_up_ns as f64), report.warm_up_phase.traffic.sent);
    match (report.warm_up_ns, requests) {
        (0, 0) => "no warm-up".to_owned(),
        (_, 0) => format!("{time} warm-up"),
        (_, 1) => format!("{time} warm-up of 1 request"),
        (_, requests) => format!("{time} warm-up of {} requests", grouped(requests)),
    }
}

fn throughput(out: &mut String, report: &Report) -> core::fmt::Result {
    let rates = &report.throughput;
    let traffic = &report.traffic;
    // Of a window that never began there is no rate.
    let rate = |rate: f64, unit| if report.window_ns == 0 { "-".to_owned() } else { si(rate, unit) };
    let bytes = |of: f64| rate(of, "B/s");
    let requests = rate(rates.requests_per_second, "/s");
    write!(out, "Requests     {requests:>9}    {} responses", grouped(traffic.responses))?;
    if let Some(schedule) = &report.schedule {
        let achieved = share(schedule.achieved_fraction);
        write!(out, ", {achieved} of the {} that were due", grouped(schedule.due))?;
        if schedule.under_way > 0 {
            write!(out, " with {} under way at the end", grouped(schedule.under_way))?;
        }
    }
    out.push('\n');
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
    if let Some(calls) = report.grpc.filter(|calls| calls.iter().next().is_some()) {
        write!(out, "\nCalls     ")?;
        for (status, count) in calls.iter() {
            write!(out, "   {} {}", status.name(), grouped(count))?;
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
    if connections.go_aways > 0 {
        write!(out, ", {} told to go (GOAWAY)", grouped(connections.go_aways))?;
        if traffic.unprocessed > 0 {
            write!(out, " with {} requests not processed, sent again", grouped(traffic.unprocessed))?;
        }
    }
    writeln!(out, ", {} open at the end", grouped(report.open))?;
    report.secured.as_ref().map_or(Ok(()), |secured| agreed(out, secured, report.setup.reuse))?;
    report.redirects.as_ref().map_or(Ok(()), |counts| redirects(out, counts))?;
    report.cookies.as_ref().map_or(Ok(()), |counts| cookies(out, counts))
}

/// How connections were secured.
fn agreed(out: &mut String, secured: &SecuredReport, reuse: Reuse) -> core::fmt::Result {
    let all: u64 = secured.agreed.iter().map(|one| one.handshakes).sum();
    out.push_str("Handshakes   ");
    // Connections that stay have theirs before the window.
    if reuse != Reuse::KeepAlive {
        write!(out, "{:>9}    ", si(secured.handshakes_per_second, "/s"))?;
    }
    write!(out, "{} full, {} resumed", grouped(all - secured.resumed.min(all)), grouped(secured.resumed))?;
    if let Some(early) = &secured.early {
        write!(out, "; early data taken {}, refused {}", grouped(early.accepted), grouped(early.rejected))?;
        if early.too_early > 0 {
            write!(out, ", answered 425 {}", grouped(early.too_early))?;
        }
    }
    for AgreedReport { agreed, handshakes } in &secured.agreed {
        write!(out, "; {} {}", agreed.version, agreed.suite)?;
        if let Some(protocol) = &agreed.protocol {
            // A peer chose it, and it goes to a terminal.
            write!(out, " {}", protocol.escape_default())?;
        }
        if secured.agreed.len() > 1 {
            write!(out, " in {}", grouped(*handshakes))?;
        }
    }
    writeln!(out, "{}", if secured.verified { "" } else { "; the certificate is not verified" })
}

/// Redirects that were followed, and why others were not.
fn redirects(out: &mut String, counts: &Redirects) -> core::fmt::Result {
    write!(out, "Redirects    {} followed", grouped(counts.followed))?;
    for (count, what) in [
        (counts.elsewhere, "to other servers were not"),
        (counts.too_many, "beyond --follow were not"),
        (counts.closed, "were not, as the server closed the connection"),
        (counts.unusable, "did not say where to"),
    ] {
        if count > 0 {
            write!(out, ", {} {what}", grouped(count))?;
        }
    }
    out.write_char('\n')
}

fn cookies(out: &mut String, counts: &Cookies) -> core::fmt::Result {
    write!(out, "Cookies      {} kept", grouped(counts.stored))?;
    for (count, what) in
        [(counts.ended, "taken back"), (counts.refused, "refused"), (counts.displaced, "put others out of a full jar")]
    {
        if count > 0 {
            write!(out, ", {} {what}", grouped(count))?;
        }
    }
    out.write_char('\n')
}

/// In an open loop, latency counts from the time that a request was due; beside
/// it stand the same without the wait for being sent, and that wait.
fn latencies(out: &mut String, report: &Report) -> core::fmt::Result {
    let mut columns = vec![("request", &report.latency)];
    if let (Some(service), Some(lag)) = (&report.service, &report.lag) {
        columns.extend([("uncorrected", service), ("lag", lag)]);
    }
    columns.push(("connect", &report.connect));
    if let Some(secured) = &report.secured {
        columns.push(("handshake", &secured.handshake));
    }
    let line = |out: &mut String, name: &str, cells: &[String]| {
        write!(out, "  {name:<8}")?;
        for (cell, (title, _)) in cells.iter().zip(&columns) {
            let width = title.len().max(9) + 1;
            write!(out, "{cell:>width$}  ")?;
        }
        out.truncate(out.trim_end().len());
        out.write_char('\n')
    };
    out.push('\n');
    let titles: Vec<String> = columns.iter().map(|(title, _)| (*title).to_owned()).collect();
    line(out, "", &titles)?;
    let rows: Vec<Vec<(String, f64)>> = columns.iter().map(|(_, latency)| figures(latency)).collect();
    for place in 0..rows[0].len() {
        let cell = |(row, (_, latency)): (&Vec<(String, f64)>, &(&str, &Latency))| match latency.samples {
            0 => "-".to_owned(),
            _ => seconds(row[place].1),
        };
        let cells: Vec<String> = rows.iter().zip(&columns).map(cell).collect();
        line(out, &rows[0][place].0, &cells)?;
    }
    let samples: Vec<String> = columns.iter().map(|(_, latency)| grouped(latency.samples)).collect();
    line(out, "samples", &samples)
}

/// The figures of a distribution with their names, in nanoseconds.
fn figures(latency: &Latency) -> Vec<(String, f64)> {
    let mut rows = vec![
        ("min".to_owned(), latency.min_ns as f64),
        ("mean".to_owned(), latency.mean_ns),
        ("stdev".to_owned(), latency.stdev_ns),
    ];
    rows.extend(latency.percentiles().map(|(quantile, value)| (share(quantile), value as f64)));
    rows.push(("max".to_owned(), latency.max_ns as f64));
    rows
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
        (errors.handshake_timeouts, "handshakes timed out"),
        (errors.handshake_failed, "handshakes failed"),
        (errors.untrusted, "servers not trusted"),
        (errors.timeouts, "requests timed out"),
        (errors.reset, "requests reset"),
        (errors.unanswered, "requests closed without response"),
        (errors.truncated, "responses truncated"),
        (errors.tcp_timed_out, "requests lost as TCP timed out"),
        (errors.unreachable, "requests unreachable"),
        (errors.malformed, "responses malformed"),
        (errors.aborted, "requests aborted by the data path"),
        (errors.reset_streams, "streams reset"),
        (errors.refused_streams, "streams refused"),
        (errors.misspoken, "requests to a server that does not speak HTTP/2"),
        (errors.deadlines, "calls ended at their deadline"),
        (errors.unasked, "times bytes that were not asked for"),
        (errors.wrong_length, "responses of another length"),
        (errors.wrong_status, "responses of another status"),
        (errors.wrong_header, "responses with another header"),
        (errors.wrong_text, "responses without the text"),
        (errors.wrong_match, "responses that do not match"),
        (errors.wrong_hash, "responses with another hash"),
        (errors.not_judged, "responses that could not be judged"),
        (errors.wrong_message, "answers OK without one whole message"),
        (errors.wrong_flag, "answers OK with a message compressed nobody knows how"),
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
    )?;
    if let Some(cpu) = client.cpu {
        let cores = |nanos: u64| share(nanos as f64 / (report.window_ns as f64).max(1.0));
        let threads = if report.silos == 1 { "thread" } else { "threads" };
        writeln!(
            out,
            "Own CPU      {} user, {} system of a core on {} {threads}; waited for a core {}",
            cores(cpu.user_ns),
            cores(cpu.system_ns),
            report.silos,
            cores(cpu.run_delay_ns)
        )?;
    }
    let named = |own: bool| {
        let siblings = client.siblings.iter().filter(move |sibling| sibling.own == own);
        let one = |sibling: &Sibling| format!("{} of {} ({} busy)", sibling.core, sibling.of, share(sibling.busy));
        siblings.map(one).collect::<Vec<_>>().join(", ")
    };
    if client.siblings.iter().any(|sibling| !sibling.own) {
        writeln!(out, "Own siblings {}: what runs there takes from the generator's cores (SMT)", named(false))?;
    }
    if client.siblings.iter().any(|sibling| sibling.own) {
        writeln!(out, "Own siblings {}: threads of the generator share a core (SMT)", named(true))?;
    }
    if let Some(floor) = client.floor {
        let [mean, p50, p99] = [floor.mean_ns, floor.p50_ns as f64, floor.p99_ns as f64].map(seconds);
        writeln!(out, "Own floor    mean {mean}, 50 % {p50}, 99 % {p99}: the same against a server that does nothing")?;
    }
    if let Some(ports) = client.ports {
        writeln!(out, "Own ports    {} of {} in use", grouped(ports.used), grouped(ports.available))?;
    }
    for port in &report.carried {
        write!(
            out,
            "Port         {}: {} sent, {} received",
            port.name,
            si(port.sent, "bit/s"),
            si(port.received, "bit/s")
        )?;
        match (port.speed, port.utilisation()) {
            (Some(speed), Some(used)) => writeln!(out, ", {} of its {}", share(used), si(speed, "bit/s"))?,
            _ => out.push('\n'),
        }
    }
    let law = &report.littles_law;
    writeln!(
        out,
        "In progress  {:.2} requests on average; rate × latency gives {:.2}",
        law.in_progress, law.rate_times_latency
    )
}
