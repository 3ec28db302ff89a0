//! Audits of nodes in virtual time: an API server that conflicts, forgets, does twice and delays; operators that die at
//! any question, two of them at once; nodes that come late, die, return, are cordoned, and pods that lie.
//!
//! A seed reproduces a run: `NEARSIDE_SEED=N cargo test -p operator --test audited`. `NEARSIDE_SEEDS=N` runs more of
//! them.

mod fleet;

use core::time::Duration;
use fleet::{AuditSetting, NodeSetting, Script, Setting, World};
use random::SplitMix64;
use serde_json::{Value, json};

fn seeds(usual: u64) -> Vec<u64> {
    let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    match number("NEARSIDE_SEED") {
        Some(one) => vec![one],
        // Beyond those that are usual, some that found something.
        None => (0..number("NEARSIDE_SEEDS").unwrap_or(usual)).chain([227, 499, 2444, 2994]).collect(),
    }
}

fn node(number: usize) -> NodeSetting {
    NodeSetting {
        name: format!("node-{number:03}"),
        script: Script::Answers(60),
        made: Duration::ZERO,
        dies: None,
        returns: None,
        cordoned: false,
        deleted: None,
    }
}

fn audit(spec: Value) -> AuditSetting {
    let mut all = json!({ "role": "mixed", "answerWithin": "20s" });
    for (field, value) in spec.as_object().into_iter().flatten() {
        all[field] = value.clone();
    }
    AuditSetting { name: "fleet".to_owned(), spec: all, made: Duration::from_millis(500), deleted: None }
}

fn quiet(nodes: usize, spec: Value) -> Setting {
    let nodes = (0..nodes).map(node).collect();
    let audits = vec![audit(spec)];
    Setting {
        audits,
        nodes,
        operators: 1,
        trouble: 0,
        delay: 8,
        deaths: Vec::new(),
        moves: false,
        stall: None,
        is_file: false,
    }
}

fn seconds(number: u64) -> Duration {
    Duration::from_secs(number)
}

/// Runs a world until nothing happens any more.
fn run(seed: u64, setting: &Setting) -> World {
    let mut world = World::new(seed, setting.clone());
    world.run(seconds(400));
    assert!(world.spins <= 20, "{seed}: {} times in vain", world.spins);
    world
}

fn condition<'a>(status: &'a Value, kind: &str) -> &'a Value {
    let found = status["conditions"].as_array().and_then(|all| all.iter().find(|one| one["type"] == kind));
    found.unwrap_or(&Value::Null)
}

fn reasons(world: &World) -> Vec<String> {
    world.store.of_kind("events").map(|one| one["reason"].as_str().expect("text").to_owned()).collect()
}

/// Nothing is there but the audit, what is kept of its nodes, and events.
fn assert_nothing_is_left(seed: u64, world: &World) {
    let left: Vec<&String> =
        world.store.objects.keys().filter(|path| path.starts_with("pods/") || path.starts_with("secrets/")).collect();
    let what = || format!("{:?} {:#} {:?}", world.setting, world.status("fleet"), world.says);
    assert!(left.is_empty(), "{seed}: {left:?} {}", what());
}

#[test]
fn each_node_has_a_report_and_those_that_are_alike_are_one_row() {
    let mut setting = quiet(12, json!({ "parallelism": 3 }));
    setting.nodes[4].script = Script::Answers(1);
    setting.nodes[7].script = Script::Answers(1);
    let world = run(1, &setting);
    let status = world.status("fleet");
    assert_eq!((&status["verdict"], &status["nodes"]), (&json!("pass"), &json!(12)), "{status:#}");
    assert_eq!((&status["alike"], &status["differing"], &status["failed"]), (&json!(10), &json!(2), &json!(0)));
    assert_eq!(status["rows"][1]["names"], json!(["node-004", "node-007"]));
    assert_eq!(status["rows"][1]["differences"], json!(["vm.swappiness: 1 (ok), elsewhere 60 (ok)"]));
    assert_eq!(condition(&status, "Complete")["reason"], "Differ");
    assert_eq!(condition(&status, "Running")["status"], "False");
    for number in 0..12 {
        let kept = &world.store.objects[&format!("configmaps/nearside-fleet.node-{number:03}")];
        let audit: Value = serde_json::from_str(kept["data"]["audit.json"].as_str().expect("text")).expect("JSON");
        assert_eq!((&audit["kind"], &kept["data"]["changes.json"]), (&json!("audit"), &json!("[]")));
        assert_eq!(kept["metadata"]["ownerReferences"][0]["kind"], "NodeAudit");
    }
    assert!(world.most_pods <= 3, "{}", world.most_pods);
    assert_eq!(reasons(&world), ["Accepted", "Differ"]);
    assert_nothing_is_left(1, &world);
}

#[test]
fn what_makes_no_sense_is_refused_before_a_pod_starts() {
    let setting = quiet(2, json!({ "role": "database", "every": "1s" }));
    let world = run(1, &setting);
    let status = world.status("fleet");
    assert_eq!((&status["verdict"], &condition(&status, "Accepted")["status"]), (&json!("invalid"), &json!("False")));
    let why = condition(&status, "Accepted")["message"].as_str().expect("text");
    assert!(why.contains("spec.role: 'database': write one of web, ") && why.contains("spec.every"), "{why}");
    assert_eq!(reasons(&world), ["InvalidSpec"]);
    assert_eq!(world.most_pods, 0);
}

#[test]
fn a_node_without_an_answer_is_told_by_name_with_the_reason_within_its_time() {
    let mut setting = quiet(9, json!({}));
    let scripts = [Script::Silent, Script::Crashes, Script::NoImage, Script::Nonsense, Script::Fails];
    for (node, script) in setting.nodes.iter_mut().zip(scripts) {
        node.script = script;
    }
    setting.nodes[5].cordoned = true;
    (setting.nodes[6].script, setting.nodes[6].dies) = (Script::Silent, Some(seconds(3)));
    setting.nodes[7].dies = Some(Duration::ZERO);
    let mut world = World::new(1, setting);
    world.run(seconds(32));
    let status = world.status("fleet");
    assert_eq!((&status["verdict"], &status["failed"]), (&json!("invalid"), &json!(8)), "{status:#}");
    let told: Vec<(&str, &str)> = status["failures"]
        .as_array()
        .expect("a list")
        .iter()
        .map(|one| (one["node"].as_str().expect("text"), one["reason"].as_str().expect("text")))
        .collect();
    let wanted = ["NoAnswer", "NotStarted", "NotStarted", "NoAudit", "NoAudit", "Cordoned", "NotReady", "NotReady"];
    let wanted: Vec<(String, &str)> =
        wanted.iter().enumerate().map(|(number, reason)| (format!("node-{number:03}"), *reason)).collect();
    assert_eq!(told, wanted.iter().map(|(node, reason)| (node.as_str(), *reason)).collect::<Vec<_>>());
    assert!(condition(&status, "Complete")["message"].as_str().is_some_and(|text| text.ends_with("and 3 more")));
    world.run(seconds(20));
    assert_nothing_is_left(1, &world);
}

#[test]
fn a_second_round_tells_what_changed_and_since_when_and_events_come_on_changes_alone() {
    let setting = quiet(5, json!({ "every": "5m", "historyLimit": 1, "expect": ["alike"] }));
    let mut world = World::new(1, setting);
    world.script(seconds(400), 2, Script::Answers(10));
    world.run(seconds(640));
    let status = world.status("fleet");
    assert_eq!((&status["verdict"], &status["changed"]), (&json!("fail"), &json!(1)), "{status:#}");
    let why = condition(&status, "Complete")["message"].as_str().expect("text");
    assert_eq!(why, "alike is not so of node-002");
    let kept = &world.store.objects["configmaps/nearside-fleet.node-002"]["data"]["changes.json"];
    let changes: Value = serde_json::from_str(kept.as_str().expect("text")).expect("JSON");
    let change = &changes[0];
    assert_eq!((&change["was"]["value"], &change["is"]["value"]), (&json!("60"), &json!("10")), "{changes}");
    let (seen, since) = (change["seen"].as_u64().expect("a time"), change["since"].as_u64().expect("a time"));
    assert!((295..=305).contains(&(since - seen)), "{changes}");
    // Three rounds, and what each changed.
    assert_eq!(reasons(&world), ["Accepted", "Alike", "ExpectationMissed", "NodesChanged"]);
    let before = world.store.of_kind("events").count();
    world.run(seconds(300));
    assert_eq!(world.status("fleet")["changed"], 0, "it is as it was");
    assert_eq!(world.store.of_kind("events").count(), before, "nothing changed");
}

#[test]
fn later_nodes_are_picked_up_those_that_return_are_asked_and_those_that_go_are_forgotten() {
    let mut setting = quiet(5, json!({}));
    setting.nodes[1].made = seconds(60);
    (setting.nodes[2].dies, setting.nodes[2].returns) = (Some(Duration::ZERO), Some(seconds(90)));
    setting.nodes[3].deleted = Some(seconds(120));
    let mut world = World::new(1, setting);
    world.run(seconds(40));
    let status = world.status("fleet");
    assert_eq!((&status["nodes"], &status["failed"]), (&json!(4), &json!(1)), "{status:#}");
    world.run(seconds(75));
    let status = world.status("fleet");
    assert_eq!(
        (&status["nodes"], &status["failed"], &status["alike"]),
        (&json!(5), &json!(0), &json!(5)),
        "{status:#}"
    );
    assert!(world.store.objects.contains_key("configmaps/nearside-fleet.node-003"));
    world.run(seconds(75));
    let status = world.status("fleet");
    assert_eq!((&status["nodes"], &status["verdict"]), (&json!(4), &json!("pass")), "{status:#}");
    assert!(!world.store.objects.contains_key("configmaps/nearside-fleet.node-003"), "it is forgotten");
    assert_nothing_is_left(1, &world);
}

#[test]
fn a_pod_that_reports_for_another_node_is_refused_counted_and_named_and_changes_no_report() {
    let mut setting = quiet(4, json!({}));
    setting.nodes[1].script = Script::Lies(2);
    setting.nodes[2].script = Script::Silent;
    let mut world = World::new(1, setting);
    world.run(seconds(60));
    let status = world.status("fleet");
    assert_eq!((&status["alike"], &status["failed"]), (&json!(2), &json!(2)), "{status:#}");
    assert!(status["refused"].as_u64().is_some_and(|count| (10..=100).contains(&count)), "{status:#}");
    for node in ["node-001", "node-002"] {
        assert!(!world.store.objects.contains_key(&format!("configmaps/nearside-fleet.{node}")), "{node}");
    }
    let words = "fleet: who has the token of node-001 reported for node-002, and was refused";
    assert_eq!(world.says, [words], "once");
    assert_eq!(reasons(&world).iter().filter(|reason| *reason == "ReportRefused").count(), 1);
    assert_nothing_is_left(1, &world);
}

#[test]
fn an_audit_that_is_over_goes_in_its_time_and_nothing_of_it_stays() {
    let world = run(1, &quiet(4, json!({ "ttlSecondsAfterFinished": 30 })));
    let left: Vec<&String> = world
        .store
        .objects
        .keys()
        .filter(|path| !["nodes/", "events/", "leases/"].iter().any(|kind| path.starts_with(kind)))
        .collect();
    assert!(left.is_empty(), "{left:?}");
}

#[test]
fn two_audits_of_the_same_nodes_have_each_its_own_reports_and_one_that_is_deleted_leaves_the_other() {
    let mut setting = quiet(6, json!({ "parallelism": 2 }));
    let mut other = audit(json!({ "parallelism": 1, "every": "2m" }));
    (other.name, other.deleted) = ("other".to_owned(), Some(seconds(200)));
    setting.audits.push(other);
    let mut world = World::new(1, setting);
    world.run(seconds(60));
    for name in ["fleet", "other"] {
        let status = world.status(name);
        assert_eq!((&status["verdict"], &status["alike"]), (&json!("pass"), &json!(6)), "{name}: {status:#}");
    }
    assert_eq!(world.store.of_kind("configmaps").count(), 12);
    world.run(seconds(200));
    assert_eq!(world.store.of_kind("configmaps").count(), 6);
    assert!(world.store.objects.contains_key("configmaps/nearside-fleet.node-000"));
    assert_nothing_is_left(1, &world);
}

#[test]
fn five_hundred_nodes_take_at_most_ten_questions_each() {
    let setting = quiet(500, json!({ "parallelism": 100 }));
    let mut world = World::new(1, setting);
    world.run(seconds(120));
    let status = world.status("fleet");
    assert_eq!((&status["alike"], &status["failed"]), (&json!(500), &json!(0)), "{status:#}");
    assert!(world.calls <= 5_000, "{} calls", world.calls);
    let calls = world.calls;
    world.run(seconds(60));
    assert!(world.calls - calls <= 70, "{} calls in a quiet minute", world.calls - calls);
}

#[test]
fn an_operator_that_dies_at_any_question_is_followed_by_one_that_goes_on() {
    let mut deaths = 0;
    for at in 0..50 {
        for (sent, moves) in [(false, false), (true, false), (true, true)] {
            let mut setting = quiet(4, json!({ "parallelism": 2 }));
            setting.nodes[1].script = Script::Answers(1);
            setting.nodes[3].script = Script::Crashes;
            setting.deaths = vec![(at, sent, Duration::from_millis(400))];
            setting.moves = moves;
            let world = run(u64::from(at), &setting);
            deaths += world.deaths;
            let status = world.status("fleet");
            let told = (&status["alike"], &status["differing"], &status["failed"], &status["verdict"]);
            assert_eq!(
                told,
                (&json!(2), &json!(1), &json!(1), &json!("invalid")),
                "{at} {sent} {moves}: {status:#} {}",
                world.operators().join(" ")
            );
            assert_nothing_is_left(u64::from(at), &world);
        }
    }
    assert!(deaths > 100, "{deaths}");
}

#[test]
fn an_audit_that_is_no_object_leaves_nothing_whenever_its_controller_dies_and_is_started_again() {
    let mut deaths = 0;
    for at in 0..40 {
        for (sent, moves) in [(false, false), (true, false), (true, true)] {
            let mut setting = quiet(4, json!({ "parallelism": 2 }));
            setting.nodes[1].script = Script::Answers(1);
            setting.nodes[3].script = Script::Crashes;
            (setting.is_file, setting.moves) = (true, moves);
            setting.deaths = vec![(at, sent, Duration::from_millis(400))];
            let world = run(u64::from(at), &setting);
            deaths += world.deaths;
            // One that dies when it has said what came of it is followed by one that says so again.
            assert!((1..=2).contains(&world.outcomes.len()), "{at} {sent} {moves}: {:?}", world.outcomes);
            for outcome in &world.outcomes {
                let told = (outcome.fleet.alike.nodes.len(), outcome.fleet.differing(), outcome.failures.len());
                assert_eq!(told, (2, 1, 1), "{at} {sent} {moves}: {outcome:#?}");
            }
            let mut paths = world.store.objects.keys();
            assert!(
                paths.all(|path| path.starts_with("nodes/")),
                "{at} {sent} {moves}: {:?}",
                world.store.objects.keys()
            );
        }
    }
    assert!(deaths > 60, "{deaths}");
}

fn wild(seed: u64) -> Setting {
    let mut random = SplitMix64::new(seed ^ 0xa0d1);
    let mut setting = quiet(1 + random.below(12), json!({ "parallelism": 1 + random.below(6) }));
    for node in &mut setting.nodes {
        let scripts =
            [Script::Answers(1), Script::Silent, Script::Crashes, Script::NoImage, Script::Nonsense, Script::Fails];
        if random.below(4) == 0 {
            node.script = scripts[random.below(scripts.len())];
        }
        if random.below(5) == 0 {
            node.made = Duration::from_millis(random.up_to(60_000));
        }
        if random.below(6) == 0 {
            let dies = node.made + Duration::from_millis(random.up_to(15_000));
            node.dies = Some(dies);
            node.returns = (random.below(2) == 0).then(|| dies + Duration::from_millis(3_000 + random.up_to(60_000)));
        }
        node.cordoned = random.below(12) == 0;
        if random.below(8) == 0 {
            node.deleted = Some(seconds(62) + Duration::from_millis(random.up_to(60_000)));
        }
    }
    setting.operators = 1 + random.below(2);
    setting.trouble = [0, 20, 80][random.below(3)];
    setting.delay = [8, 100, 1_000][random.below(3)];
    setting.moves = random.below(2) == 0;
    for _ in 0..[0, 0, 1, 2][random.below(4)] {
        let again = Duration::from_millis(50 + random.up_to(20_000));
        setting.deaths.push((random.below(80) as u32, random.below(2) == 0, again));
    }
    if setting.operators == 2 && random.below(3) == 0 {
        let from = Duration::from_millis(1_000 + random.up_to(30_000));
        setting.stall = Some((from, Duration::from_millis(random.up_to(40_000))));
    }
    // Some pods say that they are another's.
    let (mut liars, count) = (SplitMix64::new(seed ^ 0x11a5), setting.nodes.len());
    if count > 1 && liars.below(3) == 0 {
        let liar = liars.below(count);
        setting.nodes[liar].script = Script::Lies((liar + 1 + liars.below(count - 1)) % count);
    }
    let audit = &mut setting.audits[0];
    // A round that takes longer than that is followed at once by the next, and there is no end to be looked at.
    if random.below(4) == 0 && setting.delay * setting.trouble < 80_000 {
        audit.spec["every"] = json!("3m");
    }
    if random.below(5) == 0 {
        audit.deleted = Some(audit.made + Duration::from_millis(random.up_to(40_000)));
    }
    setting
}

/// Everything that can go wrong does at some time.
#[test]
fn every_audit_comes_to_its_one_result_and_leaves_nothing_behind() {
    let (mut told, mut deleted, mut died, mut failed) = (0, 0, 0, 0);
    for seed in seeds(150) {
        let setting = wild(seed);
        let mut world = run(seed, &setting);
        died += world.deaths;
        world.store.collect_garbage();
        // What is deleted takes a moment, and a round may be on.
        world.run(seconds(10));
        for _ in 0..30 {
            if condition(&world.status("fleet"), "Running")["status"] == "True"
                || world.store.of_kind("pods").chain(world.store.of_kind("secrets")).count() > 0
            {
                world.run(seconds(5));
            }
        }
        assert_nothing_is_left(seed, &world);
        if setting.audits[0].deleted.is_some() {
            deleted += 1;
            // One that stood still may keep something of what is deleted, which the cluster deletes by and by.
            assert_eq!(world.store.of_kind("configmaps").count(), 0, "{seed}: what is kept of nodes is left");
            continue;
        }
        told += 1;
        failed += check(seed, &setting, &world);
    }
    let each = told > 80 && deleted > 15 && died > 50 && failed > 100;
    assert!(seeds(150).len() < 150 || each, "{told} {deleted} {died} {failed}");
}

/// Each node that can answer has done so, with what it had to say; each other is told of.
fn check(seed: u64, setting: &Setting, world: &World) -> usize {
    let status = world.status("fleet");
    let what = || format!("{seed}: {setting:#?} {status:#} {:?}", world.says);
    assert_eq!(condition(&status, "Complete")["status"], "True", "{}", what());
    assert_eq!(condition(&status, "Running")["status"], "False", "{}", what());
    let failures = status["failures"].as_array().expect("a list");
    let has_failed = |name: &str| failures.iter().any(|one| one["node"] == name);
    let (mut here, mut count) = (0, 0);
    let is_repeated = setting.audits[0].spec["every"].is_string();
    for node in &setting.nodes {
        let kept = world.store.objects.get(&format!("configmaps/nearside-fleet.{}", node.name));
        // What another says of it is no word of its own.
        let is_a_lie =
            kept.is_some_and(|one| one["data"]["audit.json"].as_str().is_some_and(|text| text.contains("666")));
        assert!(!is_a_lie, "{}: {}", node.name, what());
        if node.deleted.is_some() {
            assert!(kept.is_none() && !has_failed(&node.name), "{} is gone: {}", node.name, what());
            continue;
        }
        here += 1;
        count += usize::from(has_failed(&node.name));
        let can_answer = matches!(node.script, Script::Answers(_)) && !node.cordoned;
        match (can_answer, node.dies, node.returns) {
            (true, None, _) => assert!(!has_failed(&node.name) && kept.is_some(), "{}: {}", node.name, what()),
            // It may have answered before it died.
            (true, Some(_), _) if !is_repeated => {
                assert!(has_failed(&node.name) != kept.is_some(), "{}: {}", node.name, what());
            }
            // And what it said then is kept.
            (true, Some(_), _) => assert!(has_failed(&node.name) || kept.is_some(), "{}: {}", node.name, what()),
            (false, ..) => assert!(has_failed(&node.name) && kept.is_none(), "{}: {}", node.name, what()),
        }
    }
    assert_eq!(status["nodes"], here, "{}", what());
    assert_eq!(status["failed"], count, "{}", what());
    let alike = status["alike"].as_u64().expect("a number") + status["differing"].as_u64().expect("a number");
    assert!(alike as usize + count == here || (is_repeated && alike as usize + count > here), "{}", what());
    let most = setting.audits[0].spec["parallelism"].as_u64().expect("a number") as usize;
    assert!(world.most_pods <= most, "{} pods: {}", world.most_pods, what());
    count
}
