//! A worker as a pod: without rights, without an account, and with what it is to do on its command line.

use serde_json::{Map, Value, json};
use spec::{Amounts, ControllerPlace, LoadTest, PodsSpec, Resources, Spread, Toleration, WorkerPlace};
use std::path::Path;

/// The label with a test's name.
pub(crate) const INSTANCE: &str = "app.kubernetes.io/instance";

/// The label that its pods alone have.
pub(crate) const COMPONENT: &str = "app.kubernetes.io/component";

/// Where a pod finds what it may read of its test's Secret.
const FOLDER: &str = "/run/nearside-test";

/// The number of a worker: the index that its Job gave it, which the kubelet fills in.
const INDEX: &str = "$(JOB_COMPLETION_INDEX)";

/// Where the token of a worker stands in its test's Secret, by the worker's number.
pub(crate) fn worker_token(number: &str) -> String {
    format!("token-{number}")
}

/// Files of a Secret: everybody in the pod may read them, and there is only the worker.
pub(crate) const READ_ONLY: u32 = 0o444;

/// The specification of a worker's pod; `secret` is what it reads.
pub(crate) fn pod(test: &LoadTest, secret: &str, image: &str, has_feed: bool) -> Value {
    let spec = &test.pods;
    let mut pod = json!({
        "restartPolicy": "Never",
        "automountServiceAccountToken": false,
        "enableServiceLinks": false,
        "terminationGracePeriodSeconds": 5,
        "securityContext": confined(spec),
        "containers": [container(test, image, has_feed)],
        "volumes": [{ "name": "test", "secret": { "secretName": secret, "defaultMode": READ_ONLY } }],
    });
    given(&mut pod, spec);
    let unsatisfiable = match spec.spread {
        Spread::Preferred => Some("ScheduleAnyway"),
        Spread::Required => Some("DoNotSchedule"),
        Spread::None => None,
    };
    if let Some(unsatisfiable) = unsatisfiable {
        pod["topologySpreadConstraints"] = json!([{
            "maxSkew": 1,
            "topologyKey": "kubernetes.io/hostname",
            "whenUnsatisfiable": unsatisfiable,
            "labelSelector": { "matchLabels": { INSTANCE: test.name, COMPONENT: "worker" } },
        }]);
    }
    pod
}

/// Whom a pod's programs are, and what they may do: nobody's, and what containers usually may.
pub(crate) fn confined(spec: &PodsSpec) -> Value {
    let mut context = json!({ "runAsNonRoot": true, "seccompProfile": { "type": "RuntimeDefault" } });
    if let Some(user) = spec.user {
        context["runAsUser"] = json!(user);
    }
    context
}

/// What is said of where pods run, and how their image is had.
pub(crate) fn given(pod: &mut Value, spec: &PodsSpec) {
    if !spec.pull_secrets.is_empty() {
        let names: Vec<Value> = spec.pull_secrets.iter().map(|name| json!({ "name": name })).collect();
        pod["imagePullSecrets"] = names.into();
    }
    if !spec.node_selector.is_empty() {
        let labels: Map<String, Value> =
            spec.node_selector.iter().map(|(key, value)| (key.clone(), json!(value))).collect();
        pod["nodeSelector"] = labels.into();
    }
    if !spec.tolerations.is_empty() {
        pod["tolerations"] = spec.tolerations.iter().map(toleration).collect();
    }
}

/// What a container asks for, and may take at most.
pub(crate) fn container_resources(found: &Resources) -> Value {
    json!({ "requests": amounts(&found.requests), "limits": amounts(&found.limits) })
}

fn container(test: &LoadTest, image: &str, has_feed: bool) -> Value {
    let folder = Path::new(FOLDER);
    let (requests, feed) = (folder.join("request.json"), folder.join("feed.csv"));
    let place = WorkerPlace {
        worker: INDEX,
        controller: ControllerPlace::Folder(folder),
        requests: &requests,
        feed: has_feed.then_some(&feed),
    };
    let index = format!("{INDEX}/{}", test.workers);
    // What the file says has no meaning to the kubelet, whatever dollars it has.
    let literal = |word: String| if word == index { word } else { word.replace('$', "$$") };
    let words = test.arguments(&place).into_iter();
    let words: Vec<String> = words.map(|word| literal(word.to_string_lossy().into_owned())).collect();
    let mut container = json!({
        "name": "worker",
        "image": image,
        "command": ["nearside"],
        "args": words,
        "resources": container_resources(&test.pods.resources),
        "securityContext": {
            "allowPrivilegeEscalation": false,
            "readOnlyRootFilesystem": true,
            "capabilities": { "drop": ["ALL"] },
        },
        // Its last words stand in the pod's status, which is read without a right to logs.
        "terminationMessagePolicy": "FallbackToLogsOnError",
        "volumeMounts": mounts(has_feed),
    });
    if let Some(pull) = &test.pods.pull {
        container["imagePullPolicy"] = json!(pull);
    }
    container
}

/// What a worker sees of its test's Secret, file by file: all pods of a Job have one template, so one Secret; of the
/// tokens in it the kubelet shows each pod that of its own index, and no pod the controller's.
fn mounts(has_feed: bool) -> Value {
    let mount = |file: &str, field: &str, part: &str| {
        let path = format!("{FOLDER}/{file}");
        json!({ "name": "test", "mountPath": path, field: part, "readOnly": true })
    };
    let mut all = vec![mount("token", "subPathExpr", &worker_token(INDEX))];
    let files = ["controller", "controller-key", "request.json"].into_iter().chain(has_feed.then_some("feed.csv"));
    all.extend(files.map(|file| mount(file, "subPath", file)));
    all.into()
}

/// Quantities, as Kubernetes writes them.
fn amounts(found: &Amounts) -> Value {
    let mut map = Map::new();
    if let Some(milli) = found.cpu_milli {
        let text = if milli % 1_000 == 0 { (milli / 1_000).to_string() } else { format!("{milli}m") };
        map.insert("cpu".to_owned(), text.into());
    }
    if let Some(bytes) = found.memory {
        let text = if bytes % (1 << 20) == 0 { format!("{}Mi", bytes >> 20) } else { bytes.to_string() };
        map.insert("memory".to_owned(), text.into());
    }
    map.into()
}

fn toleration(found: &Toleration) -> Value {
    let mut map = Map::new();
    let operator = if found.value.is_some() { "Equal" } else { "Exists" };
    for (field, value) in [
        ("key", found.key.as_deref()),
        ("operator", Some(operator)),
        ("value", found.value.as_deref()),
        ("effect", found.effect.as_deref()),
    ] {
        if let Some(value) = value {
            map.insert(field.to_owned(), value.into());
        }
    }
    map.into()
}
