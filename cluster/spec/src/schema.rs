//! A test as the API server checks it before there is an object: the fields that are read (`read`, `pods`), as a
//! structural schema with rules in CEL. What it cannot say is refused by whoever reads the object.

use crate::node_audit::{AUDIT_NAME_LIMIT, Expectation, HISTORY_LIMIT, PARALLEL_LIMIT};
use crate::pods::{IMAGE_LIMIT, LIST_LIMIT};
use crate::read::{HEADERS_LIMIT, LABEL_LIMIT, POD_PREFIX, THREADS_LIMIT, TTL_LIMIT};
use crate::test::WORKERS_LIMIT;
use audit::Role;
use load::{CONNECTIONS_LIMIT, OBJECTIVES_LIMIT};
use serde_json::{Map, Value, json};

/// A time with its unit.
const SPAN: &str = r"^[0-9]+(\.[0-9]+)?(us|ms|s|m|h)$";

/// A number, perhaps with a thousand's letter: a rate, or an amount of something.
const NUMBER: &str = r"^[0-9]+(\.[0-9]+)?[a-zA-Z]*$";

/// The longest text of a header or a body, in letters.
const TEXT_LIMIT: u32 = 64 << 10;

/// The schema of a LoadTest (`openAPIV3Schema` of a CustomResourceDefinition), but for its status.
#[must_use]
pub fn schema() -> Value {
    let most = LABEL_LIMIT - POD_PREFIX.len() - 1;
    let name = rule(
        &format!("size(self.metadata.name) + size(string(self.spec.workers - 1)) <= {most}"),
        &format!(
            "the name of the last pod is {POD_PREFIX}NAME-NUMBER, and such a name has {LABEL_LIMIT} letters at most"
        ),
    );
    let mut whole = object(
        "One load by many workers, judged as one.",
        [
            ("apiVersion", json!({ "type": "string" })),
            ("kind", json!({ "type": "string" })),
            ("metadata", json!({ "type": "object" })),
            ("spec", spec()),
        ],
        &["spec"],
    );
    whole["x-kubernetes-validations"] = json!([name]);
    whole
}

fn spec() -> Value {
    let mut spec = object(
        "What the load is to be. It does not change: another load is another test.",
        [
            ("target", text("A URL of http://.", r"^http://\S+$", 8 << 10)),
            ("workers", number("Processes that generate the load.", 1, WORKERS_LIMIT)),
            ("connections", number("Of all workers together [64 for each].", 1, CONNECTIONS_LIMIT)),
            (
                "arrival",
                one_of(
                    "When requests are due [constant with a rate, else closed].",
                    &["constant", "poisson", "closed"],
                ),
            ),
            ("rate", amount("Requests a second of all workers together: 500, 10k.")),
            ("duration", span("The measured time [10s].")),
            ("warmUp", span("The time under load before that [1s].")),
            ("timeout", span("A request that takes longer has failed [10s].")),
            ("interval", span("The length of an interval [1s].")),
            ("threads", number("Threads of each worker [1].", 1, THREADS_LIMIT)),
            ("floor", truth("Whether each worker measures its own floor first [true].")),
            ("expect", list("Objectives, as in p99<10ms.", OBJECTIVES_LIMIT as u32, text("One of them.", "", 256))),
            ("strict", truth("Whether figures that cannot be trusted are a failure [false].")),
            ("prepareWithin", span("How long workers may make ready [60s].")),
            ("startTolerance", span("How far off the time that was set a worker may begin [50ms].")),
            (
                "ttlSecondsAfterFinished",
                number("How long the test stays when it is over [until it is deleted].", 0, TTL_LIMIT),
            ),
            ("request", request()),
            ("pods", pods("What workers are as pods.", true)),
        ],
        &["target", "workers"],
    );
    let closed = "has(self.arrival) && self.arrival == 'closed'";
    let open = "has(self.arrival) && self.arrival != 'closed'";
    spec["x-kubernetes-validations"] = json!([
        rule("self == oldSelf", "a test does not change: delete it, or make one of another name"),
        rule(
            &format!("!({closed} && has(self.rate))"),
            "in a closed loop each answer brings the next request: leave the rate out",
        ),
        rule(&format!("!({open}) || has(self.rate)"), "requests that fall due do so at a rate: write one"),
        rule(
            "!has(self.connections) || self.connections >= self.workers",
            "each worker needs a connection: there are fewer connections than workers",
        ),
    ]);
    spec
}

fn request() -> Value {
    let mut header = object(
        "A field, and where its value comes from.",
        [
            ("name", text("Its name.", r"^[A-Za-z0-9!#$%&'*+\-.^_`|~]+$", 256)),
            ("value", text("Its value.", "", TEXT_LIMIT)),
            ("valueFrom", from_secret()),
        ],
        &["name"],
    );
    let either = rule("has(self.value) != has(self.valueFrom)", "a header has value or valueFrom, and not both");
    header["x-kubernetes-validations"] = json!([either]);
    let mut request = object(
        "What is asked for [GET].",
        [
            ("method", text("In capital letters.", "^[A-Z]+$", 32)),
            ("headers", list("Fields beside Host.", HEADERS_LIMIT as u32, header)),
            // A text, or from a secret.
            (
                "body",
                json!({
                    "description": "A text, or a map with secretKeyRef.",
                    "x-kubernetes-preserve-unknown-fields": true,
                }),
            ),
            ("wantStatus", number("The status that a good answer has [any].", 100, 999)),
            ("template", truth("Whether words in double braces are filled in [false].")),
            (
                "feed",
                object(
                    "Rows of data, beside a file.",
                    [("file", text("Its name.", "", 4_096)), ("order", one_of("Of rows.", &["in-turn", "random"]))],
                    &["file"],
                ),
            ),
        ],
        &[],
    );
    let why = "rows of data are a file beside the test's own, and here is none: nearside cluster run takes them";
    request["x-kubernetes-validations"] = json!([rule("!has(self.feed)", why)]);
    request
}

fn from_secret() -> Value {
    let key = object(
        "A key of a Secret of this namespace.",
        [
            ("name", text("The Secret's name.", "^[a-z0-9]([a-z0-9-]*[a-z0-9])?$", 63)),
            ("key", text("The key.", r"^[A-Za-z0-9_-][A-Za-z0-9._-]*$", 253)),
        ],
        &["name", "key"],
    );
    object("Where it comes from.", [("secretKeyRef", key)], &["secretKeyRef"])
}

/// The schema of a NodeAudit (`openAPIV3Schema` of a CustomResourceDefinition), but for its status.
#[must_use]
pub fn audit_schema() -> Value {
    let mut spec = object(
        "What nodes are judged for, when, and which.",
        [
            ("role", one_of("What the nodes are for [web-kernel].", &Role::ALL.map(Role::name))),
            ("every", span("From the beginning of a round to that of the next: 1m to 168h [one round alone].")),
            ("parallelism", number("Pods at one time [50].", 1, PARALLEL_LIMIT)),
            ("answerWithin", span("How long a node has to answer: 5s to 1h [60s].")),
            (
                "expect",
                list(
                    "What is to be so of all nodes.",
                    Expectation::ALL.len() as u32,
                    one_of("One of it.", &Expectation::ALL.map(Expectation::word)),
                ),
            ),
            ("historyLimit", number("How many changes are kept of a node: the latest [100].", 0, HISTORY_LIMIT)),
            (
                "ttlSecondsAfterFinished",
                number("How long the audit stays when it is over [until it is deleted].", 0, TTL_LIMIT),
            ),
            ("pods", pods("What its pods are, of which each node has one.", false)),
        ],
        &[],
    );
    spec["x-kubernetes-validations"] = json!([
        rule("self == oldSelf", "an audit does not change: delete it, or make one of another name"),
        rule(
            "!(has(self.every) && has(self.ttlSecondsAfterFinished))",
            "with every it is never over: leave ttlSecondsAfterFinished out",
        ),
        rule(
            "!has(self.every) || (duration(self.every) >= duration('1m') && duration(self.every) <= duration('168h'))",
            "every is from 1m to 168h",
        ),
        rule(
            "!has(self.answerWithin) || (duration(self.answerWithin) >= duration('5s') && \
             duration(self.answerWithin) <= duration('1h'))",
            "answerWithin is from 5s to 1h",
        ),
    ]);
    let mut whole = object(
        "An audit of the nodes of a cluster.",
        [
            ("apiVersion", json!({ "type": "string" })),
            ("kind", json!({ "type": "string" })),
            ("metadata", json!({ "type": "object" })),
            ("spec", spec),
        ],
        &["spec"],
    );
    whole["x-kubernetes-validations"] = json!([rule(
        &format!("size(self.metadata.name) <= {AUDIT_NAME_LIMIT}"),
        &format!("names of its pods begin with it: {AUDIT_NAME_LIMIT} letters at most"),
    )]);
    whole
}

/// What pods are; those of a test may be spread over nodes.
fn pods(words: &str, is_spread: bool) -> Value {
    let amounts = |words: &str| {
        let cpu = amount("Cores: 2, 500m.");
        object(words, [("cpu", cpu), ("memory", amount("Bytes: 256Mi."))], &[])
    };
    let toleration = object(
        "A taint that is no obstacle.",
        [
            ("key", text("The taint's key.", "", 317)),
            ("operator", one_of("How it is compared.", &["Exists", "Equal"])),
            ("value", text("The taint's value.", "", 63)),
            ("effect", one_of("Its effect.", &["NoSchedule", "PreferNoSchedule", "NoExecute"])),
        ],
        &[],
    );
    let secret = object("A Secret of a registry.", [("name", text("Its name.", "", 63))], &["name"]);
    let selector = json!({
        "description": "Labels that a node has to have.",
        "type": "object",
        "minProperties": 1,
        "maxProperties": LIST_LIMIT,
        "additionalProperties": { "type": "string", "maxLength": 63 },
    });
    let mut pods = object(
        words,
        [
            (
                "image",
                text(
                    "The image with the programs [the operator's].",
                    r"^[A-Za-z0-9][A-Za-z0-9._/:@-]*$",
                    IMAGE_LIMIT as u32,
                ),
            ),
            ("imagePullPolicy", one_of("As a pod has it.", &["Always", "IfNotPresent", "Never"])),
            ("imagePullSecrets", list("As a pod has them.", LIST_LIMIT as u32, secret)),
            (
                "resources",
                object("Of each pod.", [("requests", amounts("Asked for.")), ("limits", amounts("At most."))], &[]),
            ),
            ("nodeSelector", selector),
            ("tolerations", list("As a pod has them.", LIST_LIMIT as u32, toleration)),
            ("runAsUser", number("The user, where the image does not say one by its number.", 1, i32::MAX as u32)),
        ],
        &[],
    );
    if is_spread {
        pods["properties"]["spread"] = one_of("Over nodes [preferred].", &["preferred", "required", "none"]);
    }
    pods
}

fn object<const N: usize>(words: &str, fields: [(&str, Value); N], needed: &[&str]) -> Value {
    let fields: Map<String, Value> = fields.into_iter().map(|(name, field)| (name.to_owned(), field)).collect();
    let mut out = json!({ "description": words, "type": "object", "properties": fields });
    if !needed.is_empty() {
        out["required"] = json!(needed);
    }
    out
}

fn rule(cel: &str, message: &str) -> Value {
    json!({ "rule": cel, "message": message })
}

fn text(words: &str, pattern: &str, most: u32) -> Value {
    let mut out = json!({ "description": words, "type": "string", "maxLength": most });
    if !pattern.is_empty() {
        out["pattern"] = json!(pattern);
    }
    out
}

fn span(words: &str) -> Value {
    text(words, SPAN, 24)
}

fn number(words: &str, least: u32, most: u32) -> Value {
    json!({ "description": words, "type": "integer", "minimum": least, "maximum": most })
}

fn amount(words: &str) -> Value {
    json!({
        "description": words,
        "anyOf": [{ "type": "integer" }, { "type": "string" }],
        "x-kubernetes-int-or-string": true,
        "pattern": NUMBER,
        "maxLength": 24,
    })
}

fn truth(words: &str) -> Value {
    json!({ "description": words, "type": "boolean" })
}

fn one_of(words: &str, known: &[&str]) -> Value {
    json!({ "description": words, "type": "string", "enum": known })
}

fn list(words: &str, most: u32, item: Value) -> Value {
    json!({ "description": words, "type": "array", "maxItems": most, "items": item })
}
