//! The objects of a test, and what cannot be one.

use crate::pod::{COMPONENT, INSTANCE, pod, worker_token};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use core::hash::Hasher;
use core::net::IpAddr;
use core::time::Duration;
use serde_json::{Map, Value, json};
use siphasher::sip::SipHasher24;
use spec::{FieldError, LoadTest, POD_PREFIX, VERSION};

/// What a Secret holds at most, by Kubernetes.
const SECRET_LIMIT: usize = 1 << 20;

/// A test that nobody ends any more ends by itself this long after its time.
const DEADLINE_GRACE: Duration = Duration::from_secs(60);

/// What has ended, and nobody took away, goes by itself after so many seconds.
const LEFT_FOR: u32 = 600;

/// A holder of a target that does not say for so many seconds that it is there has it no more.
const HELD_FOR: u32 = 15;

/// Whose the objects are.
pub(crate) const MANAGER: &str = "nearside-cluster";

/// Where a test's objects are to be, and what of.
#[derive(Clone, Copy, Debug)]
pub struct Setting<'a> {
    /// The test.
    pub test: &'a LoadTest,
    /// Its file, by which it is known again.
    pub source: &'a str,
    /// The namespace.
    pub namespace: &'a str,
    /// The image, if that of the test is not to be taken.
    pub image: Option<&'a str>,
    /// The number of the object in the cluster that the test is, if it is one: what is made goes with it.
    pub owner: Option<&'a str>,
    /// What workers read.
    pub contents: Contents<'a>,
}

/// What workers, and whoever follows their controller, read.
#[derive(Clone, Copy, Debug)]
pub struct Contents<'a> {
    /// The token of the test, which no worker sees: a controller that follows another reads it.
    pub token: &'a str,
    /// The controller's public key, as text.
    pub key: &'a str,
    /// The token of each worker, of which it sees its own alone.
    pub tokens: &'a [String],
    /// Where the controller is: an address or a name, and a port.
    pub controller: &'a str,
    /// The request, as a line of a list.
    pub request: &'a str,
    /// The rows of data, where there are some.
    pub feed: Option<&'a [u8]>,
}

/// The objects of a test.
#[derive(Clone, PartialEq, Debug)]
pub struct Manifests {
    /// What its workers read.
    pub secret: Value,
    /// Its workers; suspended until the Secret is there.
    pub job: Value,
    /// The queue of its target.
    pub lease: Value,
}

impl Manifests {
    /// All of them, in the order in which they are made.
    #[must_use]
    pub fn all(&self) -> [&Value; 3] {
        [&self.lease, &self.job, &self.secret]
    }
}

/// The name of a test's Secret and Job.
#[must_use]
pub fn test_name(test: &LoadTest) -> String {
    format!("{POD_PREFIX}{}", test.name)
}

/// The name of the Lease of a test's target: one for each authority.
#[must_use]
pub fn lease_name(test: &LoadTest) -> String {
    let mut hasher = SipHasher24::new();
    let authority = format!("{}:{}", test.target.host.to_ascii_lowercase(), test.target.port);
    hasher.write(authority.as_bytes());
    format!("{POD_PREFIX}target-{:016x}", hasher.finish())
}

/// The objects of a test.
///
/// # Errors
/// What of the test cannot be in a cluster, each with its field.
pub fn objects(setting: &Setting<'_>) -> Result<Manifests, Vec<FieldError>> {
    let test = setting.test;
    let mut wrong = Vec::new();
    let mut refuse = |field: &str, why: String| {
        wrong.push(FieldError { field: field.to_owned(), line: test.line(field), why });
    };
    if let Some(theirs) = test.namespace.as_deref().filter(|theirs| *theirs != setting.namespace) {
        refuse(
            "metadata.namespace",
            format!("the test belongs to {theirs}, and was asked for in {}", setting.namespace),
        );
    }
    if is_own(&test.target.host) {
        let why = "in a pod that is the pod itself: name the server as a pod reaches it".to_owned();
        refuse("spec.target", why);
    }
    let image = setting.image.or(test.pods.image.as_deref());
    if image.is_none() {
        let why = "this is missing: the image of nearside (make image), here or by --image".to_owned();
        refuse("spec.pods.image", why);
    }
    let Contents { token, key, tokens, controller, request, feed } = setting.contents;
    let own = tokens.iter().map(String::len).sum::<usize>();
    let size = token.len() + key.len() + own + controller.len() + request.len() + feed.map_or(0, <[u8]>::len);
    if size > SECRET_LIMIT {
        let field =
            if feed.is_some_and(|feed| feed.len() > request.len()) { "spec.request.feed.file" } else { "spec.request" };
        let why = format!("with this the test's Secret has {size} bytes, and may have {SECRET_LIMIT}");
        refuse(field, why);
    }
    match image {
        Some(image) if wrong.is_empty() => {
            Ok(Manifests { secret: secret(setting), job: job(setting, image), lease: lease(setting) })
        }
        _ => Err(wrong),
    }
}

/// Whether a host is the machine that asks.
fn is_own(host: &str) -> bool {
    let address = host.parse::<IpAddr>();
    address.map_or_else(
        |_| host.trim_end_matches('.').eq_ignore_ascii_case("localhost"),
        |address| address.to_canonical().is_loopback() || address.to_canonical().is_unspecified(),
    )
}

fn secret(setting: &Setting<'_>) -> Value {
    let Contents { token, key, tokens, controller, request, feed } = setting.contents;
    let mut secret = object(setting, "v1", "Secret", &test_name(setting.test));
    secret["type"] = json!("Opaque");
    secret["immutable"] = json!(true);
    let mut data = json!({ "token": token, "controller-key": key, "controller": controller, "request.json": request });
    for (worker, token) in tokens.iter().enumerate() {
        data[worker_token(&worker.to_string())] = json!(token);
    }
    secret["stringData"] = data;
    match feed.map(core::str::from_utf8) {
        Some(Ok(text)) => secret["stringData"]["feed.csv"] = json!(text),
        Some(Err(_)) => secret["data"] = json!({ "feed.csv": STANDARD.encode(feed.unwrap_or_default()) }),
        None => {}
    }
    secret
}

fn job(setting: &Setting<'_>, image: &str) -> Value {
    let test = setting.test;
    let name = test_name(test);
    let (labels, has_feed) = (labels(test), setting.contents.feed.is_some());
    let end = test.prepare + test.warm_up.time + test.duration.time + test.timeout.time + DEADLINE_GRACE;
    let mut job = object(setting, "batch/v1", "Job", &name);
    job["metadata"]["annotations"] = json!({ "nearside.dev/test": identity(setting, image) });
    if let Some(uid) = setting.owner {
        let owner = json!({
            "apiVersion": VERSION, "kind": "LoadTest", "name": test.name, "uid": uid, "controller": true,
        });
        job["metadata"]["ownerReferences"] = json!([owner]);
    }
    job["spec"] = json!({
        "suspend": true,
        "completionMode": "Indexed",
        "completions": test.workers,
        "parallelism": test.workers,
        // A worker that failed is not started again, and the others are left alone: what they measured is asked for.
        "backoffLimitPerIndex": 0,
        "podReplacementPolicy": "Failed",
        "activeDeadlineSeconds": end.as_secs(),
        "ttlSecondsAfterFinished": LEFT_FOR,
        "template": { "metadata": { "labels": labels }, "spec": pod(test, &name, image, has_feed) },
    });
    job
}

fn lease(setting: &Setting<'_>) -> Value {
    let mut lease = object(setting, "coordination.k8s.io/v1", "Lease", &lease_name(setting.test));
    // It is the target's: whichever test made it, another may hold it next.
    if let Some(labels) = lease["metadata"]["labels"].as_object_mut() {
        labels.remove(INSTANCE);
    }
    lease["metadata"]["annotations"] = json!({ "nearside.dev/target": setting.test.target.authority });
    lease["spec"] = json!({ "holderIdentity": test_name(setting.test), "leaseDurationSeconds": HELD_FOR });
    lease
}

fn object(setting: &Setting<'_>, version: &str, kind: &str, name: &str) -> Value {
    let mut labels = labels(setting.test);
    labels.remove(COMPONENT);
    json!({
        "apiVersion": version,
        "kind": kind,
        "metadata": { "name": name, "namespace": setting.namespace, "labels": labels },
    })
}

fn labels(test: &LoadTest) -> Map<String, Value> {
    let mut labels = Map::new();
    for (key, value) in [
        ("app.kubernetes.io/name", "nearside"),
        ("app.kubernetes.io/managed-by", MANAGER),
        (COMPONENT, "worker"),
        (INSTANCE, &test.name),
    ] {
        labels.insert(key.to_owned(), json!(value));
    }
    labels
}

/// By what a test is known again: its file, its image, its rows of data, its own number.
fn identity(setting: &Setting<'_>, image: &str) -> String {
    let mut hasher = SipHasher24::new();
    let owner = setting.owner.unwrap_or_default().as_bytes();
    for part in [setting.source.as_bytes(), image.as_bytes(), setting.contents.feed.unwrap_or_default(), owner] {
        hasher.write_u64(part.len() as u64);
        hasher.write(part);
    }
    format!("{:016x}", hasher.finish())
}
