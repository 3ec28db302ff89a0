use crate::frames::rates;
use crate::machine::{CoreTicks, CpuShare, Fingerprint, core_ticks, parse_list, process_ticks};
use crate::measure::{Contender, Latency, Measurement, PERCENTILES, SCENARIOS, thousands};
use crate::promises::promises;
use crate::results::{Results, Row};
use crate::summary::{median, summaries};
use crate::{report, table};

/// Invented figures, for the rendering only.
pub(crate) fn invented() -> Results {
    let measurement = |rate: f64, base: f64| Measurement {
        requests_per_second: rate,
        response_bytes: 160.0,
        latency: Latency {
            curve: PERCENTILES.iter().map(|p| base * (1.0 + 0.4 / (1.001 - p / 100.0).powf(0.6))).collect(),
            max: base * 60.0,
        },
        errors: 0,
        server: CpuShare { process: 0.98, softirq: if rate < 1e6 { 0.31 } else { 0.0 }, others: 0.01 },
        client: CpuShare { process: 0.97, softirq: 0.0, others: 0.0 },
        warnings: Vec::new(),
    };
    let row = |scenario, contender| {
        let (rate, base) = if contender == Contender::Nginx { (1e5, 500.0) } else { (2.5e6, 20.0) };
        let rounds = [0.9, 1.0, 1.2].map(|factor| measurement(rate * factor, base / factor)).to_vec();
        Row { scenario, contender, rounds }
    };
    Results {
        machine: Fingerprint { processor: "Processor <of> a test".into(), ..Fingerprint::read() },
        nearside: "0.1.0".into(),
        nginx: Some("1.22.1".into()),
        congestion: Some("cubic".into()),
        cores: (0, 1),
        rounds: 3,
        seconds: 2,
        seed: 1,
        percentiles: PERCENTILES.to_vec(),
        rows: SCENARIOS.iter().flat_map(|s| [row(*s, Contender::Nginx), row(*s, Contender::Nearside)]).collect(),
        frames: vec![15e6, 14e6, 16e6],
        left_out: Vec::new(),
    }
}

#[test]
fn ratios_are_taken_round_by_round() {
    let mut results = invented();
    results.rows[1].rounds[0].requests_per_second = 9e4 * 40.0;
    let rows = summaries(&results, SCENARIOS[0]);
    assert_eq!(rows.iter().map(|row| row.contender).collect::<Vec<_>>(), [Contender::Nginx, Contender::Nearside]);
    let ratio = rows[1].ratio.expect("nginx was measured");
    assert!((ratio.median - 25.0).abs() < 1e-9 && (ratio.max - 40.0).abs() < 1e-9, "{ratio:?}");
    assert_eq!(rows[0].ratio, None);
}

#[test]
fn the_table_names_every_row_and_every_difference() {
    let results = invented();
    let text = table::render(&results);
    for scenario in SCENARIOS {
        assert!(text.contains(&scenario.title()), "{text}");
    }
    for word in ["memif", "veth", "wrk", "nearside load", "cubic", "coordinated omission", "2,500,000", "25.0x"] {
        assert!(text.contains(word), "no {word} in\n{text}");
    }
}

#[test]
fn without_nginx_nearside_is_still_shown() {
    let mut results = invented();
    results.rows.retain(|row| row.contender == Contender::Nearside);
    (results.nginx, results.congestion) = (None, None);
    results.left_out.push("nginx on kernel sockets: making network namespaces needs root".into());
    for text in [table::render(&results), report::render(&results)] {
        assert!(text.contains("2,500,000") && text.contains("needs root"), "{text}");
        assert!(!text.contains("25.0"), "there is nothing to compare with");
    }
}

#[test]
fn a_machine_that_was_busy_otherwise_is_named() {
    let mut results = invented();
    assert!(!table::render(&results).contains("Not alone"));
    results.rows[2].rounds.iter_mut().for_each(|round| round.client.others = 0.4);
    let text = table::render(&results);
    assert!(text.contains("Not alone") && text.contains("40%"), "{text}");
}

#[test]
fn failures_and_warnings_are_told() {
    let mut results = invented();
    results.rows[1].rounds[0].errors = 7;
    results.rows[3].rounds[0].warnings = vec!["few-samples".into(), "client-saturated".into()];
    results.rows[5].rounds[0].warnings = vec!["few-samples".into()];
    let text = table::render(&results);
    assert!(text.contains("7 requests or connections failed"), "{text}");
    assert_eq!(text.matches("warns of few samples").count(), 1, "{text}");
    assert!(!text.contains("client saturated"), "{text}");
}

#[test]
fn a_promise_that_is_not_kept_is_told() {
    let mut results = invented();
    let kept = |results: &Results| promises(results).iter().map(|promise| promise.kept).collect::<Vec<_>>();
    // 25 times nginx's rate: enough for the rows with few connections and with
    // many, too little for new connections. Each row's tail is promised too.
    assert_eq!(kept(&results), [true, true, true, true, false, true, true, true, true]);
    results.rows[1].rounds.iter_mut().for_each(|round| round.requests_per_second = 1e6);
    let theirs = results.rows[6].rounds[0].latency.clone();
    results.rows[7].rounds.iter_mut().for_each(|round| round.latency = theirs.clone());
    assert_eq!(kept(&results), [false, true, true, true, false, true, false, true, true]);
    results.rows.retain(|row| row.contender == Contender::Nearside);
    assert!(promises(&results).is_empty());
}

#[test]
fn the_report_needs_nothing_but_itself() {
    let page = report::render(&invented());
    for foreign in ["http://", "https://", "src=", "@import", "url(", "<script"] {
        assert!(!page.contains(foreign), "{foreign}");
    }
    assert!(page.contains("Processor &lt;of&gt; a test"));
    assert_eq!(page.matches("<svg").count(), SCENARIOS.len());
    assert!(!page.contains("NaN") && !page.contains("inf"));
}

#[test]
fn results_survive_their_json() {
    let results = invented();
    let read: Results = serde_json::from_str(&results.to_json()).expect("its own JSON");
    assert_eq!(read.rows.len(), results.rows.len());
    assert_eq!(read.frames, results.frames);
}

#[test]
fn medians_are_of_the_middle() {
    assert_eq!(median(&[3.0, 1.0, 2.0]), 2.0);
    assert_eq!(median(&[4.0, 1.0, 2.0, 3.0]), 2.5);
    assert_eq!(median(&[]), 0.0);
}

#[test]
fn thousands_are_separated() {
    let texts = [0.0, 999.0, 1_000.0, 123_456.4, 15_000_000.0].map(thousands);
    assert_eq!(texts, ["0", "999", "1,000", "123,456", "15,000,000"]);
}

#[test]
fn processor_time_is_read_past_odd_names() {
    let stat = "42 (a) b (c) R 1 42 42 0 -1 4194304 1 2 3 4 150 25 0 0 20 0 1 0 100 1 1";
    assert_eq!(process_ticks(stat), Some(175));
    assert_eq!(process_ticks("nonsense"), None);
    let stat = "cpu  1 2 3 4 5 6 7 8\ncpu0 10 20 30 40 50 60 70 80\ncpu1 1 1 1 1 1 1 9 1\n";
    assert_eq!(core_ticks(stat, 0), Some(CoreTicks { busy: 270, softirq: 70 }));
    assert_eq!((core_ticks(stat, 1).map(|c| c.softirq), core_ticks(stat, 10)), (Some(9), None));
}

#[test]
fn core_lists_are_read_as_the_kernel_writes_them() {
    assert_eq!(parse_list("0-2,5,7-8"), [0, 1, 2, 5, 7, 8]);
    assert_eq!(parse_list(""), [0_u16; 0]);
}

#[test]
fn frame_rates_are_both_ways_together_and_never_zero() {
    let output = "  Rx-pps:            0          Rx-bps:            0\n  Tx-pps:            0          Tx-bps: 0\n  \
                  Rx-pps:      2566462          Rx-bps:   1231901816\n  Tx-pps:      2567258          Tx-bps: 1\n";
    assert_eq!(rates(output), [5_133_720.0]);
}
