//! Samples by what became of the request.

use crate::recorder::Recorder;
use serde::{Deserialize, Serialize};

/// What became of a request.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Class {
    /// Answered with 2xx.
    Success,
    /// Answered with 3xx.
    Redirection,
    /// Answered with 4xx.
    ClientError,
    /// Answered with 5xx.
    ServerError,
    /// Answered with another status.
    Other,
    /// Failed: no proper response came, and none will. Its time is the one
    /// until that was known.
    Failed,
    /// Not answered in time. Its time is the one it was waited for.
    TimedOut,
}

/// The number of [`Class`]es.
pub const CLASSES: usize = 7;

impl Class {
    /// All of them, in order.
    pub const ALL: [Self; CLASSES] = [
        Self::Success,
        Self::Redirection,
        Self::ClientError,
        Self::ServerError,
        Self::Other,
        Self::Failed,
        Self::TimedOut,
    ];

    /// The class of a response.
    #[inline]
    #[must_use]
    pub const fn of_status(code: u16) -> Self {
        match code {
            200..300 => Self::Success,
            300..400 => Self::Redirection,
            400..500 => Self::ClientError,
            500..600 => Self::ServerError,
            _ => Self::Other,
        }
    }

    /// A short name: `2xx`, … `other`, `failed`, `timeout`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Success => "2xx",
            Self::Redirection => "3xx",
            Self::ClientError => "4xx",
            Self::ServerError => "5xx",
            Self::Other => "other",
            Self::Failed => "failed",
            Self::TimedOut => "timeout",
        }
    }

    /// Whether its samples count as latencies: those of all responses, and
    /// those of timeouts, for the slowest requests must not be missing from
    /// the percentiles. A failure may be faster than any response, and would
    /// make a broken server look a quick one.
    #[must_use]
    pub const fn is_latency(self) -> bool {
        !matches!(self, Self::Failed)
    }
}

/// Samples of a time, in a distribution each. All times are in nanoseconds.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Samples {
    /// From the time that the request was due (in a closed loop: was sent) to
    /// its end, by [`Class`].
    pub classes: [Recorder; CLASSES],
    /// From the time that it was sent to its end, for all classes that count as latencies: what is
    /// called uncorrected. Empty in a closed loop, where the two are the same.
    pub service: Recorder,
    /// The same, for failures.
    pub service_failed: Recorder,
    /// In an open loop, from the time that it was due to the time that it was
    /// sent: schedule lag.
    pub lag: Recorder,
    /// From the time that the generator asked to be called to the time that
    /// it was: scheduling delay. In a closed loop sampled every few
    /// milliseconds, in an open one also for each request that is due.
    pub delay: Recorder,
    /// From the time that a request was sent to the first byte of its response,
    /// where [`crate::Plan::parts`] asks for it.
    pub waiting: Recorder,
    /// From the time that it was sent, or that its connect was started if it is
    /// the first on its connection, to the end of its response; likewise.
    pub total: Recorder,
}

impl Default for Samples {
    fn default() -> Self {
        Self {
            classes: core::array::from_fn(|_| Recorder::new()),
            service: Recorder::new(),
            service_failed: Recorder::new(),
            lag: Recorder::new(),
            delay: Recorder::new(),
            waiting: Recorder::new(),
            total: Recorder::new(),
        }
    }
}

impl Samples {
    /// The distribution of a class.
    #[inline]
    #[must_use]
    pub fn class(&self, class: Class) -> &Recorder {
        &self.classes[class as usize]
    }

    /// The samples that count as latencies, of all classes.
    #[must_use]
    pub fn latency(&self) -> Recorder {
        let mut sum = Recorder::new();
        for class in Class::ALL {
            if class.is_latency() {
                sum.merge(self.class(class));
            }
        }
        sum
    }

    /// Requests that ended, in whatever way.
    #[must_use]
    pub fn ended(&self) -> u64 {
        self.classes.iter().map(Recorder::len).sum()
    }

    /// Adds the samples of `other`.
    pub fn merge(&mut self, other: &Self) {
        for (mine, theirs) in self.each_mut().zip(other.each()) {
            mine.merge(theirs);
        }
    }

    /// Forgets all samples.
    pub fn clear(&mut self) {
        self.each_mut().for_each(Recorder::clear);
    }

    fn each(&self) -> impl Iterator<Item = &Recorder> {
        let others = [&self.service, &self.service_failed, &self.lag, &self.delay, &self.waiting, &self.total];
        self.classes.iter().chain(others)
    }

    fn each_mut(&mut self) -> impl Iterator<Item = &mut Recorder> {
        let Self { classes, service, service_failed, lag, delay, waiting, total } = self;
        classes.iter_mut().chain([service, service_failed, lag, delay, waiting, total])
    }
}

const _: () = assert!(Class::TimedOut as usize + 1 == CLASSES);
