use super::*;
use core::time::Duration;
use silo::Clock;
use silo::page::{Kind, Metric, Page};

const METRICS: [Metric; 5] = [
    Metric { name: "app.requests", kind: Kind::Counter },
    Metric { name: "app.responses_2xx", kind: Kind::Counter },
    Metric { name: "app.responses_5xx", kind: Kind::Counter },
    Metric { name: "silo.busy_ns", kind: Kind::Counter },
    Metric { name: "link.up", kind: Kind::Gauge },
];

#[test]
fn a_page_is_families_of_samples_by_silo() {
    let path = std::env::temp_dir().join(format!("nearside-exposition-{}.page", std::process::id()));
    let (mut page, mut writers) =
        Page::create(&path, "serve", Duration::from_millis(1_500), &METRICS, 2).expect("a page");
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
    // The only link that was up is not.
    writers[0].publish(Clock.now(), &[3, 2, 1, 0, 0]);
    assert!(exposition.ready().is_err() && exposition.alive().is_ok());
}
