//! Pods as workers, by an API server of the test's own: it refuses, is late and loses answers all the while.

use crate::api_server::{ApiServer, Script};
use crate::local::{is_alive, said, send};
use crate::server::Server;
use interop::{Nearside, in_namespace, ip, scratch, wait_for};
use rustix::process::Signal;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::thread;
use std::time::Duration;

/// An address that is no loopback's, of a network of the test's own.
pub const HOST: &str = "198.18.7.1";

pub fn with_network(test: impl FnOnce() + Send + 'static) {
    in_namespace(&[], || {
        ip(&format!("addr add {HOST}/32 dev lo"));
        test();
    });
}

fn spec(name: &str, server: &Server, more: &str) -> PathBuf {
    let path = scratch(&format!("cluster-pods-{name}")).join("test.yaml");
    let text = format!(
        "apiVersion: nearside.dev/v1alpha1\nkind: LoadTest\nmetadata: {{name: pods}}\nspec:\n  \
         target: http://{}/\n  workers: 3\n  connections: 6\n  floor: false\n  startTolerance: 10s\n  \
         warmUp: 200ms\n  rate: 200\n  pods: {{image: nearside:test}}\n{more}",
        server.address
    );
    fs::write(&path, text).expect("a file");
    path
}

fn start(spec: &Path, cluster: &ApiServer, options: &[&str]) -> Child {
    let mut command = Nearside::command(["cluster", "run"]);
    command.arg(spec).arg("--kubeconfig").arg(cluster.kubeconfig()).args(options);
    let command = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command.spawn().expect("it starts")
}

/// Nothing is left but the target's Lease, which nobody holds.
fn assert_nothing_is_left(cluster: &ApiServer, workers: &[u32]) {
    let left = cluster.objects();
    assert!(left.len() == 1 && left.values().all(|one| one["spec"]["holderIdentity"] == ""), "{left:#?}");
    assert!(!workers.iter().copied().any(is_alive), "{workers:?}");
}

fn loading(cluster: &ApiServer, server: &Server) -> Vec<u32> {
    wait_for("requests", || server.paths().len() > 20);
    (0..3).map(|index| cluster.process(index).expect("it runs")).collect()
}

fn keys(value: &Value, path: &str, all: &mut BTreeSet<String>) {
    for (key, below) in value.as_object().into_iter().flatten() {
        let path = format!("{path}.{key}");
        keys(below, &path, all);
        all.insert(path);
    }
}

#[test]
fn pods_measure_as_processes_do_and_one_target_has_one_test_at_a_time() {
    with_network(|| {
        let server = Server::start(HOST);
        let cluster = ApiServer::start("whole", HOST, &[]);
        let path = spec("whole", &server, "  duration: 1s\n");
        let rendered = Nearside::command(["cluster", "render", "--json"]).arg(&path).output().expect("it runs");
        let rendered: Value = serde_json::from_slice(&rendered.stdout).expect("a list");
        let lease = rendered["items"][0].clone();
        let at = format!("leases/{}", lease["metadata"]["name"].as_str().expect("a name"));
        let held = |renewals: u32, holder: &str| {
            let mut lease = lease.clone();
            lease["spec"]["holderIdentity"] = json!(holder);
            lease["metadata"]["annotations"]["nearside.dev/renewals"] = json!(renewals.to_string());
            cluster.put(&at, lease);
        };
        held(0, "load/nearside-other/1");
        let child = start(&path, &cluster, &["--json"]);
        for renewals in 1..8 {
            thread::sleep(Duration::from_millis(250));
            held(renewals, "load/nearside-other/1");
        }
        assert!(server.paths().is_empty() && cluster.objects().len() == 1, "it waits");
        held(8, "");
        let output = child.wait_with_output().expect("it ends");
        assert_eq!(output.status.code(), Some(0), "{}", said(&output));
        assert!(said(&output).contains("another test has this target: load/nearside-other/1"), "{}", said(&output));
        let result: Value = serde_json::from_slice(&output.stdout).expect("a result");
        assert_eq!((&result["workers"]["measured"], &result["workers"]["problems"]), (&json!(3), &json!([])));
        let number = |path: &str| result.pointer(path).and_then(Value::as_u64).expect("a number");
        let sent = number("/traffic/sent") + number("/warm_up_phase/traffic/sent") + number("/ramp_phase/traffic/sent");
        assert_eq!(server.paths().len() as u64, sent, "all that was sent arrived, and is counted");
        assert_nothing_is_left(&cluster, &[]);
        let mut local = Nearside::command(["cluster", "run", "--local", "--quiet", "--json"]);
        let local = local.arg(&path).output().expect("it runs");
        let local: Value = serde_json::from_slice(&local.stdout).expect("a result");
        let (mut here, mut there) = (BTreeSet::new(), BTreeSet::new());
        keys(&local, "", &mut here);
        keys(&result, "", &mut there);
        assert_eq!(here, there, "one schema");
    });
}

#[test]
fn a_pod_that_dies_or_cannot_begin_is_named_with_the_reason_and_nothing_is_left() {
    with_network(|| {
        let cases = [
            ("killed", None, "INVALID: worker 1: its process was killed (SIGKILL)"),
            ("memory", Some(Script::OutOfMemory), "INVALID: worker 1: memory ran out"),
            (
                "room",
                Some(Script::Unschedulable),
                "worker 1 said: Unschedulable: 0/2 nodes are available: 2 Insufficient cpu.",
            ),
            ("image", Some(Script::NoImage), "worker 1 said: ImagePullBackOff: Back-off pulling image"),
        ];
        thread::scope(|scope| {
            for (name, script, told) in cases {
                scope.spawn(move || assert_named(name, script, told));
            }
        });
    });
}

fn assert_named(name: &str, script: Option<Script>, told: &str) {
    let scripts: Vec<(u32, Script)> = script.map(|script| (1, script)).into_iter().collect();
    let (server, cluster) = (Server::start(HOST), ApiServer::start(name, HOST, &scripts));
    let child = start(&spec(name, &server, "  duration: 60s\n"), &cluster, &["--quiet"]);
    let mut workers = Vec::new();
    if matches!(script, None | Some(Script::OutOfMemory)) {
        workers = loading(&cluster, &server);
        send(workers[1], Signal::KILL);
    }
    let output = child.wait_with_output().expect("it ends");
    assert_eq!(output.status.code(), Some(5), "{name}: {}", said(&output));
    assert!(said(&output).contains(told), "{name}: {}", said(&output));
    assert_nothing_is_left(&cluster, &workers);
}

#[test]
fn a_controller_that_is_killed_goes_on_when_it_is_started_again_and_ends_when_it_is_told_to() {
    with_network(|| {
        let server = Server::start(HOST);
        let cluster = ApiServer::start("again", HOST, &[]);
        let path = spec("again", &server, "  duration: 5s\n");
        let mut child = start(&path, &cluster, &["--quiet"]);
        let workers = loading(&cluster, &server);
        send(child.id(), Signal::KILL);
        child.wait().expect("it ends");
        let output = start(&path, &cluster, &["--json"]).wait_with_output().expect("it ends");
        assert_eq!(output.status.code(), Some(0), "{}", said(&output));
        assert!(said(&output).contains("an earlier controller began this test"), "{}", said(&output));
        let result: Value = serde_json::from_slice(&output.stdout).expect("a result");
        let number = |path: &str| result.pointer(path).and_then(Value::as_u64).expect("a number");
        let sent = number("/traffic/sent") + number("/warm_up_phase/traffic/sent") + number("/ramp_phase/traffic/sent");
        assert_eq!(server.paths().len() as u64, sent, "nothing is lost, and nothing counts twice");
        assert_nothing_is_left(&cluster, &workers);
        // Another file under the same name is no going on.
        let job = json!({ "kind": "Job", "metadata": { "name": "nearside-pods", "annotations": {} }, "spec": {} });
        cluster.put("jobs/nearside-pods", job);
        let output = start(&path, &cluster, &["--quiet"]).wait_with_output().expect("it ends");
        assert_eq!(output.status.code(), Some(1), "{}", said(&output));
        assert!(
            said(&output).contains("there is a Job nearside-pods in the namespace load, of another test"),
            "{}",
            said(&output)
        );
        assert!(cluster.objects().contains_key("jobs/nearside-pods"), "it is somebody else's");
        let cluster = ApiServer::start("interrupted", HOST, &[]);
        let before = server.paths().len();
        let child = start(&path, &cluster, &["--quiet"]);
        wait_for("requests", || server.paths().len() > before + 20);
        let workers = loading(&cluster, &server);
        send(child.id(), Signal::INT);
        let output = child.wait_with_output().expect("it ends");
        assert_eq!(output.status.code(), Some(130), "{}", said(&output));
        assert_nothing_is_left(&cluster, &workers);
    });
}
