//! From a test to the plan of a load, and to the command line of each worker. Both are read by the generator's own
//! code: what a worker understood is held against the plan before anything begins.

use crate::fields::FieldError;
use crate::test::{FieldValue, LoadTest, SecretKey};
use core::net::SocketAddr;
use load::{Arrival, Feed, FeedOrder, Plan, Request, Source, Spacing, Stop, parse_requests};
use serde_json::{Map, Value, json};
use std::ffi::OsString;
use std::path::Path;
use std::sync::Arc;

/// Where what a test names lies.
pub trait Files {
    /// The value of a secret's key.
    ///
    /// # Errors
    /// Why it cannot be had; a sentence without its value.
    fn secret(&mut self, key: &SecretKey) -> Result<String, String>;

    /// What a file beside the test holds.
    ///
    /// # Errors
    /// Why it cannot be had.
    fn data(&mut self, file: &str) -> Result<Vec<u8>, String>;
}

/// How a worker finds its controller.
#[derive(Clone, Copy, Debug)]
pub enum ControllerPlace<'a> {
    /// At this address; its token is in the environment.
    Address(SocketAddr),
    /// As files in this folder say.
    Folder(&'a Path),
}

/// What a worker's command line is made of, beside the test.
#[derive(Clone, Copy, Debug)]
pub struct WorkerPlace<'a> {
    /// Its number, from zero; or what becomes one.
    pub worker: &'a str,
    /// Its controller.
    pub controller: ControllerPlace<'a>,
    /// The file with the request.
    pub requests: &'a Path,
    /// The file with the rows of data, where there are some.
    pub feed: Option<&'a Path>,
}

/// A test with all that it names.
#[derive(Clone, Debug)]
pub struct Arranged {
    /// The load of all workers together.
    pub plan: Plan,
    /// The request, as a line of a list for `nearside load --urls`: it may hold secrets.
    pub request: String,
    /// The rows of data, where the test has some.
    pub feed: Option<Vec<u8>>,
}

impl LoadTest {
    /// The load of all workers together, to the server at `target`.
    ///
    /// # Errors
    /// What of it cannot be had, or cannot be done, each with its field.
    pub fn arrange(&self, target: SocketAddr, files: &mut dyn Files) -> Result<Arranged, Vec<FieldError>> {
        let mut arranged = self.arranged(target, files);
        if let Err(wrong) = &mut arranged {
            wrong.iter_mut().for_each(|one| one.line = self.line(&one.field));
        }
        arranged
    }

    fn arranged(&self, target: SocketAddr, files: &mut dyn Files) -> Result<Arranged, Vec<FieldError>> {
        let (request, mut wrong) = self.request_line(files);
        let refuse = |field: &str, why: String| FieldError { field: field.to_owned(), line: 0, why };
        let mut bytes = None;
        if let Some((file, _)) = &self.request.feed {
            match files.data(file) {
                Ok(data) => bytes = Some(data),
                Err(why) => wrong.push(refuse("spec.request.feed.file", why)),
            }
        }
        if !wrong.is_empty() {
            return Err(wrong);
        }
        let like = Request::get(&self.target.authority, &self.target.path);
        let none = &mut |_: &str| Err("there are no files".to_owned());
        let requests = parse_requests(&request, (&like, &self.target.authority), false, none);
        let requests = requests.map_err(|why| vec![refuse("spec.request", why.to_string())])?;
        let mut plan = Plan::new(target, like);
        plan.requests = requests.list;
        plan.connections = self.connections;
        plan.stop = Stop::After(self.duration.time);
        plan.warm_up = self.warm_up.time;
        plan.arrival = self.arrival.clone();
        (plan.timeout, plan.connect_timeout) = (self.timeout.time, self.timeout.time);
        if self.request.template {
            self.fill(&mut plan, bytes.as_deref()).map_err(|(field, why)| vec![refuse(field, why)])?;
        }
        plan.check().map_err(|why| vec![refuse("spec", why.to_string())])?;
        Ok(Arranged { plan, request, feed: bytes })
    }

    /// Fills words in double braces in.
    fn fill(&self, plan: &mut Plan, bytes: Option<&[u8]>) -> Result<(), (&'static str, String)> {
        let order = self.request.feed.as_ref().map_or(FeedOrder::InTurn, |(_, order)| *order);
        let feed = bytes.map(|bytes| Feed::read(bytes, order)).transpose();
        let feed = feed.map_err(|why| ("spec.request.feed", why.to_string()))?.map(Arc::new);
        let mut any = false;
        for request in &mut plan.requests {
            let filled = request.item.fill(feed.as_deref());
            any |= filled.map_err(|why| ("spec.request", why.to_string()))?;
        }
        plan.source = Source { feed, ..plan.source.clone() };
        if any { Ok(()) } else { Err(("spec.request.template", "no word stands in double braces".to_owned())) }
    }

    /// The request as a line of a list, and what of it cannot be had.
    fn request_line(&self, files: &mut dyn Files) -> (String, Vec<FieldError>) {
        let mut wrong = Vec::new();
        let mut had = |field: String, value: &FieldValue| match value {
            FieldValue::Plain(text) => text.clone(),
            FieldValue::Secret(key) => files.secret(key).unwrap_or_else(|why| {
                wrong.push(FieldError { field, line: 0, why });
                String::new()
            }),
        };
        let mut headers = Map::new();
        let mut bad = Vec::new();
        for (n, (name, value)) in self.request.headers.iter().enumerate() {
            let field = format!("spec.request.headers[{n}]");
            let text = had(field.clone(), value);
            if text.chars().any(char::is_control) {
                let why = "its secret holds line ends or other control characters".to_owned();
                bad.push(FieldError { field, line: 0, why });
            }
            match headers.entry(name.clone()).or_insert_with(|| json!([])) {
                Value::Array(values) => values.push(text.into()),
                _ => unreachable!("lists alone are put in"),
            }
        }
        let mut line = json!({ "url": self.target.path, "header": headers });
        if let Some(method) = &self.request.method {
            line["method"] = json!(method);
        }
        if let Some(body) = &self.request.body {
            line["text"] = json!(had("spec.request.body".to_owned(), body));
        }
        if let Some(status) = self.request.want_status {
            line["want"] = json!({ "status": status });
        }
        wrong.extend(bad);
        (format!("{line}\n"), wrong)
    }

    /// What a worker is started with, the command first: `nearside load …` with the whole of the test, its own number,
    /// where its controller is, and where the request and the rows of data are.
    #[must_use]
    pub fn arguments(&self, place: &WorkerPlace<'_>) -> Vec<OsString> {
        let WorkerPlace { worker, controller, requests, feed } = *place;
        let mut words: Vec<OsString> = vec!["load".into(), self.target.url.clone().into()];
        let mut put = |option: &str, value: OsString| words.extend([OsString::from(option), value]);
        put("--connections", self.connections.to_string().into());
        put("--duration", self.duration.text.clone().into());
        put("--warmup", self.warm_up.text.clone().into());
        put("--timeout", self.timeout.text.clone().into());
        put("--interval", self.interval.text.clone().into());
        put("--threads", self.threads.to_string().into());
        put("--urls", requests.into());
        if let (Arrival::Open(schedule), Some(rate)) = (&self.arrival, &self.rate) {
            let spacing = if schedule.spacing == Spacing::Poisson { "poisson:" } else { "" };
            put("--rate", format!("{spacing}{rate}").into());
        }
        if let (Some(file), Some((_, order))) = (feed, &self.request.feed) {
            put("--feed", file.into());
            put("--feed-order", if *order == FeedOrder::Random { "random" } else { "in-turn" }.into());
        }
        put("--progress", "none".into());
        put("--worker", format!("{worker}/{}", self.workers).into());
        match controller {
            ControllerPlace::Address(address) => put("--controller", address.to_string().into()),
            ControllerPlace::Folder(folder) => put("--controller-folder", folder.into()),
        }
        words.extend(self.request.template.then(|| OsString::from("--template")));
        words.extend((!self.floor).then(|| OsString::from("--no-floor")));
        words
    }
}
