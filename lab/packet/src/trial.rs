//! What came of one trial, as numbers that stand for themselves.

use core::fmt;
use load::Recorder;
use serde::{Deserialize, Serialize};

/// What a stream sent, and what it did not.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Sent {
    /// Frames that went into the ring.
    pub frames: u64,
    /// Their bytes, without frame check sequences.
    pub bytes: u64,
    /// Frames that were due and found the ring full: lost at the entrance of
    /// the device under test, as by a NIC, and never sent late.
    pub entrance: u64,
    /// Frames that were due while the tester was away for too long to make up
    /// for them: not the device's fault.
    pub missed: u64,
    /// Frames that were sent, but late.
    pub late: u64,
    /// Probes that were given up.
    pub timeouts: u64,
    /// Frames that no slot of the link holds.
    pub too_long: u64,
}

/// Times that the tester was away from its rings.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct Stalls {
    /// How often.
    pub count: u64,
    /// The longest, in nanoseconds.
    pub longest_ns: u64,
    /// All of them, in nanoseconds.
    pub total_ns: u64,
}

impl Stalls {
    /// In ticks, until they are told.
    #[cold]
    pub(crate) fn on_stall(&mut self, ticks: u64) {
        self.count += 1;
        self.longest_ns = self.longest_ns.max(ticks);
        self.total_ns += ticks;
    }

    pub(crate) fn told(&self, hz: u64) -> Self {
        let nanos = |ticks: u64| (u128::from(ticks) * 1_000_000_000 / u128::from(hz.max(1))) as u64;
        Self { count: self.count, longest_ns: nanos(self.longest_ns), total_ns: nanos(self.total_ns) }
    }
}

/// A distribution, whole.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct LatencyDistribution {
    /// How many samples.
    pub samples: u64,
    /// The smallest, in nanoseconds.
    pub min_ns: u64,
    /// The mean.
    pub mean_ns: f64,
    /// The largest.
    pub max_ns: u64,
    /// Samples by the highest value of their bucket, which is less than a
    /// thousandth wide, ascending.
    pub buckets: Vec<(u64, u64)>,
}

impl LatencyDistribution {
    /// What a recorder holds.
    #[must_use]
    pub fn of(recorder: &Recorder) -> Self {
        let samples = recorder.len();
        if samples == 0 {
            return Self::default();
        }
        let histogram = recorder.histogram();
        let buckets = histogram.iter_recorded().map(|bucket| (bucket.value_iterated_to(), bucket.count_at_value()));
        Self {
            samples,
            min_ns: recorder.min(),
            mean_ns: recorder.total() / samples as f64,
            max_ns: recorder.max(),
            buckets: buckets.collect(),
        }
    }

    /// The value that the share `at` of samples does not exceed.
    #[must_use]
    pub fn quantile(&self, at: f64) -> u64 {
        let wanted = ((at.clamp(0.0, 1.0) * self.samples as f64).ceil() as u64).max(1);
        let mut seen = 0;
        for (value, count) in &self.buckets {
            seen += count;
            if seen >= wanted {
                return (*value).min(self.max_ns);
            }
        }
        self.max_ns
    }

    /// A percentile, where at least ten samples lie beyond it; fewer would
    /// make it a matter of chance.
    #[must_use]
    pub fn sound_quantile(&self, at: f64) -> Option<u64> {
        ((1.0 - at) * self.samples as f64 >= 10.0 - 1e-6).then(|| self.quantile(at))
    }

    /// Samples above a threshold.
    #[must_use]
    pub fn above(&self, nanos: u64) -> u64 {
        self.buckets.iter().filter(|(value, _)| *value > nanos).map(|(_, count)| count).sum()
    }
}

/// How well a stream kept to its times.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct Gaps {
    /// Times between two frames that were looked at.
    pub samples: u64,
    /// Percentiles of the time between two frames, in nanoseconds: 1, 50, 99.
    pub p1_ns: u64,
    /// The median.
    pub p50_ns: u64,
    /// The 99th.
    pub p99_ns: u64,
    /// How late frames left after they were due: median, 99th percentile, most.
    pub behind_p50_ns: u64,
    /// The 99th percentile.
    pub behind_p99_ns: u64,
    /// The most.
    pub behind_max_ns: u64,
    /// By how much the time between two frames was another than it should be:
    /// the 99th percentile, and the most. Where one is due at a time.
    #[serde(default)]
    pub deviation_p99_ns: u64,
    /// The most.
    #[serde(default)]
    pub deviation_max_ns: u64,
}

impl Gaps {
    pub(crate) fn of(gaps: &Recorder, behind: &Recorder, deviation: &Recorder) -> Self {
        Self {
            samples: gaps.len(),
            p1_ns: gaps.quantile(0.01),
            p50_ns: gaps.quantile(0.5),
            p99_ns: gaps.quantile(0.99),
            behind_p50_ns: behind.quantile(0.5),
            behind_p99_ns: behind.quantile(0.99),
            behind_max_ns: behind.max(),
            deviation_p99_ns: deviation.quantile(0.99),
            deviation_max_ns: deviation.max(),
        }
    }
}

/// One stream in one direction.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct LaneResult {
    /// The stream's name.
    pub stream: String,
    /// The port that it leaves by.
    pub from: usize,
    /// The port that it is to come by.
    pub to: usize,
    /// Bytes of a frame on average, with frame check sequence.
    pub mean_size: f64,
    /// One frame in flight at a time.
    pub probe: bool,
    /// Frames per second that were asked for; `None`: as many as possible.
    pub intended_rate: Option<f64>,
    /// Frames per second that went into the ring.
    pub rate: f64,
    /// What was sent.
    pub sent: Sent,
    /// Frames that came, all of them.
    pub received: u64,
    /// Once, again, out of order.
    pub arrivals: Arrivals,
    /// Frames that were sent and did not come.
    pub losses: Losses,
    /// Frames that came with other bytes than they left with.
    pub damaged: u64,
    /// Frames that came by another port.
    pub strayed: u64,
    /// Frames from the future: the clock stepped.
    pub backwards: u64,
    /// One-way latency.
    pub latency: LatencyDistribution,
    /// How the times were kept.
    pub gaps: Gaps,
    /// By how much longer frames took to be sent than they were to, as a share
    /// (RFC 9971 section 4.3): a rate that was stretched is a lower one.
    #[serde(default)]
    pub stretching: f64,
    /// When the last frame that was lost left, after the beginning; at the
    /// latest, where it cannot be told exactly.
    #[serde(default)]
    pub last_loss_ns: Option<u64>,
    /// The longest time between two frames that came.
    #[serde(default)]
    pub silence_ns: u64,
    /// Frames came in the last twentieth of the trial.
    #[serde(default)]
    pub came_last: bool,
    /// Latency of the tagged frame.
    #[serde(default)]
    pub tagged_ns: Option<u64>,
    /// Frames of a capture: told apart by their bytes, without times, and
    /// without an order.
    #[serde(default)]
    pub replayed: bool,
    /// Frames of a capture that were to be sent and were not due before the trial's end.
    #[serde(default)]
    pub unreached: u64,
    /// Broadcasts, queries or routing updates in the places of some of its
    /// frames: of nothing else here a part, but of the rate.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub modified: Option<Modified>,
    /// How the times were kept while the tester was at its rings, where one
    /// frame is due at a time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub calm: Option<Calm>,
    /// Latency is by stamps of the kernel or a NIC; else by the tester's clock.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stamped: Option<Stamped>,
    /// The tagged frame's is; all others' are by the tester's clock.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tagged_by: Option<TaggedStamps>,
}

/// Slices of a millisecond in which the tester was never away, and sent no
/// frame late.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Calm {
    /// All slices.
    pub slices: u64,
    /// Of these, such.
    pub calm: u64,
    /// Times between two frames in them.
    pub samples: u64,
    /// By how much 99 of 100 of those were at most another than they should be,
    /// in nanoseconds; `None`: none was seen, or more than two microseconds.
    pub deviation_p99_ns: Option<u64>,
}

/// By whom frames are stamped.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum StampedBy {
    /// The kernel, by its clock of the time of day, outside of the driver.
    Kernel,
    /// The NIC, by its own.
    Nic,
}

impl fmt::Display for StampedBy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Kernel => "the kernel's stamps",
            Self::Nic => "the NIC's stamps",
        })
    }
}

/// Stamps of a tagged frame.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct TaggedStamps {
    /// What became of them: there is one frame.
    pub stamped: Stamped,
    /// Its latency by the tester's own clock.
    pub tester_ns: Option<u64>,
}

/// The share of frames that may come without both stamps in a result that counts.
const MISSING_LIMIT: f64 = 0.01;

/// What became of a stream's stamps.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Stamped {
    /// By whom.
    pub by: StampedBy,
    /// Frames that were stamped as they left and as they came: the latencies.
    pub frames: u64,
    /// Frames that came, and whose departure was not stamped, or not in time.
    pub no_departure: u64,
    /// Frames that came without a stamp.
    pub no_arrival: u64,
    /// Stamps that were the same as the one before: the clock stood.
    pub stood: u64,
    /// Stamps before the one before: the clock went back.
    pub backwards: u64,
    /// Latencies below nothing, or longer than by the tester's own clock, which
    /// reads before and after the stamps.
    pub impossible: u64,
    /// The worst of them: by so many nanoseconds.
    pub impossible_by_ns: f64,
    /// What the difference between the clocks of two ports may be wrong by: each
    /// latency. Zero where it is one clock.
    pub bound_ns: f64,
    /// Latency of the same frames by the tester's own clock.
    #[serde(default)]
    pub tester: LatencyDistribution,
}

impl Stamped {
    pub(crate) const fn new(by: StampedBy) -> Self {
        Self {
            by,
            frames: 0,
            no_departure: 0,
            no_arrival: 0,
            stood: 0,
            backwards: 0,
            impossible: 0,
            impossible_by_ns: 0.0,
            bound_ns: 0.0,
            tester: LatencyDistribution { samples: 0, min_ns: 0, mean_ns: 0.0, max_ns: 0, buckets: Vec::new() },
        }
    }

    /// Frames that came, and not with both stamps.
    #[must_use]
    pub const fn missing(&self) -> u64 {
        self.no_departure + self.no_arrival
    }

    /// Whether frames came, and none of them with both stamps.
    #[must_use]
    pub const fn is_never(&self) -> bool {
        self.frames == 0 && self.missing() > 0
    }

    /// Why nothing is to be measured by these stamps, after a few frames: frames
    /// came, and most without them; or what [`Stamped::doubt`] says but of those.
    /// The first may come before all of the kernel knows that they are wanted.
    #[must_use]
    pub fn unfit(&self) -> Option<String> {
        let few = Self { no_departure: 0, no_arrival: 0, ..self.clone() };
        if self.missing() > self.frames { self.doubt() } else { few.doubt() }
    }

    /// Why latencies by these stamps are none, if they are none.
    #[must_use]
    pub fn doubt(&self) -> Option<String> {
        let (by, all) = (self.by, self.frames + self.missing());
        match () {
            () if self.stood > 0 => Some(format!("the clock of {by} stood still at {} of {all} frames", self.stood)),
            () if self.backwards > 0 => {
                Some(format!("the clock of {by} stepped back {} times in {all} frames", self.backwards))
            }
            () if self.impossible > 0 => Some(format!(
                "{} of {all} latencies by {by} cannot be, by {:.0} ns at worst: the clock stepped, or runs at another \
                 rate",
                self.impossible, self.impossible_by_ns
            )),
            () if self.missing() as f64 > MISSING_LIMIT * all as f64 => Some(format!(
                "{} of {all} frames that came have not both of {by} ({} departures and {} arrivals are missing)",
                self.missing(),
                self.no_departure,
                self.no_arrival
            )),
            () => None,
        }
    }
}

pub use crate::modifiers::Modified;
pub use crate::track::{Arrivals, Losses};

impl LaneResult {
    /// Frames that the device lost: at its entrance, and within.
    #[must_use]
    pub fn lost(&self) -> u64 {
        self.losses.frames + self.sent.entrance
    }

    /// Frames that the device was offered.
    #[must_use]
    pub fn offered(&self) -> u64 {
        self.sent.frames + self.sent.entrance
    }

    /// The share of those that were lost; zero where nothing was offered.
    #[must_use]
    pub fn loss_ratio(&self) -> f64 {
        if self.offered() == 0 { 0.0 } else { self.lost() as f64 / self.offered() as f64 }
    }

    /// Below what share losses are, at 95 % confidence, where none was seen, if they are
    /// independent: the share p at which (1 - p)ⁿ is a twentieth (Clopper and Pearson 1934), near
    /// 3 ÷ n where n is large.
    #[must_use]
    pub fn loss_bound(&self) -> Option<f64> {
        (self.lost() == 0 && self.offered() > 0).then(|| -(0.05_f64.ln() / self.offered() as f64).exp_m1())
    }
}

/// All of a trial.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct TrialResult {
    /// For how long frames were to be sent.
    pub intended_seconds: f64,
    /// For how long they were.
    pub seconds: f64,
    /// It was neither stopped nor is it still under way.
    pub complete: bool,
    /// Streams by direction.
    pub lanes: Vec<LaneResult>,
    /// Frames that came damaged, so that nobody can say which they were, or made
    /// up; those of ours that did not come otherwise count as lost.
    pub damaged_unknown: u64,
    /// Frames of trials that the same program had before.
    #[serde(default)]
    pub earlier_marks: u64,
    /// Frames with the mark of a trial that was none of this program's: whose it was cannot be
    /// seen.
    pub others_marks: u64,
    /// Anything else that came.
    pub foreign: u64,
    /// The tester's absences.
    pub stalls: Stalls,
    /// What was found wrong with a clock that frames were stamped by.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub clock_doubt: Option<String>,
}

impl TrialResult {
    /// Why latencies of it are none, if they are none: the clock of the stamps.
    #[must_use]
    pub fn stamps_doubt(&self) -> Option<String> {
        self.clock_doubt.clone().or_else(|| self.stamps().find_map(Stamped::doubt))
    }

    /// What became of all stamps.
    pub fn stamps(&self) -> impl Iterator<Item = &Stamped> {
        self.lanes.iter().flat_map(|lane| {
            let tagged = lane.tagged_by.as_ref().map(|tagged| &tagged.stamped);
            lane.stamped.as_ref().into_iter().chain(tagged)
        })
    }
}

impl TrialResult {
    /// Frames offered by all streams.
    #[must_use]
    pub fn offered(&self) -> u64 {
        self.lanes.iter().map(LaneResult::offered).sum()
    }

    /// Frames lost of all streams.
    #[must_use]
    pub fn lost(&self) -> u64 {
        self.lanes.iter().map(LaneResult::lost).sum()
    }

    /// The share lost of all.
    #[must_use]
    pub fn loss_ratio(&self) -> f64 {
        if self.offered() == 0 { 0.0 } else { self.lost() as f64 / self.offered() as f64 }
    }

    /// The stream that was stretched most: by such a share.
    #[must_use]
    pub fn stretching(&self) -> f64 {
        self.lanes.iter().map(|lane| lane.stretching).fold(0.0, f64::max)
    }

    /// The share of frames that the tester sent late or not at all.
    #[must_use]
    pub fn late_share(&self) -> f64 {
        let late: u64 = self.lanes.iter().map(|lane| lane.sent.late + lane.sent.missed).sum();
        let due: u64 = self.lanes.iter().map(|lane| lane.offered() + lane.sent.missed).sum();
        if due == 0 { 0.0 } else { late as f64 / due as f64 }
    }
}
