//! The objects of an audit of nodes: a Secret with what its controller knows of a round, and for each node a Secret
//! with what its pod reads, and the pod.
//!
//! A kubelet may read what pods of its own node name, and nothing else: so no pod names the round's Secret, and none
//! another's. A pod's own specification would not do, as kubelets of earlier versions see the pods of all nodes.

use crate::objects::MANAGER;
use crate::pod::{COMPONENT, INSTANCE, READ_ONLY, confined, container_resources, given};
use core::hash::Hasher;
use serde_json::{Map, Value, json};
use siphasher::sip::SipHasher24;
use spec::{FieldError, NodeAudit, POD_PREFIX, VERSION};

/// The annotation, or label, with the round that something is of.
pub const ROUND: &str = "nearside.dev/round";

/// The annotation with the node that something is of.
pub const NODE: &str = "nearside.dev/node";

/// By what an audit is known again.
const IDENTITY: &str = "nearside.dev/audit";

/// What pods and records of audits are known by, beside the audit's name.
const AUDIT_COMPONENT: &str = "audit";

/// Where a pod finds what is in its audit's Secret.
const FOLDER: &str = "/run/nearside-audit";

/// Where a pod finds its node's folders.
const ROOT: &str = "/host";

/// Folders of the node that the audit reads: what the kernel says, and where settings come from. Not /run, in which
/// sockets of services are.
const HOST_FOLDERS: [(&str, &str); 4] = [("proc", "/proc"), ("sys", "/sys"), ("etc", "/etc"), ("lib", "/usr/lib")];

/// A pod that nobody ends any more ends by itself so many seconds after its node was to answer.
const DEADLINE_GRACE: u64 = 60;

/// An audit, and where its objects are to be.
#[derive(Clone, Copy, Debug)]
pub struct AuditSetting<'a> {
    /// The audit.
    pub audit: &'a NodeAudit,
    /// The namespace.
    pub namespace: &'a str,
    /// The image, where the audit names none.
    pub image: Option<&'a str>,
    /// The number of the object in the cluster that the audit is, if it is one: what is made goes with it.
    pub owner: Option<&'a str>,
}

/// The pod of a node.
#[derive(Clone, Copy, Debug)]
pub struct AuditPod<'a> {
    /// The node.
    pub node: &'a str,
    /// Of which round: when that began, in seconds since 1970.
    pub round: u64,
    /// The number of the audit's Secret, with which the pod goes.
    pub secret: &'a str,
}

/// What a controller and the pods of a round know of each other.
#[derive(Clone, Copy, Debug)]
pub struct AuditKeys<'a> {
    /// The token: of the round, or of one node.
    pub token: &'a str,
    /// The controller's public key, as text.
    pub key: &'a str,
    /// Where the controller is: an address or a name, and a port.
    pub controller: &'a str,
}

/// The name of an audit's Secret: with a dot, which no test's has.
#[must_use]
pub fn audit_secret_name(audit: &str) -> String {
    format!("{POD_PREFIX}{audit}.audit")
}

/// The name of a node's pod in a round.
#[must_use]
pub fn audit_pod_name(audit: &str, node: &str, round: u64) -> String {
    let mut hasher = SipHasher24::new();
    hasher.write(node.as_bytes());
    hasher.write_u64(round);
    format!("{POD_PREFIX}audit-{audit}-{:016x}", hasher.finish())
}

/// The name of what a node's pod reads, below the round's Secret of this number: one that is still to go has another.
#[must_use]
pub fn node_secret_name(audit: &str, node: &str, secret: &str) -> String {
    let mut hasher = SipHasher24::new();
    hasher.write_u64(secret.len() as u64);
    hasher.write(secret.as_bytes());
    hasher.write(node.as_bytes());
    format!("{POD_PREFIX}audit-{audit}-{:016x}", hasher.finish())
}

/// The name of the object with what is kept of a node: one of the node's own, where that is not too long.
#[must_use]
pub fn record_name(audit: &str, node: &str) -> String {
    let name = format!("{POD_PREFIX}{audit}.{node}");
    if name.len() <= 253 {
        return name;
    }
    let mut hasher = SipHasher24::new();
    hasher.write(node.as_bytes());
    format!("{POD_PREFIX}{audit}.{:016x}.node", hasher.finish())
}

impl AuditSetting<'_> {
    /// What of the audit cannot be in a cluster, each with its field.
    #[must_use]
    pub fn wrong(&self) -> Vec<FieldError> {
        let mut wrong = Vec::new();
        let mut refuse = |field: &str, why: String| {
            wrong.push(FieldError { field: field.to_owned(), line: self.audit.line(field), why });
        };
        if let Some(theirs) = self.audit.namespace.as_deref().filter(|theirs| *theirs != self.namespace) {
            let why = format!("the audit belongs to {theirs}, and was asked for in {}", self.namespace);
            refuse("metadata.namespace", why);
        }
        if self.image().is_none() {
            let why = "this is missing: the image of nearside (make image), here or by --image".to_owned();
            refuse("spec.pods.image", why);
        }
        wrong
    }

    fn image(&self) -> Option<&str> {
        self.audit.pods.image.as_deref().or(self.image)
    }

    /// By what an audit is known again: all that it is to be, its image, its own number.
    #[must_use]
    pub fn identity(&self) -> String {
        let mut hasher = SipHasher24::new();
        let what = format!("{:?} {:?}", self.audit.essence(), self.image());
        for part in [what.as_bytes(), self.owner.unwrap_or_default().as_bytes()] {
            hasher.write_u64(part.len() as u64);
            hasher.write(part);
        }
        format!("{:016x}", hasher.finish())
    }

    /// Whether a Secret is of this very audit.
    #[must_use]
    pub fn is_of(&self, secret: &Value) -> bool {
        secret["metadata"]["annotations"][IDENTITY] == self.identity().as_str()
    }

    /// What the controller knows of a round, and whoever follows it reads: no pod does.
    #[must_use]
    pub fn secret(&self, keys: AuditKeys<'_>, round: u64) -> Value {
        let mut metadata = self.metadata(&audit_secret_name(&self.audit.name));
        metadata["annotations"] = json!({ IDENTITY: self.identity(), ROUND: round.to_string() });
        if let Some(uid) = self.owner {
            metadata["ownerReferences"] = json!([{
                "apiVersion": VERSION, "kind": "NodeAudit", "name": self.audit.name, "uid": uid, "controller": true,
            }]);
        }
        secret(metadata, keys)
    }

    /// What the pod of a node reads: the token is that node's own.
    #[must_use]
    pub fn node_secret(&self, of: AuditPod<'_>, keys: AuditKeys<'_>) -> Value {
        let mut metadata = self.metadata(&node_secret_name(&self.audit.name, of.node, of.secret));
        metadata["annotations"] = json!({ NODE: of.node });
        metadata["ownerReferences"] = self.owned_by(of.secret);
        secret(metadata, keys)
    }

    /// To whom what is made for a node belongs: to the round's Secret, of this number.
    fn owned_by(&self, secret: &str) -> Value {
        json!([{
            "apiVersion": "v1", "kind": "Secret", "name": audit_secret_name(&self.audit.name), "uid": secret,
        }])
    }

    /// The pod of a node.
    #[must_use]
    pub fn pod(&self, of: AuditPod<'_>) -> Value {
        let AuditPod { node, round, secret } = of;
        let name = &self.audit.name;
        let mut metadata = self.metadata(&audit_pod_name(name, node, round));
        metadata["labels"][ROUND] = json!(round.to_string());
        metadata["annotations"] = json!({ NODE: node });
        metadata["ownerReferences"] = self.owned_by(secret);
        let reads = node_secret_name(name, node, secret);
        json!({ "apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": self.pod_spec(node, &reads) })
    }

    fn pod_spec(&self, node: &str, reads: &str) -> Value {
        let spec = &self.audit.pods;
        let patience = self.audit.answer_within.as_secs() + DEADLINE_GRACE;
        // That node, and no other: by the scheduler, so that taints, room and the node's end are heeded.
        let only = json!([{ "matchFields": [{ "key": "metadata.name", "operator": "In", "values": [node] }] }]);
        let mut volumes = vec![json!({
            "name": "audit",
            "secret": { "secretName": reads, "defaultMode": READ_ONLY },
        })];
        for (name, path) in HOST_FOLDERS {
            volumes.push(json!({ "name": name, "hostPath": { "path": path, "type": "Directory" } }));
        }
        let mut pod = json!({
            "restartPolicy": "Never",
            "automountServiceAccountToken": false,
            "enableServiceLinks": false,
            "activeDeadlineSeconds": patience,
            "terminationGracePeriodSeconds": 1,
            // Settings of the network are those of the network namespace that asks for them: the node's, here.
            "hostNetwork": true,
            "dnsPolicy": "ClusterFirstWithHostNet",
            "affinity": { "nodeAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": { "nodeSelectorTerms": only },
            } },
            "securityContext": confined(spec),
            "containers": [self.container(node, patience)],
            "volumes": volumes,
        });
        given(&mut pod, spec);
        pod
    }

    fn container(&self, node: &str, patience: u64) -> Value {
        let mut mounts = vec![json!({ "name": "audit", "mountPath": FOLDER, "readOnly": true })];
        for (name, path) in HOST_FOLDERS {
            mounts.push(json!({ "name": name, "mountPath": format!("{ROOT}{path}"), "readOnly": true }));
        }
        let spec = &self.audit.pods;
        let mut container = json!({
            "name": "audit",
            "image": self.image(),
            "command": ["nearside", "cluster", "audit-node"],
            "args": [
                "--node", node, "--role", self.audit.role.name(), "--root", ROOT, "--controller-folder", FOLDER,
                "--patience", format!("{patience}s"),
            ],
            "resources": container_resources(&spec.resources),
            "securityContext": {
                "allowPrivilegeEscalation": false,
                "readOnlyRootFilesystem": true,
                "capabilities": { "drop": ["ALL"] },
            },
            "terminationMessagePolicy": "FallbackToLogsOnError",
            "volumeMounts": mounts,
        });
        if let Some(pull) = &spec.pull {
            container["imagePullPolicy"] = json!(pull);
        }
        container
    }

    fn metadata(&self, name: &str) -> Value {
        json!({ "name": name, "namespace": self.namespace, "labels": audit_labels(&self.audit.name) })
    }
}

fn secret(metadata: Value, keys: AuditKeys<'_>) -> Value {
    let AuditKeys { token, key, controller } = keys;
    json!({
        "apiVersion": "v1", "kind": "Secret", "metadata": metadata,
        "type": "Opaque", "immutable": true,
        "stringData": { "token": token, "controller-key": key, "controller": controller },
    })
}

/// What the objects of an audit are known by.
#[must_use]
pub fn audit_labels(audit: &str) -> Map<String, Value> {
    let mut labels = Map::new();
    for (key, value) in [
        ("app.kubernetes.io/name", "nearside"),
        ("app.kubernetes.io/managed-by", MANAGER),
        (COMPONENT, AUDIT_COMPONENT),
        (INSTANCE, audit),
    ] {
        labels.insert(key.to_owned(), json!(value));
    }
    labels
}

/// The same as a selector in a question.
#[must_use]
pub fn audit_selector(audit: &str) -> String {
    let escaped = |text: &str| text.replace('/', "%2F");
    format!("{}%3D{AUDIT_COMPONENT}%2C{}%3D{audit}", escaped(COMPONENT), escaped(INSTANCE))
}
