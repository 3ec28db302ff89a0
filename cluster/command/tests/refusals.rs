//! What `nearside-cluster` refuses before a worker is started, what it renders, and how it exits.
//!
//! Cargo builds a package's programs for its integration tests alone: that these are here
//! also lets the tests of testing/interop find the program beside `nearside`.

use std::fs;
use std::path::PathBuf;
use std::process::{Command, Output};

fn run(words: &[&str]) -> (Option<i32>, String) {
    let command = Command::new(env!("CARGO_BIN_EXE_nearside-cluster")).args(words).output();
    let Output { status, stdout, stderr } = command.expect("it starts");
    (status.code(), format!("{}{}", String::from_utf8_lossy(&stdout), String::from_utf8_lossy(&stderr)))
}

/// A file of a test, in a folder of its own.
fn file(name: &str, text: &str) -> PathBuf {
    let folder = std::env::temp_dir().join(format!("nearside-refusals-{name}-{}", std::process::id()));
    fs::create_dir_all(&folder).expect("a temporary folder");
    let path = folder.join("test.yaml");
    fs::write(&path, text).expect("a temporary file");
    path
}

fn refused(name: &str, text: &str) -> String {
    let path = file(name, text);
    let (code, said) = run(&["run", path.to_str().expect("text"), "--local"]);
    assert_eq!(code, Some(2), "{said}");
    fs::remove_dir_all(path.parent().expect("a folder")).expect("made above");
    said
}

#[test]
fn a_file_that_is_not_there_is_named() {
    let (code, said) = run(&["run", "/nonexistent/test.yaml", "--local"]);
    assert!(code.is_some_and(|code| code != 0), "{said}");
    assert!(said.contains("/nonexistent/test.yaml"), "{said}");
}

#[test]
fn a_file_of_another_kind_is_refused_with_its_line() {
    let said = refused("kind", "apiVersion: nearside.dev/v1alpha1\nkind: Deployment\nmetadata: {name: a}\n");
    assert!(said.contains("Deployment"), "{said}");
    let said = refused("broken", "apiVersion: [\n");
    assert!(said.contains("line "), "{said}");
}

#[test]
fn fields_are_refused_by_name_each_with_its_line() {
    let text = "apiVersion: nearside.dev/v1alpha1\nkind: LoadTest\nmetadata: {name: a}\nspec:\n  \
                target: http://127.0.0.1:1/\n  workers: 3\n  rate: 2\n  workerz: 9\n";
    let said = refused("fields", text);
    assert!(said.contains("line 7: spec.rate: 2 a second over 3 workers"), "{said}");
    assert!(said.contains("line 8: spec.workerz: there is no such field"), "{said}");
}

/// And its place is looked at before a worker is started.
#[test]
fn a_page_is_not_written_onto_the_test_or_another_output() {
    let text = "apiVersion: nearside.dev/v1alpha1\nkind: LoadTest\nmetadata: {name: a}\nspec:\n  \
                target: http://127.0.0.1:1/\n  workers: 1\n  connections: 1\n  duration: 1s\n";
    let path = file("page", text);
    let (spec, folder) = (path.to_str().expect("text"), path.parent().expect("a folder").to_str().expect("text"));
    let lines = format!("{folder}/lines.ndjson");
    for (html, told) in [(spec, "onto itself"), (lines.as_str(), "onto itself"), (folder, "Is a directory")] {
        let (code, said) = run(&["run", spec, "--local", "--ndjson", &lines, "--html", html]);
        assert!(code == Some(1) && said.contains(told), "{code:?} {said}");
    }
    assert_eq!(fs::read_to_string(&path).expect("it is there"), text);
    fs::remove_dir_all(folder).expect("made above");
}

const CLUSTER: &str = "apiVersion: nearside.dev/v1alpha1\nkind: LoadTest\nmetadata: {name: shop, namespace: load}\nspec:\n  \
                       target: http://shop.example/\n  workers: 3\n  request: {headers: [{name: A, valueFrom: \
                       {secretKeyRef: {name: s, key: k}}}]}\n";

#[test]
fn a_test_is_rendered_without_a_cluster_and_without_its_secrets() {
    let path = file("render", CLUSTER);
    let spec = path.to_str().expect("text");
    let (code, text) = run(&["render", spec, "--image", "registry.example/nearside:1"]);
    assert_eq!(code, Some(0), "{text}");
    let kinds: Vec<String> = audit::yaml::documents(&text)
        .unwrap_or_else(|why| panic!("{why}: {text}"))
        .iter()
        .map(|one| {
            format!(
                "{} {}",
                one.text_at("kind").unwrap_or_default(),
                one.text_at("metadata.namespace").unwrap_or_default()
            )
        })
        .collect();
    assert_eq!(kinds, ["Lease load", "Job load", "Secret load"]);
    assert!(text.contains("(the key k of the secret s)"), "{text}");
    let (code, json) = run(&["render", spec, "--image", "registry.example/nearside:1", "--json"]);
    assert_eq!(code, Some(0), "{json}");
    let list: serde_json::Value = serde_json::from_str(&json).expect("JSON");
    assert_eq!(list["items"].as_array().map(Vec::len), Some(3));
    assert_eq!(list["items"][1]["spec"]["completions"], 3);
    for (words, told) in [
        (&["--image", "a b"][..], "write an image as in"),
        (&["--image", "a", "--namespace", "A"], "a name has 1 to 63"),
        (&["--image", "a", "--namespace", "other"], "line 3: metadata.namespace: the test belongs to load"),
        (&[], "spec.pods.image: this is missing"),
    ] {
        let (code, said) = run(&[&["render", spec][..], words].concat());
        assert!(code == Some(2) && said.contains(told), "{words:?}: {code:?} {said}");
    }
    for address in ["7000", ":7000", "a:", "a:0", "a:70000", "a b:7000"] {
        let (code, said) = run(&["run", spec, "--address", address]);
        assert!(code == Some(2) && said.contains("is no address as in 192.0.2.7:7000"), "{address}: {code:?} {said}");
    }
    fs::remove_dir_all(path.parent().expect("a folder")).expect("made above");
}

const AUDIT: &str = "apiVersion: nearside.dev/v1alpha1\nkind: NodeAudit\nmetadata: {name: a}\nspec:\n";

#[test]
fn an_audit_is_refused_by_field_and_options_of_tests_are_not_of_audits() {
    let said = refused("audit", &format!("{AUDIT}  role: database\n  evry: 3\n"));
    assert!(said.contains("line 5: spec.role: 'database': write one of web, "), "{said}");
    assert!(said.contains("line 6: spec.evry: there is no such field"), "{said}");
    let path = file("audit-page", &format!("{AUDIT}  role: mixed\n"));
    let (code, said) = run(&["run", path.to_str().expect("text"), "--local", "--html", "a.html"]);
    assert!(code == Some(1) && said.contains("--html is of tests"), "{said}");
    let (code, said) = run(&["render", path.to_str().expect("text")]);
    assert!(code == Some(2) && said.contains("spec.pods.image: this is missing"), "{said}");
    let (code, said) = run(&["render", path.to_str().expect("text"), "--image", "a:1"]);
    assert!(code == Some(0) && said.contains("kind: Pod") && said.contains("runAsNonRoot: true"), "{said}");
    fs::remove_dir_all(path.parent().expect("a folder")).expect("made above");
}
