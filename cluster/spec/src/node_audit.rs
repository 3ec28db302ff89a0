//! An audit of the nodes of a cluster: what it is to be, read from a file and refused by field.

use crate::fields::{FieldError, Fields};
use crate::pods::audit_pods;
use crate::read::{LABEL_LIMIT, POD_PREFIX, TTL_LIMIT, body, bounded, head, note_lines, one_document};
use crate::test::PodsSpec;
use crate::values::{count, count_or_zero, span};
use audit::Role;
use core::time::Duration;

/// Pods of an audit at one time, at most.
pub(crate) const PARALLEL_LIMIT: u32 = 1_000;

/// Changes that are kept of a node, at most.
pub(crate) const HISTORY_LIMIT: u32 = 500;

/// Behind an audit's name a pod has a number of so many digits.
const NUMBER_DIGITS: usize = 16;

/// The longest name of an audit, so that its pods' are labels of DNS (RFC 1123 section 2.1).
pub(crate) const AUDIT_NAME_LIMIT: usize = LABEL_LIMIT - POD_PREFIX.len() - "audit-".len() - 1 - NUMBER_DIGITS;

/// What the pod of an audit takes of a core, in thousandths: it reads for half a second.
const CPU_MILLI: u64 = 100;

/// The memory that the pod of an audit takes, in bytes.
const MEMORY: u64 = 64 << 20;

/// Pods at one time, where nothing is said.
const PARALLEL_USUALLY: u32 = 50;

/// Changes of a node that are kept, where nothing is said.
const HISTORY_USUALLY: u32 = 100;

/// How long a node has to answer, where nothing is said.
const ANSWER_USUALLY: Duration = Duration::from_secs(60);

/// What is to be so of all nodes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Expectation {
    /// They are alike.
    Alike,
    /// Nothing is worse than what the kernel does by itself, nor dangerous.
    NothingWorse,
    /// Nothing is dangerous.
    NothingDangerous,
}

impl Expectation {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Alike, Self::NothingWorse, Self::NothingDangerous];

    /// As it is written.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Alike => "alike",
            Self::NothingWorse => "nothing-worse",
            Self::NothingDangerous => "nothing-dangerous",
        }
    }
}

/// An audit of nodes.
#[derive(Clone, PartialEq, Debug)]
pub struct NodeAudit {
    /// Its name, as of any object of Kubernetes.
    pub name: String,
    /// The namespace that it belongs to, where one is said.
    pub namespace: Option<String>,
    /// What nodes are judged for.
    pub role: Role,
    /// From the beginning of a round to that of the next; none if there is one alone.
    pub every: Option<Duration>,
    /// Pods at one time.
    pub parallelism: u32,
    /// How long a node has to answer, from when its pod was made.
    pub answer_within: Duration,
    /// What is to be so.
    pub expect: Vec<Expectation>,
    /// How many changes are kept of a node: the latest.
    pub history: u32,
    /// How long it stays when it is over, in seconds; for ever where nothing is said.
    pub ttl: Option<u64>,
    /// What its pods are, and which nodes have one.
    pub pods: PodsSpec,
    /// The line of each field of the file.
    lines: Vec<(String, usize)>,
}

impl NodeAudit {
    /// Reads a file.
    ///
    /// # Errors
    /// All that is wrong with it, each with its field.
    pub fn read(text: &str) -> Result<Self, Vec<FieldError>> {
        let document = &one_document(text, "NodeAudit")?;
        let mut fields = Fields::new("", document);
        let name = head(&mut fields, "NodeAudit");
        let audit = body(&mut fields).map(|node| {
            let mut inner = Fields::new("spec", node);
            let audit = spec(&mut inner);
            fields.take_wrong(inner.end());
            audit
        });
        if let Some((name, _)) = &name
            && name.len() > AUDIT_NAME_LIMIT
        {
            let why = format!("names of its pods begin with it: take {AUDIT_NAME_LIMIT} letters at most");
            let line = document.at("metadata.name").map_or(0, |node| node.line);
            fields.take_wrong(vec![FieldError { field: "metadata.name".to_owned(), line, why }]);
        }
        let wrong = fields.end();
        match (name, audit) {
            (Some((name, namespace)), Some(audit)) if wrong.is_empty() => {
                let mut lines = Vec::new();
                note_lines(document, String::new(), &mut lines);
                Ok(Self { name, namespace, lines, ..audit })
            }
            _ => Err(wrong),
        }
    }

    /// All that it is to be, wherever that stands in its file.
    #[must_use]
    pub fn essence(&self) -> Self {
        Self { lines: Vec::new(), ..self.clone() }
    }

    /// The line of a field; none of one that the file does not have.
    #[must_use]
    pub fn line(&self, field: &str) -> usize {
        self.lines.iter().find(|(known, _)| known == field).map_or(0, |(_, line)| *line)
    }
}

/// The kind that a file says it is of; none where it says none, or is no YAML.
#[must_use]
pub fn kind(text: &str) -> Option<String> {
    one_document(text, "object").ok()?.at("kind")?.text().map(str::to_owned)
}

fn spec(fields: &mut Fields<'_>) -> NodeAudit {
    let role = fields.value("role", |text| {
        let names = Role::ALL.map(Role::name);
        let found = Role::ALL.into_iter().find(|role| role.name() == text);
        found.ok_or_else(|| format!("write one of {}", names.join(", ")))
    });
    let every = fields.value("every", |text| bounded(span(text)?, "1m", "168h"));
    let parallelism = fields.value("parallelism", |text| match count(text)? {
        found if found <= PARALLEL_LIMIT => Ok(found),
        _ => Err(format!("an audit has {PARALLEL_LIMIT} pods at one time at most")),
    });
    let answer = fields.value("answerWithin", |text| bounded(span(text)?, "5s", "1h"));
    let history = fields.value("historyLimit", |text| match count_or_zero(text)? {
        found if found <= HISTORY_LIMIT => Ok(found),
        _ => Err(format!("of a node {HISTORY_LIMIT} changes are kept at most")),
    });
    let ttl = fields.value("ttlSecondsAfterFinished", |text| match count_or_zero(text)? {
        seconds if seconds <= TTL_LIMIT => Ok(u64::from(seconds)),
        _ => Err(format!("an audit is kept for {TTL_LIMIT} seconds at most, or until somebody deletes it")),
    });
    if ttl.is_some() && every.is_some() {
        fields.refuse("ttlSecondsAfterFinished", "with every it is never over: leave one of both out");
    }
    let expect = expect(fields);
    let pods = audit_pods(fields, CPU_MILLI, MEMORY);
    NodeAudit {
        name: String::new(),
        namespace: None,
        role: role.unwrap_or(Role::WebKernel),
        every: every.map(|span| span.time),
        parallelism: parallelism.unwrap_or(PARALLEL_USUALLY),
        answer_within: answer.map_or(ANSWER_USUALLY, |span| span.time),
        expect,
        history: history.unwrap_or(HISTORY_USUALLY),
        ttl,
        pods,
        lines: Vec::new(),
    }
}

fn expect(fields: &mut Fields<'_>) -> Vec<Expectation> {
    let Some(node) = fields.node("expect") else { return Vec::new() };
    let one = core::slice::from_ref(node);
    let places = if node.text().is_some() { one } else { node.list() };
    let mut found = Vec::new();
    for place in places {
        let known = Expectation::ALL.into_iter().find(|one| place.text() == Some(one.word()));
        match known {
            Some(one) if found.contains(&one) => {}
            Some(one) => found.push(one),
            None => {
                let words = Expectation::ALL.map(Expectation::word).join(", ");
                fields.refuse("expect", format!("this is to be a list of some of {words}"));
            }
        }
    }
    found
}
