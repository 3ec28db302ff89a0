//! The types of a load on many machines.

use core::time::Duration;
use load::{Arrival, FeedOrder, Objective};

/// The most workers of one test.
pub const WORKERS_LIMIT: u32 = 1_000;

/// A load by many workers.
#[derive(Clone, PartialEq, Debug)]
pub struct LoadTest {
    /// Its name, as of any object of Kubernetes.
    pub name: String,
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
