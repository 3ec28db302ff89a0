//! As much of an API server as operators need, in virtual time: objects with versions, a history that is watched, and
//! answers that are lost, late, given twice, or refusals that pass.

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

/// What is stored.
#[derive(Default)]
pub struct Store {
    pub objects: BTreeMap<String, Value>,
    version: u64,
    /// What happened to tests, each with its version.
    pub history: Vec<(u64, &'static str, Value)>,
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
        let (_, path) = call.path.split_once("/namespaces/load/").expect("in its namespace");
        let path = path.split('?').next().expect("a path");
        let object = || call.object.clone().expect("with an object");
        match call.method {
            Method::Get if path == "loadtests" => {
                let tests = self.objects.range("loadtests/".to_owned().."loadtests0".to_owned());
                let items: Vec<Value> = tests.map(|(_, one)| one.clone()).collect();
                Ok(json!({ "metadata": { "resourceVersion": self.version.to_string() }, "items": items }))
            }
            Method::Get if path == "jobs" => {
                let jobs = self.objects.range("jobs/".to_owned().."jobs0".to_owned());
                Ok(json!({ "items": jobs.map(|(_, one)| one.clone()).collect::<Vec<Value>>() }))
            }
            Method::Get => self.objects.get(path).cloned().ok_or_else(|| refused(404)),
            Method::Post => {
                let made = object();
                let path = format!("{path}/{}", made["metadata"]["name"].as_str().expect("a name"));
                if self.objects.contains_key(&path) {
                    return Err(refused(409));
                }
                Ok(self.put(&path, made))
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
                if object()["preconditions"]["uid"] != found["metadata"]["uid"] {
                    return Err(refused(409));
                }
                self.delete(path).ok_or_else(|| refused(404))
            }
        }
    }

    /// Whose fields they are has them as it says, and no others; what changes nothing has no version.
    fn apply(&mut self, path: &str, applied: &Value) -> Result<Value, ApiError> {
        let Some(path) = path.strip_suffix("/status") else { return Ok(self.put(path, applied.clone())) };
        let mut found = self.objects.get(path).cloned().ok_or_else(|| refused(404))?;
        // A server does not compare the number of an object (`uid`) of which a status is applied.
        if found["metadata"]["resourceVersion"] != applied["metadata"]["resourceVersion"] {
            return Err(refused(409));
        }
        if found["status"] == applied["status"] {
            return Ok(found);
        }
        found["status"] = applied["status"].clone();
        Ok(self.put(path, found))
    }

    /// Stores an object; a new one has a number.
    pub fn put(&mut self, path: &str, mut object: Value) -> Value {
        self.version += 1;
        object["metadata"]["resourceVersion"] = json!(self.version.to_string());
        if object["metadata"]["uid"].is_null() {
            object["metadata"]["uid"] = json!(format!("u-{}", self.version));
        }
        let was_there = self.objects.insert(path.to_owned(), object.clone()).is_some();
        if path.starts_with("loadtests/") {
            self.history.push((self.version, if was_there { "MODIFIED" } else { "ADDED" }, object.clone()));
        }
        object
    }

    /// Deletes an object, and what belongs to it.
    pub fn delete(&mut self, path: &str) -> Option<Value> {
        let mut object = self.objects.remove(path)?;
        self.version += 1;
        object["metadata"]["resourceVersion"] = json!(self.version.to_string());
        if path.starts_with("loadtests/") {
            self.history.push((self.version, "DELETED", object.clone()));
        }
        let uid = object["metadata"]["uid"].clone();
        self.objects.retain(|_, one| one["metadata"]["ownerReferences"][0]["uid"] != uid || uid.is_null());
        Some(object)
    }

    pub fn version(&self) -> u64 {
        self.version
    }
}

fn refused(status: u16) -> ApiError {
    ApiError::Refused { status, reason: "no".to_owned(), message: "the world says so".to_owned() }
}
