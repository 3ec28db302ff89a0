//! The silo's loop on a real clock.

use crate::idle::{Action, Idle, IdleState};
use crate::turn::Silo;
use app::App;
use core::time::Duration;
use link::{Link, LinkState};
use rustix::time::{ClockId, clock_gettime};
use std::io;
use std::os::fd::BorrowedFd;
use wire::Time;

/// The machine's monotonic clock: the only one that a bypass silo reads, once
/// per turn.
#[derive(Clone, Copy, Debug, Default)]
pub struct Clock;

impl Clock {
    /// The time now.
    #[inline]
    #[must_use]
    pub fn now(self) -> Time {
        nanos(ClockId::Monotonic)
    }

    /// The wall clock, as time since 1970.
    #[must_use]
    pub fn unix(self) -> Duration {
        Duration::from_nanos(nanos(ClockId::Realtime).as_nanos())
    }
}

fn nanos(clock: ClockId) -> Time {
    let at = clock_gettime(clock);
    Time::from_nanos((at.tv_sec as u64).wrapping_mul(1_000_000_000).wrapping_add(at.tv_nsec as u64))
}

/// How a silo spent its time.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Usage {
    /// Turns taken.
    pub turns: u64,
    /// Turns that found frames, or had more to do.
    pub busy_turns: u64,
    /// Nanoseconds of these.
    pub busy_ns: u64,
    /// Nanoseconds of turns that found nothing.
    pub idle_ns: u64,
    /// Nanoseconds asleep.
    pub asleep_ns: u64,
    /// Times gone to sleep.
    pub sleeps: u64,
}

impl Usage {
    /// What was added since `earlier`.
    #[must_use]
    pub const fn since(&self, earlier: &Self) -> Self {
        Self {
            turns: self.turns - earlier.turns,
            busy_turns: self.busy_turns - earlier.busy_turns,
            busy_ns: self.busy_ns - earlier.busy_ns,
            idle_ns: self.idle_ns - earlier.idle_ns,
            asleep_ns: self.asleep_ns - earlier.asleep_ns,
            sleeps: self.sleeps - earlier.sleeps,
        }
    }

    /// All of the time.
    #[must_use]
    pub const fn total_ns(&self) -> u64 {
        self.busy_ns + self.idle_ns + self.asleep_ns
    }
}

/// Whether the loop goes on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Next {
    /// Take the next turn.
    Go,
    /// Return from [`run`].
    Stop,
}

/// Work beside the packet path, at most once per [`ATTEND_EVERY`]: progress,
/// statistics, signals, draining.
pub trait Attendant<L, A> {
    /// Looks after the silo.
    fn attend(&mut self, silo: &mut Silo<L, A>, now: Time, usage: &Usage, link: LinkState) -> Next;

    /// What else wakes a sleeping silo.
    fn wake<'a>(&self, app: &'a A) -> Option<BorrowedFd<'a>> {
        let _ = app;
        None
    }
}

/// How often a polling silo looks beside the packet path.
pub const ATTEND_EVERY: Duration = Duration::from_millis(1);

/// How often a silo looks for its link's other side before it starts.
const CARRIER_WAIT: Duration = Duration::from_millis(10);

/// Runs a silo on this thread until its attendant stops it.
///
/// # Errors
/// If the link can no longer be waited on.
pub fn run<L: Link, A: App>(
    silo: &mut Silo<L, A>,
    policy: Idle,
    attendant: &mut impl Attendant<L, A>,
) -> io::Result<Usage> {
    let clock = Clock;
    let mut idle = IdleState::new(policy);
    let mut usage = Usage::default();
    let mut now = clock.now();
    // Nothing is sent into a link that has no other side yet: it would be
    // lost, and missed only a retransmission timeout later.
    while silo.link.poll_control(now) == LinkState::Down {
        if attendant.attend(silo, now, &usage, LinkState::Down) == Next::Stop {
            return Ok(usage);
        }
        silo.link.wait(None, CARRIER_WAIT)?;
        now = clock.now();
    }
    let mut attend_at = now;
    loop {
        let turn = silo.turn(now);
        if now >= attend_at {
            attend_at = now + ATTEND_EVERY;
            let state = silo.link.poll_control(now);
            if attendant.attend(silo, now, &usage, state) == Next::Stop {
                return Ok(usage);
            }
        }
        let active = turn.frames > 0 || turn.more;
        usage.turns += 1;
        let started = now;
        now = clock.now();
        let spent = now.as_nanos().saturating_sub(started.as_nanos());
        if active {
            usage.busy_turns += 1;
            usage.busy_ns += spent;
        } else {
            usage.idle_ns += spent;
        }
        if idle.on_turn(now, active, turn.deadline) == Action::Poll {
            continue;
        }
        // Only before sleeping: the stack's own deadline costs a search.
        let deadline = turn.deadline.min(silo.stack_deadline());
        if let Action::Wait(longest) = idle.on_turn(now, active, deadline) {
            silo.link.wait(attendant.wake(&silo.app), longest)?;
            let woke = clock.now();
            usage.asleep_ns += woke.as_nanos().saturating_sub(now.as_nanos());
            usage.sleeps += 1;
            now = woke;
            attend_at = attend_at.min(now);
        }
    }
}
