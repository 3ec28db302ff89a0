//! Pages claim no more than was measured.

use super::*;

#[test]
fn zeros_of_what_was_not_measured_are_no_figures() {
    let begun = with(load(0.0, "INVALID", &["nothing was measured"]), json!({ "window_ns": 0, "latency": latency(0) }));
    let text = page(&begun).render();
    assert!(text.contains(">-</p>") && !text.contains("requests/s") && !text.contains("In a second"), "{text}");
    let trial = json!({
        "achieved": 0.0, "met": false, "mean_ns": 0.0, "p50_ns": 0, "p99_ns": 0, "p999_ns": 0,
        "sifted": { "counted": 0, "slices": 1_090 }, "spoilt": { "by": "disturbed", "counted": 0, "slices": 1_090 },
        "why": "0 of 1090 slices were undisturbed",
    });
    let rest = json!({
        "told": ["INVALID: the machine spoilt too many runs; no rate is known to meet p99 < 5.00 ms"],
        "found": { "points": [{ "rate": 1_000.0, "trials": [trial] }] },
    });
    let text =
        page(&with(head("find-max", "INVALID", &["the machine spoilt too many runs: 0 of 1090"]), rest)).render();
    assert!(text.contains("does not count: 0 of 1090 slices were undisturbed") && !text.contains("by: "), "{text}");
    assert!(!text.contains(">0 /s<") && !text.contains(">0 ns<"), "{text}");
    assert_eq!(text.matches("the machine spoilt too many runs").count(), 1, "it is said once: {text}");
    assert!(text.contains(">no rate is known to meet p99 &lt; 5.00 ms</p>"), "{text}");
    let mut silent = noise("x");
    silent["cores"][0]["seconds"] = json!(0.0);
    let text = page(&silent).render();
    assert!(!text.contains("the longest 0") && !text.contains(">0 gaps"), "{text}");
}

/// A recording of machine time at 100 % for a second and at 0 % for three, with its head or without.
#[test]
fn a_recording_is_of_its_own_machine_and_its_means_are_over_time() {
    let sample = |second: u64, switches: u64| watch::Sample {
        at: second * 1_000_000_000,
        unix_ms: 1_785_000_000_000 + second * 1_000,
        ticks_per_second: 100,
        counts: [("switches".to_owned(), switches)].into(),
        ..watch::Sample::default()
    };
    let lines: Vec<String> = [(0, 0), (1, 100), (4, 100)].map(|(second, count)| sample(second, count).line()).into();
    let page = |text: String| results::page(&[("day.ndjson".to_owned(), text)]).expect("a page").render();
    let plain = page(lines.concat());
    let row =
        plain.split("Context switches, /s</th>").nth(1).and_then(|rest| rest.split("</tr>").next()).expect("a row");
    assert!(row.contains(">25.0<") && row.contains(">100<"), "{row}");
    assert!(plain.contains("a machine of which the recording does not tell") && !plain.contains("this machine"));
    let mut first: Value = serde_json::from_str(&lines[0]).expect("JSON");
    let head = head("recording", "", &[]);
    for key in ["kind", "command", "made", "environment"] {
        first[key] = head[key].clone();
    }
    let told = page(format!("{first}\n{}", lines[1..].concat()));
    assert!(told.contains("<dd dir=\"auto\">A processor</dd>") && told.contains("nearside"), "{told}");
    // One sample is no interval.
    let single = page(lines[0].clone());
    assert!(single.contains("<strong>INVALID</strong>") && single.contains("before its first interval"), "{single}");
}

#[test]
fn what_the_tester_spoilt_is_a_cross_and_the_page_has_what_the_terminal_says() {
    let point = |name: &str, ratio: f64, spoilt: Value| {
        json!({
            "point": name, "rounds": 6, "asked": 5_000.0, "sent": 700.0, "rate": 600.0, "ratio": ratio, "missing": null,
            "cpu_ns": 9.0, "interval": null, "spoilt": spoilt,
        })
    };
    let points = [point("burst=32", 1.0, Value::Null), point("burst=8", 1.467, json!("2 of 6 trials do not count"))];
    let text =
        page(&with(head("packet-sweep", "INVALID", &["late"]), json!({ "points": points, "rounds": 6 }))).render();
    for part in ["does not count: 2 of 6 trials", "1.467, does not count", ">5.00 k/s<", ">700 /s<"] {
        assert!(text.contains(part), "{part}\n{text}");
    }
    let found = json!({
        "found": [], "highest_sent": 9e6, "highest_received": 8e6, "sendable": 7e6, "told": ["pause frames: n/a"],
    });
    let text = page(&with(head("packet-search", "PARTIAL", &[]), found)).render();
    for part in [">9.00 M/s<", ">8.00 M/s<", ">7.00 M/s<", "pause frames: n/a"] {
        assert!(text.contains(part), "{part}\n{text}");
    }
    let device = json!({
        "device": "bridge", "mrr": 5e5, "missing": null, "spoilt": [],
        "search": { "word": "PARTIAL", "reasons": ["pdr: after 4 trials"] },
    });
    let rest = json!({ "devices": [device], "told": "MRR: 10 trials of 1 s" });
    let text = page(&with(head("packet-lab", "PARTIAL", &[]), rest)).render();
    assert!(text.contains("MRR: 10 trials of 1 s") && text.contains("bridge: pdr: after 4 trials"), "{text}");
}

#[test]
fn what_was_cut_off_tells_no_loss_and_an_invalid_result_meets_nothing() {
    let cut = page(&interrupted("probe")).render();
    assert!(cut.contains("Whether frames were lost is not known") && !cut.contains("frames were lost ("), "{cut}");
    let objectives = json!([{ "objective": "p99 < 1 s", "measured": 4e5, "told": "400 µs", "met": null }]);
    let text = page(&with(load(1e5, "INVALID", &["late"]), json!({ "objectives": objectives }))).render();
    assert!(text.contains(">does not count</td>") && !text.contains(">met</td>"), "{text}");
}

#[test]
fn only_what_can_be_compared_says_so() {
    let says = |result: &Value| page(result).render().contains("nearside lab compare</code>");
    let audit = with(head("audit", "COMPLETE", &[]), json!({ "role": "web", "rows": [] }));
    assert!(says(&load(1.0, "COMPLETE", &[])) && !says(&audit));
    // Of one run each nothing can be told, whatever each says of itself.
    let text = compared(&load(1e5, "COMPLETE", &[]), &load(1.2e5, "COMPLETE", &[])).render();
    assert!(
        text.contains("<strong>PARTIAL</strong>") && text.contains("of no figure can a difference be told"),
        "{text}"
    );
}
