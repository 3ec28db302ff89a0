use crate::field::Generator;
use crate::frames::rates;
use crate::machine::{CoreTicks, CpuShare, Fingerprint, core_ticks, process_ticks, with_children};
use crate::measure::{Contender, Heads, Latency, Measurement, PERCENTILES, SCENARIOS, Stage, thousands};
use crate::promises::promises;
use crate::results::{DemoResults, Nginx, Row};
use crate::summary::{median, summaries};
use crate::{report, table};
use std::process::{Command, Stdio};

/// Invented figures, for the rendering only.
pub(crate) fn invented() -> DemoResults {
    let measurement = |rate: f64, base: f64| Measurement {
        requests_per_second: rate,
        response_bytes: 160.0,
        latency: Latency {
            curve: PERCENTILES.iter().map(|p| base * (1.0 + 0.4 / (1.001 - p / 100.0).powf(0.6))).collect(),
            max: base * 60.0,
        },
        errors: 0,
        server: CpuShare { process: 0.98, system: 0.5, softirq: if rate < 1e6 { 0.31 } else { 0.0 }, others: 0.01 },
        client: CpuShare { process: 0.97, system: 0.0, softirq: 0.0, others: 0.0 },
        server_busy: (rate > 1.2e5).then_some(0.9),
        warnings: Vec::new(),
    };
    let row = |scenario, contender| {
        let (rate, base) = match contender {
            Contender::Nginx => (1e5, 500.0),
            Contender::OtherNginx => (1.1e5, 480.0),
            Contender::Sockets => (1.4e5, 400.0),
            Contender::AfXdp => (4.5e5, 120.0),
            Contender::Memif => (2.5e6, 20.0),
        };
        let rounds = [0.9, 1.0, 1.2].map(|factor| measurement(rate * factor, base / factor)).to_vec();
        Row { scenario, contender, rounds }
    };
    DemoResults {
        machine: Fingerprint { processor: "Processor <of> a test".into(), ..Fingerprint::read() },
        nearside: "0.1.0".into(),
        nginx: ["1.22.1", "1.31.0"].map(|version| Nginx { version: version.into(), path: "/nginx".into() }).into(),
        configuration: Some("http {\n    access_log off;\n    root SITE;\n}\n".into()),
        congestion: Some("cubic".into()),
        generator: Generator::Bypass,
        cores: (0, 1),
        rounds: 3,
        seconds: 2.0,
        seed: 1,
        percentiles: PERCENTILES.to_vec(),
        rows: SCENARIOS.iter().flat_map(|s| s.stage.contenders().iter().map(|who| row(*s, *who))).collect(),
        frames: vec![15e6, 14e6, 16e6],
        left_out: Vec::new(),
        failed: Vec::new(),
        ended: None,
        origin: environment::ResultOrigin::default(),
    }
}

/// The rows of a contender.
fn rows_of(results: &mut DemoResults, contender: Contender) -> impl Iterator<Item = &mut Row> {
    results.rows.iter_mut().filter(move |row| row.contender == contender)
}

#[test]
fn ratios_are_taken_round_by_round() {
    let mut results = invented();
    let shared = SCENARIOS.into_iter().find(|s| s.stage == Stage::SharedMemory).expect("there are some");
    let row = rows_of(&mut results, Contender::Memif).next().expect("it is measured");
    row.rounds[0].requests_per_second = 9e4 * 40.0;
    let rows = summaries(&results, shared);
    let who = [Contender::Nginx, Contender::OtherNginx, Contender::Memif];
    assert_eq!(rows.iter().map(|row| row.contender).collect::<Vec<_>>(), who);
    let ratio = rows[2].ratio.expect("nginx was measured");
    assert!((ratio.median - 25.0).abs() < 1e-9 && (ratio.max - 40.0).abs() < 1e-9, "{ratio:?}");
    assert_eq!(rows[0].ratio, None);
    assert!((rows[1].ratio.expect("to the first").median - 1.1).abs() < 1e-9);
}

#[test]
fn the_rows_are_those_that_are_promised() {
    // Like for like comes first: nginx and both ways of ours on one pair.
    assert_eq!(Stage::ALL[0], Stage::OnePair);
    let pair = Stage::OnePair.contenders();
    for who in [Contender::Nginx, Contender::Sockets, Contender::AfXdp] {
        assert!(pair.contains(&who), "{who:?}");
    }
    for (at, scenario) in SCENARIOS.iter().enumerate() {
        assert!(
            SCENARIOS[..at]
                .iter()
                .all(|other| other != scenario && other.title() != scenario.title() || other.stage != scenario.stage)
        );
        let paths = load::expand(scenario.path()).expect("it is a pattern");
        assert_eq!(paths.len(), if scenario.heads == Heads::Equal { 1 } else { 100 });
    }
    for stage in Stage::ALL {
        assert!(SCENARIOS.iter().any(|s| s.stage == stage && s.is_first()), "the first look shows both parts");
    }
}

#[test]
fn the_table_names_every_row_and_every_difference() {
    let results = invented();
    let text = table::render(&results);
    for scenario in SCENARIOS {
        assert!(text.contains(&scenario.title()), "{text}");
    }
    for words in [
        "nginx 1.22.1",
        "nginx 1.31.0",
        "Nearside, sockets",
        "Nearside, AF_XDP",
        "Nearside, memif",
        "same veth pair",
        "wrk",
        "nearside load",
        "cubic",
        "coordinated omission",
        "access_log off;",
        "easier than any real traffic",
        "2,500,000",
        "25.0x (25.0 - 25.0)",
        "4.50x (4.50 - 4.50)",
    ] {
        assert!(text.replace("\n  ", " ").contains(words), "no {words} in\n{text}");
    }
    assert!(!text.contains("SITE"), "folders are nobody's business");
    assert!(text.find("Like for like") < text.find("Each on its fastest way"), "{text}");
    for line in text.lines() {
        assert!(line.chars().count() <= 132, "{line}");
    }
}

#[test]
fn the_first_look_is_small() {
    let mut results = invented();
    results.rows.retain(|row| row.scenario.is_first() && row.contender != Contender::OtherNginx);
    let text = table::first_look(&results);
    assert!(text.lines().count() <= 24, "{text}");
    assert!(text.contains("25.0x") && text.contains("1.40x") && text.contains("whole table follows"), "{text}");
    assert!(text.lines().all(|line| line.chars().count() <= 120), "{text}");
}

#[test]
fn without_nginx_nearside_is_still_shown() {
    let mut results = invented();
    results.rows.retain(|row| row.contender == Contender::Memif);
    (results.nginx, results.congestion, results.configuration) = (Vec::new(), None, None);
    results.left_out.push("nginx: making network namespaces needs root".into());
    for text in [table::render(&results), table::first_look(&results)] {
        assert!(text.contains("2,500,000"), "{text}");
        assert!(!text.contains("25.0") && !text.contains("wrk"), "there is nothing to compare with");
    }
    let page = report::page(&results).render();
    assert!(page.contains("2,500,000") && !page.contains('×') && page.contains("needs root"), "{page}");
    assert!(table::render(&results).contains("needs root"));
}

#[test]
fn a_machine_that_was_busy_otherwise_is_told_before_any_figure() {
    let mut results = invented();
    assert!(!table::render(&results).contains("Not a quiet machine"));
    results.rows[2].rounds.iter_mut().for_each(|round| round.client.others = 0.4);
    for text in [table::render(&results), report::page(&results).render(), table::first_look(&results)] {
        let at = text.find("Not a quiet machine").expect("it is told");
        assert!(text.contains("40%"), "{text}");
        assert!(at < text.find("small response").expect("figures"), "before the figures:\n{text}");
    }
}

#[test]
fn failures_and_warnings_are_told() {
    let mut results = invented();
    let mut rows = rows_of(&mut results, Contender::Memif);
    let mut next = || rows.next().expect("there are many");
    next().rounds[0].errors = 7;
    next().rounds[0].warnings = vec!["few-samples".into(), "client-saturated".into()];
    next().rounds[0].warnings = vec!["few-samples".into()];
    drop(rows);
    let text = table::render(&results);
    assert!(text.contains("7 requests or connections failed"), "{text}");
    assert_eq!(text.matches("warns of few samples").count(), 1, "{text}");
    assert!(!text.contains("client saturated"), "{text}");
}

#[test]
fn a_promise_that_is_not_kept_is_told() {
    let mut results = invented();
    let missed = |results: &DemoResults| {
        promises(results).iter().filter(|promise| !promise.kept).map(|promise| promise.what.clone()).collect::<Vec<_>>()
    };
    rows_of(&mut results, Contender::Memif).flat_map(|row| &mut row.rounds).for_each(|round| {
        round.requests_per_second *= 2.0;
    });
    assert_eq!(missed(&results), [""; 0]);
    let row = rows_of(&mut results, Contender::AfXdp).next().expect("it is measured");
    row.rounds.iter_mut().for_each(|round| round.requests_per_second = 3e5);
    assert_eq!(missed(&results).len(), 1, "{:?}", missed(&results));
    let theirs = rows_of(&mut results, Contender::Nginx).next().expect("it is measured").rounds[0].latency.clone();
    let row = rows_of(&mut results, Contender::Memif).next().expect("it is measured");
    row.rounds.iter_mut().for_each(|round| round.latency = theirs.clone());
    assert!(missed(&results)[1].ends_with("p99"), "{:?}", missed(&results));
    results.rows.retain(|row| row.contender.nginx().is_none());
    assert!(promises(&results).is_empty());
}

#[test]
fn a_row_in_which_requests_failed_keeps_no_promise() {
    for who in [Contender::Memif, Contender::Nginx] {
        let mut results = invented();
        rows_of(&mut results, Contender::Memif).flat_map(|row| &mut row.rounds).for_each(|round| {
            round.requests_per_second *= 2.0;
        });
        let row = rows_of(&mut results, who).next().expect("it is measured");
        row.rounds[1].errors = 1_234;
        let scenario = row.scenario;
        let all = promises(&results);
        let (missed, kept): (Vec<_>, Vec<_>) = all.iter().partition(|promise| !promise.kept);
        assert!(!missed.is_empty() && !kept.is_empty(), "{who:?}: {all:?}");
        for promise in missed {
            assert!(promise.what.contains(&scenario.title()), "{promise:?}");
            assert!(promise.found.contains("1,234 requests or connections failed"), "{promise:?}");
        }
    }
}

/// Counts of a file that somebody wrote are no reason to end.
#[test]
fn a_page_is_made_of_counts_that_nobody_counts() {
    let mut results = invented();
    results.rows.iter_mut().flat_map(|row| &mut row.rounds).for_each(|round| round.errors = u64::MAX);
    assert!(report::page(&results).render().contains("18,446,744,073"));
}

#[test]
fn the_report_needs_nothing_but_itself() {
    let page = report::page(&invented()).render();
    assert!(page.contains("Processor &lt;of&gt; a test"));
    // Bars, and percentiles for a narrow and for a wide place.
    assert_eq!(page.matches("class=\"bars\"").count(), SCENARIOS.len());
    assert_eq!(page.matches("<svg").count(), 2 * SCENARIOS.len());
    assert!(!page.contains("NaN") && !page.contains("inf"));
}

#[test]
fn results_survive_their_json() {
    let results = invented();
    let read: DemoResults = serde_json::from_str(&results.to_json()).expect("its own JSON");
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
fn frame_rates_are_both_ways_together_and_never_zero() {
    let output = "  Rx-pps:            0          Rx-bps:            0\n  Tx-pps:            0          Tx-bps: 0\n  \
                  Rx-pps:      2566462          Rx-bps:   1231901816\n  Tx-pps:      2567258          Tx-bps: 1\n";
    assert_eq!(rates(output), [5_133_720.0]);
}

#[test]
fn what_any_thread_of_a_process_started_is_among_its_children() {
    // It ends with its input.
    let started = Command::new("cat").stdin(Stdio::piped()).stdout(Stdio::null()).spawn();
    let mut child = started.expect("every machine has it");
    let found = with_children(std::process::id());
    drop(child.stdin.take());
    child.wait().expect("it ends");
    assert_eq!(found.first(), Some(&std::process::id()));
    assert!(found.contains(&child.id()), "{} is not among {found:?}", child.id());
    assert!(!with_children(std::process::id()).contains(&child.id()));
}
