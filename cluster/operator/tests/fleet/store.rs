//! As much of an API server as audits need, in virtual time: objects with versions and owners, lists in parts, and
//! answers that are lost, given twice, or refusals that pass.

use kubernetes::{ApiError, Method};
use reconcile::Call;
use serde_json::{Value, json};
use std::collections::BTreeMap;

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

/// What is stored, by kind and name: `pods/a`.
#[derive(Default)]
pub struct Store {
    pub objects: BTreeMap<String, Value>,
    version: u64,
    /// Pods that were made since somebody looked.
    pub fresh_pods: Vec<Value>,
    /// Pods that are being deleted since somebody looked, with their numbers: that takes a moment.
    pub dying_pods: Vec<(String, Value)>,
}

impl Store {
    pub fn call(&mut self, call: &Call, manner: Manner) -> Result<Value, ApiError> {
        let unreachable = || Err(ApiError::Unreachable("no answer".to_owned()));
        match manner {
            Manner::Plain => self.answer(call),
            Manner::Refused => Err(refused(503)),
            Manner::Lost => unreachable(),
            Manner::Unanswered => {
                let _ = self.answer(call);
                unreachable()
            }
            Manner::Twice => {
                let _ = self.answer(call);
                self.answer(call)
            }
        }
    }

    fn answer(&mut self, call: &Call) -> Result<Value, ApiError> {
        let (path, query) = call.path.split_once('?').unwrap_or((&call.path, ""));
        let path =
            path.split_once("/namespaces/audits/").map_or_else(|| path.trim_start_matches("/api/v1/"), |it| it.1);
        let object = || call.object.clone().expect("with an object");
        match call.method {
            Method::Get if !path.contains('/') => Ok(self.list(path, query)),
            Method::Get => self.objects.get(path).cloned().ok_or_else(|| refused(404)),
            Method::Post => {
                let made = object();
                let path = format!("{path}/{}", made["metadata"]["name"].as_str().expect("a name"));
                if self.objects.contains_key(&path) {
                    return Err(refused(409));
                }
                let made = self.put(&path, made);
                if path.starts_with("pods/") {
                    self.fresh_pods.push(made.clone());
                }
                Ok(made)
            }
            Method::Put => {
                let (made, found) = (object(), self.objects.get(path).ok_or_else(|| refused(404))?);
                if found["metadata"]["resourceVersion"] != made["metadata"]["resourceVersion"] {
                    return Err(refused(409));
                }
                Ok(self.put(path, made))
            }
            Method::Apply => self.apply(path, &object()),
            Method::Patch => panic!("nobody patches"),
            Method::Delete => {
                let found = self.objects.get(path).ok_or_else(|| refused(404))?;
                let wanted = &object()["preconditions"];
                for field in ["uid", "resourceVersion"] {
                    if wanted[field].is_string() && wanted[field] != found["metadata"][field] {
                        return Err(refused(409));
                    }
                }
                self.delete(path);
                Ok(json!({ "kind": "Status" }))
            }
        }
    }

    fn list(&self, kind: &str, query: &str) -> Value {
        let query: BTreeMap<&str, &str> = query.split('&').filter_map(|part| part.split_once('=')).collect();
        let selector = query.get("labelSelector").map(|text| text.replace("%2F", "/").replace("%3D", "="));
        let wanted: Vec<(String, String)> = selector
            .iter()
            .flat_map(|text| text.split("%2C"))
            .filter_map(|one| one.split_once('='))
            .map(|(key, value)| (key.to_owned(), value.to_owned()))
            .collect();
        let below = self.objects.range(format!("{kind}/")..format!("{kind}0"));
        let all: Vec<&Value> = below
            .map(|(_, one)| one)
            .filter(|one| wanted.iter().all(|(key, value)| one["metadata"]["labels"][key] == value.as_str()))
            .collect();
        let from: usize = query.get("continue").map_or(0, |text| text.parse().expect("a place"));
        let limit: usize = query.get("limit").map_or(usize::MAX, |text| text.parse().expect("a number"));
        let items: Vec<&Value> = all.iter().skip(from).take(limit).copied().collect();
        let next = from + items.len();
        let rest = if next < all.len() { next.to_string() } else { String::new() };
        json!({ "metadata": { "resourceVersion": self.version.to_string(), "continue": rest }, "items": items })
    }

    fn apply(&mut self, path: &str, applied: &Value) -> Result<Value, ApiError> {
        let Some(path) = path.strip_suffix("/status") else {
            let mut made = applied.clone();
            made["metadata"]["uid"] =
                self.objects.get(path).map(|one| one["metadata"]["uid"].clone()).unwrap_or_default();
            return Ok(self.put(path, made));
        };
        let mut found = self.objects.get(path).cloned().ok_or_else(|| refused(404))?;
        if found["metadata"]["resourceVersion"] != applied["metadata"]["resourceVersion"] {
            return Err(refused(409));
        }
        if found["status"] == applied["status"] {
            return Ok(found);
        }
        found["status"] = applied["status"].clone();
        Ok(self.put(path, found))
    }

    /// Stores an object; a new one has a number, and a Secret's texts are as they are read.
    pub fn put(&mut self, path: &str, mut object: Value) -> Value {
        self.version += 1;
        object["metadata"]["resourceVersion"] = json!(self.version.to_string());
        if object["metadata"]["uid"].is_null() {
            object["metadata"]["uid"] = json!(format!("u-{}", self.version));
        }
        if let Some(texts) = object.as_object_mut().and_then(|map| map.remove("stringData")) {
            for (key, text) in texts.as_object().into_iter().flatten() {
                object["data"][key] = json!(base64(text.as_str().expect("text").as_bytes()));
            }
        }
        self.objects.insert(path.to_owned(), object.clone());
        object
    }

    /// Deletes an object, and what belongs to it, and to that.
    pub fn delete(&mut self, path: &str) {
        if path.starts_with("pods/")
            && let Some(pod) = self.objects.get_mut(path)
        {
            if pod["metadata"]["deletionTimestamp"].is_null() {
                pod["metadata"]["deletionTimestamp"] = json!("2026-11-30T00:00:00Z");
                self.dying_pods.push((path.to_owned(), pod["metadata"]["uid"].clone()));
            }
            return;
        }
        self.remove(path);
    }

    /// It is gone, and what belongs to it with it.
    pub fn remove(&mut self, path: &str) {
        let Some(object) = self.objects.remove(path) else { return };
        self.version += 1;
        let uid = object["metadata"]["uid"].clone();
        let is_its = |one: &Value| one["metadata"]["ownerReferences"][0]["uid"] == uid;
        let below: Vec<String> = self.objects.iter().filter(|(_, one)| is_its(one)).map(|(at, _)| at.clone()).collect();
        below.iter().for_each(|at| self.delete(at));
    }

    /// Deletes what belongs to what is not there, as a cluster does by and by.
    pub fn collect_garbage(&mut self) {
        let here: Vec<Value> = self.objects.values().map(|one| one["metadata"]["uid"].clone()).collect();
        let is_lost = |one: &Value| {
            let owner = &one["metadata"]["ownerReferences"][0]["uid"];
            owner.is_string() && !here.contains(owner)
        };
        let lost: Vec<String> = self.objects.iter().filter(|(_, one)| is_lost(one)).map(|(at, _)| at.clone()).collect();
        lost.iter().for_each(|at| self.delete(at));
    }

    pub fn of_kind<'a>(&'a self, kind: &str) -> impl Iterator<Item = &'a Value> {
        self.objects.range(format!("{kind}/")..format!("{kind}0")).map(|(_, one)| one)
    }
}

fn base64(bytes: &[u8]) -> String {
    const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut out = String::new();
    for three in bytes.chunks(3) {
        let bits = three.iter().fold(0_u32, |bits, byte| bits << 8 | u32::from(*byte)) << (8 * (3 - three.len()));
        for n in 0..4 {
            out.push(if n > three.len() { '=' } else { LETTERS[(bits >> (18 - 6 * n) & 63) as usize] as char });
        }
    }
    out
}

fn refused(status: u16) -> ApiError {
    ApiError::Refused { status, reason: "no".to_owned(), message: "the world says so".to_owned() }
}
