//! The forms of a report, from figures that a run could have counted.

use core::time::Duration;
use load::{
    Arrival, Busy, Class, Cpu, Figures, Floor, Grpc, Http2, Outside, Plan, PortUse, Ports, Recorder, Report, Request,
    Reuse, Schedule, Sibling, UrlFigures, Warning, Weighted, Wrong, WrongAnswer,
};
use report::{render_ab, render_hgrm, render_histogram, render_json, render_text, render_wrk};
use serde_json::Value;

fn ms(n: u64) -> Duration {
    Duration::from_millis(n)
}

fn us(n: u64) -> Duration {
    Duration::from_micros(n)
}

/// What 64 connections would have counted in 2 s at 250 µs each.
fn figures() -> Figures {
    let mut figures = Figures {
        ramp: ms(3),
        warm_up: ms(1_000),
        window: Duration::from_secs(2),
        open: 64,
        most_open: 64,
        in_flight: 64,
        oldest_in_flight: us(230),
        silos: 1,
        ..Figures::default()
    };
    for n in 0..512_000_u64 {
        figures.latency.record(200_000 + (n % 1_000) * 100);
    }
    figures.latency.record(1_900_123);
    figures.connect.record(120_000);
    figures.before.connections.attempted = 64;
    figures.before.connections.established = 64;
    figures.counts.traffic.responses = 512_001;
    figures.counts.traffic.sent = 512_001;
    figures.counts.traffic.received_bytes = 512_001 * 120;
    figures.counts.traffic.body_bytes = 512_001 * 13;
    figures.counts.traffic.sent_bytes = 512_001 * 37;
    figures.counts.statuses.success = 512_001;
    figures.rate = 256_000.5;
    figures.samples.classes[Class::Success as usize] = figures.latency.clone();
    // 64 requests in progress for 2 s.
    figures.in_progress.request_ns = 64 * 2_000_000_000;
    figures.turns.all = 900_000;
    figures.turns.busy = 100_000;
    figures.turns.time = Duration::from_secs(2);
    figures.turns.busy_time = ms(1_000);
    figures.turns.longest = us(80);
    figures
}

fn plan64() -> Plan {
    let target = "10.0.0.2:80".parse().expect("an address");
    let mut plan = Plan::new(target, Request::get("10.0.0.2", "/"));
    plan.connections = 64;
    plan
}

fn busy(millis: u64) -> Option<Busy> {
    Some(Busy { busy: ms(millis), total: ms(2_000) })
}

#[test]
fn text_for_people() {
    let mut figures = figures();
    figures.counts.errors.timeouts = 3;
    figures.counts.errors.reset = 1_234;
    figures.before.errors.refused = 2;
    let text = render_text(&Report::new(&plan64(), &figures, busy(1_900)));
    assert_eq!(text, include_str!("report.txt"), "\n{text}");
}

/// An open loop, with what only its surroundings know.
#[test]
fn text_of_an_open_loop() {
    let mut figures = figures();
    figures.schedule.due = 512_100;
    figures.samples.service = figures.latency.clone();
    [1_000, 2_000, 900_000].into_iter().for_each(|nanos| figures.samples.lag.record(nanos));
    let mut plan = plan64();
    plan.arrival = Arrival::Open(Schedule::poisson(256_050.0));
    let outside = Outside {
        busy: busy(800),
        cpu: Some(Cpu { user_ns: 500_000_000, system_ns: 900_000_000, run_delay_ns: 2_000_000, span_ns: 0 }),
        ports: Some(Ports { used: 64, available: 28_232 }),
        floor: Some(Floor { mean_ns: 21_000.0, p50_ns: 20_000, p99_ns: 40_000 }),
        stolen: Some(0.004),
        carried: vec![
            PortUse { name: "eth0".into(), speed: Some(1e10), sent: 1.2e9, received: 9.4e9 },
            PortUse { name: "veth0".into(), speed: None, sent: 0.0, received: 5e6 },
        ],
        siblings: vec![
            Sibling { core: 5, of: 1, own: false, busy: 0.834 },
            Sibling { core: 4, of: 0, own: true, busy: 1.0 },
        ],
    };
    let text = render_text(&Report::new(&plan, &figures, outside));
    assert_eq!(text, include_str!("open.txt"), "\n{text}");
}

/// Requests apart, wrong answers, redirects and cookies, and what the hypervisor took.
#[test]
fn text_of_several_requests_that_are_looked_at() {
    let mut plan = plan64();
    let paths = ["/a".to_owned(), format!("/{}\u{1b}[2J", "x".repeat(60)), "/c".to_owned(), "/d".to_owned()];
    plan.requests = paths.iter().map(|path| Weighted { weight: 1, item: Request::get("10.0.0.2", path) }).collect();
    (plan.url_rows, plan.follow, plan.cookies) = (Some(2), 3, true);
    let mut figures = figures();
    figures.urls = vec![UrlFigures::default(); 3];
    figures.urls[0].classes[Class::Success as usize] = 1_000_000;
    figures.urls[0].body_bytes = 2_649_000_000;
    figures.urls[0].latency.record(250_000);
    figures.urls[1].classes[Class::TimedOut as usize] = 5;
    figures.urls[2].classes[Class::ClientError as usize] = 7;
    figures.urls[2].wrong = 3;
    figures.counts.errors.wrong_text = 3;
    figures.counts.errors.not_judged = 1;
    (figures.counts.redirects.followed, figures.counts.redirects.elsewhere) = (12_345, 2);
    (figures.counts.cookies.stored, figures.before.cookies.refused) = (64, 1);
    let wrong = |wrong, came: &str| WrongAnswer { request: "GET /c".into(), wrong, status: 404, came: came.into() };
    figures.wrong_answers = vec![wrong(Wrong::Text, "<html>"), wrong(Wrong::NotJudged, "2097152 bytes")];
    let outside = Outside { busy: busy(800), stolen: Some(0.05), ..Outside::default() };
    let report = Report::new(&plan, &figures, outside);
    let text = render_text(&report);
    assert_eq!(text, include_str!("looked_at.txt"), "\n{text}");
    let json: Value =
        serde_json::from_str(&render_json(&report, &[], &"here", &environment::ResultOrigin::default())).expect("JSON");
    assert_eq!((&json["urls"][0]["request"], &json["urls"][2]["requests"]), (&"GET /a".into(), &2.into()));
    assert_eq!(
        (&json["wrong_answers"][1]["wrong"], &json["redirects"]["elsewhere"]),
        (&"not-judged".into(), &2.into())
    );
    assert_eq!(
        (&json["verdict"]["trust"], &json["verdict"]["reasons"][0]["spoils"]),
        (&"with-care".into(), &"latency".into())
    );
}

/// A run with failures of each kind.
fn troubled() -> Report {
    let mut figures = figures();
    figures.counts.errors.timeouts = 3;
    figures.counts.errors.reset = 1_234;
    figures.counts.errors.refused = 2;
    figures.counts.statuses.success -= 7;
    figures.counts.statuses.client_error = 7;
    Report::new(&plan64(), &figures, busy(1_900))
}

#[test]
fn as_ab_prints_it() {
    let text = render_ab(&troubled());
    assert_eq!(text, include_str!("ab.txt"), "\n{text}");
}

#[test]
fn as_ab_prints_a_new_connection_per_request_with_a_body() {
    let mut plan = plan64();
    plan.reuse = Reuse::ServerCloses;
    plan.requests[0].item.method = "POST".into();
    plan.requests[0].item.body = b"12345".to_vec();
    let text = render_ab(&Report::new(&plan, &figures(), busy(800)));
    assert!(!text.contains("Total:") && !text.contains("Keep-Alive") && !text.contains("Waiting"), "{text}");
    assert!(text.contains("Total body sent:        18944037\n"), "{text}");
    assert!(text.contains(" kb/s sent\n") && text.contains(" kb/s total\n"), "{text}");
    assert!(text.contains("(ms, without connecting)\n"), "{text}");
}

/// Where the parts of requests were measured, all of ab's rows are there, and
/// the percentiles are of the whole.
#[test]
fn as_ab_prints_the_parts_of_requests() {
    let mut plan = plan64();
    plan.reuse = Reuse::ServerCloses;
    plan.parts = true;
    let mut figures = figures();
    figures.server = Some("nginx/1.22.1".to_owned());
    for _ in 0..100 {
        figures.samples.waiting.record(3_000_000);
        figures.samples.total.record(9_000_000);
    }
    let text = render_ab(&Report::new(&plan, &figures, busy(800)));
    assert!(text.starts_with("Server Software:        nginx/1.22.1\n"), "{text}");
    for row in [
        "Waiting:        3    3   0.0      3       3\n",
        "Total:          9    9   0.0      9       9\n",
        "  50%      9\n",
        " 100%      9 (longest request)\n",
    ] {
        assert!(text.contains(row), "{row:?} in\n{text}");
    }
}

/// Two threads, the second of which was done before the first.
#[test]
fn the_rate_of_other_tools_is_requests_by_the_time_printed() {
    let mut all = figures();
    let mut other = figures();
    other.window = ms(1_000);
    other.rate = other.counts.traffic.responses as f64;
    all.merge(&other);
    let report = Report::new(&plan64(), &all, busy(800));
    let by_hand = report.traffic.responses as f64 / (report.window_ns as f64 * 1e-9);
    assert!(report.throughput.requests_per_second > 1.2 * by_hand);
    let ab = render_ab(&report);
    assert!(ab.contains(&format!("Requests per second:    {by_hand:.2} ")), "{ab}");
    let wrk = render_wrk(&report, &Recorder::new());
    assert!(wrk.contains(&format!("Requests/sec: {by_hand:>9.2}")), "{wrk}");
}

#[test]
fn as_wrk_prints_it() {
    let mut rates = Recorder::new();
    [250_000, 262_000, 256_000].into_iter().for_each(|rate| rates.record(rate));
    let text = render_wrk(&troubled(), &rates);
    assert_eq!(text, include_str!("wrk.txt"), "\n{text}");
    assert!(!render_wrk(&troubled(), &Recorder::new()).contains("Req/Sec"), "nothing was measured for it");
}

#[test]
fn as_a_histogram() {
    let text = render_histogram(&troubled());
    assert_eq!(text, include_str!("histogram.txt"), "\n{text}");
}

#[test]
fn calls_have_a_line_where_any_were_answered() {
    let mut plan = plan64();
    plan.http2 = Some(Http2 { grpc: Some(Grpc::default()), ..Http2::default() });
    let text = render_text(&Report::new(&plan, &Figures::default(), busy(800)));
    assert!(text.contains("gRPC over HTTP/2") && !text.contains("Calls"), "{text}");
}

#[test]
fn json_has_every_figure_as_a_number() {
    let report = Report::new(&plan64(), &figures(), busy(1_900));
    let json: Value =
        serde_json::from_str(&render_json(&report, &[], &"here", &environment::ResultOrigin::default())).unwrap();
    assert_eq!(json["schema"], 1);
    assert_eq!(json["setup"]["reuse"], "keep-alive");
    assert_eq!(json["setup"]["targets"][0], "10.0.0.2:80");
    assert_eq!(json["throughput"]["requests_per_second"], 256_000.5);
    assert_eq!(json["latency"]["max_ns"], 1_900_123);
    assert_eq!(json["errors"]["timeouts"], 0);
    assert_eq!(json["ended"], "as-planned");
    assert_eq!(json["client"]["source"], "runtime");
    assert_eq!(json["warnings"][0]["kind"], "client-saturated");
    assert_eq!(json["warnings"][0]["busy_fraction"], 0.95);
}

#[test]
fn an_empty_run_can_be_reported() {
    for busy in [None, Some(Busy::default())] {
        let report = Report::new(&plan64(), &Figures::default(), busy);
        assert!(report.warnings.contains(&Warning::NoResponses));
        let others = [render_ab(&report), render_wrk(&report, &Recorder::new()), render_histogram(&report)];
        for text in others.into_iter().chain([render_text(&report)]) {
            assert!(!text.contains("NaN") && !text.contains("inf"), "{text}");
        }
        // A number that is not finite would be null.
        assert!(!render_json(&report, &[], &"here", &environment::ResultOrigin::default()).contains("null"));
        assert!(render_hgrm(&report).contains("Total count    =            0]"));
    }
}

#[test]
fn hgrm_is_what_plotting_tools_read() {
    let report = Report::new(&plan64(), &figures(), None);
    let text = render_hgrm(&report);
    let mut lines = text.lines();
    let header: Vec<_> = lines.next().unwrap().split_whitespace().collect();
    assert_eq!(header, ["Value", "Percentile", "TotalCount", "1/(1-Percentile)"]);
    assert_eq!(lines.next(), Some(""));
    let (mut last_value, mut last_quantile, mut last_count) = (0.0, -1.0, 0);
    let (rows, comments): (Vec<_>, Vec<_>) = lines.partition(|line| !line.starts_with('#'));
    for (n, row) in rows.iter().enumerate() {
        let cells: Vec<&str> = row.split_whitespace().collect();
        let (value, quantile): (f64, f64) = (cells[0].parse().unwrap(), cells[1].parse().unwrap());
        let count: u64 = cells[2].parse().unwrap();
        assert!(value >= last_value && quantile > last_quantile && count >= last_count, "{row}");
        (last_value, last_quantile, last_count) = (value, quantile, count);
        if n + 1 < rows.len() {
            let distance: f64 = cells[3].parse().unwrap();
            assert!((distance - 1.0 / (1.0 - quantile)).abs() <= 0.01 + distance * 1e-6, "{row}");
        } else {
            assert_eq!((cells.len(), quantile), (3, 1.0), "{row}");
        }
    }
    assert_eq!((last_value, last_count), (1.900123, 512_001), "milliseconds");
    assert_eq!(comments.len(), 3);
    assert!(comments[0].starts_with("#[Mean    =     0.2499"), "{}", comments[0]);
    assert!(comments[1].starts_with("#[Max     =     1.900123, Total count    =       512001]"), "{}", comments[1]);
}
