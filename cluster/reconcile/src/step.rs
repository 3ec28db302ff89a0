//! One question each.

use kubernetes::Method;
use manifests::Manifests;
use serde_json::{Value, json};

use crate::found::name;

/// A question to the API server.
#[derive(Clone, PartialEq, Debug)]
pub struct Call {
    /// What is to be done.
    pub method: Method,
    /// With what.
    pub path: String,
    /// The object that goes with it.
    pub object: Option<Value>,
}

impl Call {
    /// What is deleted is the object of this number, and no other of its name; what belongs to it goes after it.
    #[must_use]
    pub fn deletion(path: String, uid: &str) -> Self {
        let options = json!({
            "kind": "DeleteOptions",
            "apiVersion": "v1",
            "propagationPolicy": "Background",
            "preconditions": { "uid": uid },
        });
        Self { method: Method::Delete, path, object: Some(options) }
    }
}

/// What is asked next.
#[derive(Clone, PartialEq, Debug)]
pub(crate) enum Step {
    /// Who has the target?
    SeeLease,
    /// Nobody had it yet.
    MakeLease,
    /// It is free, or its holder is gone.
    TakeLease(Value),
    /// Did an earlier controller begin this test?
    SeeJob,
    /// It did, by the Job with this number: what do its workers know?
    SeeSecret(String),
    /// Nothing: the caller says what workers are to know.
    Meet,
    /// The Job, whose pods do not begin yet.
    MakeJob,
    /// There is one of its name.
    SeeMadeJob,
    /// It is of a test that is over.
    ClearJob(String),
    /// What its workers read.
    MakeSecret,
    /// There is one of its name.
    SeeMadeSecret,
    /// It is of a test that is no more.
    ClearSecret(String),
    /// Its pods begin.
    Begin,
    /// How are they?
    List,
    /// Was the Job made, whose making had no answer?
    SeeLeftJob,
    /// The test is over.
    DeleteJob(String),
    /// What its workers read goes with the Job, and sooner so.
    DeleteSecret(String),
    /// Is the target still this test's?
    SeeLeftLease,
    /// It is the next one's.
    LeaveLease(Value),
    /// Nothing more.
    Over,
}

/// What the objects of a test are called.
#[derive(Clone, Debug)]
pub(crate) struct Names {
    namespace: String,
    /// Of the Job and the Secret.
    pub test: String,
    pub lease: String,
}

impl Names {
    pub fn of(namespace: &str, manifests: &Manifests) -> Self {
        let (test, lease) = (name(&manifests.job).to_owned(), name(&manifests.lease).to_owned());
        Self { namespace: namespace.to_owned(), test, lease }
    }

    pub fn namespace(&self) -> &str {
        &self.namespace
    }

    /// The question of a step; none where nothing is asked. The Secret goes with the Job of this number, whoever
    /// deletes that.
    pub fn call(&self, step: &Step, manifests: &Manifests, holder: &str, job: Option<&str>) -> Option<Call> {
        let call = |method, path, object| Some(Call { method, path, object });
        let (jobs, secrets, leases) = (self.jobs(), self.secrets(), self.leases());
        let (job_path, secret_path) = (format!("{jobs}/{}", self.test), format!("{secrets}/{}", self.test));
        match step {
            Step::SeeLease | Step::SeeLeftLease => self.see_lease(),
            Step::MakeLease => {
                let mut lease = manifests.lease.clone();
                lease["spec"]["holderIdentity"] = json!(holder);
                call(Method::Post, leases, Some(lease))
            }
            Step::TakeLease(lease) | Step::LeaveLease(lease) => self.put_lease(lease.clone()),
            Step::SeeJob | Step::SeeMadeJob | Step::SeeLeftJob => call(Method::Get, job_path, None),
            Step::MakeJob => call(Method::Post, jobs, Some(manifests.job.clone())),
            Step::ClearJob(uid) | Step::DeleteJob(uid) => Some(Call::deletion(job_path, uid)),
            Step::SeeSecret(_) | Step::SeeMadeSecret => call(Method::Get, secret_path, None),
            Step::MakeSecret => {
                let mut secret = manifests.secret.clone();
                secret["metadata"]["ownerReferences"] =
                    json!([{ "apiVersion": "batch/v1", "kind": "Job", "name": self.test, "uid": job }]);
                call(Method::Post, secrets, Some(secret))
            }
            Step::ClearSecret(uid) | Step::DeleteSecret(uid) => Some(Call::deletion(secret_path, uid)),
            Step::Begin => {
                // By its number: another of its name is not to begin.
                let begin = json!({ "metadata": { "uid": job }, "spec": { "suspend": false } });
                call(Method::Patch, job_path, Some(begin))
            }
            Step::List => {
                // Those of an earlier Job of its name may still be ending.
                let selector = format!("batch.kubernetes.io%2Fcontroller-uid%3D{}", job.unwrap_or_default());
                let path = format!("/api/v1/namespaces/{}/pods?labelSelector={selector}", self.namespace);
                call(Method::Get, path, None)
            }
            Step::Meet | Step::Over => None,
        }
    }

    pub fn see_lease(&self) -> Option<Call> {
        Some(Call { method: Method::Get, path: format!("{}/{}", self.leases(), self.lease), object: None })
    }

    pub fn put_lease(&self, lease: Value) -> Option<Call> {
        Some(Call { method: Method::Put, path: format!("{}/{}", self.leases(), self.lease), object: Some(lease) })
    }

    fn jobs(&self) -> String {
        format!("/apis/batch/v1/namespaces/{}/jobs", self.namespace)
    }

    fn secrets(&self) -> String {
        format!("/api/v1/namespaces/{}/secrets", self.namespace)
    }

    fn leases(&self) -> String {
        format!("/apis/coordination.k8s.io/v1/namespaces/{}/leases", self.namespace)
    }
}
