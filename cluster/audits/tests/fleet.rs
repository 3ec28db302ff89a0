//! Audits of many nodes, compared.

use audits::{Fleet, NodeReport, ReportError, drift};
use random::SplitMix64;
use serde_json::{Value, json};

/// An audit as a node writes it: of interfaces of pods and of processes as chance has them, and of counters.
fn result(random: &mut SplitMix64) -> Value {
    let row = |key: &str, subject: &str, value: &str, verdict: &str| json!({ "key": key, "subject": subject, "value": value, "verdict": verdict, "area": "network", "why": "" });
    let mut rows = vec![
        row("net.core.somaxconn", "", "4096", "ok"),
        row("vm.swappiness", "", "60", "no-effect"),
        row("kernel.threads-max", "", &(192_000 + random.up_to(2_000)).to_string(), "ok"),
        row("net.ipv4.tcp_mem", "", &format!("{} 383866 575796", 287_000 + random.up_to(900)), "ok"),
        row("received errors", "eth0", &random.up_to(100).to_string(), "ok"),
        row("MTU", "eth0", "1500", "ok"),
        row("virtual interface", "eth0", "device", "ok"),
        row("open files of servers", &format!("nginx {} {}", random.bits(), random.bits()), "20000", "improvable"),
    ];
    for _ in 0..random.below(20) {
        let name = format!("veth{:08x}", random.bits() as u32);
        rows.push(row("virtual interface", &name, "virtual", "ok"));
        rows.push(row("MTU", &name, "1450", "ok"));
        rows.push(row("RPS", &format!("{name} rx-0"), "0", "ok"));
    }
    json!({ "kind": "audit", "schema": 1, "made": 1_796_000_000, "role": "web-kernel", "rows": rows })
}

fn plant(result: &mut Value, key: &str, value: &str, verdict: &str) {
    let rows = result["rows"].as_array_mut().expect("a list");
    let row = rows.iter_mut().find(|row| row["key"] == key).expect("the row");
    (row["value"], row["verdict"]) = (json!(value), json!(verdict));
}

fn read(node: &str, result: &Value) -> NodeReport {
    NodeReport::read(node, result).expect("an audit")
}

#[test]
fn of_500_nodes_482_are_alike_and_18_differ_in_this() {
    let mut random = SplitMix64::new(1);
    let mut reports = Vec::new();
    for number in 0..500 {
        let mut result = result(&mut random);
        match number {
            3..15 => plant(&mut result, "vm.swappiness", "0", "improvable"),
            100..105 => plant(&mut result, "received errors", "3000", "dangerous"),
            499 => plant(&mut result, "kernel.threads-max", "90000", "ok"),
            _ => {}
        }
        reports.push(read(&format!("node-{number:03}"), &result));
    }
    let fleet = Fleet::of(&reports);
    assert_eq!((fleet.alike.nodes.len(), fleet.differing()), (482, 18));
    let told: Vec<(usize, Vec<String>)> = fleet
        .others
        .iter()
        .map(|kin| (kin.nodes.len(), kin.differences.iter().map(ToString::to_string).collect()))
        .collect();
    assert_eq!(told[0], (12, vec!["vm.swappiness: 0 (improvable), elsewhere 60 (no-effect)".to_owned()]));
    assert_eq!(told[1].0, 5);
    assert!(told[1].1[0].starts_with("received errors (eth0): 3000 (dangerous), elsewhere "), "{:?}", told[1]);
    assert_eq!(told[2].0, 1);
    assert!(told[2].1[0].starts_with("kernel.threads-max: 90000 (ok), elsewhere 19"), "{:?}", told[2]);
    assert_eq!(fleet.others[2].nodes, ["node-499"]);
}

/// What is computed from the size of memory is compared by about how much it is: one node with far less, whose name comes
/// first, is not what is usual.
#[test]
fn a_node_that_is_first_by_name_is_not_what_the_others_are_held_against() {
    let mut random = SplitMix64::new(3);
    let mut few = result(&mut random);
    plant(&mut few, "kernel.threads-max", "4096", "ok");
    let mut reports = vec![read("a", &few)];
    reports.extend((0..9).map(|number| read(&format!("n{number}"), &result(&mut random))));
    let fleet = Fleet::of(&reports);
    assert_eq!((fleet.alike.nodes.len(), fleet.differing()), (9, 1));
    assert_eq!(fleet.others[0].nodes, ["a"]);
}

/// Whatever is planted, wherever, is found there, and nothing else is.
#[test]
fn each_planted_difference_is_told_of_its_node_and_no_other() {
    for seed in 0..200 {
        let mut random = SplitMix64::new(seed);
        let nodes = 5 + random.below(40);
        let mut planted: Vec<(String, &str)> = Vec::new();
        let mut reports = Vec::new();
        for number in 0..nodes {
            let (node, mut result) = (format!("n{number}"), result(&mut random));
            // Fewer than half, so that it is known what is usual.
            if planted.len() < (nodes - 1) / 2 && random.below(3) == 0 {
                let (key, value) = [("net.core.somaxconn", "128"), ("MTU", "9000"), ("open files of servers", "1024")]
                    [random.below(3)];
                plant(&mut result, key, value, "improvable");
                planted.push((node.clone(), key));
            }
            reports.push(read(&node, &result));
        }
        // In whatever order they come.
        for at in (1..reports.len()).rev() {
            reports.swap(at, random.below(at + 1));
        }
        let fleet = Fleet::of(&reports);
        assert_eq!(fleet.alike.nodes.len() + planted.len(), nodes, "{seed}");
        let mut found: Vec<(String, &str)> = Vec::new();
        for kin in &fleet.others {
            assert_eq!(kin.differences.len(), 1, "{seed}: {kin:?}");
            found.extend(kin.nodes.iter().map(|node| (node.clone(), kin.differences[0].setting.key.as_str())));
        }
        found.sort();
        planted.sort();
        assert_eq!(found, planted, "{seed}");
    }
}

#[test]
fn a_drift_has_what_was_what_is_and_when_it_was_seen_last() {
    let mut random = SplitMix64::new(7);
    let before = read("a", &result(&mut random));
    let mut now = result(&mut random);
    plant(&mut now, "vm.swappiness", "10", "no-effect");
    now["made"] = json!(1_796_086_400_u64);
    let rows = now["rows"].as_array_mut().expect("a list");
    rows.retain(|row| row["key"] != "net.core.somaxconn");
    let now = read("a", &now);
    let told = drift(&before, &now);
    let words: Vec<String> = told.iter().map(ToString::to_string).collect();
    assert_eq!(
        words,
        ["net.core.somaxconn: was 4096 (ok), is not there", "vm.swappiness: was 60 (no-effect), is 10 (no-effect)"]
    );
    assert!(told.iter().all(|one| one.seen == 1_796_000_000));
    assert!(drift(&now, &now).is_empty());
    // Of two reports of one node the later one counts, in whatever order they come.
    let other = read("b", &result(&mut random));
    for reports in [[before.clone(), now.clone(), other.clone()], [now, other, before]] {
        let fleet = Fleet::of(&reports);
        assert_eq!((fleet.alike.nodes.len(), fleet.differing()), (1, 1));
    }
}

#[test]
fn what_is_no_audit_is_refused_with_the_reason() {
    let good = result(&mut SplitMix64::new(1));
    let changed = |field: &str, value: Value| {
        let mut result = good.clone();
        result[field] = value;
        NodeReport::read("a", &result)
    };
    assert_eq!(changed("kind", json!("load")), Err(ReportError::NotAnAudit));
    assert_eq!(changed("schema", json!(2)), Err(ReportError::Schema(2)));
    assert_eq!(changed("schema", json!("1")), Err(ReportError::NotAnAudit));
    assert_eq!(changed("rows", json!(7)), Err(ReportError::NotAnAudit));
    assert_eq!(changed("rows", json!([{ "key": "a" }])), Err(ReportError::Row(0, "subject")));
    assert_eq!(changed("rows", json!([7])), Err(ReportError::Row(0, "key")));
    assert_eq!(changed("rows", Value::Array(vec![json!(7); 100_001])), Err(ReportError::TooLong));
    assert_eq!(NodeReport::read("a", &Value::Null), Err(ReportError::NotAnAudit));
    assert!(Fleet::of(&[]).alike.nodes.is_empty());
}
