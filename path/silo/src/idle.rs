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
/// Reads from `spin`, `spin:SPIN`, `spin:SPIN:WAIT`, `adaptive`, `adaptive:LATENCY`,
/// `adaptive:LATENCY:WAIT` or `sleep:TIME` with times such as `50us`, `2ms`, `1s`; a bare
/// number behind `sleep:` is of microseconds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Idle {
    /// Polls without pause. The lowest latency, and one core always busy.
    Spin,
    /// Polls on for `spin_for` after the last activity, then sleeps until
    /// frames arrive or a timer is due, and for `max_wait` at most.
    ///
    /// For one who knows the gaps between a client's requests, and pays a core
    /// to answer within them: with 50 µs, what a wake-up costs, waiting is
    /// never more than twice as dear as having known the future (Karlin and
    /// others, SODA 1990), and still a whole core wherever frames come more
    /// often than that.
    SpinFor {
        /// Too small costs a wake-up's latency between the requests of one
        /// client; too large burns the core between them.
        spin_for: Duration,
        /// Bounds the harm of a lost interrupt, and the delay of what is
        /// only polled. Default 1 s: an idle silo wakes once in that time.
        max_wait: Duration,
    },
    /// Learns the gaps between frames, and polls only through those that are
    /// shorter than what a sleep costs ([`SLEEP_COST`]); else it sleeps at
    /// once, until frames arrive or a timer is due, and for `max_wait` at most.
    /// Where the next frame is expected within `latency`, it sleeps for that
    /// long by the clock instead, and takes what has come meanwhile as one
    /// burst: nobody interrupts it.
    ///
    /// Worst case for a frame that arrives during a sleep: one wake-up of
    /// the operating system, typically 5 to 60 µs by the depth of the core's
    /// sleep state, and `latency`. For a link whose peer does not interrupt,
    /// or loses one: `max_wait` and a wake-up. A timer runs late by a wake-up
    /// and the kernel's timer slack, 50 µs unless set otherwise.
    Adaptive {
        /// Zero, the default: it never sleeps while a frame lies there.
        latency: Duration,
        /// As of [`Idle::SpinFor`].
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
    pub const ADAPTIVE: Self = Self::Adaptive { latency: Duration::ZERO, max_wait: Self::MAX_WAIT };

    /// Whether it has sleeps that nothing but the clock ends.
    #[must_use]
    pub fn goes_by_the_clock(&self) -> bool {
        match self {
            Self::Spin | Self::SpinFor { .. } => false,
            Self::Adaptive { latency, .. } => !latency.is_zero(),
            Self::Sleep(_) => true,
        }
    }

    /// How long a sleep lasts at most where nothing else is said.
    pub const MAX_WAIT: Duration = Duration::from_secs(1);
}

impl Default for Idle {
    fn default() -> Self {
        Self::ADAPTIVE
    }
}

/// What going to sleep and waking up takes of a core: a system call that waits, an
/// interrupt, and what the scheduler does for both, without the wait. A gap that is
/// expected to be shorter is cheaper to poll through.
pub const SLEEP_COST: Duration = Duration::from_micros(8);

/// How long it polls where it expects a short gap and is wrong: by then the gap is another
/// than those learnt from.
const SPIN_MOST: Duration = Duration::from_micros(24);

/// A longer gap counts as this long: one pause of seconds is not to be paid for by a
/// hundred short gaps before it is forgotten.
const GAP_MOST: Duration = Duration::from_micros(500);

/// A shorter wait is not worth its system call: polling meets the deadline
/// better.
const WAIT_MIN: Duration = Duration::from_micros(20);

/// The range of [`Idle::Sleep`]: a shorter one is polling with a system call
/// in every turn, and a longer one is no server.
const SLEEP_RANGE: core::ops::RangeInclusive<Duration> = Duration::from_micros(1)..=Duration::from_secs(1);

/// The longest latency that [`Idle::Adaptive`] takes: more is [`Idle::Sleep`].
const LATENCY_MOST: Duration = Duration::from_millis(10);

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
    /// Nanoseconds that a lull lasts, the mean of some sixteen, the newest of the most weight.
    gap: u64,
}

/// The weight of the newest gap is one in so many.
const GAPS: u64 = 8;

impl IdleState {
    /// Begins awake, and expects nothing soon.
    #[must_use]
    pub fn new(policy: Idle) -> Self {
        Self { policy, quiet_since: None, gap: GAP_MOST.as_nanos() as u64 }
    }

    /// Tells of a turn that began at `began` and was over at `now`: whether it found or
    /// did anything, and when the next timer is due ([`Time::MAX`] for none, `now` or
    /// earlier if there is more to do).
    #[inline]
    pub fn on_turn(&mut self, (began, now): (Time, Time), active: bool, next_deadline: Time) -> Action {
        if active {
            if let Some(since) = self.quiet_since.take() {
                self.learn(began.since(since));
            }
            return Action::Poll;
        }
        let (spin_for, latency, max_wait) = match self.policy {
            Idle::Spin => return Action::Poll,
            Idle::SpinFor { spin_for, max_wait } => (spin_for, Duration::ZERO, max_wait),
            Idle::Adaptive { latency, max_wait } => (self.spin_for(), latency, max_wait),
            Idle::Sleep(span) => {
                let span = next_deadline.since(now).min(span);
                return if span.is_zero() { Action::Poll } else { Action::Sleep(span) };
            }
        };
        let since = *self.quiet_since.get_or_insert(now);
        let quiet = now.since(since);
        if quiet < spin_for {
            return Action::Poll;
        }
        let wait = next_deadline.since(now).min(max_wait);
        if quiet < latency && self.gap < latency.as_nanos() as u64 {
            let doze = wait.min(latency);
            return if doze.is_zero() { Action::Poll } else { Action::Sleep(doze) };
        }
        if wait < WAIT_MIN { Action::Poll } else { Action::Wait(wait) }
    }

    /// How long polling through a gap is cheaper than sleeping, by the gaps before.
    fn spin_for(&self) -> Duration {
        if self.gap < SLEEP_COST.as_nanos() as u64 { SPIN_MOST } else { Duration::ZERO }
    }

    /// Takes a lull into account that is over.
    #[inline]
    fn learn(&mut self, gap: Duration) {
        let gap = gap.min(GAP_MOST).as_nanos() as u64;
        self.gap = self.gap - self.gap / GAPS + gap / GAPS;
    }
}

impl fmt::Display for Idle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Spin => f.write_str("spin"),
            Self::SpinFor { spin_for, max_wait } => write!(f, "spin:{}:{}", Span(*spin_for), Span(*max_wait)),
            Self::Adaptive { latency, max_wait } => write!(f, "adaptive:{}:{}", Span(*latency), Span(*max_wait)),
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
            "expected spin, spin:SPIN, spin:SPIN:WAIT, adaptive, adaptive:LATENCY, adaptive:LATENCY:WAIT or \
             sleep:TIME, with times such as 50us or 10ms; LATENCY is at most 10ms, WAIT is 20us to 1s, TIME 1us \
             to 1s",
        )
    }
}

impl core::error::Error for BadIdle {}

impl FromStr for Idle {
    type Err = BadIdle;

    fn from_str(text: &str) -> Result<Self, BadIdle> {
        let mut parts = text.split(':');
        let (name, first, second) = (parts.next(), parts.next(), parts.next());
        if parts.next().is_some() {
            return Err(BadIdle);
        }
        let max_wait = second.map_or(Ok(Self::MAX_WAIT), span)?;
        if !(WAIT_MIN..=Duration::from_secs(1)).contains(&max_wait) {
            return Err(BadIdle);
        }
        match (name, first) {
            (Some("spin"), None) => Ok(Self::Spin),
            (Some("spin"), Some(first)) => Ok(Self::SpinFor { spin_for: span(first)?, max_wait }),
            (Some("adaptive"), first) => {
                let latency = first.map_or(Ok(Duration::ZERO), span)?;
                if latency > LATENCY_MOST { Err(BadIdle) } else { Ok(Self::Adaptive { latency, max_wait }) }
            }
            (Some("sleep"), Some(first)) if second.is_none() => {
                let micros = first.parse().map(Duration::from_micros);
                let span = micros.or_else(|_| span(first))?;
                if SLEEP_RANGE.contains(&span) { Ok(Self::Sleep(span)) } else { Err(BadIdle) }
            }
            _ => Err(BadIdle),
        }
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

    /// A turn of no length at this microsecond.
    fn turn(idle: &mut IdleState, at: u64, active: bool, deadline: Time) -> Action {
        idle.on_turn((us(at), us(at)), active, deadline)
    }

    #[test]
    fn spinning_never_waits() {
        let mut idle = IdleState::new(Idle::Spin);
        for t in 0..1_000 {
            assert_eq!(turn(&mut idle, t * 1_000, false, Time::MAX), Action::Poll);
        }
    }

    const FIFTY: Idle = Idle::SpinFor { spin_for: Duration::from_micros(50), max_wait: Idle::MAX_WAIT };

    #[test]
    fn who_spins_for_a_while_waits_then_within_its_bound() {
        let mut idle = IdleState::new(FIFTY);
        assert_eq!(turn(&mut idle, 100, true, Time::MAX), Action::Poll);
        assert_eq!(turn(&mut idle, 110, false, Time::MAX), Action::Poll);
        assert_eq!(turn(&mut idle, 159, false, Time::MAX), Action::Poll);
        assert_eq!(turn(&mut idle, 160, false, Time::MAX), wait(1_000_000));
        // A wait that brought nothing is followed by the next.
        assert_eq!(turn(&mut idle, 1_000_160, false, Time::MAX), wait(1_000_000));
        // Activity starts the spin anew.
        assert_eq!(turn(&mut idle, 1_000_200, true, Time::MAX), Action::Poll);
        assert_eq!(turn(&mut idle, 1_000_201, false, Time::MAX), Action::Poll);
        assert_eq!(turn(&mut idle, 1_000_250, false, Time::MAX), Action::Poll);
        assert_eq!(turn(&mut idle, 1_000_251, false, Time::MAX), wait(1_000_000));
    }

    #[test]
    fn a_wait_ends_at_the_deadline() {
        for policy in [FIFTY, Idle::ADAPTIVE] {
            let mut idle = IdleState::new(policy);
            turn(&mut idle, 0, false, Time::MAX);
            assert_eq!(turn(&mut idle, 100, false, us(1_100)), wait(1_000));
            assert_eq!(turn(&mut idle, 100, false, us(119)), Action::Poll);
            assert_eq!(turn(&mut idle, 100, false, us(120)), wait(20));
            assert_eq!(turn(&mut idle, 100, false, us(100)), Action::Poll);
            assert_eq!(turn(&mut idle, 100, false, Time::ZERO), Action::Poll);
        }
    }

    /// Frames every `gap` microseconds, `count` of them, from `at` on: the time afterwards.
    fn frames(idle: &mut IdleState, mut at: u64, gap: u64, count: u64) -> u64 {
        for _ in 0..count {
            turn(idle, at, false, Time::MAX);
            at += gap;
            assert_eq!(turn(idle, at, true, Time::MAX), Action::Poll, "there was something to do");
        }
        at
    }

    #[test]
    fn it_polls_through_gaps_that_are_shorter_than_a_sleep_costs_and_through_no_others() {
        let mut idle = IdleState::new(Idle::ADAPTIVE);
        assert_eq!(turn(&mut idle, 10, true, Time::MAX), Action::Poll);
        assert_eq!(turn(&mut idle, 11, false, Time::MAX), wait(1_000_000), "nothing is known yet");
        let at = frames(&mut idle, 20, 4, 64);
        assert_eq!(turn(&mut idle, at, false, Time::MAX), Action::Poll, "the next is due in 4 us");
        assert_eq!(turn(&mut idle, at + 23, false, Time::MAX), Action::Poll);
        assert_eq!(turn(&mut idle, at + 24, false, Time::MAX), wait(1_000_000), "it did not come");
        let at = frames(&mut idle, at + 100, 40, 64);
        assert_eq!(turn(&mut idle, at, false, Time::MAX), wait(1_000_000), "the next is due in 40 us");
        // A pause is forgotten as soon as the frames after it show that it was one.
        let at = frames(&mut idle, at, 4, 64);
        turn(&mut idle, at, false, Time::MAX);
        assert_eq!(turn(&mut idle, at + 10_000_000, true, Time::MAX), Action::Poll);
        let at = frames(&mut idle, at + 10_000_001, 4, 24);
        assert_eq!(turn(&mut idle, at, false, Time::MAX), Action::Poll);
    }

    #[test]
    fn a_turn_that_takes_long_is_no_long_gap() {
        let mut idle = IdleState::new(Idle::ADAPTIVE);
        let mut at = 0;
        for _ in 0..64 {
            turn(&mut idle, at, false, Time::MAX);
            // Found after 2 us, and worked on for 300.
            idle.on_turn((us(at + 2), us(at + 302)), true, Time::MAX);
            at += 302;
        }
        assert_eq!(turn(&mut idle, at, false, Time::MAX), Action::Poll, "the next is due in 2 us");
    }

    #[test]
    fn it_dozes_where_frames_come_sooner_than_its_latency_and_once() {
        let sleep = |micros| Action::Sleep(Duration::from_micros(micros));
        let mut idle = IdleState::new("adaptive:50us".parse().expect("a policy"));
        assert_eq!(turn(&mut idle, 0, false, Time::MAX), wait(1_000_000), "nothing is expected");
        let at = frames(&mut idle, 10, 30, 64);
        assert_eq!(turn(&mut idle, at, false, Time::MAX), sleep(50));
        assert_eq!(turn(&mut idle, at, false, us(at + 20)), sleep(20), "a timer is due earlier");
        assert_eq!(turn(&mut idle, at + 60, false, Time::MAX), wait(1_000_000), "nothing came");
        let at = frames(&mut idle, at + 100, 80, 64);
        assert_eq!(turn(&mut idle, at, false, Time::MAX), wait(1_000_000), "the next is due after it");
        let at = frames(&mut idle, at, 4, 64);
        assert_eq!(turn(&mut idle, at, false, Time::MAX), Action::Poll, "a sleep is dearer than the gap");
    }

    #[test]
    fn sleeping_waits_for_nothing_but_timers() {
        let mut idle = IdleState::new(Idle::Sleep(Duration::from_millis(1)));
        let sleep = |micros| Action::Sleep(Duration::from_micros(micros));
        assert_eq!(turn(&mut idle, 100, true, Time::MAX), Action::Poll, "there was something to do");
        assert_eq!(turn(&mut idle, 110, false, Time::MAX), sleep(1_000), "at once");
        assert_eq!(turn(&mut idle, 1_110, false, Time::MAX), sleep(1_000));
        assert_eq!(turn(&mut idle, 2_110, false, us(2_300)), sleep(190), "a timer is due earlier");
        assert_eq!(turn(&mut idle, 2_300, false, us(2_300)), Action::Poll);
        assert_eq!(turn(&mut idle, 2_301, false, us(2_300)), Action::Poll);
    }

    #[test]
    fn policies_read_and_print() {
        assert_eq!("spin".parse(), Ok(Idle::Spin));
        assert_eq!("adaptive".parse(), Ok(Idle::ADAPTIVE));
        let micros = Duration::from_micros;
        let adaptive = |latency, wait| Ok(Idle::Adaptive { latency: micros(latency), max_wait: micros(wait) });
        let spins = |spin, wait| Ok(Idle::SpinFor { spin_for: micros(spin), max_wait: micros(wait) });
        assert_eq!("adaptive:200us".parse(), adaptive(200, 1_000_000));
        assert_eq!("adaptive:0us:1s".parse(), adaptive(0, 1_000_000));
        assert_eq!("spin:50us".parse(), spins(50, 1_000_000));
        assert_eq!("spin:50us:10ms".parse(), spins(50, 10_000));
        for text in ["spin", "adaptive:50us:10ms", "adaptive:1500ns:20us", "spin:50us:10ms"] {
            assert_eq!(text.parse::<Idle>().expect("a policy").to_string(), text);
        }
        let wrong = ["", "spin:", "adaptive:", "adaptive:50", "adaptive:us", "adaptive:1us:2s", "adaptive:11ms"];
        let more = ["adaptive:1us:19us", "adaptive:1us:1ms:1", "spin:1us:1ms:1", "adaptive:99999999999999999999s", "x"];
        let huge = ["spin:18446744073709551615s", "sleep:18446744073709551615s", "sleep:18446744073709551615"];
        let sleep = |micros| Ok(Idle::Sleep(Duration::from_micros(micros)));
        for (text, micros) in [("sleep:1000", 1_000), ("sleep:1ms", 1_000), ("sleep:1", 1), ("sleep:1s", 1_000_000)] {
            assert_eq!(text.parse(), sleep(micros), "{text}");
        }
        assert_eq!("sleep:1000".parse::<Idle>().expect("a policy").to_string(), "sleep:1ms");
        let sleeps = ["sleep", "sleep:", "sleep:0", "sleep:2s", "sleep:999ns", "sleep:1:1", "sleep:-1", "sleep:1ms:1s"];
        for text in wrong.into_iter().chain(more).chain(huge).chain(sleeps) {
            assert_eq!(text.parse::<Idle>(), Err(BadIdle), "{text}");
        }
    }
}
