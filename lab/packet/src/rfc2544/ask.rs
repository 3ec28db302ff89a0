//! A trial that the method wants, and the plan for it.

use super::Settings;
use crate::modifiers::Modifier;
use crate::tester::{Pacing, Plan, RateStep, Stream};
use core::fmt;
use core::str::FromStr;
use core::time::Duration;
use serde::Serialize;

/// What is measured.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Test {
    /// Section 26.1: the highest rate at which nothing is lost.
    Throughput,
    /// Section 26.2: latency at that rate.
    Latency,
    /// Section 26.3: losses at shares of the highest rate.
    Loss,
    /// Section 26.4, by RFC 9004: the longest burst of which nothing is lost.
    BackToBack,
    /// Section 26.5: how long losses go on after an overload.
    Recovery,
    /// Section 26.6: how long nothing comes after a reset.
    Reset,
}

impl Test {
    /// All of them, each after what it needs.
    pub const ALL: [Self; 6] =
        [Self::Throughput, Self::Latency, Self::Loss, Self::BackToBack, Self::Recovery, Self::Reset];

    /// As it is written.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Throughput => "throughput",
            Self::Latency => "latency",
            Self::Loss => "loss",
            Self::BackToBack => "back-to-back",
            Self::Recovery => "recovery",
            Self::Reset => "reset",
        }
    }

    /// Where it is defined.
    #[must_use]
    pub const fn clause(self) -> &'static str {
        match self {
            Self::Throughput => "RFC 2544 section 26.1",
            Self::Latency => "RFC 2544 section 26.2",
            Self::Loss => "RFC 2544 section 26.3",
            Self::BackToBack => "RFC 2544 section 26.4, RFC 9004",
            Self::Recovery => "RFC 2544 section 26.5",
            Self::Reset => "RFC 2544 section 26.6, RFC 6201",
        }
    }
}

impl fmt::Display for Test {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Test {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let names = Self::ALL.map(Self::name);
        let found = Self::ALL.into_iter().find(|test| test.name() == text);
        found.ok_or_else(|| format!("there is no test {text}: {} are", names.join(", ")))
    }
}

/// Under which condition it is measured.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Condition {
    /// One network on each side, no filters.
    Plain,
    /// Destinations drawn from 256 networks (section 12).
    Networks,
    /// With one filter, which permits the test's frames (section 11.4) and which
    /// somebody put into the device.
    Filters,
    /// With 25 of them, of which the last permits those frames (section 11.4).
    ManyFilters,
    /// With a broadcast as every hundredth frame (section 11.1).
    Broadcast,
    /// With a management query as the first frame of each second (section 11.2).
    Management,
    /// With routing updates, the first as a trial's first frame (section 11.3).
    Routing,
}

impl Condition {
    /// All of them, in the order that they are told in.
    pub const ALL: [Self; 7] = [
        Self::Plain,
        Self::Networks,
        Self::Broadcast,
        Self::Management,
        Self::Routing,
        Self::Filters,
        Self::ManyFilters,
    ];

    /// Frames that take the places of some of the test's.
    fn modifier(self, settings: &Settings) -> Option<Modifier> {
        match self {
            Self::Broadcast => Some(Modifier::Broadcast),
            Self::Management => settings.managed.clone().map(Modifier::Management),
            Self::Routing => Some(Modifier::Routing),
            Self::Plain | Self::Networks | Self::Filters | Self::ManyFilters => None,
        }
    }

    /// Networks that frames are sent to.
    #[must_use]
    pub const fn networks(self) -> u16 {
        match self {
            Self::Networks => 256,
            _ => 1,
        }
    }
}

impl fmt::Display for Condition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Plain => "one network, no filters",
            Self::Networks => "256 networks",
            Self::Filters => "one filter",
            Self::ManyFilters => "25 filters",
            Self::Broadcast => "broadcasts, 1 frame in 100",
            Self::Management => "management queries, 1 each second",
            Self::Routing => "routing updates, 1 in 30 s",
        })
    }
}

/// A trial that is wanted.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub struct AskedTrial {
    /// For what; `None`: to learn what the tester can send.
    pub test: Option<Test>,
    /// Under which condition.
    pub condition: Condition,
    /// The frame size.
    pub size: u16,
    /// Frames per second and direction; `None`: as many as possible.
    pub rate: Option<f64>,
    /// Seconds.
    pub seconds: f64,
    /// After so many seconds the rate is such a share of what it was.
    pub then: Option<(f64, f64)>,
    /// Seconds after which a frame is tagged.
    pub tag: Option<f64>,
    /// Seconds after which the device is reset.
    pub reset: Option<f64>,
}

impl AskedTrial {
    /// The plan for it, of a stream that is like `stream` but for sizes, rate
    /// and networks.
    #[must_use]
    pub fn plan(&self, stream: &Stream, settings: &Settings, (signature, seed): (u32, u64)) -> Plan {
        let span = |seconds: f64| Duration::from_secs_f64(seconds.clamp(0.0, 1e6));
        let pacing = match self.rate {
            Some(rate) => Pacing::Rate { milli: (rate * 1e3).round().max(1.0) as u64, burst: 1 },
            None => Pacing::Max,
        };
        let mut stream = Stream { pacing, ..stream.clone() };
        stream.shape.sizes = vec![self.size];
        stream.shape.networks = self.condition.networks();
        Plan {
            streams: vec![stream],
            duration: span(self.seconds),
            drain: span(settings.drain),
            stage: self.then.map(|(after, share)| RateStep { after: span(after), share }),
            tag_after: self.tag.map(span),
            modifier: self.condition.modifier(settings),
            signature,
            seed,
            ..Plan::default()
        }
    }
}
