//! The types of a load on many machines.

use core::time::Duration;
use load::{Arrival, FeedOrder, Objective};

/// The most workers of one test.
pub const WORKERS_LIMIT: u32 = 1_000;

/// Memory of a worker without its connections: program, histograms of a thread and its intervals.
const MEMORY_EACH: u64 = 48 << 20;

/// Memory of a connection: socket buffers with a request and an answer of some KiB.
const MEMORY_OF_CONNECTION: u64 = 16 << 10;

/// The memory that a worker with so many connections takes, in bytes.
#[must_use]
pub fn memory_of_worker(connections: u32) -> u64 {
    MEMORY_EACH + u64::from(connections) * MEMORY_OF_CONNECTION
}

/// A load by many workers.
#[derive(Clone, PartialEq, Debug)]
pub struct LoadTest {
    /// Its name, as of any object of Kubernetes.
    pub name: String,
    /// The namespace that it belongs to, where one is said.
    pub namespace: Option<String>,
    /// Who is asked.
    pub target: TargetSpec,
    /// How many processes generate the load: at most [`WORKERS_LIMIT`].
    pub workers: u32,
    /// Connections of all of them together.
    pub connections: u32,
    /// When requests are due, of all of them together.
    pub arrival: Arrival,
    /// The rate, as it was written; none of a closed loop.
    pub rate: Option<String>,
    /// What is asked for.
    pub request: RequestSpec,
    /// Before the measured time.
    pub warm_up: Span,
    /// The measured time.
    pub duration: Span,
    /// How long a response is waited for.
    pub timeout: Span,
    /// The length of an interval.
    pub interval: Span,
    /// How long workers may make ready.
    pub prepare: Duration,
    /// How much later than set a worker may begin.
    pub start_tolerance: Duration,
    /// Threads of each worker.
    pub threads: u32,
    /// Whether each measures its own floor first.
    pub floor: bool,
    /// What is to be met, by the whole.
    pub expect: Vec<Objective>,
    /// Whether figures that cannot be trusted are a failure.
    pub strict: bool,
    /// What its workers are as pods.
    pub pods: PodsSpec,
    /// The line of each field of the file.
    pub(crate) lines: Vec<(String, usize)>,
}

impl LoadTest {
    /// The line of a field, or of the nearest one that it stands in; none of one that the file does not have.
    #[must_use]
    pub fn line(&self, field: &str) -> usize {
        let mut path = field;
        loop {
            if let Some((_, line)) = self.lines.iter().find(|(known, _)| known == path) {
                return *line;
            }
            let Some(end) = path.rfind(['.', '[']) else { return 0 };
            path = path.get(..end).unwrap_or_default();
        }
    }
}

/// What a worker is as a pod.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct PodsSpec {
    /// The image with the programs.
    pub image: Option<String>,
    /// When it is pulled, where that is said: `Always`, `IfNotPresent` or `Never`.
    pub pull: Option<String>,
    /// Secrets that open the image's registry.
    pub pull_secrets: Vec<String>,
    /// What each pod asks for, and what it may take at most.
    pub resources: Resources,
    /// Labels that a node has to have.
    pub node_selector: Vec<(String, String)>,
    /// Taints that are no obstacle.
    pub tolerations: Vec<Toleration>,
    /// How pods are spread over nodes.
    pub spread: Spread,
    /// The user that they run as, where the image does not say one by its number.
    pub user: Option<u32>,
}

/// Processor time and memory of a pod.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Resources {
    /// Asked for: thousandths of a core, and bytes.
    pub requests: Amounts,
    /// The most there is: a processor limit is a quota.
    pub limits: Amounts,
}

/// Amounts, where they are said.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Amounts {
    /// Thousandths of a core.
    pub cpu_milli: Option<u64>,
    /// Bytes of memory.
    pub memory: Option<u64>,
}

/// A taint that is no obstacle.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Toleration {
    /// The taint's key; none for all of them.
    pub key: Option<String>,
    /// The taint's value; none for each value.
    pub value: Option<String>,
    /// Its effect; none for all of them.
    pub effect: Option<String>,
}

/// How the workers of a test are spread over nodes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Spread {
    /// Evenly, as far as that can be.
    #[default]
    Preferred,
    /// Evenly, or not at all.
    Required,
    /// As the scheduler likes.
    None,
}

impl PodsSpec {
    /// What is not said: the thousandths of a core and the memory that a pod takes, which is also the most memory that
    /// it gets.
    pub(crate) fn complete(&mut self, cpu_milli: u64, memory: u64) {
        let Resources { requests, limits } = &mut self.resources;
        let cpu = requests.cpu_milli.or(limits.cpu_milli).unwrap_or(cpu_milli);
        let memory = requests.memory.or(limits.memory).unwrap_or(memory);
        (requests.cpu_milli, requests.memory) = (Some(cpu), Some(memory));
        limits.memory = limits.memory.or(Some(memory));
    }
}

/// A server, and what of it is asked for.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TargetSpec {
    /// The URL as it was written.
    pub url: String,
    /// The authority: what the field Host says.
    pub authority: String,
    /// Its host, without brackets around an address.
    pub host: String,
    /// Its port.
    pub port: u16,
    /// Path and query.
    pub path: String,
}

/// What is asked for.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct RequestSpec {
    /// The method; GET where none is said.
    pub method: Option<String>,
    /// Fields, with where each stands in the file.
    pub headers: Vec<(String, FieldValue)>,
    /// The content, and where it stands.
    pub body: Option<FieldValue>,
    /// The status that a good answer has.
    pub want_status: Option<u16>,
    /// Whether words in double braces are filled in.
    pub template: bool,
    /// Where rows of data are, and in which order they are taken.
    pub feed: Option<(String, FeedOrder)>,
}

/// A text that is here, or elsewhere.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum FieldValue {
    /// This one.
    Plain(String),
    /// That of a secret, which is asked for when it is needed, and shown to nobody.
    Secret(SecretKey),
}

/// A key of a secret.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SecretKey {
    /// The secret's name.
    pub secret: String,
    /// The key's.
    pub key: String,
}

/// A time, as it was written and as it is meant.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Span {
    /// As it was written.
    pub text: String,
    /// As it is meant.
    pub time: Duration,
}
