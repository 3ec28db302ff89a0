use super::*;
use core::sync::atomic::AtomicU64;
use core::time::Duration;
use cpu::Clock;
use latency::{Pace, Recorder, SeriesMemory, SeriesTable, SeriesWords};
use page::{Metric, MetricKind, Page, SeriesShape};

struct Area(::page::SeriesArea);

struct Part(::page::SiloWords);

impl SeriesWords for Part {
    fn words(&self) -> &[AtomicU64] {
        self.0.words()
    }
}

impl SeriesMemory for Area {
    fn silo(&self, silo: usize) -> Arc<dyn SeriesWords> {
        Arc::new(Part(self.0.silo(silo)))
    }

    fn set_name(&self, place: u16, generation: u32, name: &str) {
        self.0.set_name(usize::from(place), generation, name);
    }

    fn clear_name(&self, place: u16) {
        self.0.clear_name(usize::from(place));
    }
}

const METRICS: [Metric; 5] = [
    Metric { name: "app.requests", kind: MetricKind::Counter },
    Metric { name: "app.responses_2xx", kind: MetricKind::Counter },
    Metric { name: "app.responses_5xx", kind: MetricKind::Counter },
    Metric { name: "silo.busy_ns", kind: MetricKind::Counter },
    Metric { name: "link.up", kind: MetricKind::Gauge },
];

#[test]
fn a_page_is_families_of_samples_by_silo() {
    let path = std::env::temp_dir().join(format!("nearside-exposition-{}.page", std::process::id()));
    let (mut page, mut writers) = Page::create(
        &path,
        "serve",
        Duration::from_millis(1_500),
        &METRICS,
        (2, SeriesShape { count: latency::SERIES_MAX, words: latency::WORDS }),
    )
    .expect("a page");
    let lifecycle = Arc::new(Lifecycle::default());
    let exposition = Exposition::new(page.reader().expect("our own"), Arc::clone(&lifecycle));
    // Without the file, too: the thread may not open any.
    drop(std::fs::remove_file(&path));
    writers[0].publish(Clock.now(), &[3, 2, 1, 1_500_000_000, 1]);
    writers[1].publish(Clock.now(), &[u64::MAX, 0, 0, 0, 0]);
    let has = |text: &str, line: &str| text.lines().any(|found| found == line);
    let text = exposition.text();
    for line in [
        "# TYPE nearside_http_requests counter",
        "# HELP nearside_http_requests Request heads accepted.",
        "nearside_http_requests_total{silo=\"0\"} 3",
        "nearside_http_requests_total{silo=\"1\"} 18446744073709551615",
        "nearside_http_responses_total{silo=\"0\",class=\"5xx\"} 1",
        "# UNIT nearside_silo_busy_seconds seconds",
        "nearside_silo_busy_seconds_total{silo=\"0\"} 1.5",
        "nearside_link_up{silo=\"1\"} 0",
        "process_start_time_seconds 1.5",
        "nearside_ready 0",
    ] {
        assert!(has(&text, line), "{line} in\n{text}");
    }
    assert!(text.ends_with("\n# EOF\n") && !text.contains("reload"));
    let mut families: Vec<&str> = text.lines().filter(|line| line.starts_with("# TYPE")).collect();
    let all = families.len();
    families.sort_unstable();
    families.dedup();
    assert_eq!(families.len(), all, "none stands twice: the form forbids it");
    lifecycle.advance(Readiness::Serving);
    page.tell(Duration::from_secs(7), false, "no");
    let text = exposition.text();
    assert!(has(&text, "nearside_ready 1") && has(&text, "nearside_draining 0"), "{text}");
    assert!(has(&text, "nearside_reload_success 0") && has(&text, "nearside_reload_time_seconds 7.0"), "{text}");
    assert!(!text.contains("nearside_request_duration"), "nothing was asked for anywhere");
    let table = SeriesTable::new(Area(page.series()));
    let mut recorder = Recorder::new(table.board(1));
    let series = recorder.board().series(b"a \"b\"", b"~ \\.png$");
    let at = |micros: u64| wire::Time::from_nanos(micros * 1_000);
    recorder.on_ready(series, 500, at(0));
    recorder.on_end(Pace { series, status: 404, bytes: 70, began: at(0) }, at(0));
    recorder.on_turn_over(at(300));
    let text = exposition.text();
    let labels = "host=\"a \\\"b\\\"\",location=\"~ \\\\.png$\"";
    for line in [
        "# UNIT nearside_request_duration_seconds seconds".to_owned(),
        format!("nearside_request_duration_seconds_bucket{{le=\"0.000262144\",{labels}}} 0"),
        format!("nearside_request_duration_seconds_bucket{{le=\"0.000393216\",{labels}}} 2"),
        format!("nearside_request_duration_seconds_bucket{{le=\"+Inf\",{labels}}} 2"),
        format!("nearside_request_duration_seconds_sum{{{labels}}} 0.0006"),
        format!("nearside_location_responses_total{{{labels},class=\"4xx\"}} 1"),
        format!("nearside_location_sent_bytes_total{{{labels}}} 570"),
    ] {
        assert!(has(&text, &line), "{line} in\n{text}");
    }
    assert!(!text.contains("host=\"other\""), "who has nothing is not told of");
    // The only link that was up is not.
    writers[0].publish(Clock.now(), &[3, 2, 1, 0, 0]);
    assert!(exposition.ready().is_err() && exposition.alive().is_ok());
}
