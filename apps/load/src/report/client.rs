//! The generator's own work, and what only its surroundings know of it.

use super::nanos;
use super::warnings::STALL_FLOOR_NS;
use crate::figures::Figures;
use crate::recorder::Recorder;
use core::time::Duration;
use serde::{Deserialize, Serialize};

/// What only the surroundings of the generator can know, over the measured
/// window (see [`crate::Load::stage`]). Whatever is not known stays `None`.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Outside {
    /// The runtime's account of its time.
    pub busy: Option<Busy>,
    /// What the kernel charged.
    pub cpu: Option<Cpu>,
    /// Local ports.
    pub ports: Option<Ports>,
    /// The same run against a null server.
    pub floor: Option<Floor>,
    /// What the hypervisor took from all cores together, as a share of one.
    pub stolen: Option<f64>,
    /// The interfaces that requests went by.
    pub carried: Vec<PortUse>,
    /// Cores that share one with the generator's.
    pub siblings: Vec<Sibling>,
}

/// A logical core that shares a physical one with a core of the generator's (SMT).
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
pub struct Sibling {
    /// Its number.
    pub core: u16,
    /// The generator's core.
    pub of: u16,
    /// It is the generator's, too.
    pub own: bool,
    /// The share of the time that it was busy, whoever's work it was.
    pub busy: f64,
}

/// What an interface carried meanwhile, whoever's frames they were.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct PortUse {
    /// Its name.
    pub name: String,
    /// Its speed in bits per second, where it has one.
    pub speed: Option<f64>,
    /// Bits per second that it sent.
    pub sent: f64,
    /// Bits per second that it received.
    pub received: f64,
}

impl PortUse {
    /// How full its busier direction was; `None` without a speed.
    #[must_use]
    pub fn utilisation(&self) -> Option<f64> {
        self.speed.map(|speed| self.sent.max(self.received) / speed)
    }
}

impl From<Option<Busy>> for Outside {
    fn from(busy: Option<Busy>) -> Self {
        Self { busy, ..Self::default() }
    }
}

/// What the kernel charged to the generator's threads (getrusage(2), and
/// `/proc/thread-self/schedstat` for the delay). Of several, the sum.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Cpu {
    /// In user mode.
    pub user_ns: u64,
    /// In the kernel.
    pub system_ns: u64,
    /// Time ready to run, waiting for a core, of the thread that waited most.
    pub run_delay_ns: u64,
    /// The time over which the kernel was asked; zero if that is not known.
    pub span_ns: u64,
}

/// Local ports towards the target: each connection takes one, and holds it
/// for the length of TIME-WAIT where we close first (RFC 9293 §3.6).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Ports {
    /// The most in use at once.
    pub used: u64,
    /// How many there are, for all source addresses and targets.
    pub available: u64,
}

/// Latency of the same generator, with the same plan, against a server that
/// does nothing: what the two data paths and the generator take alone.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct Floor {
    /// The mean, in nanoseconds.
    pub mean_ns: f64,
    /// The median.
    pub p50_ns: u64,
    /// The 99th percentile.
    pub p99_ns: u64,
}

/// The runtime's own account of its silo's time, over the measured window
/// (see [`crate::Load::stage`]). For several silos, that of the busiest.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Busy {
    /// Time of turns that found work.
    pub busy: Duration,
    /// Time of all turns, and of waiting.
    pub total: Duration,
}

/// The generator's own work in the window, on its busiest silo.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct ClientCpu {
    /// Busy time ÷ time.
    pub busy_fraction: f64,
    /// Who says so.
    pub source: BusySource,
    /// Turns.
    pub turns: u64,
    /// Turns that brought something for the generator.
    pub busy_turns: u64,
    /// Responses per such turn and silo.
    pub responses_per_busy_turn: f64,
    /// The mean length of such a turn. A latency is too long by at most two
    /// turns.
    pub mean_busy_turn_ns: u64,
    /// The longest of them.
    pub longest_busy_turn_ns: u64,
    /// How long the generator was called late by a millisecond or more, all
    /// such times together.
    pub stood_still_ns: u64,
    /// What the kernel charged, if that is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpu: Option<Cpu>,
    /// Local ports, if they are counted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ports: Option<Ports>,
    /// What a null server takes, if it was measured.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub floor: Option<Floor>,
    /// What the hypervisor took from all cores together, as a share of one, if the
    /// kernel counts it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stolen: Option<f64>,
    /// Cores that share one with those that the generator is pinned to.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub siblings: Vec<Sibling>,
}

/// Where a busy fraction comes from.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum BusySource {
    /// The runtime measured it.
    Runtime,
    /// Seen from the application, which cannot tell a wait at the end of a
    /// busy turn from work: an upper bound.
    UpperBound,
}

impl ClientCpu {
    pub(super) fn new(figures: &Figures, outside: &Outside) -> Self {
        let turns = &figures.turns;
        let bound = turns.busy_fraction();
        let measured = outside
            .busy
            .filter(|busy| !busy.total.is_zero())
            .map(|busy| busy.busy.as_secs_f64() / busy.total.as_secs_f64());
        let busy_fraction = measured.unwrap_or(bound);
        // What the runtime knows to be waiting is not part of a turn.
        let worked = if bound > 0.0 { (busy_fraction / bound).min(1.0) } else { 0.0 };
        let responses = figures.counts.traffic.responses as f64 / f64::from(figures.silos.max(1));
        Self {
            busy_fraction,
            source: if measured.is_some() { BusySource::Runtime } else { BusySource::UpperBound },
            turns: turns.all,
            busy_turns: turns.busy,
            responses_per_busy_turn: responses / turns.busy.max(1) as f64,
            mean_busy_turn_ns: (nanos(turns.mean_busy()) as f64 * worked) as u64,
            longest_busy_turn_ns: nanos(turns.longest),
            stood_still_ns: stood_still(&figures.samples.delay),
            cpu: outside.cpu,
            ports: outside.ports,
            floor: outside.floor,
            stolen: outside.stolen,
            siblings: outside.siblings.clone(),
        }
    }
}

/// The sum of the delays that are worth a warning.
fn stood_still(delay: &Recorder) -> u64 {
    if delay.is_empty() || delay.max() < STALL_FLOOR_NS {
        return 0;
    }
    let histogram = delay.histogram();
    let long = histogram.iter_recorded().filter(|bucket| bucket.value_iterated_to() >= STALL_FLOOR_NS);
    long.map(|bucket| bucket.count_at_value().saturating_mul(bucket.value_iterated_to())).sum()
}
