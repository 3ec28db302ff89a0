//! What installs the operator: the kind of its objects, its account with what that may do in one namespace, itself.

use crate::objects::MANAGER;
use serde_json::{Map, Value, json};
use spec::{VERSION, schema};

/// The name of what belongs to the operator.
const NAME: &str = "nearside-operator";

/// Where the operator is to be, and what of.
#[derive(Clone, Copy, Debug)]
pub struct InstallSetting<'a> {
    /// The namespace, whose tests it runs.
    pub namespace: &'a str,
    /// The image with the programs: its own, and that of workers whose test names none.
    pub image: &'a str,
}

/// All objects, in the order in which they are made: the namespace, if that is not the one that there is always.
#[must_use]
pub fn install(setting: InstallSetting<'_>) -> Vec<Value> {
    let InstallSetting { namespace, image } = setting;
    let mut all = Vec::new();
    if namespace != "default" {
        let mut space = json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": namespace } });
        // Neither workers nor the operator need more.
        space["metadata"]["labels"] = json!({ "pod-security.kubernetes.io/enforce": "restricted" });
        all.push(space);
    }
    let place = |version: &str, kind: &str| {
        json!({
            "apiVersion": version,
            "kind": kind,
            "metadata": { "name": NAME, "namespace": namespace, "labels": labels() },
        })
    };
    let mut role = place("rbac.authorization.k8s.io/v1", "Role");
    role["rules"] = rules();
    let mut binding = place("rbac.authorization.k8s.io/v1", "RoleBinding");
    binding["roleRef"] = json!({ "apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": NAME });
    binding["subjects"] = json!([{ "kind": "ServiceAccount", "name": NAME, "namespace": namespace }]);
    // Whoever is asked for the operator's name is told its address: of this one, and of the next.
    let mut service = place("v1", "Service");
    service["spec"] = json!({ "clusterIP": "None", "publishNotReadyAddresses": true, "selector": labels() });
    let mut deployment = place("apps/v1", "Deployment");
    deployment["spec"] = json!({
        "replicas": 1,
        // Two of them would wait for each other's Lease.
        "strategy": { "type": "Recreate" },
        "selector": { "matchLabels": labels() },
        "template": { "metadata": { "labels": labels() }, "spec": pod(namespace, image) },
    });
    all.extend([load_tests(), place("v1", "ServiceAccount"), role, binding, service, deployment]);
    all
}

fn labels() -> Map<String, Value> {
    let mut labels = Map::new();
    for (key, value) in [
        ("app.kubernetes.io/name", "nearside"),
        ("app.kubernetes.io/component", "operator"),
        ("app.kubernetes.io/managed-by", MANAGER),
    ] {
        labels.insert(key.to_owned(), json!(value));
    }
    labels
}

/// What the operator may do, in its namespace alone: what it asks for, and nothing else.
fn rules() -> Value {
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

fn rule(group: &str, resources: &[&str], verbs: &[&str]) -> Value {
    json!({ "apiGroups": [group], "resources": resources, "verbs": verbs })
}

fn pod(namespace: &str, image: &str) -> Value {
    json!({
        "serviceAccountName": NAME,
        "enableServiceLinks": false,
        "securityContext": { "runAsNonRoot": true, "seccompProfile": { "type": "RuntimeDefault" } },
        "containers": [{
            "name": "operator",
            "image": image,
            "command": ["nearside", "cluster", "operate"],
            "args": ["--namespace", namespace, "--image", image, "--host", format!("{NAME}.{namespace}.svc")],
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

/// The kind of its objects.
fn load_tests() -> Value {
    let (group, version) = VERSION.split_once('/').unwrap_or((VERSION, ""));
    let mut whole = schema();
    whole["properties"]["status"] = status();
    let column = |name: &str, kind: &str, path: &str| json!({ "name": name, "type": kind, "jsonPath": path });
    json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": { "name": format!("loadtests.{group}") },
        "spec": {
            "group": group,
            "scope": "Namespaced",
            "names": { "kind": "LoadTest", "listKind": "LoadTestList", "plural": "loadtests", "singular": "loadtest" },
            "versions": [{
                "name": version,
                "served": true,
                "storage": true,
                "schema": { "openAPIV3Schema": whole },
                "subresources": { "status": {} },
                "additionalPrinterColumns": [
                    column("Verdict", "string", ".status.verdict"),
                    column("Reason", "string", ".status.conditions[?(@.type=='Complete')].reason"),
                    column("Workers", "string", ".status.workers"),
                    column("Rate", "string", ".status.rate"),
                    column("Of due", "string", ".status.rateOfDue"),
                    column("p99", "string", ".status.p99"),
                    column("Skew", "string", ".status.skew"),
                    column("Age", "date", ".metadata.creationTimestamp"),
                ],
            }],
        },
    })
}

/// What the operator tells of a test.
fn status() -> Value {
    let text = |words: &str| json!({ "description": words, "type": "string" });
    let time = |words: &str| json!({ "description": words, "type": "string", "format": "date-time" });
    let condition = json!({
        "type": "object",
        "required": ["type", "status", "reason", "message", "lastTransitionTime"],
        "properties": {
            "type": { "type": "string", "enum": ["Accepted", "Prepared", "Running", "Complete"] },
            "status": { "type": "string", "enum": ["True", "False", "Unknown"] },
            "reason": { "type": "string" },
            "message": { "type": "string" },
            "lastTransitionTime": { "type": "string", "format": "date-time" },
            "observedGeneration": { "type": "integer" },
        },
    });
    json!({
        "description": "What came of it, by the operator.",
        "type": "object",
        "properties": {
            "observedGeneration": { "type": "integer" },
            "conditions": {
                "type": "array",
                "maxItems": 16,
                "items": condition,
                "x-kubernetes-list-type": "map",
                "x-kubernetes-list-map-keys": ["type"],
            },
            "verdict": { "description": "What it came to.", "type": "string", "enum": ["pass", "fail", "invalid"] },
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
