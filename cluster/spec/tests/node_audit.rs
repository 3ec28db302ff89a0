//! Files of audits: read, refused with place and reason; and the schema that the API server checks them by.

use core::time::Duration;
use serde_json::Value;
use spec::{Expectation, NodeAudit, audit_schema, kind};

const WHOLE: &str = "\
apiVersion: nearside.dev/v1alpha1
kind: NodeAudit
metadata: {name: fleet, namespace: ops}
spec:
  role: mixed
  every: 6h
  parallelism: 20
  answerWithin: 90s
  expect: [alike, nothing-dangerous]
  historyLimit: 7
  pods:
    image: registry.example/nearside:1
    nodeSelector: {pool: fast}
    tolerations: [{operator: Exists}]
    resources: {limits: {memory: 128Mi}}
";

fn refused(spec: &str) -> Vec<String> {
    let text = format!("apiVersion: nearside.dev/v1alpha1\nkind: NodeAudit\nmetadata: {{name: a}}\nspec:\n{spec}");
    let wrong = NodeAudit::read(&text).expect_err("it makes no sense");
    wrong.iter().map(ToString::to_string).collect()
}

#[test]
fn an_audit_is_read_with_its_defaults() {
    let whole = NodeAudit::read(WHOLE).expect("an audit");
    assert_eq!((whole.name.as_str(), whole.namespace.as_deref(), whole.role.name()), ("fleet", Some("ops"), "mixed"));
    assert_eq!((whole.every, whole.parallelism), (Some(Duration::from_secs(6 * 3_600)), 20));
    assert_eq!((whole.answer_within, whole.history, whole.ttl), (Duration::from_secs(90), 7, None));
    assert_eq!(whole.expect, [Expectation::Alike, Expectation::NothingDangerous]);
    assert_eq!(whole.pods.node_selector, [("pool".to_owned(), "fast".to_owned())]);
    assert_eq!(whole.pods.resources.requests.cpu_milli, Some(100));
    assert_eq!(whole.pods.resources.limits.memory, Some(128 << 20));
    assert_eq!((whole.line("spec.every"), whole.line("spec.nonesuch")), (6, 0));
    let bare = "apiVersion: nearside.dev/v1alpha1\nkind: NodeAudit\nmetadata: {name: a}\nspec: {role: load}\n";
    let bare = NodeAudit::read(bare).expect("an audit");
    assert_eq!((bare.every, bare.parallelism, bare.answer_within), (None, 50, Duration::from_secs(60)));
    assert_eq!((bare.history, bare.ttl, bare.expect.len()), (100, None, 0));
    assert_eq!((kind(WHOLE).as_deref(), kind("a: [").as_deref(), kind("b: 1")), (Some("NodeAudit"), None, None));
}

#[test]
fn bad_fields_are_refused_with_place_and_reason() {
    for (spec, told) in [
        ("  role: database\n", "line 5: spec.role: 'database': write one of web, web-kernel, load, forwarder, mixed"),
        ("  role: web\n  evry: 1h\n", "line 6: spec.evry: there is no such field here; there are answerWithin, every"),
        ("  every: 30s\n", "line 5: spec.every: '30s': this is from 1m to 168h"),
        ("  every: daily\n", "spec.every: 'daily': write a time with its unit"),
        ("  answerWithin: 1s\n", "spec.answerWithin: '1s': this is from 5s to 1h"),
        ("  parallelism: 0\n", "spec.parallelism: '0': write a whole number above 0"),
        ("  parallelism: 2000\n", "an audit has 1000 pods at one time at most"),
        ("  historyLimit: 501\n", "of a node 500 changes are kept at most"),
        ("  ttlSecondsAfterFinished: 5\n  every: 1h\n", "spec.ttlSecondsAfterFinished: with every it is never over"),
        ("  expect: [pretty]\n", "spec.expect: this is to be a list of some of alike, nothing-worse"),
        ("  pods: {spread: none}\n", "spec.pods.spread: there is no such field here"),
        ("  pods: {runAsUser: 0}\n", "spec.pods.runAsUser: '0': such a pod needs no rights"),
        ("  pods: {resources: {limits: {memory: 10Mi}}}\n", "such a pod takes 64 Mi"),
    ] {
        let wrong = refused(spec);
        assert!(wrong.iter().any(|one| one.contains(told)), "{spec}{told}\n{wrong:?}");
    }
    let long = WHOLE.replace("fleet", &"f".repeat(32));
    let wrong = NodeAudit::read(&long).expect_err("its name is too long");
    assert!(wrong[0].to_string().starts_with("line 3: metadata.name: names of its pods begin with it"), "{wrong:?}");
    assert!(NodeAudit::read(&WHOLE.replace("fleet", &"f".repeat(31))).is_ok());
    let test = NodeAudit::read(&WHOLE.replace("NodeAudit", "LoadTest")).expect_err("another kind");
    assert!(test.iter().any(|one| one.to_string().contains("kind: 'LoadTest': write NodeAudit")), "{test:?}");
    assert!(NodeAudit::read("a: 1\n---\nb: 2\n").is_err());
}

/// What the reader says that there is, beside a field that is not known.
fn known_to_reader(spec: &str, field: &str) -> Vec<String> {
    let wrong = refused(spec);
    let found = wrong.iter().find(|one| one.contains(&format!("{field}: there is no such field")));
    let why = found.unwrap_or_else(|| panic!("{field}: {wrong:?}"));
    why.split("there are ").nth(1).expect("they are named").split(", ").map(str::to_owned).collect()
}

#[test]
fn the_schema_has_the_fields_that_are_read_and_each_says_what_it_is_and_has_a_limit() {
    fn of_schema(place: &Value) -> Vec<String> {
        let fields = place["properties"].as_object().expect("an object");
        let mut names: Vec<String> = fields.keys().cloned().collect();
        names.sort_unstable();
        names
    }
    fn look(path: &str, place: &Value) {
        assert!(place["description"].is_string(), "{path}");
        let bounded = match place["type"].as_str() {
            Some("string") => place["maxLength"].is_u64() || place["enum"].is_array(),
            Some("array") => place["maxItems"].is_u64(),
            Some("integer") => place["maximum"].is_u64(),
            _ => true,
        };
        assert!(bounded, "{path}");
        for (name, below) in place["properties"].as_object().into_iter().flatten() {
            look(&format!("{path}.{name}"), below);
        }
        if place["items"].is_object() {
            look(&format!("{path}[]"), &place["items"]);
        }
    }
    let whole = audit_schema();
    let spec = &whole["properties"]["spec"];
    assert_eq!(known_to_reader("  nonesuch: 1\n", "spec.nonesuch"), of_schema(spec));
    let pods = &spec["properties"]["pods"];
    assert_eq!(known_to_reader("  pods: {nonesuch: 1}\n", "spec.pods.nonesuch"), of_schema(pods));
    look("spec", spec);
}
