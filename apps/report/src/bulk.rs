//! Streams without end: a line for each interval, and what it came to.

use core::fmt::Write;
use core::time::Duration;
use environment::{ResultKind, ResultOrigin, SCHEMA};
use figures::{digits, share, si};
use load::{BulkInterval, BulkReport, BulkSetup, BulkWay};
use serde::Serialize;

/// The names of columns.
const COLUMNS: &str = "  Interval                   Transfer         Rate   Retr       Cwnd        RTT";

/// What is measured, and the names of columns.
#[must_use]
pub fn bulk_heading(setup: &BulkSetup) -> String {
    let streams = |count: u32, what: &str| match count {
        0 => String::new(),
        1 => format!(", 1 stream {what}"),
        n => format!(", {n} streams {what}"),
    };
    format!(
        "http://{}{} at {}, {}{}{}\n\n{COLUMNS}\n",
        setup.host,
        setup.path,
        setup.target,
        setup.way,
        streams(setup.up_streams, "up"),
        streams(setup.down_streams, "down")
    )
}

/// An interval: a line for each way that bytes go.
#[must_use]
pub fn bulk_line(of: &BulkInterval) -> String {
    let mut out = String::new();
    for (name, way) in [("up", &of.up), ("down", &of.down)] {
        if way.streams == 0 {
            continue;
        }
        let span = format!("{:.1} - {:.1} s", of.start.as_secs_f64(), of.end.as_secs_f64());
        let _ =
            write!(out, "  {span:<16} {name:<4} {:>12} {:>12}", si(way.bytes as f64, "B"), si(of.rate(way), "bit/s"));
        // Who receives knows neither the window nor what was sent again.
        let _ = match name {
            "up" => writeln!(out, " {:>6} {:>10} {:>10}", way.retransmits, si(way.mean_cwnd(), "B"), rtt(way)),
            _ => writeln!(out, " {:>6} {:>10} {:>10}", "-", "-", "-"),
        };
    }
    out
}

fn rtt(way: &BulkWay) -> String {
    if way.mean_rtt_us() > 0.0 { format!("{} µs", digits(way.mean_rtt_us())) } else { "-".to_owned() }
}

/// What it came to.
#[must_use]
pub fn bulk_text(report: &BulkReport) -> String {
    let mut out = String::from("\n");
    let seconds = report.whole.end_s - report.whole.start_s;
    for (name, rate) in [("Sent", &report.whole.up), ("Received", &report.whole.down)] {
        let Some(rate) = rate else { continue };
        let _ = write!(
            out,
            "{name:<12} {} in {} s: {}",
            si(rate.way.bytes as f64, "B"),
            digits(seconds),
            si(rate.bits_per_second, "bit/s")
        );
        let _ = match name {
            "Sent" => writeln!(out, ", {} segments sent again", rate.way.retransmits),
            _ => writeln!(out, ", {} segments out of order", rate.way.out_of_order),
        };
    }
    for port in &report.carried {
        let _ = write!(
            out,
            "Port         {}: {} sent, {} received",
            port.name,
            si(port.sent, "bit/s"),
            si(port.received, "bit/s")
        );
        let _ = match (port.speed, port.utilisation()) {
            (Some(speed), Some(used)) => writeln!(out, ", {} of its {}", share(used), si(speed, "bit/s")),
            _ => writeln!(out),
        };
    }
    let _ =
        writeln!(out, "Own CPU      {} user, {} system of a core", share(report.cpu_user), share(report.cpu_system));
    out
}

/// Bytes of one answer below which receiving measures how soon requests are answered, and not what a link carries:
/// with two of them asked for, a stream stands still for most of a round trip.
const LEAST_ANSWER: u64 = 64 << 10;

/// A run as long as this share of what was asked for was not ended early.
const WHOLE: f64 = 0.95;

/// What a run of streams is worth, be they without end or held to a rate.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct StreamsVerdict {
    /// COMPLETE, PARTIAL or INVALID.
    pub word: &'static str,
    /// Why.
    pub reasons: Vec<String>,
}

/// INVALID where nothing came or went on a way that was asked for: no figure is of a server; and where what came were
/// small answers, which wait for each other. PARTIAL where it was measured for less time than was asked for.
#[must_use]
pub fn bulk_verdict(report: &BulkReport, asked: Duration) -> StreamsVerdict {
    let mut reasons = Vec::new();
    for (name, asked, rate) in
        [("up", report.setup.up_streams, &report.whole.up), ("down", report.setup.down_streams, &report.whole.down)]
    {
        let bytes = rate.as_ref().map_or(0, |rate| rate.way.bytes);
        if asked > 0 && bytes == 0 {
            reasons.push(format!("nothing was carried {name}: no rate was measured"));
        }
    }
    if let Some(down) = &report.whole.down {
        // One that is under way at the end has no end of its own.
        let each = down.way.bytes / down.way.answers.max(1);
        if down.way.bytes > 0 && down.way.answers > 0 && each < LEAST_ANSWER {
            reasons.push(format!(
                "answers have {} each: round trips were measured, not what is carried down; ask for a large one \
                 (nearside serve --respond 1000M)",
                si(each as f64, "B")
            ));
        }
    }
    let mut word = if reasons.is_empty() { "COMPLETE" } else { "INVALID" };
    let measured = report.whole.end_s - report.whole.start_s;
    // The last interval is cut when a turn comes to it, a moment before or after.
    if measured < WHOLE * asked.as_secs_f64() {
        reasons.push(format!("it ended before its time: after {measured:.1} s"));
        word = if word == "COMPLETE" { "PARTIAL" } else { word };
    }
    StreamsVerdict { word, reasons }
}

/// The same as one JSON object, with the machine that it belongs to, and how it came.
#[must_use]
pub fn render_bulk_json(
    report: &BulkReport,
    verdict: &StreamsVerdict,
    environment: &impl Serialize,
    origin: &ResultOrigin,
) -> String {
    #[derive(Serialize)]
    struct Whole<'a, E: Serialize> {
        kind: ResultKind,
        schema: u32,
        #[serde(flatten)]
        origin: &'a ResultOrigin,
        verdict: &'a StreamsVerdict,
        #[serde(flatten)]
        report: &'a BulkReport,
        environment: &'a E,
    }
    match serde_json::to_string_pretty(&Whole {
        kind: ResultKind::Bulk,
        schema: SCHEMA,
        origin,
        verdict,
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
    use load::PortUse;

    fn way(bytes: u64, streams: u64) -> BulkWay {
        BulkWay { bytes, answers: 1, retransmits: 7, out_of_order: 3, cwnd: 2_500_000, rtt_us: 620, streams }
    }

    #[test]
    fn bytes_are_told_by_way_and_interval() {
        let setup = BulkSetup {
            host: "10.0.0.2".into(),
            path: "/".into(),
            target: "10.0.0.2:80".into(),
            way: "kernel sockets".into(),
            up_streams: 2,
            down_streams: 1,
        };
        let of = |bytes, start, end| BulkInterval {
            start: Duration::from_secs(start),
            end: Duration::from_secs(end),
            up: way(bytes, 2),
            down: way(bytes / 2, 1),
        };
        let carried = vec![PortUse { name: "eth0".into(), speed: Some(1e10), sent: 9.4e9, received: 4e9 }];
        let cpu = (Duration::from_millis(500), Duration::from_millis(1_500));
        let report =
            BulkReport::new(setup.clone(), of(2_350_000_000, 0, 2), vec![of(1_175_000_000, 0, 1)], cpu, carried);
        let text = bulk_heading(&setup) + &bulk_line(&of(1_175_000_000, 0, 1)) + &bulk_text(&report);
        let expected = "\
http://10.0.0.2/ at 10.0.0.2:80, kernel sockets, 2 streams up, 1 stream down

  Interval                   Transfer         Rate   Retr       Cwnd        RTT
  0.0 - 1.0 s      up        1.18 GB  9.40 Gbit/s      7    1.25 MB     310 µs
  0.0 - 1.0 s      down       588 MB  4.70 Gbit/s      -          -          -

Sent         2.35 GB in 2.00 s: 9.40 Gbit/s, 7 segments sent again
Received     1.18 GB in 2.00 s: 4.70 Gbit/s, 3 segments out of order
Port         eth0: 9.40 Gbit/s sent, 4.00 Gbit/s received, 94 % of its 10.0 Gbit/s
Own CPU      25 % user, 75 % system of a core
";
        assert_eq!(text, expected, "\n{text}");
        let json: serde_json::Value = serde_json::from_str(&render_bulk_json(
            &report,
            &bulk_verdict(&report, Duration::from_secs(2)),
            &"here",
            &ResultOrigin::default(),
        ))
        .expect("JSON");
        assert_eq!((&json["up"]["bits_per_second"], &json["down"]["bytes"]), (&9.4e9.into(), &1_175_000_000.into()));
        assert_eq!((&json["intervals"][0]["up"]["retransmits"], &json["environment"]), (&7.into(), &"here".into()));
    }

    /// Where nothing came, no rate was measured, whatever the table shows.
    #[test]
    fn a_way_on_which_nothing_was_carried_is_no_measurement() {
        let setup = |up_streams, down_streams| BulkSetup {
            host: "a".into(),
            path: "/".into(),
            target: "a:80".into(),
            way: "kernel sockets".into(),
            up_streams,
            down_streams,
        };
        let after = |asked, setup: BulkSetup, up, down| {
            let whole = BulkInterval {
                end: Duration::from_secs(1),
                up: way(up, 1),
                down: way(down, 1),
                ..BulkInterval::default()
            };
            let report = BulkReport::new(setup, whole, vec![], (Duration::ZERO, Duration::ZERO), vec![]);
            bulk_verdict(&report, Duration::from_secs(asked))
        };
        let of = |setup, up, down| after(1, setup, up, down);
        assert_eq!(of(setup(1, 0), 5, 0).word, "COMPLETE");
        let early = after(20, setup(1, 0), 5, 0);
        assert_eq!((early.word, &*early.reasons[0]), ("PARTIAL", "it ended before its time: after 1.0 s"));
        let early = after(20, setup(1, 1), 5, 0);
        assert_eq!((early.word, early.reasons.len()), ("INVALID", 2));
        let large = LEAST_ANSWER;
        assert_eq!((of(setup(0, 1), 0, large).word, of(setup(1, 1), 1, large).reasons.len()), ("COMPLETE", 0));
        let small = of(setup(0, 1), 0, large - 1);
        assert!(small.word == "INVALID" && small.reasons[0].starts_with("answers have 65.5 kB each"), "{small:?}");
        let none = of(setup(1, 1), 5, 0);
        assert_eq!((none.word, &*none.reasons[0]), ("INVALID", "nothing was carried down: no rate was measured"));
    }
}
