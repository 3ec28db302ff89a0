//! Tests as objects of Kubernetes: what is in them, how they are written, and what is refused.

use audit::yaml::{Node, Value as Place, documents};
use manifests::{
    AuditKeys, AuditPod, AuditSetting, ClusterRights, Contents, InstallSetting, Manifests, NODE, ROUND, Setting,
    audit_pod_name, audit_secret_name, install, install_audits, lease_name, node_secret_name, objects, record_name,
    test_name, yaml,
};
use serde_json::{Value, json};
use spec::{LoadTest, NodeAudit};

const TEST: &str = "\
apiVersion: nearside.dev/v1alpha1
kind: LoadTest
metadata: {name: checkout}
spec:
  target: http://10.0.0.2:8080/cart?a=$(HOSTNAME)
  workers: 12
  connections: 120
  rate: 1.2k
  request: {headers: [{name: A, value: b}]}
  pods:
    image: registry.example/nearside:1
    nodeSelector: {pool: load}
    tolerations: [{key: dedicated, value: load, effect: NoSchedule}]
    spread: required
";

const CONTENTS: Contents<'_> = Contents {
    token: "(a token)",
    key: "(a key)",
    tokens: &[],
    controller: "10.0.0.9:7000",
    request: "{}\n",
    feed: None,
};

fn read(text: &str) -> LoadTest {
    LoadTest::read(text).expect("a test")
}

fn rendered(text: &str, contents: Contents<'_>) -> Result<Manifests, Vec<String>> {
    let test = read(text);
    let found = objects(&Setting { test: &test, source: text, namespace: "shop", image: None, owner: None, contents });
    found.map_err(|wrong| wrong.iter().map(ToString::to_string).collect())
}

#[test]
fn a_test_is_a_job_of_workers_without_rights_and_none_is_started_again() {
    let found = rendered(TEST, CONTENTS).expect("it can be");
    assert_eq!(found, rendered(TEST, CONTENTS).expect("it can be"), "the same each time");
    for (object, kind, name) in [
        (&found.secret, "Secret", "nearside-checkout"),
        (&found.job, "Job", "nearside-checkout"),
        (&found.lease, "Lease", "nearside-target-"),
    ] {
        assert_eq!(object["kind"], kind);
        let metadata = &object["metadata"];
        assert!(metadata["name"].as_str().is_some_and(|found| found.starts_with(name)), "{metadata}");
        assert_eq!(metadata["namespace"], "shop");
        assert_eq!(metadata["labels"]["app.kubernetes.io/managed-by"], "nearside-cluster");
    }
    let spec = &found.job["spec"];
    for (field, value) in [
        ("completionMode", json!("Indexed")),
        ("completions", json!(12)),
        ("parallelism", json!(12)),
        ("suspend", json!(true)),
        ("backoffLimitPerIndex", json!(0)),
        ("podReplacementPolicy", json!("Failed")),
        // 60 s to make ready, 1 and 10 of load, 10 for the last answer, and 60.
        ("activeDeadlineSeconds", json!(141)),
        ("ttlSecondsAfterFinished", json!(600)),
    ] {
        assert_eq!(spec[field], value, "{field}");
    }
    let pod = &spec["template"]["spec"];
    assert_eq!((&pod["restartPolicy"], &pod["automountServiceAccountToken"]), (&json!("Never"), &json!(false)));
    assert_eq!(pod["securityContext"]["runAsNonRoot"], true);
    let container = &pod["containers"][0];
    assert_eq!(container["securityContext"]["capabilities"]["drop"], json!(["ALL"]));
    assert_eq!(container["securityContext"]["allowPrivilegeEscalation"], false);
    assert_eq!(container["resources"]["requests"], json!({ "cpu": "1", "memory": "50495488" }));
    assert_eq!(container["resources"]["limits"], json!({ "memory": "50495488" }));
    assert_eq!(pod["nodeSelector"], json!({ "pool": "load" }));
    let toleration = json!([{ "key": "dedicated", "operator": "Equal", "value": "load", "effect": "NoSchedule" }]);
    assert_eq!(pod["tolerations"], toleration);
    let spread = &pod["topologySpreadConstraints"][0];
    assert_eq!(spread["whenUnsatisfiable"], "DoNotSchedule");
    let (labels, selected) = (&spec["template"]["metadata"]["labels"], &spread["labelSelector"]["matchLabels"]);
    let selected = selected.as_object().expect("a map");
    assert!(selected.len() == 2 && selected.iter().all(|(key, value)| labels[key] == *value), "{labels} {selected:?}");
}

#[test]
fn a_workers_command_line_has_its_index_and_no_secret() {
    let found = rendered(TEST, Contents { feed: Some(b"user\nann\n"), ..CONTENTS }).expect("it can be");
    let container = &found.job["spec"]["template"]["spec"]["containers"][0];
    let words: Vec<&str> = container["args"].as_array().expect("a list").iter().filter_map(Value::as_str).collect();
    assert_eq!(
        (words[0], words[1]),
        ("load", "http://10.0.0.2:8080/cart?a=$$(HOSTNAME)"),
        "the kubelet fills nothing in"
    );
    let after = |option: &str| words.iter().position(|word| *word == option).map(|at| words[at + 1]);
    assert_eq!(after("--worker"), Some("$(JOB_COMPLETION_INDEX)/12"));
    assert_eq!(after("--controller-folder"), Some("/run/nearside-test"));
    assert_eq!(after("--urls"), Some("/run/nearside-test/request.json"));
    assert!(!found.job.to_string().contains("(a token)"));
    assert_eq!(found.secret["stringData"]["token"], "(a token)");
    assert_eq!(found.secret["stringData"]["feed.csv"], "user\nann\n");
    let binary = rendered(TEST, Contents { feed: Some(b"user\n\xff\n"), ..CONTENTS }).expect("it can be");
    assert_eq!(binary.secret["data"]["feed.csv"], "dXNlcgr/Cg==");
    // Another file, image or row is another test.
    let identity = |found: &Manifests| found.job["metadata"]["annotations"]["nearside.dev/test"].clone();
    let other = rendered(&TEST.replace("rate: 1.2k", "rate: 1.3k"), CONTENTS).expect("it can be");
    assert!(identity(&found) != identity(&binary) && identity(&other) != identity(&found));
}

/// Of the tokens in its Secret a worker's pod is shown that of its index alone; and never the controller's.
#[test]
fn a_worker_sees_its_own_token_and_no_other() {
    let tokens: Vec<String> = (0..12).map(|worker| format!("(that of {worker})")).collect();
    let found = rendered(TEST, Contents { tokens: &tokens, ..CONTENTS }).expect("it can be");
    let data = &found.secret["stringData"];
    assert_eq!((&data["token-0"], &data["token-11"]), (&json!("(that of 0)"), &json!("(that of 11)")));
    let pod = &found.job["spec"]["template"]["spec"];
    let volumes = pod["volumes"].as_array().expect("a list");
    assert!(volumes.len() == 1 && volumes[0]["secret"]["secretName"] == "nearside-checkout", "{volumes:?}");
    let mounts = pod["containers"][0]["volumeMounts"].as_array().expect("a list");
    let mut seen = Vec::new();
    for mount in mounts {
        assert_eq!(mount["readOnly"], true, "{mount}");
        // Without one the whole Secret would be seen.
        let part = mount["subPath"].as_str().or(mount["subPathExpr"].as_str()).expect("a part of it");
        seen.push((mount["mountPath"].as_str().expect("a path"), part));
    }
    let expected = [
        ("/run/nearside-test/token", "token-$(JOB_COMPLETION_INDEX)"),
        ("/run/nearside-test/controller", "controller"),
        ("/run/nearside-test/controller-key", "controller-key"),
        ("/run/nearside-test/request.json", "request.json"),
    ];
    assert_eq!(seen, expected);
    assert!(!seen.iter().any(|(_, part)| *part == "token"), "that is the controller's");
    let fed = rendered(TEST, Contents { feed: Some(b"user\nann\n"), ..CONTENTS }).expect("it can be");
    let mounts = &fed.job["spec"]["template"]["spec"]["containers"][0]["volumeMounts"];
    assert_eq!(mounts[4]["subPath"], "feed.csv");
}

#[test]
fn names_are_labels_of_dns_and_a_target_has_one_queue() {
    let test = read(&TEST.replace("name: checkout", &format!("name: {}", "a".repeat(51))));
    let last = format!("{}-11", test_name(&test));
    assert_eq!(last.len(), 63);
    assert!(lease_name(&test).len() <= 63);
    let of = |target: &str| lease_name(&read(&TEST.replace("http://10.0.0.2:8080/cart?a=$(HOSTNAME)", target)));
    assert_eq!(of("http://shop/a"), of("http://SHOP:80/b"));
    assert_ne!(of("http://shop/"), of("http://shop:81/"));
}

#[test]
fn what_cannot_be_in_a_cluster_is_refused_with_place_and_reason() {
    let big = vec![b'x'; 1 << 20];
    for (from, to, told) in [
        ("10.0.0.2:8080", "127.0.0.1:8080", "line 5: spec.target: in a pod that is the pod itself"),
        ("10.0.0.2:8080", "localhost", "line 5: spec.target: in a pod"),
        ("10.0.0.2:8080", "[::1]", "line 5: spec.target: in a pod"),
        ("10.0.0.2:8080", "[::ffff:127.0.0.1]", "line 5: spec.target: in a pod"),
        ("    image: registry.example/nearside:1\n", "", "line 11: spec.pods.image: this is missing"),
        ("{name: checkout}", "{name: a, namespace: other}", "line 3: metadata.namespace: the test belongs to other"),
    ] {
        let all = rendered(&TEST.replace(from, to), CONTENTS).expect_err(told);
        assert!(all.iter().any(|one| one.contains(told)), "{told}: {all:?}");
    }
    let template = TEST.replace("{headers:", "{template: true, feed: {file: f}, headers:");
    let all = rendered(&template, Contents { feed: Some(&big), ..CONTENTS }).expect_err("too much");
    assert!(
        all[0].contains("spec.request.feed.file: with this the test's Secret has") && all[0].starts_with("line 9"),
        "{all:?}"
    );
}

/// What YAML says, held against what was written.
fn same(place: &Node, value: &Value) -> bool {
    match (&place.value, value) {
        (Place::Map(map), Value::Object(other)) => {
            map.len() == other.len()
                && map.iter().all(|(key, place)| other.get(key).is_some_and(|one| same(place, one)))
        }
        (Place::List(list), Value::Array(other)) => {
            list.len() == other.len() && list.iter().zip(other).all(|(place, one)| same(place, one))
        }
        (Place::Scalar(text) | Place::Block(text), Value::String(other)) => text == other,
        (Place::Scalar(text), other) => serde_json::from_str::<Value>(text).is_ok_and(|read| read == *other),
        _ => false,
    }
}

#[test]
fn what_is_written_is_read_as_it_was() {
    let found = rendered(TEST, CONTENTS).expect("it can be");
    let text = yaml(&found.all());
    let read = documents(&text).expect(&text);
    assert_eq!(read.len(), 3);
    for (place, value) in read.iter().zip(found.all()) {
        assert!(same(place, value), "{text}");
    }
    assert!(text.contains("\n  completionMode: Indexed\n"), "{text}");
    let mut random = random::SplitMix64::new(5);
    let letters: Vec<char> = "ab1.-_/:#\"'\\\n\t\u{7f}\u{85}\u{feff}é\u{1f980} {}[]&*!|>%@`,?~=".chars().collect();
    for _ in 0..2_000 {
        let mut words =
            |most: usize| -> String { (0..random.below(most)).map(|_| letters[random.below(letters.len())]).collect() };
        let value =
            json!({ "k": words(12), "list": [words(5), { "b": words(4), "a": [[words(3), 7], {}, []] }], "t": true });
        let text = yaml(&[&value]);
        let read = documents(&text).unwrap_or_else(|why| panic!("{why}: {text}"));
        assert!(read.len() == 1 && same(&read[0], &value), "{value}\n{text}");
    }
    // Not what some readers take for something else.
    for word in ["true", "No", "y", "1", "1e3", "0x1", "1:2", "", "~", "null", "- a", "a: b", ".5", "2026-11-30"] {
        let text = yaml(&[&json!({ "a": word })]);
        assert_eq!(text, format!("a: \"{word}\"\n"));
    }
}

#[test]
fn what_installs_the_operator_gives_it_rights_in_its_namespace_alone_and_no_more_than_it_asks_for() {
    let all = install(InstallSetting { namespace: "shop", image: "r.example/n:1" });
    let kinds: Vec<&str> = all.iter().map(|one| one["kind"].as_str().expect("a kind")).collect();
    let needed =
        ["Namespace", "CustomResourceDefinition", "ServiceAccount", "Role", "RoleBinding", "Service", "Deployment"];
    assert_eq!(kinds, needed);
    let is_of_cluster = |kind: &str| kind == "Namespace" || kind == "CustomResourceDefinition";
    for one in &all {
        let is_inside = one["metadata"]["namespace"] == "shop";
        assert_eq!(is_inside, !is_of_cluster(one["kind"].as_str().expect("a kind")), "{one}");
    }
    let rules = all[3]["rules"].as_array().expect("a list");
    let words = |rule: &Value, field: &str| rule[field].to_string();
    assert!(!rules.iter().any(|rule| words(rule, "verbs").contains('*') || words(rule, "resources").contains('*')));
    assert!(
        !rules.iter().any(|rule| words(rule, "resources").contains("secrets") && words(rule, "verbs").contains("list"))
    );
    let pod = &all[6]["spec"]["template"]["spec"];
    let container = &pod["containers"][0];
    assert_eq!(
        (&container["image"], &pod["serviceAccountName"]),
        (&json!("r.example/n:1"), &json!("nearside-operator"))
    );
    assert_eq!(container["securityContext"]["capabilities"]["drop"], json!(["ALL"]));
    let words: Vec<&str> = container["args"].as_array().expect("a list").iter().filter_map(Value::as_str).collect();
    assert_eq!(words, ["--namespace", "shop", "--image", "r.example/n:1", "--host", "nearside-operator.shop.svc"]);
    // The Service means these pods, and workers' pods are none of them.
    let labels = &all[6]["spec"]["template"]["metadata"]["labels"];
    assert_eq!((&all[5]["spec"]["selector"], &all[5]["spec"]["clusterIP"]), (labels, &json!("None")));
    assert_eq!(labels["app.kubernetes.io/component"], "operator");
    assert!(!install(InstallSetting { namespace: "default", image: "n" }).iter().any(|one| one["kind"] == "Namespace"));
    let text = yaml(&all.iter().collect::<Vec<&Value>>());
    let read = documents(&text).expect(&text);
    assert!(read.len() == all.len() && read.iter().zip(&all).all(|(place, value)| same(place, value)), "{text}");
}

const AUDIT: &str = "\
apiVersion: nearside.dev/v1alpha1
kind: NodeAudit
metadata: {name: fleet}
spec: {role: mixed, answerWithin: 30s, pods: {tolerations: [{operator: Exists}]}}
";

#[test]
fn the_pod_of_an_audit_is_for_one_node_reads_its_folders_and_has_no_rights() {
    let audit = NodeAudit::read(AUDIT).expect("an audit");
    let setting = AuditSetting { audit: &audit, namespace: "ops", image: Some("nearside:1"), owner: Some("u-1") };
    assert!(setting.wrong().is_empty());
    let keys = AuditKeys { token: "(a token)", key: "(a key)", controller: "10.0.0.9:7000" };
    let secret = setting.secret(keys, 77);
    assert_eq!(secret["metadata"]["name"], audit_secret_name("fleet"));
    assert_eq!(secret["metadata"]["annotations"][ROUND], "77");
    assert_eq!(secret["metadata"]["ownerReferences"][0]["uid"], "u-1");
    assert!(setting.is_of(&secret));
    let another = NodeAudit::read(&AUDIT.replace("30s", "40s")).expect("an audit");
    assert!(!AuditSetting { audit: &another, ..setting }.is_of(&secret), "of another audit");
    let pod = setting.pod(AuditPod { node: "n-1", round: 77, secret: "u-2" });
    assert_eq!(pod, setting.pod(AuditPod { node: "n-1", round: 77, secret: "u-2" }), "the same each time");
    let metadata = &pod["metadata"];
    assert_eq!(metadata["name"], audit_pod_name("fleet", "n-1", 77).as_str());
    assert_eq!(
        (&metadata["annotations"][NODE], &metadata["ownerReferences"][0]["uid"]),
        (&json!("n-1"), &json!("u-2"))
    );
    assert_ne!(audit_pod_name("fleet", "n-1", 77), audit_pod_name("fleet", "n-1", 78));
    let spec = &pod["spec"];
    let required = &spec["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"];
    let only = &required["nodeSelectorTerms"][0]["matchFields"][0];
    assert_eq!((&only["key"], &only["values"]), (&json!("metadata.name"), &json!(["n-1"])));
    assert_eq!((&spec["restartPolicy"], &spec["automountServiceAccountToken"]), (&json!("Never"), &json!(false)));
    assert_eq!((&spec["activeDeadlineSeconds"], &spec["hostNetwork"]), (&json!(90), &json!(true)));
    assert!(spec["hostPID"].is_null() && spec["hostIPC"].is_null());
    assert_eq!(spec["securityContext"]["runAsNonRoot"], true);
    let container = &spec["containers"][0];
    let context = &container["securityContext"];
    assert_eq!(
        (&context["capabilities"], &context["readOnlyRootFilesystem"]),
        (&json!({ "drop": ["ALL"] }), &json!(true))
    );
    assert!(context["privileged"].is_null() && context["allowPrivilegeEscalation"] == false);
    let mounts = container["volumeMounts"].as_array().expect("a list");
    assert!(mounts.iter().all(|one| one["readOnly"] == true), "{mounts:?}");
    let paths = spec["volumes"].as_array().expect("a list").iter().filter_map(|one| one["hostPath"]["path"].as_str());
    assert_eq!(paths.collect::<Vec<_>>(), ["/proc", "/sys", "/etc", "/usr/lib"]);
    // Names of what is kept say whose it is, and are never too long, nor another's.
    assert_eq!(record_name("fleet", "n-1"), "nearside-fleet.n-1");
    assert!(record_name("fleet", &"n".repeat(253)).len() <= 253);
    assert_ne!(record_name("a", "b-c"), record_name("a-b", "c"));
}

#[test]
fn no_pod_of_an_audit_names_what_another_node_or_the_controller_alone_may_know() {
    let audit = NodeAudit::read(AUDIT).expect("an audit");
    let setting = AuditSetting { audit: &audit, namespace: "ops", image: Some("nearside:1"), owner: Some("u-1") };
    let mut named = Vec::new();
    for node in ["n-1", "n-2"] {
        let of = AuditPod { node, round: 77, secret: "u-2" };
        let keys = AuditKeys { token: node, key: "(a key)", controller: "10.0.0.9:7000" };
        let (secret, pod) = (setting.node_secret(of, keys), setting.pod(of));
        let volumes = pod["spec"]["volumes"].as_array().expect("a list").iter();
        let names: Vec<&str> = volumes.filter_map(|one| one["secret"]["secretName"].as_str()).collect();
        assert_eq!(names, [node_secret_name("fleet", node, "u-2")]);
        assert_eq!(secret["metadata"]["name"], names[0]);
        // It goes with its round, as the pod does.
        assert_eq!(secret["metadata"]["ownerReferences"], pod["metadata"]["ownerReferences"]);
        assert_eq!((&secret["stringData"]["token"], &secret["immutable"]), (&json!(node), &json!(true)));
        assert!(!setting.is_of(&secret), "it is not the round's");
        named.push(names[0].to_owned());
    }
    assert_ne!(named[0], named[1]);
    assert!(!named.contains(&audit_secret_name("fleet")));
    // What is still to go of another round with the same number is another.
    assert_ne!(node_secret_name("fleet", "n-1", "u-2"), node_secret_name("fleet", "n-1", "u-3"));
}

#[test]
fn an_audit_without_an_image_or_of_another_namespace_is_refused() {
    let audit = NodeAudit::read(&AUDIT.replace("name: fleet", "name: fleet, namespace: shop")).expect("an audit");
    let wrong = AuditSetting { audit: &audit, namespace: "ops", image: None, owner: None }.wrong();
    let told: Vec<String> = wrong.iter().map(ToString::to_string).collect();
    assert_eq!(told.len(), 2, "{told:?}");
    assert!(told[0].contains("metadata.namespace: the audit belongs to shop"), "{told:?}");
    assert!(told[1].contains("spec.pods.image: this is missing"), "{told:?}");
}

#[test]
fn the_operator_of_audits_may_list_nodes_and_has_all_else_in_its_namespace() {
    let setting = InstallSetting { namespace: "ops", image: "nearside:1" };
    let all = install_audits(setting, ClusterRights::Nodes);
    // What it may read of the whole cluster is asked for.
    let rules = |all: &[Value]| {
        let role = all.iter().find(|one| one["kind"] == "ClusterRole").expect("a ClusterRole");
        role["rules"].as_array().expect("a list").clone()
    };
    let more = rules(&install_audits(setting, ClusterRights::NodesAndTuning));
    assert_eq!((rules(&all).len(), more.len()), (1, 4));
    assert!(more.iter().all(|rule| rule["verbs"] == json!(["list"])), "{more:?}");
    let of = |kind: &str| all.iter().find(|one| one["kind"] == kind).unwrap_or_else(|| panic!("{kind}"));
    assert_eq!(of("Namespace")["metadata"]["labels"]["pod-security.kubernetes.io/enforce"], "privileged");
    let crd = of("CustomResourceDefinition");
    assert_eq!(crd["metadata"]["name"], "nodeaudits.nearside.dev");
    let rules = json!([{ "apiGroups": [""], "resources": ["nodes"], "verbs": ["list"] }]);
    assert_eq!(of("ClusterRole")["rules"], rules);
    assert_eq!(of("ClusterRoleBinding")["roleRef"]["name"], of("ClusterRole")["metadata"]["name"]);
    let may = |resource: &str| {
        let rules = of("Role")["rules"].as_array().expect("a list");
        rules.iter().find(|rule| rule["resources"][0] == resource).map(|rule| rule["verbs"].clone()).unwrap_or_default()
    };
    assert_eq!(may("secrets"), json!(["get", "create", "delete"]));
    assert_eq!(may("pods"), json!(["list", "create", "delete"]));
    let pod = &of("Deployment")["spec"]["template"]["spec"];
    assert_eq!(pod["containers"][0]["command"], json!(["nearside", "cluster", "operate", "--audits"]));
    assert!(pod["hostNetwork"].is_null() && pod["securityContext"]["runAsNonRoot"] == true);
    // And the operator of tests has seen nothing of that.
    let tests = install(InstallSetting { namespace: "ops", image: "nearside:1" });
    assert!(!tests.iter().any(|one| one["kind"] == "ClusterRole"));
    let namespace = tests.iter().find(|one| one["kind"] == "Namespace").expect("it");
    assert_eq!(namespace["metadata"]["labels"]["pod-security.kubernetes.io/enforce"], "restricted");
}
