//! The silo's loop on a real clock.

use crate::hold::Hold;
use crate::idle::{Action, Idle, IdleState};
use crate::placement::Far;
use crate::turn::{Silo, Turn};
use app::App;
use core::hint::cold_path;
use core::time::Duration;
use cpu::Clock;
use link::{Link, LinkState};
use rustix::thread::{nanosleep, set_current_timer_slack};
use rustix::time::Timespec;
use std::io;
use std::num::NonZeroU64;
use std::os::fd::BorrowedFd;
use wire::Time;

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

/// How a silo trades latency for processor time.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Pace {
    /// What it does while there is nothing to do.
    pub idle: Idle,
    /// How long frames to send may be held back, so that one flush of the
    /// link (one notification of the peer, one system call of the driver)
    /// serves the frames of several turns: F-Stack's `pkt_tx_delay`. Zero, the
    /// default, flushes at the end of each turn.
    ///
    /// What it costs: up to this much latency for each frame sent, counted
    /// from the first that is held; and with few connections the throughput,
    /// for none asks again before it has its answer. It is cut short when
    /// half of the transmit ring is in use. What it gains depends on what a
    /// flush costs: nothing over a link whose peer polls, for a turn under
    /// load has a burst to flush anyway.
    pub tx_delay: Duration,
}

impl From<Idle> for Pace {
    fn from(idle: Idle) -> Self {
        Self { idle, tx_delay: Duration::ZERO }
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

    /// How the silo is to trade latency for processor time from now on, told
    /// once where that changed; asked for after [`Attendant::attend`].
    fn pace(&mut self) -> Option<Pace> {
        None
    }

    /// When to look after a silo that sleeps, if nothing happens until then.
    /// Asked before it does, unless it has done something that was not looked
    /// after yet: then it sleeps for [`ATTEND_ASLEEP`] at most.
    fn due(&self, silo: &Silo<L, A>, now: Time, usage: &Usage) -> Time {
        let _ = (silo, usage);
        now + ATTEND_ASLEEP
    }

    /// What else wakes a sleeping silo.
    fn wake<'a>(&'a self, app: &'a A) -> Option<BorrowedFd<'a>> {
        let _ = app;
        None
    }

    /// The account of frames that lie in another NUMA domain, while some can.
    /// Asked for in every turn.
    #[inline]
    fn far(&mut self) -> Option<&mut Far> {
        None
    }
}

/// How often a polling silo looks beside the packet path.
pub const ATTEND_EVERY: Duration = Duration::from_millis(1);

/// How long a silo that has done something sleeps at most before it looks beside
/// the packet path.
pub const ATTEND_ASLEEP: Duration = Duration::from_millis(10);

/// How soon a silo looks again for its link's other side before it starts: less
/// and less often, where nothing wakes it.
const CARRIER_WAIT: Duration = Duration::from_millis(10);
const CARRIER_WAIT_LONGEST: Duration = Duration::from_secs(1);

/// Runs a silo on this thread until its attendant stops it.
///
/// # Errors
/// If the link can no longer be waited on.
pub fn run<L: Link, A: App>(
    silo: &mut Silo<L, A>,
    pace: impl Into<Pace>,
    attendant: &mut impl Attendant<L, A>,
) -> io::Result<Usage> {
    let mut pace = pace.into();
    let clock = Clock;
    let (mut idle, mut hold) = take_up(pace);
    let mut usage = Usage::default();
    let mut now = clock.now();
    if begin(silo, &mut now, attendant)? == Next::Stop {
        return Ok(usage);
    }
    let mut carrier = LinkState::Up;
    let (mut attend_at, mut unattended, mut woken) = (now, false, false);
    loop {
        let turn = take_turn(silo, now, attendant.far());
        let active = turn.frames > 0 || turn.more;
        if hold.is_off() || hold.on_turn(now, active, silo.room()) {
            silo.flush(now);
        }
        unattended |= active;
        // Who wakes it without frames wants to be looked at: the attendant's own, or the driver.
        if now >= attend_at || (woken && !active) {
            (attend_at, unattended) = (now + ATTEND_EVERY, false);
            look_after_link(silo, now, &mut carrier);
            if attendant.attend(silo, now, &usage, carrier) == Next::Stop {
                return Ok(usage);
            }
            if let Some(other) = attendant.pace() {
                pace = other;
                // What is held back by the old one is not lost sight of.
                silo.flush(now);
                (idle, hold) = take_up(pace);
            }
        }
        woken = false;
        usage.turns += 1;
        let started = core::mem::replace(&mut now, clock.now());
        let spent = now.as_nanos().saturating_sub(started.as_nanos());
        if active {
            silo.app.on_turn_over(now);
            usage.busy_turns += 1;
            usage.busy_ns += spent;
        } else {
            usage.idle_ns += spent;
        }
        if idle.on_turn((started, now), active, turn.deadline) == Action::Poll {
            continue;
        }
        let mut deadline = turn.deadline.min(hold.deadline());
        if !matches!(pace.idle, Idle::Sleep(_)) {
            // Only before sleeping: the stack's own deadline costs a search.
            deadline =
                deadline.min(attend_asleep(silo, attendant, (now, &usage), unattended)).min(silo.stack_deadline());
        }
        let action = idle.on_turn((started, now), active, deadline);
        match action {
            Action::Poll => continue,
            Action::Wait(longest) => silo.link.wait(attendant.wake(&silo.app), longest)?,
            Action::Sleep(span) => doze(span),
        }
        let woke = clock.now();
        usage.asleep_ns += woke.as_nanos().saturating_sub(now.as_nanos());
        usage.sleeps += 1;
        now = woke;
        woken = matches!(action, Action::Wait(_));
    }
}

/// When to look after a silo that sleeps.
fn attend_asleep<L, A>(
    silo: &Silo<L, A>,
    attendant: &impl Attendant<L, A>,
    (now, usage): (Time, &Usage),
    unattended: bool,
) -> Time {
    if unattended { now + ATTEND_ASLEEP } else { attendant.due(silo, now, usage) }
}

/// Begins to trade latency for processor time like this.
fn take_up(pace: Pace) -> (IdleState, Hold) {
    if !matches!(pace.idle, Idle::Spin) {
        // Refused: it waits where others share its core.
        let _ = cpu::sched::wake_at_once();
    }
    if pace.idle.goes_by_the_clock() {
        // Refused by no kernel; without it each sleep is up to 50 µs longer.
        let _ = set_current_timer_slack(Some(SLACK));
    }
    (IdleState::new(pace.idle), Hold::new(pace.tx_delay))
}

/// A turn, in which frames are counted that lie in another domain, if any can.
#[inline(always)]
fn take_turn<L: Link, A: App>(silo: &mut Silo<L, A>, now: Time, far: Option<&mut Far>) -> Turn {
    match far {
        None => silo.turn_unflushed(now),
        Some(far) => {
            cold_path();
            silo.turn_counted(now, far)
        }
    }
}

/// Waits for what a silo needs before its first turn.
fn begin<L: Link, A: App>(
    silo: &mut Silo<L, A>,
    now: &mut Time,
    attendant: &mut impl Attendant<L, A>,
) -> io::Result<Next> {
    if await_carrier(silo, now, attendant)? == Next::Stop {
        return Ok(Next::Stop);
    }
    silo.stack.begin_turn(*now);
    silo.stack.on_link_up();
    await_addresses(silo, now, attendant)
}

/// The link's work beside the packet path, and the stack's part in it.
fn look_after_link<L: Link, A>(silo: &mut Silo<L, A>, now: Time, carrier: &mut LinkState) {
    let Silo { link, stack, .. } = silo;
    let state = link.poll_control(now);
    if core::mem::replace(carrier, state) == LinkState::Down && state == LinkState::Up {
        // It may lead elsewhere now.
        stack.on_link_up();
    }
    link.answer(&mut |remote, local| stack.owns(remote, local));
}

/// Waits until the link has another side. Nothing is sent before: it would be
/// lost, and missed only a retransmission timeout later.
fn await_carrier<L: Link, A: App>(
    silo: &mut Silo<L, A>,
    now: &mut Time,
    attendant: &mut impl Attendant<L, A>,
) -> io::Result<Next> {
    let mut pause = CARRIER_WAIT;
    while silo.link.poll_control(*now) == LinkState::Down {
        if attendant.attend(silo, *now, &Usage::default(), LinkState::Down) == Next::Stop {
            return Ok(Next::Stop);
        }
        silo.link.wait(attendant.wake(&silo.app), pause)?;
        *now = Clock.now();
        pause = (pause * 3 / 2).min(CARRIER_WAIT_LONGEST);
    }
    Ok(Next::Go)
}

/// Takes turns without the application until it is known which addresses are
/// ours, where that is asked for before they are used.
fn await_addresses<L: Link, A: App>(
    silo: &mut Silo<L, A>,
    now: &mut Time,
    attendant: &mut impl Attendant<L, A>,
) -> io::Result<Next> {
    while silo.stack.is_asking() {
        silo.turn_alone(*now);
        let state = silo.link.poll_control(*now);
        if attendant.attend(silo, *now, &Usage::default(), state) == Next::Stop {
            return Ok(Next::Stop);
        }
        let longest = silo.stack_deadline().as_nanos().saturating_sub(now.as_nanos());
        silo.link.wait(attendant.wake(&silo.app), Duration::from_nanos(longest).min(CARRIER_WAIT))?;
        *now = Clock.now();
    }
    Ok(Next::Go)
}

/// Nanoseconds by which the kernel may wake a sleeper late so that wakes fall
/// together: as little as it takes (prctl(2), PR_SET_TIMERSLACK).
const SLACK: NonZeroU64 = NonZeroU64::MIN;

/// Sleeps once; a signal ends it, so that it is heeded.
fn doze(span: Duration) {
    let seconds = i64::try_from(span.as_secs()).unwrap_or(i64::MAX);
    let _ = nanosleep(&Timespec { tv_sec: seconds, tv_nsec: span.subsec_nanos().into() });
}

#[cfg(test)]
mod tests;
