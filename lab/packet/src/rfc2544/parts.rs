//! The parts of the method, each from its first trial to what it found.

use super::ask::{AskedTrial, Condition, Test};
use super::burst::BurstSearch;
use super::{Ceiling, Settings, SizeResult};
use crate::search::{Goal, Outcome, Search, TRIALS_LIMIT, TrialInput};
use crate::table::way;
use crate::trial::{LaneResult, StampedBy, TrialResult};
use figures::seconds;
use serde::Serialize;

/// The overload of section 26.5, and what follows it.
const OVERLOAD: f64 = 1.1;
const AFTER: f64 = 0.5;

/// Steps of section 26.3.
const STEPS: u32 = 10;

/// When the device is reset, as a share of the trial.
const RESET_AT: f64 = 0.2;

/// Latency in one direction.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct LatencyFound {
    /// The direction.
    pub way: String,
    /// Nanoseconds of the tagged frame of each trial.
    pub tagged_ns: Vec<u64>,
    /// Their mean: what RFC 2544 reports.
    pub mean_ns: f64,
    /// The median of all frames of the last trial (RFC 8219's typical latency).
    pub typical_ns: u64,
    /// Their 99.9th percentile (RFC 8219's worst case).
    pub worst_ns: Option<u64>,
    /// Those of tagged frames are by stamps; the others are by the tester's clock.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stamped: Option<StampedLatency>,
}

/// By whose stamps the latency of tagged frames is.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct StampedLatency {
    /// Whose.
    pub by: StampedBy,
    /// What the difference between the clocks of two ports may be wrong by: each
    /// latency. Zero where it is one clock.
    pub bound_ns: f64,
    /// Latency of the same frames by the tester's own clock.
    pub tester_ns: Vec<u64>,
}

impl StampedLatency {
    /// A line for people, of so many frames.
    pub(super) fn told(&self) -> String {
        let mean = self.tester_ns.iter().map(|nanos| *nanos as f64).sum::<f64>() / self.tester_ns.len().max(1) as f64;
        let within = match self.bound_ns {
            bound if bound > 0.0 => format!(", each within {} (the clocks of two ports)", seconds(bound)),
            _ => String::new(),
        };
        format!(
            "by {} of {} tagged frames{within}; by the tester's own clock mean {}, as are typical and worst",
            self.by,
            self.tester_ns.len(),
            seconds(mean)
        )
    }
}

/// Losses at one rate.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub struct LossPoint {
    /// Of the highest rate.
    pub share: f64,
    /// Frames per second and direction.
    pub rate: f64,
    /// Frames offered, of all directions.
    pub offered: u64,
    /// Of these, lost.
    pub lost: u64,
}

/// How long losses went on after an overload.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Recovery {
    /// Frames per second of the overload, and after it.
    pub rates: (f64, f64),
    /// Seconds of each trial; `None`: losses went on to its end.
    pub seconds: Vec<Option<f64>>,
    /// Trials in which the overload lost nothing.
    pub without_loss: u32,
}

/// How long nothing came after a reset.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Reset {
    /// Seconds in which nothing came, of each trial (RFC 6201's method by
    /// time); `None`: nothing came any more.
    pub silent_seconds: Vec<Option<f64>>,
    /// Frames lost by the rate (its method by loss).
    pub lost_seconds: Vec<f64>,
}

/// What is being measured.
#[derive(Clone, Debug)]
pub(super) enum Part {
    Ceiling(Ceiling),
    Throughput { search: Box<Search>, asked: Option<TrialInput> },
    Latency { rate: f64, found: Vec<LatencyFound>, done: u32 },
    Loss { most: f64, points: Vec<LossPoint> },
    Bursts { rate: f64, throughput: f64, search: BurstSearch },
    Recovery { rate: f64, seconds: f64, found: Recovery },
    Reset { rate: f64, found: Reset },
}

impl Part {
    /// Begins a test, or notes why there is none.
    pub(super) fn begin(test: Test, settings: &Settings, result: &mut SizeResult) -> Option<Self> {
        let most = result.most();
        if test == Test::Throughput {
            let goal = Goal {
                final_duration: settings.throughput,
                duration_sum: settings.throughput,
                width: settings.width,
                ..Goal::rfc2544()
            };
            let (min, max) = (settings.min_rate.min(most), most.max(1.0));
            let search = Box::new(Search::new(vec![goal], min, max, TRIALS_LIMIT));
            return Some(Self::Throughput { search, asked: None });
        }
        if test == Test::Loss {
            return Some(Self::Loss { most, points: Vec::new() });
        }
        let Some(rate) = result.rate() else {
            result.lacks.push(format!("{test}: no throughput is known, on which it rests ({})", test.clause()));
            return None;
        };
        let at_most = rate >= most * (1.0 - settings.width);
        match test {
            Test::Latency => Some(Self::Latency { rate, found: Vec::new(), done: 0 }),
            Test::BackToBack if at_most => {
                let why =
                    "back-to-back: the throughput is the highest rate, at which no buffer fills (RFC 9004 section 4)";
                result.not_applicable.push(why.to_owned());
                None
            }
            Test::BackToBack => {
                let longest = (settings.bursts.seconds * most) as u64;
                Some(Self::Bursts {
                    rate: most,
                    throughput: rate,
                    search: BurstSearch::new(longest, settings.bursts.times),
                })
            }
            Test::Recovery if at_most => {
                let why = "recovery: the throughput is the highest rate, so that there is no overload";
                result.not_applicable.push(why.to_owned());
                None
            }
            Test::Recovery => {
                let rate = (rate * OVERLOAD).min(most);
                let found = Recovery { rates: (rate, rate * AFTER), seconds: Vec::new(), without_loss: 0 };
                Some(Self::Recovery { rate, seconds: settings.recovery.seconds, found })
            }
            // Of the smallest frames, once.
            Test::Reset if Some(&result.size) != settings.sizes.first() || result.condition != Condition::Plain => None,
            Test::Reset => {
                Some(Self::Reset { rate, found: Reset { silent_seconds: Vec::new(), lost_seconds: Vec::new() } })
            }
            Test::Throughput | Test::Loss => None,
        }
    }

    /// What people call it.
    pub(super) const fn name(&self) -> &'static str {
        match self {
            Self::Ceiling(_) => "the tester's highest rate",
            Self::Throughput { .. } => Test::Throughput.name(),
            Self::Latency { .. } => Test::Latency.name(),
            Self::Loss { .. } => Test::Loss.name(),
            Self::Bursts { .. } => Test::BackToBack.name(),
            Self::Recovery { .. } => Test::Recovery.name(),
            Self::Reset { .. } => Test::Reset.name(),
        }
    }

    /// It wants to know of trials that the tester spoilt, too.
    pub(super) const fn takes_spoilt(&self) -> bool {
        matches!(self, Self::Ceiling(_) | Self::Throughput { .. })
    }

    /// Why a trial is none for this part, whatever the tester did.
    pub(super) fn lacks(&self, result: &TrialResult) -> Option<String> {
        let untagged = |lane: &LaneResult| lane.tagged_ns.is_none();
        match self {
            Self::Latency { .. } if result.lanes.iter().any(untagged) => {
                Some("the tagged frame did not come".to_owned())
            }
            _ => None,
        }
    }

    /// The trial that is wanted next.
    pub(super) fn poll(&mut self, settings: &Settings, size: u16, condition: Condition) -> Option<AskedTrial> {
        let plain = |test: Option<Test>, rate: Option<f64>, seconds: f64| AskedTrial {
            test,
            condition,
            size,
            rate,
            seconds,
            then: None,
            tag: None,
            reset: None,
        };
        match self {
            Self::Ceiling(ceiling) => ceiling.poll_rate().map(|rate| plain(None, rate, settings.ceiling)),
            Self::Throughput { search, asked } => {
                *asked = search.poll_trial();
                asked.map(|ask| plain(Some(Test::Throughput), Some(ask.load), ask.duration))
            }
            Self::Latency { rate, done, .. } => (*done < settings.latency.times).then(|| AskedTrial {
                tag: Some(settings.latency.seconds / 2.0),
                ..plain(Some(Test::Latency), Some(*rate), settings.latency.seconds)
            }),
            Self::Loss { most, points } => {
                let step = points.len() as u32;
                let clean = points.iter().rev().take_while(|point| point.lost == 0).count();
                let share = f64::from(STEPS - step.min(STEPS)) / f64::from(STEPS);
                (clean < 2 && step < STEPS).then(|| plain(Some(Test::Loss), Some(*most * share), settings.loss))
            }
            Self::Bursts { rate, search, .. } => search.poll_burst().map(|frames| {
                // The last is due half a frame's time before the end.
                plain(Some(Test::BackToBack), Some(*rate), (frames as f64 - 0.5) / *rate)
            }),
            Self::Recovery { rate, seconds, found } => {
                (found.seconds.len() < settings.recovery.times as usize).then(|| AskedTrial {
                    then: Some((*seconds, AFTER)),
                    ..plain(Some(Test::Recovery), Some(*rate), 2.0 * *seconds)
                })
            }
            Self::Reset { rate, found } => {
                (found.lost_seconds.len() < settings.reset.times as usize).then(|| AskedTrial {
                    reset: Some(settings.reset.seconds * RESET_AT),
                    ..plain(Some(Test::Reset), Some(*rate), settings.reset.seconds)
                })
            }
        }
    }

    /// Takes what came of it.
    pub(super) fn on_trial(&mut self, result: &TrialResult, valid: bool) {
        let worst = result.lanes.iter().map(LaneResult::loss_ratio).fold(0.0, f64::max);
        match self {
            Self::Ceiling(ceiling) => ceiling.on_trial(result, valid),
            Self::Throughput { search, asked } => {
                // What was asked for is known exactly; the rate that lanes tell was rounded to thousandths.
                if let Some(ask) = asked.take() {
                    search.on_trial(Outcome { load: ask.load, duration: ask.duration, loss_ratio: worst, valid });
                }
            }
            Self::Latency { found, done, .. } => {
                *done += 1;
                take_latency(found, result);
            }
            Self::Loss { most, points } => {
                let share = f64::from(STEPS - points.len() as u32) / f64::from(STEPS);
                let (offered, lost) = (result.offered(), result.lost());
                points.push(LossPoint { share, rate: *most * share, offered, lost });
            }
            Self::Bursts { search, .. } => search.on_burst(result.lost() == 0),
            Self::Recovery { seconds, found, .. } => {
                let last = result.lanes.iter().filter_map(|lane| lane.last_loss_ns).max();
                let last = last.map(|nanos| nanos as f64 / 1e9);
                found.without_loss += u32::from(last.is_none());
                let after = (last.unwrap_or(0.0) - *seconds).max(0.0);
                // One that lasted nearly to the end is no end of losses.
                found.seconds.push((after < 0.99 * *seconds).then_some(after));
            }
            Self::Reset { rate, found } => {
                let silent = result.lanes.iter().map(|lane| lane.silence_ns).max().unwrap_or(0) as f64 / 1e9;
                let back = result.lanes.iter().all(|lane| lane.came_last);
                found.silent_seconds.push(back.then_some(silent));
                let lost = result.lanes.iter().map(LaneResult::lost).max().unwrap_or(0);
                found.lost_seconds.push(lost as f64 / *rate);
            }
        }
    }

    /// Puts what was found where it belongs.
    pub(super) fn finish(self, settings: &Settings, result: &mut SizeResult) {
        match self {
            Self::Ceiling(_) => {}
            Self::Throughput { search, .. } => {
                let found = search.found().pop();
                if let Some(why) = found.as_ref().and_then(|found| found.open.clone()) {
                    let spoilt = why.contains("spoilt");
                    let list = if spoilt { &mut result.fails } else { &mut result.lacks };
                    list.push(format!("throughput: {why}"));
                }
                result.throughput = found;
            }
            Self::Latency { found, .. } => result.latency = found,
            Self::Loss { points, .. } => result.loss = points,
            Self::Bursts { rate, throughput, search } => {
                result.back_to_back = search.found(rate, throughput);
                if result.back_to_back.as_ref().is_some_and(|found| found.reached_longest) {
                    let longest = settings.bursts.seconds;
                    result
                        .lacks
                        .push(format!("back-to-back: no burst of {longest} s lost a frame: the buffer is larger"));
                }
            }
            Self::Recovery { found, .. } => {
                if found.seconds.iter().any(Option::is_none) {
                    result.lacks.push("recovery: losses went on to the end of a trial".to_owned());
                }
                if found.without_loss > 0 {
                    let of = found.without_loss;
                    result
                        .lacks
                        .push(format!("recovery: the overload lost nothing in {of} of {} trials", found.seconds.len()));
                }
                result.recovery = Some(found);
            }
            Self::Reset { found, .. } => {
                if found.silent_seconds.iter().any(Option::is_none) {
                    result.lacks.push("reset: nothing came any more until the trial's end".to_owned());
                }
                result.reset = Some(found);
            }
        }
    }
}

fn take_latency(found: &mut Vec<LatencyFound>, result: &TrialResult) {
    for (index, lane) in result.lanes.iter().enumerate() {
        if index == found.len() {
            let (tagged_ns, mean_ns) = (Vec::new(), 0.0);
            found.push(LatencyFound {
                way: way(lane),
                tagged_ns,
                mean_ns,
                typical_ns: 0,
                worst_ns: None,
                stamped: None,
            });
        }
        let latency = &mut found[index];
        latency.tagged_ns.extend(lane.tagged_ns);
        let sum: f64 = latency.tagged_ns.iter().map(|nanos| *nanos as f64).sum();
        latency.mean_ns = sum / latency.tagged_ns.len().max(1) as f64;
        latency.typical_ns = lane.latency.quantile(0.5);
        latency.worst_ns = lane.latency.sound_quantile(0.999);
        if let Some(tagged) = &lane.tagged_by {
            let fresh = || StampedLatency { by: tagged.stamped.by, bound_ns: 0.0, tester_ns: Vec::new() };
            let stamped = latency.stamped.get_or_insert_with(fresh);
            stamped.bound_ns = stamped.bound_ns.max(tagged.stamped.bound_ns);
            stamped.tester_ns.extend(tagged.tester_ns);
        }
    }
}
