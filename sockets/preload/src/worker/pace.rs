//! How a worker trades latency for processor time: what its calls do while there is nothing to do, and
//! when what its turns have sent is shown to the link's other side.

use crate::any_link::AnyLink;
use crate::kernel::call;
use core::time::Duration;
use posix::SocketTable;
use sharing::SeatedLink;
use silo::idle::{Action, IdleState};
use silo::{Hold, Pace, Silo, Turn};
use wire::Time;

/// A call that polls looks so often at the kernel's descriptors, and whether a signal has come.
const GLANCE: Duration = Duration::from_micros(20);

/// The policies at work.
#[derive(Debug)]
pub struct WorkerPace {
    idle: IdleState,
    /// When the first turn began that found something, since a call last had to wait.
    found: Option<Time>,
    /// When a call that polls last looked at the kernel's descriptors.
    glanced: Time,
    hold: Hold,
}

impl WorkerPace {
    /// Of the thread that becomes the worker.
    pub fn new(pace: Pace, now: Time) -> Self {
        if pace.idle.goes_by_the_clock() {
            // Refused by no kernel; without it each sleep is up to 50 µs longer (prctl(2)).
            call!(SYS_prctl, libc::PR_SET_TIMERSLACK, 1, 0, 0, 0);
        }
        Self { idle: IdleState::new(pace.idle), found: None, glanced: now, hold: Hold::new(pace.tx_delay) }
    }

    /// Takes a turn, and shows what it has sent unless that is held back.
    #[inline]
    pub fn turn(&mut self, silo: &mut Silo<SeatedLink<AnyLink>, SocketTable>, now: Time) -> Turn {
        let turn = silo.turn_unflushed(now);
        let found = turn.frames > 0 || turn.more;
        if self.hold.is_off() || self.hold.on_turn(now, found, silo.room()) {
            silo.flush(now);
        }
        if found {
            self.found.get_or_insert(now);
        }
        Turn { deadline: turn.deadline.min(self.hold.deadline()), ..turn }
    }

    /// Sends what was said and looks at nothing that came; shows it unless that is held back.
    pub fn send_said(&mut self, silo: &mut Silo<SeatedLink<AnyLink>, SocketTable>, now: Time) {
        silo.send_said(now);
        if self.hold.is_off() || self.hold.on_turn(now, true, silo.room()) {
            silo.flush(now);
        }
    }

    /// What was sent is held back.
    #[inline]
    pub fn holds(&self) -> bool {
        self.hold.deadline() != Time::MAX
    }

    /// It is not any longer.
    pub fn send_held(&mut self, silo: &mut Silo<SeatedLink<AnyLink>, SocketTable>, now: Time) {
        if self.holds() {
            silo.flush(now);
            self.hold.on_flush();
        }
    }

    /// What a call does next that a turn has brought nothing, which began at `turned`: `due` is when
    /// the next is due whatever happens, and `stack_due` finds when the stack's timers are, which
    /// costs a search.
    pub fn next(&mut self, (turned, now): (Time, Time), due: Time, stack_due: impl FnOnce() -> Time) -> Action {
        if let Some(began) = self.found.take() {
            // It goes by how long nothing came.
            let _ = self.idle.on_turn((began, now), true, now);
        }
        match self.idle.on_turn((turned, now), false, due) {
            Action::Wait(_) => self.idle.on_turn((turned, now), false, due.min(stack_due())),
            action => action,
        }
    }

    /// Whether a call that polls is to look at the kernel's descriptors, after some time without.
    pub fn glances(&mut self, now: Time) -> bool {
        let is_due = now.since(self.glanced) >= GLANCE;
        if is_due {
            self.glanced = now;
        }
        is_due
    }
}
