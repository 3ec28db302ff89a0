//! An API server with as much of Kubernetes behind it as a test needs: Jobs whose pods are processes of this machine.
//!
//! It is no easy one: of its answers some are late, some are refusals that pass, and some never come although what was
//! asked for is done.

use interop::{Nearside, scratch};
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use std::fs;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::{Child, Stdio};
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread;
use std::time::Duration;

/// What becomes of the pod of an index.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Script {
    /// No node has room for it.
    Unschedulable,
    /// Its image is nowhere.
    NoImage,
    /// When a signal ends it, memory had run out.
    OutOfMemory,
}

/// The cluster.
#[derive(Clone)]
pub struct ApiServer {
    pub address: SocketAddr,
    state: Arc<Mutex<State>>,
}

struct State {
    folder: PathBuf,
    objects: BTreeMap<String, Value>,
    pods: BTreeMap<u32, Option<Child>>,
    scripts: BTreeMap<u32, Script>,
    /// Pods that were made by themselves, by their paths: each has one, unless its node is silent.
    bare: BTreeMap<String, Child>,
    version: u64,
    /// What happened to tests, each with its version.
    history: Vec<(u64, &'static str, Value)>,
    asked: u64,
}

impl ApiServer {
    /// A cluster whose pods do as the scripts say, and otherwise run.
    pub fn start(name: &str, host: &str, scripts: &[(u32, Script)]) -> Self {
        let listener = TcpListener::bind((host, 0)).expect("a port");
        let address = listener.local_addr().expect("bound");
        let state = State {
            folder: scratch(&format!("cluster-api-{name}")),
            objects: BTreeMap::new(),
            pods: BTreeMap::new(),
            scripts: scripts.iter().copied().collect(),
            bare: BTreeMap::new(),
            version: 0,
            history: Vec::new(),
            asked: 0,
        };
        let state = Arc::new(Mutex::new(state));
        let served = Arc::clone(&state);
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let served = Arc::clone(&served);
                thread::spawn(move || serve(stream, &served));
            }
        });
        Self { address, state }
    }

    /// The file that says where it is.
    pub fn kubeconfig(&self) -> PathBuf {
        let path = self.state().folder.join("config");
        let text = format!(
            "current-context: c\ncontexts: [{{name: c, context: {{cluster: k, namespace: load}}}}]\n\
             clusters: [{{name: k, cluster: {{server: 'http://{}'}}}}]\n",
            self.address
        );
        fs::write(&path, text).expect("a file");
        path
    }

    /// The objects that there are, by their paths below those of the namespace.
    pub fn objects(&self) -> BTreeMap<String, Value> {
        self.state().objects.clone()
    }

    /// Puts an object there.
    pub fn put(&self, path: &str, object: Value) {
        let mut state = self.state();
        let object = state.stamped(object);
        state.insert(path, object);
    }

    /// Deletes an object, and what belongs to it.
    pub fn delete(&self, path: &str) {
        self.state().delete(path).expect("it is there");
    }

    /// The process of a worker's pod.
    pub fn process(&self, index: u32) -> Option<u32> {
        self.state().pods.get(&index)?.as_ref().map(Child::id)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("no panic")
    }
}

/// One question, and its answer unless that is lost.
fn serve(mut stream: TcpStream, state: &Mutex<State>) {
    let Some((method, path, body)) = read(&mut stream) else { return };
    if let Some((_, version)) = path.split_once("?watch=1&").and_then(|(_, words)| words.split_once("resourceVersion="))
    {
        let version = version.parse().expect("a version");
        // Whoever watches may be gone.
        let _ = watch(stream, state, version);
        return;
    }
    let mut state = state.lock().expect("no panic");
    state.asked += 1;
    let number = state.asked;
    let (status, object) =
        if number % 5 == 2 { (503, refusal("ServiceUnavailable")) } else { state.answer(&method, &path, body) };
    drop(state);
    if number % 7 == 3 {
        // Done, and nobody is told.
        return;
    }
    thread::sleep(Duration::from_millis(number % 4 * 10));
    let text = object.to_string();
    let head =
        format!("HTTP/1.1 {status} X\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n", text.len());
    // Whoever asked may be gone.
    let _ = stream.write_all(format!("{head}{text}").as_bytes());
}

/// Says what happens to tests after a version, for three seconds.
fn watch(mut stream: TcpStream, state: &Mutex<State>, mut version: u64) -> std::io::Result<()> {
    stream.write_all(b"HTTP/1.1 200 X\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n")?;
    for _ in 0..150 {
        let history = state.lock().expect("no panic").history.clone();
        let seen = version;
        for (at, kind, object) in history.into_iter().filter(|(at, ..)| *at > seen) {
            version = at;
            let text = format!("{}\n", json!({ "type": kind, "object": object }));
            // In two pieces, as a network may bring them.
            let (first, rest) = text.split_at(text.len() / 2);
            for piece in [first, rest] {
                stream.write_all(format!("{:x}\r\n{piece}\r\n", piece.len()).as_bytes())?;
            }
        }
        thread::sleep(Duration::from_millis(20));
    }
    stream.write_all(b"0\r\n\r\n")
}

fn read(stream: &mut TcpStream) -> Option<(String, String, Value)> {
    let (mut held, mut bytes) = (Vec::new(), [0; 1 << 14]);
    loop {
        let read = stream.read(&mut bytes).ok().filter(|read| *read > 0)?;
        held.extend_from_slice(&bytes[..read]);
        let text = String::from_utf8_lossy(&held);
        let Some((head, body)) = text.split_once("\r\n\r\n") else { continue };
        let length = head.lines().find_map(|line| line.strip_prefix("Content-Length: ")?.parse::<usize>().ok());
        if body.len() < length.unwrap_or(0) {
            continue;
        }
        let mut words = head.split(' ');
        let (method, path) = (words.next()?.to_owned(), words.next()?.to_owned());
        return Some((method, path, serde_json::from_str(body).unwrap_or_default()));
    }
}

fn refusal(reason: &str) -> Value {
    json!({ "kind": "Status", "reason": reason, "message": format!("the test's cluster says {reason}") })
}

impl State {
    fn answer(&mut self, method: &str, path: &str, body: Value) -> (u16, Value) {
        if path.starts_with("/api/v1/nodes?") {
            return (200, self.list("nodes"));
        }
        let Some((_, path)) = path.split_once("/namespaces/load/") else { return (403, refusal("Forbidden")) };
        if let Some(kind) = ["nodeaudits", "configmaps", "pods"].into_iter().find(|kind| is_list(path, kind))
            && method == "GET"
        {
            self.see_bare();
            return (200, self.list(kind));
        }
        if let Some(selector) = path.strip_prefix("pods?labelSelector=") {
            let uid = selector.strip_prefix("batch.kubernetes.io%2Fcontroller-uid%3D").expect("by their Job's number");
            assert!(self.objects.get("jobs/nearside-pods").is_none_or(|job| job["metadata"]["uid"] == uid));
            let indexes: Vec<u32> = self.pods.keys().copied().collect();
            let items: Vec<Value> = indexes.into_iter().map(|index| self.pod(index)).collect();
            return (200, json!({ "kind": "PodList", "items": items }));
        }
        let (path, query) = path.split_once('?').unwrap_or((path, ""));
        if path == "loadtests" && method == "GET" {
            let items: Vec<&Value> = self.objects.values().filter(|one| one["kind"] == "LoadTest").collect();
            let version = json!({ "resourceVersion": self.version.to_string() });
            return (200, json!({ "kind": "LoadTestList", "metadata": version, "items": items }));
        }
        if path == "jobs" && method == "GET" {
            let items: Vec<&Value> = self.objects.values().filter(|one| one["kind"] == "Job").collect();
            return (200, json!({ "kind": "JobList", "items": items }));
        }
        let answer = match method {
            "GET" => self.objects.get(path).cloned(),
            "PATCH" if query.contains("fieldManager=") => return self.apply(path, body),
            "POST" => {
                let name = body["metadata"]["name"].as_str().expect("a name");
                let path = format!("{path}/{name}");
                if self.objects.contains_key(&path) {
                    return (409, refusal("AlreadyExists"));
                }
                let made = self.stamped(body);
                self.insert(&path, made.clone());
                self.start_bare(&path, &made);
                return (201, made);
            }
            "PUT" => {
                let Some(found) = self.objects.get(path) else { return (404, refusal("NotFound")) };
                if found["metadata"]["resourceVersion"] != body["metadata"]["resourceVersion"] {
                    return (409, refusal("Conflict"));
                }
                let made = self.stamped(body);
                self.objects.insert(path.to_owned(), made)
            }
            "PATCH" => {
                let Some(mut found) = self.objects.get(path).cloned() else { return (404, refusal("NotFound")) };
                found["spec"]["suspend"] = body["spec"]["suspend"].clone();
                let made = self.stamped(found);
                self.objects.insert(path.to_owned(), made);
                self.reconcile(path);
                self.objects.get(path).cloned()
            }
            "DELETE" => self.delete(path),
            other => panic!("{other} {path}"),
        };
        answer.map_or_else(|| (404, refusal("NotFound")), |object| (200, object))
    }

    /// Has an object's fields as somebody says them: of a status those alone.
    fn apply(&mut self, path: &str, body: Value) -> (u16, Value) {
        let (path, object) = match path.strip_suffix("/status") {
            None => (path, body),
            Some(path) => match self.objects.get(path).cloned() {
                None => return (404, refusal("NotFound")),
                // Of a status it does not compare the number (`uid`).
                Some(found) if found["metadata"]["resourceVersion"] != body["metadata"]["resourceVersion"] => {
                    return (409, refusal("Conflict"));
                }
                Some(mut found) => {
                    found["status"] = body["status"].clone();
                    (path, found)
                }
            },
        };
        let object = self.stamped(object);
        self.insert(path, object.clone());
        (200, object)
    }

    fn insert(&mut self, path: &str, object: Value) {
        let was_there = self.objects.insert(path.to_owned(), object.clone()).is_some();
        if object["kind"] == "LoadTest" {
            self.history.push((self.version, if was_there { "MODIFIED" } else { "ADDED" }, object));
        }
    }

    /// As it is stored: with a version, its own number, and texts of Secrets in base64.
    fn stamped(&mut self, mut object: Value) -> Value {
        self.version += 1;
        object["metadata"]["resourceVersion"] = json!(self.version.to_string());
        if object["metadata"]["uid"].is_null() {
            object["metadata"]["uid"] = json!(format!("uid-{}", self.version));
        }
        if let Some(texts) = object["stringData"].take().as_object() {
            let data: Map<String, Value> =
                texts.iter().map(|(key, text)| (key.clone(), json!(base64(text.as_str().expect("text"))))).collect();
            object["data"] = data.into();
        }
        if object["kind"] == "Lease" {
            // Whoever waits for one that is gone does so for a second here.
            object["spec"]["leaseDurationSeconds"] = json!(1);
        }
        object
    }

    fn delete(&mut self, path: &str) -> Option<Value> {
        let gone = self.objects.remove(path)?;
        self.end_bare(path);
        if gone["kind"] == "LoadTest" {
            self.version += 1;
            self.history.push((self.version, "DELETED", gone.clone()));
        }
        if gone["kind"] != "Job" {
            let uid = &gone["metadata"]["uid"];
            let is_owned = |one: &Value| one["metadata"]["ownerReferences"][0]["uid"] == *uid;
            let owned = self.objects.iter().filter(|(_, one)| is_owned(one)).map(|(path, _)| path.clone());
            owned.collect::<Vec<String>>().iter().for_each(|path| drop(self.delete(path)));
        }
        if gone["kind"] == "Job" {
            for child in self.pods.values_mut().flatten() {
                let _ = child.kill();
                let _ = child.wait();
            }
            self.pods.clear();
            // What belongs to it goes with it.
            let uid = gone["metadata"]["uid"].clone();
            self.objects.retain(|_, object| object["metadata"]["ownerReferences"][0]["uid"] != uid);
        }
        Some(gone)
    }

    fn list(&self, kind: &str) -> Value {
        let below = self.objects.range(format!("{kind}/")..format!("{kind}0"));
        let version = json!({ "resourceVersion": self.version.to_string() });
        json!({ "kind": "List", "metadata": version, "items": below.map(|(_, one)| one).collect::<Vec<&Value>>() })
    }

    /// Starts a pod that was made by itself, if it is one, and its node is not silent.
    fn start_bare(&mut self, path: &str, pod: &Value) {
        let node = pod["metadata"]["annotations"]["nearside.dev/node"].as_str().unwrap_or_default();
        if pod["kind"] != "Pod" || node.starts_with("silent") {
            return;
        }
        let secret = pod["spec"]["volumes"][0]["secret"]["secretName"].as_str().expect("a Secret");
        let secret = self.objects[&format!("secrets/{secret}")].clone();
        let folder = self.folder.join(node);
        fs::create_dir_all(&folder).expect("a folder");
        for (key, text) in secret["data"].as_object().expect("a map") {
            fs::write(folder.join(key), unbase64(text.as_str().expect("text"))).expect("a file");
        }
        let container = &pod["spec"]["containers"][0];
        let words = ["command", "args"].into_iter().flat_map(|field| container[field].as_array().expect("a list"));
        let words = words.skip(1).map(|word| {
            let word = word.as_str().expect("text").replace("/run/nearside-audit", folder.to_str().expect("text"));
            if word == "/host" { "/".to_owned() } else { word }
        });
        let mut command = Nearside::command(words.collect::<Vec<String>>());
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        self.bare.insert(path.to_owned(), command.spawn().expect("it starts"));
    }

    /// Says in their status how pods are.
    fn see_bare(&mut self) {
        for (path, child) in &mut self.bare {
            let Some(pod) = self.objects.get_mut(path) else { continue };
            pod["status"] = match child.try_wait().expect("it can be asked") {
                None => json!({ "phase": "Running" }),
                Some(status) if status.success() => json!({ "phase": "Succeeded" }),
                Some(_) => json!({ "phase": "Failed", "reason": "Error" }),
            };
        }
    }

    fn end_bare(&mut self, path: &str) {
        if let Some(mut child) = self.bare.remove(path) {
            let _ = child.kill();
            let _ = child.wait();
        }
    }

    /// Starts the pods of a Job that is not suspended.
    fn reconcile(&mut self, path: &str) {
        let job = self.objects[path].clone();
        if job["spec"]["suspend"] != false || !self.pods.is_empty() {
            return;
        }
        let secret = self.objects.values().find(|object| object["kind"] == "Secret").expect("its Secret").clone();
        let container = &job["spec"]["template"]["spec"]["containers"][0];
        for index in 0..job["spec"]["completions"].as_u64().expect("a number") as u32 {
            let own = |text: &str| text.replace("$(JOB_COMPLETION_INDEX)", &index.to_string());
            let folder = self.folder.join(format!("run-{index}"));
            fs::create_dir_all(&folder).expect("a folder");
            // A pod sees of the Secret what its container mounts.
            for mount in container["volumeMounts"].as_array().expect("a list") {
                let part = mount["subPath"].as_str().or(mount["subPathExpr"].as_str()).expect("a part of it");
                let path = mount["mountPath"].as_str().expect("a path");
                let file = path.strip_prefix("/run/nearside-test/").expect("in its folder");
                let text = secret["data"][own(part)].as_str().expect("it is in the Secret");
                fs::write(folder.join(file), unbase64(text)).expect("a file");
            }
            let folder = folder.to_str().expect("text").to_owned();
            let words = container["args"].as_array().expect("a list");
            let words = words.iter().map(|word| {
                own(word.as_str().expect("text")).replace("$$", "$").replace("/run/nearside-test", &folder)
            });
            let idle = matches!(self.scripts.get(&index), Some(Script::Unschedulable | Script::NoImage));
            let mut command = Nearside::command(words.collect::<Vec<String>>());
            command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
            self.pods.insert(index, (!idle).then(|| command.spawn().expect("it starts")));
        }
    }

    fn pod(&mut self, index: u32) -> Value {
        let script = self.scripts.get(&index).copied();
        let child = self.pods.get_mut(&index).and_then(Option::as_mut);
        let ended = child.and_then(|child| child.try_wait().expect("it can be asked"));
        let status = match (script, ended) {
            (Some(Script::Unschedulable), _) => json!({ "phase": "Pending", "conditions": [{
                "type": "PodScheduled", "status": "False", "reason": "Unschedulable",
                "message": "0/2 nodes are available: 2 Insufficient cpu.",
            }] }),
            (Some(Script::NoImage), _) => json!({ "phase": "Pending", "containerStatuses": [{ "state": {
                "waiting": { "reason": "ImagePullBackOff", "message": "Back-off pulling image" },
            } }] }),
            (_, None) => json!({ "phase": "Running", "containerStatuses": [{ "state": { "running": {} } }] }),
            (_, Some(status)) => {
                let code = status.code().or(status.signal().map(|signal| signal + 128)).expect("one of them");
                let reason = if script == Some(Script::OutOfMemory) { "OOMKilled" } else { "Error" };
                let phase = if code == 0 { "Succeeded" } else { "Failed" };
                json!({ "phase": phase, "containerStatuses": [{ "state": {
                    "terminated": { "exitCode": code, "reason": if code == 0 { "Completed" } else { reason } },
                } }] })
            }
        };
        let annotations = json!({ "batch.kubernetes.io/job-completion-index": index.to_string() });
        json!({ "metadata": { "name": format!("p-{index}"), "annotations": annotations }, "status": status })
    }
}

impl Drop for State {
    fn drop(&mut self) {
        for child in self.pods.values_mut().flatten().chain(self.bare.values_mut()) {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// Whether it is asked for all of a kind: of pods, for those of audits.
fn is_list(path: &str, kind: &str) -> bool {
    let rest = path.strip_prefix(kind);
    let is_audits = |rest: &str| rest.starts_with("?labelSelector=app.kubernetes.io%2Fcomponent%3Daudit%2C");
    rest.is_some_and(|rest| is_audits(rest) || (kind == "nodeaudits" && rest.is_empty()))
}

const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

fn base64(text: &str) -> String {
    let mut out = String::new();
    for three in text.as_bytes().chunks(3) {
        let bits = three.iter().fold(0_u32, |bits, byte| bits << 8 | u32::from(*byte)) << (8 * (3 - three.len()));
        for n in 0..4 {
            let letter = LETTERS[(bits >> (18 - 6 * n) & 63) as usize] as char;
            out.push(if n > three.len() { '=' } else { letter });
        }
    }
    out
}

fn unbase64(text: &str) -> Vec<u8> {
    let value = |byte: u8| LETTERS.iter().position(|letter| *letter == byte).unwrap_or(0) as u32;
    let mut out = Vec::new();
    for four in text.as_bytes().chunks(4) {
        let bits = four.iter().fold(0, |bits, byte| bits << 6 | value(*byte));
        let all = [(bits >> 16) as u8, (bits >> 8) as u8, bits as u8];
        out.extend_from_slice(&all[..3 - four.iter().filter(|byte| **byte == b'=').count()]);
    }
    out
}
