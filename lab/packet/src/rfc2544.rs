//! RFC 2544 as a whole: throughput, latency, loss rate, back-to-back frames
//! (by RFC 9004), recovery and reset (with RFC 6201), for each frame size, and
//! again under each of the conditions of sections 11 (broadcasts, management
//! queries, routing updates, filters) and 12 (256 networks).
//!
//! Nothing is measured here: [`Method::poll_trial`] says which trial is wanted
//! and [`Method::on_trial`] takes what came of it, until there is none left.
//! What is missing is found by comparing what was done with what the RFC says,
//! so that no shortened run calls itself COMPLETE.

mod ask;
mod burst;
mod ceiling;
mod judge;
mod parts;
mod show;
#[cfg(test)]
mod tests;

pub use ask::{AskedTrial, Condition, Test};
pub use burst::{BackToBack, BurstSearch};
pub use ceiling::Ceiling;
pub use judge::verdict;
pub use parts::{LatencyFound, LossPoint, Recovery, Reset, StampedLatency};
pub use show::render;

use crate::modifiers::{Managed, Modified};
use crate::search::Found;
use crate::stream::{RFC2544_SIZES, WIRE_OVERHEAD};
use crate::trial::TrialResult;
use crate::verdict::spoilt;
use parts::Part;
use serde::Serialize;

/// A trial that the tester spoilt is repeated at most so often.
const REPEATS: u32 = 3;

/// A trial of so many seconds, so many times.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub struct Repeated {
    /// Of each.
    pub seconds: f64,
    /// How often.
    pub times: u32,
}

/// How the method is followed.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Settings {
    /// Frame sizes, with the frame check sequence.
    pub sizes: Vec<u16>,
    /// What is measured.
    pub tests: Vec<Test>,
    /// Under which conditions.
    pub conditions: Vec<Condition>,
    /// The device that queries go to.
    pub managed: Option<Managed>,
    /// Bits per second of the medium; `None`: what the tester can send stands
    /// in its place, and the result says so.
    pub line_rate: Option<f64>,
    /// The lowest rate, in frames per second and direction.
    pub min_rate: f64,
    /// How near the throughput's bounds are in the end.
    pub width: f64,
    /// Seconds of a trial for throughput.
    pub throughput: f64,
    /// Latency: of each trial, and how often.
    pub latency: Repeated,
    /// Seconds of a trial for loss.
    pub loss: f64,
    /// The longest burst, and how often its length is searched for.
    pub bursts: Repeated,
    /// Seconds of overload and of what follows it; how often.
    pub recovery: Repeated,
    /// Seconds of a trial in which the device is reset; how often.
    pub reset: Repeated,
    /// Seconds for stragglers.
    pub drain: f64,
    /// Seconds between trials.
    pub settle: f64,
    /// Seconds for which it is tried what the tester can send.
    pub ceiling: f64,
    /// The share of frames that may be late or not sent in a trial that counts.
    pub late_limit: f64,
}

impl Default for Settings {
    /// As the RFC has it.
    fn default() -> Self {
        Self {
            sizes: RFC2544_SIZES.to_vec(),
            tests: Test::ALL.to_vec(),
            conditions: vec![Condition::Plain],
            managed: None,
            line_rate: None,
            min_rate: 1_000.0,
            width: 0.005,
            throughput: 60.0,
            latency: Repeated { seconds: 120.0, times: 20 },
            loss: 60.0,
            bursts: Repeated { seconds: 2.0, times: 50 },
            recovery: Repeated { seconds: 60.0, times: 20 },
            reset: Repeated { seconds: 60.0, times: 1 },
            drain: 2.0,
            settle: 5.0,
            ceiling: 1.0,
            late_limit: 0.001,
        }
    }
}

impl Settings {
    /// A look of minutes, which is not the method: the verdict says by how
    /// much.
    #[must_use]
    pub fn quick() -> Self {
        Self {
            sizes: vec![64, 512, 1_518],
            width: 0.02,
            throughput: 1.0,
            latency: Repeated { seconds: 2.0, times: 2 },
            loss: 1.0,
            bursts: Repeated { seconds: 0.2, times: 3 },
            recovery: Repeated { seconds: 1.0, times: 2 },
            reset: Repeated { seconds: 10.0, times: 1 },
            drain: 0.2,
            settle: 0.1,
            ceiling: 0.2,
            ..Self::default()
        }
    }

    /// Frames per second that a medium has room for.
    fn line_frames(&self, size: u16) -> Option<f64> {
        self.line_rate.map(|bits| bits / 8.0 / (f64::from(size) + WIRE_OVERHEAD as f64))
    }
}

/// What was found for a frame size under one condition.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct SizeResult {
    /// The frame size.
    pub size: u16,
    /// The condition.
    pub condition: Condition,
    /// Frames per second that the medium has room for, or that the tester can
    /// send where no line rate is known.
    pub theoretical: f64,
    /// Frames per second that the tester can send on time.
    pub sendable: f64,
    /// Section 26.1.
    pub throughput: Option<Found>,
    /// Section 26.2, by direction.
    pub latency: Vec<LatencyFound>,
    /// Section 26.3.
    pub loss: Vec<LossPoint>,
    /// Section 26.4, by RFC 9004.
    pub back_to_back: Option<BackToBack>,
    /// Section 26.5.
    pub recovery: Option<Recovery>,
    /// Section 26.6.
    pub reset: Option<Reset>,
    /// What came of broadcasts, queries or updates, in all trials that count.
    pub modified: Option<Modified>,
    /// What does not apply, with the reason.
    pub not_applicable: Vec<String>,
    /// What is missing.
    pub lacks: Vec<String>,
    /// What the tester spoilt.
    pub fails: Vec<String>,
}

impl SizeResult {
    fn new(size: u16, condition: Condition) -> Self {
        Self {
            size,
            condition,
            theoretical: 0.0,
            sendable: 0.0,
            throughput: None,
            latency: Vec::new(),
            loss: Vec::new(),
            back_to_back: None,
            recovery: None,
            reset: None,
            modified: None,
            not_applicable: Vec::new(),
            lacks: Vec::new(),
            fails: Vec::new(),
        }
    }

    /// The highest rate without a loss, if one was found.
    #[must_use]
    pub fn rate(&self) -> Option<f64> {
        self.throughput.as_ref().filter(|found| found.open.is_none())?.lower
    }

    fn take_modified(&mut self, result: &TrialResult) {
        for modified in result.lanes.iter().filter_map(|lane| lane.modified) {
            self.modified.get_or_insert_default().add(&modified);
        }
    }

    /// The highest rate that is both on the medium and within what the tester
    /// can send.
    fn most(&self) -> f64 {
        self.theoretical.min(self.sendable)
    }
}

/// The method under way.
#[derive(Clone, Debug)]
pub struct Method {
    settings: Settings,
    /// Condition, size and test: which is next.
    at: (usize, usize, usize),
    part: Option<Part>,
    /// The tester's highest rate is known for this size and condition.
    known: bool,
    results: Vec<SizeResult>,
    spoilt: u32,
    over: bool,
}

impl Method {
    /// Begins at the first size.
    #[must_use]
    pub const fn new(settings: Settings) -> Self {
        Self { settings, at: (0, 0, 0), part: None, known: false, results: Vec::new(), spoilt: 0, over: false }
    }

    /// What was found so far.
    #[must_use]
    pub fn results(&self) -> &[SizeResult] {
        &self.results
    }

    /// How it is followed.
    #[must_use]
    pub const fn settings(&self) -> &Settings {
        &self.settings
    }

    /// Whether every trial was made.
    #[must_use]
    pub const fn is_over(&self) -> bool {
        self.over
    }

    /// The trial that is wanted next; `None`: all are done.
    pub fn poll_trial(&mut self) -> Option<AskedTrial> {
        loop {
            let (condition, size, test) = self.at;
            let Some(condition) = self.settings.conditions.get(condition).copied() else {
                self.over = true;
                return None;
            };
            let Some(size) = self.settings.sizes.get(size).copied() else {
                self.at = (self.at.0 + 1, 0, 0);
                continue;
            };
            if !self.known {
                let cap = self.settings.line_frames(size);
                let part = self.part.get_or_insert_with(|| Part::Ceiling(Ceiling::new(cap)));
                if let Some(ask) = part.poll(&self.settings, size, condition) {
                    return Some(ask);
                }
                self.begin_size(size, condition);
                continue;
            }
            let Some(test) = self.settings.tests.get(test).copied() else {
                self.at = (self.at.0, self.at.1 + 1, 0);
                (self.known, self.part) = (false, None);
                continue;
            };
            let result = self.results.last_mut()?;
            if self.part.is_none() {
                self.part = Part::begin(test, &self.settings, result);
            }
            if let Some(ask) = self.part.as_mut().and_then(|part| part.poll(&self.settings, size, condition)) {
                return Some(ask);
            }
            if let Some(part) = self.part.take() {
                part.finish(&self.settings, result);
            }
            self.at.2 += 1;
        }
    }

    /// Takes what came of a trial. One that the tester spoilt is asked for
    /// again, and after some times its part is INVALID. Returns why it does
    /// not count.
    pub fn on_trial(&mut self, result: &TrialResult) -> Option<String> {
        let part = self.part.as_mut()?;
        let why = spoilt(result, self.settings.late_limit);
        if let (None, true, Some(size)) = (&why, self.known, self.results.last_mut()) {
            size.take_modified(result);
        }
        if part.takes_spoilt() {
            part.on_trial(result, why.is_none());
            return why;
        }
        let why = why.or_else(|| part.lacks(result));
        if why.is_none() {
            self.spoilt = 0;
            part.on_trial(result, true);
            return None;
        }
        self.spoilt += 1;
        if self.spoilt > REPEATS {
            self.spoilt = 0;
            if let (Some(why), Some(size)) = (&why, self.results.last_mut()) {
                size.fails.push(format!("{}: {why}, {} times in a row", part.name(), REPEATS + 1));
            }
            self.part = None;
            self.at.2 += 1;
        }
        why
    }

    fn begin_size(&mut self, size: u16, condition: Condition) {
        let mut result = SizeResult::new(size, condition);
        if let Some(Part::Ceiling(ceiling)) = self.part.take() {
            result.sendable = ceiling.rate();
            if !ceiling.is_known() {
                // Nothing that is sent would count.
                self.at.2 = self.settings.tests.len();
                result.fails.push(format!(
                    "the tester kept to its times at no rate down to {:.0}/s: no test of this size would count, and \
                     none was made (cores of its own, --core, --late-limit)",
                    result.sendable
                ));
            }
        }
        let line = self.settings.line_frames(size);
        result.theoretical = line.unwrap_or(result.sendable);
        if let Some(line) = line.filter(|line| *line > result.sendable * (1.0 + 1e-9)) {
            result.lacks.push(format!(
                "the tester can send {:.0}/s on time, and the line has room for {line:.0}/s",
                result.sendable
            ));
        }
        self.results.push(result);
        self.known = true;
    }
}
