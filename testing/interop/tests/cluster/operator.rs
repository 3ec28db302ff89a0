//! The operator: tests that are objects of an API server of the test's own, which refuses, is late, loses answers, and
//! ends each watch after a moment.

use crate::api_server::ApiServer;
use crate::local::{is_alive, send};
use crate::pods::{HOST, with_network};
use crate::server::Server;
use interop::{Nearside, wait_for};
use rustix::process::Signal;
use serde_json::{Value, json};
use std::process::{Child, Stdio};

/// An operator, which ends with its test.
pub struct Operating(Child);

impl Operating {
    fn start(cluster: &ApiServer) -> Self {
        Self::start_with(cluster, &[])
    }

    /// The same with these options.
    pub fn start_with(cluster: &ApiServer, options: &[&str]) -> Self {
        let mut command = Nearside::command(["cluster", "operate", "--image", "nearside:test", "--kubeconfig"]);
        let command = command.arg(cluster.kubeconfig()).args(options).stdin(Stdio::null()).stdout(Stdio::null());
        Self(command.stderr(Stdio::null()).spawn().expect("it starts"))
    }

    /// Ends it by a signal; answers its exit code.
    pub fn end(&mut self, signal: Signal) -> Option<i32> {
        send(self.0.id(), signal);
        self.0.wait().expect("it ends").code()
    }
}

impl Drop for Operating {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A test of this server, as somebody makes it.
fn object(server: &Server, seconds: u32, more: &Value) -> Value {
    let mut spec = json!({
        "target": format!("http://{}/", server.address),
        "workers": 3,
        "connections": 6,
        "floor": false,
        "startTolerance": "10s",
        "warmUp": "200ms",
        "rate": 200,
        "duration": format!("{seconds}s"),
        "expect": ["errors<50%"],
    });
    for (field, value) in more.as_object().into_iter().flatten() {
        spec[field] = value.clone();
    }
    let metadata = json!({ "name": "pods", "namespace": "load", "generation": 1 });
    json!({ "apiVersion": "nearside.dev/v1alpha1", "kind": "LoadTest", "metadata": metadata, "spec": spec })
}

fn status(cluster: &ApiServer) -> Value {
    cluster.objects().get("loadtests/pods").map(|one| one["status"].clone()).unwrap_or_default()
}

fn reason(status: &Value, kind: &str) -> String {
    let found = status["conditions"].as_array().into_iter().flatten().find(|one| one["type"] == kind);
    found.map(|one| format!("{} {}", one["status"], one["reason"]).replace('"', "")).unwrap_or_default()
}

/// Waits until a test came to something, and nothing of it is left; answers its status.
fn completed(cluster: &ApiServer) -> Value {
    wait_for("a verdict", || status(cluster)["verdict"].is_string());
    wait_for("an end", || {
        !cluster.objects().keys().any(|path| path.starts_with("jobs/") || path.starts_with("secrets/"))
    });
    status(cluster)
}

#[test]
fn a_test_that_is_an_object_is_run_and_told_of_in_its_status_events_and_result() {
    with_network(|| {
        let server = Server::start(HOST);
        let cluster = ApiServer::start("operator", HOST, &[]);
        let mut operating = Operating::start(&cluster);
        cluster.put("loadtests/pods", object(&server, 1, &json!({})));
        let told = completed(&cluster);
        let reasons: Vec<String> =
            ["Accepted", "Prepared", "Running", "Complete"].iter().map(|kind| reason(&told, kind)).collect();
        assert_eq!(reasons, ["True Accepted", "True WorkersReady", "False Ended", "True ObjectivesMet"], "{told}");
        assert_eq!((&told["verdict"], &told["workers"]), (&json!("pass"), &json!("3/3")));
        for figure in ["rate", "rateOfDue", "p99", "skew", "startTime", "completionTime"] {
            assert!(told[figure].is_string(), "{figure}: {told}");
        }
        let objects = cluster.objects();
        let kept = &objects["configmaps/nearside-pods-result"];
        assert_eq!(kept["metadata"]["ownerReferences"][0]["uid"], objects["loadtests/pods"]["metadata"]["uid"]);
        let result: Value =
            serde_json::from_str(kept["data"]["result.json"].as_str().expect("text")).expect("a result");
        let number = |path: &str| result.pointer(path).and_then(Value::as_u64).expect("a number");
        let sent = number("/traffic/sent") + number("/warm_up_phase/traffic/sent") + number("/ramp_phase/traffic/sent");
        assert_eq!(server.paths().len() as u64, sent, "all that was sent arrived, and is counted");
        wait_for("events", || cluster.objects().keys().filter(|path| path.starts_with("events/")).count() == 4);
        // What makes no sense is refused by its field, and no pod begins; so is what misses its objective told.
        cluster.delete("loadtests/pods");
        cluster.put("loadtests/pods", object(&server, 1, &json!({ "rate": 2 })));
        let told = completed(&cluster);
        assert_eq!((&told["verdict"], reason(&told, "Accepted")), (&json!("invalid"), "False InvalidSpec".to_owned()));
        cluster.delete("loadtests/pods");
        cluster.put("loadtests/pods", object(&server, 1, &json!({ "expect": ["p50<1us"] })));
        let told = completed(&cluster);
        assert_eq!((&told["verdict"], reason(&told, "Complete")), (&json!("fail"), "True ObjectiveMissed".to_owned()));
        // Its time over, it goes.
        cluster.delete("loadtests/pods");
        cluster.put("loadtests/pods", object(&server, 1, &json!({ "ttlSecondsAfterFinished": 1 })));
        wait_for("its time to be over", || !cluster.objects().contains_key("loadtests/pods"));
        assert!(!cluster.objects().contains_key("configmaps/nearside-pods-result"), "it goes with its test");
        assert_eq!(operating.end(Signal::TERM), Some(0));
        assert_eq!(cluster.objects()["leases/nearside-operator"]["spec"]["holderIdentity"], "");
    });
}

#[test]
fn an_operator_that_is_killed_is_followed_by_one_that_goes_on_and_a_test_that_is_deleted_ends() {
    with_network(|| {
        let server = Server::start(HOST);
        let cluster = ApiServer::start("operator-again", HOST, &[]);
        let mut first = Operating::start(&cluster);
        cluster.put("loadtests/pods", object(&server, 5, &json!({})));
        wait_for("requests", || server.paths().len() > 20);
        assert_eq!(first.end(Signal::KILL), None);
        let mut second = Operating::start(&cluster);
        let told = completed(&cluster);
        assert_eq!((&told["verdict"], &told["workers"]), (&json!("pass"), &json!("3/3")), "{told}");
        let result = cluster.objects()["configmaps/nearside-pods-result"]["data"]["result.json"].clone();
        let result: Value = serde_json::from_str(result.as_str().expect("text")).expect("a result");
        let number = |path: &str| result.pointer(path).and_then(Value::as_u64).expect("a number");
        let sent = number("/traffic/sent") + number("/warm_up_phase/traffic/sent") + number("/ramp_phase/traffic/sent");
        assert_eq!(server.paths().len() as u64, sent, "nothing is lost, and nothing counts twice");
        cluster.delete("loadtests/pods");
        let before = server.paths().len();
        cluster.put("loadtests/pods", object(&server, 60, &json!({})));
        wait_for("requests", || server.paths().len() > before + 20);
        let workers: Vec<u32> = (0..3).map(|index| cluster.process(index).expect("it runs")).collect();
        cluster.delete("loadtests/pods");
        let free = |objects: &std::collections::BTreeMap<String, Value>| {
            objects
                .iter()
                .all(|(path, one)| !path.starts_with("leases/nearside-target") || one["spec"]["holderIdentity"] == "")
        };
        wait_for("its target to be left", || free(&cluster.objects()));
        assert!(!workers.iter().copied().any(is_alive), "{workers:?}");
        assert!(!cluster.objects().keys().any(|path| path.starts_with("jobs/") || path.starts_with("secrets/")));
        assert_eq!(second.end(Signal::TERM), Some(0));
    });
}
