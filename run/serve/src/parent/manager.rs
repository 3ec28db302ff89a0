//! What the service manager is told of what children say: lines, and no more than ten in
//! a second, whatever a child writes. A variable of the manager's own (`MAINPID=`,
//! `NOTIFYACCESS=`) can be in none of them, for a line has no line's end
//! ([`systemd::line`]).
//!
//! What finds no room is not lost but late: of all that waits, the newest state is told.

use super::super::systemd;
use super::quota::Quota;
use core::time::Duration;
use wire::Time;

/// Notification in a second, at most.
const LINES: u32 = 10;

/// What there is to tell. A reload that was begun is told before its end: systemd
/// waits for both (`Type=notify-reload` of systemd.service(5)).
#[derive(Debug, Default)]
pub struct Manager {
    reloading: Option<String>,
    state: Option<State>,
    alive: bool,
    /// Lines that were told.
    told: Quota,
    /// When it was last told that all are at work.
    alive_at: Option<Time>,
}

/// How a process stands.
#[derive(Clone, PartialEq, Eq, Debug)]
enum State {
    Ready(String),
    Followed(u32),
    Stopping,
}

/// One thing that is told.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Notification {
    /// A line about what is done; a state follows.
    Reloading(String),
    /// Serves, with a line about it.
    Ready(String),
    /// Another process serves, and is the one to be signalled.
    Followed(u32),
    /// Ends.
    Stopping,
    /// All are at work.
    Alive,
}

impl Manager {
    /// A child does what the line says.
    pub fn reloading(&mut self, status: &str) {
        (self.reloading, self.state) = (Some(systemd::line(status)), None);
    }

    /// A child serves.
    pub fn ready(&mut self, status: &str) {
        self.state = Some(State::Ready(systemd::line(status)));
    }

    /// This process is to be signalled in place of the parent: proven by the caller.
    pub fn followed(&mut self, pid: u32) {
        self.state = Some(State::Followed(pid));
    }

    /// A child ends.
    pub fn stopping(&mut self) {
        (self.reloading, self.state) = (None, Some(State::Stopping));
    }

    /// All workers are at work.
    pub fn alive(&mut self) {
        self.alive = true;
    }

    /// The parent itself says what is so now: what waited is of before.
    pub fn supersede(&mut self) {
        (self.reloading, self.state) = (None, None);
    }

    /// The next that may be told now; where a watchdog waits, it is told of those at work
    /// as often as it takes, `every` so often, and not more often.
    pub fn next(&mut self, now: Time, every: Option<Duration>) -> Option<Notification> {
        if self.alive {
            self.alive = false;
            let due = every.is_some_and(|every| self.alive_at.is_none_or(|at| now.since(at) >= every / 2));
            if due {
                self.alive_at = Some(now);
                return Some(Notification::Alive);
            }
        }
        if !self.waits() || now < self.room_at(now)? {
            return None;
        }
        self.told.take(now, LINES);
        let reloading = self.reloading.take().map(Notification::Reloading);
        reloading.or_else(|| {
            Some(match self.state.take()? {
                State::Ready(line) => Notification::Ready(line),
                State::Followed(pid) => Notification::Followed(pid),
                State::Stopping => Notification::Stopping,
            })
        })
    }

    /// When there is room for what waits, if anything does.
    pub fn room_at(&self, now: Time) -> Option<Time> {
        self.waits().then(|| self.told.full_until(now, LINES).unwrap_or(now))
    }

    fn waits(&self) -> bool {
        self.reloading.is_some() || self.state.is_some()
    }
}

impl Notification {
    /// Tells the service manager.
    pub fn tell(self) {
        match self {
            Self::Reloading(line) => systemd::reloading(&line),
            Self::Ready(line) => systemd::ready(&line),
            Self::Followed(pid) => systemd::succeeded(pid),
            Self::Stopping => systemd::stopping(),
            Self::Alive => systemd::alive(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WATCHED: Option<Duration> = Some(Duration::from_secs(2));

    fn all(manager: &mut Manager, now: Time) -> Vec<Notification> {
        core::iter::from_fn(|| manager.next(now, WATCHED)).collect()
    }

    /// As a child that is no longer ours would have it: 73,784 in three seconds.
    #[test]
    fn a_flood_is_ten_lines_a_second_and_the_newest_is_not_lost() {
        let mut manager = Manager::default();
        let mut told = Vec::new();
        for at in 0..30_000 {
            let now = Time::from_millis(1_000 + at / 10);
            manager.ready(&format!("line {at}"));
            manager.alive();
            told.extend(all(&mut manager, now));
        }
        let alive = told.iter().filter(|told| **told == Notification::Alive).count();
        assert_eq!((told.len() - alive, alive), (30, 3), "ten in each of three seconds, and a watchdog of 2 s");
        manager.ready("the last");
        assert_eq!(manager.room_at(Time::from_millis(3_999)), Some(Time::from_millis(4_000)));
        assert_eq!(all(&mut manager, Time::from_millis(4_000)), [Notification::Ready("the last".to_owned())]);
        assert_eq!(manager.room_at(Time::from_millis(4_000)), None);
    }

    #[test]
    fn a_reload_is_told_before_its_end_and_an_end_before_all() {
        let mut manager = Manager::default();
        let now = Time::from_millis(5_000);
        manager.reloading("reads");
        manager.ready("has read");
        let both = [Notification::Reloading("reads".to_owned()), Notification::Ready("has read".to_owned())];
        assert_eq!(all(&mut manager, now), both);
        manager.ready("old");
        manager.reloading("reads again");
        manager.stopping();
        assert_eq!(all(&mut manager, now), [Notification::Stopping]);
        manager.reloading("reads");
        manager.followed(4_321);
        assert_eq!(all(&mut manager, now).last(), Some(&Notification::Followed(4_321)));
        manager.ready("of before");
        manager.supersede();
        assert!(all(&mut manager, now).is_empty());
        manager.alive();
        assert_eq!(manager.next(now, None), None, "nobody watches");
    }

    #[test]
    fn what_a_child_writes_is_one_line() {
        let mut manager = Manager::default();
        for status in ["x\nMAINPID=1234\nNOTIFYACCESS=all", "x\r\nWATCHDOG_USEC=0", "\u{0}\u{1b}[2J\u{85}\u{2028}y"] {
            manager.reloading(status);
            manager.ready(status);
        }
        for told in all(&mut manager, Time::from_millis(1)) {
            let (Notification::Reloading(line) | Notification::Ready(line)) = told else { panic!("{told:?}") };
            assert!(!line.contains(|c: char| c.is_control() || c == '\u{2028}'), "{line:?}");
        }
    }
}
