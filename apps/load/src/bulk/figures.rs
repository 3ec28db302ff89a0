//! What streams without end came to.

use crate::report::PortUse;
use core::time::Duration;
use serde::Serialize;

/// What went one way.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize)]
pub struct BulkWay {
    /// Bytes that arrived: sent ones as the peer acknowledged them.
    pub bytes: u64,
    /// Answers that came whole.
    pub answers: u64,
    /// Segments that were sent again.
    pub retransmits: u64,
    /// Segments that came out of order.
    pub out_of_order: u64,
    /// Congestion windows at the end, all streams' together, in bytes.
    pub cwnd: u64,
    /// Smoothed round-trip times at the end, all streams' together.
    pub rtt_us: u64,
    /// Streams that these are of.
    pub streams: u64,
}

impl BulkWay {
    /// What happened since `earlier`; windows and times are those of now.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        Self {
            bytes: self.bytes.saturating_sub(earlier.bytes),
            answers: self.answers.saturating_sub(earlier.answers),
            retransmits: self.retransmits.saturating_sub(earlier.retransmits),
            out_of_order: self.out_of_order.saturating_sub(earlier.out_of_order),
            ..*self
        }
    }

    /// Adds those of other streams at the same time.
    pub fn merge(&mut self, other: &Self) {
        self.bytes += other.bytes;
        self.answers += other.answers;
        self.retransmits += other.retransmits;
        self.out_of_order += other.out_of_order;
        self.cwnd += other.cwnd;
        self.rtt_us += other.rtt_us;
        self.streams += other.streams;
    }

    /// A stream's congestion window, on average.
    #[must_use]
    pub fn mean_cwnd(&self) -> f64 {
        self.cwnd as f64 / self.streams.max(1) as f64
    }

    /// A stream's round-trip time, on average, in microseconds.
    #[must_use]
    pub fn mean_rtt_us(&self) -> f64 {
        self.rtt_us as f64 / self.streams.max(1) as f64
    }
}

/// What went both ways in an interval.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct BulkInterval {
    /// Its start, from the first measured moment on.
    pub start: Duration,
    /// Its end.
    pub end: Duration,
    /// To the server.
    pub up: BulkWay,
    /// From it.
    pub down: BulkWay,
}

impl BulkInterval {
    /// Adds that of another thread or silo.
    pub fn merge(&mut self, other: &Self) {
        self.start = if self.end.is_zero() { other.start } else { self.start.min(other.start) };
        self.end = self.end.max(other.end);
        self.up.merge(&other.up);
        self.down.merge(&other.down);
    }

    /// Bits per second of a way.
    #[must_use]
    pub fn rate(&self, way: &BulkWay) -> f64 {
        way.bytes as f64 * 8.0 / self.end.saturating_sub(self.start).as_secs_f64().max(1e-9)
    }
}

/// What was asked for.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct BulkSetup {
    /// The Host field.
    pub host: String,
    /// Path and query.
    pub path: String,
    /// The server's address.
    pub target: String,
    /// What bytes go by.
    pub way: String,
    /// Streams that send.
    pub up_streams: u32,
    /// Streams that receive.
    pub down_streams: u32,
}

/// Bytes one way, as results have them.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub struct BulkRate {
    /// Bits per second.
    pub bits_per_second: f64,
    /// The rest.
    #[serde(flatten)]
    pub way: BulkWay,
}

/// An interval, as results have it.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub struct BulkSpan {
    /// Its start in seconds.
    pub start_s: f64,
    /// Its end.
    pub end_s: f64,
    /// To the server, if any streams send.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub up: Option<BulkRate>,
    /// From it, if any receive.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub down: Option<BulkRate>,
}

impl BulkSpan {
    fn new(of: &BulkInterval) -> Self {
        let rate = |way: &BulkWay| (way.streams > 0).then(|| BulkRate { bits_per_second: of.rate(way), way: *way });
        Self { start_s: of.start.as_secs_f64(), end_s: of.end.as_secs_f64(), up: rate(&of.up), down: rate(&of.down) }
    }
}

/// What streams without end came to.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct BulkReport {
    /// What was asked for.
    pub setup: BulkSetup,
    /// The measured time.
    #[serde(flatten)]
    pub whole: BulkSpan,
    /// Its intervals.
    pub intervals: Vec<BulkSpan>,
    /// The generator's own time in user mode ÷ time: 1 is one core.
    pub cpu_user: f64,
    /// The same in the kernel.
    pub cpu_system: f64,
    /// The interfaces that bytes went by.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub carried: Vec<PortUse>,
}

impl BulkReport {
    /// Of a whole run and its intervals, with the generator's user and system time.
    #[must_use]
    pub fn new(
        setup: BulkSetup,
        whole: BulkInterval,
        intervals: Vec<BulkInterval>,
        (user, system): (Duration, Duration),
        carried: Vec<PortUse>,
    ) -> Self {
        let seconds = whole.end.saturating_sub(whole.start).as_secs_f64().max(1e-9);
        Self {
            setup,
            whole: BulkSpan::new(&whole),
            intervals: intervals.iter().map(BulkSpan::new).collect(),
            cpu_user: user.as_secs_f64() / seconds,
            cpu_system: system.as_secs_f64() / seconds,
            carried,
        }
    }
}
