//! One measurement: what was asked, and what came of it.

use crate::child::{Interrupt, Running};
use crate::error::Error;
use crate::machine::{CpuSample, CpuShare};
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// The small answer's body, the same from both servers.
pub const SMALL_BODY: &str = "Hello, world!";

/// The file's length: a small page, two segments with its head.
pub const FILE_BYTES: usize = 2_649;

/// What is asked for.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Content {
    /// A fixed answer from memory.
    Small,
    /// A file from a folder.
    File,
}

/// How connections are used.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Connections {
    /// Each carries request after request.
    KeepAlive,
    /// A new one for every request.
    New,
}

/// What the requests' heads are like.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Heads {
    /// The same bytes on all connections.
    Equal,
    /// 40 to 150 bytes, with values of its own on each connection.
    Short,
    /// A browser's: some 600 bytes in twelve fields, with values of its own on
    /// each connection.
    Browser,
}

impl Heads {
    /// As titles say it.
    const fn title(self) -> &'static str {
        match self {
            Self::Equal => "equal heads",
            Self::Short => "short heads",
            Self::Browser => "browser heads",
        }
    }

    /// As `nearside load --heads` takes it.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Equal => "equal",
            Self::Short => "short",
            Self::Browser => "browser",
        }
    }
}

impl From<Heads> for load::Heads {
    fn from(heads: Heads) -> Self {
        match heads {
            Heads::Equal => Self::Equal,
            Heads::Short => Self::Short,
            Heads::Browser => Self::Browser,
        }
    }
}

/// What joins servers and generator: a part of the table.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Stage {
    /// All servers on one veth pair, asked by one generator: like for like.
    OnePair,
    /// Nearside over shared memory by its own generator, versus nginx over a
    /// veth pair by wrk: each on its fastest way.
    SharedMemory,
}

impl Stage {
    /// Both, in the order of the table.
    pub const ALL: [Self; 2] = [Self::OnePair, Self::SharedMemory];

    /// Who is asked, nginx first.
    #[must_use]
    pub const fn contenders(self) -> &'static [Contender] {
        match self {
            Self::OnePair => &[Contender::Nginx, Contender::OtherNginx, Contender::Sockets, Contender::AfXdp],
            Self::SharedMemory => &[Contender::Nginx, Contender::OtherNginx, Contender::Memif],
        }
    }
}

/// One row of the table: the same for every contender.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
pub struct Scenario {
    /// The part of the table.
    pub stage: Stage,
    /// What is asked for.
    pub content: Content,
    /// What the requests' heads are like.
    pub heads: Heads,
    /// How connections are used.
    pub connections: Connections,
    /// How many are open at a time.
    pub count: u32,
}

/// Rows over shared memory: the content and its heads at both numbers of
/// connections.
const fn kept(content: Content, heads: Heads, count: u32) -> Scenario {
    Scenario { stage: Stage::SharedMemory, content, heads, connections: Connections::KeepAlive, count }
}

/// A row on the one pair.
const fn paired(content: Content, connections: Connections) -> Scenario {
    Scenario { stage: Stage::OnePair, content, heads: Heads::Short, connections, count: 64 }
}

/// Every scenario, in the order of the table.
pub const SCENARIOS: [Scenario; 12] = [
    paired(Content::Small, Connections::KeepAlive),
    paired(Content::File, Connections::KeepAlive),
    paired(Content::Small, Connections::New),
    kept(Content::Small, Heads::Short, 64),
    kept(Content::Small, Heads::Short, 1_000),
    kept(Content::Small, Heads::Browser, 64),
    kept(Content::Small, Heads::Browser, 1_000),
    kept(Content::File, Heads::Short, 64),
    kept(Content::File, Heads::Short, 1_000),
    kept(Content::Small, Heads::Equal, 64),
    kept(Content::Small, Heads::Equal, 1_000),
    Scenario { connections: Connections::New, ..kept(Content::Small, Heads::Short, 64) },
];

impl Scenario {
    /// The row's name.
    #[must_use]
    pub fn title(&self) -> String {
        let content = match self.content {
            Content::Small => "small response".to_owned(),
            Content::File => format!("{} B file", thousands(FILE_BYTES as f64)),
        };
        let (count, heads) = (thousands(f64::from(self.count)), self.heads.title());
        match self.connections {
            Connections::KeepAlive => format!("{content}, {heads}, {count} connections"),
            Connections::New => format!("{content}, {heads}, new connections, {count} at a time"),
        }
    }

    /// Whether it belongs to the first look.
    #[must_use]
    pub const fn is_first(&self) -> bool {
        self.count <= 64
    }

    /// The paths that are asked for, as `nearside load` takes them: a hundred,
    /// and one where everything is equal.
    #[must_use]
    pub const fn path(&self) -> &'static str {
        match (self.heads, self.content) {
            (Heads::Equal, Content::Small) => "/small",
            (Heads::Equal, Content::File) => "/f/00.html",
            (_, Content::Small) => "/small/[00-99]",
            (_, Content::File) => "/f/[00-99].html",
        }
    }
}

/// Who answers.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Contender {
    /// nginx on kernel sockets.
    Nginx,
    /// A second nginx, of another version.
    OtherNginx,
    /// `nearside serve` on kernel sockets.
    Sockets,
    /// `nearside serve` over AF_XDP.
    AfXdp,
    /// `nearside serve` over shared memory.
    Memif,
}

impl Contender {
    /// Whether it is an nginx, and which.
    #[must_use]
    pub const fn nginx(self) -> Option<usize> {
        match self {
            Self::Nginx => Some(0),
            Self::OtherNginx => Some(1),
            Self::Sockets | Self::AfXdp | Self::Memif => None,
        }
    }
}

/// The percentiles that are kept: those of the table, and enough between
/// them to draw a curve on an axis where every nine is as wide as the last.
pub const PERCENTILES: [f64; 21] = [
    0.0, 10.0, 20.0, 30.0, 40.0, 50.0, 60.0, 70.0, 75.0, 80.0, 85.0, 90.0, 95.0, 97.5, 99.0, 99.5, 99.9, 99.95, 99.99,
    99.995, 99.999,
];

/// A latency distribution: the latency at each of [`PERCENTILES`], and the
/// largest, in microseconds.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct Latency {
    /// One value for each percentile kept.
    pub curve: Vec<f64>,
    /// The largest.
    pub max: f64,
}

impl Latency {
    /// The latency that `percentile` percent do not exceed; `None` for one
    /// that is not kept.
    #[must_use]
    pub fn at(&self, percentile: f64) -> Option<f64> {
        let index = PERCENTILES.iter().position(|kept| *kept == percentile)?;
        self.curve.get(index).copied()
    }
}

/// What came of one measurement.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Measurement {
    /// Answered requests ÷ time.
    pub requests_per_second: f64,
    /// Bytes of a response, head and body, on average.
    pub response_bytes: f64,
    /// From a request's first byte sent to its response's last byte received.
    pub latency: Latency,
    /// Requests and connections that failed, in any way.
    pub errors: u64,
    /// The server's share of its core.
    pub server: CpuShare,
    /// The client's share of its core.
    pub client: CpuShare,
    /// The share of its time in which the server had something to do, by its
    /// own account, if it gives one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub server_busy: Option<f64>,
    /// What the client said about the measurement's worth.
    pub warnings: Vec<String>,
}

impl Measurement {
    /// The share of a core that the server worked: by its own account, or
    /// else its process and softirq on its core.
    #[must_use]
    pub fn server_share(&self) -> f64 {
        self.server_busy.unwrap_or_else(|| (self.server.process + self.server.softirq).min(1.0))
    }

    /// The larger share of either core that others took.
    #[must_use]
    pub const fn others(&self) -> f64 {
        self.server.others.max(self.client.others)
    }
}

/// Samples processor time over the middle of a measurement: not while
/// connections are opened and not while results are printed.
pub fn watch_cpu(
    servers: &[u32],
    client: &Running,
    cores: (u16, u16),
    warmup: Duration,
    duration: Duration,
    interrupt: &Interrupt,
) -> Result<(CpuShare, CpuShare), Error> {
    let sample = || (CpuSample::take(servers, cores.0), CpuSample::take(&[client.pid()], cores.1));
    interrupt.sleep(warmup + duration / 5)?;
    let (server, generator) = sample();
    interrupt.sleep(duration * 3 / 5)?;
    let (server_later, generator_later) = sample();
    Ok((server.share_until(&server_later), generator.share_until(&generator_later)))
}

/// A whole number with separators: `12,345`.
pub fn thousands(value: f64) -> String {
    let digits = format!("{:.0}", value.abs());
    let mut text = String::with_capacity(digits.len() + digits.len() / 3 + 1);
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}
