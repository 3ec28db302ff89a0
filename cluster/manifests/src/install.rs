//! What installs an operator: the kind of its objects, its account with what that may do in one namespace, itself.

use crate::objects::MANAGER;
use serde_json::{Map, Value, json};
use spec::{VERSION, audit_schema, schema};

/// The name of what belongs to the operator of tests.
const NAME: &str = "nearside-operator";

/// The name of what belongs to the operator of audits.
const AUDITOR: &str = "nearside-auditor";

/// Where the operator is to be, and what of.
#[derive(Clone, Copy, Debug)]
pub struct InstallSetting<'a> {
    /// The namespace, whose tests it runs.
    pub namespace: &'a str,
    /// The image with the programs: its own, and that of workers whose test names none.
    pub image: &'a str,
}

/// What installs the operator of tests: all objects, in the order in which they are made, the namespace among them, if
/// that is not the one that there is always.
#[must_use]
pub fn install(setting: InstallSetting<'_>) -> Vec<Value> {
    // Neither workers nor the operator need more.
    let mut all = namespace(setting, "restricted");
    all.push(load_tests());
    let words = ["operate"].map(str::to_owned).to_vec();
    all.extend(Installed { name: NAME, component: "operator", setting }.objects(test_rules(), words));
    all
}

/// What the account of audits may do in the cluster, beside listing nodes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ClusterRights {
    /// Nothing.
    Nodes,
    /// It may list what OpenShift's Node Tuning Operator reads and writes: for `nearside cluster explain` in its pod.
    NodesAndTuning,
}

/// What installs the operator of audits, with an account of its own, so that who runs tests cannot see nodes.
#[must_use]
pub fn install_audits(setting: InstallSetting<'_>, rights: ClusterRights) -> Vec<Value> {
    // Pods of audits have folders of their nodes, and their nodes' network, which no stricter standard allows.
    let mut all = namespace(setting, "privileged");
    all.push(node_audits());
    let installed = Installed { name: AUDITOR, component: "auditor", setting };
    // Nodes are the cluster's: two namespaces have roles of two names.
    let name = format!("{AUDITOR}-{}", setting.namespace);
    let group = "rbac.authorization.k8s.io";
    let place = |kind: &str| {
        let metadata = json!({ "name": name, "labels": installed.labels() });
        json!({ "apiVersion": format!("{group}/v1"), "kind": kind, "metadata": metadata })
    };
    let (mut role, mut binding) = (place("ClusterRole"), place("ClusterRoleBinding"));
    let mut rules = vec![rule("", &["nodes"], &["list"])];
    if rights == ClusterRights::NodesAndTuning {
        rules.push(rule("performance.openshift.io", &["performanceprofiles"], &["list"]));
        rules.push(rule("tuned.openshift.io", &["tuneds"], &["list"]));
        rules.push(rule("machineconfiguration.openshift.io", &["kubeletconfigs", "machineconfigs"], &["list"]));
    }
    role["rules"] = rules.into();
    binding["roleRef"] = json!({ "apiGroup": group, "kind": "ClusterRole", "name": name });
    binding["subjects"] = json!([{ "kind": "ServiceAccount", "name": AUDITOR, "namespace": setting.namespace }]);
    let words = ["operate", "--audits"].map(str::to_owned).to_vec();
    all.extend(installed.objects(audit_rules(), words));
    all.extend([role, binding]);
    all
}

/// The namespace, where it is not there always, with what its pods may be at most.
fn namespace(setting: InstallSetting<'_>, standard: &str) -> Vec<Value> {
    if setting.namespace == "default" {
        return Vec::new();
    }
    let labels = json!({ "pod-security.kubernetes.io/enforce": standard });
    let metadata = json!({ "name": setting.namespace, "labels": labels });
    vec![json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": metadata })]
}

/// One of the two operators.
#[derive(Clone, Copy)]
struct Installed<'a> {
    name: &'a str,
    component: &'a str,
    setting: InstallSetting<'a>,
}

impl Installed<'_> {
    /// Its account with its rights in the namespace, its name in DNS, and itself.
    fn objects(&self, rules: Value, words: Vec<String>) -> [Value; 5] {
        let namespace = self.setting.namespace;
        let mut role = self.place("rbac.authorization.k8s.io/v1", "Role");
        role["rules"] = rules;
        let mut binding = self.place("rbac.authorization.k8s.io/v1", "RoleBinding");
        binding["roleRef"] = json!({ "apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": self.name });
        binding["subjects"] = json!([{ "kind": "ServiceAccount", "name": self.name, "namespace": namespace }]);
        // Whoever is asked for the operator's name is told its address: of this one, and of the next.
        let mut service = self.place("v1", "Service");
        let labels = self.labels();
        service["spec"] = json!({ "clusterIP": "None", "publishNotReadyAddresses": true, "selector": labels });
        let mut deployment = self.place("apps/v1", "Deployment");
        deployment["spec"] = json!({
            "replicas": 1,
            // Two of them would wait for each other's Lease.
            "strategy": { "type": "Recreate" },
            "selector": { "matchLabels": labels },
            "template": { "metadata": { "labels": labels }, "spec": self.pod(words) },
        });
        [self.place("v1", "ServiceAccount"), role, binding, service, deployment]
    }

    fn place(&self, version: &str, kind: &str) -> Value {
        let metadata = json!({ "name": self.name, "namespace": self.setting.namespace, "labels": self.labels() });
        json!({ "apiVersion": version, "kind": kind, "metadata": metadata })
    }

    fn labels(&self) -> Map<String, Value> {
        labels(self.component)
    }

    fn pod(&self, words: Vec<String>) -> Value {
        let InstallSetting { namespace, image } = self.setting;
        let host = format!("{}.{namespace}.svc", self.name);
        let command: Vec<String> = ["nearside", "cluster"].map(str::to_owned).into_iter().chain(words).collect();
        json!({
            "serviceAccountName": self.name,
            "enableServiceLinks": false,
            "securityContext": { "runAsNonRoot": true, "seccompProfile": { "type": "RuntimeDefault" } },
            "containers": [{
                "name": "operator",
                "image": image,
                "command": command,
                "args": ["--namespace", namespace, "--image", image, "--host", host],
                "resources": {
                    "requests": { "cpu": "100m", "memory": "64Mi" },
                    "limits": { "memory": "256Mi" },
                },
                "securityContext": {
                    "allowPrivilegeEscalation": false,
                    "readOnlyRootFilesystem": true,
                    "capabilities": { "drop": ["ALL"] },
                },
                "terminationMessagePolicy": "FallbackToLogsOnError",
            }],
        })
    }
}

fn labels(component: &str) -> Map<String, Value> {
    let mut labels = Map::new();
    for (key, value) in [
        ("app.kubernetes.io/name", "nearside"),
        ("app.kubernetes.io/component", component),
        ("app.kubernetes.io/managed-by", MANAGER),
    ] {
        labels.insert(key.to_owned(), json!(value));
    }
    labels
}

/// What the operator of tests may do, in its namespace alone: what it asks for, and nothing else.
fn test_rules() -> Value {
    json!([
        rule("nearside.dev", &["loadtests"], &["get", "list", "watch", "delete"]),
        rule("nearside.dev", &["loadtests/status"], &["patch"]),
        rule("batch", &["jobs"], &["get", "list", "create", "patch", "delete"]),
        rule("", &["secrets"], &["get", "create", "delete"]),
        rule("", &["pods"], &["list"]),
        rule("", &["configmaps"], &["create", "patch"]),
        rule("", &["events"], &["create"]),
        rule("coordination.k8s.io", &["leases"], &["get", "create", "update"]),
    ])
}

/// What the operator of audits may do in its namespace.
fn audit_rules() -> Value {
    json!([
        rule("nearside.dev", &["nodeaudits"], &["list", "delete"]),
        rule("nearside.dev", &["nodeaudits/status"], &["patch"]),
        rule("", &["secrets"], &["get", "create", "delete"]),
        rule("", &["pods"], &["list", "create", "delete"]),
        rule("", &["configmaps"], &["list", "create", "patch", "delete"]),
        rule("", &["events"], &["create"]),
        rule("coordination.k8s.io", &["leases"], &["get", "create", "update"]),
    ])
}

fn rule(group: &str, resources: &[&str], verbs: &[&str]) -> Value {
    json!({ "apiGroups": [group], "resources": resources, "verbs": verbs })
}

/// A kind of objects: one version, and what a table shows of them.
fn kind(names: [&str; 3], whole: Value, columns: &[(&str, &str, &str)]) -> Value {
    let (group, version) = VERSION.split_once('/').unwrap_or((VERSION, ""));
    let [kind, plural, singular] = names;
    let column = |(name, kind, path): &(&str, &str, &str)| json!({ "name": name, "type": kind, "jsonPath": path });
    json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": { "name": format!("{plural}.{group}") },
        "spec": {
            "group": group,
            "scope": "Namespaced",
            "names": { "kind": kind, "listKind": format!("{kind}List"), "plural": plural, "singular": singular },
            "versions": [{
                "name": version,
                "served": true,
                "storage": true,
                "schema": { "openAPIV3Schema": whole },
                "subresources": { "status": {} },
                "additionalPrinterColumns": columns.iter().map(column).collect::<Vec<Value>>(),
            }],
        },
    })
}

/// When an object was made.
const AGE: (&str, &str, &str) = ("Age", "date", ".metadata.creationTimestamp");

/// Why an object came to its verdict.
const REASON: (&str, &str, &str) = ("Reason", "string", ".status.conditions[?(@.type=='Complete')].reason");

fn load_tests() -> Value {
    let mut whole = schema();
    whole["properties"]["status"] = status();
    let columns = [
        ("Verdict", "string", ".status.verdict"),
        REASON,
        ("Workers", "string", ".status.workers"),
        ("Rate", "string", ".status.rate"),
        ("Of due", "string", ".status.rateOfDue"),
        ("p99", "string", ".status.p99"),
        ("Skew", "string", ".status.skew"),
        AGE,
    ];
    kind(["LoadTest", "loadtests", "loadtest"], whole, &columns)
}

fn node_audits() -> Value {
    let mut whole = audit_schema();
    whole["properties"]["status"] = audit_status();
    let columns = [
        ("Verdict", "string", ".status.verdict"),
        REASON,
        ("Nodes", "integer", ".status.nodes"),
        ("Alike", "integer", ".status.alike"),
        ("Differing", "integer", ".status.differing"),
        ("Failed", "integer", ".status.failed"),
        ("Changed", "integer", ".status.changed"),
        AGE,
    ];
    kind(["NodeAudit", "nodeaudits", "nodeaudit"], whole, &columns)
}

fn text(words: &str) -> Value {
    json!({ "description": words, "type": "string" })
}

fn time(words: &str) -> Value {
    json!({ "description": words, "type": "string", "format": "date-time" })
}

fn conditions(kinds: &[&str]) -> Value {
    json!({
        "type": "array",
        "maxItems": 16,
        "items": {
            "type": "object",
            "required": ["type", "status", "reason", "message", "lastTransitionTime"],
            "properties": {
                "type": { "type": "string", "enum": kinds },
                "status": { "type": "string", "enum": ["True", "False", "Unknown"] },
                "reason": { "type": "string" },
                "message": { "type": "string" },
                "lastTransitionTime": { "type": "string", "format": "date-time" },
                "observedGeneration": { "type": "integer" },
            },
        },
        "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": ["type"],
    })
}

fn verdict() -> Value {
    json!({ "description": "What it came to.", "type": "string", "enum": ["pass", "fail", "invalid"] })
}

/// What the operator tells of an audit.
fn audit_status() -> Value {
    let count = |words: &str| json!({ "description": words, "type": "integer" });
    let texts = |words: &str| json!({ "description": words, "type": "array", "items": { "type": "string" } });
    let list = |words: &str, fields: Value| {
        let item = json!({ "type": "object", "properties": fields });
        json!({ "description": words, "type": "array", "items": item })
    };
    let rows = json!({
        "nodes": count("How many there are."),
        "names": texts("Some of their names."),
        "differences": texts("In what they differ from most; nothing for those that are most."),
    });
    let named = json!({ "node": text("Its name."), "reason": text("In a word."), "message": text("In a sentence.") });
    json!({
        "description": "What came of it, by the operator.",
        "type": "object",
        "properties": {
            "observedGeneration": { "type": "integer" },
            "conditions": conditions(&["Accepted", "Running", "Complete"]),
            "verdict": verdict(),
            "round": count("When the latest round began, in seconds since 1970."),
            "startTime": time("When the latest round began."),
            "completionTime": time("When the latest round was over."),
            "nextTime": time("When the next round begins."),
            "nodes": count("Nodes that have an audit, or were to."),
            "alike": count("Nodes that are as most are."),
            "differing": count("Nodes that are not."),
            "failed": count("Nodes without an answer in the latest round."),
            "changed": count("Nodes that are not as they were in the round before."),
            "refused": count("Reports of the latest round that came without the token of their node, 100 at most."),
            "rows": list("Nodes that are alike, each such kind once: the most first.", rows),
            "failures": list("Nodes without an answer, and why.", named.clone()),
            "leftOut": list("Nodes that the audit is not to ask, as their taints are not tolerated.", named),
        },
    })
}

/// What the operator tells of a test.
fn status() -> Value {
    json!({
        "description": "What came of it, by the operator.",
        "type": "object",
        "properties": {
            "observedGeneration": { "type": "integer" },
            "conditions": conditions(&["Accepted", "Prepared", "Running", "Complete"]),
            "verdict": verdict(),
            "startTime": time("Since when it is run."),
            "completionTime": time("Since when it is over."),
            "result": text("The ConfigMap with the whole result, as result.json."),
            "workers": text("How many of the workers measured."),
            "rate": text("Responses a second."),
            "rateOfDue": text("Requests sent, of those that were due."),
            "p99": text("The latency that 99 of 100 requests kept."),
            "skew": text("How far apart workers began."),
        },
    })
}
