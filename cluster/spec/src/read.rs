//! From a file to a test.

use crate::fields::{FieldError, Fields, excerpt};
use crate::pods::pods;
use crate::test::{FieldValue, LoadTest, RequestSpec, SecretKey, Span, WORKERS_LIMIT, memory_of_worker};
use crate::values::{count, count_or_zero, file, name, rate, span, span_or_zero, target, truth};
use audit::yaml::{Node, documents};
use core::time::Duration;
use load::{Arrival, CONNECTIONS_LIMIT, FeedOrder, OBJECTIVES_LIMIT, Objective, Schedule};

/// The longest file that is read, in bytes.
pub const SPEC_LIMIT: usize = 1 << 20;

/// The version of the file's form.
pub const VERSION: &str = "nearside.dev/v1alpha1";

/// The least requests a second of a worker: one that has less has nothing to be measured by.
const RATE_EACH: f64 = 1.0;

/// What the names of a test's objects begin with.
pub const POD_PREFIX: &str = "nearside-";

/// The longest label of DNS (RFC 1035 section 2.3.4).
pub(crate) const LABEL_LIMIT: usize = 63;

/// The longest time that a test that is over is kept, in seconds: a year.
pub(crate) const TTL_LIMIT: u32 = 31_536_000;

/// Fields of a request.
pub(crate) const HEADERS_LIMIT: usize = 64;

/// Threads of a worker.
pub(crate) const THREADS_LIMIT: u32 = 1_024;

impl LoadTest {
    /// Reads a file.
    ///
    /// # Errors
    /// All that is wrong with it, each with its field.
    pub fn read(text: &str) -> Result<Self, Vec<FieldError>> {
        let document = &one_document(text, "LoadTest")?;
        let mut fields = Fields::new("", document);
        let name = head(&mut fields, "LoadTest");
        let test = body(&mut fields).and_then(|node| spec(&mut fields, node));
        if let (Some((name, _)), Some(test)) = (&name, &test)
            && let Some(most) = longest_name(test.workers).filter(|most| name.len() > *most)
        {
            let last = test.workers - 1;
            let why = format!(
                "the last of its pods is {POD_PREFIX}{name}-{last}, and such a name is a label of DNS, of \
                 {LABEL_LIMIT} letters: take {most} at most"
            );
            let line = document.at("metadata.name").map_or(0, |node| node.line);
            fields.take_wrong(vec![FieldError { field: "metadata.name".to_owned(), line, why }]);
        }
        let wrong = fields.end();
        match (name, test) {
            (Some((name, namespace)), Some(test)) if wrong.is_empty() => {
                let mut lines = Vec::new();
                note_lines(document, String::new(), &mut lines);
                Ok(Self { name, namespace, lines, ..test })
            }
            _ => Err(wrong),
        }
    }
}

/// The one document of a file, which is to be of this kind.
pub(crate) fn one_document(text: &str, kind: &str) -> Result<Node, Vec<FieldError>> {
    let whole = |line: usize, why: String| vec![FieldError { field: String::new(), line, why }];
    if text.len() > SPEC_LIMIT {
        return Err(whole(0, format!("this is longer than {} KiB", SPEC_LIMIT >> 10)));
    }
    let mut found = documents(text).map_err(|why| whole(why.line, why.why))?;
    let (count, second) = (found.len(), found.get(1).map_or(0, |second| second.line));
    let only = if count == 1 { found.pop() } else { None };
    only.ok_or_else(|| whole(second, format!("this is to be one {kind}, and there are {count}")))
}

/// Reads version, kind and metadata; answers the name, and the namespace where one is said.
pub(crate) fn head(fields: &mut Fields<'_>, kind: &str) -> Option<(String, Option<String>)> {
    fields.needed("apiVersion", |text| if text == VERSION { Ok(()) } else { Err(format!("write {VERSION}")) });
    fields.needed("kind", |text| if text == kind { Ok(()) } else { Err(format!("write {kind}")) });
    let name = fields.node("metadata").and_then(|node| metadata(fields, node));
    if fields.node("metadata").is_none() {
        fields.refuse("metadata", "this is missing: it has the name");
    }
    // What a cluster says of it is no part of it.
    fields.ignore(&["status"]);
    name
}

/// What is asked for, which is to be there.
pub(crate) fn body<'a>(fields: &mut Fields<'a>) -> Option<&'a Node> {
    let node = fields.node("spec");
    if node.is_none() {
        fields.refuse("spec", "this is missing");
    }
    node
}

/// The most letters of a test's name, so that its pods' are labels of DNS (RFC 1123 section 2.1).
fn longest_name(workers: u32) -> Option<usize> {
    let number = workers.checked_sub(1)?.to_string().len();
    LABEL_LIMIT.checked_sub(POD_PREFIX.len() + 1 + number)
}

/// The line of each field.
pub(crate) fn note_lines(node: &Node, path: String, lines: &mut Vec<(String, usize)>) {
    for (name, below) in node.map() {
        let path = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
        note_lines(below, path, lines);
    }
    for (n, below) in node.list().iter().enumerate() {
        note_lines(below, format!("{path}[{n}]"), lines);
    }
    lines.push((path, node.line));
}

fn metadata(outer: &mut Fields<'_>, node: &Node) -> Option<(String, Option<String>)> {
    let mut fields = Fields::new("metadata", node);
    let found = fields.needed("name", name);
    let namespace = fields.value("namespace", name);
    // What a cluster adds, and what tools do.
    fields.ignore(&["labels", "annotations", "creationTimestamp", "generation", "resourceVersion", "uid"]);
    fields.ignore(&["managedFields", "finalizers", "ownerReferences", "selfLink"]);
    outer.take_wrong(fields.end());
    found.map(|name| (name, namespace))
}

fn spec(outer: &mut Fields<'_>, node: &Node) -> Option<LoadTest> {
    let mut fields = Fields::new("spec", node);
    let target = fields.needed("target", target);
    let workers = fields.needed("workers", |text| match count(text)? {
        workers if workers <= WORKERS_LIMIT => Ok(workers),
        _ => Err(format!("a test has {WORKERS_LIMIT} workers at most")),
    });
    let connections = fields.value("connections", |text| match count(text)? {
        connections if connections <= CONNECTIONS_LIMIT => Ok(connections),
        _ => Err(format!("a test has {CONNECTIONS_LIMIT} connections at most")),
    });
    let usual = workers.unwrap_or(1).saturating_mul(64);
    let connections = if fields.node("connections").is_some() { connections } else { Some(usual) };
    if let (Some(connections), Some(workers)) = (connections, workers)
        && connections < workers
    {
        fields.refuse("connections", format!("{workers} workers need a connection each, and there are {connections}"));
    }
    let arrival = arrival(&mut fields, workers);
    let written = fields.text("rate").map(str::to_owned);
    let time = |text: &str| Span { text: text.to_owned(), time: Duration::ZERO };
    let usually = |text: &str| span_or_zero(text).unwrap_or_else(|_| time(text));
    let warm_up = fields.value("warmUp", span_or_zero).unwrap_or_else(|| usually("1s"));
    let duration = fields.value("duration", span).unwrap_or_else(|| usually("10s"));
    let timeout =
        fields.value("timeout", |text| bounded(span(text)?, "1ms", "1000s")).unwrap_or_else(|| usually("10s"));
    let interval = fields.value("interval", |text| bounded(span(text)?, "10ms", "1h")).unwrap_or_else(|| usually("1s"));
    let prepare = fields.value("prepareWithin", |text| bounded(span(text)?, "1s", "1h"));
    let tolerance = fields.value("startTolerance", |text| bounded(span(text)?, "1ms", "10s"));
    let threads = fields.value("threads", |text| match count(text)? {
        threads if threads <= THREADS_LIMIT => Ok(threads),
        _ => Err(format!("a worker has {THREADS_LIMIT} threads at most")),
    });
    let floor = fields.value("floor", truth).unwrap_or(true);
    let strict = fields.value("strict", truth).unwrap_or(false);
    // What the operator goes by, when the test is over.
    fields.value("ttlSecondsAfterFinished", |text| match count_or_zero(text)? {
        seconds if seconds <= TTL_LIMIT => Ok(seconds),
        _ => Err(format!("a test is kept for {TTL_LIMIT} seconds at most, or until somebody deletes it")),
    });
    let expect = expect(&mut fields);
    let request = request(&mut fields);
    let each = connections.unwrap_or(1).div_ceil(workers.unwrap_or(1).max(1));
    let pods = pods(&mut fields, threads.unwrap_or(1), memory_of_worker(each));
    outer.take_wrong(fields.end());
    Some(LoadTest {
        name: String::new(),
        namespace: None,
        lines: Vec::new(),
        pods,
        target: target?,
        workers: workers?,
        connections: connections?,
        rate: written.filter(|_| arrival != Some(Arrival::Closed)),
        arrival: arrival?,
        request,
        warm_up,
        duration,
        timeout,
        interval,
        prepare: prepare.map_or(Duration::from_secs(60), |span| span.time),
        start_tolerance: tolerance.map_or(Duration::from_millis(50), |span| span.time),
        threads: threads.unwrap_or(1),
        floor,
        expect,
        strict,
    })
}

/// When requests are due.
fn arrival(fields: &mut Fields<'_>, workers: Option<u32>) -> Option<Arrival> {
    let written = fields.value("rate", rate);
    let has_rate = fields.node("rate").is_some();
    let kind = match fields.text("arrival") {
        None if has_rate => "constant",
        None => "closed",
        Some(kind) => kind,
    };
    let schedule: fn(f64) -> Schedule = match (kind, has_rate) {
        ("closed", false) => return Some(Arrival::Closed),
        ("closed", true) => {
            fields.refuse("rate", "in a closed loop each answer brings the next request: leave the rate out");
            return None;
        }
        ("constant" | "poisson", false) => {
            fields.refuse("rate", format!("this is missing: arrival {kind} is of requests that fall due at a rate"));
            return None;
        }
        ("constant", true) => Schedule::constant,
        ("poisson", true) => Schedule::poisson,
        (other, _) => {
            fields.refuse("arrival", format!("'{}': write constant, poisson or closed", excerpt(other)));
            return None;
        }
    };
    let rate = written?;
    if let Some(workers) = workers.map(f64::from)
        && rate < RATE_EACH * workers
    {
        let why = format!("{rate} a second over {workers} workers are less than one a second for each: take fewer");
        fields.refuse("rate", why);
        return None;
    }
    Some(Arrival::Open(schedule(rate)))
}

/// A time between two others.
pub(crate) fn bounded(found: Span, least: &str, most: &str) -> Result<Span, String> {
    let bound = |text: &str| span(text).map(|span| span.time);
    let fits = (bound(least)?..=bound(most)?).contains(&found.time);
    if fits { Ok(found) } else { Err(format!("this is from {least} to {most}")) }
}

/// What is to be met: a list, or one text with commas.
fn expect(fields: &mut Fields<'_>) -> Vec<Objective> {
    let Some(node) = fields.node("expect") else { return Vec::new() };
    let one = core::slice::from_ref(node);
    let places = if node.text().is_some() { one } else { node.list() };
    let mut found = Vec::new();
    for place in places {
        let Some(text) = place.text() else {
            fields.refuse("expect", "this is to be a list of objectives, as in [p99<10ms, errors<0.1%]");
            continue;
        };
        match Objective::parse_list(text) {
            Ok(list) => found.extend(list),
            Err(why) => fields.refuse("expect", why.to_string()),
        }
    }
    if let Some(other) = found.iter().find(|objective| !objective.metric.is_of_requests()) {
        let why = format!("{other}: that is a figure of streams, and this is a load of requests");
        fields.refuse("expect", why);
    }
    if found.len() > OBJECTIVES_LIMIT {
        fields.refuse("expect", format!("there may be {OBJECTIVES_LIMIT} objectives"));
    }
    found
}

fn request(outer: &mut Fields<'_>) -> RequestSpec {
    let Some(node) = outer.node("request") else { return RequestSpec::default() };
    let mut fields = Fields::new("spec.request", node);
    let token = |text: &str| {
        let known = !text.is_empty() && text.len() <= 32 && text.bytes().all(|byte| byte.is_ascii_uppercase());
        if known { Ok(text.to_owned()) } else { Err("a method has capital letters, as in GET or POST".to_owned()) }
    };
    let method = fields.value("method", token);
    let headers = headers(&mut fields);
    let body = fields.node("body").and_then(|node| value(&mut fields, "body", node));
    let want_status = fields.value("wantStatus", |text| {
        let status = text.parse::<u16>().ok().filter(|status| (100..1_000).contains(status));
        status.ok_or_else(|| "a status is a number from 100 to 999".to_owned())
    });
    let template = fields.value("template", truth).unwrap_or(false);
    let feed = fields.node("feed").and_then(|node| feed(&mut fields, node));
    if feed.is_some() && !template {
        fields.refuse("feed", "rows are for templates: write template: true beside it");
    }
    outer.take_wrong(fields.end());
    RequestSpec { method, headers, body, want_status, template, feed }
}

fn headers(outer: &mut Fields<'_>) -> Vec<(String, FieldValue)> {
    let Some(node) = outer.node("headers") else { return Vec::new() };
    let mut found = Vec::new();
    if node.list().is_empty() || node.list().len() > HEADERS_LIMIT {
        let why = format!("this is to be a list of 1 to {HEADERS_LIMIT}, each with name and value");
        outer.refuse("headers", why);
        return found;
    }
    for (n, node) in node.list().iter().enumerate() {
        let mut fields = Fields::new(&format!("spec.request.headers[{n}]"), node);
        // RFC 9110 section 5.6.2.
        let token = |text: &str| {
            let letter = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
            let fits = !text.is_empty() && text.len() <= 256 && text.bytes().all(letter);
            if fits { Ok(text.to_owned()) } else { Err("this is no name of a field".to_owned()) }
        };
        let name = fields.needed("name", token);
        let plain = fields.text("value").map(|text| FieldValue::Plain(text.to_owned()));
        let from = fields.node("valueFrom").and_then(|node| secret(&mut fields, "valueFrom", node));
        match (&plain, &from, fields.node("valueFrom").is_some()) {
            (None, _, false) => fields.refuse("value", "this is missing; valueFrom takes it from a secret"),
            (Some(_), _, true) => fields.refuse("valueFrom", "there is a value already"),
            _ => {}
        }
        if let Some(FieldValue::Plain(text)) = &plain
            && text.chars().any(char::is_control)
        {
            fields.refuse("value", "a field has no line ends and no other control characters");
        }
        outer.take_wrong(fields.end());
        found.extend(name.zip(plain.or(from)));
    }
    found
}

/// A text, or where it comes from.
fn value(outer: &mut Fields<'_>, name: &'static str, node: &Node) -> Option<FieldValue> {
    match node.text() {
        Some(text) => Some(FieldValue::Plain(text.to_owned())),
        None => secret(outer, name, node),
    }
}

/// `secretKeyRef` with name and key, as in a pod.
fn secret(outer: &mut Fields<'_>, at: &'static str, node: &Node) -> Option<FieldValue> {
    let path = outer.path(at);
    let mut fields = Fields::new(&path, node);
    let found = match fields.node("secretKeyRef") {
        None => {
            fields.refuse("secretKeyRef", "this is missing: it has the secret's name and key");
            None
        }
        Some(node) => {
            let mut fields = Fields::new(&format!("{path}.secretKeyRef"), node);
            let secret = fields.needed("name", name);
            let key = fields.needed("key", |text| {
                let letter = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
                let fits = text.bytes().all(letter) && text.len() <= 253 && !text.starts_with('.');
                if fits { Ok(text.to_owned()) } else { Err("a key has letters, digits, - _ and .".to_owned()) }
            });
            outer.take_wrong(fields.end());
            secret.zip(key).map(|(secret, key)| FieldValue::Secret(SecretKey { secret, key }))
        }
    };
    outer.take_wrong(fields.end());
    found
}

fn feed(outer: &mut Fields<'_>, node: &Node) -> Option<(String, FeedOrder)> {
    let mut fields = Fields::new("spec.request.feed", node);
    let found = fields.needed("file", file);
    let order = fields.value("order", |text| match text {
        "in-turn" => Ok(FeedOrder::InTurn),
        "random" => Ok(FeedOrder::Random),
        _ => Err("write in-turn or random".to_owned()),
    });
    outer.take_wrong(fields.end());
    found.map(|file| (file, order.unwrap_or(FeedOrder::InTurn)))
}
