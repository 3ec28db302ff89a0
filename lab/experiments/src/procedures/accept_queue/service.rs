//! What a request costs its worker.

use rustix::thread::{ClockId, clock_nanosleep_absolute, set_current_timer_slack};
use rustix::time::{Timespec, clock_gettime};
use stats::Random;
use std::fmt;
use std::num::NonZeroU64;
use std::str::FromStr;
use std::time::Duration;

/// The longest: a run of it is to end.
const LONGEST: Duration = Duration::from_secs(10);

/// Nanoseconds by which the kernel may wake late so that wakes fall together,
/// as little as it takes; the default is 50,000 (prctl(2), PR_SET_TIMERSLACK).
const SLACK: NonZeroU64 = NonZeroU64::MIN;

/// How a worker is occupied.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Kind {
    /// It sleeps.
    Wait,
    /// It computes for so much processor time.
    Burn,
    /// It sleeps for a time drawn from an exponential distribution.
    Exponential,
    /// Not chosen yet: see [`Service::for_cores`].
    Auto,
}

/// How, and for how long.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Service {
    pub(super) kind: Kind,
    time: Duration,
}

impl FromStr for Service {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        const WRONG: &str = "write wait:TIME, burn:TIME, exp:TIME or auto:TIME with 1us to 10s, as in wait:1.8ms";
        let (kind, time) = text.split_once(':').ok_or(WRONG)?;
        let kind = match kind {
            "wait" => Kind::Wait,
            "burn" => Kind::Burn,
            "exp" => Kind::Exponential,
            "auto" => Kind::Auto,
            _ => return Err(WRONG),
        };
        let digits = time.trim_end_matches(|c: char| c.is_ascii_alphabetic());
        let unit = match &time[digits.len()..] {
            "us" => 1e-6,
            "ms" => 1e-3,
            "s" => 1.0,
            _ => return Err(WRONG),
        };
        let seconds: f64 = digits.parse().map_err(|_| WRONG)?;
        let time = Duration::try_from_secs_f64(seconds * unit).map_err(|_| WRONG)?;
        if (Duration::from_micros(1)..=LONGEST).contains(&time) { Ok(Self { kind, time }) } else { Err(WRONG) }
    }
}

impl fmt::Display for Service {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = match self.kind {
            Kind::Wait => "wait",
            Kind::Burn => "burn",
            Kind::Exponential => "exp",
            Kind::Auto => "auto",
        };
        write!(f, "{kind}:{}ms", self.time.as_secs_f64() * 1e3)
    }
}

impl Service {
    /// Chooses between computing, which takes a core for each worker, and
    /// sleeping, which does not.
    pub(super) const fn for_cores(self, enough: bool) -> Self {
        let kind = match (self.kind, enough) {
            (Kind::Auto, true) => Kind::Burn,
            (Kind::Auto, false) => Kind::Wait,
            (kind, _) => kind,
        };
        Self { kind, ..self }
    }

    /// Its mean.
    pub(super) const fn mean(&self) -> Duration {
        self.time
    }

    /// Occupies the calling thread once; returns by how much too long.
    pub(super) fn occupy(&self, random: &mut Random) -> Duration {
        let begun = time(ClockId::Monotonic);
        let span = match self.kind {
            Kind::Exponential => self.time.mul_f64(random.exponential()),
            _ => self.time,
        };
        if self.kind == Kind::Burn {
            let begun = time(ClockId::ThreadCPUTime);
            while time(ClockId::ThreadCPUTime).saturating_sub(begun) < span {}
        } else {
            sleep_until(begun + span);
        }
        time(ClockId::Monotonic).saturating_sub(begun + span)
    }
}

/// Has sleeps of the calling thread end when they should.
pub(super) fn sleep_sharply() {
    // Refused by no kernel; without it they end up to 50 µs later.
    let _ = set_current_timer_slack(Some(SLACK));
}

fn time(clock: ClockId) -> Duration {
    let now = clock_gettime(clock);
    Duration::new(now.tv_sec.unsigned_abs(), u32::try_from(now.tv_nsec).unwrap_or(0))
}

/// Absolute, so that a signal on the way does not make it longer.
fn sleep_until(end: Duration) {
    let seconds = i64::try_from(end.as_secs()).unwrap_or(i64::MAX);
    let end = Timespec { tv_sec: seconds, tv_nsec: end.subsec_nanos().into() };
    while clock_nanosleep_absolute(ClockId::Monotonic, &end) == Err(rustix::io::Errno::INTR) {}
}
