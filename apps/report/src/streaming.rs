//! Streams that are to have a rate: played, or held against it.

use super::bulk::StreamsVerdict;
use super::json::{Expected, expected};
use core::fmt::Write;
use environment::{ResultKind, ResultOrigin, SCHEMA};
use figures::{digits, grouped, seconds, share, si};
use load::{Evenness, Judged, Latency, Off, Playing, StreamErrors, StreamingProgress, StreamingReport, StreamingSetup};
use serde::Serialize;

/// Share of seconds that may be left out of a result that is whole.
const LEFT_OUT: f64 = 0.1;

/// What is measured.
#[must_use]
pub fn streaming_heading(setup: &StreamingSetup, (warm_up_ns, window_ns): (u64, u64)) -> String {
    let mut out = format!(
        "{}://{}{} at {}, {}\n  {} of {}",
        setup.scheme,
        setup.host,
        setup.path,
        setup.targets.join(", "),
        setup.way,
        count(setup.streams.into(), "stream", "streams"),
        si(setup.rate as f64, "bit/s"),
    );
    // Writing to a String does not fail.
    if setup.http2.is_some() {
        let _ = write!(out, " on {} of HTTP/2", count(setup.connections.into(), "connection", "connections"));
    }
    let _ = match (setup.buffer_ns, setup.start_share) {
        (Some(buffer), Some(of)) => {
            write!(out, ", each played from a buffer of {}, {} full at first", seconds(buffer as f64), share(of))
        }
        _ => write!(out, ", each held against its rate"),
    };
    if setup.requests > 1 {
        let first = if setup.spread { ", each from another one on" } else { "" };
        let _ = write!(out, ", {} different requests in turn{first}", grouped(setup.requests as u64));
    }
    let _ = writeln!(out, "\n  {} warm-up, {} measured\n", seconds(warm_up_ns as f64), seconds(window_ns as f64));
    out
}

/// How it goes: what came since `earlier`, so many seconds ago, of streams that play or do not.
#[must_use]
pub fn streaming_line(
    setup: &StreamingSetup,
    now: &StreamingProgress,
    earlier: &StreamingProgress,
    (until_s, span_s): (f64, f64),
) -> String {
    let bits = now.bytes.saturating_sub(earlier.bytes) as f64 * 8.0 / span_s.max(1e-9);
    let does = if setup.buffer_ns.is_some() { "played" } else { "under way" };
    let mut out = format!(
        "  {:<9} {:>12}   {} of {} {does}",
        format!("{until_s:.1} s"),
        si(bits, "bit/s"),
        grouped(now.under_way),
        grouped(u64::from(setup.streams)),
    );
    let _ = match now.dried {
        0 => Ok(()),
        dried => write!(out, ", {} ran dry", grouped(dried)),
    };
    let _ = match now.errors {
        0 => writeln!(out),
        errors => writeln!(out, ", {}", count(errors, "failure", "failures")),
    };
    out
}

/// What it came to.
#[must_use]
pub fn streaming_text(report: &StreamingReport, judged: &[Judged]) -> String {
    let mut out = String::from("\n");
    // Writing to a String does not fail.
    let _ = text(&mut out, report, judged);
    out
}

fn text(out: &mut String, report: &StreamingReport, judged: &[Judged]) -> core::fmt::Result {
    let all = u64::from(report.setup.streams);
    let each = report.bits_per_second / all.max(1) as f64;
    writeln!(out, "Received     {}, {} a stream", si(report.bits_per_second, "bit/s"), si(each, "bit/s"))?;
    let does = if report.playing.is_some() { "played" } else { "were under way" };
    writeln!(out, "Streams      {} of {} {does}", grouped(report.under_way), grouped(all))?;
    if let Some(playing) = &report.playing {
        under_runs(out, report, playing)?;
    }
    if let Some(evenness) = &report.evenness {
        off(out, report, evenness)?;
    }
    left_out(out, report)?;
    let told = failures(&report.errors);
    writeln!(out, "Errors       {}", if told.is_empty() { "none".to_owned() } else { told.join(", ") })?;
    if let Some(why) = &report.failure {
        writeln!(out, "             the last: {why}")?;
    }
    if report.reopened > 0 {
        let connections =
            count(report.reopened, "kept connection that the server closed", "kept connections that the server closed");
        writeln!(out, "Opened anew  in place of {connections}")?;
    }
    answers(out, report)?;
    times(out, report)?;
    for port in &report.carried {
        let used = port.utilisation().zip(port.speed).map(|(used, speed)| (share(used), si(speed, "bit/s")));
        let used = used.map_or_else(String::new, |(used, speed)| format!(", {used} of its {speed}"));
        let (sent, received) = (si(port.sent, "bit/s"), si(port.received, "bit/s"));
        writeln!(out, "Port         {}: {sent} sent, {received} received{used}", port.name)?;
    }
    writeln!(out, "Own CPU      {} user, {} system of a core", share(report.cpu_user), share(report.cpu_system))?;
    for one in judged {
        writeln!(out, "Objective    {one}")?;
    }
    let verdict = streaming_verdict(report);
    let why = if verdict.reasons.is_empty() { String::new() } else { format!(": {}", verdict.reasons.join("; ")) };
    writeln!(out, "Verdict      {}{why}", verdict.word)
}

/// So many of something, in words.
fn count(count: u64, one: &str, many: &str) -> String {
    format!("{} {}", grouped(count), if count == 1 { one } else { many })
}

/// What went wrong, each kind in words.
fn failures(errors: &StreamErrors) -> Vec<String> {
    let kinds = [
        (errors.connects, "connection not opened", "connections not opened"),
        (errors.lost, "connection lost", "connections lost"),
        (errors.timeouts, "request timed out", "requests timed out"),
        (errors.statuses, "answer with another status than 2xx", "answers with another status than 2xx"),
        (errors.malformed, "answer that is no HTTP/1.1", "answers that are no HTTP/1.1"),
    ];
    kinds.into_iter().filter(|(times, ..)| *times > 0).map(|(times, one, many)| count(times, one, many)).collect()
}

/// Redirects, and answers that were not as they were to be.
fn answers(out: &mut String, report: &StreamingReport) -> core::fmt::Result {
    let redirects = &report.redirects;
    let kinds = [
        (redirects.followed, "followed"),
        (redirects.elsewhere, "lead to another server"),
        (redirects.too_many, "one too many"),
        (redirects.closed, "behind a connection that was closed"),
        (redirects.unusable, "lead nowhere"),
    ];
    let told = kinds.iter().filter(|(times, _)| *times > 0);
    let told: Vec<String> = told.map(|(times, what)| format!("{} {what}", grouped(*times))).collect();
    if !told.is_empty() {
        writeln!(out, "Redirects    {}", told.join(", "))?;
    }
    if report.wrong > 0 {
        writeln!(out, "Wrong        {}", count(report.wrong, "answer", "answers"))?;
    }
    for one in &report.wrong_answers {
        writeln!(out, "             {}: {}, status {}: {}", one.request, one.wrong, one.status, one.came)?;
    }
    Ok(())
}

fn under_runs(out: &mut String, report: &StreamingReport, playing: &Playing) -> core::fmt::Result {
    let runs = playing.under_runs.samples;
    if runs == 0 {
        writeln!(out, "Under-runs   none")?;
    } else {
        let never = match playing.no_start.samples {
            0 => String::new(),
            never => format!(" ({} never played)", grouped(never)),
        };
        writeln!(
            out,
            "Under-runs   {} on {} of {}{never}: {} of the time that was to be played",
            grouped(runs),
            grouped(playing.streams_with_under_runs),
            count(report.setup.streams.into(), "stream", "streams"),
            share(playing.stalled)
        )?;
    }
    if playing.disturbed_under_runs > 0 || playing.disturbed_ns > 0 {
        writeln!(
            out,
            "             in seconds that do not count: {} more, {} without anything to play",
            grouped(playing.disturbed_under_runs),
            seconds(playing.disturbed_ns as f64)
        )?;
    }
    Ok(())
}

fn off(out: &mut String, report: &StreamingReport, of: &Evenness) -> core::fmt::Result {
    if of.off_bytes.samples == 0 {
        return Ok(());
    }
    let samples = grouped(of.off_bytes.samples);
    writeln!(
        out,
        "Evenness     {} of {samples} seconds of streams within {} B",
        share(of.within_one),
        report.setup.segment
    )?;
    writeln!(out, "             {} within twice that", share(of.within_two))?;
    let line = |out: &mut String, name: &str, off: &Off, shown: fn(f64) -> String| {
        let Off { p50, p99, p999, max, .. } = *off;
        let [p50, p99, p999, max] = [p50, p99, p999, max].map(shown);
        writeln!(out, "{name} 50 % {p50}, 99 % {p99}, 99.9 % {p999}, max {max}")
    };
    line(out, "Off          each second:", &of.off_bytes, |bytes| format!("{} B", digits(bytes)))?;
    if of.off_over_10s.samples > 0 {
        line(out, "             over 10 s:  ", &of.off_over_10s, share)?;
    }
    Ok(())
}

fn left_out(out: &mut String, report: &StreamingReport) -> core::fmt::Result {
    let counted = &report.counted;
    write!(out, "Seconds      {} of {} count", counted.window - counted.left_out(), counted.window)?;
    let why = [(counted.stolen, "the hypervisor had a core"), (counted.generator_late, "the generator was late")];
    for (count, why) in why.into_iter().filter(|(count, _)| *count > 0) {
        write!(out, "; in {count} {why}")?;
    }
    if counted.window < report.setup.seconds {
        write!(out, "; {} were to be measured", grouped(report.setup.seconds))?;
    }
    writeln!(out)
}

/// Times in columns.
fn times(out: &mut String, report: &StreamingReport) -> core::fmt::Result {
    let mut columns = vec![("connect", &report.connect), ("first byte", &report.first_byte)];
    if let Some(playing) = &report.playing {
        columns.extend([("to playing", &playing.start), ("under-run", &playing.under_runs)]);
    }
    columns.extend([("late", &report.late), ("own delay", &report.own_delay)]);
    let line = |out: &mut String, name: &str, of: &dyn Fn(&Latency) -> String| {
        write!(out, "  {name:<8}")?;
        columns.iter().try_for_each(|(_, times)| write!(out, " {:>12}", of(times)))?;
        writeln!(out)
    };
    write!(out, "\n{:10}", "")?;
    columns.iter().try_for_each(|(name, _)| write!(out, " {name:>12}"))?;
    writeln!(out)?;
    let at = |of: fn(&Latency) -> f64| {
        move |times: &Latency| if times.samples > 0 { seconds(of(times)) } else { "-".to_owned() }
    };
    line(out, "min", &at(|times| times.min_ns as f64))?;
    line(out, "mean", &at(|times| times.mean_ns))?;
    line(out, "50 %", &at(|times| times.p50_ns as f64))?;
    line(out, "99 %", &at(|times| times.p99_ns as f64))?;
    line(out, "99.9 %", &at(|times| times.p999_ns as f64))?;
    line(out, "max", &at(|times| times.max_ns as f64))?;
    line(out, "samples", &|times| grouped(times.samples))?;
    // What was asked for a moment before the end is still on its way.
    let late = report.no_first_byte.max_ns > report.first_byte.max_ns;
    let never = report.playing.as_ref().map(|playing| ("streams that never played", &playing.no_start));
    let lines = late.then_some(("first bytes that did not come", &report.no_first_byte)).into_iter().chain(never);
    for (what, waited) in lines.filter(|(_, waited)| waited.samples > 0) {
        let (many, longest) = (grouped(waited.samples), seconds(waited.max_ns as f64));
        writeln!(out, "  {what}: {many}, the longest waited for {longest}")?;
    }
    writeln!(out)
}

/// INVALID where nothing came, or no second counts; PARTIAL where more than a tenth of the seconds were left
/// out, streams never got under way, it ended early, or something failed or was answered wrongly.
#[must_use]
pub fn streaming_verdict(report: &StreamingReport) -> StreamsVerdict {
    let counted = &report.counted;
    let left_out = counted.left_out() as f64 / (counted.window as f64).max(1.0);
    let all_left_out = counted.window > 0 && counted.left_out() == counted.window;
    let missing = u64::from(report.setup.streams).saturating_sub(report.under_way);
    let fatal = [
        (report.under_way == 0, "no stream got under way".to_owned()),
        (report.under_way > 0 && (report.samples() == 0 || all_left_out), "no second of any stream counts".to_owned()),
    ];
    let partial = [
        (report.interrupted, "it ended before its time".to_owned()),
        (left_out > LEFT_OUT && !all_left_out, format!("{} of the seconds do not count", share(left_out))),
        (report.under_way > 0 && missing > 0, format!("{} never got under way", count(missing, "stream", "streams"))),
        (report.wrong > 0, format!("{} not as wanted", count(report.wrong, "answer was", "answers were"))),
    ];
    let is_fatal = fatal.iter().any(|(holds, _)| *holds);
    let failed = failures(&report.errors).into_iter().map(|why| (true, why));
    let reasons: Vec<String> =
        fatal.into_iter().chain(partial).chain(failed).filter_map(|(holds, why)| holds.then_some(why)).collect();
    let word = match (is_fatal, reasons.is_empty()) {
        (true, _) => "INVALID",
        (false, true) => "COMPLETE",
        (false, false) => "PARTIAL",
    };
    StreamsVerdict { word, reasons }
}

/// The same as one JSON object, with the machine that it belongs to, and how it came.
#[must_use]
pub fn render_streaming_json(
    report: &StreamingReport,
    judged: &[Judged],
    environment: &impl Serialize,
    origin: &ResultOrigin,
) -> String {
    #[derive(Serialize)]
    struct Whole<'a, E: Serialize> {
        kind: ResultKind,
        schema: u32,
        #[serde(flatten)]
        origin: &'a ResultOrigin,
        verdict: StreamsVerdict,
        #[serde(skip_serializing_if = "Vec::is_empty")]
        objectives: Vec<Expected>,
        #[serde(flatten)]
        report: &'a StreamingReport,
        environment: &'a E,
    }
    match serde_json::to_string_pretty(&Whole {
        kind: ResultKind::Streams,
        schema: SCHEMA,
        origin,
        verdict: streaming_verdict(report),
        objectives: expected(judged),
        report,
        environment,
    }) {
        Ok(json) => json + "\n",
        Err(_) => unreachable!("the report has only string keys and plain values"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use load::{LeftOut, SecondFigures, StreamingFigures};

    fn setup(buffer_ns: Option<u64>) -> StreamingSetup {
        StreamingSetup {
            scheme: "http",
            host: "a".into(),
            path: "/film".into(),
            targets: vec!["10.0.0.2:80".into()],
            way: "kernel sockets".into(),
            connections: 1_000,
            streams: 1_000,
            http2: None,
            rate: 5_000_000,
            buffer_ns,
            start_share: buffer_ns.map(|_| 0.5),
            requests: 300,
            spread: true,
            seconds: 10,
            segment: 1_460,
        }
    }

    /// Ten seconds of a thousand streams, of which one second does not count.
    fn figures() -> StreamingFigures {
        let mut figures = StreamingFigures { streams: 1_000, under_way: 1_000, ..StreamingFigures::default() };
        let second = SecondFigures {
            streams: 1_000,
            bytes: 625_000_000,
            within_one: 999,
            within_two: 1_000,
            ..SecondFigures::default()
        };
        figures.seconds = vec![second; 10];
        figures.seconds[3] = SecondFigures { left_out: Some(LeftOut::Stolen), ..SecondFigures::default() };
        figures.bytes = 6_250_000_000;
        figures.late.record_n(0, 9_000);
        figures.off.record_n(1_448, 9_000);
        figures
    }

    fn report(buffer_ns: Option<u64>, figures: StreamingFigures) -> StreamingReport {
        StreamingReport::new(setup(buffer_ns), figures, (0.25, 0.5), vec![])
    }

    /// Over HTTP/2 connections have several streams.
    #[test]
    fn streams_and_their_connections_are_told_apart() {
        let shared = StreamingSetup { connections: 8, http2: Some(load::Http2::default()), ..setup(None) };
        let told = streaming_heading(&shared, (1_000_000_000, 10_000_000_000));
        assert!(told.contains("1,000 streams of 5.00 Mbit/s on 8 connections of HTTP/2, each held against"), "{told}");
        let figures = StreamingFigures { under_way: 990, ..figures() };
        let report = StreamingReport::new(shared, figures, (0.25, 0.5), vec![]);
        assert!(streaming_text(&report, &[]).contains("Streams      990 of 1,000 were under way"));
        assert!(streaming_verdict(&report).reasons.iter().any(|why| why.contains("10 streams never got under way")));
    }

    #[test]
    fn what_streams_came_to_is_told() {
        let held = report(None, figures());
        let text = streaming_heading(&held.setup, (1_000_000_000, 10_000_000_000)) + &streaming_text(&held, &[]);
        for part in [
            "http://a/film at 10.0.0.2:80, kernel sockets\n  1,000 streams of 5.00 Mbit/s, each held against its rate, 300 different requests in turn, each from another one on\n  1.00 s warm-up, 10.0 s measured\n",
            "Received     5.00 Gbit/s, 5.00 Mbit/s a stream\nStreams      1,000 of 1,000 were under way\n",
            "Evenness     99.9 % of 9,000 seconds of streams within 1460 B\n             100 % within twice that\n",
            "Seconds      9 of 10 count; in 1 the hypervisor had a core\nErrors       none\n",
            "Own CPU      25 % user, 50 % system of a core\nVerdict      COMPLETE\n",
        ] {
            assert!(text.contains(part), "{part}\n{text}");
        }
        let mut figures = figures();
        figures.under_runs.record_n(500_000_000, 4);
        figures.no_start.record(9_000_000_000);
        (figures.dried, figures.disturbed_under_runs) = (2, 7);
        let times = [&mut figures.to_play, &mut figures.stalled, &mut figures.disturbed];
        for (time, seconds) in times.into_iter().zip([1_000, 2, 3]) {
            *time = core::time::Duration::from_secs(seconds);
        }
        figures.reopened = 1;
        let played = report(Some(1_000_000_000), figures);
        let text = streaming_heading(&played.setup, (0, 1)) + &streaming_text(&played, &[]);
        for part in [
            "each played from a buffer of 1.00 s, 50 % full at first",
            "Streams      1,000 of 1,000 played\n",
            "Under-runs   4 on 2 of 1,000 streams (1 never played): 0.2 % of the time that was to be played\n",
            "             in seconds that do not count: 7 more, 3.00 s without anything to play\n",
            "Opened anew  in place of 1 kept connection that the server closed\n",
            "  streams that never played: 1, the longest waited for 9.00 s\n",
        ] {
            assert!(text.contains(part), "{part}\n{text}");
        }
        let now = StreamingProgress {
            measuring: true,
            bytes: 1_250_000_000,
            under_way: 900,
            dried: 3,
            errors: 1,
            ..StreamingProgress::default()
        };
        let line = streaming_line(&played.setup, &now, &StreamingProgress::default(), (2.0, 2.0));
        assert_eq!(line, "  2.0 s      5.00 Gbit/s   900 of 1,000 played, 3 ran dry, 1 failure\n");
    }

    /// What was left out, or never came, is no part of a result that is whole.
    #[test]
    fn what_is_missing_stands_in_the_verdict() {
        let verdict = |change: fn(&mut StreamingFigures)| {
            let mut figures = figures();
            change(&mut figures);
            streaming_verdict(&report(None, figures))
        };
        assert_eq!(verdict(|_| {}).word, "COMPLETE");
        let late = |figures: &mut StreamingFigures| figures.seconds[5].left_out = Some(LeftOut::Late);
        let told = verdict(late);
        assert!(told.word == "PARTIAL" && told.reasons == ["20 % of the seconds do not count"], "{told:?}");
        let told = verdict(|figures| (figures.under_way, figures.interrupted) = (990, true));
        assert!(told.word == "PARTIAL" && told.reasons.len() == 2, "{told:?}");
        let all = |figures: &mut StreamingFigures| {
            figures.seconds.iter_mut().for_each(|second| second.left_out = Some(LeftOut::Stolen));
        };
        let told = verdict(all);
        assert!(told.word == "INVALID" && told.reasons == ["no second of any stream counts"], "{told:?}");
        let told = verdict(|figures| (figures.errors.lost, figures.errors.statuses, figures.wrong) = (1, 12, 2));
        let reasons = ["2 answers were not as wanted", "1 connection lost", "12 answers with another status than 2xx"];
        assert!(told.word == "PARTIAL" && told.reasons == reasons, "{told:?}");
        let told = verdict(|figures| figures.late = load::Recorder::new());
        assert!(told.word == "INVALID" && told.reasons == ["no second of any stream counts"], "{told:?}");
        let told = verdict(|figures| figures.under_way = 0);
        assert!(told.word == "INVALID" && told.reasons == ["no stream got under way"], "{told:?}");
        let json: serde_json::Value = serde_json::from_str(&render_streaming_json(
            &report(None, figures()),
            &[],
            &"here",
            &ResultOrigin::default(),
        ))
        .expect("JSON");
        assert_eq!((&json["kind"], &json["counted"]["stolen"]), (&"streams".into(), &1.into()));
        assert_eq!((&json["seconds"][3]["left_out"], &json["playing"]), (&"stolen".into(), &serde_json::Value::Null));
    }
}
