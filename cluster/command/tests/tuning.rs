//! `nearside cluster explain` and `plan`: from files, and from an API server that has two of the four kinds.

use serde_json::{Value, json};
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::{Command, Output};
use std::thread;

const TUNED: &str = "\
apiVersion: tuned.openshift.io/v1
kind: Tuned
metadata: {name: low}
spec:
  profile:
  - name: low
    data: |
      [sysctl]
      vm.swappiness=10
      kernel.timer_migration=1
";

fn run(words: &[&str]) -> (Option<i32>, String, String) {
    let command = Command::new(env!("CARGO_BIN_EXE_nearside-cluster")).args(words).output();
    let Output { status, stdout, stderr } = command.expect("it starts");
    let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
    (status.code(), text(stdout), text(stderr))
}

fn folder(name: &str) -> PathBuf {
    let folder = std::env::temp_dir().join(format!("nearside-tuning-{name}-{}", std::process::id()));
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(folder.join("audits")).expect("a temporary folder");
    folder
}

fn audit(swappiness: &str) -> String {
    let row = json!({
        "key": "vm.swappiness", "subject": "", "value": swappiness, "verdict": "improvable", "want": "10",
        "why": "it swaps", "risk": "none",
    });
    json!({ "kind": "audit", "schema": 1, "role": "mixed", "environment": {}, "rows": [row] }).to_string()
}

#[test]
fn what_is_in_force_is_told_by_node_and_the_exit_code_says_whether_all_of_it_is() {
    let folder = folder("files");
    let (tuned, audits) = (folder.join("tuned.yaml"), folder.join("audits"));
    fs::write(&tuned, TUNED).expect("a file");
    for (node, swappiness) in [("node-a", "10"), ("node-b", "60"), ("node-c", "10")] {
        fs::write(audits.join(format!("{node}.json")), audit(swappiness)).expect("a file");
    }
    let (tuned, audits) = (tuned.to_str().expect("text"), audits.to_str().expect("text"));
    let (code, said, _) = run(&["explain", tuned]);
    assert_eq!(code, Some(0), "{said}");
    assert!(said.contains("  9: [sysctl] vm.swappiness = 10\n    how gladly memory"), "{said}");
    assert!(said.ends_with("lines, 0 not known\n"), "{said}");
    let (code, said, _) = run(&["explain", tuned, "--reports", audits]);
    assert_eq!(code, Some(3), "{said}");
    for words in [
        "    in force: 10 (node-a, node-c)\n    OTHERWISE: 60 (node-b)\n",
        "    cannot be seen: its audit has no \"kernel.timer_migration\" (node-a, node-b, node-c)\n",
        "; on 3 nodes: 0 in force, 1 otherwise, ",
    ] {
        assert!(said.contains(words), "{words}: {said}");
    }
    let (_, short, _) = run(&["explain", tuned, "--reports", audits, "--differing"]);
    assert!(short.contains("vm.swappiness") && !short.contains("  10: [sysctl]"), "{short}");
    let (_, said, _) = run(&["explain", tuned, "--reports", audits, "--json"]);
    let lines: Value = serde_json::from_str(&said).expect("JSON");
    let line = lines.as_array().expect("a list").iter().find(|line| line["value"] == "10").expect("it is there");
    assert_eq!(line["on"][1], json!({ "node": "node-b", "is": "otherwise", "found": "60" }));
    // Something that is not known is told, and with --strict it counts.
    fs::write(folder.join("other.yaml"), TUNED.replace("vm.swappiness", "vm.shininess")).expect("a file");
    let other = folder.join("other.yaml");
    let other = other.to_str().expect("text");
    assert_eq!(run(&["explain", other]).0, Some(0));
    let (code, said, _) = run(&["explain", other, "--strict"]);
    assert!(code == Some(4) && said.contains("NOT KNOWN") && said.ends_with("1 not known\n"), "{said}");
    // What is no audit, or no manifest, is named.
    fs::write(folder.join("audits/node-d.json"), "{}").expect("a file");
    let (code, _, why) = run(&["explain", tuned, "--reports", audits]);
    assert!(code == Some(1) && why.contains("node-d.json: it is no result"), "{why}");
    fs::write(folder.join("broken.yaml"), "a: [\n").expect("a file");
    let broken = folder.join("broken.yaml");
    let (code, _, why) = run(&["explain", broken.to_str().expect("text")]);
    assert!(code == Some(1) && why.contains("broken.yaml: line "), "{why}");
    fs::remove_dir_all(folder).expect("made above");
}

#[test]
fn a_plan_of_audits_is_a_manifest_that_explain_understands_and_nothing_where_all_is_right() {
    let folder = folder("plan");
    let audits = folder.join("audits");
    for node in ["node-a", "node-b"] {
        fs::write(audits.join(format!("{node}.json")), audit("60")).expect("a file");
    }
    let audits = audits.to_str().expect("text");
    let (code, said, beside) = run(&["plan", "--reports", audits, "--pool", "worker-low", "--name", "fleet"]);
    assert_eq!(code, Some(0), "{beside}");
    assert!(beside.contains("vm.swappiness: 60 on 2, will be 10: it swaps (risk: none)"), "{beside}");
    assert!(said.contains("kind: Tuned") && said.contains("worker-low"), "{said}");
    let manifest = folder.join("plan.yaml");
    fs::write(&manifest, &said).expect("a file");
    let (code, said, _) = run(&["explain", manifest.to_str().expect("text"), "--strict"]);
    assert_eq!(code, Some(0), "{said}");
    assert!(said.contains("[sysctl] vm.swappiness = 10"), "{said}");
    let right = audit("10").replace("improvable", "ok");
    for node in ["node-a", "node-b"] {
        fs::write(folder.join(format!("audits/{node}.json")), &right).expect("a file");
    }
    let (code, said, beside) = run(&["plan", "--reports", audits]);
    assert!(code == Some(4) && said.is_empty() && beside.contains("nothing to change"), "{said}{beside}");
    assert_eq!(run(&["plan"]).0, Some(1));
    fs::remove_dir_all(folder).expect("made above");
}

/// Answers one question after the other, until nobody asks any more.
fn serve(listener: &TcpListener, mut asked: impl FnMut(&str) -> Option<Value>) {
    for stream in listener.incoming().flatten() {
        let _ = answer(stream, &mut asked);
    }
}

fn answer(mut stream: TcpStream, asked: &mut impl FnMut(&str) -> Option<Value>) -> std::io::Result<()> {
    let mut lines = BufReader::new(stream.try_clone()?).lines();
    let first = lines.next().unwrap_or_else(|| Ok(String::new()))?;
    for line in lines {
        if line?.is_empty() {
            break;
        }
    }
    let path = first.split(' ').nth(1).unwrap_or_default();
    let (status, body) = match asked(path) {
        Some(body) => ("200 OK", body),
        None => ("404 Not Found", json!({ "kind": "Status", "reason": "NotFound", "message": "no such kind" })),
    };
    let body = body.to_string();
    write!(stream, "HTTP/1.1 {status}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}", body.len())
}

#[test]
fn a_cluster_is_asked_for_the_kinds_that_it_has_and_for_what_is_kept_of_nodes() {
    let folder = folder("cluster");
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("bound");
    let config = folder.join("config");
    let text = format!(
        "current-context: c\ncontexts: [{{name: c, context: {{cluster: k, namespace: audits}}}}]\n\
         clusters: [{{name: k, cluster: {{server: 'http://{address}'}}}}]\n"
    );
    fs::write(&config, text).expect("a file");
    let kept = |node: &str, swappiness: &str| {
        json!({
            "metadata": { "annotations": { "nearside.dev/node": node } }, "data": { "audit.json": audit(swappiness) },
        })
    };
    thread::spawn(move || {
        serve(&listener, |path| {
            let list = |items: Value, rest: &str| Some(json!({ "metadata": { "continue": rest }, "items": items }));
            let data = "[sysctl]\nvm.swappiness=10\n";
            let tuned = json!({
                "metadata": { "name": "low", "managedFields": [{}] }, "status": { "x": 1 },
                "spec": { "profile": [{ "name": "low", "data": data }] },
            });
            match path {
                "/apis/tuned.openshift.io/v1/tuneds" => list(json!([tuned]), ""),
                "/apis/performance.openshift.io/v2/performanceprofiles" => list(json!([]), ""),
                path if path.starts_with("/api/v1/namespaces/audits/configmaps?labelSelector=") => {
                    match (path.contains("fleet"), path.contains("&continue=more%2B")) {
                        (true, false) => list(json!([kept("node-a", "10")]), "more+"),
                        (true, true) => list(json!([kept("node-b", "60")]), ""),
                        (false, _) => list(json!([]), ""),
                    }
                }
                _ => None,
            }
        });
    });
    let config = config.to_str().expect("text");
    let (code, said, beside) = run(&["explain", "--kubeconfig", config, "--audit", "fleet"]);
    assert_eq!(code, Some(3), "{said}{beside}");
    assert!(said.contains("Tuned low, profile low (Tuned/low)"), "{said}");
    assert!(said.contains("in force: 10 (node-a)\n    OTHERWISE: 60 (node-b)"), "{said}");
    assert!(!said.contains("managedFields") && !said.contains("status"), "{said}");
    for kind in ["KubeletConfig", "MachineConfig"] {
        assert!(beside.contains(&format!("the cluster has no kind {kind}")), "{beside}");
    }
    let (code, _, beside) = run(&["explain", "--kubeconfig", config, "--audit", "other"]);
    assert!(code == Some(1) && beside.contains("nothing is kept of nodes of the audit other in audits"), "{beside}");
    fs::remove_dir_all(folder).expect("made above");
}
