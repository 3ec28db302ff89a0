//! As much of a cluster as a test needs, in virtual time: an API server whose answers are lost, late and refusals that
//! pass; Jobs, their pods, nodes, and what is deleted with its owner.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use core::time::Duration;
use kubernetes::{ApiError, Method};
use random::SplitMix64;
use reconcile::Call;
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use wire::Time;

/// Pods of a node that died are deleted after this.
const NODE_PATIENCE: Duration = Duration::from_secs(20);

/// What belongs to nobody any more is deleted after this.
const ORPHAN_PATIENCE: Duration = Duration::from_secs(1);

/// What becomes of a call.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Manner {
    /// It is done, and answered.
    Plain,
    /// It is refused for now.
    Refused,
    /// It never comes.
    Lost,
    /// It is done, and its answer never comes.
    Unanswered,
    /// It is done twice, and the second answer comes.
    Twice,
}

/// How far a pod is.
#[derive(Clone, PartialEq, Debug)]
pub enum PodState {
    /// It begins then, if its Secret is there.
    Pending(Time),
    /// Its worker runs.
    Running,
    /// Its worker ended, as its status says.
    Ended(Value),
}

/// A pod.
#[derive(Clone, Debug)]
pub struct Pod {
    pub index: u32,
    pub job: String,
    pub node: u32,
    pub state: PodState,
    /// When it is gone, once it is being deleted.
    pub gone_at: Option<Time>,
}

/// What the cluster does to the process in a pod.
pub enum Process {
    /// It begins, and finds this in its folder.
    Begins { pod: u64, index: u32, token: String, controller: String },
    /// It is killed.
    Killed { pod: u64 },
}

/// The cluster.
pub struct Cluster {
    pub objects: BTreeMap<String, Value>,
    pub pods: BTreeMap<u64, Pod>,
    /// When each node died.
    pub dead: BTreeMap<u32, Time>,
    /// Jobs by their numbers: whether their pods were made, when they began, when they ended.
    jobs: BTreeMap<String, (bool, Time, Option<Time>)>,
    orphans: BTreeMap<String, Time>,
    version: u64,
    nodes: u32,
}

impl Cluster {
    pub fn new(nodes: u32) -> Self {
        Self {
            objects: BTreeMap::new(),
            pods: BTreeMap::new(),
            dead: BTreeMap::new(),
            jobs: BTreeMap::new(),
            orphans: BTreeMap::new(),
            version: 0,
            nodes,
        }
    }

    /// Does what a call asks, in its manner.
    pub fn call(&mut self, call: &Call, manner: Manner, now: Time) -> Result<Value, ApiError> {
        let unreachable = || Err(ApiError::Unreachable("no answer".to_owned()));
        match manner {
            Manner::Plain => self.answer(call, now),
            Manner::Refused => Err(refused(503, "ServiceUnavailable")),
            Manner::Lost => unreachable(),
            Manner::Unanswered => {
                let _ = self.answer(call, now);
                unreachable()
            }
            Manner::Twice => {
                let _ = self.answer(call, now);
                self.answer(call, now)
            }
        }
    }

    fn answer(&mut self, call: &Call, now: Time) -> Result<Value, ApiError> {
        let (_, path) = call.path.split_once("/namespaces/load/").expect("in its namespace");
        if let Some(selector) = path.strip_prefix("pods?labelSelector=batch.kubernetes.io%2Fcontroller-uid%3D") {
            let items: Vec<Value> = self.pods.values().filter(|pod| pod.job == selector).map(described).collect();
            return Ok(json!({ "items": items }));
        }
        let object = || call.object.clone().expect("with an object");
        match call.method {
            Method::Get => self.objects.get(path).cloned().ok_or_else(missing),
            Method::Post => {
                let made = object();
                let path = format!("{path}/{}", made["metadata"]["name"].as_str().expect("a name"));
                if self.objects.contains_key(&path) {
                    return Err(refused(409, "AlreadyExists"));
                }
                Ok(self.put(path, made))
            }
            Method::Put => {
                let (made, found) = (object(), self.objects.get(path).ok_or_else(missing)?);
                if found["metadata"]["resourceVersion"] != made["metadata"]["resourceVersion"] {
                    return Err(refused(409, "Conflict"));
                }
                Ok(self.put(path.to_owned(), made))
            }
            Method::Patch => {
                let (patch, mut found) = (object(), self.objects.get(path).cloned().ok_or_else(missing)?);
                if patch["metadata"]["uid"] != found["metadata"]["uid"] {
                    return Err(refused(409, "Conflict"));
                }
                found["spec"]["suspend"] = patch["spec"]["suspend"].clone();
                self.jobs.entry(uid(&found)).or_insert((false, now, None));
                Ok(self.put(path.to_owned(), found))
            }
            Method::Apply => panic!("nobody applies"),
            Method::Delete => {
                let found = self.objects.get(path).ok_or_else(missing)?;
                if object()["preconditions"]["uid"] != found["metadata"]["uid"] {
                    return Err(refused(409, "Conflict"));
                }
                self.objects.remove(path).ok_or_else(missing)
            }
        }
    }

    /// As it is stored: with a version, its own number, and texts of Secrets in base64.
    fn put(&mut self, path: String, mut object: Value) -> Value {
        self.version += 1;
        object["metadata"]["resourceVersion"] = json!(self.version.to_string());
        if object["metadata"]["uid"].is_null() {
            object["metadata"]["uid"] = json!(format!("u-{}", self.version));
        }
        if let Some(texts) = object["stringData"].take().as_object() {
            let encoded = |text: &Value| json!(STANDARD.encode(text.as_str().expect("text")));
            let data: Map<String, Value> = texts.iter().map(|(key, text)| (key.clone(), encoded(text))).collect();
            object["data"] = data.into();
        }
        self.objects.insert(path, object.clone());
        object
    }

    /// What controllers and nodes do, by and by; how processes fare.
    pub fn tick(&mut self, random: &mut SplitMix64, now: Time) -> Vec<Process> {
        self.make_pods(random, now);
        let mut all = self.end_pods(random, now);
        all.extend(self.begin_pods(now));
        self.end_jobs(now);
        self.collect(now);
        all
    }

    fn job(&self, number: &str) -> Option<&Value> {
        self.objects.iter().find(|(path, job)| path.starts_with("jobs/") && uid(job) == number).map(|(_, job)| job)
    }

    fn make_pods(&mut self, random: &mut SplitMix64, now: Time) {
        let jobs: Vec<Value> =
            self.objects.range("jobs/".to_owned().."jobs0".to_owned()).map(|(_, job)| job.clone()).collect();
        for job in jobs.iter().filter(|job| job["spec"]["suspend"] == false) {
            let Some((made, ..)) = self.jobs.get_mut(&uid(job)).filter(|(made, ..)| !made) else { continue };
            *made = true;
            for index in 0..job["spec"]["completions"].as_u64().expect("a number") as u32 {
                let state = PodState::Pending(now + Duration::from_millis(50 + random.up_to(1_500)));
                let node = index % self.nodes;
                self.version += 1;
                self.pods.insert(self.version, Pod { index, job: uid(job), node, state, gone_at: None });
            }
        }
    }

    fn begin_pods(&mut self, now: Time) -> Vec<Process> {
        let mut begun = Vec::new();
        let secrets: Vec<Value> =
            self.objects.range("secrets/".to_owned().."secrets0".to_owned()).map(|(_, one)| one.clone()).collect();
        for (number, pod) in &mut self.pods {
            let due = matches!(pod.state, PodState::Pending(at) if now >= at);
            if !due || pod.gone_at.is_some() || self.dead.contains_key(&pod.node) {
                continue;
            }
            // Without its Secret it is tried again.
            let Some(secret) = secrets.iter().find(|one| one["metadata"]["ownerReferences"][0]["uid"] == pod.job)
            else {
                continue;
            };
            let text = |key: &str| {
                let bytes = STANDARD.decode(secret["data"][key].as_str().expect("text")).expect("base64");
                String::from_utf8(bytes).expect("text")
            };
            pod.state = PodState::Running;
            // What the kubelet shows a pod of this index.
            let (token, controller) = (text(&format!("token-{}", pod.index)), text("controller"));
            begun.push(Process::Begins { pod: *number, index: pod.index, token, controller });
        }
        begun
    }

    /// Pods whose Job is gone, or whose node is, are deleted, and go.
    fn end_pods(&mut self, random: &mut SplitMix64, now: Time) -> Vec<Process> {
        let living: Vec<String> =
            self.objects.range("jobs/".to_owned().."jobs0".to_owned()).map(|(_, job)| uid(job)).collect();
        for pod in self.pods.values_mut().filter(|pod| pod.gone_at.is_none()) {
            let lost = self.dead.get(&pod.node).is_some_and(|died| now >= *died + NODE_PATIENCE);
            if lost || !living.contains(&pod.job) {
                pod.gone_at = Some(now + Duration::from_millis(random.up_to(1_000)));
            }
        }
        let gone: Vec<u64> =
            self.pods.iter().filter(|(_, pod)| pod.gone_at.is_some_and(|at| now >= at)).map(|(pod, _)| *pod).collect();
        self.pods.retain(|pod, _| !gone.contains(pod));
        gone.into_iter().map(|pod| Process::Killed { pod }).collect()
    }

    /// Jobs complete, run out of time, and go when they have been over for long.
    fn end_jobs(&mut self, now: Time) {
        let mut over = Vec::new();
        for (path, job) in self.objects.range_mut("jobs/".to_owned().."jobs0".to_owned()) {
            let Some((true, began, ended)) = self.jobs.get_mut(&uid(job)) else { continue };
            let seconds = |field: &str| Duration::from_secs(job["spec"][field].as_u64().expect("a number"));
            let number = uid(job);
            let mut mine = self.pods.values().filter(|pod| pod.job == number);
            let all_ended = mine.all(|pod| matches!(pod.state, PodState::Ended(_)));
            let late = now >= *began + seconds("activeDeadlineSeconds");
            if ended.is_none() && (late || all_ended) {
                *ended = Some(now);
            }
            if let Some(ended) = *ended {
                if now >= ended + seconds("ttlSecondsAfterFinished") {
                    over.push(path.clone());
                }
                job["status"]["conditions"] = json!([{ "type": "Complete", "status": "True" }]);
            }
            if late {
                for pod in self.pods.values_mut().filter(|pod| pod.job == number) {
                    pod.gone_at.get_or_insert(now);
                }
            }
        }
        over.iter().for_each(|path| drop(self.objects.remove(path)));
    }

    /// Secrets go with their Jobs.
    fn collect(&mut self, now: Time) {
        let orphaned = |(path, one): (&String, &Value)| {
            let owner = one["metadata"]["ownerReferences"][0]["uid"].as_str().unwrap_or_default();
            (path.starts_with("secrets/") && self.job(owner).is_none()).then(|| path.clone())
        };
        let orphans: Vec<String> = self.objects.iter().filter_map(orphaned).collect();
        self.orphans.retain(|path, _| orphans.contains(path));
        for path in orphans {
            if now >= *self.orphans.entry(path.clone()).or_insert(now) + ORPHAN_PATIENCE {
                self.objects.remove(&path);
            }
        }
    }

    /// The process in a pod ended, as its status says; nobody says so of a node that is dead.
    pub fn end_process(&mut self, pod: u64, status: Value) {
        if let Some(pod) = self.pods.get_mut(&pod).filter(|pod| !self.dead.contains_key(&pod.node)) {
            pod.state = PodState::Ended(status);
        }
    }

    /// Somebody deletes an object.
    pub fn delete(&mut self, kind: &str) -> bool {
        let path = self.objects.keys().find(|path| path.starts_with(kind)).cloned();
        path.is_some_and(|path| self.objects.remove(&path).is_some())
    }

    /// Whether it has anything left to do.
    pub fn is_idle(&self) -> bool {
        // A Job that never began, and the Secret that goes with it, wait for whoever goes on.
        let waits = |(path, one): (&String, &Value)| match path.split('/').next() {
            Some("jobs") => one["spec"]["suspend"] == false,
            Some("secrets") => {
                self.job(one["metadata"]["ownerReferences"][0]["uid"].as_str().unwrap_or_default()).is_none()
            }
            _ => false,
        };
        self.pods.is_empty() && !self.objects.iter().any(waits)
    }
}

fn uid(object: &Value) -> String {
    object["metadata"]["uid"].as_str().expect("a number").to_owned()
}

fn refused(status: u16, reason: &str) -> ApiError {
    ApiError::Refused { status, reason: reason.to_owned(), message: "the world says so".to_owned() }
}

fn missing() -> ApiError {
    refused(404, "NotFound")
}

/// A pod as a list has it.
fn described(pod: &Pod) -> Value {
    let annotations = json!({ "batch.kubernetes.io/job-completion-index": pod.index.to_string() });
    let mut metadata = json!({ "annotations": annotations });
    if pod.gone_at.is_some() {
        metadata["deletionTimestamp"] = json!("2026-11-30T08:00:00Z");
    }
    let status = match &pod.state {
        PodState::Pending(_) => json!({ "phase": "Pending" }),
        PodState::Running => json!({ "phase": "Running" }),
        PodState::Ended(status) => status.clone(),
    };
    json!({ "metadata": metadata, "status": status })
}
