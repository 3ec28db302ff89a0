//! What makes a test invalid, and who.

use core::fmt;

/// How a worker's process, or what it ran in, ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Gone {
    /// It ended, with this code.
    Code(i32),
    /// A signal ended it.
    Signal(i32),
    /// The kernel ended it, as memory ran out.
    OutOfMemory,
    /// Its place was taken from it.
    Evicted,
    /// It could not be started.
    NotStarted,
}

impl fmt::Display for Gone {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Code(code) => write!(f, "its process ended with code {code}"),
            Self::Signal(9) => f.write_str("its process was killed (SIGKILL)"),
            Self::Signal(signal) => write!(f, "signal {signal} ended its process"),
            Self::OutOfMemory => f.write_str("memory ran out, and the kernel killed it"),
            Self::Evicted => f.write_str("its place was taken from it"),
            Self::NotStarted => f.write_str("it could not be started"),
        }
    }
}

/// What is wrong with a worker, or with the test.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum ProblemKind {
    /// It was not ready in time.
    NotReady,
    /// It says that it cannot do what it is to.
    Failed,
    /// It is gone, or silent.
    Lost,
    /// Memory ran out there.
    OutOfMemory,
    /// Its place was taken from it.
    Evicted,
    /// It is of another version.
    OtherVersion,
    /// It understood something else than it was to do.
    OtherPlan,
    /// It was started again, once the load began.
    StartedAgain,
    /// It sent what is no message, or what cannot be.
    Nonsense,
    /// It began at another time than the others.
    Late,
    /// It ended before its time, or had not ended after it.
    OutOfStep,
    /// A quota kept it from its cores.
    Throttled,
    /// It had more to do than it could.
    Saturated,
    /// Another test has this one's target.
    TargetTaken,
}

impl ProblemKind {
    /// In a few words.
    #[must_use]
    pub const fn words(self) -> &'static str {
        match self {
            Self::NotReady => "worker not ready",
            Self::Failed => "worker failed",
            Self::Lost => "worker lost",
            Self::OutOfMemory => "worker out of memory",
            Self::Evicted => "worker evicted",
            Self::OtherVersion => "worker of another version",
            Self::OtherPlan => "worker with another plan",
            Self::StartedAgain => "worker started again",
            Self::Nonsense => "worker sent nonsense",
            Self::Late => "worker late",
            Self::OutOfStep => "worker out of step",
            Self::Throttled => "worker throttled",
            Self::Saturated => "worker saturated",
            Self::TargetTaken => "target taken",
        }
    }

    /// Whether the load goes on to its end all the same: it is known when that has come.
    pub(crate) const fn is_known_at_the_end(self) -> bool {
        matches!(self, Self::Late | Self::Throttled | Self::Saturated)
    }
}

impl From<Gone> for ProblemKind {
    fn from(gone: Gone) -> Self {
        match gone {
            Gone::Code(_) | Gone::Signal(_) => Self::Lost,
            Gone::OutOfMemory => Self::OutOfMemory,
            Gone::Evicted => Self::Evicted,
            Gone::NotStarted => Self::Failed,
        }
    }
}

/// What makes a test invalid.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Problem {
    /// Whose it is, from zero; none where it is no worker's.
    pub worker: Option<u32>,
    /// What it is.
    pub kind: ProblemKind,
    /// What is known of it.
    pub what: String,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.worker {
            Some(worker) => write!(f, "worker {worker}: {}", self.what),
            None => f.write_str(&self.what),
        }
    }
}
