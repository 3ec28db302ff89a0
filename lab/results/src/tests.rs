use super::*;
use environment::Fingerprint;
use serde_json::{Value, json};
use std::collections::BTreeSet;

fn machine(memory: u64) -> Value {
    let one = Fingerprint { memory_mib: memory, virtual_machine: true, ..Fingerprint::default() };
    serde_json::to_value(one).expect("JSON")
}

fn one(whole: &Value) -> KnownResult {
    of_value("x.json", whole).unwrap_or_else(|why| panic!("{why}: {whole}"))
}

fn named(whole: &Value) -> Vec<(String, String, f64)> {
    one(whole).figures.into_iter().map(|one| (one.of, one.figure, one.value)).collect()
}

fn owned(all: &[(&str, &str, f64)]) -> Vec<(String, String, f64)> {
    all.iter().map(|(of, figure, value)| ((*of).to_owned(), (*figure).to_owned(), *value)).collect()
}

#[test]
fn each_kind_is_known_by_its_head_and_of_earlier_versions_by_what_it_holds() {
    use ResultKind as Kind;
    let trial = json!({
        "command": [], "complete": true, "clock": { "told": "" }, "links": [], "threshold_ns": 1,
        "result": ::packet::trial::TrialResult::default(),
    });
    let kinds = [
        (
            Kind::Load,
            json!({ "setup": { "path": "/" }, "throughput": {}, "latency": { "samples": 1 }, "littles_law": {} }),
        ),
        (Kind::Bulk, json!({ "setup": { "up_streams": 0 }, "down": { "bits_per_second": 1.0 } })),
        (Kind::Streams, json!({ "setup": { "rate": 5_000_000 }, "own_delay": {}, "late": { "samples": 0 } })),
        (Kind::FindMax, json!({ "objectives": ["p99 < 1 ms"], "found": { "rate": 5.0, "missed": null } })),
        (Kind::LoadSweep, json!({ "rows": [{ "procs": 1, "connections": 2, "rps_avg": 3.0 }] })),
        (Kind::PacketLoad, trial.clone()),
        (Kind::PacketLatency, json!({ "runs": [["no background", trial.clone()]] })),
        (Kind::ZeroLoss, json!({ "measured": { "runs": [["x", trial]] }, "zero_loss": true })),
        (Kind::PacketSearch, json!({ "found": [], "highest_sent": 9.0 })),
        (Kind::Rfc2544, json!({ "results": [], "latency_definition": "" })),
        (Kind::PacketLab, json!({ "devices": [{ "device": "wire", "mrr": 3.0 }], "bytes": 64 })),
        (Kind::PacketSweep, json!({ "points": [] })),
        (Kind::PacketForward, json!({ "ports": [], "mode": "io", "cycles_per_packet": 60.0 })),
        (Kind::Noise, json!({ "cores": [{ "core": 1, "gaps": 2 }], "threshold_nanos": 2000 })),
        (Kind::Experiment, json!({ "experiment": {}, "arms": [] })),
        (Kind::Recording, json!({ "at": 1, "counts": {} })),
        (Kind::Demo, json!({ "generator": "bypass", "nginx": [], "rows": [] })),
        (Kind::Audit, json!({ "rows": [], "rules_with_evidence": 1 })),
        (Kind::Topology, json!({ "domains": [], "interfaces": [], "cores": [] })),
    ];
    // Budgets have had heads from the first.
    assert_eq!(kinds.len() + 1, Kind::ALL.len());
    let budget = json!({ "kind": Kind::Budget.name(), "schema": environment::SCHEMA, "ways": [] });
    assert_eq!(one(&budget).kind, Kind::Budget);
    for (kind, whole) in kinds {
        assert_eq!(one(&whole).kind, kind, "by what it holds: {whole}");
        let mut headed = whole.clone();
        headed["kind"] = json!(kind.name());
        headed["schema"] = json!(environment::SCHEMA);
        assert_eq!(one(&headed).kind, kind);
        headed["schema"] = json!(9);
        let why = of_value("x", &headed).expect_err("another form").to_string();
        assert!(why.contains("schema 9") && why.contains(kind.command()), "{why}");
    }
}

#[test]
fn what_is_none_of_ours_is_named() {
    for (text, part) in [
        ("", "the file is empty"),
        ("Running 10s test @ http://x/", "nearside lab judge"),
        ("{\"a\": 1", "cut off"),
        ("[]", "no result of ours"),
        ("{}", "no result of ours"),
        ("{\"kind\": \"a\\u001bx\"}", "none that is known"),
        ("{\"start\": {}, \"end\": {}}", "iperf3"),
        ("{\"latencies\": {}, \"status_codes\": {}}", "vegeta"),
        ("{\"complete\": false}", "begun here and ended before"),
        (
            "{\"kind\": \"rfc2544\", \"schema\": 1, \"complete\": false}",
            "nearside packet rfc2544 was begun and ended before",
        ),
        ("{\"result\": 7}", "nearside packet load"),
        ("{\"setup\": {}, \"throughput\": {}, \"environment\": 7}", "environment"),
    ] {
        let why = read_text("x", text).expect_err(text).to_string();
        assert!(why.contains(part), "{text}: {why}");
        assert!(!why.contains('\u{1b}'), "{why:?}");
    }
    // What judges a machine is a result, and nothing to compare.
    let audit = || vec![read_text("x", "{\"rows\": [], \"rules_with_evidence\": 1}").expect("an audit")];
    let why = SidesCompared::of(&audit(), &audit()).expect_err("no figures").to_string();
    assert!(why.contains("node audit found: it judges a machine"), "{why}");
    let why = read(std::path::Path::new("/dev/zero")).expect_err("without end").to_string();
    assert!(why.contains("longer than 64 MiB"), "{why}");
}

#[test]
fn figures_are_found_and_what_is_no_answer_is_left_out() {
    let search = json!({ "highest_sent": 9.0, "found": [
        { "goal": { "name": "ndr" }, "lower": 5.0, "open": null, "conditional_throughput": 4.5 },
        { "goal": { "name": "pdr" }, "lower": 7.0, "open": "it was stopped" },
    ] });
    assert_eq!(
        named(&search),
        owned(&[("all streams", "highest sent", 9.0), ("ndr", "rate", 5.0), ("ndr", "conditional throughput", 4.5)])
    );
    let method = json!({ "latency_definition": "", "results": [
        { "size": 64, "condition": "Plain", "throughput": { "lower": 3.0, "open": null },
          "latency": [{ "way": "0 to 1", "mean_ns": 8.0, "typical_ns": 7, "worst_ns": null }],
          "loss": [{ "share": 0.9, "rate": 1.0, "offered": 100, "lost": 5 }] },
        { "size": 128, "condition": "Plain", "throughput": { "lower": 3.0, "open": "late" } },
    ] });
    assert_eq!(
        named(&method),
        owned(&[
            ("64 bytes, Plain", "throughput", 3.0),
            ("64 bytes, Plain, 0 to 1", "latency mean", 8.0),
            ("64 bytes, Plain, 0 to 1", "latency typical", 7.0),
            ("64 bytes, Plain, at 90 % of the highest rate", "loss", 0.05)
        ])
    );
    let factors = json!({ "points": [
        { "point": "burst=1", "rate": 2.0, "cpu_ns": 3.0, "energy_uj": null, "missing": null },
        { "point": "burst=9", "rate": 0.0, "cpu_ns": 0.0, "energy_uj": null, "missing": "refused" },
    ] });
    assert_eq!(named(&factors), owned(&[("burst=1", "rate", 2.0), ("burst=1", "processor time of a frame", 3.0)]));
    let warming = json!({ "setup": {}, "throughput": { "requests_per_second": 0.0 }, "window_ns": 0,
        "latency": { "samples": 0 } });
    assert_eq!(named(&warming), owned(&[]), "nor are they a rate where nothing was measured");
    let none = json!({ "setup": {}, "throughput": { "requests_per_second": 0.0 },
        "latency": { "samples": 0, "p99_ns": 0, "max_ns": 0 } });
    assert_eq!(named(&none), owned(&[("the load", "rate", 0.0)]), "zeros of nothing are no latencies");
    let invalid =
        json!({ "objectives": [], "found": { "rate": null, "missed": null, "at_least": 4.0, "invalid": true } });
    assert_eq!(named(&invalid), owned(&[("the search", "met at least, in a search that is none", 4.0)]));
    // Two searches without an answer are compared all the same: it is said that there is none.
    let none = one(&json!({ "objectives": [], "found": { "invalid": true } }));
    let text =
        SidesCompared::of(core::slice::from_ref(&none), core::slice::from_ref(&none)).expect("no error").to_string();
    assert!(text.starts_with("no figure is an answer on both sides") && text.contains("INVALID"), "{text}");
}

#[test]
fn a_result_says_what_it_is_worth() {
    let of = |whole: Value| {
        let found = one(&whole);
        (found.verdict.as_ref().map(|verdict| verdict.worth), found.doubt())
    };
    let with = |verdict: Value| json!({ "found": [], "verdict": verdict });
    assert_eq!(of(with(json!({ "word": "COMPLETE", "reasons": ["a note"] }))), (Some(Worth::Complete), None));
    let (worth, doubt) = of(with(json!({ "word": "INVALID", "reasons": ["late"] })));
    assert_eq!((worth, doubt.as_deref()), (Some(Worth::Invalid), Some("x.json is INVALID: late")));
    // As loads had it before.
    let (worth, doubt) = of(with(json!({ "trust": "no", "reasons": [{ "what": "b", "sentence": "it was busy" }] })));
    assert_eq!((worth, doubt.as_deref()), (Some(Worth::Invalid), Some("x.json is INVALID: it was busy")));
    let search = json!({ "objectives": [], "found": { "invalid": true } });
    assert!(of(search).1.is_some_and(|doubt| doubt.contains("the machine spoilt too many runs")));
    let early = json!({ "experiment": {}, "arms": [], "complete": false });
    assert_eq!(of(early).1.as_deref(), Some("x.json is PARTIAL: it ended early"));
    assert_eq!(of(with(json!(7))), (None, None));
}

#[test]
fn sides_of_one_machine_are_compared_and_few_runs_say_so() {
    let load = |rate: f64, memory: u64| {
        one(&json!({
            "kind": "load", "schema": 1, "setup": { "path": "/" }, "latency": { "samples": 9_000, "p99_ns": 5_000 },
            "throughput": { "requests_per_second": rate }, "environment": machine(memory),
        }))
    };
    let (before, after) = ([load(1_000.0, 8_000)], [load(900.0, 8_128)]);
    assert!(unlike(&before, &after).iter().all(|one| !one.matters), "memory was plugged between them");
    let whole = SidesCompared::of(&before, &after).expect("alike");
    let text = whole.to_string();
    assert!(whole.refusal().is_none() && text.contains("changed by more than 2 %: rate\n"), "{text}");
    assert!(text.contains("alike within 2 %: latency 99 %\n") && text.contains("1 run on a side"), "{text}");
    assert!(text.contains("differs: memory, MiB: 8000 and 8128\n"), "{text}");
    assert_eq!(whole.to_json()["figures"][0]["ratio"], 0.9);
    let found = compare(&before, &after);
    let rate = found.iter().find(|one| one.figure == "rate").expect("a rate");
    assert_eq!(
        (rate.ratio, rate.differs(), rate.shown()),
        (Some(0.9), true, ["1.00 k/s", "900 /s"].map(str::to_owned))
    );
    assert!(rate.verdict.as_ref().is_some_and(|word| word.contains("fewer than 5 runs")), "{rate:?}");
    let p99 = found.iter().find(|one| one.figure == "latency 99 %").expect("a percentile");
    assert!(!p99.differs());
    let many = |rate: f64| (0..6).map(|n| load(rate + f64::from(n), 8_000)).collect::<Vec<_>>();
    let found = compare(&many(1_000.0), &many(1_200.0));
    assert_eq!(found[0].verdict.as_deref(), Some("faster"));
    let summary =
        |before: &[KnownResult], after: &[KnownResult]| SidesCompared::of(before, after).map(|it| it.summary());
    let told = summary(&many(1_000.0), &many(1_200.0)).expect("alike");
    assert_eq!(told, ["faster: rate", "equivalent: latency 99 %"]);
    // Medians that are apart say nothing where runs differ by more than that.
    let wide: Vec<KnownResult> = (0..6).map(|n| load(if n % 2 == 0 { 500.0 } else { 2_000.0 }, 8_000)).collect();
    assert_eq!(summary(&many(1_000.0), &wide).expect("alike")[0], "inconclusive: rate");
    let mut other = load(1_000.0, 64_000);
    other.asked.insert("load: path".into(), "/other".into());
    let found: Vec<String> =
        unlike(&before, &[other]).into_iter().filter(|one| one.matters).map(|one| one.what).collect();
    assert_eq!(found, ["load: path", "memory, MiB"]);
    let other = one(&json!({ "objectives": [], "found": { "rate": 3.0 } }));
    let why = SidesCompared::of(&before, &[other]).expect_err("of two kinds").to_string();
    assert!(why.contains("nearside load") && why.contains("nearside load --find-max"), "{why}");
}

#[test]
fn an_experiment_has_every_run_of_every_arm() {
    let run = |value: f64| json!({ "figures": { "rate": value } });
    let figures = json!([{ "name": "rate", "unit": "/s", "better": "higher" }]);
    let whole = json!({ "experiment": { "name": "x" }, "figures": figures,
        "arms": [{ "name": "a", "runs": [run(1.0), run(2.0)] }, { "name": "b", "runs": [run(3.0)] }],
        "machine": { "host": machine(1) } });
    assert_eq!(named(&whole), owned(&[("a", "rate, /s", 1.0), ("a", "rate, /s", 2.0), ("b", "rate, /s", 3.0)]));
    assert!(one(&whole).machine.is_some());
}

#[test]
fn a_recording_is_counted_by_second_and_one_that_was_cut_off_says_so() {
    let sample =
        |at: u64, switches: u64| json!({ "schema": 1, "at": at, "counts": { "switches": switches } }).to_string();
    let text = format!("{}\n{}\n{}\n", sample(0, 5), sample(1_000_000_000, 9), sample(2_000_000_000, 25));
    let found = read_text("x.ndjson", &text).expect("a recording");
    assert_eq!((found.kind, found.figures[0].value, found.verdict), (ResultKind::Recording, 10.0, None));
    let cut = read_text("x.ndjson", &text[..text.len() - 9]).expect("as far as it goes");
    assert_eq!(cut.figures[0].value, 4.0);
    assert!(cut.doubt().is_some_and(|doubt| doubt.contains("cut off")), "{cut:?}");
    let single = read_text("x.ndjson", &sample(3, 5)).expect("one line");
    let worth = single.verdict.map(|own| own.worth);
    assert_eq!((single.figures.len(), worth), (0, Some(Worth::Invalid)), "nothing was measured");
    // Its head stands in its first line.
    let mut first: Value = serde_json::from_str(&sample(0, 5)).expect("JSON");
    (first["kind"], first["environment"]) = (json!("recording"), json!(machine(1)));
    let told = read_text("x.ndjson", &format!("{first}\n{}\n", sample(1_000_000_000, 9))).expect("a recording");
    assert!(told.machine.is_some() && told.figures.len() == 1, "{told:?}");
}

/// Of a folder with a trial beside each background none is another's repetition, and each says of
/// itself what it is worth.
#[test]
fn trials_beside_several_backgrounds_are_several_things() {
    use ::packet::trial::{LaneResult, TrialResult};
    let trial = |beside: Option<&str>, received: u64| {
        let lane = LaneResult { stream: "probe".into(), received, ..LaneResult::default() };
        let result = TrialResult { seconds: 1.0, complete: true, lanes: vec![lane], ..TrialResult::default() };
        let mut whole = json!({
            "kind": "packet-load", "schema": environment::SCHEMA, "command": [], "complete": true, "links": [],
            "clock": { "told": "" }, "threshold_ns": 1, "result": result,
            "verdict": { "word": "INVALID", "reasons": ["late"] },
        });
        if let Some(beside) = beside {
            whole["beside"] = json!(beside);
        }
        whole
    };
    let of = |whole: &Value| one(whole).figures.into_iter().map(|one| one.of).collect::<BTreeSet<String>>();
    let (alone, beside) = (of(&trial(Some("no background"), 9)), of(&trial(Some("1 k/s"), 9)));
    assert!(!alone.is_empty() && alone.is_disjoint(&beside), "{alone:?} {beside:?}");
    assert!(alone.iter().all(|of| of.starts_with("no background: probe")), "{alone:?}");
    assert!(of(&trial(None, 9)).iter().all(|of| of.starts_with("probe")));
    assert!(one(&trial(Some("x"), 9)).doubt().is_some_and(|doubt| doubt.contains("late")));
}

/// Numbers at the ends of what JSON holds make no figure that nobody can show.
#[test]
fn what_is_beyond_all_numbers_is_no_figure() {
    let sample = |at: u64, count: f64| json!({ "schema": 1, "at": at, "counts": { "interrupts": count, "forks": at } });
    let text = format!("{}\n{}\n", sample(1_000_000_000, -1e308), sample(2_000_000_000, 1e308));
    let read = read_text("x", &text).expect("a recording");
    assert!(read.figures.iter().all(|figure| figure.value.is_finite()), "{:?}", read.figures);
    assert_eq!(read.figures.len(), 1, "the other is as it was counted: {:?}", read.figures);
    let loss = json!({ "results": [{ "size": 64, "loss": [{ "share": 1.0, "offered": 1e-308, "lost": 1e308 }] }],
                       "latency_definition": "" });
    assert!(one(&loss).figures.is_empty(), "{loss}");
}
