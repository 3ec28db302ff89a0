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
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Content {
    /// A fixed answer from memory.
    Small,
    /// A file from a folder.
    File,
}

/// How connections are used.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Connections {
    /// Each carries request after request.
    KeepAlive,
    /// A new one for every request.
    New,
}

/// One row of the table: the same for every contender.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Scenario {
    /// What is asked for.
    pub content: Content,
    /// How connections are used.
    pub connections: Connections,
    /// How many are open at a time.
    pub count: u32,
}

/// Every scenario, in the order of the table.
pub const SCENARIOS: [Scenario; 6] = [
    Scenario { content: Content::Small, connections: Connections::KeepAlive, count: 64 },
    Scenario { content: Content::Small, connections: Connections::KeepAlive, count: 1_000 },
    Scenario { content: Content::Small, connections: Connections::New, count: 64 },
    Scenario { content: Content::File, connections: Connections::KeepAlive, count: 64 },
    Scenario { content: Content::File, connections: Connections::KeepAlive, count: 1_000 },
    Scenario { content: Content::File, connections: Connections::New, count: 64 },
];

impl Scenario {
    /// The row's name.
    #[must_use]
    pub fn title(&self) -> String {
        let content = match self.content {
            Content::Small => "small response".to_owned(),
            Content::File => format!("{} B file", thousands(FILE_BYTES as f64)),
        };
        let count = thousands(f64::from(self.count));
        match self.connections {
            Connections::KeepAlive => format!("{content}, keep-alive, {count} connections"),
            Connections::New => format!("{content}, new connection per request, {count} at a time"),
        }
    }
}

/// Who answers.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Contender {
    /// nginx on kernel sockets, driven by wrk.
    Nginx,
    /// `nearside serve`, driven by `nearside load`.
    Nearside,
}

impl Contender {
    /// Its name in tables.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Nginx => "nginx",
            Self::Nearside => "Nearside",
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
    /// What the client said about the measurement's worth.
    pub warnings: Vec<String>,
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
