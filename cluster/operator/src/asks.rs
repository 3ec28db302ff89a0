//! The questions.

use crate::leading::LeaseAsks;
use crate::moment::written;
use kubernetes::Method;
use reconcile::Call;
use serde_json::{Value, json};
use spec::{POD_PREFIX, VERSION};

/// Whose fields they are (server-side apply).
const MANAGER: &str = "nearside-operator";

/// The Lease of whichever operator of tests is the one of its namespace.
const LEASE: &str = "nearside-operator";

/// What Jobs of tests are known by (`app.kubernetes.io/managed-by=nearside-cluster`).
const OF_TESTS: &str = "app.kubernetes.io%2Fmanaged-by%3Dnearside-cluster";

/// The questions of one namespace.
#[derive(Clone, Debug)]
pub(crate) struct Asks {
    namespace: String,
    pub lease: LeaseAsks,
}

/// A test, as questions name it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Named<'a> {
    pub name: &'a str,
    pub uid: &'a str,
}

/// Something that happened to a test.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Happened {
    pub reason: String,
    pub message: String,
    pub is_warning: bool,
    pub unix: u64,
}

impl Asks {
    pub fn new(namespace: &str) -> Self {
        Self { namespace: namespace.to_owned(), lease: LeaseAsks::new(namespace, LEASE) }
    }

    pub fn list(&self) -> Call {
        call(Method::Get, self.tests(), None)
    }

    /// Where a watch is asked for: what comes after this version.
    pub fn watch(&self, version: &str) -> String {
        format!(
            "{}?watch=1&allowWatchBookmarks=true&timeoutSeconds=300&resourceVersion={}",
            self.tests(),
            // Versions are texts without meaning; what might end the parameter has no place in one.
            version.chars().filter(char::is_ascii_alphanumeric).collect::<String>()
        )
    }

    /// Is this test the one of its name yet, and of which version?
    pub fn see_test(&self, test: Named<'_>) -> Call {
        call(Method::Get, format!("{}/{}", self.tests(), test.name), None)
    }

    /// By the version that was seen, so that another of its name, which was made since, keeps its own: of a status a
    /// server does not compare the number of the object (`uid`).
    pub fn tell_status(&self, test: Named<'_>, version: &str, status: &Value) -> Call {
        let object = json!({
            "apiVersion": VERSION,
            "kind": "LoadTest",
            "metadata": {
                "name": test.name,
                "namespace": self.namespace,
                "uid": test.uid,
                "resourceVersion": version,
            },
            "status": status,
        });
        let path = format!("{}/{}/status?fieldManager={MANAGER}&force=true", self.tests(), test.name);
        call(Method::Apply, path, Some(object))
    }

    /// The object with a test's result, which goes with the test.
    pub fn keep_result(&self, test: Named<'_>, result: &str) -> Call {
        let name = result_name(test.name);
        let object = json!({
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {
                "name": name,
                "namespace": self.namespace,
                "labels": { "app.kubernetes.io/name": "nearside", "app.kubernetes.io/instance": test.name },
                "ownerReferences": [owner(test)],
            },
            "data": { "result.json": result },
        });
        let path = format!("/api/v1/namespaces/{}/configmaps/{name}", self.namespace);
        call(Method::Apply, format!("{path}?fieldManager={MANAGER}&force=true"), Some(object))
    }

    /// Its name says what happened to whom, so that it is there once.
    pub fn tell_event(&self, test: Named<'_>, happened: &Happened) -> Call {
        let name = format!("{}.{}.{}", test.name, test.uid, happened.reason.to_ascii_lowercase());
        event(&self.namespace, ("LoadTest", test), (name, MANAGER), happened)
    }

    /// All Jobs of tests in this namespace: those of objects, and those that `nearside cluster run` made.
    pub fn list_jobs(&self) -> Call {
        call(Method::Get, format!("{}?labelSelector={OF_TESTS}", self.jobs()), None)
    }

    pub fn delete_job(&self, test: Named<'_>, uid: &str) -> Call {
        Call::deletion(format!("{}/{}", self.jobs(), job_name(test.name)), uid)
    }

    pub fn delete_test(&self, test: Named<'_>) -> Call {
        Call::deletion(format!("{}/{}", self.tests(), test.name), test.uid)
    }

    fn tests(&self) -> String {
        format!("/apis/{VERSION}/namespaces/{}/loadtests", self.namespace)
    }

    fn jobs(&self) -> String {
        format!("/apis/batch/v1/namespaces/{}/jobs", self.namespace)
    }
}

/// The name of a test's Job.
pub(crate) fn job_name(test: &str) -> String {
    format!("{POD_PREFIX}{test}")
}

/// The name of the object with a test's result.
pub(crate) fn result_name(test: &str) -> String {
    format!("{}{test}-result", POD_PREFIX)
}

/// Whose an object is that goes with a test.
fn owner(test: Named<'_>) -> Value {
    json!({ "apiVersion": VERSION, "kind": "LoadTest", "name": test.name, "uid": test.uid, "controller": true })
}

/// The event of this name, by this component, that something happened to an object of this kind.
pub(crate) fn event(
    namespace: &str,
    (kind, of): (&str, Named<'_>),
    (name, component): (String, &str),
    happened: &Happened,
) -> Call {
    let Happened { reason, message, is_warning, unix } = happened;
    let time = written(*unix);
    let object = json!({
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": { "name": name, "namespace": namespace },
        "involvedObject": {
            "apiVersion": VERSION, "kind": kind, "name": of.name, "namespace": namespace, "uid": of.uid,
        },
        "type": if *is_warning { "Warning" } else { "Normal" },
        "reason": reason,
        "message": message,
        "firstTimestamp": time,
        "lastTimestamp": time,
        "count": 1,
        "source": { "component": component },
        "reportingComponent": component,
        "reportingInstance": component,
    });
    call(Method::Post, format!("/api/v1/namespaces/{namespace}/events"), Some(object))
}

pub(crate) fn call(method: Method, path: String, object: Option<Value>) -> Call {
    Call { method, path, object }
}
