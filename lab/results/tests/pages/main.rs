//! Pages of results that were planted, byte for byte as they are kept beside this file:
//! `NEARSIDE_BLESS=1 cargo test -p results --test pages` writes them anew.

mod claims;

use environment::ResultOrigin;
use pages::{Page, PagePart, results_in};
use results::SidesCompared;
use serde_json::{Value, json};
use std::path::Path;

/// Names as somebody may give them who means no good: quotes, markup, letters from right to left,
/// and a mark that would turn what follows.
const BAD: &str = "a \"b\" 'c' </td><script>alert(1)</script> & שלום עולם \u{202e}txt";

fn machine() -> Value {
    json!({
        "processor": "A processor", "cores": [0, 1], "virtual_machine": true, "kernel": "6.1.0", "memory_mib": 24_000,
        "system": "Debian 12", "environment": { "microcode": "0x1" },
    })
}

fn head(kind: &str, word: &str, reasons: &[&str]) -> Value {
    json!({
        "kind": kind, "schema": 1, "made": 1_785_000_000_u64, "environment": machine(),
        "command": ["nearside", "load", "http://10.0.0.2/?a=1&b=2", "--find-max", "p99<5ms"],
        "verdict": { "word": word, "reasons": reasons },
    })
}

/// A result with this head.
fn with(mut head: Value, rest: Value) -> Value {
    let head_fields = head.as_object_mut().expect("an object");
    head_fields.extend(rest.as_object().expect("an object").clone());
    head
}

fn latency(samples: u64) -> Value {
    json!({
        "samples": samples, "min_ns": 20_000, "mean_ns": 61_000.0, "stdev_ns": 9.0, "p50_ns": 50_000, "p75_ns": 60_000,
        "p90_ns": 90_000, "p99_ns": 400_000, "p999_ns": 1_200_000, "p9999_ns": 4_000_000, "max_ns": 9_000_000,
    })
}

fn load(rate: f64, word: &str, reasons: &[&str]) -> Value {
    let shares = [0.0, 0.5, 0.9, 0.99, 0.999, 0.9999, 0.99999];
    let times = [20_000, 50_000, 90_000, 400_000, 1_200_000, 4_000_000, 8_000_000];
    with(
        head("load", word, reasons),
        json!({
            "setup": {
                "scheme": "http", "host": "10.0.0.2", "path": "/", "targets": ["10.0.0.2:80"], "connections": 64,
            },
            "throughput": { "requests_per_second": rate, "received_bytes_per_second": 160.0 * rate },
            "latency": latency(200_000), "percentiles": shares.iter().zip(times).collect::<Vec<_>>(),
            "errors": { "timeouts": 3, "refused": 0 }, "statuses": { "2xx": 199_997 }, "warnings": [],
            "objectives": [{ "objective": "p99 < 1.00 ms", "measured": 400_000.0, "told": "400 µs", "met": true }],
        }),
    )
}

fn found_invalid() -> Value {
    let trial = |p99: u64, met: bool, spoilt: Value| {
        json!({
            "achieved": 990.0, "met": met, "mean_ns": 6e4, "p50_ns": 50_000, "p99_ns": p99, "p999_ns": 2 * p99,
            "spoilt": spoilt,
        })
    };
    let spoilt = |p99: u64| trial(p99, false, json!("stolen"));
    with(
        head("find-max", "INVALID", &["the machine spoilt too many runs: the hypervisor took 25 % of a core"]),
        json!({
            "objectives": ["p99 < 5.00 ms"], "told": ["INVALID: the machine spoilt too many runs"],
            "found": { "invalid": true, "points": [
                { "rate": 1_000.0, "trials": [trial(100_000, true, Value::Null), trial(130_000, true, Value::Null)] },
                { "rate": 2_000.0, "trials": [spoilt(9_000_000), spoilt(90_000_000)] },
            ] },
        }),
    )
}

/// A trial that was ended early, of streams with bad names.
fn interrupted(name: &str) -> Value {
    let buckets: Vec<(u64, u64)> = (0..60).map(|n| (2_000 + n * 100, 1_000 / (n + 1))).collect();
    let samples: u64 = buckets.iter().map(|(_, count)| count).sum();
    let lane = json!({
        "stream": name, "from": 0, "to": 1, "mean_size": 76.0, "probe": true, "intended_rate": 1_000.0, "rate": 990.0,
        "sent": {
            "frames": samples, "bytes": 76 * samples, "entrance": 0, "missed": 0, "late": 0, "timeouts": 0,
            "too_long": 0,
        },
        "received": samples,
        "arrivals": { "unique": samples, "duplicates": 0, "reordered": 0, "reordered_by": 0, "too_late": 0 },
        "losses": { "frames": 2, "events": 1, "longest": 2 }, "damaged": 0, "strayed": 0, "backwards": 0,
        "latency": { "samples": samples, "min_ns": 2_000, "mean_ns": 2_600.0, "max_ns": 17_000, "buckets": buckets },
        "gaps": {
            "samples": 0, "p1_ns": 0, "p50_ns": 0, "p99_ns": 0, "behind_p50_ns": 0, "behind_p99_ns": 0,
            "behind_max_ns": 0,
        },
    });
    let result = json!({
        "seconds": 4.2, "intended_seconds": 10.0, "lanes": [lane], "complete": false, "foreign": 0, "others_marks": 0,
        "damaged_unknown": 0, "stalls": { "count": 0, "longest_ns": 0, "total_ns": 0 },
    });
    with(
        head("packet-load", "PARTIAL", &["it ended early: it was stopped, or a link was down"]),
        json!({
            "complete": false, "clock": { "told": "clock: the tester's own" }, "links": ["memif:@a"],
            "threshold_ns": 15_000, "result": result,
        }),
    )
}

fn noise(name: &str) -> Value {
    let cause =
        json!({ "kind": "thread", "cause": name, "gaps": 3, "longest_nanos": 90_000, "parts": 4, "nanos": 120_000 });
    let core = json!({
        "core": 1, "seconds": 2.0, "step_nanos": 12.0, "gaps": 5, "gap_nanos": 130_000, "longest_nanos": 90_000,
        "causes": [cause], "histogram": [{ "from_nanos": 2_000, "gaps": 4 }, { "from_nanos": 64_000, "gaps": 1 }],
        "worst": [{ "at_seconds": 0.5, "nanos": 90_000, "cause": name, "parts": [] }], "dropped": 0, "lost_events": 0,
    });
    with(
        head("noise", "COMPLETE", &[]),
        json!({
            "threshold_nanos": 2_000, "cores": [core], "notes": [name],
            "sources": [{ "name": name, "sight": "not seen" }],
            "expect": [{ "bound": "max<50us", "broken_by": [1] }, { "bound": "share<1%", "broken_by": [] }],
        }),
    )
}

fn page(result: &Value) -> Page {
    results::page(&[("planted.json".to_owned(), result.to_string())]).expect("a page")
}

/// Two results compared; one run on a side.
fn compared(before: &Value, after: &Value) -> Page {
    let side = |name: &str, value: &Value| vec![results::read_text(name, &value.to_string()).expect("a result")];
    let (old, new) = (side("before.json", before), side("after.json", after));
    let sides = SidesCompared::of(&old, &new).expect("alike");
    let command = ["nearside", "lab", "compare", "before.json", "after.json"].map(str::to_owned).to_vec();
    let inside = [before, after].map(|value| vec![value.to_string()]);
    results::page_of_sides(&sides, (&old, &new), ResultOrigin { command, made: 1_785_000_000 }, inside)
}

/// Holds a page against the one that is kept.
fn is_as_kept(name: &str, page: &Page) -> String {
    let text = page.render();
    let place = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/pages").join(name);
    if std::env::var_os("NEARSIDE_BLESS").is_some() {
        std::fs::write(&place, &text).expect("written");
    }
    let kept = std::fs::read_to_string(&place).unwrap_or_default();
    let differs = kept.lines().zip(text.lines()).enumerate().find(|(_, (kept, made))| kept != made);
    assert!(kept == text, "{name} is another (NEARSIDE_BLESS=1 writes it): {differs:?}");
    text
}

#[test]
fn a_sound_result() {
    let text = is_as_kept("sound.html", &page(&load(123_456.0, "COMPLETE", &[])));
    assert!(text.contains("class=\"verdict good\"") && text.contains("<strong>COMPLETE</strong>"));
    assert!(text.contains("123 k requests/s: p50 50.0 µs, p99 400 µs, max 9.00 ms"), "{text}");
    assert!(text.contains(">400 µs</td>") && text.contains(">met</td>"), "what was measured stands beside it: {text}");
    // Of 200,000 samples ten lie beyond p99.995, and so the last point is that of p99.99.
    assert!(text.contains(">p99.99</th>") && !text.contains(">p99.999</th>"));
}

/// Of 300 samples three lie beyond p99: it says as much of chance as of what was measured, wherever it stands.
#[test]
fn percentiles_of_few_samples_are_left_out_of_tables_and_of_what_was_found() {
    let shown =
        |samples: u64| page(&with(load(12.0, "COMPLETE", &[]), json!({ "latency": latency(samples) }))).render();
    let few = shown(300);
    assert!(few.contains(">12.0 requests/s: p50 50.0 µs, max 9.00 ms<"), "{few}");
    assert!(few.contains(">90.0 µs</td>") && !few.contains(">p99</th>") && !few.contains("data-head=\"p99\""), "{few}");
    assert!(shown(1_000).contains("data-head=\"p99\"") && !shown(999).contains("data-head=\"p99\""));
    assert!(shown(0).contains(">12.0 requests/s</p>"));
}

#[test]
fn counts_that_no_trial_comes_to_are_refused() {
    let mut whole = interrupted("probe");
    whole["result"]["lanes"][0]["sent"]["frames"] = json!(u64::MAX);
    let found = results::page(&[("planted.json".to_owned(), whole.to_string())]);
    assert!(found.is_err_and(|why| why.to_string().contains("it counts more than a trial does")));
}

#[test]
fn calls_are_told_by_the_names_of_their_statuses() {
    let calls = json!({ "grpc": { "OK": 9, "NOT_FOUND": 3 } });
    let text = page(&with(load(12.0, "COMPLETE", &[]), calls)).render();
    let shown = text.split("<caption>Calls by grpc-status</caption>").nth(1).expect("a table of them");
    let shown = shown.split("</table>").next().unwrap_or_default();
    assert!(shown.contains(">NOT_FOUND<") && shown.contains(">OK<"), "{shown}");
}

#[test]
fn a_result_that_is_invalid_says_so_first_and_its_runs_do_not_count() {
    let text = is_as_kept("invalid.html", &page(&found_invalid()));
    let at = |part: &str| text.find(part).unwrap_or_else(|| panic!("{part}"));
    assert!(
        at("<strong>INVALID</strong>") < at("the hypervisor took 25 % of a core") && at("of a core") < at("<table")
    );
    assert!(text.contains("class=\"cross") && text.contains("does not count: stolen"));
    // Through what does not count goes no curve: one point of three counts.
    let curve = text.split("<polyline").nth(1).and_then(|rest| rest.split("points=\"").nth(1)).expect("a curve");
    assert_eq!(curve.split('"').next().map(|points| points.split(' ').count()), Some(1));
}

#[test]
fn the_curve_of_a_load_that_does_not_count_is_none() {
    let text = page(&load(1e5, "INVALID", &["the generator was the limit"])).render();
    assert!(!text.contains("class=\"mark") && text.contains(", does not count</text>"), "{text}");
}

/// Who allowed frames to be late is told of what is later than that, and not of what a search allows.
#[test]
fn a_trial_counts_by_the_share_of_late_frames_that_it_was_asked_for() {
    let mut whole = interrupted("probe");
    (whole["complete"], whole["result"]["complete"]) = (json!(true), json!(true));
    let frames = whole["result"]["lanes"][0]["sent"]["frames"].as_u64().expect("a count");
    whole["result"]["lanes"][0]["sent"]["late"] = json!(frames / 10);
    let text = page(&whole).render();
    assert!(text.contains("Does not count: the tester sent") && text.contains("more than 0.100 %"), "{text}");
    whole["late_limit"] = json!(0.5);
    let text = page(&whole).render();
    assert!(!text.contains("oes not count"), "{text}");
}

#[test]
fn a_search_says_what_it_found_and_draws_its_trials() {
    let trial = |rate: f64, lost: u64, spoilt: Value| {
        let lanes = [json!({ "lost": lost, "offered": 1_000 }), json!({ "lost": 0, "offered": 1_000 })];
        json!({ "intended_rate": rate, "intended_seconds": 1.0, "lanes": lanes, "late_share": 0.0, "spoilt": spoilt })
    };
    let goal = |name: &str, lower: f64, upper: Value, open: Value| json!({ "goal": { "name": name }, "lower": lower, "upper": upper, "open": open });
    let found = [
        goal("ndr", 2e6, json!(2.1e6), Value::Null),
        goal("pdr", 3e6, Value::Null, Value::Null),
        goal("other", 4e6, Value::Null, json!("after 4 trials")),
    ];
    let trials = [trial(2.1e6, 100, Value::Null), trial(2e6, 0, Value::Null), trial(4e6, 9, json!("late"))];
    let text =
        page(&with(head("packet-search", "PARTIAL", &["pdr"]), json!({ "found": found, "trials": trials }))).render();
    for part in ["ndr: 2.00 M frames/s", "pdr: at least 3.00 M frames/s", "trials: 2.10 M, 5.00</title>"] {
        assert!(text.contains(part), "{part}\n{text}");
    }
    assert!(!text.contains("other: ") && text.contains("class=\"cross s0 d0\""), "{text}");
}

#[test]
fn a_result_that_was_interrupted() {
    let text = is_as_kept("interrupted.html", &page(&interrupted("probe")));
    assert!(text.contains("<strong>PARTIAL</strong>") && text.contains("it ended early"), "{text}");
    assert!(text.contains("Does not count: it was stopped, or a link was down."), "{text}");
}

#[test]
fn one_run_on_a_side() {
    let (before, after) = (load(1e5, "COMPLETE", &[]), load(1.2e5, "PARTIAL", &["the generator was busy"]));
    let text = is_as_kept("one-run.html", &compared(&before, &after));
    assert!(
        text.contains("1 run on a side: how much chance there is in it") && text.contains("<strong>PARTIAL</strong>")
    );
    assert!(text.contains("changed by more than 2 %: rate; received"), "{text}");
    let inside: Vec<Value> = results_in(&text).iter().map(|one| serde_json::from_str(one).expect("JSON")).collect();
    assert_eq!(inside, [before, after]);
}

#[test]
fn names_with_quotes_markup_and_letters_from_right_to_left() {
    for (file, made) in [("names.html", page(&noise(BAD))), ("names-of-streams.html", page(&interrupted(BAD)))] {
        let text = is_as_kept(file, &made);
        assert!(!text.contains("<script") && !text.contains('\u{202e}') && text.contains("שלום עולם"), "{file}");
        assert!(text.contains("a &quot;b&quot; &#39;c&#39; &lt;/td&gt;&lt;script&gt;"), "{file}");
    }
}

#[test]
fn a_thousand_rows_are_folded_and_all_there() {
    let row = |n: u64| {
        json!({
            "procs": n % 3 + 1, "connections": n, "rps_avg": 1e4 + n as f64, "lat50_ns": 100_000 + n,
            "lat99_ns": 900_000, "errors": 0, "warnings": [], "trust": if n == 500 { "no" } else { "yes" },
        })
    };
    let rows: Vec<Value> = (1..=1_000).map(row).collect();
    let text = page(&with(head("load-sweep", "INVALID", &["one row"]), json!({ "rows": rows }))).render();
    assert!(
        text.contains("<summary>Loads: 1,000 rows</summary>") && text.contains(">1,000 connections and 2 threads</th>")
    );
    assert!(text.contains("at most 11.0 k requests/s, with 1,000 connections and 2 threads"), "{text}");
    let drawings: usize =
        text.split("<svg").skip(1).map(|drawing| drawing.split("</svg>").next().map_or(0, str::len)).sum();
    assert!(drawings < 200_000, "{drawings} bytes drawn");
}

/// Of a result of an earlier version, without verdict, command and machine, that is said.
#[test]
fn what_a_result_does_not_tell_is_said() {
    let rows = json!([{ "procs": 1, "connections": 1, "rps_avg": 1.0 }]);
    let text = page(&json!({ "kind": "load-sweep", "rows": rows })).render();
    for part in ["<strong>NOT JUDGED</strong>", "an earlier version wrote it", "<dd>its result does not tell</dd>"] {
        assert!(text.contains(part), "{part}");
    }
    let two = [("a".to_owned(), load(1.0, "COMPLETE", &[]).to_string()), ("b".to_owned(), noise("x").to_string())];
    assert!(results::page(&two).is_err_and(|why| why.to_string().contains("two measurements")));
    assert!(results::page(&[("a".to_owned(), "<!doctype html><p>".to_owned())]).is_err());
}

#[test]
fn streams_without_end_say_whom_they_are_of_and_leave_out_the_moment_at_the_end() {
    let span = |from: f64, to: f64, rate: f64| {
        let up = json!({ "bits_per_second": rate, "bytes": 1_000, "retransmits": 2 });
        json!({ "start_s": from, "end_s": to, "up": up })
    };
    let setup = json!({ "host": "10.0.0.2", "path": "/a", "target": "10.0.0.2:80", "up_streams": 1 });
    let intervals = [span(0.0, 1.0, 9e9), span(1.0, 2.0, 9.1e9), span(2.0, 2.01, 0.0)];
    let rest =
        json!({ "setup": setup, "start_s": 0.0, "end_s": 2.01, "up": intervals[0]["up"], "intervals": intervals });
    let text = page(&with(head("bulk", "COMPLETE", &[]), rest)).render();
    assert!(text.contains("http://10.0.0.2/a (10.0.0.2:80)") && text.contains("9.00 Gbit/s up"), "{text}");
    let curve = text.split("<polyline").nth(1).and_then(|rest| rest.split("points=\"").nth(1)).expect("a curve");
    assert_eq!(curve.split('"').next().map(|points| points.split(' ').count()), Some(2));
    let rest = json!({ "up": intervals[0]["up"], "intervals": intervals });
    let text = page(&with(head("bulk", "INVALID", &["round trips were measured"]), rest)).render();
    assert!(!text.contains("class=\"mark"), "none of it counts: {text}");
}

#[test]
fn counters_that_advice_rests_on_are_told_by_their_names() {
    let row = json!({
        "key": "net.core.somaxconn", "value": "128", "verdict": "improvable", "why": "a queue was full",
        "counters": [{ "name": "TcpExt.ListenDrops", "value": 12 }],
    });
    let text = page(&with(head("audit", "COMPLETE", &[]), json!({ "role": "web", "rows": [row] }))).render();
    assert!(text.contains(">TcpExt.ListenDrops = 12</td>"), "{text}");
}

#[test]
fn a_forwarder_tells_its_links_frames_and_bursts() {
    let port = |link: &str, received: u64| {
        json!({
            "link": link, "rx_bursts": [[0, 100], [32, 7]], "tx_bursts": [],
            "totals": { "rx_packets": received, "rx_dropped": 0, "tx_packets": 50, "tx_dropped": 4 },
        })
    };
    let ports = [port("memif:@a", 2_000), port("memif:@b", 0)];
    let rest = json!({ "mode": "io", "duration_ns": 2_000_000_000_u64, "ports": ports, "cycles_per_packet": 12.5 });
    let text = page(&with(head("packet-forward", "COMPLETE", &[]), rest)).render();
    for part in
        ["memif:@a and memif:@b", "1.00 k frames/s received", "8 dropped on all links", ">received by memif:@a</text>"]
    {
        assert!(text.contains(part), "{part}\n{text}");
    }
    let rest = json!({ "ports": [port("memif:@a", 1), port("memif:@a", 2)], "duration_ns": 1 });
    let text = page(&with(head("packet-forward", "COMPLETE", &[]), rest)).render();
    assert!(
        text.contains("memif:@a (0) and memif:@a (1)") && text.contains(">received by memif:@a (1)</text>"),
        "{text}"
    );
}

fn pages_of(results: &[(&str, &Value)]) -> Page {
    let files: Vec<(String, String)> =
        results.iter().map(|(name, value)| ((*name).to_owned(), value.to_string())).collect();
    results::page(&files).expect("a page")
}

/// Of two runs over each other neither is the page's: whom, when and why are told of both.
#[test]
fn a_page_of_several_results_tells_of_each() {
    let first = interrupted("one");
    let mut second = interrupted("two");
    (second["links"], second["made"]) = (json!(["memif:@b"]), json!(1_785_000_600_u64));
    second["verdict"] = json!({ "word": "INVALID", "reasons": ["the tester was late"] });
    let text = pages_of(&[("a.json", &first), ("b.json", &second)]).render();
    for part in [
        "<strong>INVALID</strong>",
        "<li dir=\"auto\">a.json: it ended early",
        "<li dir=\"auto\">b.json: the tester was late</li>",
        "<dd dir=\"auto\">memif:@a; memif:@b</dd>",
        "<dt>When</dt><dd>Sat, 25 Jul 2026 17:30:00 GMT</dd>",
        ">Sat, 25 Jul 2026 17:20:00 GMT</td>",
        "<dt>Again</dt><dd>its result does not tell</dd>",
    ] {
        assert!(text.contains(part), "{part}\n{text}");
    }
}

#[test]
fn a_word_that_is_not_known_is_no_earlier_versions() {
    let text = page(&load(12.0, "SUPERB", &[])).render();
    assert!(text.contains("the result says that it is SUPERB, which this version does not know"), "{text}");
    assert!(text.contains("<strong>NOT JUDGED</strong>") && !text.contains("an earlier version"));
}

/// When that is cannot be told of what lies beyond the year 9999.
#[test]
fn a_time_that_has_no_date_is_not_known() {
    let text = page(&with(load(12.0, "COMPLETE", &[]), json!({ "made": 1_000_000_000_000_000_000_u64 }))).render();
    assert!(text.contains("<dt>When</dt><dd>its result does not tell</dd>"), "{text}");
}

#[test]
fn rows_and_comparisons_leave_out_percentiles_of_few_samples() {
    let row = |samples: u64| {
        json!({ "procs": 1, "connections": 1, "rps_avg": 9.0, "lat50_ns": 1_000, "lat90_ns": 2_000, "lat99_ns": 3_000,
                "latmax_ns": 4_000, "samples": samples, "trust": "yes", "warnings": [] })
    };
    let sweep = |samples: u64| with(head("load-sweep", "COMPLETE", &[]), json!({ "rows": [row(samples)] }));
    let text = page(&sweep(300)).render();
    assert!(text.contains(">p90</th>") && !text.contains(">p99</th>") && !text.contains("p99, 1 thread"), "{text}");
    assert!(page(&sweep(1_000)).render().contains(">p99</th>"));
    let figures = |whole: &Value| {
        let known = results::read_text("x", &whole.to_string()).expect("a result");
        known.figures.into_iter().map(|one| one.figure).collect::<Vec<_>>().join("; ")
    };
    assert_eq!(figures(&sweep(300)), "rate; latency 50 %");
    let few = with(load(12.0, "COMPLETE", &[]), json!({ "latency": latency(300) }));
    assert_eq!(figures(&few), "rate; received; latency mean; latency 50 %; latency max");
    assert!(figures(&load(12.0, "COMPLETE", &[])).contains("latency 99.9 %"));
}

#[test]
fn a_load_tells_of_requests_apart_and_how_it_was_measured() {
    let url = |request: Value, responses: u64| {
        json!({ "request": request, "requests": 7, "responses": responses, "success": responses, "redirection": 0,
                "client_error": 0, "server_error": 0, "failed": 2, "wrong": 0, "body_bytes": 100 * responses,
                "latency": latency(300) })
    };
    let mut whole = load(12.0, "COMPLETE", &[]);
    whole["setup"]["requests"] = json!(3);
    let more = json!({
        "urls": [url(json!("GET /<b>"), 5_000), url(Value::Null, 40)], "window_ns": 2_000_000_000_u64, "silos": 2,
        "client": { "busy_fraction": 0.25 },
    });
    let text = page(&with(whole, more)).render();
    for part in [
        "http://10.0.0.2/ and 2 other requests (10.0.0.2:80)",
        "<caption>Requests apart</caption>",
        ">GET /&lt;b&gt;</th>",
        ">7 others</th>",
        ">5,000</td>",
        ">100 B</td>",
        "measured for</th><td role=\"cell\" data-head=\"value\" dir=\"auto\">2.00 s</td>",
        "generator busy</th>",
    ] {
        assert!(text.contains(part), "{part}\n{text}");
    }
}

/// Between bins in which there is nothing lies no line.
#[test]
fn histograms_are_broken_where_bins_are_empty() {
    let text = page(&noise("a thread")).render();
    let drawing = text.split("<svg").nth(1).expect("a drawing");
    assert_eq!(drawing.matches("<polyline").count(), 2, "{drawing}");
}

#[test]
fn streams_that_do_not_count_have_no_curve_and_their_times_no_handshake() {
    let rest = json!({
        "setup": { "scheme": "http", "host": "a", "path": "/", "targets": ["a:80"], "streams": 4, "rate": 1e6 },
        "bits_per_second": 0.0, "failure": "the server answers with status 404", "connect": latency(200),
        "seconds": [{ "bytes": 1, "late": 4 }, { "bytes": 2, "late": 4 }],
    });
    let text = page(&with(head("streams", "INVALID", &["no stream got under way"]), rest)).render();
    assert!(!text.contains("class=\"mark") && text.contains(", does not count</text>"), "{text}");
    assert!(text.contains("the server answers with status 404"), "{text}");
    assert!(text.contains(">connect</th>") && !text.contains("handshake"), "{text}");
}

/// That a side does not count is not hidden by what is not alike, which is told in words.
#[test]
fn an_invalid_side_that_is_not_alike_is_both() {
    let before = load(1e5, "INVALID", &["the generator was the limit"]);
    let mut after = load(1e5, "COMPLETE", &[]);
    after["setup"]["arrival"] = json!({ "open": { "spacing": "even" } });
    let text = compared(&before, &after).render();
    let at = |part: &str| text.find(part).unwrap_or_else(|| panic!("{part}\n{text}"));
    assert!(at("<strong>INVALID, NOT ALIKE</strong>") < at("before.json is INVALID"), "{text}");
    assert!(at("before.json is INVALID") < at("load: arrival") && text.contains("open: spacing: even"), "{text}");
    assert!(!text.split("<h2>").nth(1).expect("figures").contains("{&quot;"));
    assert!(text.contains("<caption>The results</caption>") && text.contains(">before: before.json</th>"), "{text}");
}

/// A page of two sides is read as two, and nothing is written onto what it is made of.
#[test]
fn the_sides_of_a_page_are_told_apart() {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("sides");
    std::fs::create_dir_all(&folder).expect("a folder");
    let (one, both) = (folder.join("one.html"), folder.join("both.html"));
    let (before, after) = (load(1e5, "COMPLETE", &[]), load(1.2e5, "COMPLETE", &[]));
    std::fs::write(&one, page(&before).render()).expect("written");
    std::fs::write(&both, compared(&before, &after).render()).expect("written");
    assert!(results::sides(&one).expect("read").is_none() && results::sides(&folder).expect("read").is_none());
    let sides = results::sides(&both).expect("read").expect("two sides");
    assert_eq!(sides.map(|side| side.len()), [1, 1]);
    assert!(results::refuse_onto(&both, &[&one, &folder.join(".").join("both.html")]).is_err());
    assert!(results::refuse_onto(&folder.join("third.html"), &[&one, &both]).is_ok());
}

/// Every kind, with nothing in it but its head, has a page, and none is without its verdict.
#[test]
fn every_kind_has_a_page() {
    for kind in environment::ResultKind::ALL {
        let rest = json!({ "runs": [], "measured": { "runs": [] }, "rows": [], "role": "web", "at": 1, "counts": {} });
        let whole = match kind.name() {
            "packet-load" => interrupted("probe"),
            "recording" => continue,
            name => with(head(name, "INVALID", &["planted"]), rest),
        };
        // Who fills the pages of these has their types.
        if let "experiment" | "demo" = kind.name() {
            let said = results::page(&[("planted.json".to_owned(), whole.to_string())]);
            assert!(said.is_err_and(|why| why.to_string().contains("nearside lab report makes its page")));
            continue;
        }
        let text = page(&whole).render();
        let word = match kind.name() {
            "packet-load" => "PARTIAL",
            "audit" => "OK",
            _ => "INVALID",
        };
        assert!(text.contains(&format!("<strong>{word}</strong>")), "{}", kind.name());
    }
}
