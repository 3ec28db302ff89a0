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

/// A line of what was asked for, alone, would look like what was answered.
#[test]
fn what_was_asked_for_is_drawn_beside_what_was_answered_alone() {
    let drawn = |counted: u64| {
        let trial = json!({
            "achieved": 990.0, "met": false, "p50_ns": 5, "sifted": { "counted": counted, "slices": 9 },
            "spoilt": { "by": "disturbed" },
        });
        let found = json!({ "told": ["INVALID"], "found": { "points": [{ "rate": 1_000.0, "trials": [trial] }] } });
        page(&with(head("find-max", "INVALID", &["spoilt"]), found)).render()
    };
    assert!(!drawn(0).contains("Answered over load"));
    assert!(drawn(4).contains("Answered over load") && drawn(4).contains(">asked for</text>"));
}

/// Rows of the listener's histogram begin at 1, 2 and 5 times powers of ten: each is beside the next.
#[test]
fn gaps_of_rows_beside_each_other_are_joined_and_no_others() {
    let mut whole = noise("x");
    let rows = [2_000, 5_000, 10_000, 20_000, 50_000, 500_000].map(|from| json!({ "from_nanos": from, "gaps": 3 }));
    whole["cores"][0]["histogram"] = json!(rows);
    let text = page(&whole).render();
    let drawing = text.split("<svg").nth(1).and_then(|rest| rest.split("</svg>").next()).expect("a chart");
    let points = drawing.split("<polyline").skip(1).filter_map(|one| one.split('"').nth(3));
    // One by itself is a dot, which is drawn as a line of two.
    assert_eq!(points.map(|points| points.split(' ').count()).collect::<Vec<_>>(), [5, 2], "{drawing}");
}

#[test]
fn a_line_that_nobody_knows_is_not_told() {
    let size = json!({ "size": 64, "condition": "plain", "theoretical": 1e6, "sendable": 1e6, "fails": [] });
    let told = |rate: Value| {
        let rest = json!({ "settings": { "line_rate": rate }, "results": [size], "latency_definition": "" });
        page(&with(head("rfc2544", "PARTIAL", &["no line rate"]), rest)).render()
    };
    assert!(!told(Value::Null).contains("the line, plain") && !told(Value::Null).contains(">line</th>"));
    assert!(told(json!(1e10)).contains("the line, plain") && told(json!(1e10)).contains(">line</th>"));
}

/// Of one name in two folders, of two files of one stem, and of one file twice.
#[test]
fn runs_over_each_other_are_told_apart() {
    let shown = |names: [&str; 2]| {
        let files = names.map(|name| (name.to_owned(), interrupted("probe").to_string()));
        let page = results::page(&files).expect("a page");
        let of = |part: &PagePart| if let PagePart::Heading(text) = part { Some(text.clone()) } else { None };
        page.figures.iter().filter_map(of).collect::<Vec<_>>()
    };
    assert_eq!(shown(["x/one.json", "x/two.json"]), ["one: the trial", "two: the trial"]);
    assert_eq!(shown(["a/run.json", "b/run.json"]), ["a/run.json: the trial", "b/run.json: the trial"]);
    assert_eq!(shown(["run.json", "run.html"]), ["run.json: the trial", "run.html: the trial"]);
    assert_eq!(shown(["run.json", "run.json"]), ["run.json (1): the trial", "run.json (2): the trial"]);
    let two = ["a.json", "b.json"].map(|name| (name.to_owned(), interrupted("probe").to_string()));
    assert!(results::page(&two).expect("a page").head.command.is_empty(), "neither made both");
    assert!(!results::page_of_files(&two).expect("a page").head.command.is_empty());
    assert_eq!(results::page_of_files(&two[..1]).expect("a page").head.command[0], "nearside");
}

/// Counts look alike wherever they stand; a seed is given again as it is.
#[test]
fn counts_are_grouped_and_whole_numbers_have_no_point() {
    let setup = json!({ "host": "h", "path": "/", "targets": [], "rate": 5_000_000, "share": 1.0, "seed": 123_456 });
    let rest = json!({ "setup": setup, "statuses": { "success": 33_223, "failed": 0 } });
    let text = page(&with(load(12.0, "COMPLETE", &[]), rest)).render();
    for part in [">33,223</td>", ">5,000,000</td>", ">1</td>", ">123456</td>"] {
        assert!(text.contains(part), "{part}\n{text}");
    }
}

#[test]
fn failures_that_did_not_happen_are_not_listed() {
    let rest = json!({ "setup": { "streams": 1, "rate": 5 }, "errors": { "connects": 0, "lost": 2 } });
    let text = page(&with(head("streams", "PARTIAL", &["lost"]), rest)).render();
    assert!(text.contains(">lost</th>") && !text.contains(">connects</th>"), "{text}");
}

/// However large the difference looks.
#[test]
fn of_sides_that_do_not_count_no_verdict_is_told() {
    let shown = |word: &str, host: &str| {
        let side = |name: &str, rate: f64, host: &str| {
            let mut whole = load(rate, word, &["the generator was the limit"]);
            whole["setup"]["path"] = json!(host);
            let one = results::read_text(name, &whole.to_string()).expect("a result");
            (vec![one; 5], vec![whole.to_string(); 5])
        };
        let ((old, before), (new, after)) = (side("a", 1e5, "/"), side("b", 2e5, host));
        let sides = SidesCompared::of(&old, &new).expect("of one kind");
        results::page_of_sides(&sides, (&old, &new), ResultOrigin::default(), [before, after]).render()
    };
    let sound = shown("COMPLETE", "/");
    assert!(sound.contains(">faster: rate; received</p>") && sound.contains(">faster</td>"), "{sound}");
    for void in [shown("INVALID", "/"), shown("COMPLETE", "/other")] {
        assert!(void.contains(">No verdict: ") && void.contains(">does not count</td>"), "{void}");
        assert!(!void.contains(">faster"), "{void}");
    }
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
