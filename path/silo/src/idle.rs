//! What a silo does while there is nothing to do.
//!
//! A plain state machine, told of each turn and asked what comes next, so
//! that it is tested without a clock.

use core::fmt;
use core::str::FromStr;
use core::time::Duration;
use wire::Time;

/// The idle policy.
///
/// Reads from `spin`, `adaptive`, `adaptive:SPIN`, `adaptive:SPIN:WAIT` or
/// `sleep:TIME` with times such as `50us`, `2ms`, `1s`; a bare number behind
/// `sleep:` is of microseconds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Idle {
    /// Polls without pause. The lowest latency, and one core always busy.
    Spin,
    /// Polls on for `spin_for` after the last activity, then sleeps until
    /// frames arrive or a timer is due, and for `max_wait` at most.
    ///
    /// Worst case for a frame that arrives during the sleep: one wake-up of
    /// the operating system, typically 5 to 60 µs by the depth of the core's
    /// sleep state. For a link whose peer does not interrupt, or loses one:
    /// `max_wait` and a wake-up. A timer runs late by a wake-up and the
    /// kernel's timer slack, 50 µs unless set otherwise.
    Adaptive {
        /// Too small costs a wake-up's latency between the requests of one
        /// client; too large burns the core between them. Default 50 µs: what
        /// a wake-up costs, so that waiting is never more than twice as dear
        /// as having known the future (the competitive bound for spinning
        /// before blocking: Karlin and others, SODA 1990).
        spin_for: Duration,
        /// Bounds the harm of a lost interrupt, and the delay of what is
        /// only polled. Default 1 s: an idle silo wakes once in that time.
        max_wait: Duration,
    },
    /// After a turn that found nothing, sleeps for this long whatever arrives
    /// meanwhile (F-Stack's `idle_sleep`): frames are polled for in bursts, and
    /// the peer never interrupts, so that a server under light load takes next
    /// to nothing of its core, and its peer no system call to wake it.
    ///
    /// What it costs: a frame that finds the silo asleep waits for half of
    /// this on average and all of it at worst, and a wake-up more, on each way
    /// that it makes; and the link's ring must hold all that arrives in one
    /// sleep, or the rest is dropped. Timers of the stack run late by up to
    /// this; only what the application wants at a time of its own ends the
    /// sleep early. Too small spends the core on system calls. Under full load
    /// it costs nothing: there is no turn that finds nothing.
    Sleep(Duration),
}

impl Idle {
    /// [`Idle::Adaptive`] with its defaults.
    pub const ADAPTIVE: Self = Self::Adaptive { spin_for: Duration::from_micros(50), max_wait: Duration::from_secs(1) };
}

impl Default for Idle {
    fn default() -> Self {
        Self::ADAPTIVE
    }
}

/// A shorter wait is not worth its system call: polling meets the deadline
/// better.
const WAIT_MIN: Duration = Duration::from_micros(20);

/// The range of [`Idle::Sleep`]: a shorter one is polling with a system call
/// in every turn, and a longer one is no server.
const SLEEP_RANGE: core::ops::RangeInclusive<Duration> = Duration::from_micros(1)..=Duration::from_secs(1);

/// What to do before the next turn.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Action {
    /// Go on at once.
    Poll,
    /// Call [`link::Link::wait`] with this timeout.
    Wait(Duration),
    /// Sleep for this long, whatever happens.
    Sleep(Duration),
}

/// The policy at work: one for each silo.
///
/// Call order: [`IdleState::on_turn`] once after each turn.
#[derive(Clone, Copy, Debug)]
pub struct IdleState {
    policy: Idle,
    /// When the present lull began; `None` while there is activity.
    quiet_since: Option<Time>,
}

impl IdleState {
    /// Begins awake.
    #[must_use]
    pub fn new(policy: Idle) -> Self {
        Self { policy, quiet_since: None }
    }

    /// Tells of a turn at `now`: whether it found or did anything, and when
    /// the next timer is due ([`Time::MAX`] for none, `now` or earlier if
    /// there is more to do).
    #[inline]
    pub fn on_turn(&mut self, now: Time, active: bool, next_deadline: Time) -> Action {
        if active {
            self.quiet_since = None;
            return Action::Poll;
        }
        let (spin_for, max_wait) = match self.policy {
            Idle::Spin => return Action::Poll,
            Idle::Adaptive { spin_for, max_wait } => (spin_for, max_wait),
            Idle::Sleep(span) => {
                let span = next_deadline.since(now).min(span);
                return if span.is_zero() { Action::Poll } else { Action::Sleep(span) };
            }
        };
        let since = *self.quiet_since.get_or_insert(now);
        if now.since(since) < spin_for {
            return Action::Poll;
        }
        let wait = next_deadline.since(now).min(max_wait);
        if wait < WAIT_MIN { Action::Poll } else { Action::Wait(wait) }
    }
}

impl fmt::Display for Idle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Spin => f.write_str("spin"),
            Self::Adaptive { spin_for, max_wait } => {
                write!(f, "adaptive:{}:{}", Span(*spin_for), Span(*max_wait))
            }
            Self::Sleep(span) => write!(f, "sleep:{}", Span(*span)),
        }
    }
}

/// The text is no idle policy.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BadIdle;

impl fmt::Display for BadIdle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(
            "expected spin, adaptive, adaptive:SPIN, adaptive:SPIN:WAIT or sleep:TIME, with times such \
             as 50us or 10ms; WAIT is 20us to 1s, TIME 1us to 1s",
        )
    }
}

impl core::error::Error for BadIdle {}

impl FromStr for Idle {
    type Err = BadIdle;

    fn from_str(text: &str) -> Result<Self, BadIdle> {
        let mut parts = text.split(':');
        match parts.next() {
            Some("spin") if text == "spin" => return Ok(Self::Spin),
            Some("adaptive") => {}
            Some("sleep") => {
                let text = parts.next().filter(|_| parts.next().is_none()).ok_or(BadIdle)?;
                let micros = text.parse().map(Duration::from_micros);
                let span = micros.or_else(|_| span(text))?;
                return if SLEEP_RANGE.contains(&span) { Ok(Self::Sleep(span)) } else { Err(BadIdle) };
            }
            _ => return Err(BadIdle),
        }
        let Self::Adaptive { mut spin_for, mut max_wait } = Self::ADAPTIVE else {
            return Err(BadIdle);
        };
        if let Some(part) = parts.next() {
            spin_for = span(part)?;
        }
        if let Some(part) = parts.next() {
            max_wait = span(part)?;
        }
        let valid = WAIT_MIN <= max_wait && max_wait <= Duration::from_secs(1);
        if parts.next().is_some() || !valid { Err(BadIdle) } else { Ok(Self::Adaptive { spin_for, max_wait }) }
    }
}

/// Reads a whole number with its unit.
fn span(text: &str) -> Result<Duration, BadIdle> {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let (number, unit) = text.split_at(digits);
    let number: u64 = number.parse().map_err(|_| BadIdle)?;
    let nanos = match unit {
        "ns" => 1,
        "us" | "µs" => 1_000,
        "ms" => 1_000_000,
        "s" => 1_000_000_000,
        _ => return Err(BadIdle),
    };
    number.checked_mul(nanos).map(Duration::from_nanos).ok_or(BadIdle)
}

/// Prints what [`span`] reads.
struct Span(Duration);

impl fmt::Display for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let nanos = self.0.as_nanos();
        for (unit, size) in [("s", 1_000_000_000), ("ms", 1_000_000), ("us", 1_000)] {
            if nanos >= size && nanos.is_multiple_of(size) {
                return write!(f, "{}{unit}", nanos / size);
            }
        }
        write!(f, "{nanos}ns")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn us(micros: u64) -> Time {
        Time::from_micros(micros)
    }

    const fn wait(micros: u64) -> Action {
        Action::Wait(Duration::from_micros(micros))
    }

    #[test]
    fn spinning_never_waits() {
        let mut idle = IdleState::new(Idle::Spin);
        for t in 0..1_000 {
            assert_eq!(idle.on_turn(us(t * 1_000), false, Time::MAX), Action::Poll);
        }
    }

    #[test]
    fn adaptive_spins_first_then_waits_within_its_bound() {
        let mut idle = IdleState::new(Idle::ADAPTIVE);
        assert_eq!(idle.on_turn(us(100), true, Time::MAX), Action::Poll);
        assert_eq!(idle.on_turn(us(110), false, Time::MAX), Action::Poll);
        assert_eq!(idle.on_turn(us(159), false, Time::MAX), Action::Poll);
        assert_eq!(idle.on_turn(us(160), false, Time::MAX), wait(1_000_000));
        // A wait that brought nothing is followed by the next.
        assert_eq!(idle.on_turn(us(1_000_160), false, Time::MAX), wait(1_000_000));
        // Activity starts the spin anew.
        assert_eq!(idle.on_turn(us(1_000_200), true, Time::MAX), Action::Poll);
        assert_eq!(idle.on_turn(us(1_000_201), false, Time::MAX), Action::Poll);
        assert_eq!(idle.on_turn(us(1_000_250), false, Time::MAX), Action::Poll);
        assert_eq!(idle.on_turn(us(1_000_251), false, Time::MAX), wait(1_000_000));
    }

    #[test]
    fn a_wait_ends_at_the_deadline() {
        let mut idle = IdleState::new(Idle::ADAPTIVE);
        idle.on_turn(us(0), false, Time::MAX);
        assert_eq!(idle.on_turn(us(100), false, us(1_100)), wait(1_000));
        assert_eq!(idle.on_turn(us(100), false, us(119)), Action::Poll);
        assert_eq!(idle.on_turn(us(100), false, us(120)), wait(20));
        assert_eq!(idle.on_turn(us(100), false, us(100)), Action::Poll);
        assert_eq!(idle.on_turn(us(100), false, Time::ZERO), Action::Poll);
    }

    #[test]
    fn sleeping_waits_for_nothing_but_timers() {
        let mut idle = IdleState::new(Idle::Sleep(Duration::from_millis(1)));
        let sleep = |micros| Action::Sleep(Duration::from_micros(micros));
        assert_eq!(idle.on_turn(us(100), true, Time::MAX), Action::Poll, "there was something to do");
        assert_eq!(idle.on_turn(us(110), false, Time::MAX), sleep(1_000), "at once");
        assert_eq!(idle.on_turn(us(1_110), false, Time::MAX), sleep(1_000));
        assert_eq!(idle.on_turn(us(2_110), false, us(2_300)), sleep(190), "a timer is due earlier");
        assert_eq!(idle.on_turn(us(2_300), false, us(2_300)), Action::Poll);
        assert_eq!(idle.on_turn(us(2_301), false, us(2_300)), Action::Poll);
    }

    #[test]
    fn policies_read_and_print() {
        assert_eq!("spin".parse(), Ok(Idle::Spin));
        assert_eq!("adaptive".parse(), Ok(Idle::ADAPTIVE));
        let adaptive = |spin, wait| Idle::Adaptive {
            spin_for: Duration::from_micros(spin),
            max_wait: Duration::from_micros(wait),
        };
        assert_eq!("adaptive:200us".parse(), Ok(adaptive(200, 1_000_000)));
        assert_eq!("adaptive:0us:1s".parse(), Ok(adaptive(0, 1_000_000)));
        for text in ["spin", "adaptive:50us:10ms", "adaptive:1500ns:20us"] {
            assert_eq!(text.parse::<Idle>().unwrap().to_string(), text);
        }
        let wrong = ["", "spin:1us", "adaptive:", "adaptive:50", "adaptive:us", "adaptive:1us:2s"];
        let more = ["adaptive:1us:19us", "adaptive:1us:1ms:1", "adaptive:99999999999999999999s", "x"];
        let huge = ["adaptive:18446744073709551615s", "sleep:18446744073709551615s", "sleep:18446744073709551615"];
        let sleep = |micros| Ok(Idle::Sleep(Duration::from_micros(micros)));
        for (text, micros) in [("sleep:1000", 1_000), ("sleep:1ms", 1_000), ("sleep:1", 1), ("sleep:1s", 1_000_000)] {
            assert_eq!(text.parse(), sleep(micros), "{text}");
        }
        assert_eq!("sleep:1000".parse::<Idle>().unwrap().to_string(), "sleep:1ms");
        let sleeps = ["sleep", "sleep:", "sleep:0", "sleep:2s", "sleep:999ns", "sleep:1:1", "sleep:-1"];
        for text in wrong.into_iter().chain(more).chain(huge).chain(sleeps) {
            assert_eq!(text.parse::<Idle>(), Err(BadIdle), "{text}");
        }
    }
}
