//! What is kept of a node from audit to audit.

use audits::{NodeRecord, NodeReport, Pool};
use serde_json::{Value, json};

fn report(node: &str, made: u64, rows: &[(&str, &str, &str)]) -> NodeReport {
    let row = |(key, value, verdict): &(&str, &str, &str)| json!({ "key": key, "subject": "", "value": value, "verdict": verdict });
    let rows: Vec<Value> = rows.iter().map(row).collect();
    let result = json!({ "kind": "audit", "schema": 1, "made": made, "role": "mixed", "rows": rows });
    NodeReport::read(node, &result).expect("an audit")
}

#[test]
fn what_changed_is_kept_with_since_when_the_latest_first_and_as_much_as_is_asked_for() {
    let first = NodeRecord::first(report("n", 100, &[("a", "1", "ok"), ("b", "1", "ok")]));
    assert_eq!(first.latest().count(), 0);
    let second = first.follow(report("n", 200, &[("a", "2", "improvable"), ("b", "1", "ok")]), 10);
    let told: Vec<String> = second.latest().map(ToString::to_string).collect();
    assert_eq!(told, ["a: was 1 (ok), is 2 (improvable)"]);
    let third = second.follow(report("n", 300, &[("a", "2", "improvable")]), 10);
    let told: Vec<(String, u64, u64)> =
        third.changes.iter().map(|one| (one.setting.to_string(), one.seen, one.since)).collect();
    assert_eq!(told, [("b".to_owned(), 200, 300), ("a".to_owned(), 100, 200)]);
    assert_eq!(third.latest().map(ToString::to_string).collect::<Vec<_>>(), ["b: was 1 (ok), is not there"]);
    // As it is written, it is read; and more than is asked for is not kept.
    let json = third.changes_json();
    let again = NodeRecord::read(third.report.clone(), &json);
    assert_eq!(again, third);
    let fourth = third.follow(report("n", 400, &[("a", "3", "ok")]), 2);
    assert_eq!(fourth.changes.iter().map(|one| one.since).collect::<Vec<_>>(), [400, 300]);
    assert!(first.follow(report("n", 200, &[("a", "2", "ok")]), 0).changes.is_empty());
    for nonsense in [json!(7), json!([7, { "key": "a" }]), Value::Null] {
        assert!(NodeRecord::read(third.report.clone(), &nonsense).changes.is_empty());
    }
}

#[test]
fn what_is_worse_or_dangerous_is_told() {
    let of = |verdict: &str| report("n", 1, &[("a", "1", "ok"), ("b", "2", verdict)]);
    for (verdict, worse, dangerous) in [
        ("improvable", false, false),
        ("unreadable", false, false),
        ("worse-than-default", true, false),
        ("conflicts", true, false),
        ("removed", true, false),
        ("refused", true, false),
        ("dangerous", true, true),
    ] {
        let found = of(verdict);
        assert_eq!((found.has_worse(), found.has_dangerous()), (worse, dangerous), "{verdict}");
    }
}

#[test]
fn reports_that_share_are_the_same_reports() {
    let mut pool = Pool::new();
    let rows = [("a", "1", "ok"), ("b", "2", "ok")];
    let (one, other) = (report("m", 1, &rows), report("n", 2, &rows));
    assert_eq!(pool.share(one.clone()), one);
    let shared = pool.share(other.clone());
    assert_eq!(shared, other);
    drop(shared);
    pool.trim();
    assert_eq!(pool.share(other.clone()), other, "it is shared anew");
}

/// What this process has in memory, in bytes.
fn resident() -> usize {
    let text = std::fs::read_to_string("/proc/self/statm").expect("there is one");
    text.split_whitespace().nth(1).expect("a number").parse::<usize>().expect("a number") * 4_096
}

/// An operator is to have less than 64 MiB, whole.
#[test]
fn five_hundred_nodes_take_little_memory_as_they_have_most_in_common() {
    let (mut pool, mut reports) = (Pool::new(), Vec::new());
    let before = resident();
    for node in 0..500 {
        let row = |key: usize| {
            // A tenth of what a node says is what it counted, or its own.
            let value = if key.is_multiple_of(10) { format!("{node} {key}") } else { format!("value {key}") };
            json!({ "key": format!("net.ipv4.setting_{key}"), "subject": "", "value": value, "verdict": "ok" })
        };
        let rows: Vec<Value> = (0..400).map(row).collect();
        let result = json!({ "kind": "audit", "schema": 1, "made": 1, "role": "mixed", "rows": rows });
        reports.push(pool.share(NodeReport::read(&format!("node-{node}"), &result).expect("an audit")));
    }
    let grown = resident().saturating_sub(before) >> 20;
    assert!(grown < 24, "{grown} MiB");
    assert_eq!(reports.len(), 500);
}
