//! What happened between two samples, as rows.

use serde::{Serialize, Serializer};
use std::collections::BTreeMap;

/// A figure, or why there is none.
#[derive(Clone, PartialEq, Debug)]
pub enum Figure {
    /// It is this.
    Is(f64),
    /// There is none.
    Missing(String),
}

impl Figure {
    /// The value, if there is one.
    #[must_use]
    pub const fn value(&self) -> Option<f64> {
        match self {
            Self::Is(value) => Some(*value),
            Self::Missing(_) => None,
        }
    }

    pub(super) fn map(self, with: impl FnOnce(f64) -> f64) -> Self {
        match self {
            Self::Is(value) => Self::Is(with(value)),
            missing @ Self::Missing(_) => missing,
        }
    }

    pub(super) fn missing(why: &str) -> Self {
        Self::Missing(why.to_owned())
    }

    /// The sum of both; what is missing in one is missing in the sum.
    pub(super) fn plus(self, other: Self) -> Self {
        match (self, other) {
            (Self::Is(one), Self::Is(other)) => Self::Is(one + other),
            (Self::Missing(why), _) | (_, Self::Missing(why)) => Self::Missing(why),
        }
    }
}

impl Serialize for Figure {
    /// A number, or `{"missing": why}`.
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Is(value) => serializer.serialize_f64(*value),
            Self::Missing(why) => BTreeMap::from([("missing", why)]).serialize(serializer),
        }
    }
}

/// Whether something was there at both samples.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Presence {
    /// At both.
    Here,
    /// Only at the later.
    Came,
    /// Only at the earlier, or another in its place.
    Gone,
}

/// What happened between two samples.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Change {
    /// When the later one was, milliseconds since 1970.
    pub unix_ms: u64,
    /// Seconds between them.
    pub seconds: f64,
    /// The whole machine's figures, in the order of the line.
    pub machine: BTreeMap<&'static str, Figure>,
    /// Every counter of the whole machine per second, and every level, by name.
    pub totals: BTreeMap<String, Figure>,
    /// Cores.
    pub cores: Vec<CoreRow>,
    /// Interfaces.
    pub ports: Vec<PortRow>,
    /// Domains.
    pub domains: Vec<DomainRow>,
    /// Processes of ours.
    pub bypass: Vec<BypassRow>,
    /// The process that is looked at.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub process: Option<ProcessRow>,
    /// Calls of malloc by process, the most first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub mallocs: Vec<MallocRow>,
    /// What a reader of the figures should know.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
}

/// A core's row.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct CoreRow {
    /// Its number.
    pub core: u16,
    /// Whether it was on line.
    pub presence: Presence,
    /// Shares of its time, as in [`TIMES`].
    pub times: [f64; 9],
    /// Interrupts per second.
    pub interrupts: Figure,
    /// Softirqs per second.
    pub softirqs: Figure,
    /// Packets per second that its backlog dropped.
    pub backlog_drops: Figure,
    /// Polls per second that ran out of their budget.
    pub squeezed: Figure,
}

/// Names of [`CoreRow::times`]: guest's time is no part of user's.
pub const TIMES: [&str; 9] = ["usr", "nice", "sys", "iowait", "irq", "soft", "steal", "guest", "idle"];

impl CoreRow {
    /// The share of its time in which it worked, or somebody else had it.
    #[must_use]
    pub fn busy(&self) -> f64 {
        1.0 - self.times[8] - self.times[3]
    }
}

/// An interface's row: in and out.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct PortRow {
    /// Its name.
    pub name: String,
    /// Whether it was there.
    pub presence: Presence,
    /// Whether its traffic is the machine's.
    pub outward: bool,
    /// Bits per second.
    pub bits: [Figure; 2],
    /// Packets per second.
    pub packets: [Figure; 2],
    /// Errors per second.
    pub errors: [Figure; 2],
    /// Drops per second.
    pub drops: [Figure; 2],
    /// The share of the link that is used, the larger of both.
    pub used: Figure,
}

/// A domain's row.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct DomainRow {
    /// Its number.
    pub domain: u16,
    /// Whether it was there.
    pub presence: Presence,
    /// The share of its cores' time that is worked.
    pub busy: Figure,
    /// Bytes of memory.
    pub memory: u64,
    /// Free bytes.
    pub free: u64,
    /// Pages per second that were given where they were asked for.
    pub local_pages: Figure,
    /// Pages per second that were given to others' cores.
    pub other_pages: Figure,
    /// Pages per second that were wanted here and given elsewhere.
    pub foreign_pages: Figure,
    /// Bytes per second over its memory's channels, as its controllers count.
    pub channels: Figure,
    /// Bytes per second between its cores and memory.
    pub traffic: Figure,
    /// The share of them that went to other domains' memory.
    pub remote: Figure,
    /// Bytes of its caches of the third level that are filled.
    pub cache: Figure,
}

/// The row of a process of ours.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct BypassRow {
    /// Its number.
    pub pid: u32,
    /// What it does.
    pub label: String,
    /// Whether it was there.
    pub presence: Presence,
    /// Whether it has links of its own, rather than the kernel's sockets.
    pub links: bool,
    /// Bits per second over its links, in and out.
    pub bits: [Figure; 2],
    /// Frames per second.
    pub packets: [Figure; 2],
    /// Connections.
    pub connections: Figure,
    /// Requests per second.
    pub requests: Figure,
    /// Frames per second that it dropped.
    pub drops: Figure,
    /// Segments per second that it sent again.
    pub retransmissions: Figure,
    /// The share of its time that the busiest silo or worker works.
    pub busiest: Figure,
    /// Busy cycles for each frame received, of a forwarder.
    pub cycles: Figure,
}

/// A process's row.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct ProcessRow {
    /// Its number.
    pub pid: u32,
    /// Its name.
    pub name: String,
    /// Whether it was there.
    pub presence: Presence,
    /// Its figures per second, and its levels, by name.
    pub figures: BTreeMap<String, Figure>,
    /// Where its processor time went, by function: shares, the largest first.
    pub symbols: Vec<(String, f64)>,
    /// The same with who called: shares, the largest first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub chains: Vec<(String, f64)>,
    /// Shares of its memory by domain.
    pub placed: BTreeMap<u16, f64>,
}

/// A process's calls of malloc, of the whole machine's.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct MallocRow {
    /// Its number.
    pub pid: u32,
    /// Its name.
    pub name: String,
    /// Calls per second.
    pub per_second: Figure,
}
