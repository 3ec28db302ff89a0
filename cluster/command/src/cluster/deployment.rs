//! The objects of one test in a cluster: made, found again by a controller that was started again, and deleted.
//!
//! Names say which test they belong to, and the API server which version was changed: nothing is kept here that cannot
//! be asked for again.

use crate::cluster::lease::{LeaseStep, Waiting, left, renewed};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use core::time::Duration;
use cpu::Clock;
use kubernetes::{ApiError, Client, Method};
use manifests::Manifests;
use messages::{CONTROLLER_FILE, TOKEN_FILE, Token};
use say::eprintln;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

/// By what a test is known again.
const IDENTITY: &str = "nearside.dev/test";

/// Between one look and the next.
const LOOK_EVERY: Duration = Duration::from_millis(500);

/// Before the same question is asked again: at first, and at most.
const PAUSES: (Duration, Duration) = (Duration::from_millis(50), Duration::from_secs(1));

/// An API server that does not answer is asked again for this long.
const PATIENCE: Duration = Duration::from_secs(30);

/// What is deleted is gone within this.
const DELETION_PATIENCE: Duration = Duration::from_secs(60);

/// What workers and their controller know of each other.
#[derive(Clone)]
pub struct Meeting {
    /// The test's token.
    pub token: Token,
    /// Where workers look for their controller.
    pub controller: String,
}

/// The objects of one test.
pub struct Deployment {
    client: Client,
    namespace: String,
    name: String,
    lease: String,
    /// Who holds the target's Lease: this process.
    holder: String,
}

impl Deployment {
    /// Those of a test whose objects are `manifests`, for a process of this number.
    pub fn new(client: Client, namespace: &str, manifests: &Manifests, number: u64) -> Self {
        let name = |object: &Value| object["metadata"]["name"].as_str().unwrap_or_default().to_owned();
        let job = name(&manifests.job);
        let holder = format!("{namespace}/{job}/{number:016x}");
        Self { client, namespace: namespace.to_owned(), name: job, lease: name(&manifests.lease), holder }
    }

    /// Waits for the target, and has it; not if somebody interrupts that.
    ///
    /// # Errors
    /// If the API server refuses, or does not answer.
    pub fn hold_target(&self, lease: &Value, interrupted: &AtomicBool, quiet: bool) -> Result<bool, String> {
        let (mut waiting, mut told) = (Waiting::default(), String::new());
        let mut lease = lease.clone();
        lease["spec"]["holderIdentity"] = json!(self.holder);
        while !interrupted.load(Ordering::Relaxed) {
            let found = match self.insist(Method::Get, &self.lease_path(&self.lease), None) {
                Err(why) if why.is_missing() => match self.insist(Method::Post, &self.lease_path(""), Some(&lease)) {
                    Ok(_) => return Ok(true),
                    Err(why) if why.is_conflict() => continue,
                    Err(why) => return Err(format!("the Lease {}: {why}", self.lease)),
                },
                other => other.map_err(|why| format!("the Lease {}: {why}", self.lease))?,
            };
            match waiting.step(&found, &self.holder, Clock.now()) {
                LeaseStep::Take(mine) => match self.insist(Method::Put, &self.lease_path(&self.lease), Some(&mine)) {
                    Ok(_) => return Ok(true),
                    // Somebody else was quicker, or left.
                    Err(why) if why.is_conflict() || why.is_missing() => {}
                    Err(why) => return Err(format!("the Lease {}: {why}", self.lease)),
                },
                LeaseStep::Wait { holder } => {
                    if !quiet && told != holder {
                        eprintln!("waiting    another test has this target: {holder}");
                        told = holder;
                    }
                    thread::sleep(LOOK_EVERY);
                }
            }
        }
        Ok(false)
    }

    /// Says that the target's holder is here; answers whether it is so.
    pub fn renew(&self) -> Result<bool, ApiError> {
        let path = self.lease_path(&self.lease);
        let found = match self.client.call(Method::Get, &path, None) {
            // Somebody deleted it: whoever makes it next has it.
            Err(why) if why.is_missing() => return Ok(false),
            other => other?,
        };
        let Some(mine) = renewed(&found, &self.holder) else { return Ok(false) };
        match self.client.call(Method::Put, &path, Some(&mine)) {
            Err(why) if why.is_conflict() || why.is_missing() => Ok(true),
            other => other.map(|_| true),
        }
    }

    /// What workers of this very test, which an earlier controller began, know already: then it goes on.
    ///
    /// # Errors
    /// If the API server refuses, or another test has the name.
    pub fn find(&self, manifests: &Manifests) -> Result<Option<Meeting>, String> {
        let job = match self.insist(Method::Get, &self.job_path(&self.name), None) {
            Err(why) if why.is_missing() => return Ok(None),
            other => other.map_err(|why| format!("the Job {}: {why}", self.name))?,
        };
        if is_over(&job) {
            return Ok(None);
        }
        let (theirs, mine) =
            (&job["metadata"]["annotations"][IDENTITY], &manifests.job["metadata"]["annotations"][IDENTITY]);
        if theirs != mine {
            let (name, space) = (&self.name, &self.namespace);
            return Err(format!(
                "there is a Job {name} in the namespace {space}, of another test or another version of this one: \
                 kubectl delete job -n {space} {name}, or give the test another name"
            ));
        }
        let secret = match self.insist(Method::Get, &self.secret_path(&self.name), None) {
            Err(why) if why.is_missing() => return Ok(None),
            other => other.map_err(|why| format!("the Secret {}: {why}", self.name))?,
        };
        Ok(Some(&secret).filter(|secret| is_owned(secret, &job)).and_then(meeting))
    }

    /// Makes the objects of a test, those that are there already left as they are, and has its pods begin. The answer
    /// is the Job's own number, which no other of its name has.
    ///
    /// # Errors
    /// If the API server refuses, or does not answer.
    pub fn make(&self, manifests: &Manifests) -> Result<String, String> {
        let told = |kind: &str, why: ApiError| format!("the {kind} {}: {why}", self.name);
        let job = self.make_job(manifests)?;
        let mut secret = manifests.secret.clone();
        // With the Job it goes, whoever deletes that.
        secret["metadata"]["ownerReferences"] = json!([{
            "apiVersion": "batch/v1", "kind": "Job", "name": self.name, "uid": job["metadata"]["uid"],
        }]);
        match self.insist(Method::Post, &self.secret_path(""), Some(&secret)) {
            Err(why) if why.is_conflict() => {
                let found = self.insist(Method::Get, &self.secret_path(&self.name), None);
                let found = found.map_err(|why| told("Secret", why))?;
                if !is_owned(&found, &job)
                    || found_token(&found) != secret["stringData"][TOKEN_FILE].as_str().map(str::to_owned)
                {
                    // That of a test that is no more.
                    self.delete_one(&self.secret_path(&self.name)).map_err(|why| told("Secret", why))?;
                    self.insist(Method::Post, &self.secret_path(""), Some(&secret))
                        .map_err(|why| told("Secret", why))?;
                }
            }
            other => drop(other.map_err(|why| told("Secret", why))?),
        }
        let begin = json!({ "spec": { "suspend": false } });
        self.insist(Method::Patch, &self.job_path(&self.name), Some(&begin)).map_err(|why| told("Job", why))?;
        let letter = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-';
        let uid = job["metadata"]["uid"].as_str().filter(|uid| uid.bytes().all(letter));
        uid.map(str::to_owned).ok_or_else(|| format!("the Job {} has no number", self.name))
    }

    fn make_job(&self, manifests: &Manifests) -> Result<Value, String> {
        let told = |why: ApiError| format!("the Job {}: {why}", self.name);
        let until = Clock.now() + DELETION_PATIENCE;
        loop {
            match self.insist(Method::Post, &self.job_path(""), Some(&manifests.job)) {
                Err(why) if why.is_conflict() => {}
                other => return other.map_err(told),
            }
            let found = match self.insist(Method::Get, &self.job_path(&self.name), None) {
                Err(why) if why.is_missing() => continue,
                other => other.map_err(told)?,
            };
            if !is_over(&found) {
                return Ok(found);
            }
            // Of a test that is over, or ends.
            self.delete_one(&self.job_path(&self.name)).map_err(told)?;
            if Clock.now() >= until {
                return Err(format!("the Job {} of an earlier test does not go", self.name));
            }
            thread::sleep(LOOK_EVERY);
        }
    }

    /// The pods of the Job with this number: those of an earlier one of its name may still be ending.
    pub fn pods(&self, uid: &str) -> Result<Vec<Value>, ApiError> {
        let path = format!(
            "/api/v1/namespaces/{}/pods?labelSelector=batch.kubernetes.io%2Fcontroller-uid%3D{uid}",
            self.namespace
        );
        let mut list = self.client.call(Method::Get, &path, None)?;
        Ok(match list.get_mut("items").map(Value::take) {
            Some(Value::Array(items)) => items,
            _ => Vec::new(),
        })
    }

    /// Deletes what was made, and leaves the target.
    ///
    /// # Errors
    /// If the API server does not let it.
    pub fn delete(&self) -> Result<(), String> {
        let job = self.delete_one(&self.job_path(&self.name)).map_err(|why| format!("the Job {}: {why}", self.name));
        let secret = self.delete_one(&self.secret_path(&self.name));
        let secret = secret.map_err(|why| format!("the Secret {}: {why}", self.name));
        job.and(secret).and(self.leave())
    }

    /// Leaves the target to others.
    ///
    /// # Errors
    /// If the API server does not let it: then who waits sees that nobody counts.
    pub fn leave(&self) -> Result<(), String> {
        let path = self.lease_path(&self.lease);
        let told = |why: ApiError| format!("the Lease {}: {why}", self.lease);
        let found = match self.insist(Method::Get, &path, None) {
            Err(why) if why.is_missing() => return Ok(()),
            other => other.map_err(told)?,
        };
        match left(&found, &self.holder).map(|free| self.insist(Method::Put, &path, Some(&free))) {
            Some(Err(why)) if !why.is_conflict() && !why.is_missing() => Err(told(why)),
            _ => Ok(()),
        }
    }

    fn delete_one(&self, path: &str) -> Result<(), ApiError> {
        let options = json!({ "kind": "DeleteOptions", "apiVersion": "v1", "propagationPolicy": "Background" });
        match self.insist(Method::Delete, path, Some(&options)) {
            Err(why) if why.is_missing() => Ok(()),
            other => other.map(|_| ()),
        }
    }

    /// Asks until there is an answer that will not be another a moment later.
    fn insist(&self, method: Method, path: &str, object: Option<&Value>) -> Result<Value, ApiError> {
        let (until, mut pause) = (Clock.now() + PATIENCE, PAUSES.0);
        loop {
            match self.client.call(method, path, object) {
                Err(why) if why.may_pass() && Clock.now() < until => thread::sleep(pause),
                other => return other,
            }
            pause = (pause * 2).min(PAUSES.1);
        }
    }

    fn job_path(&self, name: &str) -> String {
        path(&format!("/apis/batch/v1/namespaces/{}/jobs", self.namespace), name)
    }

    fn secret_path(&self, name: &str) -> String {
        path(&format!("/api/v1/namespaces/{}/secrets", self.namespace), name)
    }

    fn lease_path(&self, name: &str) -> String {
        path(&format!("/apis/coordination.k8s.io/v1/namespaces/{}/leases", self.namespace), name)
    }
}

fn path(list: &str, name: &str) -> String {
    if name.is_empty() { list.to_owned() } else { format!("{list}/{name}") }
}

/// Whether a Job has ended, or is being deleted.
fn is_over(job: &Value) -> bool {
    let ended = |one: &Value| (one["type"] == "Complete" || one["type"] == "Failed") && one["status"] == "True";
    let conditions = job["status"]["conditions"].as_array();
    job["metadata"]["deletionTimestamp"].is_string() || conditions.is_some_and(|all| all.iter().any(ended))
}

fn is_owned(secret: &Value, job: &Value) -> bool {
    let owners = secret["metadata"]["ownerReferences"].as_array();
    owners.is_some_and(|all| all.iter().any(|one| one["uid"].is_string() && one["uid"] == job["metadata"]["uid"]))
}

fn of_secret(secret: &Value, key: &str) -> Option<String> {
    String::from_utf8(STANDARD.decode(secret["data"][key].as_str()?).ok()?).ok()
}

fn found_token(secret: &Value) -> Option<String> {
    of_secret(secret, TOKEN_FILE)
}

/// What a Secret says to workers.
fn meeting(secret: &Value) -> Option<Meeting> {
    Some(Meeting { token: Token::read(&found_token(secret)?)?, controller: of_secret(secret, CONTROLLER_FILE)? })
}

/// Workers whose pods were there, and are no more.
pub(super) fn vanished(seen: &BTreeSet<u32>, now: &BTreeSet<u32>) -> Vec<u32> {
    seen.difference(now).copied().collect()
}
