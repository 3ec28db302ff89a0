//! The questions of audits.

use crate::asks::{Happened, Named, call, event};
use kubernetes::Method;
use manifests::{NODE, ROUND, audit_labels, audit_secret_name, audit_selector, record_name};
use reconcile::Call;
use serde_json::{Value, json};
use spec::VERSION;

/// Whose fields they are (server-side apply).
const MANAGER: &str = "nearside-auditor";

/// Nodes in one answer: each has some KiB.
const NODES_EACH: u32 = 200;

/// Records in one answer: each has up to a mebibyte.
const RECORDS_EACH: u32 = 20;

/// The questions of one namespace.
#[derive(Clone, Debug)]
pub(crate) struct AuditAsks {
    namespace: String,
}

/// What is kept of a node.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Kept<'a> {
    pub node: &'a str,
    pub round: u64,
    /// Its audit, as it came.
    pub audit: &'a str,
    pub changes: &'a Value,
}

impl AuditAsks {
    pub fn new(namespace: &str) -> Self {
        Self { namespace: namespace.to_owned() }
    }

    pub fn namespace(&self) -> &str {
        &self.namespace
    }

    pub fn list(&self) -> Call {
        call(Method::Get, self.audits(), None)
    }

    /// The nodes of the cluster, from where the last answer ended.
    pub fn nodes(&self, from: &str) -> Call {
        call(Method::Get, format!("/api/v1/nodes?{}", page(NODES_EACH, from)), None)
    }

    /// What is kept of an audit's nodes.
    pub fn records(&self, audit: &str, from: &str) -> Call {
        let selector = audit_selector(audit);
        let path = self.core("configmaps");
        call(Method::Get, format!("{path}?labelSelector={selector}&{}", page(RECORDS_EACH, from)), None)
    }

    pub fn keep(&self, audit: Named<'_>, kept: Kept<'_>) -> Call {
        let name = record_name(audit.name, kept.node);
        let object = json!({
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {
                "name": name,
                "namespace": self.namespace,
                "labels": audit_labels(audit.name),
                "annotations": { NODE: kept.node, ROUND: kept.round.to_string() },
                "ownerReferences": [{
                    "apiVersion": VERSION, "kind": "NodeAudit", "name": audit.name, "uid": audit.uid,
                    "controller": true,
                }],
            },
            "data": { "audit.json": kept.audit, "changes.json": kept.changes.to_string() },
        });
        let path = format!("{}/{name}?fieldManager={MANAGER}&force=true", self.core("configmaps"));
        call(Method::Apply, path, Some(object))
    }

    pub fn delete_record(&self, audit: &str, node: &str, uid: &str) -> Call {
        Call::deletion(format!("{}/{}", self.core("configmaps"), record_name(audit, node)), uid)
    }

    pub fn see_secret(&self, audit: &str) -> Call {
        call(Method::Get, format!("{}/{}", self.core("secrets"), audit_secret_name(audit)), None)
    }

    pub fn make_secret(&self, secret: Value) -> Call {
        call(Method::Post, self.core("secrets"), Some(secret))
    }

    pub fn delete_secret(&self, audit: &str, uid: &str) -> Call {
        Call::deletion(format!("{}/{}", self.core("secrets"), audit_secret_name(audit)), uid)
    }

    pub fn pods(&self, audit: &str) -> Call {
        let selector = audit_selector(audit);
        call(Method::Get, format!("{}?labelSelector={selector}", self.core("pods")), None)
    }

    pub fn make_pod(&self, pod: Value) -> Call {
        call(Method::Post, self.core("pods"), Some(pod))
    }

    pub fn delete_pod(&self, name: &str, uid: &str) -> Call {
        Call::deletion(format!("{}/{name}", self.core("pods")), uid)
    }

    /// By the version that was seen: another of its name, which was made since, keeps its own.
    pub fn tell_status(&self, audit: Named<'_>, version: &str, status: &Value) -> Call {
        let metadata = json!({
            "name": audit.name, "namespace": self.namespace, "uid": audit.uid, "resourceVersion": version,
        });
        let object = json!({ "apiVersion": VERSION, "kind": "NodeAudit", "metadata": metadata, "status": status });
        let path = format!("{}/{}/status?fieldManager={MANAGER}&force=true", self.audits(), audit.name);
        call(Method::Apply, path, Some(object))
    }

    /// Its name says what happened to whom, and when, so that it is there once.
    pub fn tell_event(&self, audit: Named<'_>, happened: &Happened) -> Call {
        let reason = happened.reason.to_ascii_lowercase();
        let name = format!("{}.{}.{reason}.{}", audit.name, audit.uid, happened.unix);
        event(&self.namespace, ("NodeAudit", audit), (name, MANAGER), happened)
    }

    pub fn delete_audit(&self, audit: Named<'_>) -> Call {
        Call::deletion(format!("{}/{}", self.audits(), audit.name), audit.uid)
    }

    fn audits(&self) -> String {
        format!("/apis/{VERSION}/namespaces/{}/nodeaudits", self.namespace)
    }

    fn core(&self, kind: &str) -> String {
        format!("/api/v1/namespaces/{}/{kind}", self.namespace)
    }
}

/// A part of a list, from where the last one ended.
fn page(each: u32, from: &str) -> String {
    if from.is_empty() {
        return format!("limit={each}");
    }
    // Whatever it is, it ends no parameter.
    let mut escaped = String::new();
    for byte in from.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'.' => escaped.push(char::from(byte)),
            other => escaped.push_str(&format!("%{other:02X}")),
        }
    }
    format!("limit={each}&continue={escaped}")
}

/// Where the next part of a list begins; nothing at its end.
pub(crate) fn rest_of(list: &Value) -> Option<&str> {
    list["metadata"]["continue"].as_str().filter(|from| !from.is_empty())
}
