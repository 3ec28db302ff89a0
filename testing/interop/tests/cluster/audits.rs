//! Audits of nodes, by pods that are processes of this machine, and an API server of the test's own: it refuses, is late
//! and loses answers all the while.

use crate::api_server::ApiServer;
use crate::local::said;
use crate::operator::Operating;
use crate::pods::{HOST, with_network};
use interop::{Nearside, scratch, wait_for};
use rustix::process::Signal;
use serde_json::{Value, json};
use std::fs;
use std::process::Output;

/// A cluster of these nodes; each is ready, or gone.
fn cluster(name: &str, nodes: &[(&str, bool)]) -> ApiServer {
    let cluster = ApiServer::start(name, HOST, &[]);
    for (node, is_ready) in nodes {
        let ready = json!({
            "type": "Ready", "status": if *is_ready { "True" } else { "Unknown" }, "reason": "NodeStatusUnknown",
            "message": "Kubelet stopped posting node status.",
        });
        let node = json!({ "kind": "Node", "metadata": { "name": node }, "status": { "conditions": [ready] } });
        cluster.put(&format!("nodes/{}", node["metadata"]["name"].as_str().expect("a name")), node);
    }
    cluster
}

fn object(within: &str) -> Value {
    json!({
        "apiVersion": "nearside.dev/v1alpha1", "kind": "NodeAudit",
        "metadata": { "name": "fleet", "namespace": "load", "generation": 1 },
        "spec": { "role": "mixed", "answerWithin": within },
    })
}

fn run(cluster: &ApiServer, name: &str, within: &str, options: &[&str]) -> Output {
    let path = scratch(&format!("cluster-audits-{name}")).join("fleet.yaml");
    fs::write(&path, object(within).to_string()).expect("a file");
    let mut command = Nearside::command(["cluster", "run", "--image", "nearside:test", "--kubeconfig"]);
    command.arg(cluster.kubeconfig()).arg(&path).args(options).output().expect("it runs")
}

/// What is there beside nodes.
fn left(cluster: &ApiServer) -> Vec<String> {
    cluster.objects().into_keys().filter(|path| !path.starts_with("nodes/")).collect()
}

#[test]
fn each_node_says_what_it_is_and_one_that_cannot_is_named_and_nothing_is_left() {
    with_network(|| {
        let folder = scratch("cluster-audits-reports");
        let reports = folder.to_str().expect("text");
        let both = cluster("audits-both", &[("node1", true), ("node2", true)]);
        let output = run(&both, "both", "5m", &["--json", "--reports", reports]);
        assert_eq!(output.status.code(), Some(0), "{}", said(&output));
        let result: Value = serde_json::from_slice(&output.stdout).expect("a result");
        assert_eq!((&result["verdict"], &result["nodes"]), (&json!("pass"), &json!(2)), "{result}");
        for node in ["node1", "node2"] {
            let text = fs::read(folder.join(format!("{node}.json"))).expect("a report");
            let report: Value = serde_json::from_slice(&text).expect("JSON");
            assert_eq!((&report["kind"], &report["role"]), (&json!("audit"), &json!("mixed")));
            assert!(report["rows"].as_array().is_some_and(|rows| rows.len() > 100));
        }
        assert_eq!(left(&both), [""; 0]);
        let lost = cluster("audits-lost", &[("gone", false), ("silent", true)]);
        let output = run(&lost, "lost", "5s", &["--quiet"]);
        assert_eq!(output.status.code(), Some(5), "{}", said(&output));
        for words in [
            "0 nodes: 0 alike, 0 differ",
            "2 without an answer",
            "gone: NotReady: NodeStatusUnknown: Kubelet stopped posting node status.",
            "silent: NoAnswer: it did not answer within 5 s",
        ] {
            assert!(said(&output).contains(words), "{words}: {}", said(&output));
        }
        assert_eq!(left(&lost), [""; 0]);
        let none = cluster("audits-none", &[]);
        let output = run(&none, "none", "5m", &["--quiet"]);
        assert_eq!(output.status.code(), Some(4), "{}", said(&output));
    });
}

#[test]
fn an_operator_keeps_what_each_node_said_and_one_that_is_killed_is_followed_by_another() {
    with_network(|| {
        let cluster = cluster("audits-operator", &[("node1", true), ("node2", true)]);
        let mut first = Operating::start_with(&cluster, &["--audits"]);
        cluster.put("nodeaudits/fleet", object("5m"));
        wait_for("a pod", || left(&cluster).iter().any(|path| path.starts_with("pods/")));
        assert_eq!(first.end(Signal::KILL), None);
        let mut second = Operating::start_with(&cluster, &["--audits"]);
        let status = || cluster.objects()["nodeaudits/fleet"]["status"].clone();
        wait_for("a verdict", || status()["verdict"].is_string());
        let told = status();
        assert_eq!(
            (&told["verdict"], &told["nodes"], &told["failed"]),
            (&json!("pass"), &json!(2), &json!(0)),
            "{told}"
        );
        let is_open = |path: &String| path.starts_with("pods/") || path.starts_with("secrets/");
        wait_for("an end", || !left(&cluster).iter().any(is_open));
        for node in ["node1", "node2"] {
            let kept = cluster.objects()[&format!("configmaps/nearside-fleet.{node}")].clone();
            let audit: Value = serde_json::from_str(kept["data"]["audit.json"].as_str().expect("text")).expect("JSON");
            assert_eq!((&audit["kind"], &kept["data"]["changes.json"]), (&json!("audit"), &json!("[]")));
        }
        cluster.delete("nodeaudits/fleet");
        assert!(!left(&cluster).iter().any(|path| path.starts_with("configmaps/")), "it goes with its audit");
        assert_eq!(second.end(Signal::TERM), Some(0));
        assert_eq!(cluster.objects()["leases/nearside-auditor"]["spec"]["holderIdentity"], "");
    });
}
