//! What a pod's status says of the worker in it.

use control::Gone;
use serde_json::Value;

/// Where a Job writes which of its indexes a pod has.
const INDEX: &str = "batch.kubernetes.io/job-completion-index";

/// Why a container waits, where waiting longer seldom helps.
const BLOCKED: [&str; 9] = [
    "ErrImagePull",
    "ImagePullBackOff",
    "InvalidImageName",
    "ErrImageNeverPull",
    "ImageInspectError",
    "RegistryUnavailable",
    "CreateContainerConfigError",
    "CreateContainerError",
    "RunContainerError",
];

/// How a worker ended, or why it does not begin.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Fate {
    /// Which.
    pub worker: u32,
    /// How.
    pub gone: Gone,
    /// What is known of it, in words for people.
    pub words: String,
    /// Whether it may begin yet: what is in its way may go.
    pub may_pass: bool,
}

impl Fate {
    /// That of a worker whose pod was there, and is no more.
    #[must_use]
    pub fn vanished(worker: u32) -> Self {
        Self { worker, gone: Gone::Evicted, words: "its pod is gone".to_owned(), may_pass: false }
    }
}

/// The number of the worker in a pod.
#[must_use]
pub fn worker_of(pod: &Value) -> Option<u32> {
    pod["metadata"]["annotations"][INDEX].as_str()?.parse().ok()
}

/// What becomes of the worker in a pod; nothing while it runs, or may yet.
#[must_use]
pub fn fate(pod: &Value) -> Option<Fate> {
    let worker = worker_of(pod)?;
    let (gone, words, may_pass) = end_of(pod)?;
    Some(Fate { worker, gone, words, may_pass })
}

/// How what is in a pod ended, or why it does not begin; the words for people, and whether it may begin yet. Nothing
/// while it runs, or may yet.
#[must_use]
pub fn end_of(pod: &Value) -> Option<(Gone, String, bool)> {
    let status = &pod["status"];
    let end = ended(status).or_else(|| evicted(pod).map(|words| (Gone::Evicted, words)));
    let may_pass = end.is_none();
    let (gone, words) = end.or_else(|| blocked(status).map(|words| (Gone::NotStarted, words)))?;
    Some((gone, words, may_pass))
}

/// How its container ended.
fn ended(status: &Value) -> Option<(Gone, String)> {
    // Who took its place from it says so in the pod's status, and then ends the container.
    if let Some(words) = disrupted(status) {
        return Some((Gone::Evicted, words));
    }
    let container = status["containerStatuses"].as_array().and_then(|all| all.first());
    if let Some(ended) = container.map(|one| &one["state"]["terminated"]).filter(|ended| ended.is_object()) {
        let words = told(ended);
        let gone = match (ended["reason"].as_str(), ended["signal"].as_i64(), ended["exitCode"].as_i64()) {
            (Some("OOMKilled"), _, _) => Gone::OutOfMemory,
            (Some("StartError" | "ContainerCannotRun"), _, _) => Gone::NotStarted,
            (_, Some(signal @ 1..), _) => Gone::Signal(i32::try_from(signal).unwrap_or(i32::MAX)),
            // What a signal ends has 128 and its number.
            (_, _, Some(code @ 129..=192)) => Gone::Signal((code - 128) as i32),
            (_, _, code) => Gone::Code(code.and_then(|code| i32::try_from(code).ok()).unwrap_or(-1)),
        };
        return Some((gone, words));
    }
    match status["phase"].as_str() {
        // No container of it ever ran: a node that refuses a pod (admission) says why.
        Some("Failed") => Some((Gone::NotStarted, told(status))),
        Some("Succeeded") => Some((Gone::Code(0), String::new())),
        _ => None,
    }
}

/// That its place was taken from it, and by whom.
fn disrupted(status: &Value) -> Option<String> {
    if let Some("Evicted" | "Preempting" | "NodeShutdown" | "Terminated" | "NodeLost") = status["reason"].as_str() {
        return Some(told(status));
    }
    let condition = condition(status, "DisruptionTarget").filter(|one| one["status"] == "True")?;
    Some(told(condition))
}

/// That it is being deleted, while its container may yet run.
fn evicted(pod: &Value) -> Option<String> {
    pod["metadata"]["deletionTimestamp"].as_str().map(|_| "its pod is deleted".to_owned())
}

/// Why it does not begin.
fn blocked(status: &Value) -> Option<String> {
    if let Some(condition) = condition(status, "PodScheduled")
        && condition["status"] == "False"
        && condition["reason"] == "Unschedulable"
    {
        return Some(told(condition));
    }
    let containers = status["containerStatuses"].as_array()?;
    let mut waiting = containers.iter().map(|one| &one["state"]["waiting"]);
    let blocked = waiting.find(|one| one["reason"].as_str().is_some_and(|reason| BLOCKED.contains(&reason)))?;
    Some(told(blocked))
}

fn condition<'a>(status: &'a Value, kind: &str) -> Option<&'a Value> {
    status["conditions"].as_array()?.iter().find(|one| one["type"] == kind)
}

/// A reason and a message, as they may be shown.
fn told(place: &Value) -> String {
    let part = |field: &str| place[field].as_str().unwrap_or_default().trim();
    let (reason, message) = (part("reason"), part("message"));
    let between = if reason.is_empty() || message.is_empty() { "" } else { ": " };
    format!("{reason}{between}{message}")
}
