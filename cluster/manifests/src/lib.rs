//! The objects of Kubernetes that a load on many machines is, as a function of its file. Without I/O.
//!
//! | object | for |
//! | --- | --- |
//! | Secret | what workers read: the test's token, where their controller is, the request, rows of data |
//! | Job | the workers: one pod for each index, none of them started again |
//! | Lease | the target's queue: one test after the other |
//!
//! An audit of nodes is a Secret for each round, and in it a Secret and a pod for each node.
//!
//! There is no Service, for nobody connects to a worker; no Role, for a worker asks the API server nothing, and has no
//! account there; and no NetworkPolicy, for what a namespace lets its pods connect to is not a test's to open.
//!
//! | module | for |
//! | --- | --- |
//! | `objects` | the objects, and what cannot be one |
//! | `pod` | a worker as a pod |
//! | `auditing` | the objects of an audit of nodes |
//! | `install` | what installs the operator |
//! | `yaml` | objects as text |
#![forbid(unsafe_code)]

mod auditing;
mod install;
mod objects;
mod pod;
mod yaml;

pub use auditing::{
    AuditKeys, AuditPod, AuditSetting, NODE, ROUND, audit_labels, audit_pod_name, audit_secret_name, audit_selector,
    node_secret_name, record_name,
};
pub use install::{ClusterRights, InstallSetting, install, install_audits};
pub use objects::{Contents, Manifests, Setting, lease_name, objects, test_name};
pub use yaml::yaml;
