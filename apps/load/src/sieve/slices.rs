//! Slices, and what they add up to.

use crate::figures::{Counts, Ended, Figures, Integral, Scheduled, Turns};
use crate::interval::Interval;
use crate::recorder::Recorder;
use crate::samples::Samples;
use core::fmt;
use core::time::Duration;
use figures::share;
use serde::Serialize;
use wire::Time;

/// Unanswered requests at the end of a stretch are recorded in this many
/// steps of age at most.
const STEPS: u64 = 10_000;

/// What disturbed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Cause {
    /// A core did nothing for a while, not even wake who had slept enough: the
    /// hypervisor had it.
    Stolen,
    /// A thread of the generator was ready and had no core.
    GeneratorWaited,
    /// A thread of the server was.
    ServerWaited,
}

/// A disturbance.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Disturbance {
    /// Not before this time.
    pub from: Time,
    /// Over by this time.
    pub until: Time,
    /// What it was.
    pub by: Cause,
}

/// How many slices of a run counted, and why others did not. Each silo has
/// its own slices.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize)]
pub struct Sifted {
    /// Slices of the window.
    pub slices: u64,
    /// Those that count.
    pub counted: u64,
    /// Left out because the hypervisor had a core.
    pub stolen: u64,
    /// Because a thread of the generator was ready and had no core.
    pub generator_waited: u64,
    /// Because one of the server was.
    pub server_waited: u64,
    /// Behind a disturbance, until its backlog was gone and the load was back.
    pub recovering: u64,
    /// Undisturbed, in stretches too short for an overload to show.
    pub too_short: u64,
    /// Disturbed time that was counted before it was known.
    pub late_ns: u64,
    /// Whether enough counted for a verdict.
    pub enough: bool,
}

impl Sifted {
    pub(super) fn note(&mut self, by: Cause, spans: u32) {
        *match by {
            Cause::Stolen => &mut self.stolen,
            Cause::GeneratorWaited => &mut self.generator_waited,
            Cause::ServerWaited => &mut self.server_waited,
        } += u64::from(spans.max(1));
    }

    /// Slices that were left out.
    #[must_use]
    pub fn left_out(&self) -> u64 {
        self.stolen + self.generator_waited + self.server_waited + self.recovering + self.too_short
    }

    /// With those of another run.
    #[must_use]
    pub const fn plus(&self, other: &Self) -> Self {
        Self {
            slices: self.slices + other.slices,
            counted: self.counted + other.counted,
            stolen: self.stolen + other.stolen,
            generator_waited: self.generator_waited + other.generator_waited,
            server_waited: self.server_waited + other.server_waited,
            recovering: self.recovering + other.recovering,
            too_short: self.too_short + other.too_short,
            late_ns: self.late_ns + other.late_ns,
            enough: self.enough && other.enough,
        }
    }
}

impl fmt::Display for Sifted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let part = |n: u64| share(n as f64 / self.slices.max(1) as f64);
        write!(f, "{} of {} slices left out", self.left_out(), self.slices)?;
        let reasons = [
            (self.stolen, "the hypervisor had a core"),
            (self.generator_waited, "the generator waited for a core"),
            (self.server_waited, "the server waited for one"),
            (self.recovering, "until the load was back"),
            (self.too_short, "too short between disturbances"),
        ];
        let mut sign = ": ";
        for (n, reason) in reasons.into_iter().filter(|(n, _)| *n > 0) {
            write!(f, "{sign}{} {reason}", part(n))?;
            sign = ", ";
        }
        Ok(())
    }
}

/// What slices add up to.
#[derive(Debug)]
pub struct Sums {
    pub slices: u64,
    pub due: u64,
    /// The end of the last.
    pub until: Time,
    time: Duration,
    samples: Samples,
    /// Ages of requests that were never seen answered.
    overdue: Recorder,
    counts: Counts,
    in_progress: Integral,
    turns: Vec<Turns>,
}

impl Sums {
    pub fn new(silos: usize) -> Self {
        Self {
            slices: 0,
            due: 0,
            until: Time::ZERO,
            time: Duration::ZERO,
            samples: Samples::default(),
            overdue: Recorder::new(),
            counts: Counts::default(),
            in_progress: Integral::default(),
            turns: vec![Turns::default(); silos],
        }
    }

    pub fn clear(&mut self) {
        self.samples.clear();
        self.overdue.clear();
        (self.slices, self.due, self.until, self.time) = (0, 0, Time::ZERO, Duration::ZERO);
        (self.counts, self.in_progress) = (Counts::default(), Integral::default());
        self.turns.fill(Turns::default());
    }

    pub fn add(&mut self, silo: usize, slice: &Interval, until: Time) {
        self.slices += u64::from(slice.spans.max(1));
        self.due += slice.due;
        self.until = self.until.max(until);
        self.time += slice.length();
        self.samples.merge(&slice.samples);
        self.counts.add(&slice.counts);
        self.in_progress.add(&slice.in_progress);
        if let Some(turns) = self.turns.get_mut(silo) {
            turns.add(&slice.turns);
        }
    }

    /// Takes what `other` has, and leaves it empty.
    pub fn take(&mut self, other: &mut Self) {
        self.slices += other.slices;
        self.due += other.due;
        self.until = self.until.max(other.until);
        self.time += other.time;
        self.samples.merge(&other.samples);
        self.overdue.merge(&other.overdue);
        self.counts.add(&other.counts);
        self.in_progress.add(&other.in_progress);
        for (mine, theirs) in self.turns.iter_mut().zip(&other.turns) {
            mine.add(theirs);
        }
        other.clear();
    }

    /// `left` requests are unanswered at the end of a stretch: those that are
    /// older than the bound for certain count with their age.
    pub fn overdue(&mut self, left: u64, rate: f64, bound_ns: f64) {
        let within = (rate * bound_ns / 1e9).ceil() as u64;
        let step = left.saturating_sub(within).div_ceil(STEPS).max(1);
        let mut place = within + 1;
        while place <= left {
            let age = (place as f64 / rate.max(1e-9) * 1e9).min(1e18) as u64;
            self.overdue.record_n(age, step.min(left + 1 - place));
            place += step;
        }
    }

    /// The time that they stand for.
    pub fn time(&self, silos: usize) -> Duration {
        self.time / u32::try_from(silos.max(1)).unwrap_or(u32::MAX)
    }

    /// As the figures of a run.
    pub fn figures(&self, whole: Figures, silos: usize) -> Figures {
        let window = self.time(silos);
        let seconds = window.as_secs_f64();
        let mut latency = self.samples.latency();
        latency.merge(&self.overdue);
        let mut turns = Turns::default();
        self.turns.iter().for_each(|silo| turns.merge(silo));
        Figures {
            ended: Ended::AsPlanned,
            window,
            rate: if seconds > 0.0 { self.counts.traffic.responses as f64 / seconds } else { 0.0 },
            latency,
            samples: self.samples.clone(),
            in_progress: self.in_progress,
            schedule: Scheduled { due: self.due, ..Scheduled::default() },
            counts: self.counts,
            turns,
            ..whole
        }
    }
}
